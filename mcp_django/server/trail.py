"""Which requests stand in the audit trail, and what their lines say.

The thread of the call only notes what it has at hand. The thread that writes makes the line of it: see ``_describe``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django.apps import apps

from mcp_django.audit import strict
from mcp_django.audit.lines import Line, caller, chosen, holder, keys_of, line
from mcp_django.audit.recorder import recorder
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.uris import LEFT_OUT, kept_uri
from mcp_django.bridge.tools import catalog
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError, MissingCapability
from mcp_django.exchange.addresses import address_in
from mcp_django.exchange.questions import InputRequired
from mcp_django.exchange.usage import Usage
from mcp_django.models import Call
from mcp_django.models.call_queries import session_mark
from mcp_django.protocol.errors import (
    AnswerTooLong,
    AuditUnavailable,
    Forbidden,
    InsufficientScope,
    InternalError,
    InvalidParams,
    LimitExceeded,
    Paused,
    RequestCancelled,
    RequestTimedOut,
    ResourceNotFound,
    StoppedByPause,
    TaskTimedOut,
    TooSlow,
    Unauthenticated,
    WorkerLost,
)
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.trace_context import trace_id
from mcp_django.protocol.types import JSON
from mcp_django.server.methods import METHODS

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")

#: Errors that say that the server failed, and not that it refused.
_FAILURES = (AnswerTooLong, InternalError, RequestTimedOut, TaskTimedOut, TooSlow, WorkerLost, MissingCapability)
#: Refusals that are written down whatever the method.
_DENIALS = (Unauthenticated, Forbidden, InsufficientScope, LimitExceeded, Paused)
#: Not written down here: a run that was stopped has a line of its own.
_STOPPED = (RequestTimedOut, RequestCancelled)
#: Errors that name what is wrong in the params, by ``field_error``.
_NAMING = (InvalidParams, ResourceNotFound, TooSlow)
#: The reasons of which the names say more. What was not found is named by the line itself.
_NAMED_REASONS = frozenset({"INVALID_ARGUMENTS", "INVALID_PARAMS", "NO_RECORD", "TOO_SLOW"})
#: Names of arguments that a line has, and URIs of a listen.
_MAX_NAMES = 20
_LONGEST_FORWARDED = 500
#: The params of the protocol, and what it has within them.
_PARAMS = frozenset({"name", "uri", "arguments", "argument", "cursor", "ref", "context", "level", "taskId", "_meta"})


class recorded(AbstractContextManager["recorded"]):
    """Write down the run of a handler within the block, whatever comes of it."""

    __slots__ = ("_exchange", "_started")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __enter__(self) -> recorded:
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if error is not None:
            fail(self._exchange, error)
        try:
            _record(self._exchange, (time.perf_counter() - self._started) * 1_000)
        except Exception:
            # The request has done its work, and its client gets the answer.
            logger.exception("A line of the audit trail could not be made")


def fail(exchange: Exchange, error: BaseException) -> None:
    """Note what an error says about the run."""
    usage = exchange.usage
    if isinstance(error, InputRequired):
        usage.outcome = Call.Outcome.ASKED.value
        return
    why = error_of(exchange, error)
    usage.outcome = _outcome_of(why).value
    # What the project raised lies below the error that its client is told.
    raised = error.__cause__ if isinstance(error, InternalError) else error
    usage.fail(
        usage.refusal or why.trail_reason or why.reason,
        why.data.get("errors", ()) if isinstance(why, _NAMING) else (),
        raised=raised if isinstance(why, InternalError) else None,
    )
    usage.error = _without_frames(why)


def error_of(exchange: Exchange, error: BaseException) -> MCPError:
    """What the client is told of an error. A handler whose statement was stopped may fail in any way."""
    why = error if isinstance(error, MCPError) else InternalError()
    if not exchange.cancelled or not isinstance(why, RequestCancelled | InternalError):
        return why
    return exchange.cancellation.why or RequestCancelled()


def _without_frames(error: MCPError) -> MCPError:
    """The error, which waits with its line, without the stack: that would hold the request with its body."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def _outcome_of(error: MCPError) -> Call.Outcome:
    if isinstance(error, RequestCancelled | StoppedByPause):
        return Call.Outcome.CANCELLED
    # A project's own MCPError says what went wrong, and not what is not allowed.
    failed = type(error) is MCPError or isinstance(error, _FAILURES)
    return Call.Outcome.FAILED if failed else Call.Outcome.REFUSED


