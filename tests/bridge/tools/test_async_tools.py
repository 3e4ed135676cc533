"""Asynchronous functions, whose bodies run on the event loop while no thread waits for them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError, connections, transaction
from django.http import HttpRequest

from demo_project.flights.models import Airport, Flight
from mcp_django import MCPSite, tool
from mcp_django.core.running import guard
from mcp_django.exceptions import ToolError
from tests.axes import TRANSPORTS
from tests.bridge.tools.test_function_calls import text_of
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, DuplexPeer, Peer, Peers, meta
from tests.support.talking import accept, talk
from tests.transports.test_cancellation import SlowTool


def where(peers: Peers) -> str:
    """Whether the caller runs on the server's loop."""
    try:
        return "loop" if asyncio.get_running_loop() is peers.loop.loop else "worker"
    except RuntimeError:
        return "thread"


@contextmanager
def calling(peers: Peers, users: Users, tool: str, number: int) -> Iterator[list[Future[Any]]]:
    """So many calls of the tool at a time, each on a connection of its own."""
    made = [peers(token_of(users.admin)) for _ in range(number)]
    with ThreadPoolExecutor(number) as pool:
        yield [pool.submit(peer.request, MODERN, "tools/call", {"name": tool, "arguments": {}}) for peer in made]


def texts(calls: list[Future[Any]]) -> list[str]:
    return [text_of(call.result(60)["result"]) for call in calls]


class Gate:
    """An asynchronous tool ``wait`` that runs until the test lets it go, or the server ends it."""

    def __init__(self, peers: Peers) -> None:
        self.begun, self.ended = threading.Semaphore(0), threading.Event()
        self._loop, self._open = peers.loop.loop, asyncio.Event()

    async def wait(self, request: HttpRequest) -> str:
        """Wait."""
        self.begun.release()
        try:
            await self._open.wait()
        finally:
            self.ended.set()
        return "done"

    def has_begun(self, times: int = 1) -> bool:
        return all(self.begun.acquire(timeout=60) for _ in range(times))

    def open(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)


@pytest.fixture
def gate(peers: Peers, declared: Declared) -> Gate:
    made = Gate(peers)

    async def wait(request: HttpRequest) -> str:
        """Wait."""
        return await made.wait(request)

    declared.tool(wait, read_only=True)
    return made


# Where the body runs.


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_body_runs_on_the_loop_where_there_is_one(
    admin: Peer, peers: Peers, declared: Declared, transport: str
) -> None:
    async def place(request: HttpRequest) -> str:
        """Say where this runs."""
        await asyncio.sleep(0)
        return where(peers)

    declared.tool(place, read_only=True)

    assert text_of(admin.call("place")) == ("worker" if transport == "http-view-wsgi" else "loop")


def test_prompts_and_resources_run_there_too(admin: Peer, peers: Peers, declared: Declared, flights: Any) -> None:
    async def greet(request: HttpRequest, airport: Airport) -> str:
        """Greet."""
        return f"{airport.pk} {where(peers)}"

    async def place(request: HttpRequest, key: str = "") -> str:
        return f"{key}{where(peers)}"

    declared.prompt(greet)
    declared.resource("shop://place", place)
    declared.resource("shop://place/{key}", place)

    got = admin.result(MODERN, "prompts/get", {"name": "greet", "arguments": {"airport": "JFK"}})

    assert got["messages"][0]["content"]["text"] == "JFK loop"
    read = [admin.result(MODERN, "resources/read", {"uri": uri}) for uri in ("shop://place", "shop://place/a")]
    assert [contents["contents"][0]["text"] for contents in read] == ["loop", "aloop"]


def test_a_tool_can_be_kept_in_a_worker(admin: Peer, peers: Peers, declared: Declared) -> None:
    async def place(request: HttpRequest) -> str:
        """Say where this runs."""
        return where(peers)

    declared.tool(place, read_only=True, on_loop=False)

    assert text_of(admin.call("place")) == "worker"


def test_a_site_with_a_call_context_runs_bodies_on_the_loop_only_in_an_asynchronous_one(
    peers: Peers, users: Users
) -> None:
    entered: list[str] = []

    class Tenants(MCPSite):
        @contextmanager
        def call_context(self, request: HttpRequest) -> Iterator[None]:
            entered.append("sync")
            yield
            entered.pop()

    class AsyncTenants(Tenants):
        @asynccontextmanager
        async def acall_context(self, request: HttpRequest) -> AsyncIterator[None]:
            entered.append("async")
            yield
            entered.pop()

    class Below(AsyncTenants):
        """Its asynchronous context knows nothing of what the other one does here."""

        @contextmanager
        def call_context(self, request: HttpRequest) -> Iterator[None]:
            entered.append("below")
            yield
            entered.pop()

    async def place(request: HttpRequest) -> str:
        """Say where this runs."""
        return f"{where(peers)} {entered[-1]}"

    for site_class, expected in ((Tenants, "worker sync"), (AsyncTenants, "loop async"), (Below, "worker below")):
        peers.site = site_class(site_class.__name__.lower())
        tool(read_only=True, site=peers.site)(place)

        assert text_of(peers(token_of(users.admin)).call("place")) == expected
        assert entered == []


