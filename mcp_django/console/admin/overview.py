"""What the first page of the console shows: the calls of each day, what waits for a person, and risky tools."""

from __future__ import annotations

import datetime
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.db.models import Count, Model, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from mcp_django.bridge.resources.fields.days import Days, moment_comparison
from mcp_django.bridge.sites import all_sites
from mcp_django.console.admin import documentation, inbox
from mcp_django.console.admin.activity import CallAdmin
from mcp_django.console.admin.overrides import tool_of
from mcp_django.console.admin.token_status import SOON
from mcp_django.console.review.unmet_rules import unmet
from mcp_django.models import AccessToken, Call, Change, DueRun, Task, Tool

#: The days of the chart, today included.
_DAYS = 14
#: After this time, the recorder has written every line of the day before.
_LATE = datetime.timedelta(hours=1)
#: The kinds of what agents did. The other kinds are of people and of the server.
_BY_AGENTS = (
    Call.Kind.CALL, Call.Kind.READ, Call.Kind.PROMPT, Call.Kind.SUBSCRIPTION, Call.Kind.COMPLETION, Call.Kind.TASK,
    Call.Kind.REQUEST,
)  # fmt: skip
_LISTED = 10


@dataclass(frozen=True)
class Day:
    """What agents did on one local day."""

    date: datetime.date
    calls: int = 0
    failed: int = 0
    refused: int = 0
    agents: int = 0
    rows: int = 0

    @property
    def unsuccessful(self) -> int:
        return self.failed + self.refused

    @property
    def done(self) -> int:
        return self.calls - self.unsuccessful


class Overview:
    """The parts of the page. Those of a model are empty for viewers who may not view it in this AdminSite."""

    def __init__(self, admin_site: AdminSite, request: HttpRequest) -> None:
        self._site, self._request = admin_site, request

    def _shows(self, model: type[Model]) -> bool:
        admin_site = self._site
        return admin_site.is_registered(model) and admin_site.get_model_admin(model).has_view_permission(self._request)

    @cached_property
    def days(self) -> Sequence[Day]:
        """The last days, the oldest first; none for viewers who may not see the activity."""
        return list(_days()) if self._shows(Call) else []

    @property
    def today(self) -> Day | None:
        return self.days[-1] if self.days else None

    @property
    def activity_url(self) -> str:
        return self._url(Call)

    @property
    def connections_url(self) -> str:
        """Empty where a ModelAdmin of the project shows the calls: it has no page of connections."""
        has_page = isinstance(self._site.get_model_admin(Call), CallAdmin)
        return self._url(Call, "connections") if has_page else ""

    @property
    def documentation(self) -> list[tuple[Any, str]]:
        """Where the pages of the console are described; nothing without DOCS_URL."""
        return documentation.subjects()

    @cached_property
    def asking(self) -> int:
        """How many tasks of all users wait for an answer. The page shows it beside the activity."""
        return Task.objects.filter(state=Task.State.ASKING, expires_at__gt=timezone.now()).count()

    @cached_property
    def waiting(self) -> int:
        """How many changes wait for this viewer."""
        return len(inbox.waiting_for(self._request)) if self._shows(Change) else 0

    @cached_property
    def due_at(self) -> datetime.datetime | None:
        """When ``mcp_due`` ran last."""
        ran = DueRun.objects.first() if self._shows(Change) else None
        return None if ran is None else ran.at

    @cached_property
    def lacks_due(self) -> bool:
        """Whether changes have waited for other people, and ``mcp_due`` has never run to tell anybody."""
        return self._shows(Change) and self.due_at is None and Change.objects.filter(inbox.NEEDS_OTHERS).exists()

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
        destroying = [row for row, tool in found if tool.may_change and tool.annotations.destructive]
        return [(row, self._url(Tool, "change", row.pk)) for row in destroying]

    def _url(self, model: type[Model], page: str = "changelist", *args: object) -> str:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        return reverse(name, args=args, current_app=self._site.name)


#: Days that are over, by time zone and date: counting a day reads all of its lines.
_finished: OrderedDict[tuple[str, datetime.date], Day] = OrderedDict()
_MAX_FINISHED = 1_000


def forget() -> None:
    """Count all days anew."""
    _finished.clear()


def _days() -> Iterator[Day]:
    """The last days, the oldest first. Those that are over are counted once in a process."""
    today = Days.today().first
    dates = [today - datetime.timedelta(days=back) for back in reversed(range(_DAYS))]
    # Lines of the last minutes of a day may be written after its end.
    ends_at = Days(today, today).start()
    is_settled = ends_at is not None and _now() - ends_at > _LATE
    zone = timezone.get_current_timezone_name()
    counted = dict(_counted([date for date in dates if (zone, date) not in _finished]))
    for date, day in counted.items():
        if date < today and is_settled:
            _finished[zone, date] = day
    while len(_finished) > _MAX_FINISHED:
        _finished.popitem(last=False)
    return (counted.get(date) or _finished[zone, date] for date in dates)


def _now() -> datetime.datetime:
    return timezone.now() if settings.USE_TZ else datetime.datetime.now()


def _counted(dates: Sequence[datetime.date]) -> Iterator[tuple[datetime.date, Day]]:
    """Count these days with one statement. Each of its parts finds a day by the index of the time."""
    first, *others = [_of_day(number, date) for number, date in enumerate(dates)]
    for row in first.union(*others, all=True).order_by():
        date = dates[row["number"]]
        yield date, Day(date, *(row[name] or 0 for name in ("calls", "failed", "refused", "agents", "rows_read")))


def _of_day(number: int, date: datetime.date) -> QuerySet[Call, dict[str, Any]]:
    calls = Call.objects.order_by().filter(moment_comparison("at", "date", date), kind__in=_BY_AGENTS)
    counted: QuerySet[Call, dict[str, Any]] = calls.values(number=Value(number)).annotate(
        calls=Sum("count"),
        failed=Sum("count", filter=Q(outcome=Call.Outcome.FAILED)),
        refused=Sum("count", filter=Q(outcome=Call.Outcome.REFUSED)),
        agents=Count(Concat("user_id", Value(" "), "client_name"), distinct=True),
        rows_read=Sum("rows"),
    )
    return counted
