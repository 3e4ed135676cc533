"""Searches by the admin's own ``get_search_results``: when it is called, and how little its answer decides."""

from __future__ import annotations

import functools
import string
import types
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import BooleanField, Value
from django.db.models.expressions import RawSQL
from django.test import override_settings

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP, site
from mcp_django.bridge.declared import options
from mcp_django.bridge.resources.fields import parsing
from mcp_django.console.review import inventory
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.inventory.conftest import run
from tests.bridge.resources.test_reading import A_MINUTE, QUICK
from tests.shop.models import Person, Visit
from tests.support.asking import DirectPeer, described, errors_of, keys, text_of
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

Admin: Any = admin.ModelAdmin

NOT_OFFERED = "auth.user: the admin's own search may look into hidden fields, so it is not offered here. Use filter."


class ByAdmin(ModelMCP):
    search = "admin"


def searching(results: Any, **options: Any) -> Any:
    """A ModelAdmin whose own search gives the results of a function of the request, the queryset and the text."""

    def get_search_results(self: Any, request: Any, queryset: Any, search_term: str) -> Any:
        return results(request, queryset, search_term), False

    return type("Own", (Admin,), {"list_display": ["number", "notes"], "fields": ["number", "notes"], **options,
                                  "get_search_results": get_search_results})  # fmt: skip


def matching(request: Any, queryset: Any, text: str) -> Any:
    return queryset.filter(notes=text)


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root", password="sesame"))


@pytest.fixture
def ops(root: DirectPeer) -> DirectPeer:
    """Sees the flights from JFK: 1 and 4."""
    user = make_staff("ops", "flights.view_flight", "flights.view_airport")
    user.groups.create(name="JFK operations")
    return DirectPeer(user)


def refusal(peer: DirectPeer, tool: str = "find_records", model: str = "flights.flight", **asked: Any) -> str:
    [error] = errors_of(peer.call(tool, model=model, **asked))
    assert error["field"] == "search"
    return str(error["message"])


# When it is called.


class LeakyAdmin(Admin):  # type: ignore[misc]
    list_display = ["username"]
    search_fields = ["username"]

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
        found, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        return found | queryset.filter(password__startswith=search_term), may_have_duplicates


def test_reading_a_hidden_hash_letter_by_letter(root: DirectPeer, declared: Declared) -> None:
    """An override that nobody vouches for is never called, whatever is searched for."""
    declared.admin(User, LeakyAdmin)
    beginning = root.user.password[:6]

    for tool in ("find_records", "aggregate_records"):
        for letter in (*string.ascii_lowercase, "_", beginning):
            assert refusal(root, tool, "auth.user", search=letter) == NOT_OFFERED
    uri = f"db://auth/user?search={beginning}"
    error = root.request(MODERN, "resources/read", {"uri": uri})["error"]

    assert error["data"]["errors"][0]["message"] == NOT_OFFERED
    assert "search" not in described(root, "auth.user") and "search_fields" not in described(root, "auth.user")
    templates = root.result(MODERN, "resources/templates/list")["resourceTemplates"]
    assert all("search" not in one["uriTemplate"] for one in templates if one["name"] == "auth.user query")


def test_posing_as_the_admins_search_that_django_wrote(root: DirectPeer, declared: Declared) -> None:
    class Wrapping(LeakyAdmin):
        get_search_results = functools.wraps(Admin.get_search_results)(LeakyAdmin.get_search_results)

    declared.admin(User, Wrapping)

    assert refusal(root, model="auth.user", search="root") == NOT_OFFERED


def test_search_fields_of_our_own_are_searched_in_the_place_of_the_admin(root: DirectPeer, declared: Declared) -> None:
    declared.admin(User, LeakyAdmin)
    declared.model(User, search_fields=["username"])

    assert keys(root, "auth.user", search="oo") == [root.user.pk]
    assert keys(root, "auth.user", search=root.user.password[:6]) == []


def test_an_option_lets_the_admin_search_as_it_does(root: DirectPeer, declared: Declared) -> None:
    declared.admin(Flight, searching(lambda request, queryset, text: queryset.filter(number=int(text) + 1000)))
    declared.model(Flight, ByAdmin)

    assert keys(root, search=" 3 ") == [4]
    assert keys(root, search=" ") == [1, 2, 3, 4, 5, 6]
    found = root.call("aggregate_records", model="flights.flight", search="3")["structuredContent"]
    assert found["rows"] == [[1]]
    assert root.read("db://flights/flight?search=3&fields=number")["rows"] == [[4, 1003]]
    assert described(root)["search"] == "by the admin's own search"


