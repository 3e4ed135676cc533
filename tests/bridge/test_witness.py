"""Hooks are asked whether they look at the object. Where one does, a page has the columns of the list alone."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.db import models
from django.db.models.query import ModelIterable
from django.forms.models import model_to_dict
from django.utils.functional import cached_property

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.declared.witness import Looked, _heir_of
from tests.support.asking import DirectPeer, columns
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin
LIST = ["id", "number"]


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(4)
    return DirectPeer(User.objects.create_superuser("root"))


def by(look: Callable[[Any, Any, Any], Any]) -> dict[str, Any]:
    """A hook that asks a question before it says which fields there are."""

    def get_fields(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["number", "notes"] if look(self, request, obj) else ["number"]

    return {"get_fields": get_fields}


def flight_admin(**members: Any) -> Any:
    return type("Own", (Admin,), {"list_display": ["number"], **members})


def swallow(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except BaseException:  # noqa: BLE001 - as a project may write it
        return True
    return True


def put(owner: Any, name: str, value: Any) -> bool:
    setattr(owner, name, value)
    return True


NUMBERS = count()
#: Questions of a hook to (its ModelAdmin, the request, the object).
LOOKING: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "a column": lambda admin, request, obj: obj.status == "on_time",
    "the key": lambda admin, request, obj: obj.pk != 0,
    "a column if there is one": lambda admin, request, obj: getattr(obj, "status", None) is not None,
    "whether there is a column": lambda admin, request, obj: hasattr(obj, "status"),
    "a related row": lambda admin, request, obj: obj.origin is not None,
    "a method": lambda admin, request, obj: obj.get_status_display() != "",
    "its text": lambda admin, request, obj: str(obj) != "",
    "its text in another": lambda admin, request, obj: f"{obj}" != "",
    "its repr": lambda admin, request, obj: repr(obj) != "",
    "its hash": lambda admin, request, obj: hash(obj) != 0,
    "whether it equals another": lambda admin, request, obj: obj != Flight(pk=3),
    "whether it is among others": lambda admin, request, obj: obj not in [Flight(pk=3)],
    "whether it is found": lambda admin, request, obj: obj in Flight.objects.all() or True,
    "all of it": lambda admin, request, obj: vars(obj) != {},
    "all of it as a form has it": lambda admin, request, obj: model_to_dict(obj) != {},
    "a copy": lambda admin, request, obj: copy.copy(obj) is not None,
    "a deep copy": lambda admin, request, obj: copy.deepcopy(obj) is not None,
    "a pickle": lambda admin, request, obj: pickle.dumps(obj) != b"",
    "its related rows that are read": lambda admin, request, obj: obj._state.fields_cache == {},
    "its database": lambda admin, request, obj: obj._state.db in (None, "default"),
    "the class, past the witness": lambda admin, request, obj: type(obj) is Flight,
    "a column, past the witness": lambda admin, request, obj: object.__getattribute__(obj, "status") is not None,
    "a column, and catching everything": lambda admin, request, obj: swallow(lambda: obj.status),
    "setting a column": lambda admin, request, obj: put(obj, "status", "x"),
    "keeping it in the ModelAdmin": lambda admin, request, obj: put(admin, "row", obj),
    "keeping it in the request": lambda admin, request, obj: put(request, "row", obj),
    "what somebody kept in the ModelAdmin": lambda admin, request, obj: getattr(admin, "kept_row", None) is None,
    "what somebody kept in the request": lambda admin, request, obj: getattr(request, "kept_row", None) is None,
    "the path": lambda admin, request, obj: request.path != "",
    "the path below the script": lambda admin, request, obj: request.path_info != "",
    "the whole path": lambda admin, request, obj: request.get_full_path() != "",
    "the URL": lambda admin, request, obj: request.build_absolute_uri() != "",
    "the URL's view": lambda admin, request, obj: request.resolver_match is None,
    "the URL's parameters": lambda admin, request, obj: not request.GET,
    "what is sent": lambda admin, request, obj: not request.POST,
    "the body": lambda admin, request, obj: swallow(lambda: request.body),
    "the environment": lambda admin, request, obj: request.META != {},
    "the headers": lambda admin, request, obj: request.headers is not None,
    "the session": lambda admin, request, obj: swallow(lambda: request.session),
    "the call of the agent": lambda admin, request, obj: request.mcp is not None,
    "an accident": lambda admin, request, obj: 1 / 0,
    "chance": lambda admin, request, obj: next(NUMBERS) % 2,
}


def test_a_hook_that_looks_at_what_may_tell_one_object_from_another(root: DirectPeer, declared: Declared) -> None:
    shown = {}
    for what, look in LOOKING.items():
        declared.admin(Flight, flight_admin(**by(look)))
        shown[what] = columns(root)

    assert {what: names for what, names in shown.items() if names != LIST} == {}


NOT_LOOKING: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "nothing": lambda admin, request, obj: True,
    "whether there is one": lambda admin, request, obj: obj is not None,
    "whether there is one, as a truth": lambda admin, request, obj: bool(obj),
    "whether it is stored": lambda admin, request, obj: not obj._state.adding,
    "its model": lambda admin, request, obj: obj._meta.model_name == "flight",
    "its class": lambda admin, request, obj: obj.__class__ is Flight,
    "whether it is a flight": lambda admin, request, obj: isinstance(obj, Flight),
    "whether it is an airport": lambda admin, request, obj: not isinstance(obj, Airport),
    "the user": lambda admin, request, obj: request.user.is_superuser,
    "a permission": lambda admin, request, obj: request.user.has_perm("flights.view_flight"),
    "a permission of the object, of Django": lambda admin, request, obj: request.user.has_perm("flights.x", obj),
    "a permission as the ModelAdmin knows it": lambda admin, request, obj: admin.has_change_permission(request, obj),
    "the host": lambda admin, request, obj: request.get_host() != "" and not request.is_secure(),
    "an attribute of the class": lambda admin, request, obj: admin.list_display == ["number"],
    "what the ModelAdmin is made with": lambda admin, request, obj: admin.model is Flight and admin.opts is not None,
    "another model": lambda admin, request, obj: Airport.objects.exists() or True,
}


def test_a_hook_that_looks_at_nothing_answers_for_every_object(root: DirectPeer, declared: Declared) -> None:
    shown = {}
    for what, look in NOT_LOOKING.items():
        declared.admin(Flight, flight_admin(**by(look)))
        shown[what] = columns(root)

    assert {what: names for what, names in shown.items() if names != [*LIST, "notes"]} == {}


def kept_by_the_form(self: Any, request: Any, obj: Any = None, **options: Any) -> Any:
    self.row = obj
    return Admin.get_form(self, request, obj, **options)


class Lazily:
    """A form class that decides what it has when it is asked."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    @property
    def base_fields(self) -> Any:
        return dict.fromkeys(["number", "notes"] if self.obj.pk else ["number"])


