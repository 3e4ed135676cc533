"""Actions that answer with pages: what an agent gives for them, and a page that nobody has answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mcp_django.exceptions import ToolError
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.admin import ModelAdmin

    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.bridge.tools.proposed_action import ProposedAction
    from mcp_django.bridge.tools.row_texts import RowTexts
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
class ListStart:
    """An action of the list, which chooses it by its name and calls its function with the rows."""

    name: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class PageStart:
    """A page of one row: its path, how it is asked for, and the name of the button on it that is pressed, if any."""

    key: Any
    #: None: the form of the row.
    path: str | None
    method: str
    button: str


S = TypeVar("S", bound=ListStart | PageStart)


@dataclass(frozen=True)
class ActionRun(Generic[S]):
    """What runs: an action of a ModelAdmin on some rows, for the caller of a request."""

    admin: ModelAdmin[Any]
    request: MCPRequest
    start: S
    chosen: ChosenRows
    rights: ModelRights
    #: The texts of the rows, which messages and pages may hold.
    texts: RowTexts
    #: The database of the rows.
    alias: str


class FormShown(ToolError):
    """The action answers with a page: it is described, and the transaction ends without a trace."""

    def __init__(self, proposed: ProposedAction, description: JSON) -> None:
        super().__init__("The action asks for one more page. Nothing was changed. Propose it again with the answer.")
        self.proposed = proposed
        self.description = description
