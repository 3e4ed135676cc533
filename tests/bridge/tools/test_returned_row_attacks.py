"""Attempts to read through a tool's returned rows what the field policy, or get_queryset, withholds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F, QuerySet
from django.http import HttpRequest

from mcp_django import ModelMCP, site
from mcp_django.models import AccessToken, Restriction
from tests.bridge.resources.conftest import each, showing
from tests.bridge.tools.test_returned_rows import give
from tests.shop.models import Apikey, Book, CheapProduct, Document, Person, Product
from tests.support.asking import DirectPeer, text_of
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

HIDDEN = "sk-hidden"
NO_OBJECT = "There is no such object."
NOT_SHOWN = "You may not see what this returns."


@pytest.fixture
def root(db: None, monkeypatch: pytest.MonkeyPatch) -> DirectPeer:
    """Sees the names of persons alone, whose text holds what is hidden."""
    monkeypatch.setattr(Person, "__str__", lambda person: f"{person.name} {person.badge}")
    Person.objects.create(name="Ann", badge=HIDDEN)
    Person.objects.create(name="Bob", badge=f"{HIDDEN} 2")
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def viewer(root: DirectPeer) -> DirectPeer:
    """May view documents, and no persons."""
    return DirectPeer(make_staff("viewer", "shop.view_document"))


def ann() -> Person:
    return Person.objects.get(name="Ann")


def each_way(declared: Declared, value: Callable[[], Any], many: Callable[[], Any]) -> list[str]:
    """The names of tools that return a row, and of those that return it among many, in each way."""
    ways: list[tuple[Callable[[], Any], Any]] = [
        (value, Person), (value, Person | None),
        (many, None), (many, QuerySet), (lambda: list(many()), None), (lambda: list(many()), list[Person]),
    ]  # fmt: skip
    for number, (given, annotation) in enumerate(ways):
        give(declared, given, annotation, f"way_{number}")
    return [f"way_{number}" for number in range(len(ways))]


def said(peer: DirectPeer, name: str) -> str:
    return json.dumps(peer.call(name))


def everybody() -> QuerySet[Person]:
    return Person.objects.order_by("pk")


# Fields.


def test_a_hidden_field(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name"])

    for name in each_way(declared, ann, everybody):
        assert "Ann" in said(root, name) and HIDDEN not in said(root, name), name


def test_a_secret_field(root: DirectPeer, declared: Declared) -> None:
    class Secret(ModelMCP):
        fields = "__all__"

        def hides(self, field: Any) -> bool:
            return bool(field.name == "badge")

    declared.model(Person, Secret)

    for name in each_way(declared, ann, everybody):
        assert "Ann" in said(root, name) and HIDDEN not in said(root, name), name


def test_a_hidden_field_as_an_annotation_a_column_of_raw_sql_or_an_attribute(
    root: DirectPeer, declared: Declared
) -> None:
    def with_attribute() -> Person:
        row = ann()
        row.name = row.badge
        return row

    declared.model(Person, fields=["name"])
    give(declared, lambda: everybody().annotate(shown=F("badge")), QuerySet, "annotated")
    give(declared, lambda: Person.objects.raw("SELECT id, badge AS name, badge FROM shop_person"), name="raw")
    give(declared, with_attribute, Person, "attribute")

    for name in ("annotated", "raw", "attribute"):
        assert "Ann" in said(root, name) and HIDDEN not in said(root, name), name


def test_the_order_by_a_hidden_column(root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own order is replaced. One that the function names is its author's to give."""
    Person.objects.filter(name="Ann").update(badge="z")
    monkeypatch.setattr(Person._meta, "ordering", ["badge"])
    declared.model(Person, fields=["name"])
    give(declared, Person.objects.all, QuerySet, "own")
    give(declared, lambda: Person.objects.order_by("badge"), QuerySet, "named")

    names = {tool: [row[1] for row in root.call(tool)["structuredContent"]["rows"]] for tool in ("own", "named")}

    assert names == {"own": ["Ann", "Bob"], "named": ["Bob", "Ann"]}


