"""Functions of the project as tools: typed arguments in, a typed result out."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from demo_project.flights.models import Flight
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.data import make_flights
from tests.support.declared import Declared


class Cabin(enum.Enum):
    FIRST = "first"
    SECOND = "second"


class Seat(BaseModel):
    """Where somebody sits."""

    row: int = Field(ge=1, description="From the front.")
    letter: str = "A"


@dataclass
class Point:
    x: float
    y: float


class Pair(TypedDict):
    left: int
    right: str


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


# Schemas.


def test_typed_arguments_are_the_schema(root: DirectPeer, declared: Declared) -> None:
    def book(
        request: HttpRequest,
        seats: Annotated[int, Field(ge=1, le=9, description="How many.")],
        seat: Seat,
        cabin: Cabin = Cabin.SECOND,
        way: Literal["there", "back"] = "there",
        day: datetime.date | None = None,
        tags: list[str] = [],  # noqa: B006
    ) -> str:
        """Book seats.

        As many as there are.
        """
        return "booked"

    declared.tool(book, title="Book")

    assert listed(root, "book") == {
        "name": "book",
        "title": "Book",
        "description": "Book seats.\n\nAs many as there are.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "seats": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
                "seat": {
                    "type": "object",
                    "description": "Where somebody sits.",
                    "properties": {
                        "row": {"type": "integer", "minimum": 1, "description": "From the front."},
                        "letter": {"type": "string", "default": "A"},
                    },
                    "required": ["row"],
                },
                "cabin": {"type": "string", "enum": ["first", "second"], "default": "second"},
                "way": {"type": "string", "enum": ["there", "back"], "default": "there"},
                "day": {"type": "string", "format": "date"},
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            },
            "required": ["seats", "seat"],
            "additionalProperties": False,
        },
        "annotations": {
            "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False,
        },
    }  # fmt: skip


def test_what_a_schema_says_of_null_and_of_tuples(root: DirectPeer, declared: Declared) -> None:
    """A null that means what leaving the argument out means is taken, and not mentioned: some providers refuse it."""
    seen: list[Any] = []

    def take(
        request: HttpRequest,
        place: tuple[int, str],
        needed: int | None,
        day: datetime.date | None = None,
        size: Annotated[int | str | None, Field(description="How large.")] = None,
        limit: int | None = 5,
    ) -> None:
        """Take."""
        seen.append([place, needed, day, size, limit])

    declared.tool(take)

    assert listed(root, "take")["inputSchema"]["properties"] == {
        "place": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False,
                  "minItems": 2, "maxItems": 2},
        "needed": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "day": {"type": "string", "format": "date"},
        "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "How large."},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 5},
    }  # fmt: skip
    for given in ({}, {"day": None, "size": None, "limit": None}):
        assert root.call("take", place=[1, "a"], needed=None, **given)["isError"] is False
    assert seen == [[(1, "a"), None, None, None, 5], [(1, "a"), None, None, None, None]]
    assert errors_of(root.call("take", place=[1, "a", 2], needed=None))


def test_names_that_providers_refuse_are_ascii_with_the_declared_ones_as_titles(
    root: DirectPeer, declared: Declared
) -> None:
    seen: list[Any] = []

    def prüfe_größe(  # noqa: PLC2401 - this is what is tested
        request: HttpRequest,
        größe: int,  # noqa: PLC2401
        ort_名: str = "x",  # noqa: PLC2401
        flug: Flight | None = None,
    ) -> None:
        """Take."""
        seen.append([größe, ort_名, flug])

    def buche(request: HttpRequest, flüge: Flight) -> None:  # noqa: PLC2401
        """Book."""
        seen.append(flüge.pk)

    declared.tool(prüfe_größe, name="prüfe_größe", audit=["größe"])
    declared.tool(buche)

    tool = listed(root, "prufe_grosse")
    names = list(tool["inputSchema"]["properties"])
    done = root.call("prufe_grosse", **{"grosse": 3, names[1]: "y"})
    wrong = errors_of(root.call("prufe_grosse", grosse="a"))
    refused = errors_of(root.call("prufe_grosse", größe=1))

    assert (tool["title"], names[0], names[1][:4], names[2]) == ("prüfe_größe", "grosse", "ort_", "flug")
    assert all(name.isascii() for name in names)
    assert [one.get("title") for one in tool["inputSchema"]["properties"].values()] == ["größe", "ort_名", None]
    assert done["isError"] is False and seen == [[3, "y", None]]
    assert wrong[0]["field"] == "grosse" and "Did you mean grosse?" in str(refused)
    assert root.call("buche", fluge="1")["isError"] is False and seen[-1] == 1
    assert "no flights.flight" in str(errors_of(root.call("buche", fluge="99")))


def test_arguments_arrive_as_what_they_are_annotated_with(root: DirectPeer, declared: Declared) -> None:
    seen: list[Any] = []

    def take(request: HttpRequest, seat: Seat, cabin: Cabin, day: datetime.date, price: Decimal = Decimal(1)) -> None:
        """Take."""
        seen.extend([seat, cabin, day, price])

    declared.tool(take)

    result = root.call("take", seat={"row": 3}, cabin="first", day="2013-01-31", price="1.50")

    assert seen == [Seat(row=3), Cabin.FIRST, datetime.date(2013, 1, 31), Decimal("1.50")]
    assert text_of(result) == "Done." and "structuredContent" not in result


def test_what_a_tool_says_of_itself(root: DirectPeer, declared: Declared) -> None:
    def act(request: HttpRequest) -> None:
        """Act."""

    names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    expected = {
        "read_only": (True, False, True, False), "not_destructive": (False, False, False, False),
        "idempotent": (False, True, True, False), "open_world": (False, True, False, True),
    }  # fmt: skip
    for name in expected:
        declared.tool(act, name=name, **{name.removeprefix("not_"): not name.startswith("not_")})

    found = {name: listed(root, name)["annotations"] for name in expected}

    assert found == {name: dict(zip(names, values, strict=True)) for name, values in expected.items()}


# Results.


RESULTS: list[Any] = [
    (str, "text", None, "text"),
    (None, None, None, "Done."),
    (Seat, Seat(row=2), {"row": 2, "letter": "A"}, '{"row":2,"letter":"A"}'),
    (Point, Point(1.5, 2), {"x": 1.5, "y": 2.0}, '{"x":1.5,"y":2.0}'),
    (Pair, {"left": 1, "right": "r"}, {"left": 1, "right": "r"}, '{"left":1,"right":"r"}'),
    (list[int], [1, 2], [1, 2], "[1,2]"),
    (list[Seat], [Seat(row=1)], [{"row": 1, "letter": "A"}], '[{"row":1,"letter":"A"}]'),
    (int, 5, 5, "5"),
    (bool, True, True, "true"),
    (Seat | None, None, {"result": None}, '{"result":null}'),
    (dict[str, int], {"a": 1}, {"a": 1}, '{"a":1}'),
    (datetime.date, datetime.date(2013, 1, 31), "2013-01-31", '"2013-01-31"'),
    (Decimal, Decimal("1.50"), "1.50", '"1.50"'),
    (Cabin, Cabin.FIRST, "first", '"first"'),
    (Any, {"free": 1}, None, '{"free":1}'),
]


def test_a_result_is_written(root: DirectPeer, declared: Declared) -> None:
    values = iter([value for _, value, *_ in RESULTS])
    found = []
    for number, (returns, *_) in enumerate(RESULTS):

        def give(request: HttpRequest) -> Any:
            """Give."""
            return next(values)

        give.__annotations__["return"] = returns
        declared.tool(give, name=f"give_{number}", read_only=True)
        result, schema = root.call(f"give_{number}"), listed(root, f"give_{number}").get("outputSchema")

        structured = result.get("structuredContent")
        found.append((returns, structured, text_of(result)))
        assert (schema is None) == (structured is None), returns
        assert schema is None or (schema["type"] == "object") == isinstance(structured, dict), returns

    assert found == [(returns, structured, text) for returns, _, structured, text in RESULTS]


def test_what_is_annotated_of_a_result_stands_in_its_schema(root: DirectPeer, declared: Declared) -> None:
    def seats(request: HttpRequest) -> Annotated[int, Field(ge=1, description="Seats that are left.")]:
        """Seats."""
        return 1

    declared.tool(seats)

    schema = listed(root, "seats")["outputSchema"]

    assert (schema["minimum"], schema["description"]) == (1, "Seats that are left.")


def test_a_result_that_breaks_its_schema_is_no_result(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    def lie(request: HttpRequest) -> Pair:
        """Lie."""
        return {"left": "hunter2", "right": 5}  # type: ignore[typeddict-item]

    declared.tool(lie, read_only=True)

    result = root.call("lie")

    assert result["isError"] is True and "structuredContent" not in result
    assert text_of(result) == "lie failed. The server's log has the details; calling it again may not help."
    assert "lie returned what its annotation does not promise" in caplog.text


# Wrong arguments.


def test_wrong_arguments_are_listed(root: DirectPeer, declared: Declared) -> None:
    def book(
        request: HttpRequest,
        seats: Annotated[int, Field(ge=1)],
        way: Literal["there", "back"],
        day: datetime.date = datetime.date(2013, 1, 1),
        seat: Seat | None = None,
    ) -> str:
        """Book."""
        raise AssertionError("was called")

    declared.tool(book)
    wrong: list[tuple[Any, list[str]]] = [
        ({"seats": 0, "way": "x"}, ["seats", "way"]),
        ({"seats": "five"}, ["seats"]),
        ({"seats": True}, ["seats"]),
        ({"seats": 1.5}, ["seats"]),
        ({"seats": None}, ["seats"]),
        ({"request": {}}, ["request"]),
        ({"self": 1}, ["self"]),
        ({"day": "yesterday"}, ["day"]),
        ({"seat": {"row": 0}}, ["seat"]),
    ]

    for given, fields in wrong:
        result = root.call("book", **{"seats": 1, "way": "there", **given})
        assert "Invalid arguments for book." in text_of(result)
        assert [error["field"].partition(".")[0] for error in errors_of(result)][: len(fields)] == fields, given
    assert [error["field"] for error in errors_of(root.call("book"))] == ["", ""]
