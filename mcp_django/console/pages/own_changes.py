"""The changes of a person's own agents that wait, and the page on which that person decides about one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from mcp_django.bridge.changes import approvals, change_rows, outcomes
from mcp_django.bridge.declared.consent import Level
from mcp_django.console.changes import deciding
from mcp_django.console.changes.change_words import ChangeWords, agent_of, time_left
from mcp_django.console.changes.effect_parts import page_in
from mcp_django.console.changes.waiting import own_waiting
from mcp_django.models import Change
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.console.changes.deciding import Choice

_LISTED = 20
_KEY = re.compile(r"[0-9a-f]{1,22}")
#: The decisions of its user, by the values of the page's buttons.
CHOICES: dict[str, Choice] = {"agree": "apply", "reject": "reject"}


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change that waits, in a line."""

    key: str
    what: str
    agent: str
    left: str
    #: Who must approve it, and how many have; empty where its own user decides.
    needed: str = ""
    progress: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The changes of a person's agents that wait."""

    for_me: Sequence[ShownChange]
    for_others: Sequence[ShownChange]
    #: How many more there are.
    unlisted: int


def waiting(request: HttpRequest) -> Waiting:
    """What waits of the agents of the request's person, the oldest first."""
    every = own_waiting(request)
    listed = every[:_LISTED]
    words, votes = ChangeWords(request, listed), approvals.votes_by_change(listed)
    for_me: list[ShownChange] = []
    for_others: list[ShownChange] = []
    for change in listed:
        about = change.pk, words.of(change).text, agent_of(change), time_left(change)
        if approvals.level_of(change) is Level.APPROVE:
            progress = approvals.progress(change, votes[change.pk])
            for_others.append(ShownChange(*about, approvals.who(change), progress))
        else:
            for_me.append(ShownChange(*about))
    return Waiting(for_me, for_others, len(every) - len(listed))


def find(user: Any, key: str) -> Change | None:
    """The change of an agent of the user. None: there is none of this number, or it is somebody else's."""
    # A URL may hold texts that a database cannot take.
    return Change.objects.filter(user=user.pk, pk=key).first() if _KEY.fullmatch(key) else None


def about(request: HttpRequest, change: Change) -> JSON:
    """What the page says about one change, as the page in the admin says it to the user of its agent."""
    shown = deciding.shown(request, change, page_in(request))
    waits, is_open = bool(shown.get("waits")), outcomes.waits(change)
    state = "" if is_open else Change.State(change_rows.state_of(change)).label
    return {
        **shown,
        "change": change,
        "what": ChangeWords(request, [change]).of(change).title,
        "agent": agent_of(change) or printable(change.user_name),
        "left": time_left(change) if waits else "",
        "needed": approvals.who(change) if shown.get("withdraws") else "",
        "votes": approvals.votes_by_change([change])[change.pk],
        "is_open": is_open,
        "state": state,
        "said": "" if is_open else printable(change.note),
        "admin_url": admin_url(request, change) if waits else None,
    }


def admin_url(request: HttpRequest, change: Change) -> str | None:
    """Where the person must decide: in an admin that asks more of its staff than to be logged in, such as a code.

    None where the person decides here.
    """
    if not apps.is_installed("django.contrib.admin"):
        return None
    from django.contrib.admin import AdminSite

    for admin_site in deciding.site_of(change).admin_sites:
        if not admin_site.is_registered(Change) or not AdminSite.has_permission(admin_site, request):
            continue
        if admin_site.has_permission(request):
            return None
        try:
            return reverse("admin:mcp_django_change_change", args=[change.pk], current_app=admin_site.name)
        except NoReverseMatch:
            continue
    return None
