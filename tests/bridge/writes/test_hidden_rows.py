"""Rows that an agent cannot see are not found out by what is refused, by what is said, or by what a change shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin, TabularInline
from django.db import models
from django.db.models.functions import Lower
from django.http import HttpResponseRedirect
from django.utils.html import format_html

from demo_project.flights.models import Airport, Flight
from tests.bridge.writes.conftest import Writer, errors_of
from tests.bridge.writes.hiding import HIDDEN, OpenOnly, PartAdmin, PartForm, declare_hiding
from tests.shop.models import Gadget, Making, Part, Person, Supplier, Tag, Warranty
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db

NEUTRAL = "this value cannot be used."


# What must be unique.


@pytest.fixture
def suppliers(declared: Declared) -> dict[str, Supplier]:
    declare_hiding(declared)
    form = type("Form", (PartForm,), {"Meta": type("Meta", (), {"model": Supplier, "fields": ["name", "code"]})})
    declared.admin(Supplier, type("Admin", (OpenOnly,), {"form": form, "fields": ["name", "code", "rating"]}))
    return {
        "seen": Supplier.objects.create(name="Ann", code="A", rating=1),
        "hidden": Supplier.objects.create(name=HIDDEN, code="H", rating=2, open=False),
    }


@pytest.mark.every_database
def test_the_value_of_a_hidden_row_is_refused_without_saying_that_there_is_one(
    root: Writer, suppliers: dict[str, Supplier]
) -> None:
    key = str(suppliers["seen"].pk)

    seen = root.refused("create_record", model="shop.supplier", values={"name": "Bob", "code": "A"})
    created = root.refused("create_record", model="shop.supplier", values={"name": "Bob", "code": "H"})
    updated = root.refused("update_record", model="shop.supplier", id=key, values={"code": "H"})

    assert errors_of(seen) == [("values.code", "Supplier with this Code already exists.")]
    assert errors_of(created) == errors_of(updated) == [("values.code", NEUTRAL)]


def constraint(*expressions: Any, **options: Any) -> dict[str, Any]:
    return {"constraints": [models.UniqueConstraint(*expressions, name="x", **options)]}


SAME = ["name", "rating"]
OWN: dict[str, Any] = {"fields": SAME, "violation_error_message": "Twice."}
DJANGOS = "Supplier with this Name and Rating already exists."
#: Options of the model, and what is said of a row that is seen.
UNIQUE: dict[str, tuple[dict[str, Any], str]] = {
    "together": ({"unique_together": (("name", "rating"),)}, DJANGOS),
    "fields": (constraint(fields=SAME), DJANGOS),
    "own words": (constraint(**OWN), "Twice."),
    "own code": (constraint(fields=SAME, violation_error_code="again"), DJANGOS),
    "own words and code": (constraint(**OWN, violation_error_code="again"), "Twice."),
    "a condition": (constraint(**OWN, condition=models.Q(rating__gt=0)), "Twice."),
    # Which row has the same value is not known.
    "an expression": (constraint(Lower("name")), NEUTRAL),
}


@pytest.mark.every_database
def test_what_must_be_unique_is_told_in_the_projects_words_only_of_a_row_that_is_seen(
    root: Writer, suppliers: dict[str, Supplier], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(supplier: Supplier, options: dict[str, Any]) -> list[tuple[str, str]]:
        values = {"name": supplier.name, "code": "Z", "rating": supplier.rating}
        with monkeypatch.context() as patched:
            for name, value in options.items():
                patched.setattr(Supplier._meta, name, value)
            return errors_of(root.told("create_record", model="shop.supplier", values=values))

    seen = {what: told(suppliers["seen"], options) for what, (options, _) in UNIQUE.items()}
    hidden = {what: told(suppliers["hidden"], options) for what, (options, _) in UNIQUE.items()}

    assert seen == {what: [("values", words)] for what, (_, words) in UNIQUE.items()}
    assert hidden == {key: [("values", NEUTRAL)] for key in UNIQUE}


def test_a_row_that_is_seen_does_not_tell_what_it_has_in_a_hidden_column(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Supplier, type("Admin", (ModelAdmin,), {"form": PartForm, "fields": ["name", "rating"]}))
    declared.model(Supplier, exclude=["rating"])
    ann, _ = (Supplier.objects.create(name=name, rating=5) for name in ("Ann", "Bob"))
    monkeypatch.setattr(Supplier._meta, "unique_together", (("name", "rating"),))

    told = root.refused("update_record", model="shop.supplier", id=str(ann.pk), values={"name": "Bob"})

    assert errors_of(told) == [("values", NEUTRAL)]


@pytest.mark.every_database
def test_a_value_of_the_same_day_is_refused_without_saying_that_there_is_a_hidden_row(
    ops: Writer, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flight._meta.get_field("tailnum"), "unique_for_date", "departs_at")
    Flight.objects.update(tailnum="")
    Flight.objects.filter(pk=3).update(tailnum="HIDDEN")
    Flight.objects.filter(pk=4).update(tailnum="SEEN")

    def told(tailnum: str) -> list[tuple[str, str]]:
        return errors_of(ops.refused("update_record", model="flights.flight", id="1", values={"tailnum": tailnum}))

    assert told("HIDDEN") == [("values.tailnum", NEUTRAL)]
    assert told("SEEN") == [("values.tailnum", "Tail number must be unique for Scheduled departure date.")]


@pytest.mark.every_database
def test_a_value_in_a_row_of_an_inline_does_not_tell_of_a_hidden_row(root: Writer, declared: Declared) -> None:
    class Admin(ModelAdmin[Gadget]):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(name=HIDDEN)

    inline = type("Inline", (TabularInline,), {"model": Gadget, "fields": ["name", "code"], "extra": 0})
    declared.admin(Gadget, Admin)
    declared.admin(Person, type("Admin", (ModelAdmin,), {"inlines": [inline]}))
    ann = Person.objects.create(name="Ann", badge="1")
    Gadget.objects.create(name=HIDDEN, code="H", person=ann)
    Gadget.objects.create(name=HIDDEN, code="I")
    Gadget.objects.create(name="seen", code="S")

    def told(code: str) -> list[tuple[str, str]]:
        rows = {"gadgets": [{"name": "new", "code": code}]}
        return errors_of(root.refused("update_record", model="shop.person", id=str(ann.pk), rows=rows))

    assert told("H") == told("I") == [("rows.gadgets.0.code", NEUTRAL)]
    assert told("S") == [("rows.gadgets.0.code", "Gadget with this Code already exists.")]


# Rows of inlines.


@pytest.fixture
def part(suppliers: dict[str, Supplier]) -> Part:
    """With a row in its inline that is seen and one that is not."""
    part = Part.objects.create(pk=1, name="bolt", weight=1)
    Making.objects.create(pk=11, part=part, maker=suppliers["seen"])
    Making.objects.create(pk=12, part=part, maker=suppliers["seen"], open=False)
    return part


def makings() -> set[int]:
    return set(Making.objects.values_list("pk", flat=True))


def test_a_hidden_row_of_an_inline_is_changed_and_deleted_by_nobody(root: Writer, part: Part) -> None:
    def told(key: str) -> list[str]:
        changes: list[Any] = [{"maker": "1"}, {"delete": True}, {}]
        rows = [{"makings": [{"pk": key, **change}]} for change in changes]
        return [root.refused("update_record", model="shop.part", id="1", rows=one).replace(key, "99") for one in rows]

    assert told("12") == told("99")
    assert makings() == {11, 12}


def test_a_change_of_a_hidden_row_of_an_inline_is_not_told_by_a_token(root: Writer, part: Part) -> None:
    arguments: dict[str, Any] = {"model": "shop.part", "id": "1", "values": {"name": "nut"}}
    shown = root.ask("update_record", **arguments)

    Making.objects.filter(pk=12).delete()

    assert root.ask("update_record", **arguments, confirm=shown["confirm"])["status"] == "applied"


def test_hidden_rows_of_an_inline_are_in_no_answer_and_stay(
    root: Writer, part: Part, suppliers: dict[str, Supplier]
) -> None:
    rows = {"makings": [{"maker": str(suppliers["seen"].pk)}, {"pk": "11", "delete": True}]}
    arguments: dict[str, Any] = {"model": "shop.part", "id": "1", "rows": rows}

    described = root.ask("describe_form", model="shop.part", id="1")
    shown = root.ask("update_record", **arguments)
    made = root.ask("update_record", **arguments, confirm=shown["confirm"])

    assert "12" not in json.dumps([described, {**shown, "confirm": ""}["rows"], made["rows"]])
    assert sorted(row["change"] for row in made["rows"]) == ["add", "delete"]
    assert makings() - {12} == {int(row["pk"]) for row in made["rows"] if row["change"] == "add"}
    assert 12 in makings()


def test_a_hidden_row_that_is_made_while_saving_is_in_no_answer(
    root: Writer, part: Part, suppliers: dict[str, Supplier], declared: Declared
) -> None:
    class Admin(PartAdmin):
        def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
            super().save_related(request, form, formsets, change)
            Making.objects.create(pk=77, part=form.instance, maker=suppliers["seen"], open=False)
            Making.objects.create(pk=78, part=form.instance, maker=suppliers["seen"])

    declared.admin(Part, Admin)

    made = root.confirmed("update_record", model="shop.part", id="1", values={"name": "nut"})

    assert {77, 78} <= makings()
    assert [row["pk"] for row in made["rows"]] == ["78"]


def test_what_is_wrong_with_a_hidden_row_of_an_inline_is_not_told(root: Writer, part: Part, declared: Declared) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        def clean(self) -> Any:
            if self.instance.pk == 12:
                self.add_error("maker", f"{HIDDEN} is not a maker of row 12")
                self.add_error(None, f"{HIDDEN} is wrong")
            return self.cleaned_data

    inline = type("Inline", (TabularInline,), {"model": Making, "form": Form, "extra": 0})
    declared.admin(Part, type("Admin", (OpenOnly,), {"form": PartForm, "fields": ["name"], "inlines": [inline]}))

    told = root.refused("update_record", model="shop.part", id="1", values={"name": "nut"})

    assert errors_of(told) == [("rows.makings", "the form refuses it because of other rows.")]


def test_what_is_wrong_with_an_inline_that_the_agent_does_not_know_is_not_told(
    root: Writer, declared: Declared
) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        def clean(self) -> Any:
            raise forms.ValidationError(HIDDEN)

    inline = type("Inline", (TabularInline,), {"model": Warranty, "form": Form, "extra": 0})
    declared.admin(Part, type("Admin", (ModelAdmin,), {"form": PartForm, "fields": ["name"], "inlines": [inline]}))
    declared.model(Warranty, writable=False)
    Warranty.objects.create(part=Part.objects.create(pk=1, name="bolt"), months=1)

    told = root.refused("update_record", model="shop.part", id="1", values={"name": "nut"})

    assert errors_of(told) == [("values", "the form refuses it because of what only a person can change.")]


def test_rows_that_hold_a_row_of_an_inline_are_not_named(
    root: Writer, declared: Declared, suppliers: dict[str, Supplier], part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Making._meta.get_field("part").remote_field, "on_delete", models.PROTECT)
    monkeypatch.setattr(Making, "__str__", lambda making: HIDDEN)
    inline = type("Inline", (TabularInline,), {"model": Part, "fields": ["name"], "extra": 0})
    declared.admin(Supplier, type("Admin", (OpenOnly,), {"fields": ["name"], "inlines": [inline]}))
    Part.objects.update(supplier=suppliers["seen"])
    rows = {"parts": [{"pk": str(part.pk), "delete": True}]}

    told = root.refused("update_record", model="shop.supplier", id=str(suppliers["seen"].pk), rows=rows)

    assert errors_of(told) == [("rows.parts", "a row cannot be deleted: other records would have to be deleted first.")]
    assert HIDDEN not in told


def test_that_a_hidden_row_of_an_inline_has_the_same_value_is_not_told(
    root: Writer, part: Part, suppliers: dict[str, Supplier], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Supplier.objects.create(name="Bob", code="B")
    Making.objects.filter(pk=12).update(maker=other)
    monkeypatch.setattr(Making._meta, "unique_together", (("part", "maker"),))
    rows = {"makings": [{"maker": str(other.pk)}]}

    def told() -> list[tuple[str, str]]:
        return errors_of(root.refused("update_record", model="shop.part", id="1", rows=rows))

    hidden = told()
    Making.objects.filter(pk=12).update(open=True)

    assert hidden == [("rows.makings.0", NEUTRAL)]
    assert told() == [("rows.makings.0", "Making with this Part and Maker already exists.")]


# What the admin says.


class Plainly(ModelAdmin[Person]):
    def save_model(self, request: Any, obj: Person, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        messages.info(request, f"{obj} was told.")
        messages.warning(request, format_html("<b>{}</b> was warned.", obj))


TEXTS: dict[str, Any] = {
    "text": lambda person: f"{person.name} {person.badge}",
    "text with signs of HTML": lambda person: f"<b>{person.name}</b> & {person.badge}",
    "HTML": lambda person: format_html("<i>{}</i> &amp; <b>{}</b>", person.name, person.badge),
    "spaces and lines": lambda person: f"{person.name}  \n\t{person.badge} ",
    "a quote": lambda person: f"\"{person.name}\" '{person.badge}'",
    "as an entity": lambda person: f"{person.name} &lt; {person.badge}",
}


def test_the_text_of_a_row_which_holds_a_hidden_value_is_in_no_message(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Person, Plainly)
    declared.model(Person, exclude=["badge"], consent={"delete": "preview"})
    for what, text in TEXTS.items():
        for key in (7, 8, 9):
            Person.objects.create(pk=key, name="Ann", badge=f"{HIDDEN} {key}")
        monkeypatch.setattr(Person, "__str__", text)

        changed = root.confirmed("update_record", model="shop.person", id="7", values={"name": "Bob"})
        one = root.confirmed("delete_record", model="shop.person", ids=["7"])
        several = root.confirmed("delete_record", model="shop.person", ids=["8", "9"])

        assert HIDDEN not in str([changed, one, several]), what
        assert "shop.person 7 was told." in changed["messages"], what
        assert "warning: shop.person 7 was warned." in changed["messages"], what
        assert "shop.person 7" in one["messages"][0], what


def test_the_text_of_a_row_that_is_a_part_of_other_words_leaves_them_as_they_are(
    root: Writer, declared: Declared
) -> None:
    declared.admin(Person, ModelAdmin)
    Person.objects.create(pk=7, name="b", badge="1")

    made = root.confirmed("update_record", model="shop.person", id="7", values={"name": "a"})

    assert made["messages"] == ["The person “shop.person 7” was changed successfully."]


def test_why_the_admin_does_not_show_its_form_is_told_without_the_text_of_the_row(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Admin(ModelAdmin[Person]):
        def change_view(self, request: Any, object_id: str, *args: Any, **kwargs: Any) -> Any:
            messages.error(request, f"{self.get_object(request, object_id)} is locked.")
            return HttpResponseRedirect("/admin/")

    declared.admin(Person, Admin)
    declared.model(Person, exclude=["badge"])
    Person.objects.create(pk=7, name="Ann", badge=HIDDEN)
    monkeypatch.setattr(Person, "__str__", TEXTS["text"])

    told = root.refused("update_record", model="shop.person", id="7", values={"name": "Bob"})

    assert told == ("The admin does not show its form for this. error: shop.person 7 is locked. Nothing was changed.")


class Fussy(forms.ModelForm[Person]):
    """Refuses names, in words that hold the text of the row."""

    def clean_name(self) -> str:
        if self.cleaned_data["name"] == "field":
            raise forms.ValidationError(f"{self.instance} keeps its name.")
        return str(self.cleaned_data["name"])

    def clean(self) -> Any:
        if self.cleaned_data.get("name") == "form":
            raise forms.ValidationError([f"{self.instance} is locked.", "Ask Ann."])
        return super().clean()

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.instance.name == "new":
            self.add_error(None, f"{self.instance} would be odd.")


class Saving(ModelAdmin[Person]):
    form = Fussy

    def save_model(self, request: Any, obj: Person, form: Any, change: bool) -> None:
        if obj.name == "saved":
            raise forms.ValidationError(f"{Person.objects.get(pk=obj.pk)} is not saved.")


def test_the_text_of_a_row_which_holds_a_hidden_value_is_in_no_error(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Person, Saving)
    declared.model(Person, exclude=["badge"])
    Person.objects.create(pk=7, name="Ann", badge=HIDDEN)
    monkeypatch.setattr(Person, "__str__", TEXTS["text"])

    def told(name: str) -> list[tuple[str, str]]:
        about = {"model": "shop.person", "id": "7", "values": {"name": name}}
        confirm = {"confirm": root.ask("update_record", **about)["confirm"]} if name == "saved" else {}
        return errors_of(root.refused("update_record", **about, **confirm))

    assert told("field") == [("values.name", "shop.person 7 keeps its name.")]
    assert told("form") == [("values", "shop.person 7 is locked."), ("values", "Ask Ann.")]
    assert told("new") == [("values", "shop.person 7 would be odd.")]
    assert told("saved") == [("values", "shop.person 7 is not saved.")]


def test_an_inline_that_is_refused_with_the_text_of_its_parent(
    root: Writer, declared: Declared, part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Formset(forms.BaseInlineFormSet):  # type: ignore[type-arg]
        def clean(self) -> None:
            raise forms.ValidationError(f"{self.instance} has too many.")

    class Form(forms.ModelForm):  # type: ignore[type-arg]
        def clean(self) -> Any:
            raise forms.ValidationError(f"{self.instance.part} refuses {self.instance}.")

    options = {"model": Making, "form": Form, "formset": Formset, "fields": ["maker"], "extra": 0}
    declared.admin(Part, type("Admin", (PartAdmin,), {"inlines": [type("Inline", (TabularInline,), options)]}))
    monkeypatch.setattr(Part, "__str__", lambda part: f"{part.name} {HIDDEN}")
    monkeypatch.setattr(Making, "__str__", lambda making: f"{making.pk} {HIDDEN}")
    rows = {"makings": [{"pk": "11", "maker": str(Making.objects.get(pk=11).maker_id)}]}

    told = root.refused("update_record", model="shop.part", id="1", values={"name": "nut"}, rows=rows)

    assert errors_of(told) == [
        ("rows.makings", "shop.part 1 has too many."), ("rows.makings.0", "shop.part 1 refuses shop.making 11."),
        ("rows.makings", "the form refuses it because of other rows."),
    ]  # fmt: skip


def test_the_labels_of_rows_in_a_list_that_the_project_makes_of_them(
    root: Writer, declared: Declared, suppliers: dict[str, Supplier]
) -> None:
    class Form(PartForm):
        supplier = forms.TypedChoiceField(
            choices=lambda: [(one.pk, str(one)) for one in Supplier.objects.filter(open=False)],
            coerce=lambda key: Supplier.objects.get(pk=key), required=False,
        )  # fmt: skip

    declared.admin(Part, type("Admin", (OpenOnly,), {"form": Form, "fields": ["name", "supplier"]}))
    Part.objects.create(pk=1, name="bolt")

    fields = root.ask("describe_form", model="shop.part", id="1")["fields"]
    told = root.refused("update_record", model="shop.part", id="1", values={"supplier": str(suppliers["seen"].pk)})

    assert "Select a valid choice." in told
    assert HIDDEN not in str(fields) and HIDDEN not in told


# Rows themselves.


def test_a_hidden_row_is_one_that_does_not_exist(root: Writer, suppliers: dict[str, Supplier]) -> None:
    hidden = str(suppliers["hidden"].pk)

    def told(key: str) -> list[str]:
        about = {"model": "shop.supplier", "id": key}
        found = [root.refused("update_record", **about, values={"name": "x"}), root.refused("describe_form", **about)]
        return [one.replace(key, "999") for one in found]

    assert told(hidden) == told("999")


def test_a_row_that_the_change_takes_out_of_sight_is_changed_and_shown_as_it_was_sent(
    ops: Writer, flights: list[Flight]
) -> None:
    made = ops.confirmed("update_record", model="flights.flight", id="1", values={"origin": "EWR"})

    assert made["diff"] == [{"field": "origin", "before": "JFK", "after": "EWR"}]
    assert Flight.objects.get(pk=1).origin == Airport.objects.get(pk="EWR")
    assert "no flights.flight" in ops.refused("update_record", model="flights.flight", id="1", values={"origin": "JFK"})


def test_hidden_rows_in_a_list_of_rows_that_the_form_alone_has(root: Writer, declared: Declared) -> None:
    class SupplierForm(forms.ModelForm):  # type: ignore[type-arg]
        pieces = forms.ModelMultipleChoiceField(Part.objects.all(), required=False)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.instance.pk:
                self.initial["pieces"] = list(self.instance.parts.all())

    class Parts(ModelAdmin[Part]):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(open=True)

    declared.admin(Supplier, type("A", (ModelAdmin,), {"fields": ["name", "pieces"], "form": SupplierForm}))
    declared.admin(Part, Parts)
    supplier = Supplier.objects.create(name="S")
    for key, is_open in ((11, True), (666, False)):
        Part.objects.create(pk=key, name="p", supplier=supplier, open=is_open)
    Part.objects.create(pk=12, name="p")

    shown = root.ask("update_record", model="shop.supplier", id=str(supplier.pk), values={"pieces": {"add": ["12"]}})

    assert "12" in str(shown["diff"]) and "666" not in str(shown["diff"])


def test_choices_and_initial_values_are_given_only_as_far_as_they_are_seen(
    root: Writer, declared: Declared, suppliers: dict[str, Supplier]
) -> None:
    class Beginning(ModelAdmin[Part]):
        fields = ["name", "supplier", "tags"]

        def get_changeform_initial_data(self, request: Any) -> dict[str, Any]:
            return {"name": "bolt", "supplier": suppliers["hidden"].pk}

    declared.admin(Part, Beginning)
    Tag.objects.create(name="red")
    Tag.objects.create(name=f"{HIDDEN} 1")

    fields = root.ask("describe_form", model="shop.part")["fields"]

    assert fields["supplier"]["enum"] == [str(suppliers["seen"].pk)]
    assert fields["tags"]["items"]["enum"] == ["red"]
    assert HIDDEN not in str(fields)
    assert fields["name"]["default"] == "bolt" and "default" not in fields["supplier"]
