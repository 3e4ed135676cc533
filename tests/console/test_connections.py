"""The page *Connections*: who is connected to which process, and who may end a session or a task."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.audit.recorder import recorder
from mcp_django.core.events.bus import LocalBus, get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind, ControlSet, sign, signed_text
from mcp_django.core.events.payloads import MAX_BYTES, write
from mcp_django.models import Call, Session, Task
from mcp_django.push import presence, roll_call
from mcp_django.push.hub import _hubs
from tests.console.visiting import client_of, content_of, make_task
from tests.push.processes import NATS_URL, PUBSUB, ServedPeer, bus, new_prefix, served
from tests.support.data import Users, make_staff, token_of
from tests.support.peers import LEGACY, MODERN, Peers

pytestmark = pytest.mark.django_db

URL = "/admin/mcp_django/call/connections/"
END = f"{URL}end/"
FLIGHT = "db://flights/flight/1"


def page_of(user: User) -> str:
    response = client_of(user).get(URL)
    assert response.status_code == 200
    return response.content.decode()


def text_of(user: User) -> str:
    return content_of(client_of(user).get(URL))


def auditor(*more: str) -> User:
    return make_staff("auditor", "mcp_django.view_call", *more)


def make_session(user: User, key: str = "secret-session", **more: Any) -> Session:
    end = timezone.now() + datetime.timedelta(hours=1)
    values = {"site": "mcp", "principal_key": f"user:{user.pk}", "line": f"user:{user.pk}", "revision": LEGACY[-1]}
    return Session.objects.create(key=key, expires_at=end, **{"client_info": {"name": "old-client"}, **values, **more})


def named(page: str) -> list[str]:
    """What the buttons of a page would end."""
    return re.findall(r'name="named" value="(\w+)"', page)


class FakeHub:
    """Answers on the bus as the hub of another process would, with what a test says."""

    def __init__(self, answer: Callable[[str], list[str]]) -> None:
        self._answer = answer
        found = get_bus()
        assert isinstance(found, LocalBus)
        self._bus = found
        found.join(self)

    def receive(self, changes: Changes, controls: ControlSet) -> None:
        for control in controls:
            nonce = signed_text(control) if control.kind is ControlKind.ROLL_CALL else None
            # The question to all; those to single hubs have an id too.
            if nonce is not None and len(nonce) == 32:
                parts = ControlSet(sign(ControlKind.HERE, text) for text in self._answer(nonce))
                self._bus.deliver_here(Changes(), parts)

    def close(self) -> None:
        self._bus.leave(self)


@pytest.fixture
def local(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bus but that of this process, whose hubs are waited for as long as they take to answer."""
    settings.CHANNEL_LAYERS = {}
    monkeypatch.setattr(roll_call._wait, "__defaults__", (60.0,))


@pytest.fixture
def answering(local: None) -> Iterator[Callable[[Callable[[str], list[str]]], None]]:
    hubs: list[FakeHub] = []
    yield lambda answer: hubs.append(FakeHub(answer))
    for hub in hubs:
        hub.close()


def part(to: str, **more: Any) -> str:
    one = {
        "client": "a client", "user": "ada", "token": "laptop", "token_ends_in": "wxyz", "transport": "http",
        "since": 1.5e9, "watches": 2, "uris": ["db://flights/flight/1"], "told_at": None,
    }  # fmt: skip
    values = {
        "to": to, "hub": "f" * 16, "process": "far 7", "total": 1, "dropped": 0, "listed": 1, "number": 0, "one": one
    }  # fmt: skip
    return json.dumps({**values, **more})


# This process.


@pytest.mark.own_form
@pytest.mark.parametrize("transport", ["http-asgi", "websocket", "stdio"])
def test_a_client_that_listens_is_shown_with_what_it_watches(
    users: Users, flights: Any, peers: Peers, transport: str, local: None
) -> None:
    watched = [FLIGHT, "db://flights/airline?name=Secret", "db://flights/airline/UA"]
    peers(token_of(users.admin, name="laptop")).watch(MODERN, watched)

    text = text_of(users.admin)

    assert "No bus reaches other processes" in text
    assert "1 connection ·" in text
    # A condition, and a key that is a text, are shown to nobody.
    assert FLIGHT in text and "db://flights/airline/*" in text and "Secret" not in text and "/UA" not in text
    assert "tests admin" in text and transport.split("-", maxsplit=1)[0] in text
    if transport != "stdio":
        assert re.search(r"laptop … ?\w{4}", text)


