"""Answers that an agent may take for facts say what they leave out: spellings, ranges, rows without a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import Count, F
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import near_values
from mcp_django.protocol.errors import TooSlow
from tests.shop.models import Oddity, Repeated, Supplier
from tests.support.asking import DirectPeer
from tests.support.asking import keys as found_keys
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

MAKERS = ["BOEING", "Zürich", " Airbus Industrie ", "Ærø", "O'Neill & (Sons)", "İzmir", "Ёлка", "50%", "a\\d"]


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    declared.model(Supplier, fields="__all__")
    declared.model(Oddity, fields="__all__")
    for number, name in enumerate(MAKERS):
        Supplier.objects.create(name=name, code=f"c{number}", rating=number)
    return DirectPeer(User.objects.create_superuser("root"))


def notes(peer: DirectPeer, model: str = "shop.supplier", tool: str = "find_records", **asked: Any) -> list[str]:
    answer = peer.call(tool, model=model, **asked)
    assert answer["isError"] is False, answer
    found: list[str] = answer["structuredContent"].get("notes", [])
    return [note for note in found if not note.startswith("Left out")]


def meant(asked: str, *held: str) -> list[str]:
    return [f"name: no row has {asked!r}. Did you mean {' or '.join(map(repr, held))}?"]


#: What is asked for, and what rows have.
SPELT = [
    ("Boeing", "BOEING"), ("bÖeing", "BOEING"), (" BOEING", "BOEING"), ("zurich", "Zürich"), ("ZÜRICH", "Zürich"),
    ("Zu\u0308rich", "Zürich"), ("airbus industrie", " Airbus Industrie "), ("o'neill & (sons)", "O'Neill & (Sons)"),
    ("елка", "Ёлка"), ("A\\D", "a\\d"),
]  # fmt: skip
#: What no row has in any spelling, although it looks like a pattern.
UNHEARD = ["Boing", "BOEING.", "B%", "50_", "a\\\\d", ".*", "[A-Z]+", "%", "\\", "x" * 200, "(", "a|b"]


def test_a_text_that_no_row_has_is_answered_with_its_other_spelling(root: DirectPeer) -> None:
    found = {asked: (found_keys(root, "shop.supplier", filter={"name": asked}), asked, held) for asked, held in SPELT}
    # What the database finds needs no note: MariaDB's collation sees neither case nor accents.
    wrong = {
        asked: notes(root, filter={"name": asked})
        for asked, (keys, _, held) in found.items()
        if notes(root, filter={"name": asked}) != ([] if keys else meant(asked, held))
    }

    assert wrong == {}
    assert {asked: told for asked in UNHEARD if (told := notes(root, filter={"name": asked}))} == {}


@pytest.mark.skipif("connection.vendor == 'mysql'", reason="MariaDB finds other spellings itself")
def test_each_way_to_ask_says_so(root: DirectPeer, declared: Declared) -> None:
    said = meant("Boeing", "BOEING")

    assert notes(root, tool="aggregate_records", filter={"name": "Boeing"}) == said
    assert notes(root, tool="aggregate_records", filter={"name": "Boeing"}, group_by=["rating"]) == said
    assert notes(root, filter={"all": [{"name": "Boeing"}]}) == ["all.0." + said[0]]
    assert notes(root, filter={"name__in": ["Boeing", "Zürich"]}) == ["name__in" + said[0].removeprefix("name")]
    [of_measure] = notes(
        root, tool="aggregate_records", measures=["share@it"], conditions={"it": {"name": "Boeing"}}
    )  # fmt: skip
    assert of_measure == "conditions.it." + said[0]
    # The row is there, and another condition leaves it out.
    assert notes(root, filter={"name": "BOEING", "rating": 5}) == []
    # What only some of the rows need to meet is no reason for an empty answer.
    for asked in ({"not": {"name": "Boeing"}, "rating": 99}, {"any": [{"name": "Boeing"}, {"rating": 99}]}):
        assert notes(root, filter=asked) == []


@pytest.mark.skipif("connection.vendor == 'mysql'", reason="MariaDB finds other spellings itself")
def test_it_takes_one_statement_for_each_of_two_conditions_and_none_where_rows_are_found(root: DirectPeer) -> None:
    def statements(**asked: Any) -> int:
        with CaptureQueriesContext(connection) as captured:
            root.call("find_records", model="shop.supplier", **asked)
        return len([query for query in captured if "shop_supplier" in query["sql"]])

    assert statements(filter={"name": "BOEING"}) == 1
    assert statements(filter={"name": "Boeing"}) == statements(filter={"name": "never heard of"}) == 2
    assert statements(filter={"name": "Boeing", "code": "C0"}) == 3
    assert statements(filter={"name": "Boeing", "code": "C0", "name__exact": "x", "code__exact": "y"}) == 3


def test_what_takes_too_long_is_not_said(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    def bounded(alias: str, seconds: float) -> Any:
        assert seconds == near_values._SECONDS
        raise TooSlow

    monkeypatch.setattr(near_values, "bounded", bounded)

    assert notes(root, filter={"name": "Boeing", "rating": 3}) == []


def test_hidden_rows_are_not_heard_of(db: None, declared: Declared) -> None:
    class Few(ModelAdmin[Any]):
        list_display = ("name", "rating")

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(rating=1)

    declared.admin(Supplier, Few)
    Supplier.objects.create(name="HIDDEN", rating=7)
    Supplier.objects.create(name="SEEN", rating=1)
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_supplier"))
    peer = DirectPeer(user)
    rule = ["A rule of this project limits which rows of shop.supplier you see."]

    def asked(name: str) -> tuple[list[str], int]:
        with CaptureQueriesContext(connection) as captured:
            told = notes(peer, filter={"name": name})
        return told, len(captured)

    asked("once")  # What Django remembers is asked for.

    assert asked("hidden") == asked("absent")
    assert asked("hidden")[0] == rule
    if connection.vendor != "mysql":
        assert asked("seen")[0] == [*meant("seen", "SEEN"), *rule]


# Ranges.


def test_a_day_or_number_beyond_all_rows_is_answered_with_their_range(root: DirectPeer) -> None:
    make_flights(3)
    days = Flight.objects.values_list("departs_at", flat=True)
    first, last = (day.date().isoformat() for day in (min(days), max(days)))
    said = [f"departs_at runs from {first} to {last}."]

    for asked in (
        {"departs_at__gte": "2031-01-01"}, {"departs_at": "2031-01-01"}, {"departs_at__year": 2031},
        {"departs_at__range": ["2031-01-01", "2031-02-01"]}, {"departs_at__lt": "1999-01-01"},
    ):  # fmt: skip
        assert notes(root, "flights.flight", filter=asked) == said, asked
        assert notes(root, "flights.flight", "aggregate_records", filter=asked) == said, asked
    # Within the range, the days are not the reason. Without an index, the range would cost too much.
    assert notes(root, "flights.flight", filter={"departs_at": first, "distance__gt": 10**6}) == []


def test_a_day_as_the_bound_of_a_moment_is_explained(root: DirectPeer) -> None:
    make_flights(3)

    assert notes(root, "flights.flight", filter={"departs_at__gt": "2013-01-01"})[0] == (
        "departs_at__gt is after the end of that day: gte includes the day."
    )
    assert notes(root, "flights.flight", filter={"departs_at__gt": "2013-01-01T00:00:00Z"}) == []


# Measures.


def test_rows_without_a_value_are_counted(root: DirectPeer) -> None:
    Supplier.objects.update(rating=None)
    Supplier.objects.filter(name__in=["BOEING", "Zürich"]).update(rating=4)
    ask: Callable[..., Any] = lambda **asked: notes(root, tool="aggregate_records", **asked)  # noqa: E731

    missing = "7 of 9 rows have no value, and are left out."
    assert ask(measures=["avg:rating", "sum:rating", "max:rating"]) == [f"avg:rating and sum:rating: {missing}"]
    assert ask(group_by=["name"], measures=["avg:rating"]) == [f"avg:rating: {missing}"]
    assert ask(measures=["avg@z:rating"], conditions={"z": {"name__startswith": "B"}}) == []
    assert ask(measures=["avg@z:rating"], conditions={"z": {"code__in": ["c0", "c5"]}}) == [
        "avg@z:rating: 1 of 2 rows have no value, and are left out."
    ]
    assert ask(measures=["avg:parent__rating"]) == ["avg:parent__rating: 9 of 9 rows have no value, and are left out."]
    assert ask(measures=["max:rating", "count:rating"]) == []


def test_a_number_that_json_does_not_have_is_null_with_a_note(root: DirectPeer) -> None:
    if connection.vendor == "mysql":
        return  # It has none.
    literal = "'NaN'" if connection.vendor == "postgresql" else "9e999"
    row = Oddity.objects.create()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_oddity SET ratio = {literal}")

    assert notes(root, "shop.oddity", fields=["ratio"]) == [
        f"Values that could not be read are null: ratio of {row.pk}."
    ]
    assert notes(root, "shop.oddity", "aggregate_records", measures=["sum:ratio"]) == [
        "Values that could not be read are null: sum:ratio."
    ]


def test_weeks_without_their_year_are_explained(root: DirectPeer) -> None:
    make_flights(3)
    said = (
        "departs_at__week: weeks of several years may be one group, and a week at the turn of a year belongs to one of "
        "them. Group by departs_at__iso_year too, or by departs_at__trunc_week."
    )
    ask: Callable[..., Any] = lambda *names: notes(root, "flights.flight", "aggregate_records", group_by=names)  # noqa: E731

    assert ask("departs_at__week") == ask("departs_at__year", "departs_at__week") == [said]
    assert ask("departs_at__iso_year", "departs_at__week") == ask("departs_at__trunc_week") == []


# Rules and keys.


def test_a_queryset_that_only_annotates_is_no_rule(db: None, declared: Declared) -> None:
    rows = {
        "every row": Supplier.objects.annotate(number=Count("branches"), of=F("parent__name")).distinct(),
        "some rows": Supplier.objects.annotate(number=Count("branches")).filter(number__gte=0),
    }
    told = {}
    for name, queryset in rows.items():

        class Annotated(ModelMCP):
            fields = ["name"]

            def get_queryset(self, request: Any, queryset: Any = queryset) -> Any:
                return queryset

        declared.model(Supplier, Annotated)
        told[name] = notes(DirectPeer(User.objects.get_or_create(username="root", is_superuser=True, is_staff=True)[0]))
        declared.close()

    assert told == {
        "every row": [],
        "some rows": ["A rule of this project limits which rows of shop.supplier you see."],
    }


@pytest.mark.skipif("connection.vendor == 'mysql'", reason="MariaDB commits when a view is made")
def test_a_key_that_is_not_unique_ends_the_pages_with_a_word(root: DirectPeer, declared: Declared) -> None:
    declared.model(Repeated, fields="__all__")
    with connection.cursor() as cursor:
        cursor.execute("CREATE VIEW shop_repeated AS SELECT 1 AS code, name FROM shop_supplier")
    try:
        asked = {"model": "shop.repeated", "limit": 4}
        page = root.call("find_records", **asked)["structuredContent"]
        whole = root.call("find_records", **{**asked, "limit": 50})["structuredContent"]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP VIEW shop_repeated")

    assert "next_cursor" not in page
    assert "The key code is not unique" in page["notes"][0]
    assert len(whole["rows"]) == len(MAKERS)
