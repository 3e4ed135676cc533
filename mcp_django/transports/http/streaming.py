"""A POST whose handler may take long: it is answered with one message, or with a stream that ends with the answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from django.utils.functional import cached_property

from mcp_django.access.authentication import key_of
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers, run_patiently
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import (
    InternalError,
    LimitExceeded,
    Overloaded,
    Paused,
    RequestCancelled,
    RequestTimedOut,
    Unauthenticated,
)
from mcp_django.protocol.types import JSON
from mcp_django.push.hub import find_hub, get_hub
from mcp_django.server.dispatch import PendingQuestions
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.asking import StoredQuestions, ask
from mcp_django.transports.http.event_log import EventLog
from mcp_django.transports.http.messages import HTTPResponse
from mcp_django.transports.http.polling import PolledEvents
from mcp_django.transports.http.streams import CallEventStream
from mcp_django.transports.message_buffer import no_reader

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.transports.http.endpoint import EndpointView

logger = logging.getLogger("mcp_django")

#: Calls that go on, whether somebody waits for them or not.
_tasks: set[asyncio.Task[HTTPResponse]] = set()


class StreamingCall:
    """Runs the handler, passes on its messages, asks its questions. On the loop.

    Where the client may come back for the rest, each event is stored before it is sent, and the call goes on without
    its client.
    """

    def __init__(self, view: EndpointView, *, needs_worker: bool) -> None:
        """``needs_worker``: whether the run may read the database before the body of an asynchronous function."""
        self._view = view
        self._needs_worker = needs_worker
        self._cancellation = view.cancellation
        self._buffer = view.buffer
        self._loop = asyncio.get_running_loop()
        #: Done when the run is over, a message waits, or the call has to end.
        self._news: asyncio.Future[None] = self._loop.create_future()
        #: Why the call has to end before its answer is there.
        self._ending: MCPError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._asking = False
        self._going_away = False
        self._buffer.on_put = self._wake

    async def respond(self) -> HTTPResponse:
        """The response, as soon as it is there or something goes before it. Raises Overloaded."""
        working = self._start(self._respond)
        try:
            await self._news
        except asyncio.CancelledError:
            _leave_alone(working)
            raise
        response = self._plain_response(working)
        if response is not None:
            # The buffer is empty: dropping its reader closes it.
            self._buffer.on_put = no_reader
            return response
        task = self._loop.create_task(self._run(working))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        if self._view.is_polled:
            # The call goes on without its client, as one does that is answered with a stream.
            return await asyncio.shield(task)
        return self._view.finalize(HTTPResponse(HTTPStatus.OK, stream=CallEventStream(self._view.format, self)))

    @cached_property
    def events(self) -> EventLog:
        session = self._view.session
        if session is not None and self._view.is_polled:
            return PolledEvents(self._view, session.key, self._end)
        return EventLog(self._view)

    def leave(self) -> None:
        """Stop writing: the client disconnected or has read the last event. Cancels the call if its era says so."""
        self.events.detach()
        if self._is_over:
            hub = find_hub()
            if hub is not None:
                hub.leave(self)
        elif self._view.cancelled_by_disconnect and not self._cancellation.cancelled:
            self._view.cancel()

    # A member of the hub while it streams: it ends with its principal's rights, and while it asks, with the process.

    @property
    def is_counted(self) -> bool:
        return self._asking

    @property
    def transport(self) -> str:
        return self._view.transport

    @property
    def site(self) -> MCPSite:
        return self._view.site

    @property
    def principal(self) -> Principal:
        return self._view.request.mcp.principal

    @property
    def request(self) -> MCPRequest:
        return self._view.request

    @property
    def session_key(self) -> str | None:
        """The session without which no client can answer the questions of the call."""
        session = self._view.session
        return session.key if session is not None and self._asking else None

    def close(self, *, going_away: bool = False) -> None:
        if self._is_over:
            return
        if not going_away:
            self._end(Unauthenticated("The credentials no longer hold, or the session has ended.", ""))
            self._view.cancel()
            return
        # A handler may finish. A question would keep the process for as long as its user takes.
        self._going_away = True
        if self._asking:
            self._end(_server_ends())

    def pause(self, paused: Paused) -> None:
        # What only reads may finish, and what may change something is stopped by ``access.changing_calls``.
        if self._asking:
            self._end(paused)

    # The run of the handler.

    def _respond(self) -> asyncio.Future[HTTPResponse]:
        workers = get_workers()
        run = workers.submit if self._needs_worker else workers.run_here
        return run(self._view.respond, principal_key=self._view.principal_key or "")

    def _start(self, run: Callable[[], asyncio.Future[HTTPResponse]]) -> asyncio.Future[HTTPResponse]:
        """Begin a run of the handler. It may take REQUEST_SECONDS, whether somebody waits for it or not."""
        working = run()
        working.add_done_callback(self._run_is_over)
        seconds = get_conf().REQUEST_SECONDS
        self._timer = self._loop.call_later(seconds, self._time_out) if seconds else None
        return working

    def _run_is_over(self, _: asyncio.Future[HTTPResponse]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look()

    def _time_out(self) -> None:
        self._end(RequestTimedOut())
        self._view.expire()

    def _plain_response(self, working: asyncio.Future[HTTPResponse]) -> HTTPResponse | None:
        """The response, if nothing goes before it. Raises Overloaded."""
        if not working.done():
            if self._ending is None:
                return None
            _leave_alone(working)
            return self._view.refuse(self._ending)
        response = working.result()
        # A refusal with a status of its own stays one, whatever was sent before.
        refused = response.status != HTTPStatus.OK
        is_plain = refused or response.stream is not None or not self._buffer.used
        return response if is_plain and response.pending is None else None

    async def _run(self, working: asyncio.Future[HTTPResponse]) -> HTTPResponse:
        hub = get_hub()
        close_hub_at_shutdown(hub)
        hub.join(self)
        self._cancellation.when_cancelled(self._give_up)
        try:
            response = await self._response_in_the_end(working)
            self._buffer.close()
            # A client that has given its request up gets no answer to it.
            await self.events.finish([] if isinstance(self._ending, RequestCancelled) else [response.body])
            return response
        finally:
            self._is_over = True
            # As long as its last words are being written, the process must not end.
            if not self.events.is_attached:
                hub.leave(self)

    async def _response_in_the_end(self, working: asyncio.Future[HTTPResponse]) -> HTTPResponse:
        try:
            await self.events.open()
            response = await self._pass_on(working)
            while response.pending is not None:
                response = await self._respond_again(response.pending, await self._ask(response.pending))
            return response
        except MCPError as error:
            return self._view.refuse(error)
        except Exception:
            logger.exception("A request could not be answered")
            return self._view.refuse(InternalError())

    async def _respond_again(self, pending: PendingQuestions, given: dict[str, JSON]) -> HTTPResponse:
        # The client has done what it was asked for, so busy workers are no reason to refuse it now.
        key = key_of(self.principal, self.request)
        run = run_patiently(self._view.respond_again, pending, given, principal_key=key)
        return await self._pass_on(self._start(lambda: asyncio.ensure_future(run)))

    async def _pass_on(self, working: asyncio.Future[HTTPResponse]) -> HTTPResponse:
        """Send on the handler's messages, until it has its result. Raises MCPError where it has to end before."""
        while True:
            self._news = self._loop.create_future()
            done = working.done()
            await self.events.write(self._buffer.take())
            retry_ms, self._buffer.retry_ms = self._buffer.retry_ms, None
            if retry_ms is not None:
                self.events.release(retry_ms)
            if done:
                return working.result()
            if self._ending is not None:
                _leave_alone(working)
                raise self._ending
            # The loop has its turn in each round, however much the handler says.
            await (self._news if not self._news.done() else asyncio.sleep(0))

    def _wake(self) -> None:
        """There is something in the buffer; from the handler's thread."""
        with contextlib.suppress(RuntimeError):  # The loop is over.
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    def _give_up(self) -> None:
        """The client wants no answer any more; from any thread."""
        if self._cancellation.why is not None:
            return  # The server has stopped the call: its answer says what it has done.
        with contextlib.suppress(RuntimeError):  # The loop is over.
            self._loop.call_soon_threadsafe(self._end, RequestCancelled())

    def _end(self, reason: MCPError) -> None:
        if self._ending is None:
            self._ending = reason
        self._has_to_end.set()
        self._look()
        self.events.hurry()

    @cached_property
    def _has_to_end(self) -> asyncio.Event:
        return asyncio.Event()

    async def _ask(self, pending: PendingQuestions) -> dict[str, JSON]:
        """Ask the client, which may answer to any process. ``{key: answer}`` Raises MCPError to end the call."""
        session, hub = self._view.session, get_hub()
        if session is None:
            raise InternalError
        if self._going_away:
            self._end(_server_ends())
        if self._ending is not None:
            raise self._ending
        limit = get_conf().MAX_LISTENS
        if hub.streams_of(self.principal.key) >= limit:
            raise LimitExceeded(f"You have {limit} streams open (MAX_LISTENS). Answer a question, or close a listen.")
        self._asking = True
        try:
            questions = StoredQuestions(session.key, hub.waiters)
            given = await ask(pending, questions, self.events.write, self._has_to_end)
        finally:
            self._asking = False
        if self._ending is not None:
            raise self._ending
        return given


def _server_ends() -> Overloaded:
    return Overloaded("The server is ending. Send the request again in a moment.")


def _leave_alone(working: asyncio.Future[HTTPResponse]) -> None:
    """Stop awaiting a run: its result is ignored, and so is an error that it raises."""
    working.add_done_callback(lambda late: late.cancelled() or late.exception())