class Backend(ModelBackend):
    """Knows permissions of objects, and looks past the witness."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return True


def foreign_field(self: Any, field: Any, request: Any, **options: Any) -> Any:
    return None if field.name == "notes" and hasattr(self, "row") else Admin.formfield_for_dbfield(
        self, field, request, **options
    )  # fmt: skip


#: Members of a ModelAdmin, in whose form the notes depend on the object.
DEPENDING: Mapping[str, dict[str, Any]] = {
    "get_fieldsets": {"get_fieldsets": lambda self, request, obj=None: [(None, {"fields": ["number", obj.status]})]},
    "a generator": {"get_fieldsets": lambda self, request, obj=None: ((None, {"fields": (obj.status,)}) for _ in "x")},
    "get_exclude": {"get_exclude": lambda self, request, obj=None: ["notes"] if obj.pk else []},
    "a form that keeps the object for its fields": {
        "get_form": kept_by_the_form, "formfield_for_dbfield": foreign_field,
    },
    "a form that decides lazily": {"get_form": lambda self, request, obj=None, **options: Lazily(obj)},
    "has_view_permission": {"has_view_permission": lambda self, request, obj=None: obj is None or obj.pk != 1},
    "a hook that raises": {"get_exclude": lambda self, request, obj=None: self.absent},
    "a permission of a foreign backend": {
        "get_exclude": lambda self, request, obj=None: [] if request.user.has_perm("x.y", obj) else ["notes"],
    },
    "permissions of a foreign backend": {
        "get_exclude": lambda self, request, obj=None: [] if request.user.has_perms(["x.y"], obj=obj) else ["notes"],
    },
    "a view that knows the object": {
        "change_view": Admin.change_view,
        "get_exclude": lambda self, request, obj=None: [],
    },
    "a view that finds the object": {
        "get_object": Admin.get_object, "get_exclude": lambda self, request, obj=None: [],
    },
    "rows of several classes": {
        "get_queryset": lambda self, request: iterated_otherwise(Admin.get_queryset(self, request)),
        "get_exclude": lambda self, request, obj=None: ["notes"] if type(obj).__name__ == "Charter" else [],
    },
}  # fmt: skip


def iterated_otherwise(queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """As django-polymorphic makes its rows."""
    queryset._iterable_class = type("OfSeveralClasses", (ModelIterable,), {})
    return queryset


def test_a_form_that_depends_on_the_object(root: DirectPeer, declared: Declared, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Backend"]
    found = {}
    for what, members in DEPENDING.items():
        declared.admin(Flight, flight_admin(**members))
        found[what] = "notes" in columns(root)

    assert {what for what, is_shown in found.items() if is_shown} == set()


def test_what_a_view_has_left_in_the_admin_and_what_was_there_from_the_start(
    root: DirectPeer, declared: Declared
) -> None:
    declared.admin(Flight, flight_admin(row=None, **by(lambda admin, request, obj: admin.row is None)))
    of_class = columns(root)
    admin.site._registry[Flight].row = Flight(pk=3)  # type: ignore[attr-defined]

    assert (of_class, columns(root)) == ([*LIST, "notes"], LIST)


def test_what_a_property_of_the_admin_has_kept(root: DirectPeer, declared: Declared) -> None:
    names = cached_property(lambda self: True)
    names.__set_name__(Admin, "is_open")
    declared.admin(Flight, flight_admin(is_open=names, **by(lambda admin, request, obj: admin.is_open)))
    assert admin.site._registry[Flight].is_open  # type: ignore[attr-defined]

    assert columns(root) == [*LIST, "notes"]


def test_the_verdict_is_for_nobody_else(root: DirectPeer, declared: Declared) -> None:
    """A hook may look at the object only for some users, and while there is something to look for."""
    declared.admin(
        Flight,
        flight_admin(**by(lambda admin, request, obj: request.user.is_superuser or not User.objects.filter(
            username="watcher").exists() or obj.pk)),
    )  # fmt: skip
    clerk = DirectPeer(make_staff("clerk", "flights.view_flight"))

    before = [columns(root), columns(clerk)]
    User.objects.create_user("watcher")

    assert before == [[*LIST, "notes"]] * 2
    assert [columns(root), columns(clerk)] == [[*LIST, "notes"], LIST]


def test_permissions_of_objects_that_do_not_look_are_asked_once(root: DirectPeer, declared: Declared) -> None:
    """The rows are then counted and grouped."""
    asked: list[Any] = []

    def has_view_permission(self: Any, request: Any, obj: Any = None) -> bool:
        asked.append(obj)
        return bool(request.user.is_superuser)

    declared.admin(Flight, flight_admin(has_view_permission=has_view_permission))

    assert root.call("aggregate_records", model="flights.flight")["isError"] is False
    assert [type(obj) is Flight for obj in asked if obj is not None] == [False, True]
    assert columns(root) != LIST


def test_a_permission_to_change_by_the_object_takes_no_field_from_the_page(
    root: DirectPeer, declared: Declared
) -> None:
    """It says what can be edited. A field that cannot be edited is shown all the same."""
    declared.admin(
        Flight,
        flight_admin(
            has_change_permission=lambda self, request, obj=None: obj is None or obj.status == "open",
            formfield_for_foreignkey=lambda self, field, request, **options: field.formfield(),
        ),
    )

    assert "notes" in columns(root)


def test_a_hook_that_makes_fields_is_asked_as_django_asks_it(root: DirectPeer, declared: Declared) -> None:
    def by_name(self: Any, db_field: Any, **kwargs: Any) -> Any:
        return None if db_field.name == "notes" else Admin.formfield_for_dbfield(self, db_field, **kwargs)

    declared.admin(Flight, flight_admin(fields=["number", "notes", "status"], formfield_for_dbfield=by_name))

    assert columns(root, "flights.flight") == [*LIST, "status"]


def test_who_may_change_sees_as_in_the_admin(db: None, declared: Declared) -> None:
    declared.admin(Flight, flight_admin(has_change_permission=lambda self, request, obj=None: request.user.is_staff))
    stranger = DirectPeer(make_staff("stranger"))

    assert "notes" in columns(stranger)


def test_the_rows_are_asked_for_once_though_their_class_is_looked_at(root: DirectPeer, declared: Declared) -> None:
    asked = []

    def get_queryset(self: Any, request: Any) -> Any:
        asked.append(list(Airport.objects.values_list("pk", flat=True)))
        return Admin.get_queryset(self, request)

    hooks = {
        "get_fieldsets": lambda self, request, obj=None: [(None, {"fields": ["number", "notes"]})],
        "get_readonly_fields": lambda self, request, obj=None: [],
        "has_view_permission": lambda self, request, obj=None: True,
    }
    declared.admin(Flight, flight_admin(get_queryset=get_queryset, **hooks))

    for _ in range(2):
        found = root.call("find_records", model="flights.flight", filter={"notes": ""})
        assert found["structuredContent"]["columns"] == ["id", "number", "notes"]
    assert len(asked) == 2


@pytest.mark.parametrize(("rows", "more"), [(lambda rows: rows, ["notes"]), (lambda rows: 1 / 0, [])])
def test_rows_whose_class_cannot_be_looked_at_are_of_any(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture, rows: Any, more: list[str]
) -> None:
    hooks = {"get_fieldsets": lambda self, request, obj=None: [(None, {"fields": ["number", "notes"]})]}
    declared.admin(Flight, flight_admin(get_queryset=lambda self, request: rows(Flight.objects), **hooks))

    assert columns(root, "flights.flight") == [*LIST, *more]


def test_asking_leaves_no_trace(root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[type] = []

    class Base(models.Model):
        class Meta:
            abstract = True
            app_label = "flights"

        def __init_subclass__(cls, **options: Any) -> None:
            heard.append(cls)

    declared.admin(Flight, flight_admin(**by(lambda admin, request, obj: obj.pk)))
    before = list(Flight._meta.apps.get_models())
    _heir_of(Base, {})
    columns(root)

    assert heard == [] and list(Flight._meta.apps.get_models()) == before
    assert caplog.text == ""
    assert not issubclass(Looked, Exception)