def test_a_field_that_one_object_shows_and_another_does_not(root: DirectPeer, declared: Declared) -> None:
    class ByObject(ModelMCP):
        def get_fields(self, request: HttpRequest) -> Any:
            return ["name"]

        def object_hooks(self, request: HttpRequest) -> Any:
            return ["get_object_fields"]

        def shows_by_object(self, request: HttpRequest) -> bool:
            return True

        def get_object_fields(self, request: HttpRequest, obj: models.Model) -> Any:
            return ["badge"] if obj.name == "Bob" else []  # type: ignore[attr-defined]

    declared.model(Person, ByObject)
    give(declared, ann, Person, "ann")
    give(declared, lambda: Person.objects.get(name="Bob"), Person, "bob")
    give(declared, everybody, QuerySet, "both")

    assert HIDDEN not in said(root, "ann") and HIDDEN not in said(root, "both")
    assert f"{HIDDEN} 2" in said(root, "bob")


def test_the_row_behind_a_foreign_key_and_its_key(viewer: DirectPeer, root: DirectPeer, declared: Declared) -> None:
    """A prefetched or joined row is not written, and the key of one that is hidden is null."""
    Document.objects.create(name="plan", owner=Person.objects.get(name="Bob"))
    declared.model(Document, fields=["name", "owner"])
    declared.model(Person, showing(lambda every: every.filter(name="Ann"), fields=("name",)))
    rows = Document.objects.select_related("owner").prefetch_related("owner__documents")
    give(declared, rows.get, Document, "one")
    give(declared, rows.all, QuerySet, "many")

    for name in ("one", "many"):
        answer = root.call(name)
        assert "Bob" not in json.dumps(answer) and HIDDEN not in json.dumps(answer)
        assert "A rule of this project limits which rows of shop.person you see." in json.dumps(answer)
    assert root.call("one")["structuredContent"]["owner"] is None


# Rows.


def test_the_row_of_another_user(root: DirectPeer, declared: Declared) -> None:
    """A row outside of get_queryset looks as if the function had found none, and no number tells of it."""
    declared.model(Person, showing(lambda every: every.filter(name="Bob"), fields=("name",)))

    one, optional, *many = [root.call(name) for name in each_way(declared, ann, everybody)]

    assert text_of(one) == NO_OBJECT
    assert optional["structuredContent"] == {"result": None}
    for page in map(json.loads, map(text_of, many)):
        assert [row[1] for row in page["rows"]] == ["Bob"]
        assert page["notes"] == ["A rule of this project limits which rows of shop.person you see."]
        assert "more" not in page


def test_a_hidden_row_and_no_row_are_told_alike(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, showing(lambda every: every.none(), fields=("name",)))

    def missing() -> Person:
        return Person.objects.get(name="Nobody")

    give(declared, missing, Person, "missing")
    give(declared, lambda: Person.objects.filter(name="Nobody").first(), Person, "none")
    give(declared, lambda: Person.objects.filter(name="Nobody").first(), Person | None, "missing_or_none")
    give(declared, lambda: [ann()], name="hidden_list")
    give(declared, list, name="empty_list")
    give(declared, lambda: [ann()], list[Person], "hidden_typed")
    give(declared, list, list[Person], "empty_typed")
    give(declared, everybody, QuerySet, "hidden_rows")
    give(declared, everybody().none, QuerySet, "empty_rows")
    one, optional, *_ = [root.call(name) for name in each_way(declared, ann, everybody)]

    assert one == root.call("missing") == root.call("none")
    assert optional == root.call("missing_or_none")
    for kind in ("list", "typed", "rows"):
        assert root.call(f"hidden_{kind}") == root.call(f"empty_{kind}"), kind


