"""Listening to the database, and to what others commit."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from demo_project.flights.models import Airline
from mcp_django.core.events import postgresql
from mcp_django.core.events.controls import EVERYBODY, ControlKind, ControlSet
from mcp_django.core.events.postgresql import PostgreSQLBus
from mcp_django.push.hub import Hub
from tests.conftest import _close_hubs
from tests.end_to_end.servers import wait_for
from tests.push.channels import (
    end_own_connections,
    listening,
    own_connections,
)
from tests.push.conftest import SUBSCRIPTION_ID, updated, watch
from tests.push.postgresql.conftest import _in_transactions
from tests.push.processes import POSTGRESQL, ServedPeer, run_python, served
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Peer, Peers, Watching

pytestmark = [
    pytest.mark.every_database,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL: TEST_DATABASE=postgresql"),
    pytest.mark.django_db(transaction=True),
]


UA, AA = "db://flights/airline/UA", "db://flights/airline/AA"


# Listening.


@pytest.fixture
def peers_of_bus(bus: PostgreSQLBus, peers: Peers) -> Peers:
    """Peers whose hub listens to PostgreSQL."""
    return peers


@pytest.fixture
def token(users: Users, flights: Any) -> str:
    return token_of(users.admin)


@pytest.fixture
def watch_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[Peer], Watching]:
    """Watches UA and AA, after the hub has joined the bus and everybody has looked for what came before that."""
    looked, handle = threading.Event(), Hub._handle

    async def handled(hub: Hub, changes: Any, controls: ControlSet) -> None:
        await handle(hub, changes, controls)
        if EVERYBODY in controls:
            looked.set()

    monkeypatch.setattr(Hub, "_handle", handled)

    def watch_both(peer: Peer) -> Watching:
        watch(peer, MODERN, UA, listen_id="makes the hub").close()
        assert looked.wait(60)
        return watch(peer, MODERN, UA, AA)

    return watch_both


@pytest.mark.http_and_duplex
def test_what_another_process_commits_is_told_to_who_listens(token: str, peers_of_bus: Peers) -> None:
    watching = watch(peers_of_bus(token), MODERN, UA, AA)

    run_python("from demo_project.flights.models import Airline; Airline.objects.get(pk='UA').save()", layer=POSTGRESQL)

    told = watching.uris(1)
    while told != [UA]:  # A hub that has just joined the bus may tell of more than there is.
        told = watching.uris(1)


def test_a_change_is_told_once(token: str, peers_of_bus: Peers, watch_later: Callable[[Peer], Watching]) -> None:
    watching = watch_later(peers_of_bus(token))

    for _ in range(3):
        with transaction.atomic():
            Airline.objects.get(pk="UA").save()
            Airline.objects.get(pk="UA").save()
        assert watching.next() == updated(UA, "sub-1")
    with transaction.atomic():
        Airline.objects.get(pk="AA").save()
    assert watching.next() == updated(AA, "sub-1")


def test_a_connection_that_the_database_ends_is_joined_again_and_everybody_looks(
    token: str, peers_of_bus: Peers, watch_later: Callable[[Peer], Watching]
) -> None:
    watching = watch_later(peers_of_bus(token))

    assert end_own_connections() == 1

    assert watching.uris(2) == [AA, UA]
    Airline.objects.get(pk="UA").save()
    assert watching.next() == updated(UA, "sub-1")


def test_a_connection_on_which_nothing_comes_any_more_is_noticed(
    token: str,
    peers_of_bus: Peers,
    watch_later: Callable[[Peer], Watching],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a firewall forgets it: both ends take it for open."""
    monkeypatch.setattr(postgresql, "_HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(postgresql, "_ANSWER_SECONDS", 2.0)
    with Firewall(5432) as firewall:
        parameters = postgresql._parameters("default")
        monkeypatch.setattr(postgresql, "_parameters", lambda alias: {**parameters, "port": firewall.port})
        watching = watch_later(peers_of_bus(token))

        firewall.forget()

        assert watching.uris(2) == [AA, UA]
        wait_for(lambda: len(own_connections()) == 2, "another connection", 60)
        _close_hubs()


class Firewall:
    """Stands before a port, and forgets connections without a word to either end."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._open: list[socket.socket] = []
        self._forgotten: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Firewall:
        self._threads[0].start()
        return self

    def forget(self) -> None:
        """Nothing comes through any more on the connections that are open now."""
        self._forgotten.update(self._open)

    def __exit__(self, *_: object) -> None:
        for one in (self._server, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for one in (self._server, *self._open):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._server.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=ends))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if source not in self._forgotten:
                    target.sendall(data)
            if source not in self._forgotten:
                target.shutdown(socket.SHUT_WR)


def test_a_stranger_who_notifies_rubbish_disturbs_nobody(
    token: str, peers_of_bus: Peers, watch_later: Callable[[Peer], Watching]
) -> None:
    watching = watch_later(peers_of_bus(token))

    with listening() as stranger:
        stranger.notify("rubbish")
        stranger.notify('{"changes":[{"alias":"nowhere","label":"no.model","written":null,"deleted":[]}]}')
        for kind in [*ControlKind, "of a newer version"]:
            stranger.notify(json.dumps({"controls": [{"kind": kind, "key": "x"}]}))
    with transaction.atomic():
        Airline.objects.get(pk="AA").save()

    assert watching.next() == updated(AA, "sub-1")
    assert own_connections() == ['LISTEN "mcp_django"']


def test_a_hub_that_ends_leaves_no_connection_and_holds_no_transaction(
    token: str,
    peers_of_bus: Peers,
    serving_loop: LoopThread,
    watch_later: Callable[[Peer], Watching],
) -> None:
    watch_later(peers_of_bus(token))
    assert _in_transactions() == []

    _close_hubs()

    wait_for(lambda: own_connections() == [], "the end of its connection", 60)


# Several processes.


@pytest.fixture(params=["uvicorn", "daphne"])
def served_peer(request: pytest.FixtureRequest, token: str, tmp_path: Path) -> Iterator[ServedPeer]:
    """The administrator's client of a server."""
    with served(request.param, "", tmp_path / "server.log", POSTGRESQL) as origin:
        peer = ServedPeer(token, origin)
        yield peer
        peer.close()


def test_servers_are_told_by_commands_of_changes_and_of_tokens(served_peer: ServedPeer) -> None:
    code = "from demo_project.flights.models import Airline; Airline.objects.get(pk='UA').save()"
    watching = served_peer.watch(MODERN, [UA])

    for _ in range(2):  # A hub that has just joined the bus may have told of more than there is.
        run_python(code, layer=POSTGRESQL)
        assert watching.uris(1) == [UA]
    run_python("from mcp_django.models import AccessToken; AccessToken.objects.get().revoke()", layer=POSTGRESQL)

    while "result" not in (message := watching.next()):
        assert message == updated(UA, message["params"]["_meta"][SUBSCRIPTION_ID])
    assert message["result"]["resultType"] == "complete"
    assert served_peer.send(MODERN, "tools/list").status == 401
