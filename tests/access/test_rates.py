"""The rates of THROTTLES and of tokens: what they mean, and what is refused with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from mcp_django.exchange.rates import (
    KINDS,
    Rate,
    failure_rates,
    parse_limits,
    parse_rate,
    problems_of_throttles,
    throttles,
)


def problem(parse: Callable[[Any], Any], value: Any) -> str:
    """What is said of a value, or that it is taken."""
    try:
        return f"taken as {parse(value)}"
    except ValueError as error:
        return str(error)


RATES = {
    "5/s": Rate(5, 1), "5/sec": Rate(5, 1), "5/second": Rate(5, 1),
    "600/m": Rate(600, 60), "600/min": Rate(600, 60), "600/minute": Rate(600, 60),
    "1/h": Rate(1, 3_600), "1/hour": Rate(1, 3_600),
    "100_000/d": Rate(100_000, 86_400), "1000000000000/day": Rate(10**12, 86_400),
}  # fmt: skip
NONSENSE = [
    "", "600", "600/", "/min", "600/month", "600/monkey", "600/MIN", "600 / min", "-1/min", "1.5/min", "10/5min",
    "1/min\n", "\u0661/min", "_1/min", "9" * 30 + "/min", None, 600, ["600/min"], {}, b"1/min",
]  # fmt: skip


def test_a_rate_has_the_words_of_django_rest_framework() -> None:
    assert {text: parse_rate(text) for text in RATES} == RATES
    assert [str(parse_rate(text)) for text in ("1/second", "2/m", "3/hour", "4/d")] == [
        "1/s",
        "2/min",
        "3/hour",
        "4/day",
    ]


def test_nonsense_is_no_rate_and_a_rate_of_nothing_is_refused_with_the_remedy() -> None:
    remedy = "is not a rate. Write a number and a period, such as '600/min'."

    assert [text for text in NONSENSE if remedy not in problem(parse_rate, text)] == []
    assert "allows nothing. To allow nothing, take the scope or the permission away" in problem(parse_rate, "0/day")


def test_limits_are_several_rates_of_each_kind_and_of_no_other_shape() -> None:
    wrong: list[tuple[Any, str]] = [
        ([], "is not a dictionary"), ("60/min", "is not a dictionary"), (None, "is not a dictionary"),
        ({"call": "60/min"}, "'call' cannot be limited here. What can be: calls, changes, rows, bytes, writes"),
        ({"failures": "60/min"}, "'failures' cannot be limited here."), ({1: "60/min"}, "1 cannot be limited here."),
        ({"calls": None}, "None is not a rate"), ({"calls": {}}, "is not a rate"),
        ({"calls": ["60/min", 1]}, "1 is not a rate"),
    ]  # fmt: skip

    said = [(value, problem(lambda limits: parse_limits(limits, KINDS), value)) for value, _ in wrong]

    assert [one for one, (_, message) in zip(said, wrong, strict=True) if message not in one[1]] == []
    assert parse_limits({"calls": ["60/min", "1000/day"]}) == {"calls": (Rate(60, 60), Rate(1_000, 86_400))}


def test_failed_authentication_is_limited_by_default_and_whatever_else_is_until_a_word_switches_it_off() -> None:
    thirty = (Rate(30, 60),)
    assert (throttles(), failure_rates()) == ({}, thirty)

    with override_settings(MCP={"THROTTLES": {"user": {"calls": "5/min"}, "address": {"calls": "9/min"}}}):
        assert throttles() == {"user": {"calls": (Rate(5, 60),)}, "address": {"calls": (Rate(9, 60),)}}
        assert failure_rates() == thirty
    with override_settings(MCP={"THROTTLES": {"address": {"failures": None}}}):
        assert failure_rates() == ()


def test_every_problem_of_the_setting_is_said_at_once() -> None:
    wrong: list[tuple[Any, list[str]]] = [
        ("60/min", ['must be a dictionary such as {"user": {"calls": "600/min"}}.']),
        ({"users": {}}, ["names 'users'. It may name user, token, address."]),
        ({"user": {"failures": "1/min"}},
         ["['user']: 'failures' cannot be limited here. What can be: calls, changes, rows, bytes, writes, refusals, "
          "unique."]),
        ({"user": {"calls": "1/month"}, "token": 5}, [
            "['user']: '1/month' is not a rate. Write a number and a period, such as '600/min'. The periods are s, "
            "min, hour and day.",
            '[\'token\']: 5 is not a dictionary such as {"calls": "600/min"}.',
        ]),
        ({"user": {"calls": None}, "address": {"failures": "1/min"}}, []),
    ]  # fmt: skip

    assert [(value, list(problems_of_throttles(value))) for value, _ in wrong] == wrong


def test_a_wrong_setting_limits_nobody_silently() -> None:
    with (
        override_settings(MCP={"THROTTLES": {"user": {"calls": "many"}}}),
        pytest.raises(ImproperlyConfigured, match=r"MCP\['THROTTLES'\] \['user'\]: 'many' is not a rate"),
    ):
        throttles()
