"""The click in the admin makes a change as its agent would: as its user, with the rights that there are by then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.db import connection, connections
from django.utils import timezone, translation

from demo_project.flights.models import Flight
from mcp_django.audit.recorder import recorder
from mcp_django.bridge.changes import change_rows
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import AccessToken, Call, Change, Tool
from mcp_django.server import waiting_changes
from tests.bridge.writes import remembering
from tests.bridge.writes.clicking import Browser, proposed, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, save_with
from tests.end_to_end.servers import wait_for
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Message, Peer, Peers

pytestmark = pytest.mark.usefixtures("transactional_db")

GONE = "Its agent may no longer do this: a token, a permission or a tool was removed."
UPDATE: Message = {"model": "flights.flight", "id": "3", "values": {"notes": "fog"}}


@pytest.fixture
def clerk(users: Users, flights: Any) -> Any:
    """Somebody who may change flights, and delete them."""
    return make_staff("clerk", "flights.view_flight", "flights.change_flight", "flights.delete_flight",
                      "flights.view_disruption", "flights.delete_disruption", "mcp_django.view_change")  # fmt: skip


@pytest.fixture
def agent(clerk: Any, peers: Peers) -> Peer:
    """The client of the clerk, which cannot ask."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return peers(token_of(clerk, *ALL_SCOPES, name="laptop"))


@pytest.fixture
def browser(agent: Peer, clerk: Any) -> Browser:
    return Browser(clerk)


def deleting(peer: Peer, key: str = "3") -> str:
    """The number of a delete that waits."""
    return str(proposed(peer, "delete_record", model="flights.flight", ids=[key])["change"])


def status_of(peer: Peer, key: str) -> Message:
    found: Message = peer.call("get_change", change=key)["structuredContent"]
    return found


def updating(peer: Peer, declared: Declared, save_model: Callable[[Any, Any], object]) -> str:
    """The number of an update that waits, with an admin of flights that calls this before it saves."""
    save_with(declared, save_model)
    declared.model(Flight, consent={"update": "ask"})
    return str(proposed(peer, "update_record", **UPDATE)["change"])


# As the agent.


@pytest.mark.every_database
def test_a_click_makes_the_change(agent: Peer, browser: Browser) -> None:
    key = deleting(agent)

    told = browser.apply(key)

    assert told == ["The change was made."]
    assert not Flight.objects.filter(pk=3).exists()
    assert status_of(agent, key)["status"] == "applied"
    [entry] = LogEntry.objects.filter(action_flag=DELETION)
    assert entry.change_message == f'By agent "tests" (as it calls itself), token "laptop", change {key}.'


@pytest.mark.every_database
@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("is_atomic", [True, False])
def test_what_a_middleware_keeps_is_a_request_of_the_agent_and_not_the_click_nor_is_its_transaction_there(
    agent: Peer, browser: Browser, clerk: Any, declared: Declared, settings: Any,
    monkeypatch: pytest.MonkeyPatch, is_atomic: bool,
) -> None:  # fmt: skip
    """Packages for histories read the user from the request that a middleware keeps, and it would be the click's."""
    found: list[Any] = []
    here = threading.get_ident()

    def look(request: Any, obj: Any) -> None:
        assert threading.get_ident() != here
        found.append((remembering.remembered(), request.user, request.mcp.client.name, request.path))

    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.bridge.writes.remembering.middleware"]
    key = updating(agent, declared, look)
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", is_atomic)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", is_atomic)

    told = browser.apply(key)

    assert told == ["The change was made."]
    [(requests, user, name, path)] = found
    assert (user, name) == (clerk, "tests")
    assert [(one.user, one.path) for one in requests] == [(clerk, "/mcp")] * 3
    assert "decide" not in path
    assert Flight.objects.get(pk=3).notes == "fog"
    [entry] = LogEntry.objects.filter(action_flag=CHANGE)
    assert entry.user == clerk


@pytest.fixture
def lines(settings: Any) -> Iterator[Callable[[], list[Any]]]:
    """The lines of clicks in the audit trail."""
    recorder._reset()
    settings.MCP = {**settings.MCP, "AUDIT": "on"}

    def read() -> list[Any]:
        recorder.flush()
        names = ("name", "user_name", "token_name", "model", "keys", "outcome", "reason", "client_name")
        return list(Call.objects.filter(transport="admin").order_by("pk").values(*names))

    yield read
    recorder._reset()


LINE = {
    "name": "delete_record", "user_name": "clerk", "token_name": "laptop", "model": "flights.flight",
    "client_name": "tests", "keys": "", "reason": "",
}  # fmt: skip


