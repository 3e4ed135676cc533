"""Runs a task in a worker of Django's tasks framework. Its tool is called for its principal, as in any request."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db import connections
from pydantic_core import from_json

from mcp_django.access.throttling import throttles
from mcp_django.bridge.callers import principal_of, request_from
from mcp_django.bridge.sites import MCPSite, all_sites
from mcp_django.bridge.tasks import task_rows
from mcp_django.bridge.tasks.task_answers import TaskAnswers
from mcp_django.conf import MAX_MESSAGE_BYTES, get_conf
from mcp_django.core import failures
from mcp_django.core.middleware_policy import socket_problem
from mcp_django.exceptions import MCPError
from mcp_django.exchange import questions
from mcp_django.exchange.cancellation import RUNNING, Cancellation
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.exchange import LOG_LEVELS, Exchange, LogLevel
from mcp_django.exchange.questions import InputRequired
from mcp_django.exchange.usage import Usage
from mcp_django.models import Task
from mcp_django.protocol import envelope
from mcp_django.protocol.errors import (
    AnswerTooLong,
    Forbidden,
    InternalError,
    LimitExceeded,
    Paused,
    RequestCancelled,
    TaskRefused,
    TaskTimedOut,
    ToolNotFound,
    Unauthenticated,
)
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON
from mcp_django.server import dispatch, trail
from mcp_django.server.methods import METHODS

logger = logging.getLogger("mcp_django")

#: How often a run checks whether it is still wanted, and stores its progress.
_CHECK_SECONDS = 1.0
#: Room in an answer for everything but its result.
_FRAME_BYTES = 8_000

#: The request whose thread runs the task itself, with an immediate backend.
_waiting: ContextVar[Cancellation | None] = ContextVar("mcp_django_waiting", default=None)


@contextmanager
def cancelled_with(cancellation: Cancellation) -> Iterator[None]:
    """A task that runs within the block is cancelled together with the request."""
    token = _waiting.set(cancellation)
    try:
        yield
    finally:
        _waiting.reset(token)


def run(key: str) -> None:
    """Run the task, if it is still queued. Raises nothing but the exceptions that end a process."""
    task = task_rows.claim(key)
    if task is None:
        return
    cancellation = Cancellation()
    request = _waiting.get()
    if request is not None:
        request.when_cancelled(cancellation.cancel)
    try:
        with RunMonitor(task, cancellation) as monitor:
            _run(task, cancellation, monitor.set_message)
    except BaseException:
        task_rows.fail(task.key, task.run, InternalError())
        raise


def _run(task: Task, cancellation: Cancellation, set_message: Callable[[str], None]) -> None:
    """Run the tool, and store the outcome: a result, an error, or questions."""
    error: MCPError = RequestCancelled()
    usage = Usage()
    try:
        exchange = _exchange(task, cancellation, set_message)
        usage = exchange.usage
        with trail.recorded(exchange):
            result = _result(exchange)
            exchange.usage.bytes = len(encode(result))
        # A tool that notices its cancellation may return early, so its result does not count. After a pause it says
        # what the tool has done.
        if not cancellation.cancelled or isinstance(cancellation.why, Paused):
            task_rows.complete(task.key, task.run, result)
            # Its bytes count when the client fetches them, or is sent them.
            throttles.spend(exchange, 0)
            return
    except InputRequired as asked:
        try:
            task_rows.ask(task.key, task.run, _requests(task, exchange, asked))
            return
        except LimitExceeded as raised:
            error = raised
    except (Unauthenticated, Forbidden, ToolNotFound):
        error = TaskRefused()
    except Paused as paused:
        if not cancellation.cancelled:
            task_rows.put_back(task.key, task.run, paused.said)
            return
        error = paused
    except MCPError as raised:
        error = raised
    except Exception as raised:
        if not cancellation.cancelled:
            failures.note(raised)
            logger.exception("The task of %s failed", task.tool)
        error = InternalError()
    if cancellation.expired:
        error = TaskTimedOut()
    elif cancellation.why is not None:
        error = cancellation.why
    elif cancellation.cancelled:
        task_rows.give_up(task.key, task.run)
        return
    if usage.is_done:
        result = dispatch.shape(exchange, METHODS[exchange.method], dispatch.done_in_spite_of(error))
        task_rows.complete(task.key, task.run, result)
        return
    task_rows.fail(task.key, task.run, error)


def _result(exchange: Exchange) -> JSON:
    """The result as the call itself would have given it. Raises InputRequired, and everything that the tool raises."""
    method = METHODS[exchange.method]
    result = dispatch.run_method(exchange, method)
    if not isinstance(result, dict):
        raise TypeError("A call of a tool must give a result.")
    shaped = dispatch.shape(exchange, method, result)
    # Streams and sockets carry the result too, so it must fit one of their messages.
    _check_size("result", shaped, get_conf().page_bytes, "" if exchange.usage.is_done else " Ask for less.")
    return shaped


def _check_size(what: str, value: Any, limit: int, advice: str = " Ask for less.") -> None:
    """Raises LimitExceeded."""
    if len(encode(value)) > limit - _FRAME_BYTES:
        raise AnswerTooLong(
            f"The {what} of the task would be larger than {limit} bytes (MAX_RESULT_BYTES, and at most "
            f"{MAX_MESSAGE_BYTES} in a task).{advice}"
        )


def _requests(task: Task, exchange: Exchange, asked: InputRequired) -> list[tuple[str, str, JSON]]:
    """The questions as ``task_rows.ask`` takes them. Raises LimitExceeded."""
    if task.rounds >= questions.MAX_ROUNDS:
        raise questions.too_many_rounds()
    found = []
    for name, question in asked.questions.items():
        params = exchange.question_params(name, question)
        found.append((name, question.digest(), {"method": question.method, **({"params": params} if params else {})}))
    _check_size("questions", found, get_conf().page_bytes)
    return found


def _exchange(task: Task, cancellation: Cancellation, set_message: Callable[[str], None]) -> Exchange:
    """An exchange like that of the request that created the task. Raises TaskRefused."""
    site = _site(task.site)
    problem = socket_problem(site.has_call_context, "A task")
    if problem is not None:  # Its middleware came after the task.
        logger.error("A task was refused: %s", problem)
        raise TaskRefused
    request = request_from(from_json(task.origin))
    principal = principal_of(task, request)
    params = from_json(task.params)
    _, capabilities = envelope.read_envelope(params)
    return TaskExchange(
        site=site,
        principal=principal,
        revision=task.revision,
        method="tools/call",
        params=params,
        request_id=task.key,
        client=envelope.client_of(params, capabilities),
        connection=NoConnection(),
        request=request.for_principal(principal),
        cancellation=cancellation,
        answers=TaskAnswers(task, task.questions.all()),
        set_message=set_message,
    )


def _site(name: str) -> MCPSite:
    found = [site for site in all_sites() if site.name == name]
    if not found:
        raise TaskRefused
    return found[0]


@dataclass(slots=True)
class TaskExchange(Exchange):
    """The exchange of a task. Its progress becomes the status message, and its log lines are dropped (ext-tasks)."""

    set_message: Callable[[str], None] = lambda message: None

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        if math.isfinite(progress) and progress > self.sent.progress:
            self.sent.progress = progress
            self.set_message(message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}"))

    def log(self, level: LogLevel, data: Any, logger: str = "") -> None:
        LOG_LEVELS.index(level)

    def as_task(self, *, required: bool = False) -> None:
        """Do nothing: the call is a task already."""


class RunMonitor:
    """A thread beside a run: it renews the lease, stores the progress, and cancels a run that is no longer wanted.

    The thread has its own database connection, so that its writes are in no transaction of the tool.
    """

    def __init__(self, task: Task, cancellation: Cancellation) -> None:
        self._task = task
        self._cancellation = cancellation
        self._over = threading.Event()
        self._message = ""
        self._seen = self._failing = False
        self._renew_at = time.monotonic() + self._renewal
        self._end_at = time.monotonic() + get_conf().TASK_SECONDS
        self._thread = threading.Thread(target=self._watch, name="mcp_django task", daemon=True)

    @property
    def _renewal(self) -> float:
        return get_conf().TASK_LEASE_SECONDS / 3

    def __enter__(self) -> RunMonitor:
        RUNNING[self._task.key] = self._cancellation
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(_CHECK_SECONDS)

    def set_message(self, message: str) -> None:
        """Remember the run's progress. The next check stores it."""
        self._message = message

    def _watch(self) -> None:
        try:
            while not self._over.wait(min(_CHECK_SECONDS, self._renewal)):
                try:
                    self._check()
                    self._failing = False
                except Exception:
                    if not self._failing:
                        logger.warning("The run of a task cannot be monitored; trying again", exc_info=True)
                    self._failing = True
        finally:
            connections.close_all()

    def _check(self) -> None:
        key, run = self._task.key, self._task.run
        message, self._message = self._message, ""
        now = time.monotonic()
        wanted = task_rows.is_wanted(key, run)
        if wanted and now >= self._renew_at:
            task_rows.renew(key, run)
            self._renew_at = now + self._renewal
        if wanted and message:
            task_rows.set_message(key, run, message)
        if now >= self._end_at:
            self._cancellation.expire()
        # A row that was never seen is in a transaction that is still open, such as that of a project's test.
        elif wanted is False or (wanted is None and self._seen):
            self._cancellation.cancel()
        self._seen = self._seen or wanted is not None
        if self._cancellation.cancelled:
            self._cancellation.queries.interrupt()
