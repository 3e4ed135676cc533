"""What is due at its time, and not because somebody calls: ``manage.py mcp_due`` does it, as no process has a timer.

Each part is a function that returns how much it has done. A part that fails is logged, and the others go on.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from django.apps import apps
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from mcp_django.access import lending
from mcp_django.bridge.changes import approvals, change_rows, outcomes
from mcp_django.bridge.changes.run import StaleView
from mcp_django.bridge.declared.consent import Level
from mcp_django.conf import get_conf
from mcp_django.exchange.requests import from_settings
from mcp_django.models import Change, Decision, DueRun
from mcp_django.protocol.names import client_name, printable
from mcp_django.server import ending_tokens, mails, waiting_changes

logger = logging.getLogger("mcp_django")

#: People who are written to about one change, and how often one person is, at most.
_MOST_WRITTEN_TO, _PAUSE = 50, timedelta(minutes=15)
_AT_ONCE = 200
#: Changes about which one run writes: more than may wait of one user, whose mails may fail.
_MOST_TOLD = 1_000

Part = Callable[[], int]
P = TypeVar("P", bound=Part)

_parts: dict[str, Part] = {}


def due(name: str) -> Callable[[P], P]:
    """Make a function a part of what ``mcp_due`` does. ``name`` says what it counts, as "mails that were sent"."""

    def add(part: P) -> P:
        _parts[name] = part
        return part

    return add


def run() -> Mapping[str, int | None]:
    """Do what is due. Returns how much each part has done; None for one that failed."""
    done: dict[str, int | None] = {}
    for name, part in _parts.items():
        try:
            done[name] = part()
        except Exception:
            logger.exception("mcp_due: %s", name)
            done[name] = None
    DueRun.objects.update_or_create({"at": timezone.now()}, pk=1)
    return done


@due("changes that have expired")
def expire() -> int:
    return change_rows.empty_expired()


@due("rights for a while that have ended")
def mark_lendings() -> int:
    return lending.mark_over()


@due("changes continued")
def go_on() -> int:
    """Make the changes that have all votes they need, and whose run is gone: it has written nothing."""
    now = timezone.now()
    gone = Q(state=Change.State.WRITING, lease_until__lte=now)
    # A process may have died between the last vote and the claim.
    voted = Q(state=Change.State.WAITING, pk__in=Decision.objects.values("change"))
    left = Change.objects.filter(gone | voted, expires_at__gt=now)
    # What an action sent elsewhere is not rolled back, so a person decides whether it runs again.
    left = left.exclude(gone, kind=Change.Kind.ACTION)
    made = 0
    for change in left.order_by("created_at", "pk")[:_AT_ONCE]:
        is_voted_for = outcomes.waits(change) and approvals.level_of(change) is Level.APPROVE
        # To find out what it would do now takes a while, which only one with all votes is worth.
        made += is_voted_for and approvals.may_have_enough(change) and _is_made(change)
    return made


def _is_made(change: Change) -> bool:
    try:
        digest = waiting_changes.shown(change).digest
        if not approvals.has_enough(change, digest):
            return False
        waiting_changes.apply(change, digest)
    except (change_rows.NotWaiting, approvals.NotApproved, StaleView, waiting_changes.CannotApply):
        # Its page says why, to whoever decides.
        return False
    except Exception:
        # It must not hold up the others.
        logger.exception("The change %s could not be continued", change.pk)
        return False
    return True


@due("records of changes that can be undone no more")
def forget_kept() -> int:
    return change_rows.forget_kept()


# Mails.


@due("mails that were sent")
def write_to_people() -> int:
    """Tell people that changes wait for them: how many, of which models, by which agents, and where. No values.

    Each change is told once. A person gets one mail in 15 minutes, since all that waits then is told together.
    """
    now = timezone.now()
    waiting = Change.objects.filter(change_rows.is_waiting())
    if Change.objects.filter(told_at__gt=now - _PAUSE).exists():
        return 0
    untold = list(waiting.filter(told_at=None).order_by("created_at", "pk")[:_MOST_TOLD])
    of_people: dict[Any, list[Change]] = defaultdict(list)
    for change in untold:
        for user in _people(change):
            of_people[user].append(change)
    sent, told, failed = 0, set[str](), set[str]()
    for user, changes in of_people.items():
        keys = {one.pk for one in changes}
        try:
            if _write(user, changes):
                sent, told = sent + 1, told | keys
        except Exception:
            logger.exception("A mail about changes that wait could not be sent")
            failed |= keys
    # Where mails failed and none went out, the next runs try again, for an hour. Where one did, nobody gets it twice.
    again = {one.pk for one in untold if one.pk in failed - told and one.created_at > now - mails.RETRIED_FOR}
    Change.objects.filter(pk__in={one.pk for one in untold} - again).update(told_at=now)
    return sent


def _people(change: Change) -> list[Any]:
    """Whom the change waits for: its user, or those who may approve it."""
    if approvals.level_of(change) is not Level.APPROVE:
        return [] if change.user is None else [change.user]
    try:
        return waiting_changes.approvers(change, _MOST_WRITTEN_TO)
    except (change_rows.NotWaiting, waiting_changes.CannotApply):
        return []
    except Exception:
        logger.exception("It could not be found out who may approve the change %s", change.pk)
        return []


def _write(user: Any, changes: list[Change]) -> bool:
    """Write to one person. False where nobody could; raises what the project's mail raises."""

    def text() -> tuple[str, str]:
        title = ngettext("%(count)d change by an agent waits for you", "%(count)d changes by agents wait for you",
                         len(changes)) % {"count": len(changes)}  # fmt: skip
        by = Counter((one.model or one.tool, _agent_of(one)) for one in changes)
        lines = [
            ngettext("%(count)d of %(model)s, by %(agent)s", "%(count)d of %(model)s, by %(agent)s", count)
            % {"count": count, "model": _called(name, count), "agent": agent}
            for (name, agent), count in by.items()
        ]
        # The host is the project's own: that of the request was the agent's to choose.
        url = outcomes.url_of(from_settings(), user=user) if get_conf().BASE_URL else None
        where = url or gettext("See Changes by agents in the admin, or the page My agent.")
        heading = gettext("%(title)s:") % {"title": title}
        return title, "\n".join([heading, "", *(f"- {line}" for line in lines), "", where, ""])

    return mails.send(user, text)


@due("mails about tokens that end")
def write_about_tokens() -> int:
    return ending_tokens.write_to_users()


def _called(name: str, count: int) -> str:
    """What so many rows of a model are called; the name of a tool as it is."""
    try:
        opts = apps.get_model(name)._meta
    except (LookupError, ValueError):
        return name
    return str(opts.verbose_name if count == 1 else opts.verbose_name_plural)


def _agent_of(change: Change) -> str:
    """Who proposes it: an agent, or a person who undoes something."""
    return printable(change.client_name or client_name(change.token_name) or change.user_name)
