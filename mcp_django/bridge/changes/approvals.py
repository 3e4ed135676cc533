"""The approval of a change by other people: who may decide, what a vote counts for, and when there are enough.

Nobody approves who stands behind the change, superusers included. A vote counts for exactly what its person was shown,
and as long as that person may still decide. Votes are counted when they are cast, and again in the transaction that
writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_backends, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access import trail
from mcp_django.access.authentication import login_request
from mcp_django.access.user_permissions import are_in_tables
from mcp_django.bridge.callers import can_own
from mcp_django.bridge.changes import change_rows, effects
from mcp_django.bridge.changes.change_rows import NotWaiting
from mcp_django.bridge.changes.summaries import OTHERS
from mcp_django.bridge.declared.consent import GROUP, Approval, Level, Needs, name_of
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.core.hooks import call_hook
from mcp_django.exceptions import ToolError
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.models import Change, Decision
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import Proposed
    from mcp_django.bridge.changes.summaries import Line
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

    reason = "NOT_APPROVED"


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
    if named := ", ".join(map(_named_by, change.needs.get("by", ()))):
        return gettext("staff who may approve changes and meet all of these: %(by)s") % {"by": named}
    match change.kind:
        case Change.Kind.RIGHTS:
            return gettext("staff who may approve changes, and change access tokens")
        case Change.Kind.ACTION | Change.Kind.CALL | Change.Kind.API:
            return gettext("staff who may approve changes, and may do this themselves")
    return gettext("staff who may approve changes, and write these records")


def _named_by(by: str) -> str:
    """What a rule names, in words: a group, a permission, or a function of the project."""
    if by.startswith(GROUP):
        return gettext("the group %(group)s") % {"group": by.removeprefix(GROUP)}
    return gettext("the permission %(permission)s") % {"permission": by} if "." in by else by


def told(change: Change) -> JSON:
    """What the change needs, for its agent."""
    return {"approvals": change.needs.get("count", 1), "given": len(_latest(change)), "by": who(change)}


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
    keys -= {"", "None"}
    return {"keys": sorted(keys), "emails": sorted({_email(one) for one in _people(keys)} - {""})}


def _people(keys: Iterable[str]) -> Iterable[Any]:
    """The users of these keys, as far as they are there."""
    key = get_user_model()._meta.pk
    found = []
    for one in keys:
        with suppress(ValidationError):
            found.append(key.to_python(one))
    return get_user_model()._default_manager.filter(pk__in=found)


def _email(user: Any) -> str:
    name = getattr(type(user), "get_email_field_name", lambda: "email")()
    return str(getattr(user, name, "") or "").strip().casefold()


# Who may decide.


def merged(change: Change, needs: Needs) -> Needs:
    """What a change needs now, and no less than what it needed when it was proposed."""
    known = change.needs
    before: list[By] = []
    for text in known.get("by", ()):
        if "." in text or text.startswith(GROUP):
            before.append(text)
        else:
            # All functions of that name must agree. One that is declared no more lets nobody approve.
            before += [one for one in needs.functions if _text(one) == text] or [_nobody]
    return needs | Needs(level_of(change), known.get("count", 1), tuple(before))


def _nobody(user: Any, change: Change) -> bool:
    return False


def why_not(rights: Rights, change: Change, proposed: Proposed) -> Any:
    """Why a person, by these ``rights``, may not approve the change; empty if nothing speaks against it.

    It is asked in the language of the project, and read in that of the person.
    """
    user: Any = rights.request.user
    if not (user.is_active and getattr(user, "is_staff", False) and user.has_perm(PERMISSION)):
        return _("You may not approve changes by agents.")
    if _stands_behind(user, change):
        return _("You stand behind this change: your agent, your token or your account proposes it.")
    if _is_younger(user, change):
        return _("Your account is younger than this change.")
    if not all(_is_named(by, user, change) for by in merged(change, proposed.needs).by):
        return lazy(
            lambda: gettext("Its rule names other people to approve it: %(who)s.") % {"who": who(change)}, str
        )()
    if not proposed.may_be_done_by(rights):
        return _("You may not do this yourself, so you may not approve it either.")
    return ""


def _is_younger(user: Any, change: Change) -> bool:
    joined = getattr(user, "date_joined", None)
    if isinstance(joined, datetime):
        return joined > change.created_at
    return isinstance(joined, date) and joined > change.created_at.date()


def _stands_behind(user: Any, change: Change) -> bool:
    """Whether the user is one of the persons behind it, by the key or by the address of now or of then."""
    if str(user.pk) in {*change.persons.get("keys", ()), str(change.user_id)}:
        return True
    mine, behind = _email(user), set(change.persons.get("emails", ()))
    if not mine:
        return False
    return mine in behind | {_email(one) for one in _people(change.persons.get("keys", ()))}


def is_named(user: Any, change: Change) -> bool:
    """Whether the permissions and groups name the user that the change was known to need; functions are not asked."""
    by = (one for one in change.needs.get("by", ()) if "." in one or one.startswith(GROUP))
    return all(_is_named(one, user, change) for one in by)


def _is_named(by: By, user: Any, change: Change) -> bool:
    if not isinstance(by, str):
        return call_hook(lambda: bool(by(user, change)), False, name_of(by))
    if by.startswith(GROUP):
        groups = getattr(user, "groups", None)
        return groups is not None and bool(groups.filter(name=by.removeprefix(GROUP)).exists())
    # A permission that does not exist is nobody's, superusers included.
    return bool(user.has_perm(by)) and not (getattr(user, "is_superuser", False) and is_unknown(by))


def rights_of(request: MCPRequest, user: Any, site: Site) -> Rights:
    """What a person may read and write, whatever administrators decided about the tools of agents."""
    principal = Principal(user, expand(SCOPES), source=Source.COMMAND)
    rights = Rights(site, request.copy().for_principal(principal, site), from_primary=True)
    rights.decided_by({})
    return rights


def check_candidates(exchange: Exchange, change: Change, proposed: Proposed) -> None:
    """Raises ToolError where nobody could approve the change."""
    if not can_own(exchange.principal) or exchange.principal.user.pk is None:
        text = "Other people must approve this, and a caller without a user cannot propose it."
        raise ToolError(text, reason="NO_APPROVER")
    if any(one.model == OTHERS for one in proposed.effects):
        raise ToolError(
            "Other people must approve this, and more goes with it than you may see, which nobody could approve "
            "unseen. Nothing was changed. Let a person do it in the admin.",
            reason="NO_APPROVER",
        )
    needed = proposed.needs.count
    found = len(approvers(exchange, change, proposed, needed))
    if found < needed:
        few = f"only {found} of the {needed} people that it takes can" if found else "nobody can"
        raise ToolError(
            f"Other people must approve this, and {few}: it takes {who(change)}. Nothing was changed. Tell the user to "
            "ask an administrator.",
            reason="NO_APPROVER",
        )


def approvers(exchange: Exchange, change: Change, proposed: Proposed, most: int) -> list[Any]:
    """People who may approve the change, at most so many: of the candidates the first ones are asked."""
    asked = islice(candidates(merged(change, proposed.needs).by), _MOST_ASKED)
    may = (one for one in asked if not why_not(rights_of(exchange.request, one, exchange.site), change, proposed))
    return list(islice(may, most))


@dataclass(frozen=True)
class Seen:
    """A change as somebody sees it who may approve it."""

    lines: Sequence[Line]
    #: How much of it is hidden from this person.
    hidden: int
    #: Why this person may not decide; empty where nothing speaks against it.
    why_not: str


def seen_by(exchange: Exchange, change: Change, proposed: Proposed, viewer: Any) -> Seen:
    """What somebody else than its user sees of a change, in the tenant in which it was proposed."""
    rights = rights_of(exchange.request, viewer, exchange.site)
    every = proposed.effects if proposed.is_shown_to(rights) else proposed.parts
    seen, hidden = effects.seen_by(rights, every)
    why = why_not(rights, change, proposed)
    return Seen(effects.lines_of(seen), hidden, why)


def candidates(by: Iterable[By] = ()) -> Iterable[Any]:
    """Users who may be able to approve: active staff, and where Django's own tables say it, with the permission.

    Where rules name people ``by`` permissions or groups, those whom all of them name.
    """
    model = get_user_model()
    people = model._default_manager.order_by("pk")
    for name in ("is_active", "is_staff"):
        try:
            model._meta.get_field(name)
        except FieldDoesNotExist:
            continue
        people = people.filter(**{name: True})
    if are_told_by_tables():
        for name in (PERMISSION, *(one for one in by if isinstance(one, str) and one)):
            if name.startswith(GROUP):
                people = people.filter(groups__name=name.removeprefix(GROUP))
                continue
            with_it = _permission(name)
            own, of_groups = Q(user_permissions__in=with_it), Q(groups__permissions__in=with_it)
            people = people.filter(Q(is_superuser=True) | own | of_groups).distinct()
    return people.iterator(chunk_size=_MOST_ASKED)


def are_told_by_tables() -> bool:
    """Whether Django's tables alone say who has which permission."""
    return are_in_tables() and all(isinstance(one, ModelBackend) for one in get_backends())


