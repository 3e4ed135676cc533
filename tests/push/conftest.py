from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from demo_project.flights.models import Airline, Flight
from mcp_django.core.events.bus import LocalBus, get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import ControlSet
from mcp_django.models import Tool
from mcp_django.push.hub import Hub, _hubs
from tests.end_to_end.servers import wait_for
from tests.push.processes import ServedPeer, bus, served
from tests.support.data import Users, switch_on, token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, ASGIPeer, DuplexPeer, DuplexWatching, Message, Peer, Watching, meta

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


class Heard:
    """Stands on the bus of one process where a hub stands, and keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[tuple[Changes, ControlSet]] = []

    def join(self) -> None:
        """Stand on the bus that the settings name now."""
        bus = get_bus()
        assert isinstance(bus, LocalBus)
        bus.join(self)

    def receive(self, changes: Changes, controls: ControlSet) -> None:
        copied = Changes()
        copied.absorb(changes)
        self.events.append((copied, ControlSet(controls)))

    def changes(self) -> Changes:
        """All changes since the last question, as one."""
        merged = Changes()
        for changes, _ in self.events:
            merged.absorb(changes)
        self.events.clear()
        return merged

    def controls(self) -> ControlSet:
        """All controls since the last question."""
        found = ControlSet(control for _, controls in self.events for control in controls)
        self.events.clear()
        return found


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Changes are told when they are committed."""


@pytest.fixture
def heard(transactional_db: None, settings: LazySettings) -> Heard:
    """What the bus of this process was told."""
    settings.CHANNEL_LAYERS = {}
    heard = Heard()
    heard.join()
    return heard


@pytest.fixture
def hub(serving_loop: LoopThread) -> Callable[[], Hub]:
    """Gives the hub that serves the peers, once there is one."""
    return lambda: _hubs[serving_loop.loop]


@pytest.fixture
def touch(flights: Any) -> Callable[[], None]:
    """Changes what everybody watches, so that a test need not wait for silence."""
    return Airline.objects.get(pk="UA").save


@pytest.fixture
def jfk(flights: Any) -> Flight:
    found: Flight = flights[0]
    return found


@pytest.fixture
def ewr(flights: Any) -> Flight:
    found: Flight = flights[1]
    return found


def next_uri(watching: Watching) -> str:
    """What is told next, but for lists, which a change of permissions changes too."""
    while (message := watching.next())["method"] != "notifications/resources/updated":
        pass
    uri: str = message["params"]["uri"]
    return uri


def updated(uri: str, listen_id: int | str | None = None) -> Message:
    """The notification that a resource has changed, whole."""
    tag = {} if listen_id is None else {"_meta": {SUBSCRIPTION_ID: listen_id}}
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri, **tag}}


def list_changed(name: str, listen_id: int | str | None = None) -> Message:
    """The notification that a list has changed (tools, prompts or resources), whole."""
    told: Message = {"jsonrpc": "2.0", "method": f"notifications/{name}/list_changed"}
    return told if listen_id is None else {**told, "params": {"_meta": {SUBSCRIPTION_ID: listen_id}}}


def switch_a_tool() -> None:
    """Switch a tool on or off that administrators may use."""
    tool = Tool.objects.get(name="delay_statistics")
    tool.enabled = not tool.enabled
    tool.save()


def acknowledged(listen_id: int | str, **honoured: Any) -> Message:
    params = {"notifications": honoured, "_meta": {SUBSCRIPTION_ID: listen_id}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def listen(peer: Peer, wanted: Message, listen_id: int | str = "sub-1") -> Watching:
    """Send a modern listen; the acknowledgement is still to be read."""
    params = {"notifications": wanted, "_meta": meta()}
    message = {"jsonrpc": "2.0", "id": listen_id, "method": "subscriptions/listen", "params": params}
    if isinstance(peer, ASGIPeer):
        headers = peer.modern_headers("subscriptions/listen", params)
        return peer.stream("POST", MODERN, headers, json.dumps(message).encode())
    assert isinstance(peer, DuplexPeer)
    connection = peer.connection(MODERN)
    connection.send(message)
    return DuplexWatching(connection, MODERN, listen_id)


def watch(peer: Peer, revision: str, *uris: str, listen_id: int | str = "sub-1") -> Watching:
    """Watch in the way of the revision; a modern listen has the id ``listen_id``."""
    if revision != MODERN:
        return peer.watch(revision, list(uris))
    watching = listen(peer, {"resourceSubscriptions": list(uris)}, listen_id)
    assert watching.next() == acknowledged(listen_id, resourceSubscriptions=list(uris))
    return watching


def assert_nothing_but(watching: Watching, uri: str, touch: Callable[[], Any]) -> None:
    """``touch`` changes ``uri``, and nothing comes but that: what was told before it would come before its second."""
    for _ in range(2):
        touch()
        message = watching.next()
        assert message["params"]["uri"] == uri, message


def wait_for_first_answers() -> None:
    """Wait until each watched query has an answer that later ones are compared with, and none is being computed."""
    [hub] = _hubs.values()
    queries = hub.live._queries
    wait_for(lambda: queries and not any(query.scheduled for query in list(queries.values())), "the first answers", 60)


# Two servers.


@dataclass
class Two:
    """The same project, served twice."""

    one: str
    other: str


BUSES = ["redis", "nats", "no broker", *(["postgresql"] if connection.vendor == "postgresql" else [])]


@pytest.fixture(scope="module", params=BUSES)
def two(
    request: pytest.FixtureRequest, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Two]:
    prefix, layer = bus(request.param)
    logs: Path = tmp_path_factory.mktemp("two")
    module = "tests.push.asking_tools"
    with (
        served("uvicorn", prefix, logs / "one.log", layer, module=module) as one,
        served("uvicorn", prefix, logs / "other.log", layer, module=module) as other,
    ):
        yield Two(one, other)


@pytest.fixture
def here(two: Two, users: Users) -> Iterator[ServedPeer]:
    """An administrator's client at the one process."""
    switch_on("greet", "work")
    peer = ServedPeer(token_of(users.admin), two.one)
    peer.capabilities = {"elicitation": {}}
    yield peer
    peer.client.close()


@pytest.fixture
def there(two: Two, here: ServedPeer) -> Iterator[ServedPeer]:
    """The same client at the other process, with the same sessions."""
    peer = ServedPeer(here.token or "", two.other)
    peer.sessions = here.sessions
    yield peer
    peer.client.close()
