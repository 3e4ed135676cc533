"""One request on a lasting connection: what its handler sees, and how it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from mcp_django.access.authentication import authenticate_again, authenticate_again_from_memory
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers, run_patiently
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.protocol import envelope
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import InternalError, NotInitialized, RequestTimedOut, Unauthenticated
from mcp_django.protocol.jsonrpc import Request, encode, error_message
from mcp_django.protocol.revisions import LEGACY, MODERN, NEWEST_LEGACY, Era, era_of
from mcp_django.push.listeners import Listener
from mcp_django.server.dispatch import PendingQuestions, Reply, respond, respond_again
from mcp_django.server.methods import QUICK_METHODS
from mcp_django.transports.asking import ask
from mcp_django.transports.in_flight import InFlight, Opening

if TYPE_CHECKING:
    from mcp_django.transports.lasting.duplex import DuplexConnection

logger = logging.getLogger("mcp_django")


@dataclass(eq=False)
class DuplexRequest(InFlight):
    """One request in flight, as the connection that its handler sees."""

    connection: DuplexConnection
    message: Request
    can_ask: bool = True
    #: Set once the client has given the request up.
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    #: One task at a time writes the messages of the buffer, so that their order is kept.
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    push = True
    can_suspend = True

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.buffer.on_put = self._wake

    @property
    def transport(self) -> str:  # type: ignore[override]
        return self.connection.transport

    @property
    def message_limit(self) -> int:
        return self.connection.message_limit

    @property
    def is_live(self) -> bool:
        # The answers to the members of a batch leave together, and a gRPC ``Call`` carries its answer alone.
        return self.can_ask and super().is_live

    def close_stream(self, retry_ms: int) -> None:
        """Do nothing: the messages for this request share their connection with everything else."""

    def open_session(self, revision: str, client: Client) -> None:
        self.connection.open_session(revision, client)

    def attach(self, listener: Listener) -> None:
        self.connection.share(listener)
        super().attach(listener)

    def give_up(self) -> None:
        """The client wants no answer any more."""
        self.given_up.set()
        self.buffer.close()
        self.cancel()
        self.leave_hub()

    # Answering.

    async def reply(self) -> Reply | None:
        """The reply, once everything that goes ahead of it is written; None where the client gets none."""
        reply = await self._reply()
        while reply is not None and reply.pending is not None:
            reply = await self._reply_again(reply.pending)
        self.buffer.close()
        if self.buffer.used:
            await self._write_buffer()
        return None if self.given_up.is_set() else reply

    async def _reply(self) -> Reply | None:
        connection, message, era = self.connection, self.message, era_of_message(self.message)
        try:
            opening = self._opening()
            era = era_of(opening.revision)
            recall = partial(authenticate_again_from_memory, connection.principal, connection.request)
            principal = self.principal_here(connection.site, connection.request, message, recall)
            if principal is not None and message.method in QUICK_METHODS:
                return self._respond(opening, principal)
            submit = get_workers().submit if principal is None else get_workers().run_here
            run = submit(self._respond, opening, principal, principal_key=connection.queue_key)
        except MCPError as error:
            return connection.refuse(message, error, era)
        return await self._run(run, era)

    async def _reply_again(self, pending: PendingQuestions) -> Reply | None:
        """Ask the client, and answer its request once it has answered; None where it gave the request up."""
        await self._write_buffer()
        if self.connection.paused is not None:
            return self.connection.refuse(self.message, self.connection.paused, pending.exchange.era)
        given = await ask(pending, self.connection.questions, self.connection.write_all, self.given_up)
        if self.given_up.is_set():
            return None
        if self.connection.paused is not None:
            return self.connection.refuse(self.message, self.connection.paused, pending.exchange.era)
        # The client has done what it was asked for, so busy workers are no reason to refuse it now.
        run = run_patiently(respond_again, pending, given, principal_key=self.connection.queue_key)
        return await self._run(run, pending.exchange.era)

    def _opening(self) -> Opening:
        """How the request opens: as a modern one, as the start of the legacy session, or within it. Raises MCPError."""
        session = self.connection.session
        if envelope.claims_modern(self.message.params):
            return Opening(*envelope.open_modern(self.message.params))
        if session is not None:
            return Opening(session.revision, session.client, session)
        if self.message.method in ("initialize", "ping"):
            return Opening(NEWEST_LEGACY)
        raise NotInitialized

    def _respond(self, opening: Opening, principal: Principal | None) -> Reply:
        """Answer the request, in a worker or on the loop. The credentials are checked again for every message."""
        connection = self.connection
        principal = principal or authenticate_again(connection.principal, connection.request)
        request = connection.request.copy().for_principal(principal)
        return respond(self.exchange(connection.site, request, principal, self.message, opening))

    async def _run(self, run: asyncio.Future[Reply] | Coroutine[None, None, Reply], era: Era) -> Reply | None:
        """The reply that a run of the handler gives, in the time that a request may take.

        None where the connection ends instead.
        """
        working = asyncio.ensure_future(run)
        seconds = get_conf().REQUEST_SECONDS
        timer = asyncio.get_running_loop().call_later(seconds, self._time_out, working) if seconds else None
        try:
            return await working
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failed(self.message, RequestTimedOut(), era)
        except Unauthenticated as error:
            self.connection.refuse(self.message, error, era)
            self.connection.close()
            return None
        except MCPError as error:
            return self.connection.refuse(self.message, error, era)
        except Exception:
            logger.exception("A message could not be answered")
            return failed(self.message, InternalError(), era)
        finally:
            if timer is not None:
                timer.cancel()

    def _time_out(self, working: asyncio.Future[Reply]) -> None:
        """Stop waiting for a reply that is not ready in time."""
        if working.cancel():
            self.expire()

    def _wake(self) -> None:
        """There is something in the buffer; from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is over, and the socket with it.
            self.connection.loop.call_soon_threadsafe(self._write_soon)

    def _write_soon(self) -> None:
        self.connection.spawn(self._write_buffer())

    async def _write_buffer(self) -> None:
        async with self._writing:
            for body in self.buffer.take():
                if self.given_up.is_set():
                    return
                await self.connection.write(body)


def era_of_message(message: Request) -> Era:
    return MODERN if envelope.claims_modern(message.params) else LEGACY


def failed(message: Request, error: MCPError, era: Era) -> Reply:
    return Reply(encode(error_message(message.id, error, era)), failed=True)
