"""Every question that is generated is answered as plain Python answers it over the rows that may be seen.

What is not there, or not to be seen, is null; a comparison with null is false; ``not`` is the complement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import Making, Part, Supplier
from tests.support.asking import all_rows, rights_on
from tests.support.declared import Declared
from tests.support.examples import examples

pytestmark = [pytest.mark.every_database, pytest.mark.slow]

checked = settings(max_examples=examples(30))

# A few rows, some of them hidden, as Python has them.

Row = dict[str, Any]
Rows = list[Row]


@dataclass
class World:
    suppliers: Rows
    parts: Rows
    #: Pairs of keys: a part, and who makes it.
    makings: list[tuple[int, int]]
    #: Whether rows that are not open are hidden.
    scoped: bool
    tables: dict[str, Rows] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = {
            "supplier": [row for row in self.suppliers if row["open"] or not self.scoped],
            "part": [row for row in self.parts if row["open"] or not self.scoped],
        }

    def one(self, row: Row | None, name: str) -> Row | None:
        """The visible row that a foreign key leads to."""
        if row is None or row[name] is None:
            return None
        key = "code" if name == "parent" else "id"
        return next((found for found in self.tables["supplier"] if found[key] == row[name]), None)

    def many(self, row: Row, name: str) -> Rows:
        """The visible rows that a relation leads to, in the order of their keys."""
        if name == "makers":
            keys = [maker for part, maker in self.makings if part == row["id"]]
        elif name == "makes":
            keys = [part for part, maker in self.makings if maker == row["id"]]
        elif name == "branches":
            keys = [found["id"] for found in self.suppliers if row["code"] and found["parent"] == row["code"]]
        else:
            keys = [found["id"] for found in self.parts if found["supplier"] == row["id"]]
        return [found for found in self.tables[MANY[name]] if found["id"] in keys]

    def read(self, row: Row | None, path: str) -> Any:
        """What a column or a foreign key holds, as far as it may be seen."""
        head, _, rest = path.partition("__")
        if row is not None and rest == "count":
            return len(self.many(row, head))
        if head not in ONE:
            return None if row is None else row[head]
        found = self.one(row, head)
        return self.read(found, rest or ("code" if head == "parent" else "id"))


#: Relations by name, with the model that they lead to.
ONE = {"supplier": "supplier", "parent": "supplier"}
MANY = {"makers": "supplier", "makes": "part", "branches": "supplier", "parts": "part"}

FIELDS: dict[str, dict[str, str]] = {
    "supplier": {"id": "integer", "name": "text", "code": "text", "rating": "integer"},
    "part": {"id": "integer", "name": "text", "weight": "integer"},
}
LEADS = {
    "supplier": {"parent": "text", "parts": "", "branches": "", "makes": ""},
    "part": {"supplier": "integer", "makers": ""},
}

# The same questions, asked of Python.

LOOKUPS: dict[str, Callable[[Any, Any], bool]] = {
    "exact": lambda held, value: held == value,
    "in": lambda held, value: held in value,
    "range": lambda held, value: value[0] <= held <= value[1],
    "gt": lambda held, value: held > value,
    "gte": lambda held, value: held >= value,
    "lt": lambda held, value: held < value,
    "lte": lambda held, value: held <= value,
    "contains": lambda held, value: value in held,
    "icontains": lambda held, value: value in held,
    "startswith": lambda held, value: held.startswith(value),
    "endswith": lambda held, value: held.endswith(value),
}


def compare(held: Any, lookup: str, value: Any) -> bool:
    if lookup == "isnull":
        return (held is None) == value
    if value is None:
        return held is None
    return held is not None and LOOKUPS[lookup](held, value)


def holds(world: World, row: Row, asked: dict[str, Any]) -> bool:
    """Whether a row meets a filter."""
    return all(holds_entry(world, row, name, value) for name, value in asked.items())


def holds_entry(world: World, row: Row, name: str, value: Any) -> bool:
    if name == "not":
        return not holds(world, row, value)
    if name == "any":
        return any(holds(world, row, part) for part in value)
    if name == "all":
        return all(holds(world, row, part) for part in value)
    return holds_condition(world, row, name, value)


def holds_condition(world: World, row: Row | None, path: str, value: Any) -> bool:
    head, _, rest = path.partition("__")
    if head in MANY:
        return row is not None and holds_of_many(world, world.many(row, head), rest, value)
    if head in ONE:
        found = world.one(row, head)
        if isinstance(value, dict) and not rest:
            return found is not None and holds(world, found, value)
        if rest and rest not in LOOKUPS and rest != "isnull":
            return holds_condition(world, found, rest, value)
    return compare(world.read(row, head), rest or "exact", value)


def holds_of_many(world: World, related: Rows, rest: str, value: Any) -> bool:
    if rest == "":
        return any(holds(world, row, value) for row in related)
    if rest == "isnull":
        return (not related) == value
    if rest.startswith("count"):
        return compare(len(related), rest.removeprefix("count").removeprefix("__") or "exact", value)
    return any(holds_condition(world, row, rest, value) for row in related)


def found_by_search(world: World, part: Row, text: str) -> bool:
    """As ``PartMCP.search_fields`` say."""
    names = [maker["name"] for maker in world.many(part, "makers")]
    return all(
        word in part["name"]
        or world.read(part, "supplier__name") == word
        or any(name.startswith(word) for name in names)
        or str(part["weight"]) == word
        for word in text.split()
    )


def in_order(world: World, found: Rows, names: list[str]) -> Rows:
    """The rows in the order, ties broken by the key in the direction of the last column."""
    tie = "-id" if names and names[-1].startswith("-") else "id"
    last = bool(connection.features.nulls_order_largest)
    for name in reversed([*names, tie]):
        held = {row["id"]: world.read(row, name.removeprefix("-")) for row in found}
        present = [row for row in found if held[row["id"]] is not None]
        missing = [row for row in found if held[row["id"]] is None]
        descending = name.startswith("-")
        present.sort(key=lambda row: held[row["id"]], reverse=descending)
        found = [*present, *missing] if last != descending else [*missing, *present]
    return found


def shown(world: World, row: Row, names: list[str]) -> list[Any]:
    """What a row of the answer holds: one table in the place of several fields of the same relation."""
    fields: dict[str, list[str]] = {}
    for name in names:
        head, _, rest = name.partition("__")
        place = head if head in MANY and rest != "count" else name
        fields.setdefault(place, []).append(rest or "id")
    return [_cell(world, row, place, rest) for place, rest in fields.items()]


def _cell(world: World, row: Row, name: str, fields: list[str]) -> Any:
    head, _, rest = name.partition("__")
    if head not in MANY:
        return world.read(row, name)
    found = world.many(row, head)
    if rest == "count":
        return len(found)
    rows = [[world.read(one, field) for field in fields] for one in found]
    return [value for (value,) in rows] if len(fields) == 1 else {"columns": fields, "rows": rows}


# What is drawn.

texts = st.sampled_from(["a", "b", "ab", "ba", "abc", "c"])
integers = st.integers(0, 3)
words = st.sampled_from(["a", "b", "ab", "abc", "c", "1", "2"])
VALUES: dict[str, st.SearchStrategy[Any]] = {"integer": integers, "text": texts}
COMPARED = {
    "integer": ["exact", "gt", "gte", "lt", "lte"],
    "text": ["exact", "gt", "lt", "contains", "icontains", "startswith", "endswith"],
}


def of_column(name: str, kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """A condition on a column, or on a key."""
    value = VALUES[kind]
    return st.one_of(
        st.builds(lambda lookup, given: {f"{name}__{lookup}": given}, st.sampled_from(COMPARED[kind]), value),
        st.builds(lambda given: {name: given}, value),
        st.builds(lambda given: {f"{name}__in": given}, st.lists(value, max_size=3)),
        st.builds(lambda given: {f"{name}__isnull": given}, st.booleans()),
        st.just({name: None}),
    )


def of_count(name: str) -> st.SearchStrategy[dict[str, Any]]:
    ending = st.sampled_from(["", "__exact", "__gt", "__gte", "__lt", "__lte"])
    return st.builds(lambda lookup, given: {f"{name}__count{lookup}": given}, ending, integers) | st.builds(
        lambda given: {f"{name}__isnull": given}, st.booleans()
    )


@cache
def conditions(model: str, reach: int) -> st.SearchStrategy[dict[str, Any]]:
    """A condition on a model, which may follow so many relations."""
    found = [of_column(name, kind) for name, kind in FIELDS[model].items()]
    for name, kind in LEADS[model].items():
        if kind:
            found.append(of_column(name, kind))
        elif reach:
            found.append(of_count(name))
        if reach:
            beyond = {**ONE, **MANY}[name]
            inner = conditions(beyond, reach - 1)
            found.append(inner.map(lambda asked, name=name: {f"{name}__{path}": v for path, v in asked.items()}))
            found.append(filters(beyond, reach - 1, 2).map(lambda asked, name=name: {name: asked}))
    return st.deferred(lambda: st.one_of(found))


@cache
def filters(model: str, reach: int = 2, leaves: int = 5) -> st.SearchStrategy[dict[str, Any]]:
    # Those on the row itself are few among all that there are, and as likely to be wrong.
    either = conditions(model, 0) | conditions(model, reach)
    joined = st.lists(either, min_size=1, max_size=2).map(
        lambda parts: {name: value for part in parts for name, value in part.items()}
    )
    return st.recursive(
        joined,
        lambda inner: st.one_of(
            st.builds(lambda asked: {"not": asked}, inner),
            st.builds(lambda asked: {"any": asked}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda asked: {"all": asked}, st.lists(inner, min_size=1, max_size=2)),
            st.builds(lambda asked, more: {"not": asked, **more}, inner, joined),
        ),
        max_leaves=leaves,
    )


@st.composite
def asked_of(draw: st.DrawFn, model: str, leaves: int = 5) -> dict[str, Any]:
    """A filter. Drawn in a function, since all that it may be made of is too much to be printed."""
    return draw(filters(model, leaves=leaves))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    codes = [None, "a", "b", "ab", "c", "ba"]
    chosen = draw(st.lists(st.sampled_from(codes[1:]), max_size=4, unique=True))
    suppliers = [
        {
            "id": number, "name": draw(texts), "rating": draw(integers | st.none()),
            "code": chosen[number - 1] if number <= len(chosen) else None,
            "parent": draw(st.sampled_from([None, *chosen])), "open": draw(st.booleans()),
        }
        for number in range(1, draw(st.integers(2, 4)) + 1)
    ]  # fmt: skip
    known = {supplier["code"] for supplier in suppliers}
    suppliers = [{**one, "parent": one["parent"] if one["parent"] in known else None} for one in suppliers]
    makers = [supplier["id"] for supplier in suppliers]
    parts = [
        {
            "id": number, "name": draw(texts), "weight": draw(integers | st.none()),
            "supplier": draw(st.sampled_from([None, *makers])), "open": draw(st.booleans() | st.just(True)),
        }
        for number in range(1, draw(st.integers(2, 5)) + 1)
    ]  # fmt: skip
    pairs = [(part["id"], maker) for part in parts for maker in makers]
    makings = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    return World(suppliers, parts, makings, draw(st.booleans()))


def orders(model: str, *more: str) -> st.SearchStrategy[list[str]]:
    names = st.tuples(st.sampled_from([*FIELDS[model], *more]), st.booleans())
    return st.lists(names, max_size=3, unique_by=lambda item: item[0]).map(
        lambda items: [f"-{name}" if descending else name for name, descending in items]
    )


#: Asked in every world: what is hidden or missing is most often mistaken here.
ALWAYS: dict[str, list[dict[str, Any]]] = {
    "part": [
        {"supplier": None}, {"supplier__isnull": False}, {"not": {"supplier": 1}}, {"supplier__rating": None},
        {"not": {"supplier__name": "a"}}, {"not": {"makers__rating__gte": 1}}, {"makers__isnull": True},
    ],
    "supplier": [
        {"parent": None}, {"parent__isnull": False}, {"not": {"parent": "a"}}, {"parent__rating": None},
        {"not": {"parent__name": "a"}}, {"not": {"branches": {"rating": 1}}}, {"parts__count": 0},
    ],
}  # fmt: skip


# The database, and who asks.

OUTPUTS = {
    "part": [
        "name", "weight", "supplier", "supplier__name", "supplier__rating", "supplier__parent",
        "supplier__parent__name", "makers", "makers__count", "makers__name", "makers__parent", "makers__parent__rating",
    ],
    "supplier": [
        "name", "code", "rating", "parent", "parent__name", "parent__parent__rating", "parts", "parts__count",
        "parts__weight", "branches__count", "branches__name", "makes__count", "makes__supplier",
    ],
}  # fmt: skip


@pytest.fixture
def principal(db: None, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """Sees what is open, where the world is scoped, else everything."""

    class Scoped(ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            every = super().get_queryset(request)
            return every.filter(open=True) if request.user.first_name == "scoped" else every

    declared.model(Supplier, Scoped, fields=["id", "name", "code", "rating", "parent"])
    declared.model(
        Part,
        Scoped,
        fields=["id", "name", "weight", "supplier", "makers"],
        search_fields=["name", "=supplier__name", "^makers__name", "weight__exact"],
    )
    monkeypatch.setattr("mcp_django.bridge.resources.fields.columns.MAX_RELATIONS", 50)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.filters.MAX_DEPTH", 20)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.filters.MAX_CONDITIONS", 200)
    yield User.objects.create_superuser("root")


def make(world: World, principal: User) -> None:
    principal.first_name = "scoped" if world.scoped else ""
    Making.objects.all().delete()
    Part.objects.all().delete()
    Supplier.objects.update(parent=None)
    Supplier.objects.all().delete()
    Supplier.objects.bulk_create(Supplier(**{**row, "parent": None}) for row in world.suppliers)
    for row in world.suppliers:
        if row["parent"] is not None:
            Supplier.objects.filter(pk=row["id"]).update(parent=row["parent"])
    for row in world.parts:
        made = {name: value for name, value in row.items() if name != "supplier"}
        Part.objects.create(**made, supplier_id=row["supplier"])
    Making.objects.bulk_create(Making(part_id=part, maker_id=maker) for part, maker in world.makings)


@checked
@given(
    world=worlds(), of_parts=st.lists(asked_of("part"), min_size=4, max_size=8),
    of_suppliers=st.lists(asked_of("supplier"), min_size=4, max_size=8),
)  # fmt: skip
def test_filters(
    principal: User, world: World, of_parts: list[dict[str, Any]], of_suppliers: list[dict[str, Any]]
) -> None:
    make(world, principal)

    for model, name, several in ((Part, "part", of_parts), (Supplier, "supplier", of_suppliers)):
        for asked in [*several, *ALWAYS[name]]:
            expected = [row["id"] for row in world.tables[name] if holds(world, row, asked)]
            query = rows.RecordQuery(filter=asked, fields=["id"], order_by=["id"], total=True)
            page = rows.find(rights_on(model, principal), query, watched=True)
            assert ([row[0] for row in page.rows], page.total) == (expected, len(expected))


@checked
@given(
    world=worlds(), asked=asked_of("part", leaves=2) | st.just({}), limit=st.integers(1, 3),
    several=st.lists(
        orders("part", "supplier", "supplier__name", "supplier__parent", "supplier__parent__rating", "makers__count"),
        min_size=3, max_size=5,
    ),
)  # fmt: skip
def test_orders_and_pages(
    principal: User, world: World, asked: dict[str, Any], several: list[list[str]], limit: int
) -> None:
    world = replace(world, scoped=False)  # An order by what may be hidden is refused.
    make(world, principal)

    for condition, names in [*((None, names) for names in several), (asked, several[0])]:
        kept = [row for row in world.tables["part"] if holds(world, row, condition or {})]
        query = {"filter": condition or {}, "fields": ["id"], "order_by": names, "limit": limit}
        found = all_rows(Part, principal, watched=True, **query)
        assert [row[0] for row in found] == [row["id"] for row in in_order(world, kept, names)]


@checked
@given(world=worlds(), texts=st.lists(st.lists(words, min_size=1, max_size=2).map(" ".join), min_size=2, max_size=4))
def test_searches(principal: User, world: World, texts: list[str]) -> None:
    make(world, principal)

    for text in texts:
        found = all_rows(Part, principal, search=text, fields=["id"], order_by=["id"])
        assert [row[0] for row in found] == [
            row["id"] for row in world.tables["part"] if found_by_search(world, row, text)
        ]


@checked
@given(world=worlds(), limit=st.integers(1, 3))
def test_what_rows_hold(principal: User, world: World, limit: int) -> None:
    make(world, principal)

    for model, name in ((Part, "part"), (Supplier, "supplier")):
        found = all_rows(model, principal, fields=OUTPUTS[name], order_by=["-id"], limit=limit)
        assert found == [[row["id"], *shown(world, row, OUTPUTS[name])] for row in reversed(world.tables[name])]
