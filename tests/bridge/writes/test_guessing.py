"""Guessing what hidden rows hold, by values that must be unique: a form has to say that one is taken, so they count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin, TabularInline
from django.db import models
from django.db.models.functions import Lower

from demo_project.flights.models import Flight
from mcp_django.access.throttling import throttles
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken, Throttle
from tests.bridge.writes.conftest import Writer, errors_of
from tests.bridge.writes.hiding import HIDDEN, OpenOnly, PartForm, declare_hiding
from tests.shop.models import Gadget, Gizmo, Making, Part, SpareGadget, Supplier, Warranty
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import MODERN, Message

pytestmark = pytest.mark.django_db

SUPPLIER, GADGET = "shop.supplier", "shop.gadget"
#: A second of an hour that has 1,200 seconds left.
NOW, LEFT = 1_800_002_400, 1_200
TAKEN = [("values.code", "this value cannot be used.")]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A period does not end during a test."""
    monkeypatch.setattr("mcp_django.exchange.rates.now", lambda: NOW)


@pytest.fixture
def seen(declared: Declared) -> Supplier:
    """A supplier that is seen, beside two that are hidden."""
    declare_hiding(declared)
    form = type("Form", (PartForm,), {"Meta": type("Meta", (), {"model": Supplier, "fields": ["name", "code"]})})
    declared.admin(Supplier, type("Admin", (OpenOnly,), {"form": form, "fields": ["name", "code", "rating"]}))
    for code in ("H7", "H77"):
        Supplier.objects.create(name=HIDDEN, code=code, rating=2, open=False)
    return Supplier.objects.create(name="Ann", code="A", rating=1)


class SomeGadgets(ModelAdmin[Any]):
    """Shows some rows of gadgets, their proxies and their children."""

    fields = ("name", "code")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(name=HIDDEN)


def limit(settings: Any, rate: str | None = "1000/hour") -> None:
    """Limits new unique values and nothing else."""
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"unique": rate, "refusals": None}}}


def spent() -> int:
    return sum(Throttle.objects.values_list("count", flat=True))


def throttled(agent: Writer, tool: str, **arguments: Any) -> Message:
    error: Message = agent.error(MODERN, "tools/call", {"name": tool, "arguments": arguments})
    return error


def new(code: str, **more: Any) -> Message:
    return {"model": SUPPLIER, "values": {"name": "Bob", "code": code, **more}}


# The budget.


def test_many_rows_in_one_call_count_each_value_before_a_form_tells_of_it(
    seen: Supplier, root: Writer, settings: Any
) -> None:
    limit(settings, "3/hour")
    rows = [{"name": "Bob", "code": code} for code in ("N1", "H7", "N2", "H77")]

    told = throttled(root, "create_records", model=SUPPLIER, rows=rows, on_error="skip")

    assert spent() == 3 and told["code"] and "H77" not in str(told)
    assert throttled(root, "update_records", model=SUPPLIER, each=[{"id": str(seen.pk), "code": "N3"}])["code"]


@pytest.mark.every_database
def test_trying_one_code_after_the_other_finds_no_hidden_one_beyond_the_budget(root: Writer, seen: Supplier) -> None:
    def guesses(number: int) -> tuple[str, Message]:
        key, code = str(seen.pk), f"H{number}"
        return [
            ("create_record", new(code)),
            ("update_record", {"model": SUPPLIER, "id": key, "values": {"code": code}}),
            ("preview_change", {"operation": "create", **new(code)}),
        ][number % 3]

    told = [root.told(tool, **arguments) for tool, arguments in map(guesses, range(60))]
    refused = [throttled(root, tool, **arguments)["data"]["kind"] for tool, arguments in map(guesses, range(60, 80))]

    assert [number for number, text in enumerate(told) if errors_of(text) == TAKEN] == [7]
    assert refused == ["unique"] * 20


@pytest.mark.every_database
def test_a_used_up_budget_names_the_model_and_when_to_try_again(root: Writer, seen: Supplier, settings: Any) -> None:
    limit(settings, "1/hour")
    root.ask("create_record", **new("N1"))

    error = throttled(root, "create_record", **new("N2"))

    assert error["message"].startswith(
        f"Your budget of 1 new unique value an hour for shop.supplier is used up. Try again in {LEFT} seconds"
    )
    data = error["data"]
    assert (data["reason"], data["kind"], data["limit"]) == ("THROTTLED", "unique", "1/hour")
    assert data["retryAfter"] == LEFT


