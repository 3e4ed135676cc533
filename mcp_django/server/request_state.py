"""The requestState, which a client carries from one round of questions to the next.

Source: 2026-07-28 patterns/mrtr#requeststate.

The server keeps nothing of a modern request. The state is signed and not secret: it holds digests, and answers that
came from this very client. It is bound to the principal and to the request, and expires after QUESTION_SECONDS.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core import signing

from mcp_django.access.nonces import is_used, redeem
from mcp_django.conf import get_conf
from mcp_django.exceptions import field_error
from mcp_django.exchange import questions
from mcp_django.exchange.answers import Answers
from mcp_django.exchange.questions import InputRequired, digest
from mcp_django.protocol.errors import InvalidParams, InvalidRequestState
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange


_SALT = "mcp_django.protocol.request_state"
#: The params that answers come in.
OWN_PARAMS = frozenset({"inputResponses", "requestState"})


def take_answers(exchange: Exchange) -> Answers:
    """The answers of a request, whose params are removed from it. Raises InvalidParams."""
    given, state = (exchange.params.pop(name, _ABSENT) for name in ("inputResponses", "requestState"))
    if given is not _ABSENT and not isinstance(given, dict):
        raise InvalidParams(
            "inputResponses must be an object.", [field_error("inputResponses", "must be an object", given)]
        )
    responses: JSON = {} if given is _ABSENT else given
    if state is _ABSENT:
        return Answers(claimed=responses)
    held = _read(exchange, state)
    answered = {key: asked for key, asked in held["asked"].items() if key in responses}
    # A state that holds an answer for one use may itself be used once, or that answer could be sent again with it.
    once = held["redeemed"] or any(key in held["once"] for key in answered)
    if any(_is_no(responses[key]) for key in answered):
        # Whoever said no is asked anew, and no other answer to this question counts. A no may be sent again.
        redeem(held["nonce"], get_conf().QUESTION_SECONDS)
    elif is_used(held["nonce"]) or (once and not redeem(held["nonce"], get_conf().QUESTION_SECONDS)):
        raise InvalidRequestState("This requestState has been used already.", state)
    exchange.round = held["round"]
    vouched = {**held["answers"], **{key: [asked, responses[key]] for key, asked in answered.items()}}
    return Answers(vouched, responses, redeemed=once)


def input_required(exchange: Exchange, asked: InputRequired) -> JSON:
    """The InputRequiredResult for questions. Raises LimitExceeded."""
    if exchange.round >= questions.MAX_ROUNDS:
        raise questions.too_many_rounds()
    requests: JSON = {}
    for key, question in asked.questions.items():
        params = exchange.question_params(key, question)
        requests[key] = {"method": question.method, "params": params} if params else {"method": question.method}
    result: JSON = {"resultType": "input_required", "inputRequests": requests}
    if exchange.answers.vouched or any(question.trusted for question in asked.questions.values()):
        result["requestState"] = _write(exchange, asked)
    return result


_ABSENT: Any = object()


def _is_no(response: Any) -> bool:
    """Whether a person has declined or closed a question, or the client could not ask it."""
    return isinstance(response, dict) and (response.get("action") in ("decline", "cancel") or "error" in response)


def _write(exchange: Exchange, asked: InputRequired) -> str:
    return signing.dumps(
        {
            "request": _binding(exchange),
            "round": exchange.round + 1,
            "answers": exchange.answers.vouched,
            "asked": {key: question.digest() for key, question in asked.questions.items()},
            "once": [key for key, question in asked.questions.items() if question.single_use],
            "redeemed": exchange.answers.redeemed,
            "nonce": secrets.token_urlsafe(16),
        },
        salt=_SALT,
        compress=True,
    )


def _read(exchange: Exchange, state: Any) -> Mapping[str, Any]:
    """The content of a state. Raises InvalidRequestState."""
    try:
        held: Mapping[str, Any] = signing.loads(state, salt=_SALT, max_age=get_conf().QUESTION_SECONDS)
    except signing.SignatureExpired:
        raise InvalidRequestState("This requestState has expired.", state) from None
    except (signing.BadSignature, ValueError, TypeError, AttributeError):
        raise InvalidRequestState("This requestState is not valid.", state) from None
    if held["request"] != _binding(exchange):
        raise InvalidRequestState("This requestState is not valid.", state)
    return held


def _binding(exchange: Exchange) -> str:
    """A digest of the principal and of the request without its ``_meta``, which the state is bound to.

    What a credential is lent may begin and end while its user is asked, so that is no part of it.
    """
    params = {name: value for name, value in exchange.params.items() if name not in ("_meta", *OWN_PARAMS)}
    principal = exchange.principal
    return digest([exchange.site.name, principal.lineage, principal.constant, exchange.method, params])
