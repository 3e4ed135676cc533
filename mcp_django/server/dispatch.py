"""From a request to its answer: the method looked up, its params validated, its handler run, its result shaped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from pydantic import ValidationError

from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange import questions
from mcp_django.exchange.exchange import Exchange, TaskStarted
from mcp_django.exchange.questions import InputRequired, Question
from mcp_django.exchange.requests import Caller
from mcp_django.protocol.errors import (
    InternalError,
    InvalidParams,
    LimitExceeded,
    MethodNotFound,
    PushUnavailable,
    RequestCancelled,
    RequestTimedOut,
    SessionRequired,
    Unauthenticated,
)
from mcp_django.protocol.jsonrpc import encode, error_message, result_message
from mcp_django.protocol.projection import project
from mcp_django.protocol.revisions import MODERN_REVISIONS
from mcp_django.server import tasks
from mcp_django.server.methods import ASKING_METHODS, METHODS, SESSION_METHODS, Method
from mcp_django.server.request_state import input_required, take_answers
from mcp_django.server.subscriptions import Listen
from mcp_django.tasks.framework import is_offered
from mcp_django.types import JSON

logger = logging.getLogger("mcp_django")

#: What a question needs beside its params.
_FRAME_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What a legacy client is to be asked before its request can be answered."""

    exchange: Exchange
    questions: Mapping[str, Question]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request: an encoded message, a listen that is about to stream, or questions first."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    failed: bool = False
    listen: Listen | None = None
    asked: Asked | None = None
    #: The value of WWW-Authenticate, where the credentials ceased to hold meanwhile.
    challenge: str = ""


def respond(exchange: Exchange) -> Reply:
    """Answer a request. Never raises: what fails is an error message, and what is our fault is logged."""
    try:
        return _respond(exchange)
    except MCPError as error:
        if isinstance(error, RequestCancelled) and exchange.cancellation.expired:
            return error_reply(exchange, RequestTimedOut())
        return error_reply(exchange, error)
    except Exception:
        # What fails because its query was stopped is nobody's fault.
        if exchange.cancellation.expired:
            return error_reply(exchange, RequestTimedOut())
        if not exchange.cancellation.cancelled:
            logger.exception("%s failed", exchange.method)
        return error_reply(exchange, InternalError())


def respond_again(asked: Asked, given: Mapping[str, Any]) -> Reply:
    """Answer a request whose client was asked, and has ``given`` its answers: the handler runs again from the top."""
    exchange = asked.exchange
    exchange.answers.add(asked.questions, given)
    exchange.begin_again()
    if exchange.round > questions.MAX_ROUNDS:
        return error_reply(exchange, questions.too_many_rounds())
    return respond(exchange)


def error_reply(exchange: Exchange, error: MCPError) -> Reply:
    era = exchange.era
    return Reply(
        encode(error_message(exchange.request_id, error, era)),
        error.status_in(era),
        failed=True,
        challenge=error.challenge if isinstance(error, Unauthenticated) else "",
    )


def find(exchange: Exchange) -> Method:
    """The method, if it exists in the exchange's revision and on its connection. Raises MCPError."""
    name = exchange.method
    if name in SESSION_METHODS and exchange.session is None and not exchange.era.enveloped:
        raise SessionRequired(name)
    method = METHODS.get(name)
    if method is None or exchange.revision not in method.revisions:
        if name == "initialize":
            raise MethodNotFound(name, "A request with _meta is already open.", supported=list(MODERN_REVISIONS))
        raise MethodNotFound(name)
    if method.needs_tasks and not is_offered(exchange.site):
        raise MethodNotFound(name)
    if method.needs_push and not exchange.connection.push:
        raise PushUnavailable(name)
    return method


def _respond(exchange: Exchange) -> Reply:
    method = find(exchange)
    if exchange.era.enveloped and exchange.method in ASKING_METHODS:
        exchange.answers = take_answers(exchange)
    _validate(exchange, method)
    try:
        result = run(exchange, method)
    except InputRequired as asked:
        if exchange.method not in ASKING_METHODS:
            raise TypeError(f"{exchange.method} cannot ask the client: tools, prompts and resources can.") from None
        if not exchange.era.enveloped:
            return Reply(b"", asked=_legacy_questions(exchange, asked))
        result = input_required(exchange, asked)
    except TaskStarted:
        result = tasks.create(exchange)
    if isinstance(result, Listen):
        return Reply(b"", listen=result)
    return Reply(_answer(exchange, method, result))


def _answer(exchange: Exchange, method: Method, result: JSON) -> bytes:
    """The encoded answer. Raises LimitExceeded."""
    body = encode(result_message(exchange.request_id, shape(exchange, method, result)))
    limit = get_conf().MAX_RESULT_BYTES
    if len(body) > limit:
        raise LimitExceeded(f"The answer would be larger than {limit} bytes (MAX_RESULT_BYTES). Ask for less.")
    limit = exchange.connection.message_limit
    if len(body) <= limit:
        return body
    if exchange.method != "tools/call" or "content" not in result:
        raise LimitExceeded(
            f"The answer would be larger than the {limit} bytes that a message of this connection may have. Ask for "
            "less, or over HTTP and without a progress token."
        )
    # A client that only saw a protocol error might call the tool again, which has done its work.
    return encode(result_message(exchange.request_id, shape(exchange, method, _too_long(limit))))


def _too_long(limit: int) -> JSON:
    """What a tool's result is replaced with that is longer than a message may be, for the model to read."""
    text = (
        f"The tool has done its work, but its result is larger than the {limit} bytes that a message of this "
        "connection may have, and is not shown. Do not repeat a call that changes anything. To see the result, ask "
        "for less, or call over HTTP and without a progress token."
    )
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _legacy_questions(exchange: Exchange, asked: InputRequired) -> Asked:
    """Raises LimitExceeded for a question that no client would read."""
    limit = get_conf().page_bytes
    for key, question in asked.questions.items():
        if len(encode(question.to_params())) > limit - _FRAME_BYTES:
            raise LimitExceeded(f"The question {key} is larger than {limit} bytes (MAX_RESULT_BYTES).")
    return Asked(exchange, asked.questions)


def run(exchange: Exchange, method: Method) -> JSON | Listen:
    """The handler's result. Raises what it raises, and InputRequired."""
    request = exchange.request
    request.mcp = exchange
    try:
        # The context outside: what it undoes when it is left must be undone for a cancelled request too.
        with exchange.site.call_context(request), exchange.cancellation.queries.answering():
            if exchange.cancellation.cancelled:
                raise RequestCancelled
            return method.handler(exchange)
    finally:
        # Exchange and request would keep each other until garbage is collected.
        request.mcp = Caller(exchange.principal)


def shape(exchange: Exchange, method: Method, result: JSON) -> JSON:
    """The result as the exchange's revision knows it, in its envelope."""
    is_other = result.get("resultType") in ("input_required", "task")
    if not is_other:
        result = project(exchange.method, result, exchange.revision)
    if not exchange.era.enveloped:
        return result
    meta = {**result.get("_meta", {}), SERVER_INFO_META_KEY: exchange.site.implementation()}
    hints = {"ttlMs": 0, "cacheScope": "private"} if method.cacheable and not is_other else {}
    return {"resultType": "complete", **hints, **result, "_meta": meta}


def _validate(exchange: Exchange, method: Method) -> None:
    try:
        if method.params is None:
            validate_client_request(exchange.method, exchange.revision, exchange.params)
        else:
            method.params.model_validate(exchange.params)
    except ValidationError as error:
        raise InvalidParams.from_pydantic(exchange.method, error) from None
