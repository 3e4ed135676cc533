"""The rows of changes. Each step is a conditional UPDATE, so that of two runs at the same time only one takes effect.

A run claims its change in a transaction of its own. If the rows are in the same database, the transaction that writes
them begins by marking the change as applied: a run that was overtaken meanwhile fails there, and writes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.apps import apps
from django.db import IntegrityError, models, router, transaction
from django.db.models import Q
from django.utils import timezone
from pydantic_core import from_json

from mcp_django.access.held import held, is_held
from mcp_django.audit.lines import caller
from mcp_django.bridge.callers import can_own, origin_of
from mcp_django.bridge.changes import summaries
from mcp_django.bridge.changes.proposed import ANSWER, CONFIRM, REASON
from mcp_django.bridge.changes.tenants import tenant_of
from mcp_django.conf import get_conf
from mcp_django.core.events.transaction import note
from mcp_django.core.middleware_policy import withheld_of
from mcp_django.exchange.questions import digest
from mcp_django.exchange.requests import AUTHORIZATION, COOKIE
from mcp_django.models import Change, ChangedRow, change_waits
from mcp_django.protocol.errors import LimitExceeded
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import ChangingTool, Proposed
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")

State = Change.State

#: What an agent watches to learn what became of its change.
URI = "mcp-change://{change}"

#: How long an answer can be repeated, and how long a change waits for its user.
_KEPT, _WAITS = timedelta(days=1), timedelta(days=3)
#: A run counts as gone if it has not ended this long after its request's time was over.
_SPARE_SECONDS = 30
#: Changes that wait, of one credential and of one user.
_MAX_WAITING, _MAX_WAITING_OF_USER = 20, 200
MAX_REASON = 500
#: Expired changes that are emptied at a time.
_AT_ONCE = 1_000


class NotWaiting(Exception):
    """The change does not wait for anybody any more."""

    reason = "NOT_WAITING"


class Overtaken(Exception):
    """Another run has claimed the change: this one must write nothing."""


def alias() -> str:
    """The database that remembers changes."""
    return router.db_for_write(Change)


def without_call(tool: ChangingTool, arguments: Mapping[str, Any]) -> JSON:
    """The arguments that say what is done."""
    return {name: value for name, value in arguments.items() if name not in tool.about_call}


def reason_of(tool: ChangingTool, arguments: Mapping[str, Any]) -> str:
    """Why, in the words of the agent."""
    return str(arguments.get(REASON) or "")[:MAX_REASON] if REASON in tool.about_call else ""


# Finding.


def confirmed_by(token: str, exchange: Exchange, tool: ChangingTool, arguments: JSON) -> Change | None:
    """The change that this token has confirmed in an earlier call of the same caller. None if there is none.

    Raises LookupError where the token belongs to another caller or call.
    """
    found = Change.objects.using(alias()).filter(confirmed_by=_code_of(token)).first()
    if found is None:
        return None
    is_same = found.tool == tool.name and found.arguments_digest == digest(without_call(tool, arguments))
    is_here = found.tenant in ("", tenant_of(exchange.site, exchange.request))
    if not (is_same and is_here and is_of(found, exchange.site, exchange.principal)):
        raise LookupError(token)
    return found


def find(site: Site, principal: Principal, key: str) -> Change | None:
    """A change of the caller's credential line by its key."""
    found = Change.objects.using(alias()).filter(pk=key).first()
    # The key is compared once more, since some databases ignore the case of letters.
    return found if found is not None and found.key == key and is_of(found, site, principal) else None


def waiting_alike(exchange: Exchange, tool: ChangingTool, arguments: JSON) -> Change | None:
    """A change that waits, and which the same credential has proposed with the same arguments."""
    principal = exchange.principal
    found = Change.objects.using(alias()).filter(
        site=exchange.site.name, tenant=tenant_of(exchange.site, exchange.request), tool=tool.name,
        principal_key=principal.key, line=principal.lineage,
        arguments_digest=digest(without_call(tool, arguments)), state=State.WAITING, expires_at__gt=timezone.now(),
    )  # fmt: skip
    return found.order_by("created_at").first()


