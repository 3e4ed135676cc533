"""Several processes of one project: what one of them does, the clients of another are told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.conftest import is_listening, need
from tests.push.conftest import updated, watch
from tests.push.processes import (
    CORE,
    NATS,
    NATS_URL,
    PUBSUB,
    ServedPeer,
    ServedSocket,
    Tape,
    bus,
    layer_bus,
    new_prefix,
    run_python,
    served,
)
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, Peers

pytestmark = [pytest.mark.more("several processes over each bus; `make test` has two servers"), pytest.mark.slow]

FLIGHT = "db://flights/flight/1"
TOOL = "flights_flight_mark_cancelled"
SAVE = "from demo_project.flights.models import Flight; Flight.objects.get(pk=1).save()"


#: The prefix and the layer of a bus.
On = tuple[str, str]


@pytest.fixture(scope="module", params=["redis", "nats"])
def on(request: pytest.FixtureRequest) -> On:
    return bus(request.param)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def uvicorn(on: On, logs: Path, django_db_setup: None) -> Iterator[str]:
    prefix, layer = on
    with served("uvicorn", prefix, logs / f"uvicorn-{layer}.log", layer) as origin:
        yield origin


@pytest.fixture(scope="module")
def daphne(on: On, logs: Path, django_db_setup: None) -> Iterator[str]:
    prefix, layer = on
    with served("daphne", prefix, logs / f"daphne-{layer}.log", layer) as origin:
        yield origin


@pytest.fixture(scope="module")
def gunicorn(on: On, logs: Path, django_db_setup: None) -> Iterator[str]:
    """A WSGI server."""
    prefix, layer = on
    with served("gunicorn", prefix, logs / f"gunicorn-{layer}.log", layer) as origin:
        yield origin


def run(code: str, on: On) -> None:
    """Run Python in a process on the bus, to its end."""
    prefix, layer = on
    run_python(code, prefix, layer=layer)


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    """Closes what is put into it."""
    opened: list[Any] = []
    yield opened
    for one in opened:
        one.close()


@pytest.fixture(params=["uvicorn", "daphne"])
def origin(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def peer(users: Users, flights: Any, origin: str, closing: list[Any]) -> ServedPeer:
    """The administrator's client of an ASGI server."""
    peer = ServedPeer(token_of(users.admin), origin)
    closing.append(peer)
    return peer


def test_what_a_short_command_saves_is_told_over_http_and_websocket(
    peer: ServedPeer, on: On, closing: list[Any]
) -> None:
    stream = peer.watch(MODERN, [FLIGHT])
    assert peer.token is not None
    socket = ServedSocket(peer.token, peer.origin, [FLIGHT])
    closing.append(socket)

    run(SAVE, on)

    assert stream.uris(1) == [FLIGHT]
    assert socket.uris(1) == [FLIGHT]


def test_it_is_told_over_the_core_layer_too(users: Users, flights: Any, logs: Path, closing: list[Any]) -> None:
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    prefix = new_prefix()
    with served("uvicorn", prefix, logs / "core.log", CORE) as origin:
        peer = ServedPeer(token_of(users.admin), origin)
        closing.append(peer)
        stream = peer.watch(MODERN, [FLIGHT])

        run_python(SAVE, prefix, layer=CORE)

        assert stream.uris(1) == [FLIGHT]
        peer.close()


def test_what_a_wsgi_server_saves_is_told_by_an_asgi_server(
    peer: ServedPeer, gunicorn: str, closing: list[Any]
) -> None:
    stream = peer.watch(MODERN, [FLIGHT])
    assert peer.token is not None
    elsewhere = ServedPeer(peer.token, gunicorn)
    closing.append(elsewhere)

    result = elsewhere.call(TOOL, ids=["1"])

    assert not result.get("isError"), result
    assert stream.uris(1) == [FLIGHT]


def test_a_session_may_subscribe_at_another_process_than_the_one_that_holds_its_stream(
    users: Users, flights: Any, uvicorn: str, daphne: str, on: On, closing: list[Any]
) -> None:
    token = token_of(users.admin)
    here, there = ServedPeer(token, uvicorn), ServedPeer(token, daphne)
    closing.extend([here, there])
    stream = here.watch(LEGACY[-1], [])
    there.sessions = here.sessions

    there.result(LEGACY[-1], "resources/subscribe", {"uri": FLIGHT})
    run(SAVE, on)

    assert stream.next() == updated(FLIGHT)


