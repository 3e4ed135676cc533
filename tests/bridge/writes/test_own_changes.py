"""On *My agent* people decide about the changes of their own agents, staff or not, as on the pages of the admin."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django import Approval
from mcp_django.audit.recorder import recorder
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.console.pages import own_changes
from mcp_django.models import AccessToken, Call, Change, Tool
from tests.bridge.writes.approving import FLIGHT, notes_of, propose, staff
from tests.bridge.writes.clicking import Browser, approve, proposed, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.console.visiting import client_of, text_of
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers

pytestmark = pytest.mark.usefixtures("transactional_db")

URL = "/mcp/connected"
LIST = "/admin/mcp_django/change/"


def url_of(key: str) -> str:
    return f"{URL}?change={key}"


def read(response: Any) -> str:
    assert response.status_code == 200, response
    return text_of(response.content.decode())


def digest_in(response: Any) -> str:
    found = re.search(r'name="digest" value="(\w+)"', response.content.decode())
    assert found is not None, read(response)
    return found[1]


def decide(client: Client, key: str, choice: str = "agree", **posted: str) -> Any:
    """What the page says once it is decided, whatever the page offers."""
    return client.post(URL, {"do": "decide", "change": key, choice: "1", **posted}, follow=True)


def agree(client: Client, key: str) -> str:
    return read(decide(client, key, digest=digest_in(client.get(url_of(key)))))


# Somebody who is no staff.


@pytest.fixture
def guest(users: Users, flights: Any) -> User:
    made = User.objects.create_user("guest")
    made.user_permissions.add(Permission.objects.get(codename="view_plane"))
    return made


@pytest.fixture
def renamed(declared: Declared) -> list[tuple[str, str]]:
    """What a function of the project was called with, to which its user must agree."""
    made: list[tuple[str, str]] = []

    def rename(request: Any, old: str, new: str) -> str:
        """Rename something."""
        made.append((old, new))
        return "Renamed."

    declared.tool(rename, consent="ask", permission="flights.view_plane")
    return made


@pytest.fixture
def key(guest: User, renamed: Any, peers: Peers) -> str:
    """A change of the guest's agent that waits for the guest."""
    peer = peers(token_of(guest, *ALL_SCOPES, name="laptop"))
    waits = proposed(peer, "rename", old="Fog", new="Haze")
    assert waits["url"] == f"http://localhost{url_of(str(waits['change']))}"
    return str(waits["change"])


@pytest.mark.every_database
def test_a_user_who_is_no_staff_reads_what_waits_and_agrees_to_it(guest: User, key: str, renamed: Any) -> None:
    client = client_of(guest)

    whole, one = read(client.get(URL)), client.get(url_of(key))
    told = read(decide(client, key, digest=digest_in(one)))

    assert "Waiting for you" in whole and "Look at it and agree" in whole
    assert "What it would change now" in read(one) and "Haze" in read(one) and "Make this change" in read(one)
    assert "<title>Rename" in one.content.decode() and "· My agent ·" in one.content.decode()
    assert renamed == [("Fog", "Haze")] and state_of(key) == "applied"
    assert "The change was made." in told and "applied" in told
    assert "Waiting for you" not in read(client.get(URL))


def test_rejecting_from_the_list_and_from_its_page_tells_the_agent_why(
    guest: User, key: str, peers: Peers, renamed: Any
) -> None:
    client = client_of(guest)
    second = str(proposed(peers(token_of(guest, *ALL_SCOPES)), "rename", old="Rain", new="Snow")["change"])

    listed = read(decide(client, key, "reject"))
    alone = read(decide(client, second, "reject", note="Not in May."))

    assert "The change was rejected." in listed and "The change was rejected." in alone
    assert [Change.objects.get(pk=one).note for one in (key, second)] == ["Its user rejected it.", "Not in May."]
    assert renamed == [] and "Not in May." in read(client.get(url_of(second)))


@pytest.mark.parametrize("path", ["", "{}/change/", "{}/undo/"])
def test_the_pages_of_the_admin_lead_there_where_somebody_may_not_open_them(guest: User, key: str, path: str) -> None:
    client = client_of(guest)

    answer = client.get(f"{LIST}{path.format(key)}")

    assert (answer.status_code, answer["Location"]) == (302, url_of(key) if path else URL)
    assert client.get("/admin/mcp_django/tool/")["Location"].startswith("/admin/login/")
    # A click there decides nothing, and a stranger is asked to log in as always.
    assert client.post(f"{LIST}{key}/decide/", {"_reject": "1"})["Location"].startswith("/admin/login/")
    assert Client().get(f"{LIST}{path.format(key)}")["Location"].startswith("/admin/login/")
    assert state_of(key) == "waiting"


