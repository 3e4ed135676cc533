"""Calls operations for an exchange: finds them, checks the names that they are given, and remembers descriptions."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.api import answers, describing, identity, sending
from mcp_django.bridge.api.answers import SKIP, Answer
from mcp_django.bridge.api.describing import Description
from mcp_django.bridge.api.formats import listed
from mcp_django.bridge.api.routes import NoPath
from mcp_django.bridge.api.sending import Sent
from mcp_django.bridge.api.views import asked, lets_in, made_view
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.core.memory import Memory
from mcp_django.core.middleware_policy import SENT_AGAIN
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")

#: Descriptions that this process has made a moment ago.
descriptions: Memory[Description] = Memory(size=2_000)
_NOTHING: Mapping[str, Any] = {}

#: Operations whose permissions are asked at once.
_MOST_ASKED = 2_000
#: Headers that tell requests apart, and no users or tenants.
_OF_ONE_REQUEST = frozenset({"HTTP_X_REQUEST_ID", "HTTP_TRACEPARENT"})
#: What stands for a variable of a path where none is given: the first that its converter takes.
_PLACEHOLDERS = ("0", "00000000-0000-0000-0000-000000000000", "x")


def find(site: Site, request: MCPRequest, name: str, *, safe: bool | None = None) -> Operation:
    """The operation of this name, of those that the credential reaches. Raises ToolError with those that are near."""
    operation: Operation | None = site.api.find(request, name)
    if operation is None:
        text = unknown_name("operation", name, _near(name, list(site.api.reached(request))))
        raise ToolError("No such operation.", [field_error("operation", text)], reason="NO_OPERATION")
    if safe is not None and operation.is_safe is not safe:
        tool = "call_api" if operation.is_safe else "change_api"
        text = f"{name} is called with {tool}."
        raise ToolError(text, [field_error("operation", text)])
    return operation


def _near(name: str, names: list[str]) -> list[str]:
    """Few names: all that a large API has are in ``describe_api``."""
    resource = name.partition(".")[0]
    same = [one for one in names if one.partition(".")[0] == resource]
    return same or names


def described(request: MCPRequest, operation: Operation, given: Mapping[str, Any] = _NOTHING) -> Description:
    """The description of an operation for the principal of the request.

    ``given`` may have variables of its path. Without them others stand there, which middleware may refuse: then only
    what needs no view is described.
    """
    key = _key(request, operation)
    generation, known = descriptions.generation, descriptions.get(key)
    if known is not None:
        return known
    placeholders = {name: _placeholder(operation, name) for name in operation.route.names}
    for values in (placeholders, {name: given[name] for name in placeholders if name in given}):
        describe = partial(_describe, operation, values)
        found = sending.look(operation, request, Sent(values, {}), describe)
        if found is not None:
            break
    else:
        return describing.without_view(operation)
    descriptions.keep(key, found, generation)
    return found


def _describe(operation: Operation, kwargs: Mapping[str, Any], request: Any) -> Description:
    return describing.describe(operation, request, kwargs)


def allowed(request: MCPRequest, operations: Sequence[Operation]) -> list[Operation]:
    """Those that the permission classes let the principal call, as far as they say without an object.

    All of them are asked below the middleware of the first. Of more than two thousand none is asked: they count as
    allowed, as does one that cannot be asked.
    """
    if not operations or len(operations) > _MOST_ASKED:
        return list(operations)
    first = operations[0]
    sent = Sent({name: _placeholder(first, name) for name in first.route.names}, {})
    ask = partial(_allowed, operations, request.mcp.principal)
    found = sending.look(first, request, sent, ask)
    return list(operations) if found is None else found


def _allowed(operations: Sequence[Operation], principal: Principal, request: Any) -> list[Operation]:
    found = []
    for one in operations:
        identity.become(request, one, principal)
        kwargs = {name: _placeholder(one, name) for name in one.route.names}
        if asked(one.name, partial(_lets_in, one, request, kwargs), True):
            found.append(one)
    return found


def _lets_in(operation: Operation, request: Any, kwargs: Mapping[str, Any]) -> bool:
    if operation.native is not None:
        return bool(operation.native.lets_in(request))
    return lets_in(made_view(operation, request, kwargs)) if operation.is_rest else True


def _placeholder(operation: Operation, name: str) -> str:
    regex = getattr(operation.route.converters.get(name), "regex", ".*")
    return next((one for one in _PLACEHOLDERS if re.fullmatch(regex, one)), _PLACEHOLDERS[0])


def _key(request: MCPRequest, operation: Operation) -> str:
    principal, meta = request.mcp.principal, request.META
    names = [name for name in (*SENT_AGAIN, "REMOTE_ADDR") if name not in _OF_ONE_REQUEST]
    where = [str(meta.get(name, "")) for name in names]
    return repr((id(operation), principal.rights, principal.user.pk, where, sending.passed(operation, request)))


# What is given.


def sent_by(description: Description, params: Mapping[str, Any], cursor: Mapping[str, Any], limit: int | None) -> Sent:
    """What the arguments of a call are for its operation. Raises ToolError that names what the API would ignore."""
    path = {name: params[name] for name in description.path if params.get(name) not in (None, "")}
    query = {name: value for name, value in params.items() if name not in description.path and value is not None}
    query |= {name: value for name, value in cursor.items() if name != SKIP}
    errors = [*_missing(description, params), *_unknown(description, params, cursor)]
    if errors:
        raise ToolError(f"Invalid arguments for {description.operation.name}.", errors)
    if limit is not None and description.size and description.size not in query:
        query[description.size] = limit
    return Sent(path, query)


def _missing(description: Description, params: Mapping[str, Any]) -> Iterator[FieldError]:
    optional = description.operation.route.optional_names
    for name in description.path:
        if params.get(name) in (None, "") and name not in optional:
            yield field_error(f"params.{name}", "is missing: it is in the path.")


def _unknown(description: Description, params: Mapping[str, Any], cursor: Mapping[str, Any]) -> Iterator[FieldError]:
    secret = dict(_by_secret(description, params, cursor))
    yield from (field_error(f"params.{printable(name)[:100]}", why) for name, why in secret.items())
    if description.is_open:
        return
    known = [*description.path, *description.query]
    for name in params:
        if name not in known and name not in description.pages and name not in secret:
            yield field_error(f"params.{printable(name)[:100]}", unknown_name("parameter", name, known))
    for name in cursor:
        if name != SKIP and name not in known and name not in description.pages:
            yield field_error("cursor", "is no next_cursor of this operation. Call again without it.")


def _by_secret(
    description: Description, params: Mapping[str, Any], cursor: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The names by which a secret would be sent, or guessed, each with why it is refused."""
    for name, value in {**cursor, **params}.items():
        if name in description.by_secret:
            yield name, f"finds rows by {description.by_secret[name]}, which is named like a secret."
        elif wrong := min(_sorting_by_secret(description, name, value), default=""):
            yield name, f"sorts rows by {wrong}, which is named like a secret."
        elif name in description.path or name in description.pages:
            continue
        elif describing.is_secret_param(name, description.operation):
            yield name, "is named like a secret, which agents do not send."


