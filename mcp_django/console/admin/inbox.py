"""The filters of the list of changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_django.console.changes.waiting import groups
from mcp_django.models import Change
from mcp_django.protocol.names import printable

#: The parameters of the list: which changes it shows, and the one to which others are alike.
SHOWS, ALIKE = "show", "alike"
MINE = "mine"
_OPEN = (Change.State.WAITING, Change.State.WRITING)


# Filters.


class ShownFilter(admin.SimpleListFilter):
    """What waits for the person, where alike ones are one line, what their own agents proposed, and what is over."""

    title = _("who decides next")
    parameter_name = SHOWS

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, Any]]:
        return [(MINE, _("Waits for me")), ("agents", _("My agents")), ("decided", _("Decided"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        match self.value():
            case "mine":
                return queryset.filter(pk__in=list(groups(request)))
            case "agents":
                return queryset.filter(user=request.user.pk)
            case "decided":
                return queryset.exclude(state__in=_OPEN)
        return queryset


class AlikeFilter(admin.SimpleListFilter):
    """The changes that are alike to one. Only the line of that one leads here."""

    title = _("alike ones")
    parameter_name = ALIKE

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, Any]]:
        chosen = self.value()
        return [(chosen, _("Alike ones"))] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        if not self.value():
            return queryset
        alike = groups(request).get(str(self.value()), ())
        return queryset.filter(pk__in=[one.pk for one in alike])


class NamesFilter(admin.AllValuesFieldListFilter):
    """Names that somebody has chosen, each character of which shows. That of nobody is a link that can be seen, too."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": printable(str(choice["display"])) or "-"}
