"""How a line of the activity is shown: its time, its outcome with the reason, and how long it took."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from mcp_django.console.pages.own_calls import LOOKS
from mcp_django.models import Call


def badge(call: Call) -> SafeString:
    """The outcome, and behind it why it is not done."""
    look = LOOKS.get(call.outcome, "")
    shown = format_html('<span class="mcp-badge {}">{}</span>', look, call.get_outcome_display())
    why = reason_text(call.reason, call.detail)
    if not why or why.lower() == call.outcome:
        return format_html('<span class="mcp">{}</span>', shown)
    return format_html(
        '<span class="mcp">{} <span class="mcp-quiet" title="{}">{}</span></span>', shown, explained(call.reason), why
    )


def reason_text(reason: str, detail: str) -> str:
    """A reason with what it names: ``INVALID_ARGUMENTS (limit, model)``."""
    return f"{reason} ({detail})" if detail else reason


def explained(reason: str) -> Any:
    """What a reason says; empty for one that a project made, and for what people did."""
    from mcp_django.models.reasons import REASONS

    return REASONS.get(reason, "")


def moment(at: datetime) -> SafeString:
    """A time of the viewer's zone: the day, the hour and the minute to read, and all of it to point at."""
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    # A narrow column breaks between the two, and not within the date.
    return format_html(
        '<time datetime="{}" title="{}"><span class="nowrap">{}</span> {}</time>',
        local.isoformat(), local.isoformat(sep=" ", timespec="milliseconds"),
        date_format(local, "SHORT_DATE_FORMAT"), date_format(local, "H:i:s"),
    )  # fmt: skip


def span(length: timedelta) -> str:
    """A time in its two greatest units: ``2 h 5 min``, ``3 min 20 s``, ``1.5 s``, ``12.5 ms``."""
    seconds = length.total_seconds()
    if seconds < 1:
        return gettext("%(number)s ms") % {"number": number_format(seconds * 1_000, 1)}
    if seconds < 60:
        return gettext("%(number)s s") % {"number": number_format(seconds, 1)}
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [
        (days, ngettext("%(count)d day", "%(count)d days", days)), (hours, gettext("%(count)d h")),
        (minutes, gettext("%(count)d min")), (seconds, gettext("%(count)d s")),
    ]  # fmt: skip
    greatest = next(place for place, (number, _text) in enumerate(units) if number)
    return " ".join(text % {"count": number} for number, text in units[greatest : greatest + 2] if number)