def is_of(change: Change, site: Site, principal: Principal) -> bool:
    return (change.site, change.principal_key, change.line) == (site.name, principal.key, principal.lineage)


def state_of(change: Change) -> str:
    """Its state now: what waits for too long has expired, also before that is written down."""
    return State.EXPIRED if change.state == State.WAITING and is_late(change) else change.state


def is_late(change: Change) -> bool:
    """Whether it has expired. During a pause of its agent it does not."""
    return change.expires_at <= timezone.now() and not is_held(change)


def is_waiting() -> Q:
    """Of changes: those that wait and have not expired, or may not because of a pause."""
    return Q(state=State.WAITING) & (Q(expires_at__gt=timezone.now()) | Q(held()))


def lease_is_over(change: Change) -> bool:
    """Whether the lease of its run has ended, so that nobody waits for the run any more."""
    return change.lease_until is not None and change.lease_until <= timezone.now()


# Making and claiming.


def planned(
    exchange: Exchange, tool: ChangingTool, proposed: Proposed, arguments: JSON, lines: Iterable[Line], *, waits: bool
) -> Change:
    """The row of a change that its token confirms, which is not stored yet."""
    now, principal = timezone.now(), exchange.principal
    named, about = caller(principal), without_call(tool, arguments)
    return Change(
        key=secrets.token_hex(11), confirmed_by=_code_of(arguments[CONFIRM]), site=exchange.site.name,
        principal_key=principal.key, line=principal.lineage, grant_id=principal.grant_id,
        scopes=sorted(principal.scopes), origin=encode(_origin_of(exchange)).decode(),
        tenant=tenant_of(exchange.site, exchange.request),
        user_id=principal.user.pk if can_own(principal) else None, user_name=named.get("user_name", "")[:150],
        token_name=named.get("token_name", "")[:100], client_name=exchange.client.name,
        kind=proposed.kind, tool=tool.name, operation=proposed.operation, model=proposed.label,
        using=proposed.using, keys=_texts(proposed.keys), rows=proposed.row_count, undoes=list(proposed.undone),
        arguments=encode(about).decode() if waits else "", arguments_digest=digest(about),
        summary=summaries.kept(lines, has_values=waits),
        reason=reason_of(tool, arguments),
        state=State.WAITING if waits else State.WRITING,
        created_at=now, expires_at=now + (_WAITS if waits else _KEPT), **({} if waits else _run()),
    )  # fmt: skip


def describe(change: Change, proposed: Proposed, lines: Iterable[Line]) -> None:
    """Set what a change that waits is for."""
    change.keys, change.rows = _texts(proposed.keys), proposed.row_count
    change.undoes, change.summary = list(proposed.undone), summaries.kept(lines)


def store(change: Change) -> Change | None:
    """Store the row of a change. None if its token was used meanwhile."""
    empty_expired()
    try:
        with transaction.atomic(using=alias()):
            change.save(using=alias(), force_insert=True)
    except IntegrityError:
        return None
    return change


def _origin_of(exchange: Exchange) -> JSON:
    """Where the call came from, what of it is not kept, and the time zone in which its values were read."""
    zone, request = timezone.get_current_timezone(), exchange.request
    credentials = {AUTHORIZATION: request.authorization, COOKIE: request.cookie}
    withheld = sorted([*withheld_of(request.META), *(name for name, value in credentials.items() if value)])
    zones = {"zone": zone.key} if isinstance(zone, ZoneInfo) else {}
    return {**origin_of(request), "withheld": withheld, **zones}


