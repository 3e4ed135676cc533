"""A POST that is answered in a worker: by its answer alone, or on a stream with what goes before the answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from functools import cached_property
from http import HTTPStatus
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.events.controls import Control, ControlKind
from mcp_django.exceptions import MCPError
from mcp_django.exchange.answers import given_by
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import (
    InternalError,
    LimitExceeded,
    Overloaded,
    RequestCancelled,
    RequestTimedOut,
    Unauthenticated,
)
from mcp_django.protocol.jsonrpc import cancelled_message, encode, request_message
from mcp_django.push.hub import get_hub
from mcp_django.push.shutdown import close_hub_at_shutdown
from mcp_django.server.dispatch import Asked
from mcp_django.sessions import questions
from mcp_django.transports.http.core import Conversation
from mcp_django.transports.http.incoming import Answer
from mcp_django.transports.http.outgoing import Outgoing
from mcp_django.transports.http.streams import CallStream
from mcp_django.workers import get_workers, run_patiently

JSON = dict[str, Any]

logger = logging.getLogger("mcp_django")

#: Calls that go on, whether somebody waits for them or not.
_tasks: set[asyncio.Task[None]] = set()


class Call:
    """Runs the handler, passes on what it says, asks what it asks. On the loop.

    Where the client may come back for the rest, each event is stored before it is sent, and the call goes on without
    its client.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._cancellation = conversation.cancellation
        self._outbox = conversation.outbox
        self._loop = asyncio.get_running_loop()
        self._hub = get_hub()
        #: Done when something has happened: the run is over, or has something to say, or the call has to end.
        self._news: asyncio.Future[None] = self._loop.create_future()
        #: Why the call has to end before its answer is there.
        self._ending: MCPError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._asking = False
        self._going_away = False
        self._outbox.on_put = self._wake

    async def answer(self) -> Answer:
        """The answer, as soon as it is there or something goes before it. Raises Overloaded."""
        working = self._start(
            get_workers().submit(self._conversation.answer, principal_key=self._conversation.principal_key)
        )
        try:
            await self._news
        except asyncio.CancelledError:
            _leave_alone(working)
            raise
        answer = self._plain_answer(working)
        if answer is not None:
            self._outbox.close()
            return answer
        task = self._loop.create_task(self._run(working))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        return self._conversation.stream(CallStream(self))

    @cached_property
    def outgoing(self) -> Outgoing:
        return Outgoing(self._conversation)

    def leave(self) -> None:
        """The client is gone, or has everything."""
        self.outgoing.detach()
        if self._is_over:
            self._hub.leave(self)
        elif self._conversation.cancelled_by_disconnect and not self._cancellation.cancelled:
            self._conversation.cancel()

    # A member of the hub while it streams: it ends with its principal's rights, and while it asks, with the process.

    @property
    def is_counted(self) -> bool:
        return self._asking

    @property
    def principal(self) -> Principal:
        return self._conversation.request.mcp.principal

    @property
    def request(self) -> MCPRequest:
        return self._conversation.request

    @property
    def session_key(self) -> str | None:
        """The session without which nobody can answer what the call asks."""
        session = self._conversation.session
        return session.key if session is not None and self._asking else None

    def close(self, *, going_away: bool = False) -> None:
        if self._is_over:
            return
        if not going_away:
            self._end(Unauthenticated("The credentials no longer hold, or the session has ended.", ""))
            self._conversation.cancel()
            return
        # What runs may come to its end; a question would keep the process for as long as its user likes.
        self._going_away = True
        if self._asking:
            self._end(_server_ends())

    # How it goes.

    def _start(self, run: asyncio.Future[Answer] | Coroutine[Any, Any, Answer]) -> asyncio.Future[Answer]:
        """Begin a run of the handler. It may take REQUEST_SECONDS, whether somebody waits for it or not."""
        working = asyncio.ensure_future(run)
        working.add_done_callback(self._run_is_over)
        seconds = get_conf().REQUEST_SECONDS
        self._timer = self._loop.call_later(seconds, self._time_out) if seconds else None
        return working

    def _run_is_over(self, _: asyncio.Future[Answer]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look()

    def _time_out(self) -> None:
        self._end(RequestTimedOut())
        self._cancellation.expire()
        self._loop.run_in_executor(None, self._cancellation.queries.interrupt)

    def _plain_answer(self, working: asyncio.Future[Answer]) -> Answer | None:
        """The answer, if nothing goes before it. Raises Overloaded."""
        if not working.done():
            if self._ending is None:
                return None
            _leave_alone(working)
            return self._conversation.refuse(self._ending)
        answer = working.result()
        # What is refused with a status of its own is refused whatever was said before.
        refused = answer.status != HTTPStatus.OK
        is_plain = refused or answer.stream is not None or not self._outbox.used
        return answer if is_plain and answer.asked is None else None

    async def _run(self, working: asyncio.Future[Answer]) -> None:
        close_hub_at_shutdown(self._hub)
        self._hub.join(self)
        self._cancellation.when_cancelled(self._give_up)
        try:
            answer = await self._answer_in_the_end(working)
            self._outbox.close()
            # A client that has given its request up gets no answer to it.
            await self.outgoing.finish([] if isinstance(self._ending, RequestCancelled) else [answer.body])
        finally:
            self._is_over = True
            # As long as its last words are being written, the process must not end.
            if not self.outgoing.is_attached:
                self._hub.leave(self)

    async def _answer_in_the_end(self, working: asyncio.Future[Answer]) -> Answer:
        try:
            return await self._answered(working)
        except MCPError as error:
            return self._conversation.refuse(error)
        except Exception:
            logger.exception("A request could not be answered")
            return self._conversation.refuse(InternalError())

    async def _answered(self, working: asyncio.Future[Answer]) -> Answer:
        await self.outgoing.open()
        answer = await self._pass_on(working)
        while answer.asked is not None:
            given = await self._ask(answer.asked)
            # The client has done what it was asked for, and is not sent away now because the workers are busy.
            run = run_patiently(
                self._conversation.answer_again, answer.asked, given, principal_key=self._conversation.principal_key
            )
            answer = await self._pass_on(self._start(run))
        return answer

    async def _pass_on(self, working: asyncio.Future[Answer]) -> Answer:
        """Send on what the handler says, until it has its result. Raises MCPError where it has to end before."""
        while True:
            self._news = self._loop.create_future()
            done = working.done()
            await self.outgoing.write(self._outbox.take())
            retry_ms, self._outbox.retry_ms = self._outbox.retry_ms, None
            if retry_ms is not None:
                self.outgoing.release(retry_ms)
            if done:
                return working.result()
            if self._ending is not None:
                _leave_alone(working)
                raise self._ending
            # The loop has its turn in each round, however much the handler says.
            await (self._news if not self._news.done() else asyncio.sleep(0))

    def _wake(self) -> None:
        """There is something in the outbox; from the handler's thread."""
        with contextlib.suppress(RuntimeError):  # The loop is over.
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    def _give_up(self) -> None:
        """The client wants no answer any more; from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is over.
            self._loop.call_soon_threadsafe(self._end, RequestCancelled())

    def _end(self, reason: MCPError) -> None:
        if self._ending is None:
            self._ending = reason
        self._look()
        self.outgoing.hurry()

    # What is asked.

    async def _ask(self, asked: Asked) -> dict[str, JSON]:
        """Ask the client, who may answer to any process. ``{key: answer}``. Raises MCPError where it has to end."""
        session = self._conversation.session
        if session is None:
            raise InternalError
        if self._going_away:
            self._end(_server_ends())
        if self._ending is not None:
            raise self._ending
        limit = get_conf().MAX_LISTENS
        if self._hub.streams_of(self.principal.key) >= limit:
            raise LimitExceeded(f"You have {limit} streams open (MAX_LISTENS). Answer a question, or close a listen.")
        self._asking = True
        try:
            return await self._answers(asked, session.key)
        finally:
            self._asking = False

    async def _answers(self, asked: Asked, session_key: str) -> dict[str, JSON]:
        ids = await run_patiently(questions.open_questions, session_key, list(asked.questions))
        controls = {question_id: Control(ControlKind.QUESTION, question_id) for question_id in ids.values()}
        expected = {question_id: self._hub.waiters.expect(control) for question_id, control in controls.items()}
        try:
            await self.outgoing.write([
                encode(request_message(ids[key], question.method, asked.exchange.question_params(key, question)))
                for key, question in asked.questions.items()
            ])  # fmt: skip
            await self._wait_for(expected.values())
        finally:
            for question_id, arrived in expected.items():
                self._hub.waiters.unexpect(controls[question_id], arrived)
        responses = await run_patiently(questions.take_responses, list(expected))
        unanswered = [question_id for question_id in expected if question_id not in responses]
        # Its user may be looking at the question still.
        await self.outgoing.write(
            [encode(cancelled_message(name, "Nobody waits for the answer.")) for name in unanswered]
        )
        if self._ending is not None:
            raise self._ending
        return {key: given_by(responses.get(question_id)) for key, question_id in ids.items()}

    async def _wait_for(self, arrivals: Iterable[asyncio.Event]) -> None:
        """Wait until all have come, the call has to end, or QUESTION_SECONDS are over."""
        everything = asyncio.ensure_future(_all(arrivals))
        everything.add_done_callback(lambda _: self._look())
        try:
            async with asyncio.timeout(get_conf().QUESTION_SECONDS):
                while self._ending is None and not everything.done():
                    self._news = self._loop.create_future()
                    await self._news
        except TimeoutError:
            pass
        finally:
            everything.cancel()


def _server_ends() -> Overloaded:
    return Overloaded("The server is ending. Send the request again in a moment.")


def _leave_alone(working: asyncio.Future[Answer]) -> None:
    """Nobody waits for it any more; what it raises now is nobody's."""
    working.add_done_callback(lambda late: late.cancelled() or late.exception())


async def _all(arrivals: Iterable[asyncio.Event]) -> None:
    for arrived in arrivals:
        await arrived.wait()
