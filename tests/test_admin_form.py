"""The fields of a form, for every object and for one, and the leaks that hooks by object could open."""

from __future__ import annotations

from functools import wraps
from itertools import product
from types import ModuleType
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.db import models
from django.http import HttpRequest

from demo_project.flights.models import Flight
from mcp_django import ModelMCP, ignores_object, site
from mcp_django.console.review import inventory
from tests.shop.models import Document, Person, Product, Tag
from tests.support.asking import DirectPeer, columns, described, errors_of
from tests.support.data import make_flights
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(4)
    return DirectPeer(User.objects.create_superuser("root"))


def record(peer: DirectPeer, model: Any, key: Any, **asked: Any) -> Any:
    return peer.call("get_record", model=model, id=str(key), **asked)["structuredContent"]


def refused(peer: DirectPeer, name: str) -> list[bool]:
    """Whether filters, orders, aggregates and pages refuse the field of a flight."""
    asked: list[dict[str, Any]] = [
        {"filter": {name: "x"}}, {"filter": {f"{name}__startswith": "x"}}, {"order_by": [name]}, {"fields": [name]},
    ]  # fmt: skip
    answers = [peer.call("find_records", model="flights.flight", **one) for one in asked]
    answers.append(peer.call("aggregate_records", model="flights.flight", group_by=[name]))
    answers.append(peer.call("aggregate_records", model="flights.flight", measures=[f"max:{name}"]))
    return [answer["isError"] for answer in answers]


# Hooks that decide by the object.