def check_number(exchange: Exchange, page: str | None) -> None:
    """Raises LimitExceeded where too many changes wait. The user decides on them at the URL ``page``."""
    empty_expired()
    mine = Change.objects.using(alias()).filter(principal_key=exchange.principal.key, state=State.WAITING)
    of_line = mine.filter(line=exchange.principal.lineage)
    for most, waiting, whose in ((_MAX_WAITING, of_line, "agent"), (_MAX_WAITING_OF_USER, mine, "user")):
        if waiting.count() >= most:
            raise LimitExceeded(f"{most} changes of this {whose} wait already. The user decides on them at {page}.")


def tell(change: Change) -> None:
    """Tell the project, once it is committed, that a change waits for people."""

    def send() -> None:
        for receiver, answer in change_waits.send_robust(Change, change=change):
            if isinstance(answer, Exception):
                logger.error("A receiver of change_waits failed: %r", receiver, exc_info=answer)

    transaction.on_commit(send, using=alias())


def claim(change: Change) -> bool:
    """Claim a change that waits, or whose run is gone. False if another run was faster."""
    if is_late(change):
        return False
    values = {"state": State.WRITING, **_run()}
    if not known(change).update(**values):
        return False
    for name, value in values.items():
        setattr(change, name, value)
    return True


def _run() -> dict[str, Any]:
    # Without a limit for requests, an hour is long enough.
    seconds = (get_conf().REQUEST_SECONDS or 3_600) + _SPARE_SECONDS
    return {"run": secrets.token_hex(16), "lease_until": timezone.now() + timedelta(seconds=seconds)}


# Ending.


def mark_applied(change: Change) -> None:
    """Mark a change as applied, first in the transaction that writes, or after it in another. Raises Overtaken."""
    if not _running(change).update(state=State.APPLIED, decided_at=timezone.now()):
        raise Overtaken(change.key)
    _notify(change)


def keep_result(change: Change, keys: Iterable[Any], result: JSON) -> None:
    """Store the answer for the agent, after ``mark_applied``."""
    kept = {name: value for name, value in result.items() if name != ANSWER}
    values = {"keys": _texts(keys), "result": encode(kept).decode(), **_emptied(change)}
    Change.objects.using(alias()).filter(pk=change.pk, run=change.run).update(
        **values, expires_at=timezone.now() + _KEPT
    )


def keep_for_undo(change: Change, proposed: Proposed) -> None:
    """Keep what was changed of each record, while it can be undone: in the transaction of the rows, if it is there."""
    days = get_conf().UNDO_DAYS
    kept = proposed.kept if days else ()
    if not kept:
        return
    rows = [ChangedRow(change=change, model=one.model, key=one.key, operation=one.operation, kept=one.text)
            for one in kept]  # fmt: skip
    ChangedRow.objects.using(alias()).bulk_create(rows, batch_size=_AT_ONCE)
    change.undo_until = timezone.now() + timedelta(days=days)
    Change.objects.using(alias()).filter(pk=change.pk).update(undo_until=change.undo_until)


def forget_kept() -> int:
    """Delete what was kept of changes that cannot be undone any more. Returns the number of rows."""
    late = ChangedRow.objects.using(alias()).filter(change__undo_until__lte=timezone.now())
    keys = list(late.values_list("pk", flat=True)[:_AT_ONCE])
    return ChangedRow.objects.using(alias()).filter(pk__in=keys).delete()[0] if keys else 0


def give_up(change: Change, note: str, *, is_kept: bool) -> None:
    """After a run that has failed: the change is marked so or, if it is not kept, its token can be used again."""
    if not is_kept:
        _running(change).delete()
    elif _end(_running(change), change, State.FAILED, note):
        _notify(change)


def lose(change: Change) -> None:
    """End the lease of a run of which nobody knows whether it has written."""
    _running(change).update(lease_until=timezone.now())


def wait_again(change: Change) -> None:
    """Let a change wait again after a run that has written nothing: its user has not seen the rows as they are now."""
    _running(change).update(state=State.WAITING, run="", lease_until=None)


def need_more(change: Change, needs: JSON) -> None:
    """Let a change that waits need more than it did when it was proposed, by a rule of the project."""
    change.needs, change.told_at = needs, None
    if known(change).update(needs=needs, told_at=None):
        tell(change)