def test_each_click_has_a_line_in_the_audit_trail_and_one_that_is_refused_is_no_failure_of_the_server(
    agent: Peer, browser: Browser, lines: Callable[[], list[Any]]
) -> None:
    made, key = deleting(agent), deleting(agent, "4")

    browser.apply(made)
    browser.decide(key, "apply", digest="0" * 32)
    Tool.objects.filter(name="delete_record").update(enabled=False)
    browser.decide(key, "apply", digest="0" * 32)

    assert lines() == [
        {**LINE, "keys": " 3 ", "outcome": "done"},
        {**LINE, "outcome": "failed", "reason": "ROWS_CHANGED"},
        {**LINE, "outcome": "refused", "reason": "SWITCHED_OFF"},
    ]


def test_it_speaks_the_language_of_the_call_and_not_that_of_the_browser(
    agent: Peer, clerk: Any, declared: Declared, settings: Any
) -> None:
    languages: list[Any] = []
    key = updating(agent, declared, lambda *_: languages.append(translation.get_language()))
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]

    page = Browser(clerk, accept_language="de").page(key)
    Browser(clerk, accept_language="de").apply(key)

    assert 'lang="de"' in page.content.decode()
    assert languages == ["en-us"]
    assert LogEntry.objects.get(action_flag=CHANGE).change_message.startswith("Changed Notes. (by agent")


# With the rights that there are by then.


def _without_staff(clerk: Any, **values: Any) -> None:
    type(clerk).objects.filter(pk=clerk.pk).update(**values)


#: What may be gone by then.
LOSSES: dict[str, Callable[[Any], object]] = {
    "token": lambda clerk: AccessToken.objects.all().delete(),
    "time of the token": lambda clerk: AccessToken.objects.update(expires_at=timezone.now() - timedelta(minutes=1)),
    "scope": lambda clerk: AccessToken.objects.update(scopes=["read"]),
    # The change is made with the scopes that its token had and still has.
    "scope for the model": lambda clerk: AccessToken.objects.update(scopes=["read", "model:flights.airline:write"]),
    "permission": lambda clerk: clerk.user_permissions.filter(codename="delete_flight").delete(),
    "tool": lambda clerk: Tool.objects.filter(name="delete_record").update(enabled=False),
    "access to the admin": lambda clerk: _without_staff(clerk, is_staff=False),
    "user": lambda clerk: _without_staff(clerk, is_active=False),
}


@pytest.mark.parametrize("what", LOSSES)
def test_a_right_that_is_gone_is_not_used_and_the_page_says_so(
    agent: Peer, browser: Browser, clerk: Any, what: str
) -> None:
    key = deleting(agent)
    digest = browser.digest(key)
    LOSSES[what](clerk)

    page = browser.page(key)
    with pytest.raises(waiting_changes.CannotApply):
        waiting_changes.apply(Change.objects.get(pk=key), digest)
    told = browser.decide(key, "apply", digest=digest)

    if what in ("access to the admin", "user"):
        assert page.status_code == told.status_code == 302 and "/login/" in told["Location"]
    else:
        text = page.content.decode()
        assert 'name="_apply"' not in text and 'name="_reject"' in text
        assert GONE in text or what != "token"
        assert len(said(told)) == 1 and said(told) != ["The change was made."]
    assert Flight.objects.filter(pk=3).exists()
    assert state_of(key) == "waiting"
    assert LogEntry.objects.count() == 0


# Who may click.


def test_another_user_cannot_decide_it(agent: Peer, users: Users) -> None:
    key = deleting(agent)
    other = Browser(users.admin)

    page = other.page(key)
    statuses = [other.decide(key, decision).status_code for decision in ("apply", "reject")]

    assert page.status_code == 200
    assert 'name="_apply"' not in page.content.decode()
    assert statuses == [403, 403]
    assert state_of(key) == "waiting"


# What was shown.


def test_a_row_that_changes_before_the_click_is_shown_again_and_one_that_is_gone_is_said(
    agent: Peer, browser: Browser
) -> None:
    key, other = deleting(agent), deleting(agent, "4")
    digest, of_other = browser.digest(key), browser.digest(other)
    Flight.objects.filter(pk=3).update(notes="another one is on board")
    Flight.objects.filter(pk=4).delete()

    told = said(browser.decide(key, "apply", digest=digest))
    again = browser.apply(key)
    [gone] = said(browser.decide(other, "apply", digest=of_other))

    assert told == ["The records have changed since you opened this page. Look at the change again."]
    assert again == ["The change was made."]
    assert gone.startswith("There is no such record. Nothing was changed.")
    assert state_of(other) == "waiting"


