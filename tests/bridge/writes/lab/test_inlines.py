"""Rows of inlines: new, changed, ordered and deleted ones."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.contenttypes.admin import GenericStackedInline, GenericTabularInline

from tests.bridge.writes.lab.comparing import Outcome
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Album, Line, Note, Order, Remark

Admin: Any = admin.ModelAdmin
Tabular: Any = admin.TabularInline
Stacked: Any = admin.StackedInline


class LineInline(Tabular):
    model = Line
    extra = 2
    max_num = 5


class NoteInline(Stacked):
    model = Note
    extra = 0
    can_delete = False


class OrderAdmin(Admin):
    fields = ["name", "total"]
    inlines = [LineInline, NoteInline]


@pytest.fixture
def order(lab: Lab) -> Order:
    """An order with lines for a cup, a plate and a spoon, and with one note."""
    lab.admin(Order, OrderAdmin)
    made = Order.objects.create(name="first", total=3)
    for position, what in enumerate(("cup", "plate", "spoon")):
        made.lines.create(what=what, count=position + 1, position=position)
    made.notes.create(text="fragile")
    return made


@pytest.fixture
def lines(order: Order) -> dict[str, int]:
    """The key of each line."""
    return dict(order.lines.values_list("what", "pk"))


def lines_of(made: Outcome) -> list[tuple[Any, ...]]:
    return [(line["what"], line["count"], line["position"]) for line in made.of(Line)]


def test_a_row_is_made_with_rows_of_two_inlines(lab: Lab) -> None:
    lab.admin(Order, OrderAdmin)

    made = lab.same(
        Order,
        values={"name": "first"},
        rows={"lines": [{"what": "cup", "count": 2}, {"what": "plate"}], "notes": [{"text": "fragile"}]},
        typed={
            "name": "first",
            "lines-0-what": "cup",
            "lines-0-count": "2",
            "lines-1-what": "plate",
            "notes-0-text": "fragile",
        },
    )

    assert lines_of(made) == [("cup", 2, 0), ("plate", 1, 0)]


def test_rows_are_added_changed_and_deleted_at_once(lab: Lab, order: Order, lines: dict[str, int]) -> None:
    made = lab.same(
        Order,
        order,
        values={"name": "second"},
        rows={
            "lines": [{"pk": lines["cup"], "count": 5}, {"pk": lines["spoon"], "delete": True}, {"what": "knife"}],
            "notes": [{"text": "urgent"}],
        },
        typed={
            "name": "second",
            "lines-0-count": "5",
            "lines-2-DELETE": True,
            "lines-3-what": "knife",
            "notes-1-text": "urgent",
        },
    )

    assert lines_of(made) == [("cup", 5, 0), ("plate", 2, 1), ("knife", 1, 0)]


def test_rows_that_cannot_be_deleted_are_not_and_no_more_than_the_most_are_added(lab: Lab, order: Order) -> None:
    """A page has no more forms than that, and its script offers no other."""
    [note] = order.notes.all()

    kept = lab.refused(Order, order, rows={"notes": [{"pk": note.pk, "delete": True}]})
    refused = lab.refused(Order, order, rows={"lines": [{"what": "fork"}, {"what": "knife"}, {"what": "pan"}]})

    assert "cannot be deleted" in str(kept.errors)
    assert refused.fields == ["rows.lines"]
    assert "more than 5 rows" in str(refused)


def test_a_formset_refuses_its_rows(lab: Lab) -> None:
    class TwoAtLeast(forms.BaseInlineFormSet):  # type: ignore[type-arg]
        def clean(self) -> None:
            if sum(bool(form.cleaned_data.get("what")) for form in self.forms) < 2:
                raise forms.ValidationError("Two lines at least.")

    lab.admin(Order, OrderAdmin, inlines=[type("Lines", (LineInline,), {"formset": TwoAtLeast})])

    refused = lab.refused(Order, values={"name": "first"}, rows={"lines": [{"what": "cup"}]})

    assert "Two lines at least." in str(refused.errors)


def test_the_least_number_of_rows_is_filled_in(lab: Lab) -> None:
    class AtLeastTwo(LineInline):
        min_num = 2
        extra = 0

    lab.admin(Order, OrderAdmin, inlines=[AtLeastTwo])

    made = lab.same(
        Order,
        values={"name": "first"},
        rows={"lines": [{"what": "cup"}, {"what": "plate"}, {"what": "spoon"}]},
        typed={"name": "first", "lines-0-what": "cup", "lines-1-what": "plate", "lines-2-what": "spoon"},
    )

    assert len(made.of(Line)) == 3


def test_the_number_of_forms_may_depend_on_the_object(lab: Lab, order: Order) -> None:
    class AsManyAsThere(LineInline):
        def get_extra(self, request: Any, obj: Any = None, **kwargs: Any) -> int:
            return 0 if obj is None else obj.lines.count()

        def get_max_num(self, request: Any, obj: Any = None, **kwargs: Any) -> int:
            return 4 if obj is None else 2 * obj.lines.count()

    lab.admin(Order, OrderAdmin, inlines=[AsManyAsThere])

    made = lab.same(Order, order, rows={"lines": [{"what": "knife"}]}, typed={"lines-3-what": "knife"})

    assert len(made.of(Line)) == 4


def test_a_form_of_an_inline_derives_what_is_stored(lab: Lab) -> None:
    class LineForm(forms.ModelForm):
        dozens = forms.IntegerField(required=False)

        def clean(self) -> Any:
            cleaned = super().clean() or {}
            if cleaned.get("dozens"):
                cleaned["count"] = 12 * cleaned["dozens"]
            return cleaned

    class Dozens(Tabular):
        model = Line
        form = LineForm
        fields = ["what", "count", "dozens"]

    lab.admin(Order, OrderAdmin, inlines=[Dozens])

    made = lab.same(
        Order,
        values={"name": "first"},
        rows={"lines": [{"what": "egg", "dozens": 2}]},
        typed={"name": "first", "lines-0-what": "egg", "lines-0-dozens": "2"},
    )

    assert made.of(Line)[0]["count"] == 24


def test_a_formset_that_numbers_its_rows_is_saved_as_by_a_person(lab: Lab) -> None:
    class Numbering(forms.BaseInlineFormSet):  # type: ignore[type-arg]
        def save_new(self, form: Any, commit: bool = True) -> Any:
            form.instance.position = 10 * (self.forms.index(form) + 1)
            return super().save_new(form, commit)

    class Numbered(LineInline):
        formset = Numbering
        fields = ["what"]

    lab.admin(Order, OrderAdmin, inlines=[Numbered])

    made = lab.same(
        Order,
        values={"name": "first"},
        rows={"lines": [{"what": "cup"}, {"what": "plate"}]},
        typed={"name": "first", "lines-0-what": "cup", "lines-1-what": "plate"},
    )

    assert [line["position"] for line in made.of(Line)] == [10, 20]


@pytest.mark.parametrize("base", [GenericTabularInline, GenericStackedInline])
def test_rows_about_any_model_are_added_changed_and_deleted(lab: Lab, base: Any) -> None:
    inline = type("RemarkInline", (base,), {"model": Remark, "ct_field": "kind", "ct_fk_field": "key", "extra": 1})
    lab.admin(Album, inlines=[inline])
    new = lab.same(
        Album,
        values={"name": "Revolver"},
        rows={"remark": [{"text": "good"}]},
        typed={"name": "Revolver", "lab-remark-kind-key-0-text": "good"},
    )
    album = Album.objects.create(name="Revolver")
    good, bad = (album.remarks.create(text=text) for text in ("good", "bad"))

    made = lab.same(
        Album,
        album,
        rows={"remark": [{"pk": good.pk, "text": "great"}, {"pk": bad.pk, "delete": True}, {"text": "new"}]},
        typed={
            "lab-remark-kind-key-0-text": "great",
            "lab-remark-kind-key-1-DELETE": True,
            "lab-remark-kind-key-2-text": "new",
        },
    )

    assert new.of(Remark)[0]["key"] == "new 0"
    assert [remark["text"] for remark in made.of(Remark)] == ["great", "new"]


# Inlines that a project chooses: agents do not see them, and a browser sends them as they are.


class ByObject(OrderAdmin):
    """A new order has no notes, and one of a small total has no lines."""

    def get_inline_instances(self, request: Any, obj: Any = None) -> Any:
        found = super().get_inline_instances(request, obj)
        return [one for one in found if obj is not None or not isinstance(one, NoteInline)]

    def get_formsets_with_inlines(self, request: Any, obj: Any = None) -> Any:
        for formset, inline in super().get_formsets_with_inlines(request, obj):
            if obj is None or obj.total > 2 or not isinstance(inline, LineInline):
                yield formset, inline


class FilledIn(OrderAdmin):
    """Begins new lines with a text."""

    def get_inlines(self, request: Any, obj: Any) -> Any:
        return [LineInline]

    def get_formset_kwargs(self, request: Any, obj: Any, inline: Any, prefix: str) -> Any:
        found = super().get_formset_kwargs(request, obj, inline, prefix)
        return found if request.method == "POST" else {**found, "initial": [{"what": "fork"}]}


def test_rows_of_inlines_that_a_project_chooses_stay_and_are_not_changed(
    lab: Lab, order: Order, lines: dict[str, int]
) -> None:
    lab.admin(Order, ByObject)

    made = lab.same(Order, order, values={"name": "second"})
    new = lab.same(Order, values={"name": "third"})
    refused = lab.refused(Order, order, rows={"lines": [{"pk": lines["cup"], "count": 2}]})

    assert [note["text"] for note in made.of(Note)] == ["fragile"]
    assert len(new.of(Line)) == 3
    assert "no inline 'lines'" in str(refused)


def test_the_row_that_a_page_of_the_project_begins_with_is_sent(lab: Lab, order: Order) -> None:
    lab.admin(Order, FilledIn)
    order.lines.all().delete()

    made = lab.same(Order, order, values={"name": "second"})

    assert [note["text"] for note in made.of(Note)] == ["fragile"]
