"""request_rights: an agent asks for scopes for some hours, with a reason, and people lend them to its credential."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import router
from django.utils import timezone

from mcp_django.access import lending
from mcp_django.access.lending import Borrower, NotLendable
from mcp_django.bridge.changes import applying, change_rows
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import CONFIRM, REASON, Proposed
from mcp_django.bridge.declared.consent import APPROVED, Level, Needs
from mcp_django.bridge.tools.base import Annotations
from mcp_django.bridge.writes.tools import CONFIRM_SCHEMA, WriteTool
from mcp_django.conf import get_conf
from mcp_django.exceptions import ToolError, field_error
from mcp_django.exchange.principals import Superuser
from mcp_django.exchange.scopes import READ, expand, grant, known
from mcp_django.models import AccessToken, Change

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import Admit
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.resources.policy.policy import Rights
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.protocol.types import JSON

#: Who may lend another user's agent a scope may change tokens.
_PERMISSION = "mcp_django.change_accesstoken"


@dataclass
class ProposedRights(Proposed):
    """Scopes for some hours, for the credential that asks."""

    kind = Change.Kind.RIGHTS
    counts_writes = False
    #: The word of a client that wants more rights is not enough.
    asks_client = False
    operation = label = ""

    exchange: Exchange
    scopes: Sequence[str]
    hours: float

    def __post_init__(self) -> None:
        self.using = router.db_for_write(AccessToken)
        self.arguments = {"scopes": list(self.scopes), "hours": self.hours}
        self.state = None

    @property
    def keys(self) -> Sequence[Any]:
        return ()

    @property
    def row_count(self) -> int:
        return 0

    @property
    def declared(self) -> Needs:
        """What staff may give tokens of their own, the own user lends too. Everything else takes other people."""
        own = expand(known(get_conf().SELF_SERVICE))
        is_own = all(grant(own, scope) for scope in expand(self.scopes))
        return Needs(Level.ASK) if is_own else APPROVED

    @property
    def parts(self) -> Sequence[Effect]:
        return [Effect("run", "", title=f"Lend {', '.join(self.scopes)} for {self.hours:g} hours")]

    @property
    def effects(self) -> Sequence[Effect]:
        return self.parts

    def may_be_done_by(self, rights: Rights) -> bool:
        return bool(rights.request.user.has_perm(_PERMISSION))

    def preview(self) -> JSON:
        return {**self.arguments, "until": (timezone.now() + timedelta(hours=self.hours)).isoformat()}

    def summary(self, *, values: bool) -> Sequence[Line]:
        return lines_of((one, None) for one in self.parts)

    def apply(self, by: str) -> JSON:
        principal = self.exchange.principal
        borrower = Borrower(principal.lineage, principal.grant_id, principal.user)
        agreed_by = self.agreed_by or str(principal.user)
        try:
            made = lending.lend(
                self.exchange.site, borrower, self.scopes, self.hours,
                agreed_by=agreed_by, reason="" if self.change is None else self.change.reason, change=self.change,
            )  # fmt: skip
        except NotLendable as error:
            raise ToolError(f"{error} Nothing was lent.") from None
        return {"tool": RequestRights.name, "scopes": list(self.scopes), "until": made.until.isoformat()}


class RequestRights(WriteTool):
    """Asks people for scopes for a while. It is there where LENDABLE names scopes that the caller lacks."""

    name = "request_rights"
    title = "Ask for rights"
    description = "Ask people for scopes for some hours. They end by themselves. Without confirm: a preview."
    annotations = Annotations(destructive=False)
    about_call: Collection[str] = (CONFIRM, REASON)
    scope = READ
    least_scope = READ
    # LENDABLE is the switch.
    enabled_by_default = True
    properties: ClassVar[Mapping[str, JSON]] = {
        "scopes": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 20},
        "hours": {"type": "number"},
        "reason": {"type": "string", "minLength": 1, "maxLength": change_rows.MAX_REASON, "description": "For people."},
        "confirm": CONFIRM_SCHEMA,
    }
    required = ("scopes", "hours", "reason")

    def is_available(self, request: MCPRequest) -> bool:
        principal = request.mcp.principal
        # Where nobody calls, all that is declared is told.
        return bool(get_conf().LENDABLE) and (principal.has_own_token or isinstance(principal.user, Superuser))

    def needs_people(self, request: MCPRequest) -> bool:
        return True

    def get_description(self, request: MCPRequest | None) -> str:
        lent = ", ".join(f"{scope} ({hours:g} h)" for scope, hours in get_conf().LENDABLE.items())
        return f"{self.description} Lent: {lent or 'nothing, as the setting LENDABLE is empty'}."

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        if CONFIRM not in arguments:
            return applying.preview(exchange, self, arguments)
        return applying.change(exchange, self, arguments)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> ProposedRights:
        """Read the arguments of a call. Raises ToolError."""
        scopes, hours = arguments["scopes"], arguments["hours"]
        principal = exchange.principal
        borrower = Borrower(principal.lineage, principal.grant_id, principal.user)
        try:
            names = lending.check(exchange.site, borrower, scopes, hours)
        except NotLendable as error:
            raise ToolError("Nothing was asked.", [field_error("scopes", str(error), scopes)]) from None
        if all(grant(principal.lasting, scope) for scope in expand(names)):
            raise ToolError("Nothing was asked.", [field_error("scopes", "are yours already.", scopes)])
        return ProposedRights(exchange, names, hours)
