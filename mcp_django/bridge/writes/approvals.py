"""The approval of a change by other people: who may decide, what a vote counts for, and when there are enough.

Nobody approves who stands behind the change, superusers included. A vote counts for exactly what its person was shown,
and as long as that person may still decide. Votes are counted when they are cast, and again in the transaction that
writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_backends, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission
from django.core.exceptions import FieldDoesNotExist
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from mcp_django.access.authentication import login_request
from mcp_django.access.user_permissions import are_in_tables
from mcp_django.bridge.callers import can_own
from mcp_django.bridge.declared.consent import GROUP, Level, Needs, name_of
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes import access, change_rows
from mcp_django.bridge.writes.change_rows import NotWaiting
from mcp_django.exceptions import ToolError
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.models import Change, Decision
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.declared.consent import By
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

PERMISSION = "mcp_django.approve_change"
#: People who are asked one by one whether they may approve.
_MOST_ASKED = 200

Verdict = Decision.Verdict


class NotApproved(Exception):
    """There are not enough votes that count."""


# What is stored of it.


def stored(needs: Needs) -> JSON:
    """What a change needs, as JSON, for pages and for its agent."""
    return {"level": needs.level.name.lower(), "count": needs.count, "by": list(map(_text, needs.by)),
            "rules": list(needs.rules)}  # fmt: skip


def level_of(change: Change) -> Level:
    """What the change was known to need. One of before there were approvals waits for its user."""
    return Level.named(change.needs.get("level", "ask"))


def _text(by: By) -> str:
    return by if isinstance(by, str) else name_of(by)


def who(change: Change) -> str:
    """Who may approve, in words."""
    named = ", ".join(one.removeprefix(GROUP) for one in change.needs.get("by", ()))
    return gettext("staff who may approve changes, by: %(by)s") % {"by": named} if named else gettext(
        "staff who may approve changes, and write these records"
    )  # fmt: skip


def told(change: Change) -> JSON:
    """What the change needs, for its agent."""
    return {"approvals": change.needs.get("count", 1), "given": len(_votes(change)), "by": who(change)}


def persons_of(exchange: Exchange) -> JSON:
    """Everybody who stands behind a change, by keys and e-mail addresses: nobody of them approves it."""
    principal = exchange.principal
    keys = {str(principal.user.pk)}
    if principal.token_id is not None:
        keys |= {str(principal.auth.user_id), principal.auth.made_by}
    if principal.source is Source.LOGIN and (login := login_request(exchange.request)) is not None:
        keys |= exchange.site.persons_of(login)
    # Whoever tries a tool in the console as another user.
    keys.add(str(exchange.usage.values.get("called by", "")))
    model = get_user_model()
    # Keys that name nobody, as of a user who is deleted, have no address.
    known = model._default_manager.filter(pk__in=[key for key in keys if key.isascii() and key])
    return {"keys": sorted(keys - {""}), "emails": sorted({_email(one) for one in known} - {""})}


def _email(user: Any) -> str:
    name = getattr(type(user), "get_email_field_name", lambda: "email")()
    return str(getattr(user, name, "") or "").strip().casefold()


# Who may decide.


def why_not(request: MCPRequest, user: Any, change: Change, needs: Needs, site: Site) -> str:
    """Why the user may not approve the change; empty if nothing speaks against it. What it holds is not looked at.

    ``request`` is any of the site's: the project's hooks are asked with a copy of it, as of that user.
    """
    if not (user.is_active and getattr(user, "is_staff", False) and user.has_perm(PERMISSION)):
        return gettext("You may not approve changes by agents.")
    if _stands_behind(user, change):
        return gettext("You stand behind this change: your agent, your token or your account proposes it.")
    joined = getattr(user, "date_joined", None)
    if joined is not None and joined > change.created_at:
        return gettext("Your account is younger than this change.")
    if not all(_is_named(by, user, change) for by in needs.by):
        return gettext("Its rule names other people to approve it: %(who)s.") % {"who": who(change)}
    rights = rights_of(request, user, site).of_label(change.model)
    operation: Any = change.operation
    if rights is None or not access.may_write(rights, operation):
        return gettext("You may not do this yourself, so you may not approve it either.")
    return ""


def _stands_behind(user: Any, change: Change) -> bool:
    """Whether the user is one of the persons behind it, by the key or by the address of now or of then."""
    if str(user.pk) in {*change.persons.get("keys", ()), str(change.user_id)}:
        return True
    mine, behind = _email(user), set(change.persons.get("emails", ()))
    if not mine:
        return False
    people = get_user_model()._default_manager.filter(pk__in=change.persons.get("keys", ()))
    return mine in behind | {_email(one) for one in people}


def _is_named(by: By, user: Any, change: Change) -> bool:
    if not isinstance(by, str):
        return bool(by(user, change))
    if by.startswith(GROUP):
        groups = getattr(user, "groups", None)
        return groups is not None and bool(groups.filter(name=by.removeprefix(GROUP)).exists())
    return bool(user.has_perm(by))


def rights_of(request: MCPRequest, user: Any, site: Site) -> Rights:
    """What a person may read and write, whatever administrators decided about the tools of agents."""
    principal = Principal(user, expand(SCOPES), source=Source.COMMAND)
    rights = Rights(site, request.copy().for_principal(principal, site), from_primary=True)
    rights.decided_by({})
    return rights


def check_candidates(exchange: Exchange, change: Change, needs: Needs) -> None:
    """Raises ToolError where nobody could approve the change."""
    if not can_own(exchange.principal) or exchange.principal.user.pk is None:
        raise ToolError("Other people must approve this, and a caller without a user cannot propose it.")
    asked = islice(candidates(change), _MOST_ASKED)
    if all(why_not(exchange.request, user, change, needs, exchange.site) for user in asked):
        raise ToolError(
            f"Other people must approve this, and nobody can: it takes {who(change)}. Nothing was changed. Tell the "
            "user to ask an administrator."
        )


def candidates(change: Change) -> Iterable[Any]:
    """Users who may be able to approve: active staff, and where Django's own tables say it, with the permission."""
    model = get_user_model()
    people = model._default_manager.exclude(pk__in=change.persons.get("keys", ())).order_by("pk")
    for name in ("is_active", "is_staff"):
        try:
            model._meta.get_field(name)
        except FieldDoesNotExist:
            continue
        people = people.filter(**{name: True})
    if are_in_tables() and all(isinstance(one, ModelBackend) for one in get_backends()):
        app, _dot, codename = PERMISSION.partition(".")
        with_it = Permission.objects.filter(content_type__app_label=app, codename=codename)
        own, of_groups = Q(user_permissions__in=with_it), Q(groups__permissions__in=with_it)
        people = people.filter(Q(is_superuser=True) | own | of_groups).distinct()
    return people.iterator(chunk_size=_MOST_ASKED)