def test_more_new_values_in_one_call_than_an_hour_has_are_refused_with_the_remedy(
    root: Writer, seen: Supplier, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(settings, "1/hour")
    monkeypatch.setattr(Supplier._meta, "unique_together", (("name", "rating"),))

    error = throttled(root, "create_record", **new("N1"))

    said = "Your budget of 1 new unique value an hour for shop.supplier is less than the 2 of one call: give fewer."
    assert error["message"].startswith(said)
    assert spent() == 0


@pytest.mark.every_database
def test_a_form_that_fails_on_purpose_hides_no_guess(root: Writer, seen: Supplier, settings: Any) -> None:
    limit(settings)

    for code in ("H7", "N2"):
        root.refused("create_record", **{**new(code), "values": {"name": "x" * 51, "code": code}})
        root.refused("update_record", model=SUPPLIER, id=str(seen.pk), values={"name": "x" * 51, "code": code})

    assert spent() == 4


def test_a_value_that_no_form_has_seen_tells_nothing_and_is_free(root: Writer, seen: Supplier, settings: Any) -> None:
    limit(settings)

    taken, free = (root.refused("create_record", **new(code, rating="many")) for code in ("H7", "N2"))

    assert taken == free
    assert spent() == 0


@pytest.mark.every_database
def test_the_present_value_given_back_is_free_and_so_are_values_that_need_not_be_unique(
    root: Writer, seen: Supplier, settings: Any
) -> None:
    limit(settings)

    for values in ({"code": "A", "name": "Anna"}, {"rating": 4}):
        root.ask("update_record", model=SUPPLIER, id=str(seen.pk), values=values)
    root.ask("create_record", model=SUPPLIER, values={"name": "Bob"})
    root.ask("preview_change", operation="delete", model=SUPPLIER, ids=[str(seen.pk)])

    assert spent() == 0


@pytest.mark.every_database
def test_a_confirmed_change_counts_once(root: Writer, seen: Supplier, settings: Any) -> None:
    limit(settings, "1/hour")

    made = root.confirmed("create_record", **new("N1"))

    assert made["status"] == "applied"
    assert spent() == 1


def test_a_made_up_confirmation_is_no_free_guess(root: Writer, seen: Supplier, settings: Any) -> None:
    limit(settings)
    shown = root.ask("create_record", **new("N1"))

    taken, free = (root.refused("create_record", **new(code), confirm=shown["confirm"]) for code in ("H7", "N2"))

    assert taken == free
    assert spent() == 1


def test_other_changes_of_the_model_and_other_models_go_on(
    root: Writer, seen: Supplier, settings: Any, declared: Declared
) -> None:
    declared.admin(Gadget, SomeGadgets)
    limit(settings, "1/hour")
    root.ask("create_record", **new("N1"))

    error = throttled(root, "create_record", **new("N2"))
    renamed = root.confirmed("update_record", model=SUPPLIER, id=str(seen.pk), values={"name": "Anna"})
    other = root.ask("create_record", model=GADGET, values={"name": "x", "code": "N2"})
    # It has a budget of its own.
    of_other = throttled(root, "create_record", model=GADGET, values={"name": "x", "code": "N3"})

    assert (error["data"]["kind"], of_other["data"]["kind"]) == ("unique", "unique")
    assert (renamed["status"], other["status"]) == ("applied", "preview")


def test_a_child_and_a_proxy_of_a_model_bring_no_budget_of_their_own(
    root: Writer, settings: Any, declared: Declared
) -> None:
    for model in (Gadget, Gizmo, SpareGadget):
        declared.admin(model, SomeGadgets)
    limit(settings, "2/hour")
    root.ask("create_record", model="shop.gizmo", values={"name": "x", "code": "N1"})
    root.ask("create_record", model="shop.sparegadget", values={"name": "x", "code": "N2"})

    said = [
        throttled(root, "create_record", model=label, values={"name": "x", "code": "N3"})["message"]
        for label in ("shop.gizmo", "shop.sparegadget", GADGET)
    ]

    assert [text.partition(" is used up")[0].rpartition(" ")[2] for text in said] == [
        "shop.gizmo", "shop.sparegadget", GADGET,
    ]  # fmt: skip


# Whose budget it is.


def test_another_token_of_the_user_has_no_guesses_of_its_own_and_another_user_has(
    writer: Callable[..., Writer], users: Users, seen: Supplier, settings: Any
) -> None:
    limit(settings, "1/hour")
    users.ops.is_superuser = True
    users.ops.save()
    writer(users.admin).ask("create_record", **new("N1"))

    again = throttled(writer(users.admin, "read", "write"), "create_record", **new("N2"))
    other = writer(users.ops).ask("create_record", **new("N2"))

    assert again["data"]["kind"] == "unique"
    assert other["status"] == "preview"


def test_a_token_may_have_fewer_guesses_than_its_user(users: Users) -> None:
    token, _ = AccessToken.objects.create_token(user=users.admin, scopes=["read"], limits={"unique": "2/day"})
    principal = Principal(users.admin, frozenset(["read"]), token, token.pk)

    budget = throttles.write_budget_of(principal, from_settings().for_principal(principal))

    assert {(one.subject, str(one.rate)) for one in budget if one.kind == "unique"} == {
        ("user", "60/hour"), ("token", "2/day"),
    }  # fmt: skip


@pytest.mark.every_database
def test_who_sees_all_rows_and_the_fields_is_not_counted(root: Writer, settings: Any, declared: Declared) -> None:
    declared.admin(Supplier, type("Admin", (ModelAdmin,), {"form": PartForm, "fields": ["name", "code"]}))
    limit(settings, "1/hour")

    told = [root.ask("create_record", **new(f"N{number}"))["status"] for number in range(3)]

    assert told == ["preview"] * 3
    assert spent() == 0


# What must be unique.


def constraint(*expressions: Any, **options: Any) -> dict[str, Any]:
    return {"constraints": [models.UniqueConstraint(*expressions, name="x", **options)]}


#: Options of the model, and how many new values {name, rating} has for what must be unique then.
UNIQUE: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 0),
    "together": ({"unique_together": (("name", "rating"),)}, 1),
    "two together": ({"unique_together": (("name", "rating"), ("rating", "open"))}, 2),
    "fields": (constraint(fields=["name", "rating"]), 1),
    "together and fields": ({"unique_together": (("name", "rating"),), **constraint(fields=["name", "rating"])}, 1),
    "a condition": (constraint(fields=["code"], condition=models.Q(rating__gt=0)), 1),
    "an expression": (constraint(Lower("name")), 1),
    "other fields": (constraint(fields=["code", "open"]), 0),
    "no constraint on others": ({"constraints": [models.CheckConstraint(condition=models.Q(rating=1), name="x")]}, 0),
}


