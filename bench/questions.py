"""What is asked: the first and the last page in an order, and figures by month and carrier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db.models import Avg, Count, Q, QuerySet
from django.db.models.functions import ExtractMonth
from rest_framework.pagination import Cursor

from bench.contestants import (
    COLUMNS,
    MODEL,
    PAGE,
    bare_floor,
    call,
    drf,
    floor,
    hooked,
    pagination,
    tool,
    whole_request,
)
from bench.project import Caller
from bench.rounds import Contestant, Reading
from demo_project.flights.models import Flight
from mcp_django.conf import get_conf

#: Orders that an index answers, with the primary key at their end.
ORDERS = (("departs_at", "id"), ("id",))

FIND = "find_records"
AGGREGATE = "aggregate_records"


@dataclass(slots=True)
class Question:
    """A question, and all who answer it."""

    title: str
    contestants: list[Contestant]
    readings: dict[str, Reading] = field(default_factory=dict)

    def check(self) -> None:
        """Let all answer once. Raises AssertionError where one gives other rows than the first."""
        self.readings = {contestant.name: contestant.once() for contestant in self.contestants}
        expected = self.readings[self.contestants[0].name].rows
        for name, reading in self.readings.items():
            counts = len(reading.rows), len(expected)
            assert counts[0] == counts[1] > 0, f"{self}: {name} has {counts[0]} rows, and not {counts[1]}"
            for row, other in zip(reading.rows, expected, strict=True):
                assert _alike(row, other), f"{self}: {name} has {row}, and not {other}"

    @property
    def asked_of_drf(self) -> bool:
        return any(contestant.name == "DRF" for contestant in self.contestants)

    def seconds(self, name: str) -> float:
        return next(contestant.median for contestant in self.contestants if contestant.name == name)

    def __str__(self) -> str:
        return self.title


def _alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows say the same; MariaDB rounds an average to four places where nobody asks for more."""
    return row.keys() == other.keys() and all(
        isclose(value, other[name], abs_tol=1e-4) if isinstance(value, float) else value == other[name]
        for name, value in row.items()
    )


@dataclass(frozen=True, slots=True)
class Start:
    """Where a page begins, as each of the contestants is told it; as it is, at the first row."""

    arguments: Mapping[str, str] = field(default_factory=dict)
    condition: Q = field(default_factory=Q)
    drf_cursor: str = ""


def first_page(caller: Caller, order: Sequence[str]) -> Question:
    return _page("first page", caller, order, Start())


def last_page(caller: Caller, order: Sequence[str], cursor: str) -> Question:
    """``cursor`` is what ``walk`` found."""
    end = list(hooked(caller)().order_by(*(f"-{path}" for path in order))[: PAGE + 1])
    first, before = end[PAGE - 1], end[PAGE]
    start = Start({"cursor": cursor}, _after(before, order), _drf_cursor(caller, order, first))
    return _page("last page", caller, order, start)


def _page(which: str, caller: Caller, order: Sequence[str], start: Start) -> Question:
    arguments = {"model": MODEL, "order_by": list(order), **start.arguments}

    def select(rows: QuerySet[Flight]) -> Any:
        return rows.filter(start.condition).order_by(*order).values_list(*COLUMNS)[:PAGE]

    return Question(
        f"{caller.user.get_username()}: {which} by {', '.join(order)}",
        [
            floor(caller, COLUMNS, select),
            bare_floor(caller, COLUMNS, select),
            tool(caller, FIND, arguments),
            drf(caller, order, start.drf_cursor),
            whole_request(caller, FIND, arguments),
            drf(caller, order, start.drf_cursor, with_token=True),
        ],
    )


def count(caller: Caller) -> int:
    """How many flights the caller may see."""
    return hooked(caller)().count()


def walk(caller: Caller, order: Sequence[str], advance: Callable[[int], object]) -> str:
    """Go through all pages to the cursor of the last ``PAGE`` rows, in the longest pages that there are."""
    left = count(caller) - PAGE
    cursor: dict[str, str] = {}
    while left:
        limit = min(left, get_conf().MAX_ROWS)
        page = call(caller, FIND, {"model": MODEL, "order_by": list(order), "limit": limit, **cursor})
        cursor = {"cursor": page["next_cursor"]}
        left -= len(page["rows"])
        advance(len(page["rows"]))
    return cursor["cursor"]


def _after(before: Flight, order: Sequence[str]) -> Q:
    """What stands behind a row in an order, in the form that an index answers best."""
    if order == ("id",):
        return Q(id__gt=before.pk)
    later = Q(departs_at__gt=before.departs_at) | Q(id__gt=before.pk)
    return Q(departs_at__gte=before.departs_at) & later


def _drf_cursor(caller: Caller, order: Sequence[str], first: Flight) -> str:
    """The cursor of DRF for the page that begins with a flight: a value, and how many rows to leave out after it."""
    column, rows = order[0], hooked(caller)()
    value = getattr(first, column)
    position = rows.filter(**{f"{column}__lt": value}).order_by(f"-{column}").values_list(column, flat=True).first()
    offset = rows.filter(**{column: value, "id__lt": first.pk}).count()
    paginator = pagination(order)()
    paginator.base_url = "/"
    # The stubs take the position, which is a column's value as text, for a number.
    link = paginator.encode_cursor(Cursor(offset, False, position and str(position)))  # type: ignore[arg-type]
    return parse_qs(urlsplit(link).query)["cursor"][0]


def by_month_and_carrier(caller: Caller) -> Question:
    """How many flights there were, and how late they left on average."""
    columns = ("departs_at__month", "carrier", "count", "avg:departure_delay")
    arguments = {"model": MODEL, "group_by": list(columns[:2]), "measures": list(columns[2:])}

    def select(rows: QuerySet[Flight]) -> Any:
        groups = rows.annotate(month=ExtractMonth("departs_at")).values("month", "carrier")
        measured = groups.annotate(count=Count("*"), average=Avg("departure_delay")).order_by("month", "carrier")
        return measured.values_list("month", "carrier", "count", "average")

    return Question(
        f"{caller.user.get_username()}: figures by month and carrier",
        [floor(caller, columns, select), tool(caller, AGGREGATE, arguments)],
    )
