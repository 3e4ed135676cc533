"""``{% mcp_overview %}`` and ``{% mcp_chart %}``: what the first page of the console shows.

Projects without the Django admin import this too, as ``manage.py check`` does: the tags import the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import template
from django.contrib.admin.sites import site as default_site
from django.template import Context

from mcp_django.core.compat.admin import existing_admin_sites

if TYPE_CHECKING:
    from mcp_django.console.admin.overview import Day, Overview

register = template.Library()

#: In the units of the drawing, whose width the page decides.
_WIDTH, _HEIGHT, _BOTTOM = 560, 120, 18
_GAP = 4


@register.simple_tag(takes_context=True)
def mcp_overview(context: Context) -> Overview:
    """``{% mcp_overview as overview %}``: what the viewer of this page may see of what agents did."""
    from mcp_django.console.admin.overview import Overview

    request = context["request"]
    name = getattr(request, "current_app", default_site.name)
    admin_site = next((site for site in existing_admin_sites() if site.name == name), default_site)
    return Overview(admin_site, request)


@register.simple_tag
def mcp_tools(changelist: Any) -> list[tuple[Any, Any]]:
    """``{% mcp_tools cl as groups %}``: the tools of a list by what they are, each group with its heading."""
    return list(changelist.model_admin.groups_of(changelist.request, changelist))


@dataclass(frozen=True)
class _Bar:
    """A part of the bar of one day."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@register.inclusion_tag("admin/mcp_django/chart.html")
def mcp_chart(days: Sequence[Day]) -> dict[str, Any]:
    """``{% mcp_chart overview.days %}``: a bar for each day, of what was done, refused and failed."""
    most = max((day.calls for day in days), default=0) or 1
    step = _WIDTH / max(len(days), 1)
    bars, labels = [], []
    for number, day in enumerate(days):
        x, top = number * step + _GAP / 2, float(_HEIGHT - _BOTTOM)
        for kind in ("done", "refused", "failed"):
            height = getattr(day, kind) / most * (_HEIGHT - _BOTTOM - 2)
            top -= height
            if height:
                bars.append(_Bar(kind, round(x, 1), round(top, 1), round(step - _GAP, 1), round(height, 1)))
        if number % 3 == (len(days) - 1) % 3:
            labels.append((round(x + (step - _GAP) / 2, 1), day.date))
    drawn = {"width": _WIDTH, "height": _HEIGHT, "baseline": _HEIGHT - _BOTTOM, "text_y": _HEIGHT - 4}
    return {"days": days, "bars": bars, "labels": labels, "most": most, **drawn}
