"""The pages beside the list of the activity: as it happens, added up, and by credential."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import URLPattern
from django.utils import timezone
from django.utils.translation import gettext as _

from mcp_django.console.admin import activity_filters
from mcp_django.console.admin.base import PagesAdmin
from mcp_django.console.admin.links import visible_row
from mcp_django.core.db.bounds import bounded
from mcp_django.models import AccessToken, Call
from mcp_django.models.call_queries import FILTERS
from mcp_django.protocol.errors import TooSlow

#: The newest calls that the live page shows.
_LIVE = 50
#: How old they are at most, and how long finding them may take.
_RECENT, _SECONDS = timedelta(days=1), 2.0
#: The filters of the live page. A day that is over has nothing new.
_LIVE_FILTERS = [name for name in FILTERS if name != "day"]


class ActivityPages(PagesAdmin):
    """Pages for whoever may view calls, with those calls that the list would show."""

    def activity_urls(self) -> list[URLPattern]:
        return [
            self.page_path("live/", self.live_view, "live"),
            self.page_path("totals/", self.totals_view, "totals"),
            self.page_path("<path:object_id>/credential/", self.credential_view, "credential"),
        ]

    def _calls(self, request: HttpRequest) -> Any:
        """The calls that the viewer may see. Raises PermissionDenied."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.get_queryset(request)

    # As it happens.

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """The newest calls, by the filters of the list; with ``part``, their lines alone, if they are other ones."""
        calls, given = self._calls(request), {}
        try:
            for name in _LIVE_FILTERS:
                if value := request.GET.get(name, ""):
                    calls, given[name] = activity_filters.narrowed(calls, name, value), value
        except IncorrectLookupParameters:
            return HttpResponseRedirect(self.page_url("live"))
        shown, is_too_slow = _newest(calls)
        if "part" not in request.GET:
            return self.page(
                request, "call/live", title=_("Activity, live"), calls=shown, most=_LIVE, is_too_slow=is_too_slow,
                query=request.GET.urlencode(), changed_at=timezone.now(),
                given=activity_filters.in_words(request, self, given),
            )  # fmt: skip
        request.current_app = self.admin_site.name
        body = render_to_string(
            "admin/mcp_django/call/live_lines.html",
            {"calls": shown, "opts": self.opts, "is_too_slow": is_too_slow},
            request,
        )
        # Not the one of the whole response, which holds a time.
        tag = f'"{hashlib.sha256(body.encode()).hexdigest()[:32]}"'
        if request.headers.get("If-None-Match") == tag:
            return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
        return HttpResponse(body, headers={"ETag": tag})

    # Added up.

    def totals_view(self, request: HttpRequest) -> HttpResponse:
        """The calls of a period by agent, token and tool, and the errors that are alike."""
        from mcp_django.console.admin import totals

        calls, period = self._calls(request), request.GET.get("period", "day")
        if period not in totals.PERIODS:
            return HttpResponseRedirect(self.page_url("totals"))
        found = totals.totals(request, calls, period)
        headings = {
            "client": _("Agents, as they call themselves"),
            "token": _("Tokens"),
            "tool": _("Tools and prompts"),
        }
        tables = [(name, headings[name], found.tables.get(name, ())) for name in totals.GROUPINGS]
        return self.page(
            request, "call/totals", title=_("Totals"), totals=found, tables=tables, period=period,
            most=totals.MOST, most_sampled=totals.MOST_SAMPLED,
            periods=[(name, label) for name, (_length, label) in totals.PERIODS.items()],
        )  # fmt: skip

    # What one credential did.

    def credential_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What the credential of a call did, in order, around that call."""
        from mcp_django.console.admin import credential

        calls = self._calls(request)
        chosen = self.get_object(request, object_id)
        if not isinstance(chosen, Call) or not chosen.user_id:
            raise Http404
        by = request.GET.get("by", "")
        by = by if by in credential.NARROWED else ""
        told = credential.story(calls, chosen, by)
        token = visible_row(self.admin_site, request, AccessToken, chosen.token_id) if chosen.token_id else None
        return self.page(
            request, "call/credential", title=_("What %(credential)s did") % {"credential": _named(chosen)},
            chosen=chosen, story=told, token=token, by=by, ways=list(credential.ways(chosen)),
        )  # fmt: skip


def _newest(calls: QuerySet[Call]) -> tuple[list[Call], bool]:
    """The newest of the calls of a day, and whether they could not be found in time: the page asks again and again."""
    try:
        with bounded(calls.db, _SECONDS):
            return list(calls.filter(at__gt=timezone.now() - _RECENT).order_by("-at", "-pk")[:_LIVE]), False
    except TooSlow:
        return [], True


def _named(call: Call) -> str:
    """The credential of a call in words."""
    user = call.user_name or call.user_id
    if call.token_id is None:
        return _("%(user)s without a token") % {"user": user}
    return _("%(token)s of %(user)s") % {"token": call.token_name or call.token_id, "user": user}