def _permission(name: str) -> QuerySet[Permission]:
    app, _dot, codename = name.partition(".")
    return Permission.objects.filter(content_type__app_label=app, codename=codename)


def is_unknown(by: By) -> bool:
    """Whether a rule names a permission that does not exist: superusers alone would have it."""
    is_permission = isinstance(by, str) and bool(by) and not by.startswith(GROUP)
    return is_permission and are_told_by_tables() and not _permission(str(by)).exists()


def number_named(by: By, most: int) -> int:
    """How many people may approve whom a rule names, up to ``most``. A function is not asked: it needs a change."""
    if is_unknown(by):
        return 0
    named = (
        True
        for one in islice(candidates([by]), _MOST_ASKED)
        if one.has_perm(PERMISSION) and (not by or not isinstance(by, str) or _is_named(by, one, Change()))
    )
    return sum(islice(named, most))


def declared_approvals(site: Site) -> Iterator[tuple[str, Approval]]:
    """Each tool, and operation on a model, that other people must approve by its declaration."""
    consents: list[tuple[str, Any]] = [(name, getattr(one, "consent", "")) for name, one in site.tools.items()]
    for label, model_mcp in site.models.items():
        # A check says what is wrong with anything else.
        of_model = model_mcp.consent if isinstance(model_mcp.consent, Mapping) else {}
        consents += [(f"{label} {operation}", consent) for operation, consent in of_model.items()]
    for where, consent in consents:
        if isinstance(consent, Approval):
            yield where, consent
        elif consent == "approve":
            yield where, Approval()