@pytest.mark.every_database
def test_a_row_that_changes_after_the_claim_is_kept(
    agent: Peer, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, claim = deleting(agent), change_rows.claim

    def claim_and_change(change: Change) -> bool:
        claimed = claim(change)
        Flight.objects.filter(pk=3).update(notes="another one is on board")
        return claimed

    monkeypatch.setattr(change_rows, "claim", claim_and_change)
    told = browser.apply(key)

    assert told == ["The records have changed since you opened this page. Look at the change again."]
    assert state_of(key) == "waiting"
    assert Flight.objects.filter(pk=3).exists()


# Once.


@pytest.mark.every_database
def test_two_clicks_at_the_same_time_make_one_change(agent: Peer, browser: Browser, clerk: Any) -> None:
    key = deleting(agent)
    digest, together = browser.digest(key), threading.Barrier(2, timeout=60)

    def click(one: Browser) -> list[str]:
        try:
            together.wait()
            return said(one.decide(key, "apply", digest=digest))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        told = [text for texts in pool.map(click, [browser, Browser(clerk)]) for text in texts]

    assert told.count("The change was made.") == 1
    assert len(told) == 2
    assert LogEntry.objects.filter(action_flag=DELETION).count() == 1


def test_a_change_that_was_rejected_or_has_waited_for_too_long_is_not_made(agent: Peer, browser: Browser) -> None:
    rejected, late = deleting(agent), deleting(agent, "4")
    digests = {key: browser.digest(key) for key in (rejected, late)}
    browser.reject(rejected, "It did leave.")
    Change.objects.filter(pk=late).update(expires_at=timezone.now() - timedelta(seconds=1))

    told = [said(browser.decide(key, "apply", digest=digest)) for key, digest in digests.items()]

    assert told == [["This change does not wait any more."]] * 2
    assert status_of(agent, rejected)["notes"] == ["It did leave."]
    assert status_of(agent, late)["status"] == "expired"
    assert 'name="_apply"' not in browser.page(late).content.decode()
    assert Flight.objects.filter(pk__in=[3, 4]).count() == 2


@pytest.mark.parametrize(
    ("seconds", "told", "state"),
    [
        (3_600, "This change does not wait any more.", "writing"),
        (-1, "The change was rejected. Nothing was changed.", "rejected"),
    ],
)
def test_a_change_is_rejected_only_once_the_run_that_writes_it_is_gone(
    agent: Peer, browser: Browser, seconds: int, told: str, state: str
) -> None:
    key = deleting(agent)
    Change.objects.update(state="writing", run="one", lease_until=timezone.now() + timedelta(seconds=seconds))

    assert browser.reject(key) == [told]
    assert state_of(key) == state


# What fails.


def test_a_model_that_fails_fails_the_change(
    agent: Peer, browser: Browser, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: Any, obj: Any) -> None:
        raise RuntimeError("the secret of the trade")

    key = updating(agent, declared, fail)

    told = browser.apply(key)

    assert told == ["It failed. The server's log has the details."]
    assert state_of(key) == "failed"
    assert "the secret" not in str(status_of(agent, key))
    assert "the secret of the trade" in caplog.text
    assert Flight.objects.get(pk=3).notes == "note 2"


@pytest.mark.every_database
def test_a_change_that_takes_longer_than_a_request_may_is_stopped(
    agent: Peer, browser: Browser, declared: Declared, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The time is over in the middle of the save: nothing is written, and the change does not stay claimed."""
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 7.0}
    given: list[float] = []
    expire: list[Any] = []

    @contextmanager
    def within(seconds: float, callback: Any) -> Any:
        given.append(seconds)
        expire.append(callback)
        yield

    def let_it_expire(request: Any, obj: Any) -> None:
        obj.save()
        stopping = threading.Thread(target=expire[-1])
        is_stopped = threading.Event()
        request.mcp.cancellation.when_cancelled(is_stopped.set)
        stopping.start()
        assert is_stopped.wait(60)
        wait_for(lambda: request.mcp.cancellation.queries.interrupted, "the end of all queries", 60)

    key = updating(agent, declared, let_it_expire)
    monkeypatch.setattr("mcp_django.core.running.deadlines.deadlines.within", within)

    [told] = browser.apply(key)

    assert set(given) == {7.0}
    assert told.startswith("The request was stopped: it took longer than the server allows (REQUEST_SECONDS).")
    assert Flight.objects.get(pk=3).notes == "note 2"
    assert status_of(agent, key)["notes"] == [told]
    assert state_of(key) == "failed"
