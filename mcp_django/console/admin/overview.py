"""What the first page of the console shows: how to start, what agents did, what waits for a person, and risky tools."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.contrib.admin import AdminSite
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from mcp_django.bridge.sites import all_sites
from mcp_django.bridge.tasks import task_rows
from mcp_django.console.admin import documentation
from mcp_django.console.admin.activity import CallAdmin
from mcp_django.console.admin.call_chart import Chart
from mcp_django.console.admin.getting_started import GettingStarted
from mcp_django.console.admin.overrides import tool_of
from mcp_django.console.admin.seen_calls import key_of, seen_calls
from mcp_django.console.changes import waiting
from mcp_django.console.review.unmet_rules import unmet
from mcp_django.models import AccessToken, Call, Change, DueRun, Task, Tool
from mcp_django.models.tokens import SOON

_LISTED = 10


class Overview:
    """The parts of the page. Those of a model are empty for viewers who may not view it in this AdminSite."""

    def __init__(self, admin_site: AdminSite, request: HttpRequest) -> None:
        self._site, self._request = admin_site, request

    def _shows(self, model: type[Model]) -> bool:
        admin_site = self._site
        return admin_site.is_registered(model) and admin_site.get_model_admin(model).has_view_permission(self._request)

    @cached_property
    def chart(self) -> Chart | None:
        """What agents did; None for viewers who may not see the activity, and where there is nothing yet."""
        calls = seen_calls(self._site, self._request)
        if calls is None or self.starting.is_fresh:
            return None
        return Chart(self._request.GET, calls, key_of(self._request, calls))

    @cached_property
    def starting(self) -> GettingStarted:
        return GettingStarted(self._site, self._request)

    @property
    def shows_starting(self) -> bool:
        """Whether the card stands there: as long as something is left to do, and in the place of numbers of nothing."""
        return self.starting.is_shown or (self._shows(Call) and self.starting.is_fresh)

    @property
    def activity_url(self) -> str:
        return self._url(Call)

    @property
    def connections_url(self) -> str:
        """Empty for viewers who may not see it, and where a ModelAdmin of the project shows the calls."""
        has_page = self._shows(Call) and isinstance(self._site.get_model_admin(Call), CallAdmin)
        return self._url(Call, "connections") if has_page else ""

    @property
    def documentation(self) -> list[tuple[Any, str]]:
        """Where the pages of the console are described; nothing without DOCS_URL."""
        return documentation.subjects()

    @cached_property
    def asking(self) -> int:
        """How many tasks of all users wait for an answer. The page shows it beside the activity."""
        return Task.objects.filter(task_rows.is_kept(), state=Task.State.ASKING).count()

    @cached_property
    def waiting(self) -> int:
        """How many changes wait for this viewer."""
        return len(waiting.waiting_for(self._request)) if self._shows(Change) else 0

    @cached_property
    def due_at(self) -> datetime.datetime | None:
        """When ``mcp_due`` ran last."""
        ran = DueRun.objects.first() if self._shows(Change) else None
        return None if ran is None else ran.at

    @cached_property
    def lacks_due(self) -> bool:
        """Whether changes have waited for other people, and ``mcp_due`` has never run to tell anybody."""
        return self._shows(Change) and self.due_at is None and Change.objects.filter(waiting.NEEDS_OTHERS).exists()

    @cached_property
    def unmet(self) -> Sequence[str]:
        """The approvals that too few people may give, for viewers who may see tools."""
        return [str(one) for site in all_sites() for one in unmet(site)] if self._shows(Tool) else []

    @property
    def waiting_url(self) -> str:
        return f"{self._url(Change)}?state__exact={Change.State.WAITING}"

    @cached_property
    def ending_tokens(self) -> Sequence[tuple[AccessToken, str]]:
        """The tokens in use that end soon, of those that the viewer may see, each with the URL of its page."""
        if not self._shows(AccessToken):
            return []
        now = timezone.now()
        tokens = self._site.get_model_admin(AccessToken).get_queryset(self._request)
        ending = tokens.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + SOON)
        used = ending.filter(last_used_at__gte=now - SOON).order_by("expires_at")
        return [(token, self._url(AccessToken, "change", token.pk)) for token in used[:_LISTED]]

    @cached_property
    def destroying(self) -> Sequence[tuple[Tool, str]] | None:
        """The tools that are switched on and may destroy data; None for viewers who may not see tools."""
        if not self._shows(Tool):
            return None
        on = Tool.objects.filter(enabled=True)
        found = [(row, tool) for row in on if (tool := tool_of(row)) is not None]
        destroying = [
            row for row, tool in found if tool.annotations.destructive and tool.may_change and not tool.is_closed
        ]
        return [(row, self._url(Tool, "change", row.pk)) for row in destroying]

    def _url(self, model: type[Model], page: str = "changelist", *args: object) -> str:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        return reverse(name, args=args, current_app=self._site.name)
