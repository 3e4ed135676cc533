"""Which name is suggested for one that does not exist."""

from __future__ import annotations

import pytest

from mcp_django.unknown_names import nearest, unknown_name

MODELS = ["flights.airport", "flights.flight", "flights.plane", "shop.plan", "shop.light"]


@pytest.mark.parametrize(("name", "meant"), [
    ("flight", "flights.flight"),
    ("Flight", "flights.flight"),
    ("flights.flihgt", "flights.flight"),
    ("airport", "flights.airport"),
    ("shop.plane", "flights.plane"),
    ("flights.planes", "flights.plane"),
    ("flights.plane", "shop.plan"),
])  # fmt: skip
def test_the_part_behind_the_dot_is_compared_first_and_the_name_itself_is_never_meant(name: str, meant: str) -> None:
    assert nearest(name, MODELS) == f" Did you mean {meant}?"


@pytest.mark.parametrize("name", ["", "x", "zzzzzz", "💥" * 50, "."])
def test_nothing_is_suggested_where_nothing_is_similar(name: str) -> None:
    assert nearest(name, MODELS) == ""
    assert nearest(name, []) == ""


def test_a_long_list_of_names_is_not_repeated_whole() -> None:
    text = unknown_name("model", "a", [f"app.m{number}" for number in range(341)])

    assert text.endswith(", app.m99, and 241 more.")
    assert len(text) < 1_200
