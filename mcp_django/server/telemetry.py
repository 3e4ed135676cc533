"""A span and a duration for each request, by the API of OpenTelemetry, where the process has a provider of its own.

Names and attributes are those of the semantic conventions for MCP (open-telemetry/semantic-conventions-genai,
docs/gen-ai/mcp.md). Arguments, results, texts of errors and ids of sessions stay out: each may hold a secret.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mcp_django import __version__, exceptions
from mcp_django.bridge.resources.uris import kept_uri
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.protocol.names import NAME, escaped
from mcp_django.protocol.revisions import LEGACY
from mcp_django.protocol.trace_context import traceparent, tracestate

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

#: Stands for a method that does not exist. Names that clients invent would each be a series of its own.
_OTHER = "_OTHER"
#: The methods that name what they use, and the attribute for its name.
_TARGETS = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_NETWORKS = {
    "http": {"network.transport": "tcp", "network.protocol.name": "http"},
    "sse": {"network.transport": "tcp", "network.protocol.name": "http"},
    "websocket": {"network.transport": "tcp", "network.protocol.name": "websocket"},
    "grpc": {"network.transport": "tcp", "network.protocol.name": "http"},
    "stdio": {"network.transport": "pipe"},
}
#: The codes that say that the caller asked for what cannot be: they are no errors of the server.
_FAULTS_OF_CALLER = frozenset(
    {
        exceptions.PARSE_ERROR,
        exceptions.INVALID_REQUEST,
        exceptions.METHOD_NOT_FOUND,
        exceptions.INVALID_PARAMS,
        LEGACY.resource_not_found,
    }
)
#: The upper bounds of the histogram's buckets, in seconds.
_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
#: The packages of the API: a provider that is defined there does nothing.
_OF_API = ("opentelemetry.trace", "opentelemetry.metrics")
_SAMPLED = 0x01
#: A process that has no provider is looked at again after so long: the API reads the environment each time.
_LOOK_SECONDS = 1.0
_unobserved_until = 0.0


_UNOBSERVED: AbstractContextManager[None] = nullcontext()


def span(exchange: Exchange, *, is_known: bool) -> AbstractContextManager[None]:
    """Around the answering of a request, with the span as the current one. ``is_known``: its method exists."""
    global _unobserved_until  # noqa: PLW0603
    now = time.monotonic()
    if now < _unobserved_until:
        return _UNOBSERVED
    tracer, histogram = _current_tracer(), _current_histogram()
    if tracer is None and histogram is None:
        _unobserved_until = now + _LOOK_SECONDS
        return _UNOBSERVED
    return _observed(exchange, tracer, histogram, exchange.method if is_known else _OTHER)


@contextmanager
def _observed(exchange: Exchange, tracer: Tracer | None, histogram: Histogram | None, method: str) -> Iterator[None]:
    common = {
        "mcp.method.name": method,
        "mcp.protocol.version": exchange.revision,
        **_NETWORKS.get(exchange.connection.transport, {}),
    }
    if method == "tools/call":
        common["gen_ai.operation.name"] = "execute_tool"
    target = _target(exchange, method)
    begun = time.perf_counter()
    with nullcontext() if tracer is None else _traced(exchange, tracer, common, target):
        try:
            yield
        finally:
            if histogram is not None:
                named = target if _is_found(exchange, target) else {}
                histogram.record(time.perf_counter() - begun, {**common, **named, **_outcome(exchange)})


@contextmanager
def _traced(exchange: Exchange, tracer: Tracer, common: dict[str, str], target: dict[str, str]) -> Iterator[None]:
    from opentelemetry import trace

    method = common["mcp.method.name"]
    parent = _remote_parent(exchange)
    ambient = trace.get_current_span().get_span_context()
    traced = tracer.start_span(
        " ".join([method, *target.values()]),
        context=parent,
        kind=trace.SpanKind.SERVER,
        attributes={**common, **target, **_of_request(exchange)},
        links=[trace.Link(ambient)] if parent is not None and ambient.is_valid else [],
        record_exception=False,
        set_status_on_exception=False,
    )
    try:
        # Texts of exceptions may hold what the client sent, so they are not recorded.
        with trace.use_span(traced, record_exception=False, set_status_on_exception=False):
            yield
    finally:
        if traced.is_recording():
            _describe_end(exchange, traced, method if not _is_found(exchange, target) else "")
        traced.end()


def _describe_end(exchange: Exchange, traced: Span, name: str) -> None:
    """Say how the request ended. ``name`` replaces one that holds what the client invented."""
    from opentelemetry.trace import StatusCode

    outcome = _outcome(exchange)
    traced.set_attributes(outcome)
    if name:
        traced.update_name(name)
    if exchange.usage.error is not None:
        traced.set_attribute("mcp_django.reason", escaped(exchange.usage.error.reason))
    if "error.type" in outcome:
        traced.set_status(StatusCode.ERROR)


# Attributes.


def _target(exchange: Exchange, method: str) -> dict[str, str]:
    """The tool or prompt that the client names, if any can have such a name."""
    name = exchange.params.get("name") if method in _TARGETS else None
    return {_TARGETS[method]: name} if isinstance(name, str) and NAME.fullmatch(name) else {}


def _is_found(exchange: Exchange, target: dict[str, str]) -> bool:
    """Whether the caller may use what it names. Until then the name may be any text."""
    return not target or exchange.usage.found in target.values()


def _of_request(exchange: Exchange) -> dict[str, str]:
    uri = exchange.params.get("uri")
    kept = kept_uri(exchange.site, uri) if isinstance(uri, str) else ""
    return {"jsonrpc.request.id": escaped(str(exchange.request_id)), **({"mcp.resource.uri": kept} if kept else {})}


def _outcome(exchange: Exchange) -> dict[str, str]:
    error = exchange.usage.error
    if error is None:
        return {"error.type": "tool_error"} if exchange.usage.outcome == "failed" else {}
    if isinstance(error, RequestCancelled):
        return {"error.type": "cancelled"}
    code = error.code_in(exchange.era)
    failed = {} if code in _FAULTS_OF_CALLER else {"error.type": str(code)}
    return {"rpc.response.status_code": str(code), **failed}


def _remote_parent(exchange: Exchange) -> Context | None:
    """The context of the client's span, if the request names one."""
    text = traceparent(exchange.params)
    if not text:
        return None
    from opentelemetry import trace

    _, trace_id, span_id, flags = text.split("-")
    state = tracestate(exchange.params)
    remote = trace.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16) & _SAMPLED),
        trace_state=trace.TraceState.from_header([state]) if state else None,
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))


# Providers. Without the API's modules in the process there is none, so that we need not import them.


def _current_tracer() -> Tracer | None:
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    return _tracer(provider) if _does_something(provider) else None


def _current_histogram() -> Histogram | None:
    if "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return _histogram(provider) if _does_something(provider) else None


def _does_something(provider: object) -> bool:
    return not type(provider).__module__.startswith(_OF_API)


@lru_cache(maxsize=1)
def _tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("mcp_django", __version__)


@lru_cache(maxsize=1)
def _histogram(provider: MeterProvider) -> Histogram:
    meter = provider.get_meter("mcp_django", __version__)
    about: Any = {"unit": "s", "description": "The time from a request to its result."}
    try:
        return meter.create_histogram(
            "mcp.server.operation.duration", explicit_bucket_boundaries_advisory=_BUCKETS, **about
        )
    except TypeError:  # An API that takes no advice.
        return meter.create_histogram("mcp.server.operation.duration", **about)