def test_an_option_of_the_request_lets_the_admin_search(root: DirectPeer, ops: DirectPeer, declared: Declared) -> None:
    class ForRoot(ModelMCP):
        def get_search(self, request: Any) -> Any:
            return "admin" if request.user.is_superuser else None

    declared.admin(Flight, searching(matching))
    declared.model(Flight, ForRoot)

    assert keys(root, search="note 0") == [1]
    assert refusal(ops, search="note 0").startswith("flights.flight: the admin's own search")


def test_completion_finds_rows_as_the_admin_does(root: DirectPeer, declared: Declared) -> None:
    declared.admin(Airport, searching(lambda request, queryset, text: queryset.filter(faa="LGA"), list_display=["faa"]))
    declared.model(Airport, ByAdmin)
    reference = {"type": "ref/resource", "uri": "db://flights/flight{?origin}"}
    [uri] = [
        one["uriTemplate"] for one in root.result(MODERN, "resources/templates/list")["resourceTemplates"]
        if one["name"] == "flights.flight query"
    ]  # fmt: skip
    asked = {"ref": {**reference, "uri": uri}, "argument": {"name": "origin", "value": "guardia"}}

    assert root.result(MODERN, "completion/complete", asked)["completion"]["values"] == ["LGA"]


def packaged(monkeypatch: pytest.MonkeyPatch, code: str) -> Any:
    """The Mixin that the code makes, in a package that is known."""
    module = types.ModuleType("searchlib.admin")
    exec(code, vars(module))
    monkeypatch.setattr(options, "SEARCH_PACKAGES", frozenset({"django", "searchlib"}))
    return module.Mixin  # type: ignore[attr-defined]


BY_FIELDS = """
class Mixin:
    def get_search_results(self, request, queryset, search_term):
        for name in (*self.search_fields, *self.get_search_fields(request)):
            if queryset.filter(**{f"{name}__startswith": search_term}):
                return queryset.filter(**{f"{name}__startswith": search_term}), False
        return queryset.none(), False
"""


