"""Dispatch: finds a request's method, validates its params, runs its handler, and shapes the result into an answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from pydantic_core import ValidationError

from mcp_django.access import challenges, pauses
from mcp_django.access.changing_calls import calls
from mcp_django.access.throttling import throttles
from mcp_django.bridge.tasks.framework import is_offered
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.results import done_result, error_result
from mcp_django.conf import get_conf
from mcp_django.core import failures
from mcp_django.core.middleware_policy import why_no_push
from mcp_django.core.running.suspension import Suspended
from mcp_django.exceptions import MCPError
from mcp_django.exchange import questions
from mcp_django.exchange.exchange import Exchange, TaskStarted
from mcp_django.exchange.questions import InputRequired, Question
from mcp_django.exchange.requests import Caller
from mcp_django.models import Call
from mcp_django.protocol.envelope import SERVER_INFO_META_KEY
from mcp_django.protocol.errors import (
    AnswerTooLong,
    InsufficientScope,
    InvalidParams,
    LimitExceeded,
    MethodNotFound,
    Paused,
    PushUnavailable,
    RequestCancelled,
    RequestTimedOut,
    SessionRequired,
    TaskTimedOut,
    Throttled,
    Unauthenticated,
)
from mcp_django.protocol.jsonrpc import encode, error_message, result_message
from mcp_django.protocol.plain_params import is_plain
from mcp_django.protocol.projection import project
from mcp_django.protocol.revisions import MODERN_REVISIONS, NEWEST
from mcp_django.protocol.types import JSON
from mcp_django.server import step_up, tasks, telemetry, trail
from mcp_django.server.methods import ASKING_METHODS, METHODS, SESSION_METHODS, Method
from mcp_django.server.request_state import OWN_PARAMS, input_required, take_answers
from mcp_django.server.subscriptions import Listen

logger = logging.getLogger("mcp_django")

#: Room in a question for everything but its params.
_FRAME_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class PendingQuestions:
    """Questions to a legacy client, which must be answered before its request can be."""

    exchange: Exchange
    questions: Mapping[str, Question]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request: an encoded message, a listen that will stream, or questions that come first."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    failed: bool = False
    listen: Listen | None = None
    pending: PendingQuestions | None = None
    #: The value of WWW-Authenticate, if the credentials have become invalid meanwhile.
    challenge: str = ""
    #: The seconds of Retry-After, if the caller has used up a budget.
    retry_after: int = 0


def respond(exchange: Exchange) -> Reply:
    """Answer a request. Each failure becomes an error message, and unexpected ones are logged.

    Raises Suspended where the connection allows it, and nothing else. Its steps end with the reply.
    """
    with ExitStack() as observed:
        observed.enter_context(telemetry.span(exchange, is_known=exchange.method in METHODS))
        observed.enter_context(trail.recorded(exchange))
        try:
            return _respond_safely(exchange, partial(_respond, exchange))
        except Suspended as suspended:
            # The span and the audit record are closed when the body has ended.
            suspended.then(partial(_respond_observed, exchange, observed.pop_all()))
            raise


def _respond_observed(exchange: Exchange, observed: ExitStack, run: Callable[[], Reply]) -> Reply:
    with observed:
        return _respond_safely(exchange, run)


def _respond_safely(exchange: Exchange, run: Callable[[], Reply]) -> Reply:
    """The reply of a run, or the one that says why it failed."""
    reply = _reply_or_error(exchange, run)
    exchange.usage.bytes = exchange.usage.streamed + len(reply.body)
    return reply


def _reply_or_error(exchange: Exchange, run: Callable[[], Reply]) -> Reply:
    try:
        return run()
    except InsufficientScope as error:
        return _step_up(exchange, error)
    except Exception as error:
        why = trail.error_of(exchange, error)
        if not isinstance(error, MCPError) and not exchange.cancelled:
            failures.note(error)
            logger.exception("%s failed", exchange.method)
        if exchange.usage.is_done:
            return Reply(_encoded(exchange, METHODS[exchange.method], done_in_spite_of(why)))
        if isinstance(why, Paused) and exchange.method == "tools/call":
            # Models read a result, and seldom an error of the protocol.
            trail.fail(exchange, why)
            return Reply(_encoded(exchange, METHODS[exchange.method], error_result(why.message)))
        return error_reply(exchange, why)


def done_in_spite_of(why: MCPError) -> JSON:
    """The result of a call that has done its work, and whose answer has failed."""
    # What these advise would be to call again.
    if isinstance(why, RequestTimedOut | TaskTimedOut):
        return done_result("The call took longer than the server allows.")
    return done_result(why.said if isinstance(why, Paused) else why.message)


def respond_again(pending: PendingQuestions, given: Mapping[str, Any]) -> Reply:
    """Answer a request whose client has answered its questions: the handler runs again from the start."""
    exchange = pending.exchange
    exchange.answers.add(pending.questions, given)
    exchange.begin_again()
    if exchange.round > questions.MAX_ROUNDS:
        return error_reply(exchange, questions.too_many_rounds())
    return respond(exchange)


def error_reply(exchange: Exchange, error: MCPError) -> Reply:
    trail.fail(exchange, error)
    era = exchange.era
    return Reply(
        encode(error_message(exchange.request_id, error, era)),
        error.status_in(era),
        failed=True,
        challenge=_challenge(exchange, error),
        retry_after=error.retry_after if isinstance(error, Throttled | Paused) else 0,
    )


def _step_up(exchange: Exchange, error: InsufficientScope) -> Reply:
    """The reply to an OAuth client whose user can give it what it lacks."""
    result = step_up.result_of(exchange, error)
    if result is None:
        return error_reply(exchange, error)
    trail.fail(exchange, error)
    return Reply(_answer(exchange, METHODS[exchange.method], result))


def _challenge(exchange: Exchange, error: MCPError) -> str:
    if isinstance(error, InsufficientScope):
        return error.challenge
    if not isinstance(error, Unauthenticated):
        return ""
    return challenges.complete(error.challenge, exchange.site, exchange.request)


def find_method(exchange: Exchange) -> Method:
    """The method, if it exists in the exchange's revision and on its connection. Raises MCPError."""
    name = exchange.method
    if name in SESSION_METHODS and exchange.session is None and not exchange.era.enveloped:
        raise SessionRequired(name)
    method = METHODS.get(name)
    if method is None or exchange.revision not in method.revisions:
        if name == "initialize":
            raise MethodNotFound(name, "A request with _meta needs no initialize.", supported=list(MODERN_REVISIONS))
        raise MethodNotFound(name)
    if method.needs_tasks and not is_offered(exchange.site):
        raise MethodNotFound(name)
    if method.needs_push and not exchange.connection.push:
        raise PushUnavailable(name, why_no_push(exchange.site.has_call_context))
    return method


