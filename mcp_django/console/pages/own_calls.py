"""The last calls of a person's own agents, in words and without the values of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from mcp_django.access.permissions import Decision
from mcp_django.models import Call
from mcp_django.models.call_queries import user_id
from mcp_django.models.reasons import REASONS
from mcp_django.protocol.names import CONSOLE, client_name

_LISTED = 50
#: What the user may not use looks as if it did not exist, to the agent and here: these differ in the trail alone.
HIDDEN = frozenset({
    *(decision.name for decision in Decision if decision is not Decision.ALLOWED), "NO_TASKS",
    "TOOL_NOT_FOUND", "PROMPT_NOT_FOUND", "RESOURCE_NOT_FOUND", "REFERENCE_NOT_FOUND", "NO_RECORD",
})  # fmt: skip
_ABSENT = _("There is no such thing, or this agent may not use it.")
#: Outcome → the class of its badge.
LOOKS: Mapping[str, str] = {
    Call.Outcome.DONE: "is-good",
    Call.Outcome.FAILED: "is-bad",
    Call.Outcome.REFUSED: "is-note",
    Call.Outcome.WAITING: "is-note",
    Call.Outcome.UNKNOWN: "is-bad",
}


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call as the page shows it."""

    at: datetime
    what: str
    outcome: str
    badge: str
    #: Why it was refused or failed; empty where it was done.
    why: Any
    agent: str


def calls_of(user: Any) -> Sequence[ShownCall]:
    """The last calls of the user's agents, the latest first."""
    calls = Call.objects.filter(user_id=user_id(user.pk), kind__in=Call.BY_AGENTS)
    # A person who tries a tool in the admin is no agent.
    calls = calls.exclude(transport="admin", client_name__startswith=CONSOLE).order_by("-at", "-pk")
    return [_shown(call) for call in calls[:_LISTED]]


def _shown(call: Call) -> ShownCall:
    agent = call.client_name or client_name(call.token_name)
    badge = LOOKS.get(call.outcome, "")
    return ShownCall(call.local_at, call.subject, call.get_outcome_display(), badge, _why(call), agent)


def _why(call: Call) -> Any:
    if call.reason in HIDDEN:
        return _ABSENT
    # A project's own error has a reason of its own.
    return REASONS.get(call.reason) or call.reason.replace("_", " ").capitalize()
