"""Attempts by somebody who may write to the bus, and read it, and who does not know SECRET_KEY."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import override_settings

from mcp_django.core.events.bus import BaseBus, get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet, named, sign, signed_text
from mcp_django.core.events.publisher import flush
from mcp_django.core.events.transaction import note_control
from mcp_django.exchange.cancellation import RUNNING, Cancellation
from mcp_django.models import Session
from mcp_django.push import gate as gates
from mcp_django.push import presence
from mcp_django.push.dropped import dropped
from mcp_django.push.follower import Follower
from mcp_django.push.gate import Gate
from mcp_django.push.hub import Hub
from mcp_django.push.roll_call import RollCall
from mcp_django.push.sessions import mailbox, sse_streams
from tests.end_to_end.servers import wait_for
from tests.push.conftest import Heard
from tests.push.processes import NATS_URL, PUBSUB, layer_bus, need_broker, new_prefix
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, ASGIPeer, Peers

NOBODY = "channels.layers.InMemoryChannelLayer"


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, int]]:
    """What was dropped in this test."""
    monkeypatch.setattr(dropped, "_counts", Counter())
    return dropped.by_kind


class Forgery(NamedTuple):
    """A control that somebody forges."""

    kind: ControlKind
    key: str
    #: What it makes a process do.
    gain: str
    #: What a hub is handed where it is obeyed, at once and after a pause. None: it is not obeyed.
    obeyed: tuple[Control, Control] | None = None


def looked_at(kind: ControlKind, key: str, gain: str, late: ControlKind | None = None) -> Forgery:
    return Forgery(kind, key, gain, (Control(kind, key), Control(late or kind, key)))


#: Whatever can be forged: each kind, and each form in which no process sends it.
FORGERIES = [
    looked_at(ControlKind.ACCESS, "1", "reads a user's rights again, and compares their lists"),
    looked_at(ControlKind.ACCESS, "", "reads everybody's rights again, and compares all lists"),
    looked_at(ControlKind.TOOLS, "", "compares lists"),
    looked_at(ControlKind.PROMPTS, "", "compares lists"),
    looked_at(ControlKind.RESOURCES, "", "compares lists"),
    looked_at(ControlKind.SESSION, "s", "reads what a session watches", late=ControlKind.STALE_SESSION),
    looked_at(ControlKind.TASK, "t", "reads the state of a task"),
    looked_at(ControlKind.MAIL, "m", "looks into a mailbox"),
    looked_at(ControlKind.QUESTION, "q", "looks for an answer"),
    looked_at(ControlKind.STREAM, "x", "reads the new events of a stored stream"),
    looked_at(ControlKind.CANCEL, "c", "looks into a mailbox: see the tests of running calls"),
    looked_at(ControlKind.ROLL_CALL, "r", "computes a MAC: see the tests of roll calls"),
    Forgery(ControlKind.HERE, "{}", "nothing: only the page that asked takes it in"),
    Forgery(ControlKind.STALE_SESSION, "s", "would notify a client of everything that it watches"),
    *(
        Forgery(kind, "x", "would compare lists as often as there are keys")
        for kind in (ControlKind.TOOLS, ControlKind.PROMPTS, ControlKind.RESOURCES)
    ),
    *(
        Forgery(kind, "", "would let everybody's rights be read again")
        for kind in (
            ControlKind.SESSION, ControlKind.TASK, ControlKind.MAIL, ControlKind.QUESTION, ControlKind.STREAM,
            ControlKind.CANCEL, ControlKind.ROLL_CALL,
        )
    ),
    Forgery(ControlKind.ACCESS, "9" * 1_001, "would fill the memory"),
]  # fmt: skip


class Timers:
    """Stands where the loop stands. A second is over when the test says so."""

    def __init__(self) -> None:
        self._due: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def call_later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> None:
        assert seconds == 1.0
        self._due.append((callback, args))

    def pass_a_second(self) -> None:
        due, self._due = self._due, []
        for callback, args in due:
            callback(*args)

    def __len__(self) -> int:
        return len(self._due)


class Guarded:
    """A hub behind the gate of its follower, and what comes through."""

    def __init__(self) -> None:
        self.loop = Timers()
        self._came: list[Control] = []
        self._follower = Follower(self, layer_bus(NOBODY, {}))  # type: ignore[arg-type]

    def receive(self, changes: Changes, controls: ControlSet) -> None:
        self._came += sorted(controls)

    def send(self, *controls: Control) -> None:
        self._follower.receive({"controls": [control.as_json() for control in controls]})

    def came(self) -> list[Control]:
        """What has come through since the last question."""
        came, self._came = self._came, []
        return came


# Flooding.


def test_no_kind_of_control_is_forgotten_here() -> None:
    assert {forgery.kind for forgery in FORGERIES} == set(ControlKind)


@pytest.mark.every_case
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: f"{forgery.kind} {forgery.key[:3]}".strip())
def test_making_a_process_work_by_a_flood_of_a_control(forgery: Forgery, counts: Callable[[], dict[str, int]]) -> None:
    hub, forged = Guarded(), Control(forgery.kind, forgery.key)
    at_once, late = ([], []) if forgery.obeyed is None else ([control] for control in forgery.obeyed)

    for _ in range(100):
        hub.send(forged)
    assert hub.came() == at_once
    for _ in range(3):
        hub.loop.pass_a_second()
        assert hub.came() == late
        hub.send(forged)
        assert hub.came() == []
    # The flood is over: what came last is obeyed, and then there is nothing left.
    hub.loop.pass_a_second()
    assert hub.came() == late
    hub.loop.pass_a_second()
    assert hub.came() == [] and len(hub.loop) == 0
    hub.send(forged)
    assert hub.came() == at_once

    is_dropped = forgery.obeyed is None and forgery.kind is not ControlKind.HERE
    assert counts() == ({forgery.kind: 104} if is_dropped else {})


def test_filling_the_memory_with_controls_of_many_keys_and_hiding_others_behind_them(
    monkeypatch: pytest.MonkeyPatch, counts: Callable[[], dict[str, int]]
) -> None:
    monkeypatch.setattr(gates, "_MAX_REMEMBERED", 50)
    hub, revoked = Guarded(), Control(ControlKind.ACCESS, "7")
    tools = Control(ControlKind.TOOLS)

    for number in range(1_000):
        hub.send(Control(ControlKind.TASK, f"{number}"))
    came = hub.came()
    hub.send(revoked)
    hub.send(tools)

    assert len(came) == 50 and counts() == {ControlKind.TASK: 950}
    # Nothing is looked for in the sweep but what a key names: rights are everybody's then.
    assert hub.came() == [EVERYBODY, tools]
    assert len(hub.loop) == 52


def test_what_this_process_reports_itself_passes_no_gate(serving_loop: LoopThread, settings: LazySettings) -> None:
    """Nor do the changes of rows: a save costs what it cost."""
    settings.CHANNEL_LAYERS = {}

    def refuse(gate: Gate, controls: ControlSet) -> ControlSet:
        raise AssertionError("not needed")

    change = {"alias": "default", "label": "flights.airline", "written": ["UA"], "deleted": []}
    hub = Guarded()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Gate, "admit", refuse)
        hub._follower.receive({"changes": [change]})
        heard = Heard()
        heard.join()
        for _ in range(2):
            get_bus().deliver_here(Changes(), ControlSet([EVERYBODY]))

    assert [controls for _, controls in heard.events] == [{EVERYBODY}] * 2


# Ending a running call.


@contextmanager
def a_hub(loop: LoopThread) -> Iterator[Hub]:
    async def make() -> Hub:
        return Hub(loop.loop)

    async def close() -> None:
        hub.close()

    hub = loop.run(make())
    try:
        yield hub
    finally:
        loop.run(close())


ON_POSTGRESQL = pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL")


@pytest.fixture(params=["memory", "redis", "nats", pytest.param("postgresql", marks=ON_POSTGRESQL)])
def bus(request: pytest.FixtureRequest, transactional_db: None, settings: LazySettings) -> Iterator[BaseBus]:
    """The bus of the settings, by each of its implementations."""
    settings.CHANNEL_LAYERS = {}
    if request.param == "redis":
        need_broker(PUBSUB)
        config = {"hosts": ["redis://127.0.0.1:6379"], "prefix": new_prefix()}
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": PUBSUB, "CONFIG": config}}
    elif request.param == "nats":
        need_broker("nats")
        options = {"servers": NATS_URL, "channel": new_prefix()}
        settings.MCP = {**settings.MCP, "BUS": {"BACKEND": "mcp_django.buses.NATSBus", "OPTIONS": options}}
    elif request.param == "postgresql":
        settings.MCP = {**settings.MCP, "BUS": {"BACKEND": "mcp_django.buses.PostgreSQLBus"}}
    bus = get_bus()
    yield bus
    flush()
    if request.param in ("nats", "postgresql"):
        bus.close()  # type: ignore[attr-defined]


def send(bus: BaseBus, control: Control) -> None:
    """Write to the bus, as nobody of the project does."""
    controls = ControlSet([control])
    if not bus.deliver_here(Changes(), controls):
        number = int(secrets.token_hex(4), 16)
        bus.publish({"publisher": "a forger", "started": 0.0, "number": number, "controls": controls.as_json()})


@pytest.mark.every_case
def test_ending_a_running_call_by_a_forged_cancel(
    bus: BaseBus, serving_loop: LoopThread, counts: Callable[[], dict[str, int]]
) -> None:
    mine, theirs = Cancellation(), Cancellation()
    forged, true = (Control(ControlKind.CANCEL, secrets.token_hex(32)) for _ in range(2))
    RUNNING[forged.key], RUNNING[true.key] = mine, theirs

    with a_hub(serving_loop):
        wait_for(lambda: send(bus, forged) or counts().get(ControlKind.CANCEL), "the forged control")
        mailbox.put(true)
        wait_for(lambda: theirs.cancelled, "the end of the call that its client has cancelled")

    assert not mine.cancelled


def test_a_cancelled_call_ends_at_the_control_and_does_not_wait_for_the_sweep(
    transactional_db: None, serving_loop: LoopThread, settings: LazySettings, counts: Callable[[], dict[str, int]]
) -> None:
    settings.CHANNEL_LAYERS = {}
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 3_600}
    running, cancel = Cancellation(), Control(ControlKind.CANCEL, secrets.token_hex(32))
    RUNNING[cancel.key] = running

    with a_hub(serving_loop):
        mailbox.put(cancel)
        wait_for(lambda: running.cancelled, "the end")

    assert counts() == {}


# Listing who is connected.


class Answered(NamedTuple):
    """What a hub puts on the bus."""

    there: list[str]
    listed: list[presence.Part]


def answered(heard: Heard) -> Answered:
    texts = [signed_text(control) or "" for control in heard.controls() if control.kind is ControlKind.HERE]
    parts = {text: presence.read(text) for text in texts}
    return Answered([text for text, part in parts.items() if part is None], [*filter(None, parts.values())])


NONCE, OTHER_HUB = "0" * 32, "f" * 16


def signed_with(key: str, kind: ControlKind, text: str) -> Control:
    with override_settings(SECRET_KEY=key):
        return Control(ControlKind.ROLL_CALL, sign(kind, text).key)


#: What is sent in the place of a question to the hub of this id.
CALLS: dict[str, Callable[[str], Control]] = {
    "without a signature": lambda hub: Control(ControlKind.ROLL_CALL, f"{NONCE}{hub}"),
    "with a signature that is no text": lambda hub: Control(ControlKind.ROLL_CALL, "\ud800" * 64 + NONCE + hub),
    "signed with another key": lambda hub: signed_with("a guess", ControlKind.ROLL_CALL, f"{NONCE}{hub}"),
    "with the signature of an answer": lambda hub: Control(
        ControlKind.ROLL_CALL, sign(ControlKind.HERE, f"{NONCE}{hub}").key
    ),
    "with the signature of another question": lambda hub: Control(
        ControlKind.ROLL_CALL, sign(ControlKind.ROLL_CALL, NONCE).key + hub
    ),
    "with a signature and more behind it": lambda hub: Control(
        ControlKind.ROLL_CALL, sign(ControlKind.ROLL_CALL, f"{NONCE}{hub}").key + "\n"
    ),
}


@pytest.mark.every_case
@pytest.mark.parametrize("how", CALLS)
def test_listing_who_is_connected_by_a_forged_roll_call(
    heard: Heard, serving_loop: LoopThread, how: str, counts: Callable[[], dict[str, int]]
) -> None:
    with a_hub(serving_loop) as hub:
        serving_loop.run(presence.answer(hub, [CALLS[how](hub.id)]))

    assert answered(heard) == Answered([], [])
    assert counts() == {ControlKind.ROLL_CALL: 1}


def test_listing_who_is_connected_by_a_roll_call_that_was_recorded(
    heard: Heard, serving_loop: LoopThread, counts: Callable[[], dict[str, int]]
) -> None:
    """It is answered once. A hub that is newer has another id, so it says no more than that it is there."""
    with a_hub(serving_loop) as hub, a_hub(serving_loop) as newer:
        to_all, to_hub = (sign(ControlKind.ROLL_CALL, text) for text in (NONCE, f"{NONCE}{hub.id}"))
        serving_loop.run(presence.answer(hub, [to_all]))
        serving_loop.run(presence.answer(hub, [to_hub]))
        told = answered(heard)

        for _ in range(3):
            serving_loop.run(presence.answer(hub, [to_hub]))
        serving_loop.run(presence.answer(newer, [to_all, to_hub]))
        told_again = answered(heard)

    assert (told.there, [part.hub for part in told.listed]) == ([f"{NONCE}{hub.id}"], [hub.id])
    assert told_again == Answered([f"{NONCE}{newer.id}"], [])
    assert counts() == {ControlKind.ROLL_CALL: 3}


def test_a_roll_call_that_an_older_secret_key_has_signed_is_answered(
    heard: Heard, serving_loop: LoopThread, settings: LazySettings
) -> None:
    settings.SECRET_KEY_FALLBACKS = ["older"]

    with a_hub(serving_loop) as hub:
        serving_loop.run(presence.answer(hub, [signed_with("older", ControlKind.ROLL_CALL, f"{NONCE}{hub.id}")]))

    assert len(answered(heard).listed) == 1


def test_inventing_connections_by_forged_answers(
    heard: Heard, serving_loop: LoopThread, counts: Callable[[], dict[str, int]]
) -> None:
    call, older = RollCall(), RollCall()
    with a_hub(serving_loop) as hub:
        for asked in (call, older):
            serving_loop.run(presence.answer(hub, [sign(ControlKind.ROLL_CALL, f"{asked.nonce}{hub.id}")]))
    true, recorded = (control for control in heard.controls())
    if older.nonce in true.key:
        true, recorded = recorded, true
    text = signed_text(true) or ""
    forged = Control(ControlKind.HERE, true.key.replace(hub.id, OTHER_HUB))
    unsigned = Control(ControlKind.HERE, text.replace(hub.id, OTHER_HUB))

    call.receive(Changes(), [forged, unsigned, recorded])
    assert call.taken() == {}
    call.receive(Changes(), [true])

    assert list(call.taken()) == [hub.id]
    assert counts() == {ControlKind.HERE: 2}


# Reading the ids of sessions.


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_reading_the_id_of_a_session_on_the_bus(heard: Heard, users: Users, flights: Any, peers: Peers) -> None:
    """The id of a stream of HTTP+SSE is one too."""
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    revision = LEGACY[-1]
    peer.result(revision, "resources/subscribe", {"uri": "db://flights/flight/1"})
    [key] = Session.objects.values_list("key", flat=True)
    in_session = {"Mcp-Session-Id": key, "MCP-Protocol-Version": revision}
    stream = sse_streams.open_stream("owner")

    peer.result(revision, "resources/unsubscribe", {"uri": "db://flights/flight/1"})
    peer.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}, in_session)
    peer.http("DELETE", headers=in_session)
    sse_streams.post(stream, "{}")
    told = heard.controls()

    assert {ControlKind.SESSION, ControlKind.CANCEL, ControlKind.MAIL} <= {control.kind for control in told}
    assert not [control for control in told if key in control.key or stream in control.key]
    assert Control(ControlKind.SESSION, named(key)) in told
    assert sse_streams.renew_and_take(stream) == ["{}"]


def test_a_session_that_changes_twice_in_a_second_misses_no_change_between(
    heard: Heard, serving_loop: LoopThread
) -> None:
    """The second control comes late, so the hub looks at what is watched since as at something that it has missed."""
    hub = Guarded()
    for _ in range(2):
        note_control("default", ControlKind.SESSION, named("a key"))
    changed = heard.controls()

    hub.send(*changed)
    hub.send(*changed)
    first = hub.came()
    hub.loop.pass_a_second()

    assert first == [Control(ControlKind.SESSION, named("a key"))]
    assert hub.came() == [Control(ControlKind.STALE_SESSION, named("a key"))]
