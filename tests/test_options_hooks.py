"""The admin's declarations and hooks for a model, and the outcome if one of them fails."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import override_settings

from demo_project.flights.models import Airline, Disruption, Flight, Plane
from mcp_django import ModelMCP, site
from tests.shop.models import Book, Product
from tests.support.asking import DirectPeer, columns, keys, request_of
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(4)
    return DirectPeer(User.objects.create_superuser("root"))


# Fields that the admin shows.


def test_the_bridge_shows_columns_and_form_fields(root: DirectPeer, declared: Declared) -> None:
    class Shown(Admin):
        list_display = ["number", "__str__", "loud", "carrier__name"]
        fields = ["status", ("notes", "tailnum")]
        readonly_fields = ["loud", "distance"]
        exclude = ["tailnum"]

        def loud(self, obj: Flight) -> str:
            return "!"

    declared.admin(Flight, Shown)

    assert columns(root) == ["id", "number", "status", "notes"]
    assert {"origin", "plane", "tailnum"}.isdisjoint(columns(root))


def test_the_bridge_leaves_out_what_cannot_be_edited(root: DirectPeer, declared: Declared) -> None:
    class Plain(Admin):
        pass

    declared.admin(Disruption, Plain)

    assert not {"reported_by", "reported_at"} & set(columns(root, "flights.disruption"))


class _Overriding(Admin):
    list_display = ["number", "status"]


def test_an_admin_that_refuses_one_object(root: DirectPeer, declared: Declared) -> None:
    def not_the_second(self: Any, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None or obj.pk != 2

    refusing = {"has_view_permission": not_the_second, "fields": ["status"]}
    declared.admin(Flight, type("Refusing", (_Overriding,), refusing))

    hidden = root.call("get_record", model="flights.flight", id=2)
    absent = root.call("get_record", model="flights.flight", id=902)

    assert root.read("db://flights/flight/1") == {"id": 1, "number": 1000, "status": "on_time"}
    assert str(hidden).replace("2", "902") == str(absent).replace("902", "902")
    assert root.error(MODERN, "resources/read", {"uri": "db://flights/flight/2"})


def test_a_registration_that_refuses_one_object(root: DirectPeer, declared: Declared) -> None:
    class Refusing(ModelMCP):
        fields = ["number"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return super().has_view_permission(request, obj) and (obj is None or obj.pk != 2)

    declared.model(Flight, Refusing)

    assert root.read("db://flights/flight/1") == {"id": 1, "number": 1000}
    assert root.call("get_record", model="flights.flight", id=2)["isError"] is True


# Hooks that fail, and querysets that cannot be used.


def _raises(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the password is hunter2")


#: Those without which rows are shown all the same.
_HARMLESS = ("get_ordering", "get_description", "get_filter_fields", "get_search_fields")


def test_a_hook_that_fails_is_a_refusal_and_is_logged_by_name(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    for hook in ("has_view_permission", "get_queryset", "get_fields", "get_exclude", *_HARMLESS):
        declared.model(Flight, type("Broken", (ModelMCP,), {hook: _raises}))
        caplog.clear()

        elsewhere = [root.call("describe_models")]
        once = len([record for record in caplog.records if record.levelno == logging.ERROR])
        answers = [
            root.call("find_records", model="flights.flight", search="note", filter={"number": 1000}),
            root.call("describe_models", model="flights.flight"),
            root.request(MODERN, "resources/read", {"uri": "db://flights/flight/1"}),
        ]
        elsewhere += [
            root.result(MODERN, "tools/list"), root.result(MODERN, "resources/list"),
            root.result(MODERN, "resources/templates/list"), root.read("db://flights/airline"),
            root.call("find_records", model="flights.disruption"),
        ]  # fmt: skip
        declared.close()

        assert "hunter2" not in str(answers) + str(elsewhere)
        assert not any(answer.get("isError") for answer in elsewhere)
        assert f"Broken flights.flight>.{hook} failed" in caplog.text
        assert once == 1 or hook != "has_view_permission"
        assert "note 0" not in str(answers) or hook in _HARMLESS


def test_a_hook_of_an_admin_that_fails_is_a_refusal(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    for hook in ("has_view_permission", "get_queryset", "get_list_display", "get_fieldsets"):
        caplog.clear()
        declared.admin(Flight, type("Broken", (Admin,), {hook: _raises, "fields": ["notes"]}))

        answer = root.request(MODERN, "tools/call", {"name": "find_records", "arguments": {"model": "flights.flight"}})

        assert "note 0" not in str(answer) and "hunter2" not in str(answer)
        assert "ModelMCP flights.flight>" in caplog.text or hook == "get_fieldsets"
        assert root.read("db://flights/airline")


def test_a_queryset_that_cannot_be_filtered_shows_nothing(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    for cut in (lambda queryset: queryset[:2], lambda queryset: queryset.union(queryset)):

        def get_queryset(self: Any, request: HttpRequest, cut: Any = cut) -> Any:
            return cut(Admin.get_queryset(self, request).order_by())

        caplog.clear()
        declared.admin(Flight, type("Cut", (Admin,), {"get_queryset": get_queryset}))
        assert keys(root) == []
        assert root.error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})
        assert "returns a sliced or combined queryset" in caplog.text


# Users whom the admin lets in.


def test_a_site_that_lets_nobody_in_or_whose_permission_fails_shows_nothing(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for has_permission in (_raises, lambda request: False):
        monkeypatch.setattr(admin.site._wrapped, "has_permission", has_permission)  # type: ignore[attr-defined]
        assert "find_records" not in root.tools()
        assert root.error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})
    assert "has_view_permission failed" in caplog.text


def test_who_may_not_log_in_to_the_admin_sees_nothing_of_it(root: DirectPeer) -> None:
    customer = make_staff("customer", "flights.view_flight")
    customer.is_staff = False
    customer.save()

    assert DirectPeer(customer).tools() == ["delay_statistics"]


def test_without_the_bridge_there_is_what_is_registered(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airline)
    with override_settings(MCP={"EXPOSE_ADMIN": False}):
        declared.forget()
        models_ = root.call("describe_models")["structuredContent"]["models"]
        flight = root.error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})

    assert list(models_) == ["auth.group", "auth.user", "flights.airline"]
    assert flight["data"]["reason"] == "RESOURCE_NOT_FOUND"


def test_a_token_without_the_scope_read_sees_no_model(root: DirectPeer) -> None:
    actor = DirectPeer(root.user, "actions")

    assert actor.tools() == []
    assert actor.result(MODERN, "resources/list")["resources"] == []
    assert actor.error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})
    assert actor.error(MODERN, "resources/read", {"uri": "flights://about"})


# Keys that are relations.


def test_a_child_by_inheritance_is_seen_without_its_parent(root: DirectPeer) -> None:
    book = Book.objects.create(name="Emma", author="Austen")
    librarian = DirectPeer(make_staff("librarian", "shop.view_book"))

    lists = [librarian.result(MODERN, method) for method in ("resources/list", "resources/templates/list")]

    assert "db://shop/book" in str(lists)
    assert librarian.read(f"db://shop/book/{book.pk}")["author"] == "Austen"
    assert keys(librarian, "shop.book") == [book.pk]


def test_the_key_of_a_child_is_no_secret_though_its_parent_row_is_hidden(root: DirectPeer, declared: Declared) -> None:
    class NoBooks(Admin):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(book__isnull=True)

    declared.admin(Product, NoBooks)
    book = Book.objects.create(name="Emma", author="Austen")

    assert keys(root, "shop.book") == [book.pk]
    assert keys(root, "shop.book", filter={"pk": book.pk}) == [book.pk]
    assert root.read(f"db://shop/book/{book.pk}")["product_ptr"] == book.pk
    assert keys(root, "shop.product") == []


def test_a_queryset_for_the_project_holds_visible_rows(root: DirectPeer) -> None:
    nobody = make_staff("nobody")

    assert site.get_queryset(Flight, request_of(root.user)).count() == 4
    assert site.get_queryset(Flight, request_of(nobody)).count() == 0
    assert site.get_queryset(Plane, request_of(root.user, "actions")).count() == 0
