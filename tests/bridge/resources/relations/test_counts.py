"""Numbers of related rows: the same whether they are counted row by row, or apart from the rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Count, F, Value
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import counts, rows
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.models import Tool
from mcp_django.protocol.errors import TooSlow
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.relations.conftest import read
from tests.shop.models import (
    Aisle,
    Bell,
    Book,
    Crate,
    Footnote,
    Making,
    Moment,
    Part,
    Person,
    Pick,
    Product,
    Remark,
    Rule,
    Ruling,
    Shift,
    SpecialRule,
    Supplier,
    Tag,
    Visit,
    Warranty,
)  # fmt: skip
from tests.support.asking import DirectPeer, rights_on, text_of
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

#: Beyond what JSON has a number for. Negative, since MariaDB gives the next row a key above the largest.
LARGE = -(2**60)
MODELS: list[Any] = [
    Aisle, Bell, Book, Crate, Footnote, Making, Moment, Part, Person, Pick, Product, Remark, Rule, Ruling, Shift,
    SpecialRule, Supplier, Tag, Visit, Warranty,
]  # fmt: skip


def _remark(owner: Any) -> None:
    Remark.objects.create(text="x", kind=ContentType.objects.get_for_model(owner), key=str(owner.pk))
    # That of a row of another model with the same key.
    Remark.objects.create(text="x", kind=ContentType.objects.get_for_model(Remark), key=str(owner.pk))


def _any(model: Any) -> Any:
    return model.objects.order_by("?")[:1].get()


#: Model, its relation, and what adds a related row to one of its rows.
RELATIONS: list[tuple[Any, str, Callable[[Any], object]]] = [
    (Supplier, "parts", lambda owner: Part.objects.create(name="x", supplier=owner)),
    (Supplier, "branches", lambda owner: owner.code and Supplier.objects.create(name="x", parent=owner)),
    (Supplier, "makes", lambda owner: Making.objects.create(part=_any(Part), maker=owner)),
    (Part, "makers", lambda owner: Making.objects.create(part=owner, maker=_any(Supplier))),
    (Part, "makings", lambda owner: Making.objects.create(part=owner, maker=_any(Supplier))),
    (Part, "tags", lambda owner: owner.tags.add(_any(Tag))),
    (Part, "warranty", lambda owner: Warranty.objects.get_or_create(part=owner, months=1)),
    (Part, "remarks", _remark),
    (Tag, "parts", lambda owner: owner.parts.add(_any(Part))),
    (Crate, "remarks", _remark),
    (Aisle, "remarks", _remark),
    (Product, "tags", lambda owner: owner.tags.add(_any(Tag))),
    (Book, "tags", lambda owner: owner.tags.add(_any(Tag))),
    (Book, "shifts", lambda owner: Shift.objects.create(product=owner, user=_any(User))),
    (Person, "visits", lambda owner: Visit.objects.create(person=owner)),
    (Pick, "near", lambda owner: owner.near.add(_any(Pick))),
    (Rule, "rulings", lambda owner: Ruling.objects.create(rule=owner)),
    (SpecialRule, "rulings", lambda owner: Ruling.objects.create(rule=owner)),
    (Rule, "footnote", lambda owner: Footnote.objects.get_or_create(rule=owner)),
    (Moment, "bell", lambda owner: Bell.objects.create(moment=owner)),
]

#: What a project's get_queryset may make of the related rows.
CHANGES: list[Callable[[Any], Any]] = [
    lambda every: every,
    lambda every: every.none(),
    lambda every: every.filter(has_key_in(every.model, [*every.values_list("pk", flat=True)][::2])),
    lambda every: every.order_by("?").reverse(),
    lambda every: every.distinct(),
    lambda every: every.filter(**{f"{_to_many(every.model)}__isnull": False}),
    lambda every: every.filter(**{f"{_to_many(every.model)}__isnull": False}).distinct(),
    lambda every: every.annotate(n=Count(_to_many(every.model))).filter(n__gte=0),
    lambda every: every.annotate(pair=Value(1)).exclude(pair=F("pair") + 1),
    lambda every: every.extra(where=["1 = 1"]),
    lambda every: every.using("default"),
    lambda every: every[:2],
    lambda every: every.union(every),
]


def _to_many(model: Any) -> str:
    """A relation to many rows, so that a row is joined more than once; else the key itself."""
    names = [field.name for field in model._meta.get_fields() if field.one_to_many or field.many_to_many]
    return names[0] if names else "pk"


@pytest.fixture
def shelves(root: User, declared: Declared) -> None:
    """A few rows of each model, most of them with keys that JSON has no number for."""
    for model in MODELS:
        names = [field.name for field in model._meta.get_fields() if field.concrete or hasattr(field, "rel")]
        declared.model(model, fields=names)
    for number in range(4):
        key = LARGE + number if number else 1
        for model in (Part, Person, Pick, Rule, SpecialRule, Product, Book):
            text = {"name": "x"} if hasattr(model, "name") else {}
            model.objects.create(pk=key + 100 * (model in (SpecialRule, Book)), **text)
        Supplier.objects.create(id=key, name="x", code=f"c{number}" if number % 2 else None)
        Person.objects.filter(pk=key).update(badge=f"b{number}")
        Tag.objects.create(name=f"a/{number}.{number} ä")
        Crate.objects.create(id=UUID(int=number << 90))
        Aisle.objects.create(name=str(number))
        Moment.objects.create(hour=f"2013-01-0{number + 1}T00:00Z")


@pytest.mark.parametrize(("model", "name", "add"), RELATIONS, ids=lambda given: getattr(given, "__name__", given))
def test_a_number_is_the_same_counted_apart_and_with_the_rows(
    root: User, shelves: None, monkeypatch: pytest.MonkeyPatch, model: Any, name: str, add: Callable[[Any], object]
) -> None:
    drawn = random.Random(0)
    for owner in model.objects.all():
        for _ in range(drawn.randrange(4)):
            add(owner)
    ask, number = ModelRights.ask_hook, f"{name}__count"

    for place, change in enumerate(CHANGES):

        def changed(rights: ModelRights, hook: str, default: Any, change: Any = change) -> Any:
            found = ask(rights, hook, default)
            return change(found) if hook == "get_queryset" and rights.model is not model else found

        monkeypatch.setattr(ModelRights, "ask_hook", changed)
        with CaptureQueriesContext(connection) as asked:
            apart = read(model, root, number)
        with_rows = read(model, root, number, filter={f"{number}__gte": 0})
        record = DirectPeer(root).call(
            "get_record", model=model._meta.label_lower, id=str(apart[0][0]), fields=[number]
        )["structuredContent"]

        assert apart == with_rows, place
        assert record[number] == apart[0][1], place
        assert place or any(row[1] for row in apart)
        # Only numbers and texts are keys that are told apart here.
        counting = [query["sql"] for query in asked.captured_queries if "COUNT(" in query["sql"].upper()]
        assert all(("LIMIT" in sql) is (model is Moment) for sql in counting), counting


def test_the_rows_of_each_relation_are_counted_by_one_statement(root: User, flights: None) -> None:
    def statements(*fields: str) -> int:
        rights = rights_on(Airport, root)
        with CaptureQueriesContext(connection) as asked:
            rows.find(rights, rows.RecordQuery(fields=["name", *fields]))
        return len([query for query in asked.captured_queries if "COUNT(" in query["sql"].upper()])

    assert statements("departures__count") == 1
    assert statements("departures__count", "arrivals__count", "departures") == 2


@pytest.mark.parametrize("exact", ["_EXACT_KINDS", "_EXACT_TYPES"])
def test_keys_that_may_not_be_told_apart_are_counted_with_the_rows(
    root: User, flights: None, monkeypatch: pytest.MonkeyPatch, exact: str
) -> None:
    asked = ["arrivals__count", "name", "departures__count"]
    expected = read(Airport, root, *asked)
    monkeypatch.setattr(counts, exact, frozenset())

    assert read(Airport, root, *asked) == expected
    assert [row[0] for row in expected] == ["EWR", "IAH", "JFK", "LGA"]
    assert [row[1:] for row in expected[:2]] == [[0, "EWR", 2], [6, "IAH", 0]]


@pytest.mark.skipif("connection.vendor != 'mysql'", reason="of MariaDB")
def test_keys_in_another_spelling_are_counted(root: User, flights: None) -> None:
    Flight.objects.filter(id=5).update(origin_id="ewr")

    assert read(Airport, root, "departures__count")[0] == ["EWR", 2]


@pytest.mark.django_db(databases=["default", "other"])
def test_rows_of_another_database_are_counted_there(root: User, declared: Declared) -> None:
    declared.model(Supplier, showing(lambda every: every.using("other"), fields=["name"]))
    declared.model(Part, fields=["name", "supplier"])
    for alias, number in (("default", 1), ("other", 2)):
        owner = Supplier.objects.using(alias).create(id=1, name="x")
        Part.objects.using(alias).bulk_create(Part(name="x", supplier=owner) for _ in range(number))

    assert read(Supplier, root, "parts__count") == [[1, 2]]
    assert read(Supplier, root, "parts__count", filter={"parts__count": 2}) == [[1, 2]]


def test_a_watched_page_without_rows_asks_what_its_number_looks_at(root: User, declared: Declared) -> None:
    declared.model(Flight, showing(lambda every: every.filter(disruptions__isnull=True)))

    with CaptureQueriesContext(connection) as asked:
        found = rows.find(rights_on(Airport, root), rows.RecordQuery(fields=["departures__count"]), watched=True)

    assert found.rows == []
    assert any("flights_disruption" in query["sql"] for query in asked.captured_queries)


# Numbers that take too long.

STOPPED = "The query was stopped: it took longer than 5 s (STATEMENT_SECONDS). "
INSTEAD = "departures__count counts too many rows. Ask aggregate_records for flights.flight itself, grouped by origin."
FEWER = "departures__count counts too many rows. Leave it out, or ask for fewer rows by limit."


def _stop(monkeypatch: pytest.MonkeyPatch, reading: Any) -> None:
    fetch_values = reading.fetch_values

    def slow(queryset: Any, width: int) -> Any:
        if "COUNT(" in str(queryset.query):
            raise TooSlow
        return fetch_values(queryset, width)

    monkeypatch.setattr(reading, "fetch_values", slow)


@override_settings(MCP={"STATEMENT_SECONDS": 5.0})
def test_a_number_that_takes_too_long_says_what_counts_it(
    root: User, flights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, asked = DirectPeer(root), {"model": "flights.airport", "fields": ["departures__count"]}
    _stop(monkeypatch, counts)

    page = text_of(peer.call("find_records", **asked))
    record = text_of(peer.call("get_record", **asked, id="EWR"))
    _stop(monkeypatch, rows)
    in_order = text_of(peer.call("find_records", **asked, order_by=["-departures__count"]))
    Tool.objects.filter(name="aggregate_records").update(enabled=False)
    alone = text_of(peer.call("find_records", **asked))

    assert STOPPED + INSTEAD in page
    assert STOPPED + INSTEAD in record
    assert STOPPED + INSTEAD in in_order
    assert STOPPED + FEWER in alone
