"""A connection within one process, for tests: messages go through a queue, and handlers run in the thread that waits.

The loop runs in a thread of its own and touches no database. So handlers see the transaction of the test, and what they
do is undone with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any, TypeVar

from django.core.exceptions import SynchronousOnlyOperation
from django.test import TestCase

from mcp_django.bridge.sites import MCPSite
from mcp_django.core.compat.connections import in_test_transaction
from mcp_django.core.events import transaction
from mcp_django.core.events.bus import publishing_here_only
from mcp_django.core.running.workers import Workers, settle, working_with
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.jsonrpc import decode, encode
from mcp_django.protocol.types import JSON
from mcp_django.push.hub import get_hub
from mcp_django.transports.lasting.duplex import DuplexConnection

T = TypeVar("T")

_BEGIN_SECONDS = _END_SECONDS = 10.0
#: After this many turns of the loop without a call of a handler, nothing more happens by itself.
_QUIET_TURNS = 100


class Call:
    """A call that waits for the thread of the test."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def run(self) -> None:
        """Run it, and give its result to the task that awaits it."""
        if self.future.cancelled():
            return
        result: Any = None
        error: Exception | None = None
        try:
            result = self._context.run(self._function, *self._args)
        except StopIteration:
            error = RuntimeError("StopIteration in a handler")  # No future can hold it.
        except Exception as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        self._loop.call_soon_threadsafe(settle, self.future, result, error)


class WaitingThread(Workers):
    """Runs no call by itself: each goes to the thread that waits for a message."""

    def __init__(self, put: Callable[[Call], None]) -> None:
        super().__init__(threads=0)
        self._put = put

    async def run(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
        return await self.submit(function, *args)

    def submit(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> asyncio.Future[T]:
        call = Call(function, args)
        self._put(call)
        return call.future


class _Quiet:
    """Says in the queue that nothing more happens by itself."""


class Ended(ConnectionError):
    """The server has ended the connection."""


class InProcess:
    """A connection of ``principal`` to the site. Its methods are called in one thread at a time.

    Handlers, and what is done between two requests, run within the context manager that ``around`` makes.
    """

    def __init__(
        self,
        site: MCPSite,
        principal: Principal,
        request: MCPRequest,
        around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self._site = site
        self._around = around
        self._principal = principal
        self._request = request
        self._arrived: queue.SimpleQueue[Call | JSON | _Quiet | BaseException] = queue.SimpleQueue()
        self._workers = WaitingThread(self._arrived.put)
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._conversation: DuplexConnection
        began: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(began,), name="mcp_django test", daemon=True)
        self._thread.start()
        began.result(_BEGIN_SECONDS)

    def send(self, message: JSON) -> None:
        """Send a message to the server. Raises Ended."""
        _check_no_loop()
        if not self._thread.is_alive():
            raise Ended("This client is closed.")
        publish_changes()
        value = decode(encode(message))
        with working_with(self._workers), self._around():
            taking = asyncio.run_coroutine_threadsafe(self._conversation.take(value), self._loop)
        taking.add_done_callback(self._taken)

    def receive(self, seconds: float) -> JSON:
        """The next message of the server's; handlers run meanwhile. Raises TimeoutError, and Ended."""
        _check_no_loop()
        publish_changes()
        end = time.monotonic() + seconds
        while True:
            try:
                arrived = self._arrived.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if isinstance(arrived, dict):
                return arrived
            if isinstance(arrived, BaseException):
                raise arrived
            if isinstance(arrived, Call):
                self._run(arrived)

    def receive_all(self) -> list[JSON]:
        """The messages that come without waiting for anything else to happen. Raises Ended."""
        _check_no_loop()
        publish_changes()
        found: list[JSON] = []
        has_run = True
        while has_run:
            has_run = False
            asyncio.run_coroutine_threadsafe(self._become_quiet(), self._loop)
            while not isinstance(arrived := self._arrived.get(), _Quiet):
                if isinstance(arrived, dict):
                    found.append(arrived)
                elif isinstance(arrived, BaseException):
                    raise arrived
                else:
                    self._run(arrived)
                    has_run = True
        return found

    def _run(self, call: Call) -> None:
        """Run a call, and then its on_commit callbacks."""
        with self._around(), contextlib.ExitStack() as commits:
            for connection in in_test_transaction():
                commits.enter_context(TestCase.captureOnCommitCallbacks(using=connection.alias, execute=True))
            call.run()

    def close(self) -> None:
        """End the connection, and the thread of its loop."""
        with contextlib.suppress(RuntimeError):  # It has ended already.
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_END_SECONDS)

    # In the thread of the loop.

    def _serve(self, began: Future[None]) -> None:
        try:
            with working_with(self._workers), publishing_here_only(), self._around():
                asyncio.run(self._converse(began))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            if began.done():
                self._arrived.put(error)
            else:
                began.set_exception(error)

    async def _converse(self, began: Future[None]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._conversation = DuplexConnection(
            self._site, self._principal, self._request, self._write, self._ended, transport="test"
        )
        hub = get_hub()
        began.set_result(None)
        await self._end.wait()
        self._conversation.leave()
        hub.close()

    async def _write(self, body: bytes) -> None:
        self._arrived.put(decode(body))

    def _ended(self) -> None:
        self._arrived.put(Ended("The server has ended the connection: the user may have lost access."))

    def _taken(self, taking: Future[None]) -> None:
        error = None if taking.cancelled() else taking.exception()
        if error is not None:
            self._arrived.put(error)

    async def _become_quiet(self) -> None:
        for _ in range(_QUIET_TURNS):
            await asyncio.sleep(0)
        self._arrived.put(_Quiet())


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SynchronousOnlyOperation(
        "The test client is synchronous. In an asynchronous test call it through sync_to_async, as in "
        "await sync_to_async(client.call)(…)."
    )


def publish_changes() -> None:
    """Publish what the test itself has changed in the transaction of a TestCase, which is never committed."""
    for connection in in_test_transaction():
        for change_set in transaction.unpublished(connection):
            change_set()