def test_staff_open_both(users: Users, flights: Any, declared: Declared, peers: Peers) -> None:
    declared.model(Flight, consent={"update": "ask"})
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    waits = proposed(peers(token_of(users.ops, *ALL_SCOPES)), "update_record", model=FLIGHT, id="1",
                     values={"notes": "fog"})  # fmt: skip
    key, client = str(waits["change"]), client_of(users.ops)

    assert waits["url"].endswith(f"{LIST}{key}/change/") and client.get(f"{LIST}{key}/change/").status_code == 200
    assert digest_in(client.get(url_of(key))) == Browser(users.ops).digest(key)
    assert "The change was made." in agree(client, key) and notes_of() == "fog"


# Attacks.


def test_deciding_about_the_change_of_another_user_by_its_number(
    guest: User, key: str, users: Users, renamed: Any
) -> None:
    """Neither a superuser, nor somebody who may approve changes, nor one whose page it was before."""
    digest = digest_in(client_of(guest).get(url_of(key)))
    for other in (users.admin, make_staff("bob", "mcp_django.approve_change"), User.objects.create_user("eve")):
        client = client_of(other)
        assert client.get(url_of(key)).status_code == 404
        for choice in ("agree", "reject"):
            assert decide(client, key, choice, digest=digest).status_code == 404
        assert "Fog" not in read(client.get(URL)) and key not in client.get(URL).content.decode()
    assert state_of(key) == "waiting" and renamed == []


@pytest.mark.every_database
@pytest.mark.parametrize("wrong", ["", "0" * 22, "x", "\0", "é", "%", "' OR 1=1", "a" * 10_000])
def test_guessing_a_number(guest: User, wrong: str) -> None:
    client = client_of(guest)

    assert client.get(URL, {"change": wrong}).status_code == 404
    assert decide(client, wrong).status_code == 404


def test_a_form_of_another_page(guest: User, key: str) -> None:
    client = client_of(guest, enforce_csrf_checks=True)

    for choice in ("agree", "reject"):
        assert decide(client, key, choice).status_code == 403
    stranger = Client().post(URL, {"do": "decide", "change": key, "reject": "1"})
    assert (stranger.status_code, stranger["Location"]) == (302, "/admin/login/?next=%2Fmcp%2Fconnected")
    assert state_of(key) == "waiting"


def test_agreeing_to_something_that_was_not_shown(guest: User, key: str, renamed: Any) -> None:
    client = client_of(guest)

    told = [read(decide(client, key, digest=digest)) for digest in ("", "0" * 64)]

    assert all("The records have changed since you opened this page." in one for one in told)
    assert state_of(key) == "waiting" and renamed == []
    assert decide(client, key, "approve").status_code == 400 and decide(client, key, "apply").status_code == 400


#: What was taken away since → how.
TAKEN: dict[str, Callable[[User], object]] = {
    "the permission": lambda user: user.user_permissions.clear(),
    "the token": lambda user: [token.revoke() for token in AccessToken.objects.filter(user=user)],
    "the time of the token": lambda user: AccessToken.objects.filter(user=user).update(expires_at=timezone.now()),
    "the tool": lambda user: Tool.objects.update_or_create(site="mcp", name="rename", defaults={"enabled": False}),
}  # fmt: skip


@pytest.mark.parametrize("what", TAKEN)
def test_agreeing_once_something_was_taken_away(guest: User, key: str, renamed: Any, what: str) -> None:
    client = client_of(guest)
    digest = digest_in(client.get(url_of(key)))
    TAKEN[what](guest)

    shown = client.get(url_of(key))
    told = read(decide(client, key, digest=digest))

    assert "Its agent may no longer do this" in read(shown) and "Make this change" not in read(shown)
    assert "Its agent may no longer do this" in told and renamed == [] and state_of(key) == "waiting"
    # It can be rejected all the same.
    assert "The change was rejected." in read(decide(client, key, "reject"))


def test_agreeing_as_somebody_who_acts_as_its_user(guest: User, key: str, users: Users, renamed: Any) -> None:
    client = client_of(guest)
    digest, session = digest_in(client.get(url_of(key))), client.session
    session["hijack_history"] = [str(users.admin.pk)]
    session.save()

    told = read(decide(client, key, digest=digest))

    assert "You act as another user, who must agree." in told
    assert renamed == [] and state_of(key) == "waiting"


def test_agreeing_twice_makes_it_once(guest: User, key: str, renamed: Any) -> None:
    client = client_of(guest)
    digest = digest_in(client.get(url_of(key)))

    told = [read(decide(client, key, digest=digest)) for _ in range(2)]

    assert "The change was made." in told[0] and "This change does not wait any more." in told[1]
    assert renamed == [("Fog", "Haze")]


