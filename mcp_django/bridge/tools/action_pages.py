"""Actions that answer with pages: what an agent gives for them, and the token that binds it to what it was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.tools import confirmations
from mcp_django.types import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.contrib.admin import ModelAdmin

    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.bridge.tools.confirmations import Confirmation
    from mcp_django.bridge.tools.row_texts import RowTexts
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

#: Pages of one action.
MAX_PAGES = 6
AGAIN = "Call again without the last of pages, and then with the token of that answer."
SCHEMA: JSON = {
    "type": "array",
    "maxItems": MAX_PAGES,
    "items": {
        "type": "object",
        "properties": {
            "values": {"type": "object", "additionalProperties": True},
            "button": {"type": "string"},
        },
        "additionalProperties": False,
    },
    "description": 'Where the answer is a form: what to send, as {"values": {field: value}}, page by page.',
}


@dataclass(frozen=True)
class ActionRun:
    """What runs: an action of a ModelAdmin on some rows, for the caller of a request."""

    admin: ModelAdmin[Any]
    request: MCPRequest
    name: str
    function: Callable[..., Any]
    chosen: ChosenRows
    rights: ModelRights
    #: The texts of the rows, which messages and pages may hold.
    texts: RowTexts
    #: The database of the rows.
    alias: str


class FormShown(Exception):
    """The action answers with a page: it is described, and the transaction ends without a trace."""

    def __init__(self, description: JSON) -> None:
        super().__init__()
        self.description = description


class Answers:
    """What an agent gives for the pages of an action."""

    def __init__(
        self, exchange: Exchange, call: Sequence[Any], pages: Sequence[Mapping[str, Any]], *, is_confirmed: bool
    ) -> None:
        """``call``: the tool, "ids" or "filter", and its value. ``is_confirmed``: whether a page needs its token."""
        self.call, self.pages = call, pages
        self._exchange, self._is_confirmed = exchange, is_confirmed
        self._confirmation: Confirmation | None = None
        #: The keys of the rows, once they are known.
        self.rows: Sequence[str] = ()

    def read(self, token: str | None) -> None:
        """Read the token. Raises ToolError without a valid one for the pages before the last."""
        if token is None:
            raise confirmations.refused(f"is needed: it comes with the page that the last of pages is for. {AGAIN}")
        self._confirmation = confirmations.read(self._exchange, [*self.call, self.pages[:-1]], token, again=AGAIN)

    def claim(self) -> None:
        """Use the token up. Raises ToolError if it was used before."""
        if self._confirmation is not None:
            self._confirmation.claim()

    def check(self, description: JSON) -> None:
        """Raises ToolError if the rows or the last page are not as they were shown."""
        if self._confirmation is not None:
            changed = "The rows or the page have changed since."
            self._confirmation.check([self.rows, description], changed)

    def shown(self, description: JSON) -> JSON:
        """The description with the token for the answer to it."""
        if not self._is_confirmed:
            return description
        token = confirmations.issue(self._exchange, [*self.call, self.pages], [self.rows, description])
        return {**description, "confirm": token}
