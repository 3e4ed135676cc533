"""The page on which a person takes back what an agent changed, in that person's own name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.utils.translation import gettext

from mcp_django.bridge.changes import approvals, outcomes
from mcp_django.bridge.changes.change_rows import NotWaiting
from mcp_django.bridge.changes.proposed import LINEAGE
from mcp_django.bridge.changes.run import StaleView
from mcp_django.bridge.writes.tools import UndoChange
from mcp_django.console.changes import deciding
from mcp_django.console.changes.deciding import Outcome
from mcp_django.console.changes.effect_parts import parts_of
from mcp_django.models import Change
from mcp_django.protocol.names import printable

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.protocol.types import JSON
    from mcp_django.server.begun_changes import Begun


def can_be_undone(change: Change) -> bool:
    return change.state == Change.State.APPLIED and outcomes.can_be_undone(change)


def begun(request: HttpRequest, change: Change, *, since: bool) -> Begun:
    """What undoing it would do now, or ``since`` then all that its agent did. Raises CannotApply."""
    from mcp_django.server import begun_changes
    from mcp_django.server.waiting_changes import CannotApply

    site = deciding.site_of(change)
    if len(site.persons_of(request)) > 1:
        raise CannotApply(gettext("You act as another user. Log in as yourself to undo changes."))
    if not deciding.is_in_its_tenant(request, change):
        raise CannotApply(gettext("Open this page at the host at which the agent works."))
    arguments: JSON = {LINEAGE: change.line}
    if since and change.decided_at is not None:
        arguments["since"] = change.decided_at.isoformat()
    else:
        arguments["change"] = change.pk
    return begun_changes.begin(request, site, UndoChange.name, arguments)


def context(found: Begun, page: int) -> JSON:
    """What the page shows."""
    left = found.preview.get("left_alone", [])
    return {
        "effect": parts_of(found.lines, page),
        "digest": found.digest,
        "needs_others": approvals.who(found.change) if found.needs_others else "",
        "left_alone": [printable(" ".join(filter(None, (one["model"], one["id"], one.get("field"), f"({one['why']})"))))
                       for one in left],
        "more_left": found.preview.get("left_alone_count", 0) - len(left),
        "notes": [printable(note) for note in found.preview.get("notes", ())],
    }  # fmt: skip


def make(found: Begun, digest: str) -> Outcome:
    """Undo it, if that is what the person was shown."""
    from mcp_django.server import begun_changes
    from mcp_django.server.waiting_changes import CannotApply

    if found.digest != digest:
        return deciding.STALE
    try:
        is_made = begun_changes.make(found)
    except (StaleView, NotWaiting):
        return deciding.STALE
    except CannotApply as error:
        return Outcome(messages.ERROR, str(error))
    said = gettext("It was undone.") if is_made else gettext("Other people must approve this. It waits.")
    return Outcome(messages.SUCCESS, said)
