"""Hooks of a ModelAdmin that save, and those that write the history."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Ledger, Line, Order

Admin: Any = admin.ModelAdmin


class LineInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Line
    fields = ["what", "count"]
    extra = 1


@pytest.fixture
def order(db: None) -> Order:
    made = Order.objects.create(name="first", total=1)
    made.lines.create(what="cup", count=1)
    return made


def test_a_hook_that_saves_by_its_own_way_is_asked(lab: Lab) -> None:
    class Counting(Admin):
        fields = ["name"]

        def save_form(self, request: Any, form: Any, change: bool) -> Any:
            obj = super().save_form(request, form, change)
            obj.changed_by = request.user.username
            return obj

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            obj.total = 10 if change else 1
            obj.save()
            obj.save(update_fields=["total"])

    lab.admin(Order, Counting)

    made = lab.same(Order, values={"name": "first"})

    assert (made.of(Order)[0]["total"], made.of(Order)[0]["changed_by"]) == (1, "root")
    assert made.signals["post_save lab.order changed"] == 1


def test_hooks_are_given_what_django_gives_them_and_no_more(lab: Lab, order: Order) -> None:
    """A project leaves out what Django does not give, as django-cms does."""

    class Narrow(Admin):
        fields = ["name"]
        inlines = [LineInline]

        def get_form(self, request: Any, obj: Any, *, change: bool, fields: Any) -> Any:
            return super().get_form(request, obj, change=change, fields=fields)

        def response_add(self, request: Any, obj: Any) -> Any:
            return super().response_add(request, obj)

        def construct_change_message(self, request: Any, form: Any, formsets: Any, add: bool) -> Any:
            return super().construct_change_message(request, form, formsets, add)

        def get_formset_kwargs(self, request: Any, obj: Any, inline: Any, prefix: str) -> Any:
            return super().get_formset_kwargs(request, obj, inline, prefix)

    lab.admin(Order, Narrow)

    made = lab.same(Order, values={"name": "second"})
    changed = lab.same(Order, order, values={"name": "third"})
    deleted = lab.same_deletion(order)

    assert [one["name"] for one in made.of(Order)] == ["first", "second"]
    assert [one["name"] for one in changed.of(Order)] == ["third"]
    assert deleted.of(Order) == []


def test_what_is_done_once_the_rows_of_inlines_are_saved_is_done(lab: Lab, order: Order) -> None:
    class Adding(Admin):
        fields = ["name"]
        inlines = [LineInline]

        def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
            super().save_related(request, form, formsets, change)
            form.instance.total = sum(form.instance.lines.values_list("count", flat=True))
            form.instance.save()

    lab.admin(Order, Adding)

    made = lab.same(
        Order, order, rows={"lines": [{"what": "plate", "count": 4}]},
        typed={"lines-1-what": "plate", "lines-1-count": "4"},
    )  # fmt: skip

    assert made.of(Order)[0]["total"] == 5


class FormsetAdmin(Admin):
    """Saves the rows of its inline one by one, as Django's documentation shows it."""

    fields = ["name"]
    inlines = [LineInline]

    def save_formset(self, request: Any, form: Any, formset: Any, change: bool) -> None:
        instances = formset.save(commit=False)
        for gone in formset.deleted_objects:
            Ledger.objects.create(name=f"{gone} is gone")
            gone.delete()
        for position, instance in enumerate(instances, 1):
            instance.position = position
            instance.save()
        formset.save_m2m()


def test_rows_of_inlines_are_saved_and_deleted_by_the_hook(lab: Lab, order: Order) -> None:
    lab.admin(Order, FormsetAdmin)
    [cup] = order.lines.all()

    saved = lab.same(
        Order,
        order,
        rows={"lines": [{"pk": cup.pk, "count": 3}, {"what": "plate"}]},
        typed={"lines-0-count": "3", "lines-1-what": "plate"},
    )
    deleted = lab.same(Order, order, rows={"lines": [{"pk": cup.pk, "delete": True}]}, typed={"lines-0-DELETE": True})

    assert [line["position"] for line in saved.of(Line)] == [1, 2]
    assert [ledger["name"] for ledger in deleted.of(Ledger)] == ["cup is gone"]


# The history.


def test_a_project_writes_its_own_message(lab: Lab) -> None:
    class Telling(Admin):
        fields = ["name", "total"]

        def construct_change_message(self, request: Any, form: Any, formsets: Any, add: bool = False) -> str:
            return f"{request.user} filled in {', '.join(form.changed_data)}"

    lab.admin(Order, Telling)

    made = lab.same(Order, values={"name": "first", "total": 4})

    assert made.log[0]["message"] == "root filled in name, total"


def test_a_project_that_logs_elsewhere_or_not_at_all_does_so(lab: Lab, order: Order) -> None:
    class Logging(Admin):
        fields = ["name"]

        def log_addition(self, request: Any, obj: Any, message: Any) -> Any:
            Ledger.objects.create(name=f"{obj} added")
            return super().log_addition(request, obj, message)

        def log_change(self, request: Any, obj: Any, message: Any) -> Any:
            Ledger.objects.create(name=f"{obj} changed")

    lab.admin(Order, Logging)

    added = lab.same(Order, values={"name": "new"})
    changed = lab.same(Order, order, values={"name": "old"})

    assert [ledger["name"] for ledger in added.of(Ledger)] == ["new added"]
    assert [ledger["name"] for ledger in changed.of(Ledger)] == ["old changed"]
    assert (len(added.log), changed.log) == (1, [])


def test_the_history_names_each_field_and_each_row(lab: Lab, order: Order) -> None:
    lab.admin(Order, fields=["name", "total"], inlines=[LineInline])
    [cup] = order.lines.all()

    made = lab.same(
        Order,
        order,
        values={"name": "second"},
        rows={"lines": [{"pk": cup.pk, "count": 3}, {"what": "plate"}]},
        typed={"name": "second", "lines-0-count": "3", "lines-1-what": "plate"},
    )

    assert made.log[0]["message"] == "Changed Name. Added line “plate”. Changed Count for line “cup”."