def begin(exchange: Exchange) -> None:
    """With AUDIT "strict", write down a call that may change data before it is made. Raises AuditUnavailable.

    It stands outside of the project's ``call_context``, which may open a transaction.
    """
    if get_conf().AUDIT != "strict" or exchange.method != "tools/call" or exchange.principal.user.pk is None:
        return
    tool = catalog.known(exchange, exchange.params.get("name", ""))
    if tool is not None and not tool.may_change:
        return
    exchange.usage.outcome = Call.Outcome.UNKNOWN.value
    try:
        kind = Call.Kind.TASK if exchange.connection.transport == "task" else Call.Kind.CALL
        exchange.usage.intent = strict.begin(_describe(_noted(exchange, kind.value, 0.0)))
    except Exception as error:
        logger.warning("A call was refused, since its line of the audit trail could not be written", exc_info=True)
        raise AuditUnavailable from error
    exchange.usage.outcome = Call.Outcome.DONE.value


def refuse(site: Site, request: MCPRequest, principal: Principal | None, error: MCPError, transport: str) -> None:
    """Write down a request that was refused before there was an exchange for it."""
    if get_conf().AUDIT == "off" or not isinstance(error, _DENIALS) or isinstance(error, _STOPPED):
        return
    values = {"site": site.name, "kind": Call.Kind.REQUEST.value, "outcome": Call.Outcome.REFUSED.value}
    values |= {"transport": transport, "reason": error.trail_reason or error.reason}
    if principal is None or principal.user.pk is None:
        token = error.token if isinstance(error, Unauthenticated) else None
        recorder.count(*values.values(), address_in(request.META), **({} if token is None else holder(token)))
    else:
        recorder.put((_describe_request, time.time(), values, principal, _address_parts(request.META)))


def upload(site: Site, request: MCPRequest, principal: Principal, size: int) -> None:
    """Write down that bytes of a file were uploaded, and how many."""
    if get_conf().AUDIT != "off":
        values = {"site": site.name, "kind": Call.Kind.REQUEST.value, "outcome": Call.Outcome.DONE.value}
        values |= {"transport": "http", "method": "upload"}
        noted = {**values, "bytes": size}
        recorder.put((_describe_request, time.time(), noted, principal, _address_parts(request.META)))


def _record(exchange: Exchange, ms: float) -> None:
    conf, usage = get_conf(), exchange.usage
    if conf.AUDIT == "off":
        return
    method = METHODS.get(exchange.method)
    kind = method.kind if method is not None else ""
    if exchange.connection.transport == "task":
        kind = Call.Kind.TASK.value
    elif not kind or (kind == Call.Kind.COMPLETION and not conf.AUDIT_COMPLETION):
        if not isinstance(usage.error, _DENIALS):
            return
        kind = Call.Kind.REQUEST.value
    if usage.intent is not None:
        strict.end(usage.intent, _describe(_noted(exchange, kind, ms)))
    elif exchange.principal.user.pk is not None:
        recorder.put((_describe, _noted(exchange, kind, ms)))
    else:
        named = exchange.site.name, kind, usage.outcome, exchange.connection.transport, usage.reason
        recorder.count(*named, address_in(exchange.request.META))


class Noted(NamedTuple):
    """What a call leaves behind for its line."""

    at: float
    site: Site
    kind: str
    method: str
    #: The tool, the prompt or the URI that the params name, and the names of the arguments or the URIs of a listen.
    target: str
    names: Sequence[str]
    principal: Principal
    client_name: str
    transport: str
    revision: str
    request_id: object
    trace_id: str
    session: str
    address: Mapping[str, Any]
    usage: Usage
    ms: float
    queries: int


def _noted(exchange: Exchange, kind: str, ms: float) -> Noted:
    connection, params, usage = exchange.connection, exchange.params, exchange.usage
    target, names = _target(exchange.method, params)
    meta = exchange.request.META
    return Noted(
        time.time() - ms / 1_000,
        exchange.site,
        kind,
        exchange.method,
        target,
        names,
        exchange.principal,
        _client_name(exchange),
        connection.transport,
        exchange.revision,
        exchange.request_id,
        trace_id(params) if "_meta" in params else "",
        "" if exchange.session is None else exchange.session.key,
        _address_parts(meta),
        usage,
        ms,
        exchange.cancellation.queries.count,
    )


def _client_name(exchange: Exchange) -> str:
    client = exchange.client
    return client.name if isinstance(client.info.get("name", ""), str) else LEFT_OUT