def test_the_time_of_the_last_notification_is_shown(users: Users, flights: Any, peers: Peers, local: None) -> None:
    watching = peers(token_of(users.admin)).watch(MODERN, [FLIGHT])
    [hub] = _hubs.values()
    [listener] = hub.listeners()
    assert listener.told_at is None

    flights[0].save()
    watching.uris(1)

    [process] = roll_call.ask_everybody().processes
    assert process.clients[0].told_at == listener.told_at is not None


def test_the_first_page_and_the_activity_lead_to_it(users: Users) -> None:
    client = client_of(auditor())

    assert f'href="{URL}"' in client.get("/admin/mcp_django/").content.decode()
    assert f'href="{URL}"' in client.get("/admin/mcp_django/call/").content.decode()


def test_whoever_may_not_view_the_activity_learns_nothing(users: Users) -> None:
    make_session(users.admin)
    client = client_of(make_staff("clerk", "mcp_django.view_tool", "flights.view_flight"))

    for response in (client.get(URL), client.post(END, {"what": "session", "named": "x"})):
        assert response.status_code == 403 and b"old-client" not in response.content


# What comes over the bus.


def test_another_process_is_shown_with_its_connections(
    users: Users, flights: Any, peers: Peers, answering: Any
) -> None:
    peers(token_of(users.admin)).watch(MODERN, [FLIGHT])
    answering(lambda key: [part(key, process="<script>far 7", dropped=3)])

    text = text_of(users.admin)

    assert "<script>far" not in page_of(users.admin)
    assert "far 7" in text and "a client ada laptop …wxyz" in text.replace("… wxyz", "…wxyz")
    assert "2 connections" in text
    assert "3 messages on the bus were not obeyed" in text


FORGED: list[dict[str, Any]] = [
    {"process": "x" * 201}, {"total": -1}, {"total": "1"}, {"total": 2**40}, {"number": 200}, {"listed": 201},
    {"dropped": -1}, {"one": {}}, {"one": "x"}, {"hub": None}, {"process": "x" * 10_000}, {"to": "0" * 32}, {"to": ""},
]  # fmt: skip


def test_answers_that_are_forged_or_that_nobody_asked_for_are_dropped_and_a_flood_of_them_is_bounded() -> None:
    def taken(*texts: str) -> Any:
        call.receive(Changes(), [sign(ControlKind.HERE, text) for text in texts])
        return call.taken()

    call = roll_call.RollCall()
    for forged in FORGED:
        assert taken(part(**{"to": call.nonce, **forged}), "{", "[]", "9" * 9) == {}, forged
    for moment in ("1e400", "NaN", "-1", "1e11"):
        assert presence.read(part("x").replace("1500000000.0", moment)) is None
    assert presence.read(part("x")) is not None
    [process] = taken(part(call.nonce, total=300)).values()
    assert process.is_complete and process.left_out == 299
    assert len(taken(*(part(call.nonce, hub=f"{number}") for number in range(500)))) == 100


def test_a_question_with_a_malformed_key_is_not_answered(users: Users, flights: Any, peers: Peers, local: None) -> None:
    peers(token_of(users.admin)).watch(MODERN, [FLIGHT])
    heard: list[Control] = []

    class Spy:
        def receive(self, changes: Changes, controls: ControlSet) -> None:
            heard.extend(control for control in controls if control.kind is ControlKind.HERE)

    local_bus, spy = get_bus(), Spy()
    assert isinstance(local_bus, LocalBus)
    local_bus.join(spy)
    local_bus.deliver_here(Changes(), ControlSet([Control(ControlKind.ROLL_CALL, "x" * 5_000)]))
    answers = roll_call.ask_everybody()
    local_bus.leave(spy)

    assert answers.total == 1
    # That the hub is there, and what is connected to it.
    assert len(heard) == 2


