"""Misspelt declarations: each would be ignored and show too much, so it is refused where it is made."""

from __future__ import annotations

import abc
from collections.abc import Callable
from enum import Enum
from functools import cached_property, partial, partialmethod
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from rest_framework.serializers import ModelSerializer

from demo_project.flights.models import Airline, Flight
from mcp_django import MCPSite, ModelMCP, action, prompt, register, resource, tool
from mcp_django.bridge.declared.spelling import HOOKS, OPTIONS, stray_values
from tests.checks.conftest import of
from tests.support.declared import Declared

T = TypeVar("T")
Admin: Any = admin.ModelAdmin


def refusal(declare: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Why a declaration is refused; empty where it is made."""
    try:
        declare(*args, **options)
    except ImproperlyConfigured as error:
        return str(error)
    return ""


def registered(model_mcp: type[ModelMCP] | None = None, model: type[models.Model] = Flight, **options: Any) -> str:
    return refusal(MCPSite("spelling").register, model, model_mcp, **options)


def made(*bases: type, **names: Any) -> type[ModelMCP]:
    return type("FlightMCP", bases or (ModelMCP,), names)


def helper(*args: Any) -> Any:
    return None


# Classes that are all right.


class WithInner(ModelMCP):
    class Meta:
        verbose_name = "flight"

    class Field(Enum):
        NUMBER = "number"

    class Rows(models.TextChoices):
        ALL = "all"


class WithProperties(ModelMCP):
    @property
    def headline(self) -> str:
        return "flights"

    @cached_property
    def airlines(self) -> list[str]:
        return []

    @property
    def fields(self) -> list[str]:  # type: ignore[override]
        return ["number"]


class WithKindsOfHelpers(ModelMCP):
    def get_label(self, flight: Flight) -> str:
        return ""

    def is_late(self, flight: Flight) -> bool:
        return False

    @staticmethod
    def rounded(value: float) -> int:
        return round(value)

    @classmethod
    def build(cls) -> None:
        pass

    async def refresh(self) -> None:
        pass

    by_number = partialmethod(get_label)
    by_name = partial(helper, "name")


class Annotated(ModelMCP):
    exlude: ClassVar[list[str]] = ["a value of our own"]
    writeable: bool = False
    limit: "NotKnownHere" = 5  # type: ignore[name-defined]  # noqa: F821, UP037
    get_field: Any

    def get_field(self, name: str) -> Any:  # type: ignore[no-redef]
        return name


class AnnotatedBelow(Annotated):
    exlude = ["another"]
    writeable = True


class Scoped:
    """A mixin of a ModelMCP and of a ModelAdmin."""

    list_display = ("number",)
    readonly_fields = ("status",)

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(number=1)  # type: ignore[misc]

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def get_list_filter(self, request: Any) -> list[str]:
        return []


class Base(ModelMCP, abc.ABC):
    exclude = ("notes",)

    @abc.abstractmethod
    def owner_of(self, flight: Flight) -> str: ...


class OfBase(Base):
    def owner_of(self, flight: Flight) -> str:
        return ""


class Of(ModelMCP, Generic[T]):
    pass


VALID: dict[str, type[ModelMCP]] = {
    "an empty one": made(),
    "every option": made(**{name: getattr(ModelMCP, name) for name in OPTIONS}),
    "every hook": made(**dict.fromkeys(HOOKS, helper)),
    "the ways to override that are no options": made(get_computed=helper, get_object_fields=helper, names=helper),
    "inner classes": WithInner,
    "properties": WithProperties,
    "helpers of each kind": WithKindsOfHelpers,
    "names with an annotation": Annotated,
    "an annotation in the base": AnnotatedBelow,
    "a mixin that a ModelAdmin shares": made(Scoped, ModelMCP),
    "a mixin behind it": made(ModelMCP, Scoped),
    "an abstract base": OfBase,
    "a generic base": Of,
    "a column among fields": made(fields=["number", "write_field"], write_field=helper),
    "a column among extra fields": made(extra_fields=["get_field"], get_field=helper),
    "a column of a property": made(extra_fields=["row"], row=property(helper)),
    "a column of the admin's list": made(get_descriptions=helper),
    "private names": made(_exlude=["notes"], _fields=[], __exlude__=1),
    "constants": made(EXCLUDE=("notes",), FIELDS=("number",), exclude=("notes",)),
    "a helper that is nearly an option's name": made(match=helper, content=helper, review=helper, row=helper),
    "a helper that says it of one": made(is_writable=helper, get_queryset_of=helper, rows_of=helper, fields_of=helper),
    "a helper with a short name": made(a=helper, to=helper, pk_of=helper),
    "getters of other things": made(get_files=helper, get_include=helper, get_filters=helper, get_titles=helper),
    "helpers of other words": made(order_by=helper, searched=helper, watcher=helper, exclusions=helper),
    "helpers with a ModelAdmin's names": made(get_object=helper, message_user=helper, log_change=helper),
    "a lambda": made(get_queryset=lambda self, request: Flight.objects.none()),
    "a class that is made elsewhere": made(helper_class=ModelSerializer, kind=Flight),
    "a callable object": made(tools=partial(helper)),
    "a value of another name": made(title="Flights", threshold=15, cache={}),
    "a value of one letter": made(x=1),
    "values that end as options do": made(known_fields=(), my_ordering=(), is_rows=True, last_field=""),
    "names of other alphabets": made(größe=1, название=helper),
    "a second class of the same options": made(made(exclude=["notes"]), exclude=[]),
}  # fmt: skip


def test_valid_classes_are_registered(declared: Declared) -> None:
    declared.admin(Flight, type("FlightAdmin", (Admin,), {"list_display": ["number", "get_descriptions"]}))

    assert len(VALID) >= 30
    assert {name: registered(cls) for name, cls in VALID.items()} == dict.fromkeys(VALID, "")


class MisspeltMixin:
    get_querset = helper


MISSPELT: dict[str, tuple[type[ModelMCP], str]] = {
    "a letter too many": (made(writeable=False), "writable"),
    "a letter too few": (made(exlude=["notes"]), "exclude"),
    "a singular": (made(min_group_row=10), "min_group_rows"),
    "letters in another order": (made(feilds=["number"]), "fields"),
    "two wrong letters in a long name": (made(serialiser_clas=ModelSerializer), "serializer_class"),
    "a name as JavaScript writes it": (made(minGroupRows=10), "min_group_rows"),
    "a capital": (made(Exclude=["notes"]), "exclude"),
    "an underscore too many": (made(get_query_set=helper), "get_queryset"),
    "a hook": (made(get_queryet=helper), "get_queryset"),
    "a permission": (made(has_view_permision=helper), "has_view_permission"),
    "a getter": (made(get_writeable=helper), "get_writable"),
    "a getter of a class": (made(get_exlude=classmethod(helper)), "get_exclude"),
    "a hook that is a value": (made(get_field=None), "get_fields"),
    "a property": (made(consnet=property(helper)), "consent"),
    "a name in a mixin": (made(MisspeltMixin, ModelMCP), "get_queryset"),
    "a name in a mixin behind it": (made(ModelMCP, MisspeltMixin), "get_queryset"),
    "a name in a base": (made(made(use_admn=False)), "use_admin"),
    "a flag": (made(row=False), "rows"),
    "a plural": (made(previews="rollback"), "preview"),
    "beside the right name": (made(exclude=[], exlude=["notes"]), "exclude"),
}  # fmt: skip


def test_names_that_are_nearly_options_are_refused_with_the_one_that_is_meant() -> None:
    meant = {
        name: registered(cls).partition("Did you mean ")[2].partition("?")[0] for name, (cls, _) in MISSPELT.items()
    }

    assert meant == {name: expected for name, (_, expected) in MISSPELT.items()}
    assert registered(made(exlude=["notes"])) == (
        "FlightMCP.exlude is no option and no hook. Did you mean exclude? If the name is your own, annotate it, or "
        "take another."
    )


def test_each_option_and_hook_is_known_by_any_letter_that_is_missing() -> None:
    passed = {
        name
        for known in (*OPTIONS, *HOOKS)
        for name in (known[:place] + known[place + 1 :] for place in range(len(known)))
        if not hasattr(ModelMCP, name) and not hasattr(Admin, name) and not registered(made(**{name: None}))
    }

    assert passed == set()


def test_options_of_a_model_admin_are_refused_with_what_says_it_to_agents() -> None:
    assert registered(made(readonly_fields=["notes"])) == (
        "FlightMCP: readonly_fields is a name of ModelAdmin that no ModelMCP reads. Declare write_fields or "
        "get_write_fields."
    )
    instead = {
        "list_display": "fields or get_fields", "list_filter": "filter_fields or get_filter_fields",
        "has_delete_permission": "writable or get_writable", "save_model": "it in the ModelAdmin",
        "actions": "it in the ModelAdmin", "get_form": "it in the ModelAdmin",
    }  # fmt: skip
    for name, remedy in instead.items():
        value = helper if hasattr(Admin, name) and callable(getattr(Admin, name)) else []
        assert registered(made(**{name: value})).endswith(f"Declare {remedy}."), name
        assert registered(**{name: value}).startswith(f"flights.Flight: {name} is a name of ModelAdmin"), name


def test_a_keyword_of_register_that_is_no_option_is_refused_and_nothing_is_registered() -> None:
    site = MCPSite("spelling")

    with pytest.raises(ImproperlyConfigured, match=r"no option 'exlude'\. Did you mean exclude\? Allowed: fields, ext"):
        site.register([Airline, Flight], exlude=["notes"])

    assert not site.is_registered(Airline)
    for name in ("label", "bridged", "_fields", "threshold", "get_computed"):
        assert f"no option {name!r}." in registered(**{name: 1}), name


def test_a_keyword_may_be_a_column_or_an_attribute_of_the_class() -> None:
    class FlightMCP(ModelMCP):
        threshold: int = 15
        note = "of nobody"

    assert registered(extra_fields=["age"], age=helper) == registered(FlightMCP, threshold=20, note="of us") == ""
    assert "no option 'treshold'" in registered(FlightMCP, treshold=20)


def test_a_keyword_of_a_decorator_that_is_no_option_is_refused() -> None:
    wrong: list[tuple[Callable[..., Any], tuple[Any, ...], str, str]] = [
        (register, (Flight,), "sit", "site"),
        (tool, (), "permision", "permission"),
        (tool, (helper,), "readonly", "read_only"),
        (prompt, (), "permision", "permission"),
        (prompt, (helper,), "completes", "complete"),
        (resource, ("shop://x",), "mimetype", "mime_type"),
        (action, (), "read_onyl", "read_only"),
    ]
    for decorator, args, name, meant in wrong:
        said = refusal(decorator, *args, **{name: True})
        assert said.startswith(f"@{decorator.__name__}: no option {name!r}. Did you mean {meant}? Allowed: "), name


def test_a_site_that_overrides_nearly_a_hook_is_refused() -> None:
    def site_of(**names: Any) -> str:
        return refusal(type, "Tenants", (MCPSite,), names)

    assert site_of(call_context=helper, tenants={}, title="Ours", remember=helper, get_queryset=helper) == ""
    assert site_of(call_contxt=helper) == (
        "Tenants.call_contxt is no option and no hook. Did you mean call_context? If the name is your own, annotate "
        "it, or take another."
    )
    assert "Did you mean persons_of?" in site_of(person_of=helper)


def test_names_that_would_be_hidden_or_need_consent_are_refused_where_they_are_misspelt(declared: Declared) -> None:
    declared.admin(Flight, type("FlightAdmin", (Admin,), {"list_display": ["number", "note"]}))

    assert registered(exclude=["ntoes", "number"]) == (
        "FlightMCP.exclude names 'ntoes', which flights.flight does not have. Did you mean notes?"
    )
    # As the inventory calls a relation, and as code does.
    assert registered(model=ContentType, exclude=["logentry"]) == ""
    assert registered(model=ContentType, exclude=["logentry_set"]) == ""
    for fine in (["notes"], ["carrier_id"], ["note"], ["another"], ["get_status_display"], None, "notes", [1]):
        assert registered(exclude=fine) == "", fine
    assert registered(consent={"delte": "approve"}) == (
        "FlightMCP.consent: no operation 'delte'. Did you mean delete? Allowed: create, update, delete."
    )
    assert registered(consent={"publish": "ask"}) != ""
    assert registered(consent={"delete": "approve"}) == registered(consent="approve") == ""


def test_w031_a_value_that_nobody_reads(declared: Declared) -> None:
    values = {name: stray_values(Flight, cls) for name, cls in VALID.items()}
    declared.model(Flight, made(threshold=15, exclude=["notes"]))

    [message] = of("W031")

    assert message.msg == "FlightMCP.threshold is no option of a ModelMCP, so mcp_django does not read it."
    assert message.hint == "Correct or remove it. If the name is your own, annotate it, as threshold: Any."
    assert {name: strays for name, strays in values.items() if strays} == {
        "constants": ["EXCLUDE", "FIELDS"],
        "a value of another name": ["title", "threshold", "cache"],
        "a value of one letter": ["x"],
        "values that end as options do": ["known_fields", "my_ordering", "is_rows", "last_field"],
        "names of other alphabets": ["größe"],
    }
    assert stray_values(Flight, made(label="Flights", site=None)) == ["label", "site"]
