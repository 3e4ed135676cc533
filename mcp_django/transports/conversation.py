"""The messages of one lasting connection (a socket, the pipes of stdio, an old SSE stream) on which both sides speak.

It knows which requests are in flight, which listens are open, and the connection's legacy session.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any

from mcp_django.access.authentication import authenticate_again, authenticate_again_from_memory
from mcp_django.conf import MAX_MESSAGE_BYTES, get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange.answers import given_by
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.exchange.connection import DEFAULT_LOG_LEVEL
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol import envelope, jsonrpc
from mcp_django.protocol.batches import Batch, check_batch
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import (
    InternalError,
    InvalidRequest,
    LimitExceeded,
    NotInitialized,
    RequestTimedOut,
    Unauthenticated,
)
from mcp_django.protocol.outbox import Outbox
from mcp_django.protocol.revisions import LEGACY, MODERN, NEWEST_LEGACY, Era, era_of
from mcp_django.push.attachment import Attachment
from mcp_django.push.hub import get_hub
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.push.subscriptions import Subscription
from mcp_django.server.dispatch import Asked, Reply, respond, respond_again
from mcp_django.server.methods import METHODS
from mcp_django.server.subscriptions import Listen
from mcp_django.sites import MCPSite
from mcp_django.transports.listener_writer import ListenerWriter
from mcp_django.workers import get_workers, run_patiently

JSON = dict[str, Any]

logger = logging.getLogger("mcp_django")

_FINISH_SECONDS = 1.0


class DuplexSession:
    """The legacy session of a connection: it begins with ``initialize`` and ends with the connection."""

    def __init__(self, revision: str, client: Client, listener: Listener, attachment: Attachment) -> None:
        self.revision = revision
        self.client = client
        self.log_level = DEFAULT_LOG_LEVEL
        self.listener = listener
        self._attachment = attachment

    def set_log_level(self, level: str) -> None:
        self.log_level = level

    def subscribe(self, subscription: Subscription) -> None:
        limit = get_conf().MAX_SUBSCRIPTIONS
        watched = self.listener.subscriptions
        if subscription.uri not in watched and len(watched) >= limit:
            raise LimitExceeded(f"A session may watch at most {limit} resources (MAX_SUBSCRIPTIONS).")
        self._attachment.watch(self.listener, [subscription])

    def unsubscribe(self, uri: str) -> None:
        self._attachment.drop(self.listener, [uri])


class DuplexRequest:
    """One request in flight, as the connection that its handler sees."""

    push = True

    def __init__(self, conversation: DuplexConversation, message: jsonrpc.Request, *, can_ask: bool = True) -> None:
        self.message = message
        self.can_ask = can_ask
        self.cancellation = Cancellation()
        self.attachment = Attachment(get_hub())
        self.outbox = Outbox(lambda: conversation.wake(self))
        #: One task at a time writes what is in the outbox, so that its order is kept.
        self.writing = asyncio.Lock()
        #: Set once the client has given the request up.
        self.given_up = asyncio.Event()
        self._conversation = conversation

    @property
    def message_limit(self) -> int:
        return self._conversation.message_limit

    def send(self, message: JSON) -> None:
        self.outbox.put(message)

    def close_stream(self, retry_ms: int) -> None:
        """Nothing: what is sent for this request shares its connection with everything else."""

    def open_session(self, revision: str, client: Client) -> None:
        self._conversation.open_session(revision, client)

    def attach(self, listener: Listener) -> None:
        self._conversation.share(listener)
        self.attachment.attach(listener)
        self.attachment.remember_lists(listener)

    def drop(self, listener: Listener, uris: Collection[str]) -> None:
        self.attachment.drop(listener, uris)


class DuplexConversation:
    """What is said on one connection. ``write`` sends a message, ``close`` ends the connection.

    ``crash`` ends it because of an error of our own, where that is said in another way.
    No answer is longer than ``message_limit`` bytes.
    """

    def __init__(
        self,
        site: MCPSite,
        principal: Principal,
        request: MCPRequest,
        write: Callable[[bytes], Awaitable[None]],
        close: Callable[[], None],
        *,
        crash: Callable[[], None] | None = None,
        message_limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self.message_limit = message_limit
        self._site = site
        self._principal = principal
        self._request = request
        self.write = write
        self._close = close
        self._crash = crash or close
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: dict[jsonrpc.RequestId, DuplexRequest] = {}
        self._listens: dict[jsonrpc.RequestId, ListenerWriter] = {}
        #: Those of the listens, and the one of the session.
        self.writers: set[ListenerWriter] = set()
        self._session: DuplexSession | None = None
        self.hub = get_hub()
        self._session_attachment = Attachment(self.hub)
        self._initializing = False
        self._batches = 0
        #: Our own requests to the client that it has not answered yet.
        self._asked: dict[jsonrpc.RequestId, asyncio.Future[JSON]] = {}
        self._numbers = itertools.count(1)

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for an answer, or watches something."""
        session = self._session
        return bool(self._in_flight or self._listens or (session is not None and session.listener.subscriptions))

    # What comes.

    async def take(self, value: Any) -> None:
        """Take in one decoded frame. Raises Malformed."""
        if isinstance(value, list):
            if self._batches >= get_conf().MAX_IN_FLIGHT:
                busy = LimitExceeded(f"At most {get_conf().MAX_IN_FLIGHT} batches may be in flight (MAX_IN_FLIGHT).")
                await self.write(jsonrpc.encode(jsonrpc.error_message(None, busy, LEGACY)))
                return
            self._batches += 1
            self._spawn(self._take_batch(value))
            return
        message = jsonrpc.parse(value)
        if isinstance(message, jsonrpc.Notification):
            self._notice(message)
        elif isinstance(message, jsonrpc.Request):
            error = self._refusal(message)
            if error is not None:
                era = MODERN if envelope.claims_modern(message.params) else LEGACY
                await self.write(jsonrpc.encode(jsonrpc.error_message(message.id, error, era)))
                return
            answering = self._spawn(self._answer(self._begin(message)))
            if message.method == "initialize":
                # What is sent right behind it is meant for the session that it opens.
                await asyncio.wait({answering})
        elif message.id is not None and message.id in self._asked:
            asked = self._asked.pop(message.id)
            if not asked.done():
                asked.set_result(message.body)
        # A response to nothing is dropped.

    def _notice(self, message: jsonrpc.Notification) -> None:
        if message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))

    def _refusal(self, message: jsonrpc.Request) -> MCPError | None:
        """Why a request is not even begun."""
        conf = get_conf()
        if message.id in self._in_flight or message.id in self._listens:
            return InvalidRequest("A request with this id is still being answered.")
        if len(self._in_flight) >= conf.MAX_IN_FLIGHT:
            return LimitExceeded(f"At most {conf.MAX_IN_FLIGHT} requests may be in flight (MAX_IN_FLIGHT).")
        if message.method == "initialize" and not envelope.claims_modern(message.params) and self._initializing:
            return InvalidRequest("This connection has its session already.")
        return None

    def _begin(self, message: jsonrpc.Request, *, can_ask: bool = True) -> DuplexRequest:
        request = self._in_flight[message.id] = DuplexRequest(self, message, can_ask=can_ask)
        if message.method == "initialize":
            self._initializing = True
        return request

    def _cancel(self, request_id: Any) -> None:
        """Stop a request; nothing more is sent for it. An unknown id is no fault (SPEC patterns/cancellation)."""
        if not jsonrpc.is_request_id(request_id):
            return
        request = self._in_flight.get(request_id)
        if request is not None and request.message.method != "initialize" and not request.given_up.is_set():
            self._give_up(request)
        listen = self._listens.pop(request_id, None)
        if listen is not None:
            listen.listener.abandon()

    def _give_up(self, request: DuplexRequest) -> None:
        request.given_up.set()
        request.outbox.close()
        request.cancellation.cancel()
        request.attachment.leave()
        self._loop.run_in_executor(None, request.cancellation.queries.interrupt)

    async def _take_batch(self, members: list[Any]) -> None:
        """Several messages in one frame, in the sessions of old revisions."""
        try:
            check_batch(members, None if self._session is None else self._session.revision)
            batch = Batch(self.message_limit)
            for member in members:
                await self._take_member(batch, member)
            if batch.body:
                await self.write(batch.body)
        except MCPError as error:
            await self.write(jsonrpc.encode(jsonrpc.error_message(None, error, LEGACY)))
        finally:
            self._batches -= 1

    async def _take_member(self, batch: Batch, value: Any) -> None:
        try:
            message = jsonrpc.parse(value)
        except jsonrpc.Malformed as malformed:
            batch.add(jsonrpc.encode(jsonrpc.error_message(malformed.request_id, malformed.error, LEGACY)))
            return
        if isinstance(message, jsonrpc.Notification):
            self._notice(message)
        if not isinstance(message, jsonrpc.Request):
            return
        error = self._refusal(message)
        if error is not None:
            batch.add(jsonrpc.encode(jsonrpc.error_message(message.id, error, LEGACY)))
            return
        request = self._begin(message, can_ask=False)
        try:
            reply = await self._reply(request)
            await self._write_outbox(request, last=True)
        finally:
            self._end(request)
        if reply is not None and not request.given_up.is_set():
            batch.add(reply.body, message.id)

    # What is answered.

    async def _answer(self, request: DuplexRequest) -> None:
        try:
            reply = await self._reply(request)
            while reply is not None and reply.asked is not None:
                reply = await self._ask(request, reply.asked)
            await self._write_outbox(request, last=True)
            if reply is None or request.given_up.is_set():
                return
            if reply.listen is not None:
                self._open_listen(request, reply)
                return
            await self.write(reply.body)
        finally:
            self._end(request)
        if request.message.method == "initialize" and self._session is not None and not reply.failed:
            ListenerWriter(self, self._session.listener)

    def _end(self, request: DuplexRequest) -> None:
        """The request is over; what it gave to the hub goes with it, unless it has become a listen."""
        message_id = request.message.id
        if self._in_flight.get(message_id) is request:
            del self._in_flight[message_id]
        listen = self._listens.get(message_id)
        request.attachment.leave(but=None if listen is None else listen.listener)
        if request.message.method == "initialize" and self._session is None:
            self._initializing = False

    def wake(self, request: DuplexRequest) -> None:
        """There is something in the request's outbox; from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is over, and the socket with it.
            self._loop.call_soon_threadsafe(lambda: self._spawn(self._write_outbox(request)))

    async def _write_outbox(self, request: DuplexRequest, *, last: bool = False) -> None:
        if last:
            request.outbox.close()
            if not request.outbox.used:
                return
        async with request.writing:
            for body in request.outbox.take():
                if request.given_up.is_set():
                    return
                await self.write(body)

    async def _ask(self, request: DuplexRequest, asked: Asked) -> Reply | None:
        """Ask the client, and answer its request once it has answered; None where it gave the request up."""
        await self._write_outbox(request)
        waiting: dict[str, asyncio.Future[JSON]] = {}
        numbers: dict[str, str] = {}
        for key, question in asked.questions.items():
            number = numbers[key] = f"mcp_django-{next(self._numbers)}"
            waiting[key] = self._asked[number] = self._loop.create_future()
            params = asked.exchange.question_params(key, question)
            await self.write(jsonrpc.encode(jsonrpc.request_message(number, question.method, params)))
        await self._wait_for(waiting.values(), request)
        for key, number in numbers.items():
            if self._asked.pop(number, None) is not None and not waiting[key].done():
                # Its user may be looking at the question still.
                await self.write(jsonrpc.encode(jsonrpc.cancelled_message(number, "Nobody waits for the answer.")))
        if request.given_up.is_set():
            return None
        given = {key: _answer_of(future) for key, future in waiting.items()}
        # The client has done what it was asked for, and is not sent away now because the workers are busy.
        run = run_patiently(respond_again, asked, given, principal_key=self._principal.key)
        return await self._run(request, asked.exchange.era, run)

    async def _wait_for(self, answers: Iterable[asyncio.Future[JSON]], request: DuplexRequest) -> None:
        """Wait until all are answered, the client has given the request up, or QUESTION_SECONDS are over."""
        given_up: asyncio.Future[Any] = asyncio.ensure_future(request.given_up.wait())
        try:
            async with asyncio.timeout(get_conf().QUESTION_SECONDS):
                for answer in answers:
                    await asyncio.wait([answer, given_up], return_when=asyncio.FIRST_COMPLETED)
                    if given_up.done():
                        return
        except TimeoutError:
            pass
        finally:
            given_up.cancel()

    def _open_listen(self, request: DuplexRequest, reply: Reply) -> None:
        """Acknowledge a listen, and go on with it until it ends."""
        if reply.listen is None or request.cancellation.cancelled:
            return
        listen, message_id = reply.listen, request.message.id
        acknowledgement = jsonrpc.encode(listen.acknowledgement(message_id))
        completion = partial(self._complete, listen, message_id)
        # Open before it is acknowledged: the server may end while that is being written.
        self._listens[message_id] = ListenerWriter(self, listen.listener, acknowledgement, completion)

    async def _complete(self, listen: Listen, message_id: jsonrpc.RequestId) -> None:
        """Write the result of a listen that the server ends; a client that cancelled it gets none."""
        open_listen = self._listens.get(message_id)
        if open_listen is not None and open_listen.listener is listen.listener:
            del self._listens[message_id]
            await self.write(jsonrpc.encode(listen.completion(message_id)))

    async def _reply(self, request: DuplexRequest) -> Reply | None:
        """The reply to a request, or None where the connection ends instead."""
        message = request.message
        era: Era = MODERN if envelope.claims_modern(message.params) else LEGACY
        try:
            revision, client, session = self._context(message)
            era = era_of(revision)
            method = METHODS.get(message.method)
            quick = method is not None and not method.blocking
            principal = authenticate_again_from_memory(self._principal, self._request) if quick else None
            if principal is not None:
                return self._respond(request, revision, client, session, principal)
            run = get_workers().submit(
                self._respond, request, revision, client, session, None, principal_key=self._principal.key
            )
        except MCPError as error:
            return _failed(message, error, era)
        return await self._run(request, era, run)

    async def _run(
        self, request: DuplexRequest, era: Era, run: asyncio.Future[Reply] | Coroutine[Any, Any, Reply]
    ) -> Reply | None:
        """The reply that a run of the handler gives, in the time that a request may take."""
        working = asyncio.ensure_future(run)
        seconds = get_conf().REQUEST_SECONDS
        timer = self._loop.call_later(seconds, self._time_out, request, working) if seconds else None
        try:
            return await working
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(request.message, RequestTimedOut(), era)
        except Unauthenticated:
            self._close()
            return None
        except MCPError as error:
            return _failed(request.message, error, era)
        except Exception:
            logger.exception("A message could not be answered")
            return _failed(request.message, InternalError(), era)
        finally:
            if timer is not None:
                timer.cancel()

    def _time_out(self, request: DuplexRequest, working: asyncio.Future[Reply]) -> None:
        """Nobody waits any more for what is not ready by now."""
        if working.cancel():
            request.cancellation.expire()
            self._loop.run_in_executor(None, request.cancellation.queries.interrupt)

    def _context(self, message: jsonrpc.Request) -> tuple[str, Client, DuplexSession | None]:
        """How the request opens: as a modern one, as the start of the legacy session, or within it. Raises MCPError."""
        if envelope.claims_modern(message.params):
            revision, capabilities = envelope.read_envelope(message.params)
            envelope.check_version(revision)
            return revision, envelope.client_of(message.params, capabilities), None
        if self._session is not None:
            return self._session.revision, self._session.client, self._session
        if message.method in ("initialize", "ping"):
            return NEWEST_LEGACY, Client(), None
        raise NotInitialized

    def _respond(
        self,
        request: DuplexRequest,
        revision: str,
        client: Client,
        session: DuplexSession | None,
        principal: Principal | None,
    ) -> Reply:
        """Answer a request, in a worker or on the loop. The credentials are tried again at every message."""
        principal = principal or authenticate_again(self._principal, self._request)
        return respond(
            Exchange(
                site=self._site,
                principal=principal,
                revision=revision,
                method=request.message.method,
                params=request.message.params,
                request_id=request.message.id,
                client=client,
                connection=request,
                request=self._request.copy().for_principal(principal),
                session=session,
                cancellation=request.cancellation,
            )
        )

    def share(self, listener: Listener) -> None:
        """Let the listener hold what the connection holds, and not the request that made it with all that it found."""
        listener.request = self._request
        if listener.principal.rights == self._principal.rights:
            listener.principal = self._principal

    def open_session(self, revision: str, client: Client) -> None:
        """Begin the legacy session; from a worker."""
        listener = Listener(
            site=self._site,
            principal=self._principal,
            request=self._request,
            revision=revision,
            lists=frozenset(LISTS),
        )
        self._session_attachment.attach(listener)
        self._session_attachment.remember_lists(listener)
        self._session = DuplexSession(revision, client, listener, self._session_attachment)

    # How it ends.

    async def finish(self) -> None:
        """Let the open listens be told that they end."""
        await _close(self._listens.values(), _FINISH_SECONDS)

    async def drain(self, seconds: float) -> None:
        """Nothing more comes: let what is in flight be answered, and the listens be told that they end."""
        await _close(self.writers, seconds, self._tasks)

    def leave(self) -> None:
        """The connection is gone: whatever was being done for it stops."""
        for request in self._in_flight.values():
            self._give_up(request)
        self._listens.clear()
        for writer in list(self.writers):
            writer.leave()
        self._session_attachment.leave()
        for task in list(self._tasks):
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.crash(error)

    def crash(self, error: BaseException) -> None:
        """End the connection: a listen that has ended unsaid would be waited for."""
        logger.error("A connection ends, since a message could not be told", exc_info=error)
        self._crash()


async def _close(writers: Iterable[ListenerWriter], seconds: float, tasks: Iterable[asyncio.Future[None]] = ()) -> None:
    """Close the writers, and wait no longer than ``seconds`` until they and the tasks have come to their end."""
    ends = {writer.close() for writer in list(writers)}.union(tasks)
    if ends:
        await asyncio.wait(ends, timeout=seconds)


def _failed(message: jsonrpc.Request, error: MCPError, era: Era) -> Reply:
    return Reply(jsonrpc.encode(jsonrpc.error_message(message.id, error, era)), failed=True)


def _answer_of(future: asyncio.Future[JSON]) -> JSON:
    """What the client answered; a future that is not done was not answered in time."""
    return given_by(future.result() if future.done() and not future.cancelled() else None)