def test_a_row_without_an_annotation_is_told_to_nobody(root: DirectPeer, declared: Declared, caplog: Any) -> None:
    """None and the exception of get() differ there, so that one of them would tell that a hidden row exists."""
    declared.model(Person, fields=["name"])
    give(declared, ann, name="row")

    assert "Ann" not in said(root, "row") and root.call("row")["isError"]
    assert "The tool row returned a Person: annotate it with -> Person or Person | None" in caplog.text


def test_a_row_that_the_permission_of_each_hides(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, each(lambda row: row.name == "Bob", fields=("name",)))

    one, optional, *many = [root.call(name) for name in each_way(declared, ann, everybody)]

    assert text_of(one) == NO_OBJECT and optional["structuredContent"] == {"result": None}
    assert [[row[1] for row in json.loads(text_of(page))["rows"]] for page in many] == [["Bob"]] * 4


def test_rows_after_hidden_ones_fill_the_page(root: DirectPeer, declared: Declared, settings: Any) -> None:
    """The limit counts visible rows, so that a page does not tell by its length how many are hidden."""
    settings.MCP = {**settings.MCP, "MAX_ROWS": 2}
    Person.objects.bulk_create(Person(name=f"p{number}", badge=str(number)) for number in range(6))
    declared.model(Person, showing(lambda every: every.filter(name__startswith="p"), fields=("name",)))

    *_, many, typed, listed, typed_list = [root.call(name) for name in each_way(declared, ann, everybody)]

    for page in map(json.loads, map(text_of, (many, typed, listed, typed_list))):
        assert [row[1] for row in page["rows"]] == ["p0", "p1"]
        assert page["more"].startswith("These are the first 2 rows, and more follow.")


def test_the_places_of_hidden_rows_by_slices(root: DirectPeer, declared: Declared) -> None:
    """A slice is one of the rows that the user may see: its length would tell where the hidden ones stand."""
    Person.objects.bulk_create(Person(name=f"p{number}", badge=str(number)) for number in range(4))
    by_name = Person.objects.order_by("-name")
    both = by_name.order_by().union(Person.objects.order_by().none(), all=True).order_by("-name")
    slices = {"first": slice(2), "later": slice(1, 3), "rest": slice(2, None), "none": slice(0)}
    for name, one in slices.items():
        give(declared, lambda one=one: by_name[one], QuerySet, name)
        give(declared, lambda one=one: both[one], QuerySet, f"union_{name}")
        give(declared, lambda one=one: Person.objects.all()[one], QuerySet, f"own_{name}")

    expected = {"first": ["p2", "p0"], "later": ["p0", "Bob"], "rest": ["Bob"], "none": []}
    shown = ("p0", "p2", "Bob")
    for model_mcp in (
        showing(lambda every: every.filter(name__in=shown), fields=("name",)),
        each(lambda row: row.name in shown, fields=("name",)),
    ):
        site.register(Person, model_mcp)
        pages = {
            name: [row[1] for row in root.call(name)["structuredContent"]["rows"]]
            for one in slices
            for name in (one, f"union_{one}", f"own_{one}")
        }
        site.unregister(Person)

        assert {name: pages[name] for name in slices} == {name: pages[f"union_{name}"] for name in slices} == expected
        assert {name: len(pages[f"own_{name}"]) for name in slices} == {
            name: len(rows) for name, rows in expected.items()
        }


@pytest.mark.django_db(databases=["default", "other"])
def test_a_row_of_another_database_with_the_key_of_a_visible_one(
    root: DirectPeer, declared: Declared, caplog: Any
) -> None:
    declared.model(Person, fields=["name"])

    def elsewhere() -> Person:
        row = ann()
        row._state.db = "other"
        return row

    give(declared, elsewhere, Person, "row")
    give(declared, lambda: [elsewhere()], name="listed")
    give(declared, lambda: everybody().using("other"), QuerySet, "query")

    for name in ("row", "listed", "query"):
        assert "Ann" not in said(root, name) and root.call(name)["isError"], name
        assert "in the database 'other', and agents see those in 'default'" in caplog.text
        caplog.clear()