def add_person(line: str, key: str) -> None:
    """Let somebody stand behind the changes of a credential line that may still be made, who was not known to."""
    for change in Change.objects.using(alias()).filter(line=line, state__in=[State.WAITING, State.WRITING]):
        keys = sorted({*change.persons.get("keys", ()), key})
        Change.objects.using(alias()).filter(pk=change.pk).update(persons={**change.persons, "keys": keys})


def reject(change: Change, note: str, *, is_withdrawn: bool = False) -> bool:
    """A person who decides about a change that waits does not want it. False if another was faster."""
    if not _end(known(change), change, State.WITHDRAWN if is_withdrawn else State.REJECTED, note):
        return False
    _notify(change)
    return True


def again(change: Change) -> Change | None:
    """The change as it is stored now."""
    return Change.objects.using(alias()).filter(pk=change.pk).first()


def uri_of(change: Change) -> str:
    return URI.format(change=change.key)


def _notify(change: Change) -> None:
    note(alias(), URI, written={uri_of(change)})


def _end(rows: models.QuerySet[Change], change: Change, state: str, note: str) -> bool:
    return bool(rows.update(state=state, note=note, decided_at=timezone.now(), **_emptied(change)))


def _emptied(change: Change) -> dict[str, str]:
    """What is left of what was to be written: the names of the rows."""
    return {"arguments": "", "summary": summaries.kept(summaries.read(change.summary), has_values=False)}


def known(change: Change) -> models.QuerySet[Change]:
    """The change, unless it has gone on since it was read."""
    # Only the primary key may find the row: MariaDB would lock it by another index first, and run into a deadlock with
    # the run that has it.
    return Change.objects.using(alias()).filter(pk=change.pk, state=change.state, run=change.run)


def _running(change: Change) -> models.QuerySet[Change]:
    return Change.objects.using(alias()).filter(pk=change.pk, run=change.run, state=State.WRITING)


def empty_expired() -> int:
    """Mark changes that waited too long as expired, and empty the arguments and answers of expired ones.

    Returns how many have expired.
    """
    ended = 0
    every = Change.objects.using(alias())
    expired = every.filter(expires_at__lte=timezone.now()).exclude(state=State.WRITING).exclude(arguments="", result="")
    expired = expired.exclude(held(), state=State.WAITING)
    # By their keys, since MariaDB locks each row that an UPDATE looks at, and would wait for the runs of others.
    keys = list(expired.order_by("pk").values_list("pk", flat=True)[:_AT_ONCE])
    if keys:
        late = every.filter(pk__in=keys, state=State.WAITING)
        for one in list(late):
            if _end(every.filter(pk=one.pk, state=State.WAITING), one, State.EXPIRED, ""):
                ended += 1
                _notify(one)
        every.filter(pk__in=keys).exclude(state=State.WRITING).update(arguments="", result="")
    return ended


def keys_of(change: Change) -> list[str]:
    found: list[str] = from_json(change.keys)
    return found


def rows_of(change: Change) -> Sequence[tuple[str, Sequence[str]]]:
    """The rows that a change writes, as far as they are known: models in their order, each with the keys of its rows.

    One that undoes changes of several models names none itself.
    """
    if change.model:
        return [(change.model, keys_of(change))]
    undone = ChangedRow.objects.using(alias()).filter(change__in=change.undoes).values_list("model", "key")
    found: dict[str, list[str]] = {}
    for model, key in sorted(set(undone)):
        found.setdefault(model, []).append(key)
    return [(label, keys) for label, keys in found.items() if _is_written_to(label, change.using)]


def _is_written_to(label: str, using: str) -> bool:
    """Whether rows of the model are written to a database. One that is there no more is left alone."""
    try:
        return router.db_for_write(apps.get_model(label)) == using
    except LookupError:
        return False


def _texts(keys: Iterable[Any]) -> str:
    return encode([str(key) for key in keys]).decode()


def _code_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