# Many at a time.


def test_more_tools_wait_at_a_time_than_there_are_threads(
    peers: Peers, users: Users, declared: Declared, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 2}
    waiting, everybody = [0], asyncio.Event()

    async def meet(request: HttpRequest) -> str:
        """Wait for the others."""
        waiting[0] += 1
        if waiting[0] == 12:
            everybody.set()
        await everybody.wait()
        return "met"

    declared.tool(meet, read_only=True)

    with calling(peers, users, "meet", 12) as calls:
        assert texts(calls) == ["met"] * 12


def test_one_principal_gets_a_tenth_of_max_async(peers: Peers, users: Users, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_ASYNC": 20}
    other = peers(token_of(users.ops))

    with calling(peers, users, "wait", 2) as calls, ThreadPoolExecutor(1) as pool:
        assert gate.has_begun(2)
        error = peers(token_of(users.admin)).error(MODERN, "tools/call", {"name": "wait", "arguments": {}})
        theirs = pool.submit(other.call, "wait")
        assert gate.has_begun()
        gate.open()

        assert texts(calls) == ["done", "done"] and text_of(theirs.result(60)) == "done"
    assert error["data"]["reason"] == "OVERLOADED" and "a tenth of MAX_ASYNC" in error["message"]
    # Their places are free again.
    assert text_of(peers(token_of(users.admin)).call("wait")) == "done"


def test_the_orm_of_many_tools_shares_threads_threads_and_closes_its_connections(
    peers: Peers, users: Users, declared: Declared, flights: Any, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 4}
    holding, most = set[object](), [0]
    total = Flight.objects.count()

    async def count(request: HttpRequest) -> str:
        """Count, twice, in one thread."""
        first = await Flight.objects.acount()
        holding.add(request)
        most[0] = max(most[0], len(holding))
        name = await sync_to_async(threading.get_ident)()
        await asyncio.sleep(0)
        assert name == await sync_to_async(threading.get_ident)()
        second = await Flight.objects.acount()
        holding.discard(request)
        return str(first + second)

    declared.tool(count, read_only=True)

    with calling(peers, users, "count", 16) as calls:
        assert texts(calls) == [str(2 * total)] * 16
    # One principal holds at most half of them.
    assert 1 <= most[0] <= 2


def test_a_connection_is_closed_when_the_tool_ends(admin: Peer, declared: Declared, flights: Any) -> None:
    held: list[Any] = []

    async def count(request: HttpRequest) -> str:
        """Count."""
        await Flight.objects.acount()
        held.append(await sync_to_async(lambda: connections["default"])())
        assert held[0].connection is not None
        return "counted"

    declared.tool(count, read_only=True)

    assert text_of(admin.call("count")) == "counted"
    assert held[0].connection is None


# What everything else relies on.


@pytest.mark.http_and_duplex
@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_it_reports_progress_and_asks_its_user(admin: Peer, declared: Declared, revision: str) -> None:
    async def book(request: Any) -> str:
        """Ask."""
        request.mcp.progress(1, 2)
        await asyncio.sleep(0)
        answer = request.mcp.elicit("Seats?", {"type": "object", "properties": {"seats": {"type": "integer"}}})
        return f"{answer.action} {answer.content}"

    declared.tool(book, read_only=True)
    admin.capabilities = {"elicitation": {}}

    params = {"name": "book", "arguments": {}, "_meta": {"progressToken": "p"}}
    found = talk(admin, revision, "tools/call", params, accept(seats=2))

    # A modern client sends the request again, and the tool runs again.
    assert set(found.progress) == {(1, 2, None)}
    assert found.text == "accept {'seats': 2}"
    assert [method for method, _ in found.asked] == ["elicitation/create"]


def test_an_error_is_told_as_that_of_any_tool(admin: Peer, declared: Declared) -> None:
    failed = "fail failed. The server's log has the details; calling it again may not help."
    told: dict[type[BaseException], str] = {
        asyncio.CancelledError: failed, SystemExit: failed, RuntimeError: failed,
        Flight.DoesNotExist: "There is no such object.", ToolError: "hunter2",
    }  # fmt: skip
    raised = iter(told)

    async def fail(request: HttpRequest) -> str:
        """Fail."""
        await asyncio.sleep(0)
        raise next(raised)("hunter2")

    declared.tool(fail, read_only=True)

    results = {error: admin.call("fail") for error in told}

    assert {error: text_of(result) for error, result in results.items()} == told
    assert all(result["isError"] is True for result in results.values())


def timed_out(peer: Peer, settings: Any, tool: str, has_begun: Callable[[], bool], seconds: float = 0.3) -> Any:
    """The error of a call that took too long after it had begun; it has longer where the machine was too slow."""
    peer.tools()
    for factor in (1, 10, 100):
        settings.MCP = {**settings.MCP, "REQUEST_SECONDS": seconds * factor}
        error = peer.error(MODERN, "tools/call", {"name": tool, "arguments": {}})
        if has_begun():
            return error
    raise AssertionError(f"{tool} never began")


def test_a_call_that_takes_too_long_is_cancelled(admin: Peer, gate: Gate, settings: Any) -> None:
    error = timed_out(admin, settings, "wait", lambda: gate.begun.acquire(blocking=False))

    assert error["data"]["reason"] == "REQUEST_TIMED_OUT"
    assert gate.ended.wait(60)


def test_a_tool_that_swallows_its_cancellation_holds_up_nobody(
    admin: Peer, declared: Declared, settings: Any, peers: Peers
) -> None:
    go_on, begun, ended = asyncio.Event(), threading.Event(), threading.Event()

    async def stay(request: HttpRequest) -> str:
        """Stay."""
        begun.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "done"

    declared.tool(stay, read_only=True)

    error = timed_out(admin, settings, "stay", begun.is_set)

    assert error["data"]["reason"] == "REQUEST_TIMED_OUT"
    # Others are answered meanwhile; on a slow machine not each within these seconds.
    answers = (admin.request(MODERN, "tools/list") for _ in range(100))
    assert "stay" in str(next(answer["result"] for answer in answers if "result" in answer))
    peers.loop.loop.call_soon_threadsafe(go_on.set)
    assert ended.wait(60)


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_client_that_gives_a_call_up_cancels_its_body(admin: DuplexPeer, gate: Gate) -> None:
    opened = admin.connection(MODERN)

    params = {"name": "wait", "arguments": {}, "_meta": meta()}
    opened.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
    assert gate.has_begun()
    opened.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})

    assert gate.ended.wait(60)
    assert "wait" in admin.tools()


