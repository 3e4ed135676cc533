"""Asking a legacy client while its request is being answered: our requests to it, and its answers, on any transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Protocol

from mcp_django.conf import get_conf
from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.core.running.workers import run_patiently
from mcp_django.exchange.answers import given_by
from mcp_django.protocol.jsonrpc import Response, cancelled_message, encode, request_message
from mcp_django.protocol.types import JSON
from mcp_django.push.sessions import stored_questions
from mcp_django.push.waiters import Waiters
from mcp_django.server.dispatch import PendingQuestions


class OpenQuestions(Protocol):
    """Our requests to one client that it has not answered yet. On the loop."""

    async def open(self, keys: Collection[str]) -> Mapping[str, str]:
        """An id for each question. ``{key: id}`` Raises MCPError."""

    def expect(self, question_id: str) -> asyncio.Event:
        """Set once the question is answered."""

    def unexpect(self, question_id: str, answered: asyncio.Event) -> None:
        """The answer is not waited for any more."""

    async def take_responses(self, question_ids: Collection[str]) -> Mapping[str, JSON]:
        """The responses that came, by id. The questions are closed: later responses are dropped."""


async def ask(
    pending: PendingQuestions,
    open_questions: OpenQuestions,
    write: Callable[[Sequence[bytes]], Awaitable[None]],
    ending: asyncio.Event,
) -> dict[str, JSON]:
    """Put the questions to the client, and wait until all are answered, ``ending`` is set or QUESTION_SECONDS are over.

    ``{key: answer}``
    """
    ids = await open_questions.open(list(pending.questions))
    expected = {question_id: open_questions.expect(question_id) for question_id in ids.values()}
    try:
        await write([
            encode(request_message(ids[key], question.method, pending.exchange.question_params(key, question)))
            for key, question in pending.questions.items()
        ])  # fmt: skip
        await _wait_for(expected.values(), ending)
    finally:
        for question_id, answered in expected.items():
            open_questions.unexpect(question_id, answered)
    responses = await open_questions.take_responses(list(expected))
    # The client's user may still be looking at the question.
    unanswered = [question_id for question_id in expected if question_id not in responses]
    await write([encode(cancelled_message(name, "Nobody waits for the answer.")) for name in unanswered])
    return {key: given_by(responses.get(question_id)) for key, question_id in ids.items()}


async def _wait_for(answers: Iterable[asyncio.Event], ending: asyncio.Event) -> None:
    waiting = {asyncio.ensure_future(_all(answers)), asyncio.ensure_future(ending.wait())}
    try:
        await asyncio.wait(waiting, timeout=get_conf().QUESTION_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _all(answers: Iterable[asyncio.Event]) -> None:
    for answered in answers:
        await answered.wait()


class StoredQuestions:
    """The open questions of a stored session: the client may answer to any process."""

    def __init__(self, session_key: str, waiters: Waiters) -> None:
        self._session_key = session_key
        self._waiters = waiters

    async def open(self, keys: Collection[str]) -> Mapping[str, str]:
        return await run_patiently(stored_questions.open_questions, self._session_key, keys)

    def expect(self, question_id: str) -> asyncio.Event:
        return self._waiters.expect(Control(ControlKind.QUESTION, question_id))

    def unexpect(self, question_id: str, answered: asyncio.Event) -> None:
        self._waiters.unexpect(Control(ControlKind.QUESTION, question_id), answered)

    async def take_responses(self, question_ids: Collection[str]) -> Mapping[str, JSON]:
        return await run_patiently(stored_questions.take_responses, question_ids)


class ConnectionQuestions:
    """The open questions of a connection: the client answers on the same one."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._answered: dict[str, asyncio.Event] = {}
        self._responses: dict[str, JSON] = {}

    async def open(self, keys: Collection[str]) -> Mapping[str, str]:
        return {key: f"mcp_django-{next(self._numbers)}" for key in keys}

    def expect(self, question_id: str) -> asyncio.Event:
        return self._answered.setdefault(question_id, asyncio.Event())

    def unexpect(self, question_id: str, answered: asyncio.Event) -> None:
        self._answered.pop(question_id, None)

    async def take_responses(self, question_ids: Collection[str]) -> Mapping[str, JSON]:
        return {key: self._responses.pop(key) for key in question_ids if key in self._responses}

    def end(self) -> None:
        """Wait for none of the answers any more."""
        for answered in self._answered.values():
            answered.set()

    def receive(self, response: Response) -> None:
        """Take in a response of the client. It is dropped if its question is not open, or has a response already."""
        answered = self._answered.get(str(response.id)) if isinstance(response.id, str) else None
        if answered is not None and not answered.is_set():
            self._responses[str(response.id)] = response.body
            answered.set()
