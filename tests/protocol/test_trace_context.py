"""W3C Trace Context in ``_meta``: what is read of it, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_django.protocol.trace_context import trace_id, traceparent, tracestate

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


def with_meta(**meta: Any) -> dict[str, Any]:
    return {"_meta": meta}


def test_the_trace_id_is_that_of_a_valid_traceparent() -> None:
    params = with_meta(traceparent=VALID)

    assert (trace_id(params), traceparent(params)) == (TRACE, VALID)


def test_what_a_later_version_appends_is_left_out() -> None:
    params = with_meta(traceparent=f"01-{TRACE}-{PARENT}-01-secret")

    assert (trace_id(params), traceparent(params)) == (TRACE, f"01-{TRACE}-{PARENT}-01")


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "00-x",
        None,
        7,
        [VALID],
        {"traceparent": VALID},
        VALID.upper(),
        f"{VALID}\n",
        f" {VALID}",
        f"{VALID}-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"01-{TRACE}-{PARENT}-01more",
        f"01-{TRACE}-{PARENT}-01-{'x' * 200}",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{'٣' * 32}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}",
        f"{TRACE}-{PARENT}-01",
    ],
)
def test_a_forged_traceparent_names_no_trace(sent: Any) -> None:
    params = with_meta(traceparent=sent)

    assert (trace_id(params), traceparent(params)) == ("", "")


@pytest.mark.parametrize("params", [{}, {"_meta": None}, {"_meta": []}, {"_meta": "traceparent"}])
def test_a_request_without_meta_names_no_trace(params: dict[str, Any]) -> None:
    assert (trace_id(params), tracestate(params)) == ("", "")


def test_a_tracestate_that_is_too_long_is_not_read() -> None:
    assert tracestate(with_meta(tracestate="a=1,b=2")) == "a=1,b=2"
    assert tracestate(with_meta(tracestate="a=" + "x" * 511)) == ""