@pytest.mark.every_database
def test_the_statement_of_a_call_that_takes_too_long_is_stopped(admin: Peer, declared: Declared, settings: Any) -> None:
    slow = SlowTool()

    async def query(request: HttpRequest) -> str:
        """Take a minute."""
        await sync_to_async(slow.run)()
        return "done"

    declared.tool(query, read_only=True)

    # Enough for the query to begin.
    error = timed_out(admin, settings, "query", slow.started.is_set, seconds=1.5)

    assert error["data"]["reason"] == "REQUEST_TIMED_OUT"
    assert slow.ended.wait(60)
    assert isinstance(slow.error, DatabaseError)


# Attacks.


@pytest.mark.parametrize("transport", ["http-view-asgi"])
@pytest.mark.parametrize("in_task", [False, True])
def test_behind_a_synchronous_middleware_the_database_is_reached_in_a_thread_of_the_tool(
    peers: Peers, users: Users, declared: Declared, flights: Any, settings: Any, in_task: bool
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.bridge.tools.synchronous.middleware"]
    settings.MCP = {**settings.MCP, "BYPASS_MIDDLEWARE": True}  # Otherwise it is answered below the middleware.
    admin = peers(token_of(users.admin))

    async def place(request: Any) -> str:
        """Say where the database is reached."""
        # What goes before the answer makes it a stream, which outlives the view.
        request.mcp.progress(1, 2)
        await Flight.objects.acount()
        name = sync_to_async(lambda: threading.current_thread().name)
        return str(await (asyncio.create_task(name()) if in_task else name()))  # type: ignore[arg-type]

    declared.tool(place, read_only=True)

    found = talk(admin, MODERN, "tools/call", {"name": "place", "arguments": {}, "_meta": {"progressToken": "p"}})

    assert found.text.startswith("mcp_django_async")


def test_a_task_of_a_tool_cannot_end_the_server(admin: Peer, declared: Declared) -> None:
    errors: list[type[BaseException]] = [KeyboardInterrupt, SystemExit]

    async def leave() -> None:
        raise errors.pop()

    async def start(request: HttpRequest) -> str:
        """Start a task that ends the process."""
        await asyncio.create_task(leave())
        return "never"

    declared.tool(start, read_only=True)

    assert [admin.call("start")["isError"] for _ in range(2)] == [True, True]
    assert errors == [] and "start" in admin.tools()


def test_what_a_tool_leaves_in_its_session_of_the_database_is_gone_with_it(
    admin: Peer, declared: Declared, flights: Any
) -> None:
    def leave_transaction() -> str:
        connections["default"].set_autocommit(False)
        Airport.objects.update(name="hijacked")
        connections["default"].execute_wrappers.append(lambda *args: 1 / 0)
        return "left"

    async def leave(request: HttpRequest) -> str:
        """Leave a transaction and a wrapper behind."""
        return await sync_to_async(leave_transaction)()

    async def look(request: HttpRequest) -> str:
        """Look at the database."""
        autocommit = await sync_to_async(transaction.get_autocommit)()
        return f"{autocommit} {await Airport.objects.filter(name='hijacked').acount()}"

    declared.tool(leave, read_only=True)
    declared.tool(look, read_only=True)

    assert text_of(admin.call("leave")) == "left"
    assert text_of(admin.call("look")) == "True 0"


def test_a_tool_that_bridges_back_to_the_loop_from_its_thread(admin: Peer, declared: Declared, flights: Any) -> None:
    async def count() -> int:
        # In the thread of the tool, which waits for this.
        return await Flight.objects.acount()

    async def bridge(request: HttpRequest) -> str:
        """Go to the thread and back."""
        return str(await sync_to_async(async_to_sync(count))())

    declared.tool(bridge, read_only=True)

    assert text_of(admin.call("bridge")) == str(Flight.objects.count())


def test_a_thread_of_the_project_is_none_of_ours(admin: Peer, declared: Declared) -> None:
    async def place(request: HttpRequest) -> str:
        """Use a thread of the loop's own executor."""
        return await sync_to_async(lambda: threading.current_thread().name, thread_sensitive=False)()

    declared.tool(place, read_only=True)

    assert text_of(admin.call("place")).startswith("asyncio_")


def test_a_task_that_a_tool_leaves_behind_cannot_use_the_database(
    admin: Peer, declared: Declared, flights: Any
) -> None:
    go_on, found = asyncio.Event(), Future[Any]()
    left: list[Any] = []

    async def count_later() -> None:
        await go_on.wait()
        try:
            found.set_result(await Flight.objects.acount())
        except RuntimeError as error:
            found.set_exception(error)

    async def leave(request: HttpRequest) -> str:
        """Leave a task behind."""
        await Flight.objects.acount()
        left.append(asyncio.create_task(count_later()))
        return "left"

    declared.tool(leave, read_only=True)

    assert text_of(admin.call("leave")) == "left"
    left[0].get_loop().call_soon_threadsafe(go_on.set)

    with pytest.raises(RuntimeError, match="The function has ended"):
        found.result(60)


def test_a_tool_that_holds_the_loop_is_logged_by_its_name(
    admin: Peer, declared: Declared, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def block(request: HttpRequest) -> str:
        """Block."""
        time.perf_counter()
        return "blocked"

    # Every step is longer.
    monkeypatch.setattr(guard, "_HELD_SECONDS", -1.0)
    declared.tool(block, read_only=True)

    with caplog.at_level(logging.WARNING, "mcp_django"):
        assert text_of(admin.call("block")) == "blocked"

    assert [record.getMessage().partition(" ms")[0].rstrip("0123456789") for record in caplog.records] == [
        "tool block held the event loop for "
    ]


def test_a_cancelled_tool_that_waits_for_a_thread_gives_its_turn_up(
    peers: Peers, users: Users, declared: Declared, settings: Any, flights: Any
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 2, "REQUEST_SECONDS": 60}
    holds, go_on = threading.Event(), asyncio.Event()

    async def hold(request: HttpRequest) -> str:
        """Hold the one thread that this principal gets."""
        await Flight.objects.acount()
        holds.set()
        await go_on.wait()
        return "held"

    async def ask(request: HttpRequest, seconds: float = 0.1) -> str:
        """Wait for it, in vain."""
        try:
            async with asyncio.timeout(seconds):
                return str(await Flight.objects.acount())
        except TimeoutError:
            return "no thread"

    declared.tool(hold, read_only=True)
    declared.tool(ask, read_only=True)
    with calling(peers, users, "hold", 1) as calls:
        assert holds.wait(60)
        assert text_of(peers(token_of(users.admin)).call("ask")) == "no thread"
        # Another principal has a thread all the same.
        assert text_of(peers(token_of(users.ops)).call("ask", seconds=60)) == str(Flight.objects.count())
        peers.loop.loop.call_soon_threadsafe(go_on.set)
        assert texts(calls) == ["held"]
