"""The span and the duration of each request, as a project's OpenTelemetry gets them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from opentelemetry import metrics, trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

import mcp_django
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.server import dispatch, telemetry
from tests.support.asking import DirectPeer
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CANARY = "canary-7f3a"
LEGACY = "2025-11-25"


@dataclass
class Telemetry:
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracer: Any

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def span(self) -> Any:
        [span] = self.spans
        return span

    @property
    def points(self) -> list[Any]:
        """The series of the metric."""
        data: Any = self.reader.get_metrics_data()
        if data is None:
            return []
        [metric] = data.resource_metrics[0].scope_metrics[0].metrics
        assert (metric.name, metric.unit) == ("mcp.server.operation.duration", "s")
        return list(metric.data.data_points)

    @property
    def everything(self) -> str:
        """All that is exported, as text."""
        data: Any = self.reader.get_metrics_data()
        return "".join(span.to_json() for span in self.spans) + (data.to_json() if data else "")


@contextmanager
def provided(sampler: Sampler, patch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    # A process can set its providers once only. They are patched by the fixture that the tests use too: what two patch
    # is restored only in the right order.
    patch.setattr(trace, "get_tracer_provider", lambda: tracers)
    patch.setattr(metrics, "get_meter_provider", lambda: meters)
    patch.setattr(telemetry, "_unobserved_until", 0.0)
    yield Telemetry(exporter, reader, tracers.get_tracer("the project"))
    tracers.shutdown()
    meters.shutdown()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    with provided(ALWAYS_ON, monkeypatch) as found:
        yield found


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(3)
    return DirectPeer(User.objects.create_superuser("root"))


def ask(root: DirectPeer, method: str, params: Any = None, **meta: Any) -> Any:
    """A legacy request, whose ``_meta`` is what is given."""
    return root.request(LEGACY, method, {**(params or {}), **({"_meta": meta} if meta else {})})


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


# What a span says.

_NETWORK = {
    "websocket": {"network.transport": "tcp", "network.protocol.name": "websocket"},
    "stdio": {"network.transport": "pipe"},
}


@pytest.mark.own_form
@pytest.mark.every_transport
def test_a_call_of_a_tool_is_a_span_of_the_server(seen: Telemetry, admin: Peer, flights: Any, transport: str) -> None:
    admin.call("find_records", model="flights.flight")

    span = seen.span
    assert (span.name, span.kind) == ("tools/call find_records", SpanKind.SERVER)
    assert span.status.status_code is StatusCode.UNSET
    common = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": MODERN,
        "gen_ai.tool.name": "find_records",
        "gen_ai.operation.name": "execute_tool",
        **_NETWORK.get(transport, {"network.transport": "tcp", "network.protocol.name": "http"}),
    }
    request_id = attributes(span)["jsonrpc.request.id"]
    assert isinstance(request_id, str)
    assert attributes(span) == {**common, "jsonrpc.request.id": request_id}
    [point] = seen.points
    assert dict(point.attributes) == common


def test_a_prompt_is_named_and_other_requests_by_their_method(
    seen: Telemetry, root: DirectPeer, declared: Declared
) -> None:
    def greet(request: Any) -> str:
        """Greets."""
        return "Hello."

    declared.prompt(greet)
    root.result(MODERN, "prompts/get", {"name": "greet"})
    root.tools()

    prompt, tools = seen.spans
    assert (prompt.name, tools.name) == ("prompts/get greet", "tools/list")
    assert attributes(prompt)["gen_ai.prompt.name"] == "greet"
    assert "gen_ai.operation.name" not in attributes(prompt) and "gen_ai.tool.name" not in attributes(tools)
    assert "greet" in [dict(point.attributes).get("gen_ai.prompt.name") for point in seen.points]


def test_the_opening_of_a_subscription_is_a_span_that_ends(seen: Telemetry, admin: Peer, flights: Any) -> None:
    watching = admin.watch(MODERN, ["db://flights/flight/1"])

    assert [span.name for span in seen.spans] == ["subscriptions/listen"]
    watching.close()


#: What is kept of each URI.
KEPT = {
    "db://flights/flight": "db://flights/flight",
    "db://flights/flight.schema": "db://flights/flight.schema",
    "db://flights/flight/1": "db://flights/flight/1",
    "db://flights/flight/1/notes": "db://flights/flight/1/notes",
    "db://flights/flight/-1": "db://flights/flight/-1",
    "db://shop/crate/00000000-0000-0000-0000-000000000001": "db://*",
    f"db://flights/flight?tailnum={CANARY}": "db://flights/flight",
    f"db://flights/flight#{CANARY}": "*",
    f"db://flights/airline/{CANARY}": "db://flights/airline/*",
    f"db://flights/flight/1/{CANARY}": "*",
    f"db://flights/flight/1{CANARY}": "db://flights/flight/*",
    f"db://flights/{CANARY}": "*",
    "db://flights/secret_word": "db://*",
    "db://secret_app/flight": "db://*",
    f"https://user:{CANARY}@example.com/": "*",
    "report://today": "report://today",
    f"report://of/{CANARY}": "report://of/{key}",
    CANARY: "*",
}


def test_a_span_keeps_no_secret_of_a_uri(seen: Telemetry, root: DirectPeer, declared: Declared) -> None:
    def today(request: Any) -> str:
        """Of today."""
        return "today"

    def of_key(request: Any, key: str) -> str:
        """Of a key."""
        return key

    declared.resource("report://today", today)
    declared.resource("report://of/{key}", of_key)

    for uri in KEPT:
        ask(root, "resources/read", {"uri": uri})

    found = [attributes(span).get("mcp.resource.uri") for span in seen.spans]
    assert dict(zip(KEPT, found, strict=True)) == KEPT
    assert {span.name for span in seen.spans} == {"resources/read"}
    assert not any("mcp.resource.uri" in point.attributes for point in seen.points)


def test_a_request_id_is_cut_and_escaped(seen: Telemetry, root: DirectPeer) -> None:
    root.ids = iter(["line\n" + "x" * 200])

    ask(root, "ping")

    shown = attributes(seen.span)["jsonrpc.request.id"]
    assert shown.startswith("line\\nxxx") and len(shown) == 64


# The trace of the client.


def test_the_span_is_a_child_of_the_span_of_the_client(seen: Telemetry, root: DirectPeer) -> None:
    ask(root, "ping", traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="vendor=1")

    span = seen.span
    assert format(span.context.trace_id, "032x") == TRACE
    assert (format(span.parent.span_id, "016x"), span.parent.is_remote) == (PARENT, True)
    assert span.context.trace_state.to_header() == "vendor=1"
    assert span.links == ()


def test_a_forged_traceparent_begins_a_trace_of_our_own(seen: Telemetry, root: DirectPeer) -> None:
    for forged in (f"00-{TRACE.upper()}-{PARENT}-01", "", "00-x", f"00-{'0' * 32}-{PARENT}-01", [1]):
        ask(root, "ping", traceparent=forged, tracestate=CANARY)

    assert [span.parent for span in seen.spans] == [None] * 5
    assert CANARY not in seen.everything


def test_a_tracestate_that_is_not_valid_is_dropped(seen: Telemetry, root: DirectPeer) -> None:
    for state in (CANARY, "a" * 600, f"=,;{CANARY}"):
        ask(root, "ping", traceparent=f"00-{TRACE}-{PARENT}-01", tracestate=state)

    contexts: list[Any] = [span.context for span in seen.spans]
    assert [format(one.trace_id, "032x") for one in contexts] == [TRACE] * 3
    assert [one.trace_state.to_header() for one in contexts] == [""] * 3


def test_a_span_of_the_transport_is_linked_where_the_client_names_a_parent(seen: Telemetry, root: DirectPeer) -> None:
    with seen.tracer.start_as_current_span("POST /mcp") as ambient:
        ask(root, "ping", traceparent=f"00-{TRACE}-{PARENT}-01")
        ask(root, "ping")

    linked, child, _ = seen.spans
    assert [link.context for link in linked.links] == [ambient.get_span_context()]
    assert child.parent == ambient.get_span_context() and child.links == ()


def test_the_spans_of_the_project_are_children(seen: Telemetry, admin: Peer, declared: Declared) -> None:
    def count(request: Any) -> str:
        """Counts."""
        with seen.tracer.start_as_current_span("counting"):
            return "3"

    declared.tool(count)
    admin.call("count")

    inner, outer = seen.spans
    assert (inner.name, outer.name) == ("counting", "tools/call count")
    assert inner.parent.span_id == outer.context.span_id
    assert not trace.get_current_span().get_span_context().is_valid


# How it ended.


class _Broken(MCPError):
    code = -32050
    reason = "BROKEN\n"


def _outcome(found: Telemetry) -> dict[str, Any]:
    """How the last request ended, by its span and by the series of its duration."""
    span: Any = found.spans[-1]
    [point] = [one for one in found.points if _of(one) == _of(span)]
    keys = ("error.type", "rpc.response.status_code")
    of_span = {key: span.attributes[key] for key in keys if key in span.attributes}
    assert of_span == {key: point.attributes[key] for key in keys if key in point.attributes}
    expected = StatusCode.ERROR if "error.type" in of_span else StatusCode.UNSET
    assert (span.status.status_code, span.status.description, span.events) == (expected, None, ())
    return of_span


def _of(found: Any) -> Any:
    keys = ("mcp.method.name", "error.type", "rpc.response.status_code")
    return [found.attributes.get(key) for key in keys]


def test_a_failure_has_a_type_and_no_text(seen: Telemetry, root: DirectPeer, declared: Declared) -> None:
    def fail(request: Any) -> str:
        """Fails."""
        raise errors.pop(0)

    declared.tool(fail)
    errors = [ToolError(CANARY), RuntimeError(CANARY), _Broken(CANARY)]
    broken = {"error.type": "-32050", "rpc.response.status_code": "-32050"}
    for outcome, reason in [({"error.type": "tool_error"}, None)] * 2 + [(broken, "BROKEN\\n")]:
        ask(root, "tools/call", {"name": "fail", "arguments": {}})

        assert _outcome(seen) == outcome
        assert attributes(seen.spans[-1]).get("mcp_django.reason") == reason
    assert {point.attributes["gen_ai.tool.name"] for point in seen.points} == {"fail"}
    assert CANARY not in seen.everything


def test_a_mistake_of_the_caller_is_no_error_of_the_server(seen: Telemetry, root: DirectPeer) -> None:
    for method, params, code, reason in (
        ("tools/call", {"name": "nothing"}, "-32602", "TOOL_NOT_FOUND"),
        ("tools/call", {"name": 7}, "-32602", "INVALID_PARAMS"),
        ("resources/read", {"uri": "db://nothing/at_all"}, "-32002", "RESOURCE_NOT_FOUND"),
        ("nothing/at_all", {}, "-32601", "METHOD_NOT_FOUND"),
    ):
        ask(root, method, params)

        assert _outcome(seen) == {"rpc.response.status_code": code}
        assert attributes(seen.spans[-1])["mcp_django.reason"] == reason


def test_an_unexpected_error_is_one_of_the_server_and_so_is_a_request_that_was_stopped(
    seen: Telemetry, root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(exchange: Exchange, method: Any) -> Any:
        exchange.cancellation.cancel()
        raise RequestCancelled

    def expired(exchange: Exchange, method: Any) -> Any:
        exchange.cancellation.expire()
        raise RequestCancelled

    internal = {"error.type": "-32603", "rpc.response.status_code": "-32603"}
    outcomes = [(lambda *args: 1 / 0, internal), (cancelled, {"error.type": "cancelled"}), (expired, internal)]
    for run, outcome in outcomes:
        monkeypatch.setattr(dispatch, "run_method", run)
        ask(root, "tools/list")

        assert _outcome(seen) == outcome


def test_a_span_ends_with_its_process_too(seen: Telemetry, root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(dispatch, "run_method", end)

    with pytest.raises(KeyboardInterrupt):
        root.tools()

    assert _outcome(seen) == {"error.type": "-32603", "rpc.response.status_code": "-32603"}
    assert not trace.get_current_span().get_span_context().is_valid


# The metric.


def test_the_durations_have_the_buckets_of_the_conventions(seen: Telemetry, root: DirectPeer) -> None:
    for _ in range(2):
        root.call("describe_models")
    root.tools()

    calls, lists = sorted(seen.points, key=lambda point: -point.count)
    assert (calls.count, lists.count) == (2, 1)
    assert calls.explicit_bounds == (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
    assert 0 < calls.min <= calls.max


def test_names_that_clients_invent_make_no_series_and_no_names_of_spans(seen: Telemetry, root: DirectPeer) -> None:
    for number in range(5):
        ask(root, f"method/{number}")
        ask(root, "tools/call", {"name": f"tool{number}"})
        ask(root, "tools/call", {"name": "describe_models", "arguments": number})
        ask(root, "prompts/get", {"name": f"prompt{number}"})
        ask(root, "tools/call", {"name": f"{CANARY} {number}"})

    assert len(seen.points) == 3
    assert {span.name for span in seen.spans} == {"_OTHER", "tools/call", "prompts/get"}
    assert {attributes(span)["mcp.method.name"] for span in seen.spans} == {"_OTHER", "tools/call", "prompts/get"}
    assert CANARY not in seen.everything


def test_a_request_that_is_not_sampled_still_counts(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    with provided(ALWAYS_OFF, monkeypatch) as found:
        ask(root, "ping")

        assert found.spans == [] and len(found.points) == 1


def test_an_api_that_takes_no_advice_about_buckets_measures_too(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = []

    class Meter:
        def create_histogram(self, name: str, unit: str, description: str) -> Any:
            return SimpleNamespace(record=lambda value, attributes: recorded.append((name, unit)))

    meters = type("Meters", (), {"get_meter": lambda *args: Meter()})()
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    monkeypatch.setattr(telemetry, "_unobserved_until", 0.0)

    ask(root, "ping")

    assert recorded == [("mcp.server.operation.duration", "s")]


def test_no_secret_is_exported(seen: Telemetry, admin: Peer, flights: Any, declared: Declared) -> None:
    def echo(request: Any, text: str) -> str:
        """Echoes."""
        if text.startswith("fail"):
            raise RuntimeError(text)
        return text

    declared.tool(echo)
    admin.call("echo", text=CANARY)
    admin.call("echo", text=f"fail {CANARY}")
    admin.call("echo", wrong=CANARY)
    admin.call("find_records", model="flights.flight", filter={"tailnum": CANARY})
    admin.call("find_records", model=CANARY)
    admin.request(MODERN, "resources/read", {"uri": f"db://flights/airline/{CANARY}?x={CANARY}"})
    admin.request(MODERN, "completion/complete", {
        "ref": {"type": "ref/resource", "uri": CANARY}, "argument": {"name": CANARY, "value": CANARY}
    })  # fmt: skip

    assert len(seen.spans) == 7
    assert CANARY not in seen.everything
    assert str(getattr(admin, "token", "")) not in seen.everything


# Where nobody observes.


def test_a_process_without_a_provider_makes_nothing(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in (trace.ProxyTracerProvider(), NoOpTracerProvider()):
        monkeypatch.setattr(trace, "get_tracer_provider", lambda found=provider: found)
        monkeypatch.setattr(metrics, "get_meter_provider", NoOpMeterProvider)
        monkeypatch.setattr(telemetry, "_unobserved_until", 0.0)
        exchange: Any = None

        # It looks at nothing of the exchange, and makes no object.
        assert telemetry.span(exchange, is_known=True) is telemetry.span(exchange, is_known=False)
        assert "result" in ask(root, "ping")


def test_a_process_without_a_provider_is_not_looked_at_for_each_request(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(telemetry, "_unobserved_until", 0.0)
    monkeypatch.setattr(telemetry, "_LOOK_SECONDS", 1e9)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: looks.append(1) or NoOpTracerProvider())
    monkeypatch.setattr(metrics, "get_meter_provider", NoOpMeterProvider)

    for _ in range(3):
        ask(root, "ping")

    assert looks == [1]


def test_only_durations_are_measured_where_only_they_are_wanted(
    seen: Telemetry, root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", NoOpTracerProvider)

    with seen.tracer.start_as_current_span("POST /mcp") as ambient:
        ask(root, "ping")

    assert [span.context for span in seen.spans] == [ambient.get_span_context()]
    assert len(seen.points) == 1


_SERVE = """
import sys
if sys.argv[1] == "blocked":
    sys.modules["opentelemetry"] = None
import django
django.setup()
from mcp_django.exchange.principals import Superuser
from tests.support.asking import DirectPeer
answer = DirectPeer(Superuser()).request("2025-11-25", "ping")
assert answer["result"] == {}, answer
print([name for name, module in sys.modules.items() if name.startswith("opentelemetry") and module is not None])
"""


@pytest.mark.parametrize("how", ["blocked", "installed"])
def test_a_process_that_does_not_use_the_api_answers_without_it(how: str) -> None:
    """Whether or not it is installed: to load it takes a tenth of a second."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-c", _SERVE, how], check=False, cwd=Path(mcp_django.__file__).parents[1], env=environment,
        capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
