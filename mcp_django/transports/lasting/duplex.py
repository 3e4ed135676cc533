"""The messages of one lasting connection (a socket, the pipes of stdio, an old SSE stream) on which both sides speak.

It knows which requests are in flight, which listens are open, and the connection's legacy session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp_django.access.authentication import key_of
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import MAX_MESSAGE_BYTES, get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange.connection import DEFAULT_LOG_LEVEL
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol import envelope, jsonrpc
from mcp_django.protocol.batches import Batch
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import InvalidRequest, LimitExceeded, Paused, RequestCancelled
from mcp_django.protocol.revisions import LEGACY, Era
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.push.subscriptions import Subscription
from mcp_django.server import trail
from mcp_django.server.dispatch import Reply
from mcp_django.server.subscriptions import Listen
from mcp_django.transports.asking import ConnectionQuestions
from mcp_django.transports.attachment import Attachment
from mcp_django.transports.lasting.duplex_request import DuplexRequest, era_of_message, failed
from mcp_django.transports.lasting.frames import ListenerWriter, close_writers


@dataclass(eq=False)
class DuplexSession:
    """A legacy session that begins with ``initialize`` and ends with its connection."""

    revision: str
    client: Client
    listener: Listener
    attachment: Attachment
    log_level: str = DEFAULT_LOG_LEVEL
    key: str = ""

    def set_log_level(self, level: str) -> None:
        self.log_level = level

    def subscribe(self, subscription: Subscription) -> None:
        limit = get_conf().MAX_SUBSCRIPTIONS
        watched = self.listener.subscriptions
        if subscription.uri not in watched and len(watched) >= limit:
            raise LimitExceeded(f"A session may watch at most {limit} resources (MAX_SUBSCRIPTIONS).")
        self.attachment.watch(self.listener, [subscription])

    def unsubscribe(self, uri: str) -> None:
        self.attachment.drop(self.listener, [uri])


logger = logging.getLogger("mcp_django")

_FINISH_SECONDS = 1.0


class DuplexConnection:
    """Both directions of one connection. ``write`` sends a message, ``close`` ends the connection.

    ``crash`` ends it after an error of our own, for transports that report such an error in another way.
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
        transport: str,
        crash: Callable[[], None] | None = None,
        message_limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self.message_limit = message_limit
        self.transport = transport
        self.site = site
        self.principal = principal
        #: Names the caller for queues.
        self.queue_key = key_of(principal, request)
        self.request = request
        self.write = write
        self.close = close
        self._crash = crash or close
        self.loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: dict[jsonrpc.RequestId, DuplexRequest] = {}
        self._listens: dict[jsonrpc.RequestId, ListenerWriter] = {}
        #: The writers of the listens, and the writer of the session.
        self.writers: set[ListenerWriter] = set()
        self.session: DuplexSession | None = None
        self._session_attachment: Attachment | None = None
        self._is_gone = False
        self._initializing = False
        self._batches = 0
        self.questions = ConnectionQuestions()
        #: Why it ends, once a person has paused its principal.
        self.paused: Paused | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for an answer, or watches something."""
        session = self.session
        return bool(self._in_flight or self._listens or (session is not None and session.listener.subscriptions))

    # Incoming messages.

    async def take(self, value: Any) -> None:
        """Take in one decoded frame. Raises Malformed."""
        if isinstance(value, list):
            await self._begin_batch(value)
            return
        message = jsonrpc.parse(value)
        if not isinstance(message, jsonrpc.Request):
            self._receive(message)
            return
        error = self._refusal(message)
        if error is not None:
            await self.write(self.refuse(message, error, era_of_message(message)).body)
            return
        answering = self.spawn(self._answer(self._begin(message)))
        if message.method == "initialize":
            # A message right behind it is meant for the session that it opens.
            await asyncio.wait({answering})

    def _receive(self, message: jsonrpc.Notification | jsonrpc.Response) -> None:
        """Take in a message that wants no answer."""
        if isinstance(message, jsonrpc.Response):
            self.questions.receive(message)
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))

    def _refusal(self, message: jsonrpc.Request) -> MCPError | None:
        """Why a request is refused before it begins; None if it may begin."""
        conf = get_conf()
        if message.id in self._in_flight or message.id in self._listens:
            return InvalidRequest("A request with this id is still being answered.")
        if len(self._in_flight) >= conf.MAX_IN_FLIGHT:
            return LimitExceeded(f"At most {conf.MAX_IN_FLIGHT} requests may be in flight (MAX_IN_FLIGHT).")
        if message.method == "initialize" and not envelope.claims_modern(message.params) and self._initializing:
            return InvalidRequest("This connection has its session already.")
        return None

    def refuse(self, message: jsonrpc.Request, error: MCPError, era: Era) -> Reply:
        """The reply to a request that no handler has answered."""
        trail.refuse(self.site, self.request, self.principal, error, self.transport)
        return failed(message, error, era)

    def _begin(self, message: jsonrpc.Request, *, can_ask: bool = True) -> DuplexRequest:
        request = self._in_flight[message.id] = DuplexRequest(self, message, can_ask)
        if message.method == "initialize":
            self._initializing = True
        return request

    def _cancel(self, request_id: Any) -> None:
        """Stop a request; nothing more is sent for it. An unknown id is no fault (SPEC patterns/cancellation)."""
        if not jsonrpc.is_request_id(request_id):
            return
        request = self._in_flight.get(request_id)
        if request is not None and request.message.method != "initialize" and not request.given_up.is_set():
            request.give_up()
        listen = self._listens.pop(request_id, None)
        if listen is not None:
            listen.listener.abandon()

    # Batches: several messages in one frame, in the sessions of old revisions.

    async def _begin_batch(self, members: list[Any]) -> None:
        limit = get_conf().MAX_IN_FLIGHT
        if self._batches >= limit:
            await self._refuse(LimitExceeded(f"At most {limit} batches may be in flight (MAX_IN_FLIGHT)."))
            return
        self._batches += 1
        self.spawn(self._answer_batch(members))

    async def _answer_batch(self, members: list[Any]) -> None:
        try:
            batch = Batch(members, None if self.session is None else self.session.revision, self.message_limit)
            for message in batch.requests(self._receive):
                await self._answer_member(batch, message)
            if batch.body:
                await self.write(batch.body)
        except MCPError as error:
            await self._refuse(error)
        finally:
            self._batches -= 1

    async def _refuse(self, error: MCPError) -> None:
        trail.refuse(self.site, self.request, self.principal, error, self.transport)
        await self.write(jsonrpc.encode(jsonrpc.error_message(None, error, LEGACY)))

    async def _answer_member(self, batch: Batch, message: jsonrpc.Request) -> None:
        answer = await self.answer_alone(message)
        if answer is not None:
            batch.add(answer, message.id)

    async def answer_alone(self, message: jsonrpc.Request) -> bytes | None:
        """The answer to a request whose client cannot be asked; None where it is to get none."""
        error = self._refusal(message)
        if error is not None:
            return self.refuse(message, error, era_of_message(message)).body
        request = self._begin(message, can_ask=False)
        try:
            reply = await request.reply()
        except asyncio.CancelledError:
            request.give_up()
            raise
        finally:
            self._end(request)
        return None if reply is None else reply.body

    # Answers.

    async def _answer(self, request: DuplexRequest) -> None:
        try:
            reply = await request.reply()
            if reply is None:
                return
            if reply.listen is not None:
                self._open_listen(request, reply.listen)
                return
            await self.write(reply.body)
        finally:
            self._end(request)
        if request.message.method == "initialize" and self.session is not None and not reply.failed:
            ListenerWriter(self, self.session.listener)

    def _end(self, request: DuplexRequest) -> None:
        """The request is over; what it gave to the hub goes with it, unless it has become a listen."""
        message_id = request.message.id
        if self._in_flight.get(message_id) is request:
            del self._in_flight[message_id]
        listen = self._listens.get(message_id)
        request.leave_hub(but=None if listen is None else listen.listener)
        if request.message.method == "initialize" and self.session is None:
            self._initializing = False

    async def write_all(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            await self.write(body)

    def _open_listen(self, request: DuplexRequest, listen: Listen) -> None:
        """Acknowledge a listen, and go on with it until it ends."""
        if request.cancellation.cancelled:
            return
        message_id = request.message.id
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

    def share(self, listener: Listener) -> None:
        """Let the listener use the connection's request, so that the one that opened it can be freed."""
        listener.request = self.request
        if listener.principal.rights == self.principal.rights:
            listener.principal = self.principal

    def open_session(self, revision: str, client: Client) -> None:
        """Begin the legacy session; from a worker."""
        listener = Listener(
            self.site, self.principal, self.request, revision=revision, lists=frozenset(LISTS),
            transport=self.transport, client_name=client.name,
        )  # fmt: skip
        attachment = self._session_attachment = Attachment(self.loop)
        # Checked after the attachment is stored: ``leave`` on the loop finds it, or has run and is seen here.
        if self._is_gone:
            raise RequestCancelled
        attachment.attach(listener)
        attachment.remember_lists(listener)
        self.session = DuplexSession(revision, client, listener, attachment)

    # Its end.

    async def finish(self) -> None:
        """Complete the open listens."""
        await close_writers(self._listens.values(), _FINISH_SECONDS)

    async def drain(self, seconds: float) -> None:
        """The client sends nothing more: answer the requests in flight, and tell the listens that they end."""
        await close_writers(self.writers, seconds, self._tasks)

    def pause(self, paused: Paused) -> bool:
        """Let no request in flight wait for its user any more: the connection ends once they are answered.

        False if that was done before.
        """
        if self.paused is not None:
            return False
        self.paused = paused
        self.questions.end()
        return True

    def leave(self) -> None:
        """The connection is gone: stop all work for it."""
        self._is_gone = True
        for request in self._in_flight.values():
            request.give_up()
        self._listens.clear()
        for writer in list(self.writers):
            writer.leave()
        if self._session_attachment is not None:
            self._session_attachment.leave()
        for task in list(self._tasks):
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.crash(error)

    def crash(self, error: BaseException) -> None:
        """End the connection. Otherwise the client would wait for a listen that has already ended."""
        logger.error("A connection ends, since a message could not be written", exc_info=error)
        self._crash()