# Votes.


def vote(change: Change, user: Any, verdict: str, digest: str, comment: str) -> None:
    """Record the vote of a person for what the digest names. Raises NotWaiting where the change waits no more.

    A person has one vote, and the last one counts. The caller has asked ``why_not``.
    """
    alias = change_rows.alias()
    with transaction.atomic(using=alias):
        # The row is locked by the first statement, so that of two votes the second one sees the first.
        if not change_rows.known(change).update(turn=F("turn") + 1):
            raise NotWaiting
        Decision.objects.using(alias).update_or_create(
            {"user_name": str(user)[:150], "verdict": verdict, "digest": digest, "comment": comment[:500],
             "at": timezone.now()},
            change=change, user=user,
        )  # fmt: skip


def _votes(change: Change, digest: str | None = None) -> Sequence[Decision]:
    """The votes for a change, or those for what the digest names."""
    shown = Q() if digest is None else Q(digest=digest)
    known = Decision.objects.using(change_rows.alias()).filter(shown, change=change, verdict=Verdict.APPROVE)
    return list(known.exclude(user=None).select_related("user"))


def has_enough(change: Change, digest: str) -> bool:
    """Whether there are as many votes for what the digest names as the change needs. Whether they count comes later."""
    needed: int = change.needs.get("count", 1)
    return len(_votes(change, digest)) >= needed


def counted(request: MCPRequest, change: Change, needs: Needs, site: Site, digest: str) -> list[Decision]:
    """The votes that count: for what the digest names, of people who may decide now."""
    return [one for one in _votes(change, digest) if not why_not(request, one.user, change, needs, site)]


def check(exchange: Exchange, change: Change, needs: Needs, digest: str) -> None:
    """Raises NotApproved where the change lacks votes: those that it needs now, and those that it needed before."""
    before = Needs(level_of(change), change.needs.get("count", 1), permissions_in(change))
    found = needs | before
    if len(counted(exchange.request, change, found, exchange.site, digest)) < found.count:
        raise NotApproved


def permissions_in(change: Change) -> tuple[str, ...]:
    """The permissions and groups that were to approve it. A function is asked as long as it is declared."""
    return tuple(one for one in change.needs.get("by", ()) if "." in one or one.startswith(GROUP))


def named(change: Change) -> str:
    """Who has approved the change, in words for the history of its records; empty where nobody had to."""
    people = [one.user_name for one in _votes(change)] if level_of(change) is Level.APPROVE else []
    return f", approved by {', '.join(people)}" if people else ""


def progress(change: Change) -> str:
    """How many have agreed, in words."""
    count, given = change.needs.get("count", 1), len(_votes(change))
    needed = ngettext("%(count)d person must approve", "%(count)d people must approve", count) % {"count": count}
    agreed = ngettext("%(given)d has agreed", "%(given)d have agreed", given) % {"given": given}
    return f"{needed} · {agreed}"