@pytest.mark.every_database
def test_each_constraint_counts_of_which_a_field_has_a_new_value(
    root: Writer, seen: Supplier, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(settings)

    def counted(options: dict[str, Any]) -> int:
        before = spent()
        with monkeypatch.context() as patched:
            for name, value in options.items():
                patched.setattr(Supplier._meta, name, value)
            root.told("create_record", model=SUPPLIER, values={"name": "Bob", "rating": 2})
        return spent() - before

    assert {what: counted(options) for what, (options, _) in UNIQUE.items()} == {
        what: number for what, (_, number) in UNIQUE.items()
    }


def test_a_constraint_with_a_hidden_field_counts_though_all_rows_are_seen(
    root: Writer, settings: Any, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Supplier, type("Admin", (ModelAdmin,), {"form": PartForm, "fields": ["name", "code"]}))
    declared.model(Supplier, exclude=["rating"])
    monkeypatch.setattr(Supplier._meta, "unique_together", (("name", "rating"),))
    limit(settings)

    root.ask("create_record", **new("N1"))

    assert spent() == 1


@pytest.mark.every_database
def test_what_must_be_unique_for_a_day_counts(
    ops: Writer, flights: list[Flight], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flight._meta.get_field("tailnum"), "unique_for_date", "departs_at")
    limit(settings)

    for values in ({"tailnum": "N1"}, {"notes": "late"}):
        ops.told("update_record", model="flights.flight", id="1", values=values)

    assert spent() == 1


def test_the_slug_that_the_page_fills_in_counts_as_given(
    root: Writer, seen: Supplier, settings: Any, declared: Declared
) -> None:
    filling: dict[str, Any] = {"fields": ["name", "code"], "prepopulated_fields": {"code": ["name"]}}
    declared.admin(Supplier, type("Admin", (OpenOnly,), {"form": PartForm, **filling}))
    Supplier.objects.filter(code="H7").update(code="h7")
    limit(settings)

    told = root.refused("create_record", model=SUPPLIER, values={"name": "H7"})

    assert errors_of(told) == TAKEN
    assert spent() == 1


# Rows of inlines.


def inline_of(model: Any, **options: Any) -> Any:
    return type("Inline", (TabularInline,), {"model": model, "extra": 0, **options})


@pytest.fixture
def part(seen: Supplier, monkeypatch: pytest.MonkeyPatch) -> Part:
    """With a row in its inline that is seen. No other row of it may have the same maker."""
    monkeypatch.setattr(Making._meta, "unique_together", (("part", "maker"),))
    part = Part.objects.create(pk=1, name="bolt", weight=1)
    Making.objects.create(pk=11, part=part, maker=seen)
    return part


@pytest.mark.every_database
def test_each_row_of_an_inline_counts_for_its_own_model(root: Writer, part: Part, settings: Any) -> None:
    limit(settings, "3/hour")
    makers = [str(Supplier.objects.create(name="new").pk) for _ in range(3)]

    def rows(*names: str, key: str | None = None) -> Message:
        changed = [] if key is None else [{"pk": key, "maker": names[0]}]
        return {"makings": changed or [{"maker": name} for name in names]}

    root.told("update_record", model="shop.part", id="1", rows=rows(*makers[:2]))
    root.told("update_record", model="shop.part", id="1", rows=rows(makers[2], key="11"))
    error = throttled(root, "update_record", model="shop.part", id="1", rows=rows(makers[2]))
    renamed = root.ask("update_record", model="shop.part", id="1", values={"name": "nut"})

    assert "for shop.making is used up" in error["message"]
    assert renamed["status"] == "preview"


def test_a_new_row_of_an_inline_counts_as_it_tells_whether_its_parent_has_one(
    root: Writer, seen: Supplier, settings: Any, declared: Declared
) -> None:
    declared.admin(Warranty, type("Admin", (ModelAdmin,), {
        "get_queryset": lambda self, request: Warranty.objects.filter(months__lt=10),
    }))  # fmt: skip
    fields: dict[str, Any] = {"fields": ["name"], "form": PartForm, "inlines": [inline_of(Warranty)]}
    declared.admin(Part, type("Admin", (OpenOnly,), fields))
    for key in (1, 2):
        Part.objects.create(pk=key, name="bolt")
    Warranty.objects.create(part_id=2, months=99)
    limit(settings, "2/hour")
    rows = {"warranty": [{"months": 3}]}

    free = root.told("update_record", model="shop.part", id="1", rows=rows)
    taken = root.told("update_record", model="shop.part", id="2", rows=rows)
    # A new parent has none.
    root.ask("create_record", model="shop.part", values={"name": "nut"}, rows=rows)
    error = throttled(root, "update_record", model="shop.part", id="2", rows=rows)

    assert (errors_of(free), errors_of(taken)) == ([], [("rows.warranty", "would have more than 1 rows.")])
    assert error["data"]["kind"] == "unique"


def test_rows_of_an_inline_that_are_all_seen_are_not_counted(
    root: Writer, settings: Any, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Making, None)
    declared.admin(Supplier, ModelAdmin)
    fields: dict[str, Any] = {"fields": ["name"], "form": PartForm, "inlines": [inline_of(Making, fields=["maker"])]}
    declared.admin(Part, type("Admin", (ModelAdmin,), fields))
    monkeypatch.setattr(Making._meta, "unique_together", (("part", "maker"),))
    Part.objects.create(pk=1, name="bolt")
    maker = Supplier.objects.create(name="Ann")
    limit(settings)
    rows = {"makings": [{"maker": str(maker.pk)}]}

    root.ask("update_record", model="shop.part", id="1", rows=rows)
    all_seen = spent()
    declared.admin(Part, type("Admin", (OpenOnly,), fields))
    root.ask("update_record", model="shop.part", id="1", rows=rows)

    assert (all_seen, spent()) == (0, 1)
