"""Changes that a person begins in the admin: shown, and made in that person's own name, by the same mechanism.

They run as those of agents do: in a thread of their own, below the project's middleware, and with the person's rights.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from mcp_django.bridge.callers import origin_of
from mcp_django.bridge.changes import applying, approvals, change_rows
from mcp_django.bridge.changes.tenants import tenant_of
from mcp_django.bridge.declared.consent import Level
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import from_view
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.models import Change
from mcp_django.protocol.jsonrpc import encode
from mcp_django.server import waiting_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest

    from mcp_django.bridge.changes.proposed import ChangingTool
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.protocol.types import JSON

#: How long it waits for other people, where these must approve it.
_WAITS = timedelta(days=3)


@dataclass(frozen=True)
class Begun:
    """A change that a person may make, as it is now. It is not stored."""

    change: Change
    #: What a click on it brings back.
    digest: str
    lines: Sequence[Line]
    #: What the tool would tell an agent.
    preview: JSON
    #: Whether other people must approve it.
    needs_others: bool


def begin(request: HttpRequest, site: MCPSite, tool: str, arguments: JSON) -> Begun:
    """What the call of a tool would change for the person of the request. Raises CannotApply."""
    principal, now = Principal(request.user, expand(SCOPES), source=Source.LOGIN), timezone.now()
    origin = {**origin_of(from_view(request)), waiting_changes.BY_PERSON: True}
    change = Change(
        key=secrets.token_hex(11), confirmed_by=secrets.token_hex(32), site=site.name, tool=tool,
        principal_key=principal.key, line=principal.key, scopes=sorted(principal.scopes), user_id=request.user.pk,
        user_name=str(request.user)[:150], origin=encode(origin).decode(), arguments=encode(arguments).decode(),
        arguments_digest="", state=Change.State.WAITING, created_at=now, expires_at=now + _WAITS,
    )  # fmt: skip
    return waiting_changes.in_its_call(change, _look)


def _look(exchange: Exchange, tool: ChangingTool, change: Change) -> Begun:
    proposed = applying.propose_waiting(exchange, tool, change)
    needs = proposed.needs
    if needs.expires is not None:
        change.expires_at = change.created_at + needs.expires
    change.needs, change.persons = approvals.stored(needs), approvals.persons_of(exchange)
    change.tenant = tenant_of(exchange.site, exchange.request)
    change.kind, change.operation, change.model, change.using = (
        proposed.kind, proposed.operation, proposed.label, proposed.using,
    )  # fmt: skip
    lines, preview = proposed.summary(values=True), proposed.preview()
    change_rows.describe(change, proposed, lines)
    if needs.level is Level.APPROVE:
        approvals.check_candidates(exchange, change, proposed)
    return Begun(change, applying.shown_as(change, proposed), lines, preview, needs.level is Level.APPROVE)


def make(begun: Begun) -> bool:
    """Store the change, and make it. False if it waits for other people. Raises CannotApply, StaleView, NotWaiting."""
    if change_rows.store(begun.change) is None:
        raise change_rows.NotWaiting
    if begun.needs_others:
        change_rows.tell(begun.change)
        return False
    try:
        waiting_changes.apply(begun.change, begun.digest)
    except Exception:
        # Nobody waits for it: the person sees why, and begins anew.
        Change.objects.filter(pk=begun.change.pk, state=Change.State.WAITING).delete()
        raise
    return True