def _respond(exchange: Exchange) -> Reply:
    method = find_method(exchange)
    # A legacy request that asked its client is the same request when it is answered again.
    if method.blocking and not exchange.round:
        throttles.admit(exchange.principal, exchange.request, partial(_is_change, exchange))
    if method.check_headers is not None and exchange.era.enveloped and exchange.connection.headers is not None:
        method.check_headers(exchange, exchange.connection.headers)
    brings_answers = not OWN_PARAMS.isdisjoint(exchange.params)
    if brings_answers and exchange.era.enveloped and exchange.method in ASKING_METHODS:
        # An answer that counts once is for after the pause.
        pauses.check(exchange.site, exchange.principal)
        exchange.answers = take_answers(exchange)
    _validate(exchange, method)
    reply = partial(_reply, exchange, method)
    try:
        return reply(partial(run_method, exchange, method))
    except Suspended as suspended:
        suspended.then(reply)
        raise


def _reply(exchange: Exchange, method: Method, run: Callable[[], JSON | Listen]) -> Reply:
    """The reply that a run of the handler gives. Raises MCPError."""
    try:
        result = run()
    except InputRequired as asked:
        trail.fail(exchange, asked)
        if exchange.method not in ASKING_METHODS:
            raise TypeError(f"{exchange.method} cannot ask the client. Tools, prompts and resources can.") from None
        if not exchange.era.enveloped:
            return Reply(b"", pending=_legacy_questions(exchange, asked))
        result = input_required(exchange, asked)
    except TaskStarted:
        exchange.usage.outcome = Call.Outcome.TASK.value
        result = tasks.create(exchange)
    finally:
        # Whatever ended the run. Within a run that was cancelled, the database takes no statement any more.
        throttles.spend_streamed(exchange)
    if isinstance(result, Listen):
        return Reply(b"", listen=result)
    body = _answer(exchange, method, result)
    if method.blocking:
        throttles.spend(exchange, len(body))
    return Reply(body)


def _is_change(exchange: Exchange) -> bool:
    """Whether the request calls a tool that may change data. A tool that the caller may not use does not exist."""
    name = exchange.params.get("name")
    if exchange.method != "tools/call" or not isinstance(name, str):
        return False
    return catalog.may_change(exchange, name)