def test_a_tool_that_is_switched_off_elsewhere_is_gone_when_the_change_is_told(peer: ServedPeer, on: On) -> None:
    stream = peer.watch(MODERN, [], tools=True)
    assert TOOL in peer.tools()

    run(f"""
from mcp_django.models import Tool
tool = Tool.objects.get(name={TOOL!r})
tool.enabled = False
tool.save()
""", on)  # fmt: skip

    assert stream.next()["method"] == "notifications/tools/list_changed"
    assert TOOL not in peer.tools()


def test_lists_that_a_group_has_no_more_are_told_by_each_process_and_are_gone_from_every_process(
    users: Users, flights: Any, uvicorn: str, daphne: str, on: On, closing: list[Any]
) -> None:
    token = token_of(users.viewer)
    peers = [ServedPeer(token, uvicorn), ServedPeer(token, daphne)]
    other = ServedPeer(token_of(users.ops), daphne)
    closing.extend([*peers, other])
    streams = [peer.watch(MODERN, [], tools=True, resources=True) for peer in peers]
    spying = other.watch(MODERN, [FLIGHT], tools=True, resources=True)

    run("""
from django.contrib.auth.models import Group, Permission
Group.objects.get(name="Flight viewers").permissions.remove(Permission.objects.get(codename="view_airport"))
""", on)  # fmt: skip

    told = []
    for stream in streams:
        told.append(stream.next()["method"])
        # Whoever is asked, it is the new one: the other process may not have heard of it yet.
        for peer in peers:
            listed = peer.result(MODERN, "resources/list")["resources"]
            assert "db://flights/airport" not in [resource["uri"] for resource in listed]
        told.append(stream.next()["method"])
    assert told == ["notifications/tools/list_changed", "notifications/resources/list_changed"] * 2
    run(SAVE, on)
    assert spying.uris(1) == [FLIGHT]


def test_a_token_that_is_revoked_elsewhere_opens_nothing_more_and_its_streams_end(peer: ServedPeer, on: On) -> None:
    stream = peer.watch(MODERN, [FLIGHT])

    run("from mcp_django.models import AccessToken; AccessToken.objects.get().revoke()", on)

    assert peer.send(MODERN, "tools/list").status == 401
    assert stream.next()["result"]["resultType"] == "complete"
    with pytest.raises(EOFError):
        stream.next()


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_what_another_process_saves_right_after_the_first_listen_was_acknowledged_is_told(
    transport: str, users: Users, flights: Any, serving_loop: LoopThread, settings: LazySettings, peers: Peers
) -> None:
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    config = {"hosts": ["redis://127.0.0.1:6379"], "prefix": new_prefix()}
    token = token_of(users.admin)
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "tests.push.processes.SlowToJoin", "CONFIG": config}}
    change = {"alias": "default", "label": "flights.flight", "written": ["1"], "deleted": []}
    hours_ago = time.time() - 7_200

    watching = watch(peers(token), MODERN, FLIGHT)
    elsewhere = layer_bus(PUBSUB, config)
    elsewhere.publish({"publisher": "x", "started": hours_ago, "number": 7, "changes": [change]})

    assert watching.next() == updated(FLIGHT, "sub-1")


@pytest.mark.parametrize("name", ["redis", "nats"])
@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_lost_event_is_made_good_when_the_number_is_repeated(
    name: str,
    transport: str,
    users: Users,
    flights: Any,
    serving_loop: LoopThread,
    settings: LazySettings,
    peers: Peers,
) -> None:
    prefix, layer = bus(name)
    token = token_of(users.admin)
    if layer == NATS:
        settings.MCP = {
            **settings.MCP,
            "BUS": {"BACKEND": "mcp_django.buses.NATSBus", "OPTIONS": {"servers": NATS_URL, "channel": prefix}},
        }
    else:
        config = {"hosts": ["redis://127.0.0.1:6379"], "prefix": prefix}
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": PUBSUB, "CONFIG": config}}
    peer = peers(token)
    peer.result(MODERN, "server/discover")
    tape = Tape(prefix, layer, serving_loop)
    watching = watch(peer, MODERN, FLIGHT, "db://flights/airline/UA")
    started = time.time()
    change = {"alias": "default", "label": "flights.flight", "written": ["1"], "deleted": []}
    tape.bus.publish({"publisher": "x", "started": started, "number": 1, "changes": [change]})
    heard = watching.uris(1)

    tape.bus.publish({"publisher": "x", "started": started, "number": 2})
    tape.close()

    assert heard == [FLIGHT]
    assert watching.uris(2) == ["db://flights/airline/UA", FLIGHT]
