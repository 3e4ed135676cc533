"""Which cases of a test are run: its parameters are axes, and so is its transport. A lane says which points count.

| lane | which tests | which points of their axes |
|---|---|---|
| ``check`` | all but slow and long ones, and those marked ``more`` or ``release`` | the first, over one transport |
| ``test`` | all but those marked ``more`` or ``release`` | the first, over each transport |
| ``more`` | all but those marked ``release`` | each once, over one transport: what the lane ``test`` has not run |
| ``release`` | all | all combinations |

A test that is marked ``more`` has each of its points once in that lane, over each transport. A test that is marked
``every_case`` has each of them once in every lane.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests import slow

HTTP = ("http-view-wsgi", "http-view-asgi", "http-asgi")
DUPLEX = ("websocket", "stdio")
#: Optional ones, which carry the same messages: each may stand in for another transport in its tests (``--wire``).
WIRES = {"http-protobuf": "http-asgi", "grpc": "websocket"}
OVER_HTTP = (*HTTP, "http-protobuf")
#: Those whose messages are JSON text.
TEXT = (*HTTP, *DUPLEX)
TRANSPORTS = (*TEXT, *WIRES)
#: Those with the headers of HTTP, which anybody may try.
NETWORK = tuple(name for name in TRANSPORTS if name not in ("stdio", "grpc"))
#: Tests that do not depend on the transport use one, where a request crosses from an event loop to a thread.
ONE = "http-asgi"
#: Attacks use one HTTP transport, and one connection on which both sides may send at any time.
HTTP_AND_DUPLEX = (ONE, "websocket")
PUSHING = tuple(name for name in TRANSPORTS if name != "http-view-wsgi")
#: The order in which a test that is run over one transport chooses among those that it knows.
PREFERRED = (ONE, "websocket", *TRANSPORTS)

#: Each lane holds the tests of those before it.
LANES = ("check", "test", "more", "release")
#: Marker → the first lane that runs the test.
FIRST_LANE = {"slow": "test", "more": "more", "release": "release"}
#: The transports of each test that was collected, by the name of the test.
KNOWN = pytest.StashKey[dict[str, set[Any]]]()
#: The names of tests of which the lane has no case.
LEFT_OUT = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, default="release", help="run what this lane runs (tests/README.md)")
    parser.addoption("--transport", choices=TRANSPORTS, help="run each test over this transport, and over no other")
    parser.addoption("--wire", choices=WIRES, help="run the tests of the transport that this one stands in for")
    parser.addoption(
        "--one-transport", action="store_true", help=f"run each test over one transport, {ONE} where it knows that"
    )


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Only the cases of the lane are made: making all takes as long as running many."""
    test, config = metafunc.definition, metafunc.config
    named = any("transport" in str(mark.args[0]) for mark in test.iter_markers("parametrize"))
    if "peers" in metafunc.fixturenames and not named:
        metafunc.parametrize("transport", _transports_of(test))
    yield
    calls = metafunc._calls
    config.stash.setdefault(KNOWN, {})[test.nodeid] = {call.params.get("transport") for call in calls}
    chosen = _cases(calls, test, config)
    if not chosen:
        config.stash.setdefault(LEFT_OUT, set()).add(test.nodeid)
    if calls:
        metafunc._calls = chosen or calls[:1]


def _cases(calls: Sequence[Any], test: pytest.Item, config: pytest.Config) -> list[Any]:
    """Which of the cases the lane runs. A test without parameters has one, which is None here."""
    lane, first, cases = config.getoption("lane"), first_lane(test), list(calls) or [None]
    if LANES.index(lane) < LANES.index(first):
        return []
    has_begun = lane == "more" and first != "more"  # The lane ``test`` has run the first case, over each transport.
    if config.getoption("one_transport") or lane == "check" or has_begun:
        chosen = min(map(_transport, cases), key=lambda name: PREFERRED.index(name) if name in PREFERRED else 99)
        cases = [case for case in cases if _transport(case) == chosen]
    if lane == "release":
        return cases
    is_whole = first == "more" or test.get_closest_marker("every_case") is not None
    if has_begun:
        return [] if is_whole else [case for case, turn in _once(cases) if turn]
    return [case for case, turn in _once(cases) if is_whole or turn == 0]


def _once(cases: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """The cases, over each transport, that have each point of each axis once, and their turns: the first has 0."""
    points = [{name: at for name, at in case.indices.items() if name != "transport"} if case else {} for case in cases]
    sizes = {name: max(of_case[name] for of_case in points) + 1 for name in points[0]}
    for case, of_case in zip(cases, points, strict=True):
        for turn in range(max(sizes.values(), default=1)):
            if all(at == turn % sizes[name] for name, at in of_case.items()):
                yield case, turn
                break


def _transport(case: Any) -> Any:
    return (case and case.params.get("transport")) or ONE


def first_lane(test: pytest.Item) -> str:
    """The first lane that runs the test. Raises UsageError where it does not say why that is none of the usual ones."""
    markers = {name: test.get_closest_marker(name) for name in FIRST_LANE}
    if silent := [name for name in ("more", "release") if (marker := markers[name]) and not marker.args]:
        raise pytest.UsageError(f"{test.nodeid}: say why it is {silent[0]}: @pytest.mark.{silent[0]}(reason)")
    lanes = [lane for name, lane in FIRST_LANE.items() if markers[name]]
    if slow.is_slow(test):
        lanes.append("test")
    return max(lanes, key=LANES.index, default="check")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = {item for item in items if not _is_wanted(item, config)}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def _is_wanted(item: pytest.Item, config: pytest.Config) -> bool:
    """Whether the test is run over its transport.

    A database server is asked over the transports that differ in how they hold connections, and not over each.
    """
    if slow.name_of(item.nodeid) in config.stash.get(LEFT_OUT, ()):
        return False
    transport = getattr(getattr(item, "callspec", None), "params", {}).get("transport")
    if wire := config.getoption("wire"):
        return bool(transport == WIRES[wire]) and not _is_about_form(item, wire)
    if transport is None:
        return True
    if only := config.getoption("transport"):
        return bool(transport == only)
    return not os.environ.get("TEST_DATABASE") or transport in ("http-view-wsgi", ONE)


def _is_about_form(item: pytest.Item, wire: str) -> bool:
    """Whether the test is about the form of messages or the opening of connections, which a wire has of its own."""
    known = item.config.stash[KNOWN][slow.name_of(item.nodeid)]
    is_of_texts = wire not in known and known.issuperset(HTTP)
    return item.get_closest_marker("own_form") is not None or is_of_texts or known == {"websocket"}


def _transports_of(test: pytest.Item) -> tuple[str, ...]:
    """The transports of a test that names none."""
    if test.get_closest_marker("every_transport"):
        return TRANSPORTS
    return HTTP_AND_DUPLEX if test.get_closest_marker("http_and_duplex") else (ONE,)
