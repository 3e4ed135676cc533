"""What one credential did, in order, around one of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _

from mcp_django.console.admin.activity_cells import span
from mcp_django.models import Call
from mcp_django.models.call_queries import CallQuerySet

#: Calls on each side of the one that the page is about.
SHOWN = 50
#: A longer time without a call is marked.
GAP = timedelta(minutes=10)
#: What a page may be narrowed by, to calls that share it with the one that it is about.
NARROWED: Mapping[str, Any] = {"trace_id": _("Only this trace"), "session": _("Only this session")}


@dataclass(frozen=True)
class Step:
    """A call, and how long nothing had happened before it where that is worth a mark."""

    call: Call
    gap: str
    is_chosen: bool


@dataclass(frozen=True)
class Story:
    """The calls of a credential around one of them, and the calls at which the page goes on in each direction."""

    steps: list[Step]
    earlier: Call | None
    later: Call | None


def story(calls: CallQuerySet, chosen: Call, narrowed_by: str) -> Story:
    """What the credential of a call did before and after it. ``calls``: those that the viewer may see."""
    same = calls.of_credential(chosen)
    if narrowed_by in NARROWED:
        same = same.filter(**{narrowed_by: getattr(chosen, narrowed_by)})
    before = list(same.beyond(chosen, newest_first=True)[: SHOWN + 1])
    after = list(same.beyond(chosen)[: SHOWN + 1])
    earlier = before.pop() if len(before) > SHOWN else None
    later = after.pop() if len(after) > SHOWN else None
    return Story(list(_steps([*reversed(before), chosen, *after], chosen)), earlier, later)


def ways(chosen: Call) -> Iterator[tuple[str, Any]]:
    """What the page can be narrowed by, as the call has it."""
    return ((name, label) for name, label in NARROWED.items() if getattr(chosen, name))


def _steps(calls: list[Call], chosen: Call) -> Iterator[Step]:
    ended = None
    for call in calls:
        gap = timedelta() if ended is None else call.at - ended
        yield Step(call, span(gap) if gap > GAP else "", call.pk == chosen.pk)
        end = call.at + timedelta(milliseconds=call.ms)
        ended = end if ended is None else max(ended, end)
