"""Rows that are changed by their forms, one after another in a transaction: in a single pass, beside the bare form.

The bare form is the form class and the formset class of the ModelAdmin, made once and bound to the same data:
``is_valid()`` and ``save()``, without hooks, rights, and the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.forms import BaseInlineFormSet
from django.test.utils import CaptureQueriesContext

from bench.goals import Goal
from demo_project.flights.models import Airline, Airport, Disruption, Flight
from mcp_django import flush, site
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes.opening import GivenRow
from mcp_django.bridge.writes.sending import RowSender
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import from_settings

ROWS = 100
#: The most statements of a row beyond those of the bare form: 16 where that has 9.
MORE_STATEMENTS = 7


class OwnFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """A formset of a project, of which nobody knows what it does with rows that it is not given values for."""


class OfDjango(admin.TabularInline):  # type: ignore[type-arg]
    model = Disruption
    readonly_fields = ("reported_by", "reported_at")


class OfProject(OfDjango):
    formset = OwnFormSet


#: What is measured, its inline, and how many times the bare form's time a row may take.
SHAPES: Mapping[str, tuple[Any, float]] = {
    "an inline of Django": (OfDjango, 2.5),
    "an inline with a formset of the project": (OfProject, 3.5),
}


def measure(rounds: int) -> Iterator[Goal]:
    """Print a line for each shape; the goals."""
    # What was asked before is written down by a thread, which would wait for the transactions of SQLite.
    flush()
    keys, user = list(make_rows(ROWS)), User.objects.get(username="admin")
    print(f"\n| {ROWS} rows, of CPU | bare form | single pass | times | statements, bare | statements |")
    print("|---|---:|---:|---:|---:|---:|")
    for what, (inline, limit) in SHAPES.items():
        vars(admin.site.get_model_admin(Flight))["inlines"] = (inline,)
        shape = _Shape.of(user, keys)
        ways: tuple[Callable[[int], None], ...] = (shape.save_bare, shape.send)
        statements = [_statements(way) for way in ways]
        pairs = [[_seconds(way) for way in ways] for _ in range(rounds)]
        bare, ours = (median(taken) for taken in zip(*pairs, strict=True))
        times = median(pair[1] / pair[0] for pair in pairs)
        rates = f"{ROWS / bare:,.0f} a second | {ROWS / ours:,.0f} a second"
        print(f"| {what} | {rates} | {times:.2f} | {statements[0]} | {statements[1]} |")
        yield Goal(f"a row, {what}, to the bare form", times, limit)
        more = statements[1] - statements[0]
        yield Goal(f"statements of a row beyond the bare form's, {what}", more, MORE_STATEMENTS, "statements")


def make_rows(count: int) -> Iterator[int]:
    """Make so many flights, each with a row of an inline. Yields their keys."""
    airline = Airline.objects.get_or_create(carrier="0", defaults={"name": "Line"})[0]
    jfk, lax = (
        Airport.objects.get_or_create(
            faa=faa, defaults={"name": faa, "latitude": 0, "longitude": 0, "altitude": 0, "utc_offset": 0}
        )[0]
        for faa in ("JFK", "LAX")
    )
    for number in range(count):
        flight = Flight.objects.create(
            carrier=airline, number=number + 2, origin=jfk, destination=lax, departs_at="2013-01-01T00:00Z", distance=1
        )
        Disruption.objects.create(flight=flight, kind=Disruption.Kind.values[0], note="it snows")
        yield flight.pk


@dataclass
class _Shape:
    """One shape of a ModelAdmin, with the classes of its forms and the data of each row."""

    rights: Any
    form_class: Any
    formset_class: Any
    data: Mapping[int, Any]

    @classmethod
    def of(cls, user: Any, keys: list[int]) -> _Shape:
        request = from_settings().for_principal(Principal(user, frozenset({"read", "write"})))
        rights = Rights(site, request, from_primary=True).of_model(Flight)
        if rights is None:
            raise LookupError("The user may not read flights.")
        made, flight = cls(rights, None, None, {}), Flight.objects.get(pk=keys[0])
        with transaction.atomic():
            sender = RowSender(rights, leaves_out=False)
            sent = {key: sender.send(made._given(key, 0), ViewRun(writes=True)).sent for key in keys}
            transaction.set_rollback(True)
        of_admin = admin.site.get_model_admin(Flight)
        made.data = {key: one.request.POST for key, one in sent.items()}
        made.form_class = of_admin.get_form(request, flight, change=True)
        [made.formset_class] = (one for one, _ in of_admin.get_formsets_with_inlines(request, flight))
        return made

    def _given(self, key: int, turn: int) -> GivenRow:
        return GivenRow(self.rights, key, {"notes": f"fog {turn}"})

    def save_bare(self, turn: int) -> None:
        for key, sent in self.data.items():
            row, data = Flight.objects.get(pk=key), {**sent.dict(), "notes": f"bare {turn}"}
            form = self.form_class(data, instance=row)
            formset = self.formset_class(data, instance=row, queryset=Disruption.objects.order_by("pk"))
            if not (form.is_valid() and formset.is_valid()):
                raise ValueError(f"{form.errors} {formset.errors}")
            form.save()
            formset.save()

    def send(self, turn: int) -> None:
        sender = RowSender(self.rights, leaves_out=True)
        for key in self.data:
            sender.send(self._given(key, turn), ViewRun(writes=True, by="by an agent"))


_turns = iter(range(1, 1_000_000))


def _seconds(way: Callable[[int], None]) -> float:
    """Seconds of the processor for all rows. What was written stays."""
    begun = process_time()
    with transaction.atomic():
        way(next(_turns))
    return process_time() - begun


def _statements(way: Callable[[int], None]) -> int:
    """Statements of a row, where others were written before."""
    with transaction.atomic(), CaptureQueriesContext(connection) as captured:
        way(next(_turns))
    return round(len(captured) / ROWS)
