"""The filters and the search of the activity, none of which reads the whole table for its choices."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.resources.fields.days import Days
from mcp_django.exchange.addresses import canonical
from mcp_django.models import Call
from mcp_django.models.call_queries import FILTERS, CallQuerySet, session_mark

#: How many of the newest calls give their values as choices, and how many choices a column has at most.
_NEWEST = 1_000
_OFFERED = 10

_OFFERED_COLUMNS = ("user_id", "user_name", "token_id", "token_name", "client_name", "name", "model")
_DAY = datetime.timedelta(days=1)
_RECORD = re.compile(r"(\w+\.\w+)\s+(\S+)")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class ActivityFilter(admin.SimpleListFilter):
    """A filter of the activity. Its value is the one in the URL."""

    #: The type of the field for a value that no link has. Empty: every value has a link.
    input_type = ""
    template = "admin/mcp_django/activity_filter.html"
    #: The other parameters of the page, which the form of the field sends along.
    kept: list[tuple[str, str]]

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[Any]:
        self.kept = [(name, value) for name, value in changelist.params.items() if name != self.parameter_name]
        return super().choices(changelist)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        check(str(self.parameter_name), value)
        return self.narrow(queryset, value)

    def narrow(self, calls: Any, value: str) -> QuerySet[Any]:
        return narrowed(calls, str(self.parameter_name), value)


def narrowed(calls: Any, name: str, value: str) -> CallQuerySet:
    """The calls with this value, by one of FILTERS. Raises IncorrectLookupParameters."""
    check(name, value)
    return FILTERS[name](calls, value)


def check(name: str, value: str) -> None:
    """Raises IncorrectLookupParameters for a text that no database takes."""
    if "\0" in value:
        raise IncorrectLookupParameters(f"{name}: no text holds a null character")


class DayFilter(ActivityFilter):
    """The calls of a local day, or of the past seven days."""

    title = _("day")
    parameter_name = "day"
    input_type = "date"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        named: list[tuple[str, Any]] = [
            ("today", _("Today")),
            ("yesterday", _("Yesterday")),
            ("week", _("Past 7 days")),
        ]
        chosen = self.value()
        return [*named, (chosen, _in_words(chosen))] if chosen and chosen not in dict(named) else named

    def narrow(self, calls: Any, value: str) -> QuerySet[Any]:
        try:
            days = _days(value)
            start, end = days.start(), days.end()
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(error) from error
        narrowed: CallQuerySet = calls.filter(at__gte=start, at__lt=end)
        return narrowed


def _in_words(day: str) -> str:
    try:
        return date_format(datetime.date.fromisoformat(day))
    except ValueError:
        return day


def _days(value: str) -> Days:
    """The days of ``today``, ``yesterday``, ``week`` or a date. Raises ValueError for anything else."""
    today = Days.today().first
    named = {
        "today": Days(today, today),
        "yesterday": Days(today - _DAY, today - _DAY),
        "week": Days(today - 6 * _DAY, today),
    }
    return named.get(value) or Days(*[datetime.date.fromisoformat(value)] * 2)


class KindFilter(ActivityFilter):
    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[Any, Any]]:
        return Call.Kind.choices


class OutcomeFilter(ActivityFilter):
    title = _("outcome")
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[Any, Any]]:
        return Call.Outcome.choices


class ReasonFilter(ActivityFilter):
    """The reason, which links of the pages choose: the list has too many for links of their own."""

    title = _("reason")
    parameter_name = "reason"
    input_type = "text"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.value()
        return [(chosen, chosen)] if chosen else []


class ValueFilter(ActivityFilter):
    """Links for the values of the newest calls, and a field for any other value."""

    input_type = "text"
    #: The column of the value, and the column of what people call it.
    column: str
    label: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        labels: dict[str, str] = {}
        seen: Counter[str] = Counter()
        for call in _newest(request, model_admin):
            value = str(call[self.column] or "")
            if value:
                seen[value] += 1
                # The newest name comes first, and is the one that people know.
                labels.setdefault(value, call[self.label] or value)
        offered = [value for value, _count in seen.most_common(_OFFERED)]
        if (chosen := self.value()) and chosen not in offered:
            offered.append(chosen)
        shared = Counter(labels.values())
        return sorted(
            ((value, _unambiguous(value, labels.get(value, value), shared)) for value in offered),
            key=lambda choice: choice[1],
        )


def _unambiguous(value: str, label: str, shared: Counter[str]) -> str:
    """The label, with the value behind it where several values are called the same."""
    return f"{label} ({value})" if shared[label] > 1 else label


def _newest(request: Any, model_admin: Any) -> list[dict[str, Any]]:
    """The columns of the newest calls that the filters offer: one statement for all filters of a page."""
    if not hasattr(request, "_mcp_newest_calls"):
        newest = model_admin.get_queryset(request).order_by("-at", "-pk")[:_NEWEST]
        request._mcp_newest_calls = list(newest.values(*_OFFERED_COLUMNS))
    found: list[dict[str, Any]] = request._mcp_newest_calls
    return found


class UserFilter(ValueFilter):
    title = _("user")
    parameter_name = "user"
    column, label = "user_id", "user_name"


class TokenFilter(ValueFilter):
    title = _("token")
    parameter_name = "token"
    column, label = "token_id", "token_name"


class ClientFilter(ValueFilter):
    title = _("client")
    parameter_name = "client"
    column = label = "client_name"


class ToolFilter(ValueFilter):
    title = _("tool or prompt")
    parameter_name = "tool"
    column = label = "name"


class ModelFilter(ValueFilter):
    title = _("model")
    parameter_name = "model"
    column = label = "model"


def in_words(request: HttpRequest, model_admin: Any, given: Mapping[str, str]) -> list[tuple[Any, Any]]:
    """Filters with their values, by parameter, as the list of the ModelAdmin calls both."""
    found = []
    for cls in model_admin.list_filter:
        name = cls.parameter_name
        if name in given:
            one = cls(request, {name: [given[name]]}, Call, model_admin)
            found.append((one.title, dict(one.lookup_choices).get(given[name], given[name])))
    return found


def search(calls: Any, text: str) -> QuerySet[Any]:
    """The calls that changed a record (``flights.flight 17``), or that have this id of a request, a trace or a session,
    or this address."""
    text = text.strip()
    found: CallQuerySet
    if not text:
        return calls  # type: ignore[no-any-return]
    if record := _RECORD.fullmatch(text):
        found = calls.of_record(*record.groups())
        return found
    traced = _TRACEPARENT.fullmatch(text.lower())
    trace = traced[1] if traced else text.lower()
    named = Q(request_id=text) | Q(trace_id=trace) | Q(session__in=[text, session_mark(text)])
    found = calls.filter(named | Q(address=canonical(text) or text))
    return found