class ByObject(Admin):
    """Shows the notes of the second flight alone."""

    list_display = ["number"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        assert obj is not None, "without an object it is the form for adding"
        return ["number", "notes"] if obj.pk == 2 else ["number"]


def test_a_page_shows_the_columns_of_the_list_alone_and_get_record_asks_the_hook_with_the_row(
    root: DirectPeer, declared: Declared
) -> None:
    declared.admin(Flight, ByObject)

    assert columns(root) == ["id", "number"]
    assert record(root, "flights.flight", 1) == {"id": 1, "number": 1000}
    assert record(root, "flights.flight", 2) == {"id": 2, "number": 1001, "notes": "note 1"}
    assert record(root, "flights.flight", 2, fields=["notes"]) == {"id": 2, "notes": "note 1"}
    assert root.read("db://flights/flight/2")["notes"] == "note 1"
    assert root.read("db://flights/flight.schema")["additionalProperties"] is True
    told = inventory.build(site)["models"]["flights.flight"]
    assert told["by_object"] == ["ByObject.get_fields"]
    assert told["hidden"]["notes"] == "ByObject.get_fields decides by the object, so only get_record shows it"


def test_a_field_that_a_hook_hides_of_other_rows_is_found_by_no_query(root: DirectPeer, declared: Declared) -> None:
    class Searching(ByObject):
        search_fields = ["notes"]

    declared.admin(Flight, Searching)

    assert all(refused(root, "notes"))
    assert errors_of(root.call("find_records", model="flights.flight", search="note"))
    assert errors_of(root.call("get_record", model="flights.flight", id="1", fields=["notes"]))
    assert "notes" not in str(described(root))


def test_a_hook_that_fails_with_the_row_leaves_the_columns_of_the_list(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    def get_fieldsets(self: Any, request: HttpRequest, obj: Any = None) -> Any:
        raise RuntimeError("no form today")

    declared.admin(Flight, type("Failing", (ByObject,), {"get_fieldsets": get_fieldsets}))

    assert record(root, "flights.flight", 2) == {"id": 2, "number": 1001}
    assert "get_object_fields failed" in caplog.text


HOOKS: list[dict[str, Any]] = [
    {"get_form": lambda self, request, obj=None, **kwargs: Admin.get_form(self, request, obj, **kwargs)},
    {"get_exclude": lambda self, request, obj=None: []},
    {"get_fieldsets": lambda self, request, obj=None: [(None, {"fields": ["number", "notes"]})]},
    {"has_view_permission": lambda self, request, obj=None: True},
    {"formfield_for_dbfield": lambda self, field, request, **kwargs: field.formfield()},
    {"formfield_for_foreignkey": lambda self, field, request, **kwargs: field.formfield()},
]  # fmt: skip
LOOKING: list[dict[str, Any]] = [
    {"get_form": lambda self, request, obj=None, **kwargs: obj.pk and Admin.get_form(self, request, obj, **kwargs)},
    {"get_exclude": lambda self, request, obj=None: obj.pk and []},
    {"get_fieldsets": lambda self, request, obj=None: obj.pk and [(None, {"fields": ["number", "notes"]})]},
    {"has_view_permission": lambda self, request, obj=None: obj is None or bool(obj.pk)},
    {"formfield_for_dbfield": lambda self, field, request, **kwargs: request.path and field.formfield()},
    {"formfield_for_foreignkey": lambda self, field, request, **kwargs: request.path and field.formfield()},
]  # fmt: skip


def test_any_hook_of_the_form_may_decide_by_the_object(root: DirectPeer, declared: Declared) -> None:
    for hook in (*LOOKING, *HOOKS):
        declared.admin(Flight, type("Overriding", (Admin,), {"list_display": ["number"], **hook}))
        assert (columns(root) == ["id", "number"]) is (hook in LOOKING), hook
        assert record(root, "flights.flight", 1)["notes"] == "note 0", hook


def test_what_the_form_of_a_row_excludes_is_not_in_its_record(root: DirectPeer, declared: Declared) -> None:
    class Excluding(Admin):
        list_display = ["number"]
        fields = ["number", "status", "notes"]

        def get_exclude(self, request: HttpRequest, obj: Any = None) -> Any:
            return ["notes"] if obj.pk == 1 else []

        def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return False

    declared.admin(Flight, Excluding)

    assert list(record(root, "flights.flight", 1)) == ["id", "number", "status"]
    assert list(record(root, "flights.flight", 2)) == ["id", "number", "status", "notes"]


def test_a_field_of_the_form_that_a_hook_takes_away_is_not_in_the_record(root: DirectPeer, declared: Declared) -> None:
    def formfield_for_dbfield(self: Any, field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return None if field.name == "notes" else Admin.formfield_for_dbfield(self, field, request, **kwargs)

    declared.admin(Flight, type("Taking", (Admin,), {"formfield_for_dbfield": formfield_for_dbfield}))

    assert "status" in record(root, "flights.flight", 1)
    assert "notes" not in record(root, "flights.flight", 1)


def test_read_only_fields_by_object_are_in_the_record_alone(root: DirectPeer, declared: Declared) -> None:
    class Reading(Admin):
        list_display = ["name"]
        exclude = ["details"]

        def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
            return ["blob"] if obj.name == "open" else []

    declared.admin(Product, Reading)
    shown = Product.objects.create(name="open", blob=b"x")
    hidden = Product.objects.create(name="closed", blob=b"y")

    assert "stock" in columns(root, "shop.product") and "blob" not in columns(root, "shop.product")
    assert "blob" not in record(root, "shop.product", hidden.pk)
    assert "blob" in record(root, "shop.product", shown.pk)


def test_a_file_is_read_where_the_form_of_its_row_shows_it(root: DirectPeer, declared: Declared) -> None:
    class Files(Admin):
        list_display = ["name"]

        def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
            return ["name", "scan"] if obj.name == "open" else ["name"]

        def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
            return ["scan"]

    declared.admin(Document, Files)
    for name in ("open", "closed"):
        Document.objects.create(name=name, scan=b"secret")

    link = record(root, "shop.document", "open")["scan"]
    assert link == "db://shop/document/open/scan"
    assert root.result("2026-07-28", "resources/read", {"uri": link})["contents"][0]["blob"]
    assert root.error("2026-07-28", "resources/read", {"uri": link.replace("open", "closed")})


def test_a_registration_that_decides_by_object_shows_the_form_of_the_row_alone(
    root: DirectPeer, declared: Declared
) -> None:
    class Deciding(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk == 1

    declared.admin(Flight, type("Plain", (Admin,), {"list_display": ["number"]}))
    declared.model(Flight, Deciding)

    assert columns(root) == ["id", "number"]
    assert "notes" in record(root, "flights.flight", 1)
    assert all(refused(root, "notes"))


def test_the_permission_to_change_says_nothing_about_what_is_viewed(root: DirectPeer, declared: Declared) -> None:
    declared.admin(Flight, type("Locked", (Admin,), {"has_change_permission": lambda self, request, obj=None: False}))

    assert "notes" in columns(root)
    assert root.call("aggregate_records", model="flights.flight")["isError"] is False


# Hooks that do not decide by the object.


def test_object_permissions_false_shows_the_form_in_pages_too(root: DirectPeer, declared: Declared) -> None:
    class SameForAll(Admin):
        list_display = ["number"]

        def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
            assert obj is not None
            return ["number", "notes"] if request.user.is_superuser else ["number"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return True

    declared.admin(Flight, SameForAll)
    declared.model(Flight, object_permissions=False)

    assert columns(root) == ["id", "number", "notes"]
    assert not any(refused(root, "notes"))
    assert columns(DirectPeer(User.objects.create_user("ada", is_staff=True))) == ["id", "number"]


def test_a_decorated_hook_ignores_the_object(root: DirectPeer, declared: Declared) -> None:
    @ignores_object
    def get_exclude(self: Any, request: HttpRequest, obj: Any = None) -> Any:
        return ["tailnum"]

    declared.admin(Flight, type("Decorated", (Admin,), {"get_exclude": get_exclude}))

    assert "notes" in columns(root) and "tailnum" not in columns(root)


def test_a_function_around_a_decorated_hook_is_not_decorated(root: DirectPeer, declared: Declared) -> None:
    @ignores_object
    def get_exclude(self: Any, request: HttpRequest, obj: Any = None) -> Any:
        return []

    @wraps(get_exclude)
    def around(self: Any, request: HttpRequest, obj: Any = None) -> Any:
        return get_exclude(self, request, obj.pk)

    declared.admin(Flight, type("Wrapped", (Admin,), {"list_display": ["number"], "get_exclude": around}))

    assert columns(root) == ["id", "number"]


def test_the_admin_of_users_shows_its_form_and_no_password(root: DirectPeer) -> None:
    names = columns(root, "auth.user")
    relations = described(root, "auth.user")["relations"]

    assert {"username", "is_active", "is_superuser", "last_login", "date_joined"} <= set(names)
    assert "auth.group" in relations.values()
    assert not {"password", "password1"} & set(names)
    assert root.call("find_records", model="auth.user", filter={"groups__name": "x"})["isError"] is False


def test_a_wrapper_around_a_hook_of_django_and_a_patch_of_it_are_not_taken_for_it(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    @wraps(UserAdmin.get_fieldsets)
    def get_fieldsets(self: Any, request: HttpRequest, obj: Any = None) -> Any:
        return obj.pk and UserAdmin.get_fieldsets(self, request, obj)

    declared.admin(User, type("Wrapped", (UserAdmin,), {"list_display": ["username"], "get_fieldsets": get_fieldsets}))
    assert columns(root, "auth.user") == ["id", "username"]
    monkeypatch.setattr(UserAdmin, "get_fieldsets", lambda self, request, obj=None: obj.pk and self.fieldsets)
    declared.admin(User, type("Patched", (UserAdmin,), {"list_display": ["username"]}))
    assert columns(root, "auth.user") == ["id", "username"]


def test_a_hook_of_django_that_calls_one_of_the_project_is_that_of_the_project(
    root: DirectPeer, declared: Declared
) -> None:
    class Between(Admin):
        def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
            return super().get_fieldsets(request, obj if obj.pk else None)

    declared.admin(User, type("Mixed", (UserAdmin, Between), {"list_display": ["username"]}))

    assert columns(root, "auth.user") == ["id", "username"]
    assert inventory.build(site)["models"]["auth.user"]["by_object"] == [f"{Between.__qualname__}.get_fieldsets"]


# Known packages.


def package(name: str, source: str) -> Any:
    """A module as the package has it."""
    module = ModuleType(name)
    exec(f"from django.contrib import admin\n{source}", vars(module))
    return module


KNOWN = """
class Known(admin.ModelAdmin):
    def formfield_for_foreignkey(self, db_field, request, **kwargs):
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_form(self, request, obj=None, **kwargs):
        return super().get_form(request, obj, **kwargs)
"""


def test_hooks_of_a_package_are_known_one_by_one(root: DirectPeer, declared: Declared) -> None:
    known = {
        "mptt.admin": "formfield_for_foreignkey", "parler.admin": "get_form",
        "polymorphic.admin.childadmin": "get_form", "unfold.mixins.base_model_admin": "formfield_for_foreignkey",
        "unknown.admin": "",
    }  # fmt: skip
    for name, hook in product(known, ("formfield_for_foreignkey", "get_form")):
        written = vars(package(name, KNOWN).Known)[hook]
        cls = type("Kept", (Admin,), {"__module__": name, hook: written, "list_display": ["number"]})
        declared.admin(Flight, type("Own", (cls,), {}))
        assert (columns(root) == ["id", "number"]) is (hook != known[name]), (name, hook)


def test_a_parent_of_polymorphic_models_has_no_form_of_its_own(root: DirectPeer, declared: Declared) -> None:
    module = package("polymorphic.admin.parentadmin", "class Parent(admin.ModelAdmin):\n    pass")
    declared.admin(Flight, type("Own", (module.Parent,), {"list_display": ["number"]}))

    assert columns(root) == ["id", "number"]
    assert record(root, "flights.flight", 1) == {"id": 1, "number": 1000}


def test_a_model_whose_admin_has_no_list_is_hidden_and_one_with_more_pages_is_shown(
    root: DirectPeer, declared: Declared
) -> None:
    declared.admin(Flight, type("More", (Admin,), {"get_urls": lambda self: [*Admin.get_urls(self)]}))
    assert "flights.flight" in site.models
    declared.admin(Flight, type("Other", (Admin,), {"get_urls": lambda self: []}))
    assert "flights.flight" not in site.models
    assert inventory.build(site)["left_out"]["flights.flight"].startswith("its ModelAdmin has no list; ")


def test_a_default_of_a_field_is_not_asked_for_what_the_form_shows(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def default() -> Any:
        raise AssertionError("a default may ask the database")

    @ignores_object
    def get_exclude(self: Any, request: HttpRequest, obj: Any = None) -> Any:
        given.append((obj.details, obj.stock))
        return ["name"]

    monkeypatch.setitem(vars(Product._meta.get_field("details")), "_get_default", default)
    declared.admin(Product, type("Excluding", (Admin,), {"list_display": ["stock"], "get_exclude": get_exclude}))

    names = columns(root, "shop.product")

    assert "price" in names and "name" not in names
    assert set(given) == {(None, 0)}


def test_no_object_is_made_for_a_form_whose_hooks_are_djangos_own(root: DirectPeer) -> None:
    made: list[Any] = []

    def note(sender: Any, **_: Any) -> None:
        made.append(sender)

    models.signals.pre_init.connect(note, sender=Flight)
    try:
        names = columns(root)
    finally:
        models.signals.pre_init.disconnect(note, sender=Flight)

    assert "notes" in names
    assert made == []


def test_a_hook_of_the_project_is_always_given_an_object(root: DirectPeer, declared: Declared) -> None:
    class Excluding(Admin):
        @ignores_object
        def get_exclude(self, request: HttpRequest, obj: Any = None) -> Any:
            assert isinstance(obj, Flight), "without an object it is the form for adding"
            return ["notes"]

    declared.admin(Flight, Excluding)

    assert "tailnum" in columns(root)
    assert "notes" not in columns(root)


# What a form shows beside columns.


def test_a_many_to_many_field_of_the_form_is_a_relation_and_in_the_record(root: DirectPeer, declared: Declared) -> None:
    product = Product.objects.create(name="ball")
    product.tags.set([Tag.objects.create(name="red"), Tag.objects.create(name="round")])
    schema = root.read("db://shop/product.schema")

    assert "tags" not in columns(root, "shop.product")
    assert described(root, "shop.product")["relations"] == {"tags": "shop.tag"}
    assert record(root, "shop.product", product.pk)["tags"] == ["red", "round"]
    assert "tags" not in record(root, "shop.product", product.pk, fields=["name"])
    assert schema["properties"]["tags"] == {
        "type": "array", "items": {"type": ["string", "null"]},
        "description": "Primary keys of shop.tag, at most 20.",
    }  # fmt: skip
    assert set(schema["required"]) == set(record(root, "shop.product", product.pk))


def test_a_many_to_many_field_that_the_form_leaves_out_is_hidden(root: DirectPeer, declared: Declared) -> None:
    declared.admin(Product, type("Without", (Admin,), {"exclude": ["tags"]}))
    product = Product.objects.create(name="ball")

    assert "tags" not in record(root, "shop.product", product.pk)
    assert errors_of(root.call("find_records", model="shop.product", filter={"tags__name": "red"}))


def test_rows_that_a_many_to_many_field_leads_to_are_hidden_with_their_model(
    root: DirectPeer, declared: Declared
) -> None:
    class Some(Admin):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).exclude(name="secret")

    declared.admin(Tag, Some)
    product = Product.objects.create(name="ball")
    product.tags.set([Tag.objects.create(name="red"), Tag.objects.create(name="secret")])

    assert record(root, "shop.product", product.pk)["tags"] == ["red"]


def test_a_read_only_method_of_the_form_can_be_asked_for(root: DirectPeer, declared: Declared) -> None:
    class Showing(Admin):
        list_display = ["number"]
        readonly_fields = ["loud", "api_token"]

        @admin.display(description="Loud!")
        def loud(self, obj: Flight) -> str:
            return f"{obj.number}!"

        def api_token(self, obj: Flight) -> str:
            return "hunter2"

    declared.admin(Flight, Showing)

    assert described(root)["computed"] == {"loud": {"title": "Loud!"}}
    assert record(root, "flights.flight", 1, fields=["loud"]) == {"id": 1, "loud": "1000!"}


def test_the_fields_of_a_form_of_the_projects_own_are_those_that_it_leaves(
    root: DirectPeer, declared: Declared
) -> None:
    class Form(forms.ModelForm[Person]):
        nickname = forms.CharField()

        class Meta:
            model = Person
            exclude = ["badge"]  # noqa: DJ006

    declared.admin(Person, type("Own", (Admin,), {"form": Form}))

    assert columns(root, "shop.person") == ["id", "name"]


def test_groups_show_their_permissions_only_to_whom_may_see_permissions(root: DirectPeer) -> None:
    group = Group.objects.create(name="crew")

    assert record(root, "auth.group", group.pk) == {"id": group.pk, "name": "crew"}