def _target(method: str, params: JSON) -> tuple[str, Sequence[str]]:
    """The tool, prompt or URI that the params name, and the names of the arguments. The params may be malformed."""
    target, named = params.get("name") or params.get("uri") or "", params.get("arguments")
    if method == "subscriptions/listen":
        wanted = params.get("notifications")
        named = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
    if not isinstance(target, str) or len(target) > uris.MAX_URI:
        target = LEFT_OUT
    if not named or not isinstance(named, dict | list):
        return target, ()
    return target, [
        name if len(name) <= uris.MAX_URI else LEFT_OUT for name in islice(named, _MAX_NAMES) if isinstance(name, str)
    ]


def _describe(noted: Noted) -> Line:
    site, method, target, usage = noted.site, noted.method, noted.target, noted.usage
    is_named = method in ("tools/call", "prompts/get")
    arguments = _uris(site, noted.names) if method == "subscriptions/listen" else _argument_names(noted)
    return line(
        noted.at,
        site=site.name,
        kind=noted.kind,
        outcome=usage.outcome,
        reason=usage.reason,
        detail=_detail(noted),
        **caller(noted.principal),
        client_name=noted.client_name,
        transport=noted.transport,
        revision=noted.revision,
        method=chosen(method),
        name=chosen(target) if is_named else "",
        model=usage.model,
        uri="" if is_named or not target else kept_uri(site, target),
        arguments=encode(arguments).decode() if arguments else "",
        values=encode(usage.values).decode() if usage.values else "",
        keys=keys_of(usage.changed),
        rows=usage.rows,
        bytes=usage.bytes,
        ms=round(noted.ms, 3),
        queries=noted.queries,
        request_id=chosen(noted.request_id),
        trace_id=noted.trace_id,
        session=session_mark(noted.session),
        address=address_in(noted.address),
    )


def _describe_request(at: float, values: dict[str, Any], principal: Principal, address: Mapping[str, Any]) -> Line:
    return line(at, **values, **caller(principal), address=address_in(address))


def _argument_names(noted: Noted) -> list[str]:
    """The names that the tool or prompt declares. A client may write anything into another name."""
    known = _declared(noted)
    return list(dict.fromkeys(name if name in known else LEFT_OUT for name in noted.names))[:_MAX_NAMES]


def _declared(noted: Noted) -> Collection[str]:
    if noted.method == "tools/call" and (tool := noted.site.tools.get(noted.target)) is not None:
        names: Collection[str] = tool.argument_names
        return names
    if noted.method == "prompts/get" and (prompt := noted.site.prompts.get(noted.target)) is not None:
        return [argument.name for argument in prompt.arguments]
    return noted.usage.declared


def _detail(noted: Noted) -> str:
    """The names of what was wrong, or of the exception that was raised: declared names, and never a value."""
    usage = noted.usage
    if usage.raised:
        return chosen(usage.raised)
    if not usage.wrong or usage.reason not in _NAMED_REASONS:
        return ""
    fields = _field_names(usage.model)
    known = {*_PARAMS, *fields} if noted.method == "resources/read" else {*_PARAMS, *_declared(noted)}
    return ", ".join(dict.fromkeys(_name_of(place, known, fields) for place in usage.wrong))


def _name_of(place: str, known: Collection[str], fields: Collection[str]) -> str:
    """What is known of a place: ``values.distance`` of ``values.distance``, ``filter.origin`` of
    ``filter.any.0.origin__in``, and ``*`` where the client chose even the first part."""
    name, *inner = place.removeprefix("arguments.").split(".")
    name = next((one for one in (name, name.partition("__")[0]) if one in known), LEFT_OUT)
    field = next((one for part in inner if (one := part.partition("__")[0]) in fields), "")
    return f"{name}.{field}" if field else name


def _field_names(label: str) -> Collection[str]:
    """The names of the fields of a model that the server has found, as ``app_label.model_name``."""
    return {field.name for field in apps.get_model(label)._meta.get_fields()} if label else ()


def _uris(site: Site, wanted: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(kept_uri(site, uri) for uri in wanted))[:_MAX_NAMES]


def _address_parts(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of META that ``address_in`` reads, so that the request itself can be freed."""
    forwarded = meta.get("HTTP_X_FORWARDED_FOR")
    if forwarded is None:
        return {"REMOTE_ADDR": meta.get("REMOTE_ADDR")}
    return {"REMOTE_ADDR": meta.get("REMOTE_ADDR"), "HTTP_X_FORWARDED_FOR": forwarded[-_LONGEST_FORWARDED:]}