# Models.


def test_a_model_that_the_user_may_not_view(viewer: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name"])
    declared.model(Document, fields=["name"])
    runs: list[str] = []

    def run(value: Any, name: str) -> Any:
        runs.append(name)
        return value

    names = each_way(declared, lambda: run(ann(), "one"), lambda: run(everybody(), "many"))
    one, optional, many, typed, listed, typed_list = [viewer.call(name) for name in names]

    assert text_of(many) == text_of(typed) == NOT_SHOWN
    assert [text_of(answer) for answer in (one, optional, typed_list)] == [f"{NOT_SHOWN} Nothing was done."] * 3
    assert text_of(listed) == "[]"
    assert runs == ["many", "many", "many"]


def test_a_model_that_is_not_exposed_is_for_nobody_and_the_log_says_so(
    root: DirectPeer, declared: Declared, caplog: Any
) -> None:
    Apikey.objects.create()
    give(declared, AccessToken.objects.all, QuerySet, "tokens")
    give(declared, lambda: AccessToken.objects.create_token(user=root.user, scopes=["read"])[0], AccessToken, "token")

    assert text_of(root.call("tokens")) == NOT_SHOWN
    assert text_of(root.call("token")) == f"{NOT_SHOWN} Nothing was done."
    assert (
        "The tool tokens returns rows of mcp_django.accesstoken, which nobody sees. The model is not exposed"
        in caplog.text
    )


def test_a_field_and_a_model_that_an_administrator_switched_off(root: DirectPeer, declared: Declared) -> None:
    """Also for a tool that writes, which reads the rows from the database that it writes to."""
    declared.model(Person, fields=["name", "badge"])
    give(declared, ann, Person, "one")
    give(declared, everybody, QuerySet, "many", read_only=False)
    assert HIDDEN in said(root, "one") and HIDDEN in said(root, "many")

    Restriction.objects.create(site="mcp", kind="field", name="shop.person.badge")
    for name in ("one", "many"):
        assert "Ann" in said(root, name) and HIDDEN not in said(root, name)

    Restriction.objects.create(site="mcp", kind="model", name="shop.person")
    for name in ("one", "many"):
        assert "Ann" not in said(root, name) and NOT_SHOWN in said(root, name)


def test_a_model_that_is_shown_in_groups_alone(root: DirectPeer, declared: Declared, caplog: Any) -> None:
    declared.model(Person, fields=["name"], rows=False)

    for name in each_way(declared, ann, everybody):
        assert "Ann" not in said(root, name), name
    assert "is shown in groups alone" in caplog.text


def test_a_row_by_way_of_a_child_or_a_proxy_of_its_model(root: DirectPeer, declared: Declared) -> None:
    """It is a row of the model that the annotation names, or else of its own, which has rules of its own."""
    Book.objects.create(name="Emma", price=1, author=HIDDEN)
    Book.objects.create(name="Ulysses", price=2, author=HIDDEN)
    hidden = showing(lambda every: every.exclude(name="Ulysses"), fields=("name",))
    declared.model(Product, hidden)
    for model in (Book, CheapProduct):
        declared.admin(model, None)
    for name, value, annotation in (
        ("child", lambda: Book.objects.get(name="Emma"), Product),
        ("children", lambda: Book.objects.order_by("name"), list[Product]),
        ("proxies", lambda: list(CheapProduct.objects.order_by("name")), list[Product]),
        ("own", lambda: Book.objects.order_by("name"), QuerySet),
        ("proxy", lambda: CheapProduct.objects.get(name="Emma"), CheapProduct),
    ):
        give(declared, value, annotation, name)

    child, *pages = [root.call(name)["structuredContent"] for name in ("child", "children", "proxies")]

    assert child["name"] == "Emma" and [[row[-1] for row in page["rows"]] for page in pages] == [["Emma"], ["Emma"]]
    assert text_of(root.call("own")) == NOT_SHOWN
    assert text_of(root.call("proxy")) == f"{NOT_SHOWN} Nothing was done."


def test_a_token_without_the_scope_of_the_model(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name"])
    give(declared, ann, Person, "typed", read_only=False)
    give(declared, everybody, QuerySet, "many", read_only=False)
    expected = {
        "actions": (True, True), "actions model:flights.flight:read": (True, True), "actions read": (False, False),
        "actions model:shop.person:read": (False, False), "tool:typed": (False, None),
    }  # fmt: skip

    found = {}
    for scopes in expected:
        peer = DirectPeer(root.user, *scopes.split())
        asked = [peer.request(MODERN, "tools/call", {"name": name, "arguments": {}}) for name in ("typed", "many")]
        found[scopes] = tuple(one.get("result", {}).get("isError") for one in asked)

    assert found == expected


# Texts.


@dataclass
class Pair:
    number: int
    row: Any


def test_the_text_of_a_row_within_other_values(root: DirectPeer, declared: Declared, caplog: Any) -> None:
    declared.model(Person, fields=["name"])
    values: dict[str, tuple[Callable[[], Any], Any]] = {
        "dict": (lambda: {"row": ann()}, None),
        "key": (lambda: {ann(): 1}, None),
        "nested": (lambda: [[ann()]], None),
        "dataclass": (lambda: Pair(1, ann()), None),
        "typed": (lambda: Pair(1, everybody()), Pair),
        "any": (lambda: {"rows": everybody()}, dict[str, Any]),
        "manager": (lambda: Person.objects, None),
        "mixed": (lambda: [ann(), 1], None),
        "two": (lambda: [ann(), root.user], None),
        "generator": (lambda: (row for row in everybody()), None),
        "values": (lambda: everybody().values(), QuerySet),
        "class": (lambda: Person, None),
        "unsaved": (lambda: Person(pk=ann().pk, name=HIDDEN), Person),
        "unsaved list": (lambda: [Person(name=HIDDEN)], None),
    }
    for name, (value, annotation) in values.items():
        give(declared, value, annotation, name.replace(" ", "_"))

        answer = said(root, name.replace(" ", "_"))

        assert "failed. The server's log has the details" in answer, name
        assert HIDDEN not in answer and "Ann" not in answer, name
        assert ": return " in caplog.text, name
        assert HIDDEN not in caplog.text.replace("badge", ""), name
        caplog.clear()


def test_the_text_of_a_row_that_is_yielded(root: DirectPeer, declared: Declared, caplog: Any) -> None:
    declared.model(Person, fields=["name"])

    def rows(request: HttpRequest) -> Any:
        """Rows."""
        yield from everybody()

    async def late(request: HttpRequest) -> Any:
        """Late."""
        async for row in everybody():
            yield row

    for function in (rows, late):
        declared.tool(function, read_only=True)
        answer = said(root, function.__name__)

        assert "failed. The server's log has the details" in answer
        assert "Ann" not in answer and HIDDEN not in answer + caplog.text and ": return " in caplog.text


def test_the_text_of_a_row_in_a_preview(root: DirectPeer, declared: Declared) -> None:
    """What is shown of a call before people agree has the keys of rows that the caller may see."""
    declared.model(Person, showing(lambda every: every.filter(name="Ann"), fields=("name",)))

    def greet(request: HttpRequest) -> str:
        """Greet."""
        return "hello"

    def look(request: HttpRequest) -> dict[str, Any]:
        return {"one": ann(), "other": Person.objects.get(name="Bob"), "every": everybody(), "listed": [ann()]}

    declared.tool(greet, consent="approve", preview=look, permission="shop.view_person")

    shown = said(root, "greet")

    assert HIDDEN not in shown and "Bob" not in shown
    key = str(ann().pk)
    assert json.loads(json.loads(shown)["content"][0]["text"])["would"] == {
        "one": key, "other": None, "every": [key], "listed": [key],
    }  # fmt: skip