# Votes.


def vote(change: Change, user: Any, verdict: str, digest: str, comment: str) -> None:
    """Record the vote of a person for what the digest names. Raises NotWaiting where the change waits no more.

    A person has one vote, and the last one counts. One that rejects ends the change. The caller has asked ``why_not``.
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
        if verdict == Verdict.REJECT and not change_rows.reject(change, comment):
            raise NotWaiting
        decision = "approved" if verdict == Verdict.APPROVE else "rejected"
        trail.note_decision(change, decision, change_rows.uri_of(change), alias)


def give_up(change: Change, note: str) -> bool:
    """The change is not wanted by its user, who withdraws it where other people were to approve it.

    False if another was faster.
    """
    withdraws = level_of(change) is Level.APPROVE
    if not change_rows.reject(change, note, is_withdrawn=withdraws):
        return False
    decision = "withdrawn" if withdraws else "rejected"
    trail.note_decision(change, decision, change_rows.uri_of(change), change_rows.alias())
    return True


def _votes(change: Change, digest: str | None = None) -> Sequence[Decision]:
    """The votes for a change, or those for what the digest names, in their order."""
    shown = {} if digest is None else {"digest": digest}
    return list(_approving(change=change, **shown).select_related("user"))


def _approving(**which: Any) -> QuerySet[Decision]:
    known = Decision.objects.using(change_rows.alias()).filter(verdict=Verdict.APPROVE, **which)
    return known.exclude(user=None).order_by("at", "pk")


def _latest(change: Change) -> Sequence[Decision]:
    """The votes for what the last one was for: earlier ones, for other states of the rows, do not count."""
    return _of_last(_votes(change))


def _of_last(votes: Sequence[Decision]) -> Sequence[Decision]:
    return [one for one in votes if one.digest == votes[-1].digest]


def may_have_enough(change: Change) -> bool:
    """Whether there are as many votes for the same as the change needs, whatever the rows are now."""
    needed: int = change.needs.get("count", 1)
    return len(_latest(change)) >= needed


def has_enough(change: Change, digest: str) -> bool:
    """Whether there are as many votes for what the digest names as the change needs. Whether they count comes later."""
    needed: int = change.needs.get("count", 1)
    return len(_votes(change, digest)) >= needed


def check(exchange: Exchange, change: Change, proposed: Proposed, digest: str) -> None:
    """Raises NotApproved where the change lacks votes: those that it needs now, and those that it needed before.

    A vote counts of somebody who may do the same now, and sees the rows.
    """
    needs = merged(change, proposed.needs)
    counted = 0
    for one in _votes(change, digest):
        rights = rights_of(exchange.request, one.user, exchange.site)
        _, hidden = effects.seen_by(rights, proposed.parts)
        counted += not hidden and not why_not(rights, change, proposed)
    if counted < needs.count:
        raise NotApproved


def named(change: Change) -> str:
    """Who has approved the change, in words for the history of its records; empty where nobody had to."""
    people = people_of(change)
    return f", approved by {people}" if people else ""


def people_of(change: Change) -> str:
    """The names of the other people who have approved the change."""
    return ", ".join(one.user_name for one in _latest(change)) if level_of(change) is Level.APPROVE else ""


def progress(change: Change, votes: Sequence[Decision] | None = None) -> str:
    """How many have agreed, in words. ``votes`` for the change, as ``votes_by_change`` has them."""
    count, given = change.needs.get("count", 1), len(_latest(change) if votes is None else _of_last(votes))
    needed = ngettext("%(count)d person must approve", "%(count)d people must approve", count) % {"count": count}
    agreed = ngettext("%(given)d has agreed", "%(given)d have agreed", given) % {"given": given}
    return f"{needed} · {agreed}"


def votes_by_change(changes: Sequence[Change]) -> Mapping[str, Sequence[Decision]]:
    """The votes for each of the changes, by its number, all in one query."""
    found: dict[str, list[Decision]] = {change.pk: [] for change in changes}
    for vote in _approving(change__in=list(found)):
        found[vote.change_id].append(vote)
    return found