def test_searching_a_hidden_field_by_a_known_package(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is given only those of the search fields that may be read, and the ModelAdmin keeps its own."""
    mixin = packaged(monkeypatch, BY_FIELDS)
    own = type("Own", (mixin, Admin), {"search_fields": ["password", "username"], "list_display": ["username"]})
    declared.admin(User, own)

    assert keys(root, "auth.user", search=root.user.password[:6]) == []
    assert keys(root, "auth.user", search="ro") == [root.user.pk]
    assert admin.site._registry[User].search_fields == ["password", "username"]

    own.get_search_fields = lambda self, request: ["password", "username"]
    assert keys(root, "auth.user", search=root.user.password[:6]) == []

    own.get_search_fields = lambda self, request: ["password"]
    assert refusal(root, model="auth.user", search="ro") == "auth.user has no search fields. Use filter."


def test_searching_by_a_related_row_that_is_hidden(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The admin joins tables: it would tell by the visible row what stands in the hidden one."""

    hidden = Person.objects.create(name="hidden", badge="b1")
    visit = Visit.objects.create(person=hidden)
    mixin = packaged(monkeypatch, BY_FIELDS)
    declared.admin(Visit, type("Own", (mixin, Admin), {"search_fields": ["person__name"], "fields": ["person"]}))
    declared.model(Person, showing(lambda every: every.exclude(name="hidden"), fields=["name", "badge"]))

    assert keys(root, "shop.visit") == [visit.pk]
    assert refusal(root, model="shop.visit", search="hid") == "shop.visit has no search fields. Use filter."

    site.unregister(Person)
    site.register(Person, fields=["name", "badge"])
    assert keys(root, "shop.visit", search="hid") == [visit.pk]


# What its answer decides.


def test_finding_a_hidden_row_by_a_search_that_leaves_the_visible_ones(ops: DirectPeer, declared: Declared) -> None:
    for every in (
        lambda request, queryset, text: Flight.objects.all(),
        lambda request, queryset, text: Flight.objects.all()[:5],
        lambda request, queryset, text: Flight.objects.order_by().filter(pk=2).union(Flight.objects.order_by()),
    ):
        own = searching(every, get_queryset=lambda self, request: Flight.objects.filter(origin="JFK"))
        declared.admin(Flight, own)
        declared.model(Flight, ByAdmin)

        assert set(keys(ops, search="x")) <= {1, 4}
        assert (
            ops.call("find_records", model="flights.flight", search="x", total=True)["structuredContent"]["total"] < 3
        )
        declared.close()


def test_a_search_neither_orders_nor_doubles_nor_adds(root: DirectPeer, declared: Declared) -> None:
    def found(request: Any, queryset: Any, text: str) -> Any:
        joined = queryset.filter(carrier__flights__number__gte=0).order_by("-number")
        return joined.annotate(notes_of=Value("added"), number_of=Value(1))

    declared.admin(Flight, searching(found))
    declared.model(Flight, ByAdmin)

    answer = root.call("find_records", model="flights.flight", search="x")["structuredContent"]

    assert answer["columns"] == ["id", "number", "notes"]
    assert [row[0] for row in answer["rows"]] == [1, 2, 3, 4, 5, 6]
    assert keys(root, search="x", order_by=["-number"], limit=2) == [6, 5]


def test_a_sliced_or_combined_search_counts_by_its_first_rows(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "The admin's own search found more than 2 rows; only the first ones count here."
    for found in (
        lambda request, queryset, text: queryset.order_by("-number")[:3],
        lambda request, queryset, text: queryset.filter(number=1003).union(queryset.filter(number__gte=1004)),
    ):
        declared.close()
        declared.admin(Flight, searching(found))
        declared.model(Flight, ByAdmin)
        assert keys(root, search="x") == [4, 5, 6]

        with monkeypatch.context() as patch:
            patch.setattr("mcp_django.bridge.resources.policy.searching.MAX_LIST_VALUES", 2)
            answer = root.call("find_records", model="flights.flight", search="x")["structuredContent"]
            measured = root.call("aggregate_records", model="flights.flight", search="x")["structuredContent"]
        assert (len(answer["rows"]), answer["notes"]) == (2, [note])
        assert (measured["rows"], measured["notes"]) == ([[2]], [note])
    assert parsing.MAX_LIST_VALUES > 2


class Secret(Exception):
    pass


def fails(request: Any, queryset: Any, text: str) -> Any:
    raise Secret("password")


def test_a_search_that_fails_is_refused_without_its_reason(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    no_pair = searching(matching)
    no_pair.get_search_results = lambda self, request, queryset, text: queryset
    failing = [
        fails,
        lambda request, queryset, text: list(queryset),
        lambda request, queryset, text: None,
        lambda request, queryset, text: User.objects.all(),
        lambda request, queryset, text: queryset.values("number"),
    ]

    for own in (*map(searching, failing), no_pair):
        declared.close()
        caplog.clear()
        declared.admin(Flight, own)
        declared.model(Flight, ByAdmin)
        assert refusal(root, search="x") == "the admin's own search of flights.flight failed. Use filter."
        [record] = caplog.records
        assert record.getMessage().startswith("flights.Own.get_search_results")
    assert "gives no queryset of flights.flight" in caplog.text


@override_settings(MCP=QUICK)
@pytest.mark.parametrize("most", [None, 3])
def test_a_slow_search_is_ended(root: DirectPeer, declared: Declared, most: int | None) -> None:
    in_a_minute = RawSQL(f"{A_MINUTE} IS NOT NULL", (), output_field=BooleanField())
    declared.admin(Flight, searching(lambda request, queryset, text: queryset.filter(in_a_minute)[:most]))
    declared.model(Flight, ByAdmin)

    assert "it took longer than 0.1 s (STATEMENT_SECONDS)" in text_of(
        root.call("find_records", model="flights.flight", search="x")
    )


def test_a_search_of_every_field_hidden_is_not_called(root: DirectPeer, declared: Declared) -> None:
    """Django's own part of it would take no search fields for no condition, and find every row."""
    own = searching(lambda request, queryset, text: queryset, search_fields=["distance"])
    declared.admin(Flight, own)
    declared.model(Flight, ByAdmin)

    assert refusal(root, search="x") == "flights.flight has no search fields. Use filter."


# What people are told of it.


def test_the_inventory_names_a_search_that_is_not_called_with_its_cure(declared: Declared, db: None) -> None:
    def told() -> str:
        return str(inventory.build(site)["models"]["flights.flight"]["search"])

    assert inventory.build(site)["models"]["flights.airport"]["search"] == "faa, name"
    declared.admin(Flight, searching(matching))
    cure = 'which may look into hidden fields; search = "admin" in a ModelMCP calls it'

    name = "searching.<locals>.get_search_results"
    assert told() == f"not by {name}, {cure}"
    assert f"search: not by {name}, which may look into hidden" in run()
    declared.model(Flight, ByAdmin)
    assert told() == name