def _answer(exchange: Exchange, method: Method, result: JSON) -> bytes:
    """The encoded answer. Raises AnswerTooLong."""
    body = _encoded(exchange, method, result)
    limit = get_conf().MAX_RESULT_BYTES
    if len(body) > limit:
        less = "" if exchange.usage.is_done else " Ask for less."
        raise AnswerTooLong(f"The answer would be larger than {limit} bytes (MAX_RESULT_BYTES).{less}")
    limit = exchange.connection.message_limit
    if len(body) <= limit:
        return body
    text = f"The answer would be larger than the {limit} bytes that a message of this connection may have."
    if exchange.usage.is_done:
        raise AnswerTooLong(text)
    text += " Ask for less, or ask over HTTP and without a progress token."
    if exchange.method != "tools/call" or "content" not in result:
        raise AnswerTooLong(text)
    trail.fail(exchange, AnswerTooLong(text))
    # Models read a result, and seldom an error of the protocol.
    return _encoded(exchange, method, error_result(text))


def _encoded(exchange: Exchange, method: Method, result: JSON) -> bytes:
    return encode(result_message(exchange.request_id, shape(exchange, method, result)))


def _legacy_questions(exchange: Exchange, asked: InputRequired) -> PendingQuestions:
    """The questions of a run. Raises LimitExceeded for a question that is too large for clients."""
    limit = get_conf().page_bytes
    for key, question in asked.questions.items():
        if len(encode(question.to_params())) > limit - _FRAME_BYTES:
            raise LimitExceeded(f"The question {key} is larger than {limit} bytes (MAX_RESULT_BYTES).")
    return PendingQuestions(exchange, asked.questions)


def run_method(exchange: Exchange, method: Method) -> JSON | Listen:
    """The handler's result. Raises InputRequired, Suspended, and everything that the handler raises."""
    trail.begin(exchange)
    in_context = partial(_run_in_context, exchange)
    try:
        return in_context(partial(_handle, exchange, method))
    except Suspended as suspended:
        suspended.then(in_context)
        raise


def _handle(exchange: Exchange, method: Method) -> JSON | Listen:
    if exchange.cancellation.cancelled:
        raise RequestCancelled
    if not (method.while_paused or method.asks_for_pauses):
        pauses.check_exchange(exchange)
    return method.handler(exchange)


def _run_in_context(exchange: Exchange, run: Callable[[], JSON | Listen]) -> JSON | Listen:
    request = exchange.request
    request.mcp = exchange
    suspended: Suspended | None = None
    try:
        # The project's context is the outer one, so that its end also runs for a cancelled request.
        with exchange.site.in_context(request), exchange.cancellation.queries.answering():
            try:
                result = run()
                is_error = isinstance(result, dict) and result.get("isError") is True
                if is_error and not exchange.usage.is_result_lost:
                    exchange.usage.outcome = Call.Outcome.FAILED.value
                    exchange.usage.reason = exchange.usage.reason or "TOOL_ERROR"
                return result
            except Suspended as found:
                # For the project's context that is no failure: it comes to its end, and is entered again afterwards.
                suspended = found
        raise suspended
    finally:
        if suspended is None:
            calls.discard(exchange)
            exchange.close_files()
        # Otherwise exchange and request would refer to each other until garbage is collected.
        request.mcp = Caller(exchange.principal)


def shape(exchange: Exchange, method: Method, result: JSON) -> JSON:
    """The result as the exchange's revision knows it, in its envelope."""
    is_other = result.get("resultType") in ("input_required", "task")
    if not is_other and exchange.revision != NEWEST:
        result = project(exchange.method, result, exchange.revision)
    if not exchange.era.enveloped:
        return result
    meta = {**result.get("_meta", {}), SERVER_INFO_META_KEY: exchange.site.implementation()}
    hints = {"ttlMs": 0, "cacheScope": "private"} if method.cacheable and not is_other else {}
    return {"resultType": "complete", **hints, **result, "_meta": meta}


def _validate(exchange: Exchange, method: Method) -> None:
    try:
        if method.params is not None:
            method.params.validate_python(exchange.params)
        elif not is_plain(exchange.method, exchange.revision, exchange.params):
            from mcp_types.methods import validate_client_request

            validate_client_request(exchange.method, exchange.revision, exchange.params)
    except ValidationError as error:
        raise InvalidParams.from_pydantic(exchange.method, error) from None
