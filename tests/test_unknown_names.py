"""Which name is suggested for one that does not exist."""

from __future__ import annotations

import pytest

from mcp_django.protocol import unknown_names
from mcp_django.protocol.unknown_names import did_you_mean, nearest, nearest_values, unknown_name

MODELS = ["flights.airport", "flights.flight", "flights.plane", "shop.plan", "shop.light"]


def test_the_part_behind_the_dot_is_compared_first_and_the_name_itself_is_never_meant() -> None:
    meant = {
        "flight": "flights.flight",
        "Flight": "flights.flight",
        "flights.flihgt": "flights.flight",
        "airport": "flights.airport",
        "shop.plane": "flights.plane",
        "flights.planes": "flights.plane",
        "flights.plane": "shop.plan",
    }

    assert {name: nearest(name, MODELS) for name in meant} == {
        name: f" Did you mean {model}?" for name, model in meant.items()
    }


def test_nothing_is_suggested_where_nothing_is_similar() -> None:
    for name in ("zzzzzz", "", "x", "💥" * 50, "."):
        assert nearest(name, MODELS) == nearest(name, []) == "", name


def test_a_long_list_of_names_is_not_repeated_whole() -> None:
    text = unknown_name("model", "a", [f"app.m{number}" for number in range(341)])

    assert text.endswith(", app.m99, and 241 more.")
    assert len(text) < 1_200


def test_what_a_name_stands_for_is_suggested_in_the_place_of_the_nearest() -> None:
    assert (
        unknown_name("field", "or", ["order", "any"], "any") == "no field 'or'. Did you mean any? Allowed: order, any."
    )


AIRLINES = {
    "UA": ["UA", "United Air Lines Inc."], "US": ["US", "US Airways Inc."], "AA": ["AA", "American Airlines Inc."],
    "DL": ["DL", "Delta Air Lines Inc."], "OO": ["OO"], "ZZ": [],
}  # fmt: skip


def test_values_are_meant_by_their_letters_or_by_another_text() -> None:
    meant: dict[str, list[str]] = {
        "ua": ["UA"],
        "United": ["UA, United Air Lines Inc."],
        "united air lines inc.": ["UA, United Air Lines Inc."],
        "Untied": ["UA, United Air Lines Inc."],
        "Delta Airlines": ["DL, Delta Air Lines Inc."],
        "DL Delta": ["DL"],
        "Air": ["UA, United Air Lines Inc.", "US, US Airways Inc.", "AA, American Airlines Inc."],
        "UA": [],
        "": [],
        "%": [],
        "QQ": [],
        "x" * 10_000: [],
        "a " * 10_000: [],
    }

    assert {value: nearest_values(value, AIRLINES) for value in meant} == meant


def test_keeping_the_server_busy_with_long_texts_that_repeat_their_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred texts as these took seconds as a whole."""
    compared: list[int] = []

    def ratio(*texts: str) -> float:
        compared.extend(map(len, texts))
        return 0.0

    monkeypatch.setattr(unknown_names, "_ratio", ratio)

    nearest_values("a" * 50 + "b" * 50, {"1": ["ab" * 50, "ab" * 25 + " " + "ba" * 20]})

    assert compared
    assert max(compared) <= 40


def test_several_names_are_meant() -> None:
    assert [did_you_mean(names) for names in ([], ["a"], ["a", "b"])] == [
        "", " Did you mean a?", " Did you mean a or b?",
    ]  # fmt: skip
