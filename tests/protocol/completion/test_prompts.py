"""Completion of arguments, in every revision."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django.exceptions import ToolError
from mcp_django.models import Prompt
from tests.protocol.completion.conftest import FLIGHT, ask, refused, suggested
from tests.support.asking import DirectPeer
from tests.support.declared import Declared
from tests.support.peers import MODERN, REVISIONS, Peer


class Tone(enum.Enum):
    SHORT = "short"
    LONG = "long"


# In every revision.


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_key_and_an_argument_of_a_prompt_are_completed(admin: Peer, flights: Any, revision: str) -> None:
    result = ask(admin, FLIGHT, "id", "1", revision)["result"]
    found = ask(admin, "punctuality_report", "length", "a p", revision)["result"]["completion"]

    assert found == {"values": ["a paragraph", "a page"], "total": 2, "hasMore": False}

    completion = {"values": ["1", "10", "11", "12"], "total": 4, "hasMore": False}
    if revision == MODERN:
        assert {**result, "_meta": {}} == {"completion": completion, "resultType": "complete", "_meta": {}}
    else:
        assert result == {"completion": completion}


def test_the_errors_of_wrong_references(root: DirectPeer) -> None:
    assert refused(root, "db://nope/nope/{id}", "id") == {
        "code": -32602,
        "message": "Unknown resource template. ref.uri: not a template; resources/templates/list names the templates",
        "data": {
            "reason": "REFERENCE_NOT_FOUND",
            "errors": [
                {"field": "ref.uri", "received": "db://nope/nope/{id}",
                 "message": "not a template; resources/templates/list names the templates"},
            ],
        },
    }  # fmt: skip
    assert refused(root, FLIGHT, "ident") == {
        "code": -32602,
        "message": "Unknown argument: ident. argument.name: no argument 'ident'. Allowed: id.",
        "data": {
            "reason": "INVALID_PARAMS",
            "errors": [{"field": "argument.name", "message": "no argument 'ident'. Allowed: id.", "received": "ident"}],
        },
    }
    assert refused(root, "nope", "x")["data"]["errors"][0]["field"] == "ref.name"
    assert [refused(root, name, "x")["data"]["reason"] for name in ("nope", "punctuality_report")] == [
        "PROMPT_NOT_FOUND", "INVALID_PARAMS",
    ]  # fmt: skip


SHAPES: list[Any] = [
    {}, {"ref": {}}, {"ref": {"type": "ref/nope", "name": "x"}, "argument": {"name": "x", "value": ""}},
    {"ref": {"type": "ref/prompt", "name": "x"}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x"}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": 5}},
    {"ref": {"type": "ref/prompt", "name": 5}, "argument": {"name": "x", "value": ""}},
    {"ref": {"type": "ref/resource", "name": "x"}, "argument": {"name": "x", "value": ""}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""},
     "context": {"arguments": {"y": 5}}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""}, "context": []},
]  # fmt: skip


def test_params_of_another_shape(root: DirectPeer) -> None:
    for params in SHAPES:
        assert root.error(MODERN, "completion/complete", params)["code"] == -32602, params


# Prompts.


def test_every_kind_of_argument(root: DirectPeer, declared: Declared) -> None:
    def report(
        request: HttpRequest, airport: Airport, carrier: Airline | None, tone: Tone, length: Literal["one", "ONE MORE"],
        formal: bool, way: Literal["there"] | int | None, notes: str, seats: int = 1,
    ) -> str:  # fmt: skip
        """Report."""
        return ""

    declared.prompt(report)

    assert suggested(root, "report", "airport") == ["EWR", "IAH", "JFK", "LGA"]
    assert suggested(root, "report", "airport", "j") == ["JFK"]
    assert suggested(root, "report", "carrier", "amer") == ["AA"]  # Found by its name.
    assert suggested(root, "report", "tone") == ["short", "long"]
    assert suggested(root, "report", "tone", "L") == ["long"]
    assert suggested(root, "report", "length", "one") == ["one", "ONE MORE"]
    assert suggested(root, "report", "formal", "t") == ["true"]
    assert suggested(root, "report", "way") == ["there"]
    assert ask(root, "report", "notes", "x")["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}
    assert suggested(root, "report", "seats", "1") == []


def test_a_function_of_the_project_gets_the_known_arguments(root: DirectPeer, declared: Declared) -> None:
    seen: list[Any] = []

    def cities(request: HttpRequest, typed: str, arguments: dict[str, str]) -> list[str]:
        seen.append((request.user.get_username(), typed, arguments))
        return ["Paris", "Parma"] if arguments.get("country") == "it" else ["Oslo"]

    def visit(request: HttpRequest, country: str, city: str, airport: Airport) -> str:
        """Visit."""
        return ""

    declared.prompt(visit, complete={"city": cities, "airport": lambda *given: ["JFK"]})

    assert suggested(root, "visit", "airport", "x") == ["JFK"]  # And not by the annotation.
    assert suggested(root, "visit", "city", "pa", country="it", city="x", other="y") == ["Paris", "Parma"]
    assert suggested(root, "visit", "city") == ["Oslo"]
    assert seen == [("root", "pa", {"country": "it", "city": "x"}), ("root", "", {})]


def test_a_function_may_be_asynchronous_or_without_end_or_a_queryset(root: DirectPeer, declared: Declared) -> None:
    async def later(request: HttpRequest, typed: str, arguments: dict[str, str]) -> list[str]:
        return [airport.faa async for airport in Airport.objects.order_by("faa")]

    def endless(request: HttpRequest, typed: str, arguments: dict[str, str]) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def rows(request: HttpRequest, typed: str, arguments: dict[str, str]) -> Any:
        return Flight.objects.order_by("pk").values_list("pk", flat=True)

    def report(request: HttpRequest, a: str, b: str, c: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": later, "b": endless, "c": rows})

    assert suggested(root, "report", "a") == ["EWR", "IAH", "JFK", "LGA"]
    assert ask(root, "report", "b")["result"]["completion"] == {
        "values": [str(number) for number in range(100)], "hasMore": True,
    }  # fmt: skip
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert suggested(root, "report", "c") == [str(number) for number in range(1, 13)]
    assert "LIMIT 101" in queries[-1]["sql"]


def test_a_function_that_refuses_suggests_nothing_and_one_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    outcome: list[Any] = []

    def decide(*given: Any) -> Any:
        if isinstance(outcome[-1], BaseException):
            raise outcome[-1]
        return outcome[-1]

    def report(request: HttpRequest, a: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": decide})

    for refusal in (ToolError("x"), PermissionDenied("x"), Flight.DoesNotExist("x")):
        outcome.append(refusal)
        assert suggested(root, "report", "a") == []
    for failure in (None, 5, "Paris", ValueError("hunter2"), SystemExit("hunter2")):
        outcome.append(failure)
        caplog.clear()
        error = ask(root, "report", "a")["error"]
        assert (error["code"], error["data"]) == (-32603, {"reason": "INTERNAL_ERROR"})
        assert "The completion of a of the prompt report failed" in caplog.text


def test_an_argument_of_a_template_has_no_suggestions(root: DirectPeer) -> None:
    Prompt.objects.create(name="greet", text="Greet {{ who }}.")

    assert ask(root, "greet", "who", "a")["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}
    assert (
        refused(root, "greet", "whom")["data"]["errors"][0]["message"]
        == "no argument 'whom'. Did you mean who? Allowed: who."
    )