def _sorting_by_secret(description: Description, name: str, value: Any) -> Iterator[str]:
    """What is named like a secret in an order, or stands for such a field."""
    known = description.orders_by_secret.get(name)
    for part in (part.strip(" -+") for one in listed(value) for part in str(one).split(",")):
        if known is not None and (part in known or describing.is_secret_param(part, description.operation)):
            yield part


def call(exchange: Exchange, operation: Operation, sent: Sent) -> Answer:
    """Send the call, and read what comes back. Raises ToolError for values that no path can have."""
    reader = answers.read if operation.native is None else operation.native.read
    if path := {name: str(value)[:100] for name, value in sent.path.items() if not is_secret_name(name)}:
        exchange.usage.values["path"] = path

    def read(request: HttpRequest, response: HttpResponseBase) -> Answer:
        try:
            found: Answer = reader(request, response, is_over=lambda: exchange.cancelled)
        except Exception:
            logger.exception("The response of %s broke off", operation.name)
            return Answer(500)
        return found

    try:
        answer: Answer = sending.call(operation, exchange.request, sent, read)
        return answer
    except NoPath as error:
        raise no_path(operation, error) from None
    except SystemExit:
        return Answer(500)


def no_path(operation: Operation, error: NoPath) -> ToolError:
    """The error for values that no path of an operation can have."""
    wrong = [field_error(f"params.{error.name}", str(error))]
    return ToolError(f"Invalid arguments for {operation.name}.", wrong)


def resources(operations: Iterable[Operation]) -> JSON:
    """Resources by their actions, which many have in common."""
    actions: dict[str, list[str]] = {}
    for one in operations:
        actions.setdefault(one.resource, []).append(one.action)
    shared: dict[str, list[str]] = {}
    for resource, names in actions.items():
        shared.setdefault(" ".join(names), []).append(resource)
    return {names: " ".join(those) for names, those in shared.items()}
