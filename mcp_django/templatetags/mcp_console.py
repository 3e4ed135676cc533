"""What the pages of the console show: ``{% mcp_overview %}``, ``{% mcp_chart %}``, and cells of the activity.

Projects without the Django admin import this too, as ``manage.py check`` does: the tags import the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import template
from django.contrib.admin.sites import site as default_site
from django.template import Context
from django.utils.safestring import SafeString

from mcp_django.conf import get_conf
from mcp_django.core.compat.admin import existing_admin_sites

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.http import HttpRequest

    from mcp_django.console.admin.call_chart import Chart, Span
    from mcp_django.console.admin.overview import Overview
    from mcp_django.models import Call

register = template.Library()

#: In the units of the drawing, which the page stretches to its own width and height.
_HEIGHT, _BAR, _GAP = 100, 8, 2


@register.simple_tag(takes_context=True)
def mcp_overview(context: Context) -> Overview:
    """``{% mcp_overview as overview %}``: what the viewer of this page may see of what agents did."""
    from mcp_django.console.admin.overview import Overview

    request = context["request"]
    return Overview(_admin_site(request), request)


def _admin_site(request: HttpRequest) -> AdminSite:
    name = getattr(request, "current_app", default_site.name)
    return next((site for site in existing_admin_sites() if site.name == name), default_site)


@register.simple_tag
def mcp_links(links: Sequence[tuple[str, Any]], place: str = "form") -> SafeString:
    """``{% mcp_links links 'list' %}``: the links in the head of a "form" or a "list" of Django's admin.

    Those of a list are "beside" its name in django-unfold. What a page has elsewhere is empty.
    """
    from mcp_django.console.admin import unfold

    return unfold.links(links, place)


@register.inclusion_tag("admin/mcp_django/pause_banner.html", takes_context=True)
def mcp_pause_banner(context: Context) -> dict[str, Any]:
    """``{% mcp_pause_banner %}``: says on a page of ours that all agents are paused, with the way to let them go on."""
    from mcp_django.console.admin import pausing

    request = context["request"]
    return {**pausing.banner(_admin_site(request), request), "csrf_token": context.get("csrf_token", "")}


@register.inclusion_tag("admin/mcp_django/pauses.html", takes_context=True)
def mcp_pauses(context: Context) -> dict[str, Any]:
    """``{% mcp_pauses %}``: the button that stops all agents, and who else is paused."""
    from mcp_django.console.admin import pausing

    request = context["request"]
    return {**pausing.card(_admin_site(request), request), "csrf_token": context.get("csrf_token", "")}


@register.inclusion_tag("mcp_django/read_only.html")
def mcp_read_only() -> dict[str, Any]:
    """``{% mcp_read_only %}``: says beside what gives rights that READ_ONLY lets no agent change data; else nothing."""
    return {"is_read_only": get_conf().READ_ONLY}


@register.simple_tag
def mcp_tools(changelist: Any) -> list[tuple[Any, Any]]:
    """``{% mcp_tools cl as groups %}``: the tools of a list by what they are, each group with its heading."""
    return list(changelist.model_admin.groups_of(changelist.request, changelist))


@register.filter
def mcp_moment(at: datetime) -> SafeString:
    """``{{ call.at|mcp_moment }}``: a time in the viewer's zone, with hours and minutes."""
    from mcp_django.console.admin.activity_cells import moment

    return moment(at)


@register.filter
def mcp_outcome(call: Call) -> SafeString:
    """``{{ call|mcp_outcome }}``: what came of a call, as a badge with the reason."""
    from mcp_django.console.admin.activity_cells import badge

    return badge(call)


@register.filter
def mcp_explained(reason: str) -> str:
    """``{{ reason|mcp_explained }}``: what a reason says."""
    from mcp_django.console.admin.activity_cells import explained

    return str(explained(reason))


@register.filter
def mcp_took(ms: float | None) -> str:
    """``{{ call.ms|mcp_took }}``: milliseconds as people read them."""
    from mcp_django.console.admin.activity_cells import span

    return "-" if ms is None else span(timedelta(milliseconds=ms))


@dataclass(frozen=True)
class _Bar:
    """What was done, refused and failed in one day or hour: the parts of its bar."""

    span: Span
    x: int
    #: Kind, upper end and height.
    parts: Sequence[tuple[str, float, float]]


@register.inclusion_tag("admin/mcp_django/chart.html")
def mcp_chart(chart: Chart) -> dict[str, Any]:
    """``{% mcp_chart overview.chart %}``: a bar for each hour or day, of what was done, refused and failed."""
    bars = []
    for number, span in enumerate(chart.spans):
        top, parts = float(_HEIGHT), []
        for kind in ("done", "refused", "failed"):
            height = getattr(span, kind) / (chart.most or 1) * _HEIGHT
            top -= height
            if height:
                parts.append((kind, round(top, 1), round(height, 1)))
        bars.append(_Bar(span, number * (_BAR + _GAP), parts))
    drawn = {"width": len(bars) * (_BAR + _GAP) - _GAP, "height": _HEIGHT, "bar": _BAR}
    return {"chart": chart, "bars": bars, **drawn}
