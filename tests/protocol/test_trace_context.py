"""W3C Trace Context in ``_meta``: what is read of it, and what is not."""

from __future__ import annotations

from typing import Any

from mcp_django.protocol.trace_context import trace_id, traceparent, tracestate

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


def test_the_trace_id_is_that_of_a_valid_traceparent_and_what_a_later_version_appends_is_left_out() -> None:
    for sent, found in ((VALID, VALID), (f"01-{TRACE}-{PARENT}-01-secret", f"01-{TRACE}-{PARENT}-01")):
        params = {"_meta": {"traceparent": sent}}

        assert (trace_id(params), traceparent(params)) == (TRACE, found)


def test_a_forged_traceparent_names_no_trace() -> None:
    forged: list[Any] = [
        "", "00-x", None, 7, [VALID], {"traceparent": VALID}, VALID.upper(), f"{VALID}\n", f" {VALID}", f"{VALID}-more",
        f"ff-{TRACE}-{PARENT}-01", f"01-{TRACE}-{PARENT}-01more", f"01-{TRACE}-{PARENT}-01-{'x' * 200}",
        f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{'٣' * 32}-{PARENT}-01", f"00-{TRACE}-{PARENT}",
        f"{TRACE}-{PARENT}-01",
    ]  # fmt: skip
    metas: list[Any] = [*({"traceparent": sent} for sent in forged), None, [], "traceparent"]

    found = [(trace_id(params), traceparent(params)) for params in ({}, *({"_meta": meta} for meta in metas))]

    assert found == [("", "")] * (len(metas) + 1)


def test_a_tracestate_that_is_too_long_is_not_read() -> None:
    sent: list[Any] = [{"tracestate": "a=1,b=2"}, {"tracestate": "a=" + "x" * 511}, None, [], "tracestate"]

    assert [tracestate({"_meta": meta}) for meta in sent] == ["a=1,b=2", "", "", "", ""]
