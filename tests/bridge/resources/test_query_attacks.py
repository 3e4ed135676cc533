"""Attacks by way of a question, each on what somebody may not see or on what the server can bear."""

from __future__ import annotations

import itertools
import json
import logging
import re
from contextlib import suppress
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Disruption, Flight
from mcp_django import MCPSite, ModelMCP
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.reading import rows
from tests.bridge.resources.conftest import each
from tests.shop.models import Part, Person, Remark, Supplier, Tag, Visit
from tests.support.asking import DirectPeer, all_rows, errors_of, keys, request_of, rights_on, text_of
from tests.support.base import MODERN
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def no_failures(caplog: pytest.LogCaptureFixture) -> Any:
    """What is asked wrongly is the agent's mistake: an exception in the log would be ours."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    for number in range(1, 5):
        Disruption.objects.create(id=number, flight_id=number, kind="weather", note=f"note {number}")
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def ops(root: DirectPeer) -> DirectPeer:
    """Sees the flights from JFK: 1 and 4."""
    names = ("view_flight", "change_flight", "view_airport", "view_disruption", "view_plane")
    user = make_staff("ops", *(f"flights.{name}" for name in names))
    user.groups.create(name="JFK operations")
    return DirectPeer(user)


def answer(peer: DirectPeer, tool: str = "find_records", model: str = "flights.flight", **asked: Any) -> str:
    """The whole answer, as text."""
    return json.dumps(peer.call(tool, model=model, **asked))


def without_hint(text: str) -> str:
    """Which of the allowed names is nearest depends on the name that was sent."""
    return re.sub(r" Did you mean [^?]*\?(?= Allowed)", "", text)


# Hidden fields.

NAMED: list[dict[str, Any]] = [
    {"filter": {"%": "text"}}, {"filter": {"%__contains": "n"}}, {"filter": {"%__isnull": False}},
    {"filter": {"not": {"%": "x"}}}, {"filter": {"any": [{"id": 1}, {"%": "x"}]}}, {"filter": {"%__nope": "x"}},
    {"filter": {"%": {"a": 1}}}, {"order_by": ["%"]}, {"order_by": ["-%", "id"]}, {"fields": ["id", "%"]},
    {"fields": ["%__x"]}, {"filter": {"%": None}}, {"filter": {"%__in": []}}, {"filter": {"%__count": 1}},
]  # fmt: skip


def _filled(asked: Any, name: str) -> Any:
    return json.loads(json.dumps(asked).replace("%", name))


GROUPED: list[dict[str, Any]] = [
    {"group_by": ["%"]}, {"measures": ["max:%"]}, {"measures": ["count_distinct:%"]}, {"filter": {"%": "x"}},
    {"group_by": ["status"], "order_by": ["%"]}, {"group_by": ["status"], "having": {"max:%": "x"}},
    {"group_by": ["%__year"]},
]  # fmt: skip

#: How a field is named, and what by.
PLACES = [
    ("find_records", "flights.flight", "", "notes", NAMED),
    ("find_records", "flights.disruption", "flight__", "notes", NAMED),
    ("find_records", "flights.flight", "disruptions__", "note", NAMED),
    ("aggregate_records", "flights.flight", "", "distance", GROUPED),
    ("aggregate_records", "flights.flight", "origin__", "altitude", GROUPED),
]


def test_naming_a_hidden_field(root: DirectPeer, declared: Declared) -> None:
    """Word by word the answer to a name that was never there."""
    declared.model(Flight, exclude=["notes", "distance"])
    declared.model(Disruption, exclude=["note"], fields="__all__")
    declared.model(Airport, exclude=["altitude"])

    for tool, model, prefix, secret, questions in PLACES:
        for asked in questions:
            hidden, absent = (
                answer(root, tool, model, **_filled(asked, prefix + name)).replace(name, "?")
                for name in (secret, "z" * len(secret))
            )
            assert json.loads(hidden)["isError"] is True, asked
            assert without_hint(hidden) == without_hint(absent), asked
            assert secret not in absent, asked


def test_searching_a_hidden_field(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, exclude=["notes"], search_fields=["notes", "status", "origin__name", "disruptions__note"])
    declared.model(Airport, exclude=["name"])
    declared.model(Disruption, exclude=["note"])

    assert [keys(root, search=text) for text in ("note", "JFK", "on_time")] == [[], [], [1, 2, 3, 4, 6]]


# Hidden rows.


PROBES: list[Any] = [
    {"id": 2}, {"number": 1001}, {"notes__contains": "1"}, {"origin": "EWR"}, {"disruptions__note": "note 2"},
    {"not": {"origin": "JFK"}}, {"any": [{"id": 2}, {"id": 3}]}, {"destination__arrivals__id": 2, "id": 2},
]  # fmt: skip


def test_inferring_a_hidden_row_by_paging_and_counting(ops: DirectPeer, root: DirectPeer) -> None:
    """What is hidden and what is not there have one answer: no row, no cursor, the note of the rule, a total of 0."""
    for probe in PROBES:
        assert keys(root, filter=probe), probe
        found = ops.call("find_records", model="flights.flight", filter=probe, total=True, limit=1)
        assert found["structuredContent"] == {
            "columns": found["structuredContent"]["columns"], "rows": [], "total": 0,
            "notes": ["A rule of this project limits which rows of flights.flight you see."],
        }, probe  # fmt: skip
        counted = ops.call("aggregate_records", model="flights.flight", filter=probe, measures=["count"])
        assert counted["structuredContent"]["rows"] == [[0]], probe


def test_inferring_a_hidden_row_by_the_questions_that_it_costs(ops: DirectPeer) -> None:
    def cost(key: int, asked: Any) -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            with suppress(InvalidQuery):
                rows.find(rights_on(Disruption, ops.user), rows.RecordQuery(filter=asked))
            rows.get(rights_on(Flight, ops.user), key)
        return [query["sql"].replace(str(key), "?") for query in captured if "flights_" in query["sql"]]

    make_hidden()
    for name in ("flight", "flight__id", "flight__pk__gte"):
        assert cost(222, {name: 222}) == cost(999, {name: 999})


def make_hidden() -> None:
    """A flight from elsewhere than JFK."""
    flight = Flight.objects.get(pk=2)
    flight.pk, flight.number = 222, 222
    flight.save(force_insert=True)


def test_reaching_a_hidden_row_by_its_key(ops: DirectPeer, root: DirectPeer) -> None:
    make_hidden()

    def by_tool(key: int) -> str:
        return answer(ops, "get_record", id=key).replace(str(key), "?")

    def by_uri(uri: str, key: int) -> str:
        return json.dumps(ops.request(MODERN, "resources/read", {"uri": uri.format(key)})["error"]).replace(
            str(key), "?"
        )

    assert by_tool(222) == by_tool(999)
    for uri in ("db://flights/flight/{}", "db://flights/flight?pk={}"):
        assert by_uri(uri, 222) == by_uri(uri, 999)
    assert ops.read("db://flights/flight?id=2")["rows"] == []
    assert ops.read("db://flights/flight?id__in=1,2,3,4,5,6&fields=id")["rows"] == [[1], [4]]


def test_reaching_a_hidden_row_by_the_ids_of_an_action(ops: DirectPeer) -> None:
    switch_on("flights_flight_mark_cancelled")

    hidden, absent = (
        json.dumps(ops.call("flights_flight_mark_cancelled", ids=[1, key])).replace(str(key), "?") for key in (2, 9)
    )

    assert json.loads(hidden)["isError"] is True
    assert hidden == absent
    assert set(Flight.objects.values_list("status", flat=True)) == {"on_time", "cancelled"}
    assert Flight.objects.get(pk=1).status == "on_time"


# Cursors.


@pytest.fixture
def cursor(root: DirectPeer) -> str:
    page = rows.find(rights_on(Flight, root.user), rows.RecordQuery(limit=2, filter={"number__gte": 0}))
    assert page.next_cursor is not None
    return page.next_cursor


def refused(rights: Any, **asked: Any) -> bool:
    with pytest.raises(InvalidQuery) as raised:
        rows.find(rights, rows.RecordQuery(**asked))
    return [error["field"] for error in raised.value.errors] == ["cursor"]


def test_a_cursor_of_another_user_is_no_way_to_the_rows_of_that_user(
    cursor: str, root: DirectPeer, ops: DirectPeer
) -> None:
    same: dict[str, Any] = {"filter": {"number__gte": 0}, "limit": 2, "cursor": cursor}

    page = rows.find(rights_on(Flight, root.user), rows.RecordQuery(**same))

    assert [row[0] for row in page.rows] == [3, 4]
    assert refused(rights_on(Flight, ops.user), **same)


OTHERS: list[dict[str, Any]] = [
    {}, {"filter": {"number__gte": "0"}}, {"filter": {"number__gt": 0}}, {"filter": {"not": {"number__gte": 0}}},
    {"filter": {"number__gte": 0}, "search": "N"}, {"filter": {"number__gte": 0}, "order_by": ["-departs_at"]},
    {"filter": {"number__gte": 0}, "order_by": ["origin__name"]}, {"filter": {"disruptions__count": 0}},
]  # fmt: skip


def test_a_cursor_in_another_question(cursor: str, root: DirectPeer) -> None:
    for asked in OTHERS:
        assert refused(rights_on(Flight, root.user), **asked, cursor=cursor), asked


def test_a_cursor_on_another_site_or_model(cursor: str, root: DirectPeer) -> None:
    other = Rights(MCPSite("other"), request_of(root.user)).of_model(Flight)

    assert refused(other, filter={"number__gte": 0}, cursor=cursor)
    assert refused(rights_on(Airport, root.user), cursor=cursor)


def test_a_cursor_by_what_has_become_hidden(root: DirectPeer, declared: Declared) -> None:
    asked: dict[str, Any] = {"order_by": ["origin__name"], "limit": 2}
    page = rows.find(rights_on(Flight, root.user), rows.RecordQuery(**asked))
    declared.model(Airport, exclude=["name"])

    with pytest.raises(InvalidQuery, match="no field to order by"):
        rows.find(rights_on(Flight, root.user), rows.RecordQuery(**asked, cursor=page.next_cursor))


def test_forging_a_cursor(root: DirectPeer, cursor: str) -> None:
    forged = ["", "x", ":::", "\x00", "é:é:é", "x" * 2_000, cursor[:-1], f".{cursor}", f"x{cursor}"]

    assert all(refused(rights_on(Flight, root.user), filter={"number__gte": 0}, cursor=value) for value in forged)


# More than a question should be.

BOUNDED: list[tuple[str, Any]] = [
    ("ten thousand conditions", {f"x{number}": 1 for number in range(10_000)}),
    ("ten thousand of any", {"any": [{"number": number} for number in range(10_000)]}),
    ("ten thousand empty ones", {"any": [{}] * 10_000}),
    ("ten thousand values", {"id__in": list(range(10_000))}),
    ("ten thousand values in a text", {"id__in": ",".join(map(str, range(10_000)))}),
    ("many relations", {"any": [{"destination__arrivals__disruptions__note": "x"}] * 20}),
    ("a cartesian product", {"all": [{"destination__arrivals__number__gte": 0}] * 20}),
    ("a filter of filters of relations", {"disruptions": {"flight": {"disruptions": {"flight": {"id": 1}}}}}),
    ("a path that turns in circles", {"__".join(["disruptions", "flight"] * 20) + "__id": 1}),
    ("a path of ten thousand names", {"__".join(["origin"] * 10_000): 1}),
    ("a long name", {"n" * 100_000: 1}),
    ("a name of underscores", {"_" * 10_000: 1}),
    ("a long text", {"notes__contains": "x" * 100_000}),
]  # fmt: skip


def test_a_question_beyond_every_bound(root: DirectPeer) -> None:
    for name, asked in BOUNDED:
        with CaptureQueriesContext(connection) as captured:
            result = root.call("find_records", model="flights.flight", filter=asked)
        assert 1 <= len(errors_of(result)) <= 20, name
        assert len(json.dumps(result)) < 40_000, name
        assert [query for query in captured if "flights_" in query["sql"]] == [], name


def test_a_hundred_levels(root: DirectPeer) -> None:
    for name in ("not", "all", "any", "disruptions", "origin"):
        asked: Any = {"number": 1}
        # A list is a level of JSON too, of which there are bounds as well.
        for _ in range(40 if name in ("all", "any") else 100):
            asked = {name: [asked] if name in ("all", "any") else asked}
        [error] = errors_of(root.call("find_records", model="flights.flight", filter=asked))
        assert error["message"] == "nested more than 5 deep." or error["message"].startswith("no field"), name


def test_the_most_that_may_be_asked_is_answered(root: DirectPeer) -> None:
    relation = {"destination__arrivals": {"status": "on_time", "number__gte": 0, "notes__contains": "note"}}
    asked = {
        "all": [{"not": {"not": relation}}] * 4,
        "any": [{"disruptions__count__gte": 1}, {"disruptions__isnull": True}],
    }

    found = root.call("find_records", model="flights.flight", filter=asked, order_by=["origin__name", "-number"])

    assert [row[0] for row in found["structuredContent"]["rows"]] == [5, 2, 4, 1, 6, 3]


def test_containment_in_a_large_table_of_texts(root: DirectPeer) -> None:
    Disruption.objects.bulk_create(
        Disruption(id=100 + number, flight_id=1, kind="other", note=f"{number} " * 400) for number in range(3_000)
    )
    asked = {"any": [{"note__contains": f"nowhere {number}"} for number in range(45)]}

    with override_settings(MCP={"STATEMENT_SECONDS": 0.005}):
        stopped = root.call("find_records", model="flights.disruption", filter=asked)

    assert stopped["isError"] is True
    assert "STATEMENT_SECONDS" in text_of(stopped)
    assert len(all_rows(Disruption, root.user, filter={"id__lte": 4}, fields=["id"])) == 4


# Names and values.


STRANGE = [
    "' OR '1'='1", "1; DROP TABLE flights_flight", '"', "%' OR 1=1 --", "\\", "\\'", "/*", "%s", "%(x)s", "{}", "$1",
    "$ne", "?", "\u202e", "😀", "я", "\u0000'", "\ud83d\ude00", "n\u0303", "\ufeff", "_", "%", "\\_",
]  # fmt: skip


def test_sql_and_unicode_in_every_string(root: DirectPeer) -> None:
    for value in STRANGE:
        filters: list[Any] = [
            {"notes": value}, {"notes__icontains": value}, {"notes__startswith": value}, {"notes__in": [value]},
            {"origin__name": value}, {"origin__name__endswith": value}, {"disruptions__note": value},
            {"disruptions": {"note__iexact": value}}, {"not": {"origin__name__contains": "J"}, "notes": value},
        ]  # fmt: skip
        for asked in filters:
            found = root.call("find_records", model="flights.flight", filter=asked)
            if "\x00" in value:
                assert [error["message"] for error in errors_of(found)] == ["must not hold null characters."]
            else:
                assert (found["isError"], found["structuredContent"]["rows"]) == (False, []), asked
        assert errors_of(root.call("find_records", model="flights.flight", filter={"origin": value}))
        strings: list[dict[str, Any]] = [
            {"search": value}, {"order_by": [value]}, {"fields": [value]}, {"cursor": value}, {"format": value},
        ]  # fmt: skip
        for asked in strings:
            found = root.call("find_records", model="flights.flight", **asked)
            assert found["isError"] is True or found["structuredContent"]["rows"] == [], asked
        assert errors_of(root.call("find_records", model=value))
        assert root.call("get_record", model="flights.flight", id=value)["isError"] is True
    assert Flight.objects.count() == 6


MISTYPED = [
    ({"origin": ["JFK"]}, "must be a string. Did you mean origin__in?"),
    ({"origin": {}}, "must not be empty"),
    ({"origin": {"name": 5}}, "must be a string."),
    ({"origin__altitude": "high"}, "must be an integer."),
    ({"origin__isnull": "perhaps"}, "must be true or false."),
    ({"origin__name__isnull": 1}, "must be true or false."),
    ({"disruptions__isnull": None}, "must be true or false."),
    ({"disruptions__count": "many"}, "must be an integer."),
    ({"disruptions__count__gte": 10**30}, "is out of range."),
    ({"disruptions__count__gte": None}, "must be an integer."),
    ({"disruptions": {}}, "must not be empty"),
    ({"disruptions__resolved": 1}, "must be true or false."),
    ({"plane__year__in": "x,y"}, "must be an integer."),
    # A relation to many rows takes a filter of its own alone.
    *(({"disruptions": value}, 'must be a filter of its rows, as {"disruptions": {..}}.')
      for value in (None, True, 5, "x", [], ["x"], [{}], [[]])),
]  # fmt: skip


def test_values_of_another_type_in_related_rows(root: DirectPeer) -> None:
    def messages(asked: Any) -> list[str]:
        errors = errors_of(root.call("find_records", model="flights.flight", filter=asked))
        return [error["message"].partition(" Allowed: isnull, count, ")[0] for error in errors]

    assert {str(asked): messages(asked) for asked, _ in MISTYPED} == {str(asked): [text] for asked, text in MISTYPED}


def test_counts_of_any_size_never_break_the_server(root: DirectPeer) -> None:
    for number in (2**31, 2**63 - 1, -(2**63)):
        for name in ("disruptions__count", "disruptions__count__gt", "disruptions__count__lt"):
            answered = root.call("find_records", model="flights.flight", filter={name: number})
            assert "log" not in answered["content"][0]["text"], (name, number)


# What a project declares, by another of its names or in another way than most do.


class FirstOfEach(ModelMCP):
    """Shows the first part of each supplier, as a window function counts them."""

    fields = "__all__"

    def get_queryset(self, request: Any) -> Any:
        number = Window(RowNumber(), partition_by=F("supplier"), order_by="id")
        return super().get_queryset(request).annotate(number=number).filter(number=1)


class FirstOfEachByDistinct(ModelMCP):
    """The same by ``DISTINCT ON``."""

    fields = "__all__"

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).order_by("supplier", "id").distinct("supplier")


@pytest.mark.parametrize("model_mcp", [FirstOfEach, FirstOfEachByDistinct])
def test_a_condition_lets_no_other_row_of_its_group_in(
    root: DirectPeer, declared: Declared, model_mcp: type[ModelMCP]
) -> None:
    if model_mcp is FirstOfEachByDistinct and not connection.features.can_distinct_on_fields:
        pytest.skip("the database has no DISTINCT ON")
    declared.model(Part, model_mcp)
    declared.model(Supplier, fields="__all__")
    supplier = Supplier.objects.create(name="s")
    first, second = (Part.objects.create(name=name, supplier=supplier) for name in ("first", "second"))
    rights = rights_on(Part, root.user)

    assert keys(root, "shop.part") == [first.pk]
    assert keys(root, "shop.part", filter={"name": "second"}) == []
    assert keys(root, "shop.part", filter={"not": {"name": "first"}}) == []
    assert keys(root, "shop.supplier", filter={"parts": {"name": "second"}}) == []
    assert root.call("get_record", model="shop.part", id=second.pk)["isError"] is True
    assert visible_rows.visible_keys(rights, [second.pk]) == set()
    assert visible_rows.visible_keys(rights, [first.pk, second.pk]) == {str(first.pk)}


def test_a_relation_is_excluded_by_either_of_its_names(root: DirectPeer, declared: Declared) -> None:
    for name, shown in itertools.product(("supplier", "supplier_id"), repeat=2):
        declared.close()
        declared.model(Supplier, fields="__all__")
        declared.model(Part, fields=["name", shown], exclude=[name])
        rights = rights_on(Part, root.user)
        assert list(rights.columns) == ["id", "name"], (name, shown)
        assert rights.column("supplier__name") is None
        assert list(rights_on(Supplier, root.user).relations) == ["branches"]


def test_rows_that_point_here_are_excluded_by_the_name_that_a_row_calls_them(
    root: DirectPeer, declared: Declared
) -> None:
    declared.model(Part, fields=["name", "tags"])
    declared.model(Person, fields="__all__", exclude=["visits"])
    declared.model(Visit, fields="__all__")
    declared.model(Tag, fields="__all__", exclude=["product_set"])

    assert list(rights_on(Person, root.user).relations) == []
    assert list(rights_on(Tag, root.user).relations) == ["parts"]


def test_a_generic_key_tells_nothing_of_an_excluded_column(root: DirectPeer, declared: Declared) -> None:
    Remark.objects.create(text="x", about=Part.objects.create(name="p"))

    for name in ("kind", "key"):
        declared.close()
        declared.model(Part, fields="__all__")
        declared.model(Remark, fields="__all__", exclude=[name])
        assert list(rights_on(Remark, root.user).computed) == [], name


BY_KEY: list[Any] = [
    {"origin__pk": "JFK"}, {"origin__pk__in": ["JFK"]}, {"origin": {"pk": "JFK"}}, {"origin__pk__isnull": True},
    {"origin": {"not": {"pk": "JFK"}}}, {"origin": {"faa": "JFK"}}, {"origin__departures__pk": 1},
    {"disruptions__pk": 1}, {"disruptions": {"pk": 1}}, {"disruptions": {"flight": 1}}, {"origin__exact": "JFK"},
]  # fmt: skip


def test_naming_a_row_by_its_key_where_a_filter_may_name_one_of_its_fields(
    root: DirectPeer, declared: Declared
) -> None:
    declared.model(Flight, filter_fields=["origin__name", "disruptions__note"])

    for asked in BY_KEY:
        assert errors_of(root.call("find_records", model="flights.flight", filter=asked)), asked


def test_naming_a_row_by_its_key_where_a_filter_may_name_its_relation(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, filter_fields=["origin", "plane__pk"])
    tailnum = Flight.objects.get(pk=1).plane_id

    assert keys(root, filter={"origin__pk": "JFK"}) == keys(root, filter={"origin": {"pk": "JFK"}}) == [1, 4]
    assert 1 in keys(root, filter={"plane__pk": tailnum})
    assert errors_of(root.call("find_records", model="flights.flight", filter={"plane": tailnum}))


def test_counting_hidden_rows_by_what_a_short_page_does_not_reach(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, each(lambda obj: obj.name != "hidden", fields=("name",)))
    Person.objects.bulk_create(Person(name="hidden", badge=str(number)) for number in range(500))
    last = Person.objects.create(name="seen", badge="last")

    few = root.call("find_records", model="shop.person", limit=1, filter={"name": "hidden", "id__gt": last.pk - 10})
    many = root.call("find_records", model="shop.person", limit=1, filter={"name": "hidden"})

    assert many == few
    assert keys(root, "shop.person", limit=1) == [last.pk]


def test_hooks_that_were_put_on_the_admin_itself(root: DirectPeer, declared: Declared, monkeypatch: Any) -> None:
    declared.admin(Part, type("PartAdmin", (admin.ModelAdmin,), {"list_display": ["name"]}))
    declared.model(Supplier, fields="__all__")
    supplier = Supplier.objects.create(name="s")
    for name in ("seen", "unseen", "hidden"):
        Part.objects.create(name=name, supplier=supplier)
    part_admin = admin.site._registry[Part]
    given = part_admin.get_queryset
    monkeypatch.setattr(part_admin, "get_queryset", lambda request: given(request).exclude(name="hidden"))
    assert rights_on(Part, root.user).scoped

    monkeypatch.setattr(
        part_admin, "has_view_permission", lambda request, obj=None: obj is None or obj.name != "unseen"
    )
    assert rights_on(Part, root.user).checks_objects
    found = root.call("find_records", model="shop.part", fields=["name"])["structuredContent"]

    assert [name for _, name in found["rows"]] == ["seen"]
    assert list(rights_on(Supplier, root.user).relations) == ["branches"]