def test_agreeing_past_what_the_admin_asks_of_its_staff(
    users: Users, flights: Any, declared: Declared, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An AdminSite asks its staff for a code. Without it they decide neither there nor here."""
    declared.model(Flight, consent={"update": "ask"})
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    peer = peers(token_of(users.ops, *ALL_SCOPES))
    key = str(proposed(peer, "update_record", model=FLIGHT, id="1", values={"notes": "fog"})["change"])
    client = client_of(users.ops)
    digest, session = digest_in(client.get(url_of(key))), client.session

    def has_permission(request: Any) -> bool:
        return bool(request.user.is_staff) and (request.path == "/mcp" or "code" in request.session)

    # What is lazy in front of the site has no attributes of its own, and they would not be put back.
    monkeypatch.setitem(vars(admin.site._wrapped), "has_permission", has_permission)  # type: ignore[attr-defined]
    shown = client.get(url_of(key)).content.decode()
    refused = client.post(URL, {"do": "decide", "change": key, "agree": "1", "digest": digest})
    waits = state_of(key)
    session["code"] = "1"
    session.save()

    assert "Decide in the admin" in shown and "Make this change" not in shown and f"{LIST}{key}/change/" in shown
    assert (refused.status_code, refused["Location"]) == (302, f"{LIST}{key}/change/") and waits == "waiting"
    assert "The change was made." in read(decide(client, key, digest=digest))


def test_reading_the_rows_of_another_tenant_under_the_keys_of_ones_own_change(
    users: Users, flights: Any, declared: Declared, ops: Writer
) -> None:
    """In the tenant in which a page is open, flight 1 is another one than the agent's."""
    declared.model(Flight, consent={"update": "ask"})
    key, client = propose(ops), client_of(users.ops)
    Flight.objects.filter(pk=1).update(number=9999)
    pages = [URL, url_of(key), LIST, f"{LIST}{key}/change/"]

    here = [client.get(page).content.decode() for page in pages]
    Change.objects.filter(pk=key).update(tenant="elsewhere")
    there = [client.get(page).content.decode() for page in pages]

    assert all("9999" in page for page in here)
    assert all("9999" not in page for page in there) and "1000" in there[0]
    assert "leads to another tenant now" in there[1] and "/flights/flight/1/" not in there[3]


# Changes that wait for others.


@pytest.fixture
def key_for_others(approved: None, bob: User, ops: Writer) -> str:
    return propose(ops)


def test_a_change_that_waits_for_others_says_for_whom_and_is_withdrawn(key_for_others: str, users: Users) -> None:
    client = client_of(users.ops)

    whole, one = read(client.get(URL)), read(client.get(url_of(key_for_others)))
    refused = decide(client, key_for_others, "agree", digest="0" * 64)
    told = read(decide(client, key_for_others, "reject", note="Wrong flight."))

    for page in (whole, one):
        assert "Who may approve: staff who may approve changes, and write these records." in page
        assert "1 person must approve · 0 have agreed" in page and "Withdraw" in page
    assert "Waiting for others" in whole and "Waiting for you" not in whole and "Make this change" not in one
    assert refused.status_code == 400
    assert "The change was withdrawn." in told and state_of(key_for_others) == "withdrawn" and notes_of() == "note 0"


def test_it_says_who_has_agreed(flights: Any, declared: Declared, bob: User, ops: Writer, users: Users) -> None:
    declared.model(Flight, consent={"update": Approval(count=2)})
    staff("carol")
    key = propose(ops)
    approve(bob, key)

    page = read(client_of(users.ops).get(url_of(key)))

    assert "2 people must approve · 1 has agreed" in page and "bob agreed" in page


def test_the_page_asks_the_database_no_more_for_many_changes(guest: User, renamed: Any, peers: Peers) -> None:
    peer, client = peers(token_of(guest, *ALL_SCOPES)), client_of(guest)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(URL).status_code == 200
        return len(captured)

    proposed(peer, "rename", old="1", new="x")
    queries()
    few = queries()
    for number in range(2, 8):
        proposed(peer, "rename", old=str(number), new="x")

    assert queries() <= few


def test_a_hundred_changes_are_not_all_on_the_page(
    guest: User, renamed: Any, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_changes, "_LISTED", 2)
    peer = peers(token_of(guest, *ALL_SCOPES))
    for number in range(4):
        proposed(peer, "rename", old=f"old{number}", new="x")

    page = read(client_of(guest).get(URL))

    assert "2 more are not shown. Decide on these first." in page and "old1" in page and "old2" not in page


def test_a_mail_leads_everybody_to_a_page_that_they_may_open(
    key: str, guest: User, users: Users, settings: Any, mailoutbox: list[Any]
) -> None:
    settings.MCP = {**settings.MCP, "BASE_URL": "https://shop.example.com"}
    User.objects.filter(pk=guest.pk).update(email="guest@example.com")

    call_command("mcp_due", verbosity=0)

    [mail] = mailoutbox
    assert mail.to == ["guest@example.com"] and f"https://shop.example.com{URL}\n" in mail.body


def test_the_trail_says_who_rejected_it(key: str, guest: User, trail: None) -> None:
    decide(client_of(guest), key, "reject")

    recorder.flush()
    line = Call.objects.get(kind=Call.Kind.DECISION)
    assert (line.reason, line.user_name, line.transport) == ("rejected", "guest", "admin")