def test_an_answer_names_the_newest_two_hundred_and_fits_into_payloads() -> None:
    client = presence.ConnectedClient(
        "\U0001f600" * 40, "u" * 150, "t" * 100, "abcd", "http", 1.5e9, 3, ("db://flights/flight/1",) * 3, None
    )
    clients = [client] * presence.MAX_LISTED

    controls = presence._answer("0" * 32, "f" * 16, 5_000, clients)

    assert len(controls) == presence.MAX_LISTED
    assert all(len(write({"controls": [control]})) < MAX_BYTES for control in controls.as_json())
    read = [presence.read(signed_text(control) or "") for control in controls]
    assert {one.number for one in read if one is not None} == set(range(presence.MAX_LISTED))


def test_a_process_that_answered_before_and_is_silent_now_is_named() -> None:
    lately = roll_call._Lately()

    assert lately.missing({"a": "one 1", "b": "two 2"}) == []
    assert lately.missing({"b": "two 2"}) == ["one 1"]


ON_POSTGRESQL = pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL")


@pytest.mark.more("three processes")
@pytest.mark.every_database
@pytest.mark.slow
@pytest.mark.parametrize("name", ["redis", "nats", pytest.param("postgresql", marks=ON_POSTGRESQL)])
def test_two_processes_answer_a_third(
    users: Users, flights: Any, transactional_db: None, settings: LazySettings, tmp_path: Path, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(roll_call, "_SECONDS", 10.0)  # So long others may take to answer, however busy they are.
    (prefix, layer), token = bus(name), token_of(users.admin, name="laptop")
    if name == "redis":
        config = {"hosts": ["redis://127.0.0.1:6379"], "prefix": prefix}
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": PUBSUB, "CONFIG": config}}
    elif name == "nats":
        settings.MCP = {
            **settings.MCP,
            "BUS": {"BACKEND": "mcp_django.buses.NATSBus", "OPTIONS": {"servers": NATS_URL, "channel": prefix}},
        }
    else:
        settings.MCP = {**settings.MCP, "BUS": {"BACKEND": "mcp_django.buses.PostgreSQLBus"}}
    log = tmp_path / "log"
    with served("uvicorn", prefix, log, layer) as one, served("uvicorn", prefix, tmp_path / "other", layer) as other:
        clients = [ServedPeer(token, one), ServedPeer(token, other)]
        for client in clients:
            client.watch(MODERN, [FLIGHT])

        text = text_of(users.admin)

        for client in clients:
            client.close()
    assert "2 connections" in text and "No bus" not in text
    assert text.count(FLIGHT) == 2 and text.count("laptop") == 2


def test_a_broker_that_is_away_is_reported(users: Users, settings: LazySettings) -> None:
    config = {"hosts": ["redis://127.0.0.1:1"], "prefix": new_prefix()}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": PUBSUB, "CONFIG": config}}

    assert "The bus could not be used" in text_of(users.admin)


# Sessions and tasks.


def test_stored_sessions_and_open_tasks_are_listed_without_their_keys(users: Users, local: None) -> None:
    make_session(users.ops)
    make_session(users.ops, "another", principal_key="user:not-a-number")
    make_session(users.ops, "a third", principal_key="anonymous")
    make_task(users.viewer)

    page = page_of(auditor())

    assert "user:not-a-number" in page and "anonymous" in page
    assert "old-client" in page and "recount" in page and "ops" in page and "viewer" in page
    assert "secret-session" not in page and "secret-task" not in page
    assert named(page) == []


def test_the_page_asks_the_database_little_for_a_hundred_rows_of_each(users: Users, local: None) -> None:
    for number in range(102):
        make_session(users.ops, f"session-{number}")
        make_task(users.viewer, key=f"task-{number}")
    client = client_of(users.admin)
    client.get(URL)

    with CaptureQueriesContext(connection) as asked:
        page = client.get(URL).content.decode()

    assert len(asked) < 20
    assert len(named(page)) == 200


@pytest.mark.every_database
def test_what_has_ended_is_not_listed(users: Users, local: None) -> None:
    Session.objects.filter(pk=make_session(users.ops).pk).update(expires_at=timezone.now())
    make_task(users.viewer, state=Task.State.COMPLETED)

    page = page_of(users.admin)

    assert "old-client" not in page and "recount" not in page
    assert "No process has a client that stays connected." in text_of(users.admin)


def test_a_superuser_ends_a_session(users: Users, local: None) -> None:
    make_session(users.ops)
    kept = make_session(users.viewer, "kept")
    client = client_of(users.admin)
    _, oldest = named(client.get(URL).content.decode())

    response = client.post(END, {"what": "session", "named": oldest})

    assert response.status_code == 302 and response["Location"] == URL
    assert list(Session.objects.all()) == [kept]


def test_a_user_ends_a_task_of_their_own_and_no_other(users: Users, local: None) -> None:
    user = auditor()
    mine, other = make_task(user), make_task(users.ops, key="other")
    [mine_named] = named(page_of(user))

    assert client_of(user).post(END, {"what": "task", "named": mine_named}).status_code == 302

    mine.refresh_from_db()
    other.refresh_from_db()
    assert (mine.state, mine.message) == (Task.State.CANCELLED, "Cancelled in the admin.")
    assert other.state == Task.State.ASKING


def test_a_row_of_somebody_else_cannot_be_ended_by_its_digest(users: Users, local: None) -> None:
    """Not even by a viewer who has got the digest from a superuser."""
    make_session(users.ops)
    make_task(users.ops)
    client = client_of(auditor())

    for what, digest in product(("session", "task"), named(page_of(users.admin))):
        assert client.post(END, {"what": what, "named": digest}).status_code == 302
    assert Session.objects.live().count() == 1 and Task.objects.get().state == Task.State.ASKING


@pytest.mark.every_database
def test_a_guess_ends_nothing(users: Users, local: None) -> None:
    make_session(users.admin)
    make_task(users.admin)
    guesses = [
        {"what": "session", "named": "secret-session"}, {}, {"what": "session"}, {"what": "user", "named": "1"},
        {"what": "task", "named": "é" * 9_000},
    ]  # fmt: skip

    assert [client_of(users.admin).post(END, sent).status_code for sent in guesses] == [302] * 5
    assert Session.objects.live().count() == 1 and Task.objects.get().state == Task.State.ASKING


def test_a_forged_post_ends_nothing(users: Users, local: None) -> None:
    make_session(users.admin)
    [digest] = named(page_of(users.admin))
    client = client_of(users.admin, enforce_csrf_checks=True)

    assert client.post(END, {"what": "session", "named": digest}).status_code == 403
    assert client.get(END, {"what": "session", "named": digest}).status_code == 405
    assert Session.objects.live().count() == 1


def test_an_ending_is_in_the_trail_with_who_did_it(
    users: Users, transactional_db: None, settings: LazySettings, local: None
) -> None:
    settings.MCP = {**settings.MCP, "AUDIT": "on"}
    make_session(users.ops)
    client = client_of(users.admin)
    [digest] = named(client.get(URL).content.decode())

    client.post(END, {"what": "session", "named": digest})
    recorder.flush()

    line = Call.objects.get(method="end of a session")
    assert (line.kind, line.user_name, line.transport, line.reason) == ("ending", "admin", "admin", "ended")
    assert json.loads(line.values) == {"owner": f"user:{users.ops.pk}"}
    assert "secret-session" not in str(vars(line))


def test_a_stream_ends_with_its_session(users: Users, flights: Any, peers: Peers, local: None) -> None:
    watching = peers(token_of(users.admin)).watch(LEGACY[-1], [FLIGHT])
    client = client_of(users.admin)
    [digest] = named(client.get(URL).content.decode())

    client.post(END, {"what": "session", "named": digest})

    with pytest.raises(EOFError):
        watching.next()
