"""Actions on the page of one row as tools: buttons of its form, and links and buttons of packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import router
from django.utils.functional import cached_property
from django.utils.text import capfirst

from mcp_django.bridge.changes import asked
from mcp_django.bridge.changes.proposed import CONFIRM
from mcp_django.bridge.declared.every_object import allows_some
from mcp_django.bridge.declared.object_actions import ObjectAction
from mcp_django.bridge.declared.object_packages import object_actions_of
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import action_pages
from mcp_django.bridge.tools.acting import ActingTool, tool_name
from mcp_django.bridge.tools.action_pages import PageStart
from mcp_django.bridge.tools.action_rows import of_ids
from mcp_django.bridge.tools.base import Annotations
from mcp_django.bridge.tools.proposed_action import ProposedAction
from mcp_django.core.hooks import call_hook
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.changes.proposed import Admit
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

#: Before the name of the action in that of its tool: an action of the list may have the same.
_OBJECT = "object"


def object_action_tools(model_mcp: ModelMCP) -> Iterator[ObjectActionTool]:
    """A tool for each action on the page of a row, as far as it is known without a request."""
    for one in object_actions_of(model_mcp):
        yield ObjectActionTool(model_mcp, one)


class ObjectActionTool(ActingTool):
    """One action on the page of a row, which agents name by its primary key."""

    browser = "mcp_django.bridge.browser.of_object.ObjectBrowser"
    #: The form of the admin logs the change of the user, and names no agent.
    logs_again = True

    def __init__(self, model_mcp: ModelMCP, declared: ObjectAction) -> None:
        self.model_mcp, self.declared = model_mcp, declared
        self.action_name = declared.name
        self.name = tool_name(model_mcp.opts.app_label, model_mcp.opts.model_name or "", _OBJECT, declared.name)
        is_read_only = declared.read_only
        self.annotations = Annotations(
            read_only=is_read_only,
            destructive=declared.destructive and not is_read_only,
            idempotent=declared.idempotent or is_read_only,
        )
        self.changes, self.consent = tuple(declared.changes), declared.consent
        self.shows_pages = int(declared.shows_page)
        named = declared.permissions
        self.permissions = [model_mcp.site.action_permission] if named is None else list(named)

    def get_title(self) -> str:
        return (str(self.declared.title) or capfirst(self.action_name.replace("_", " "))).rstrip(".")

    def get_description(self, request: MCPRequest | None) -> str:
        return f"{self.get_title()}. Acts on one {self.model_mcp.label} row, as on its page in the admin."

    def get_input_schema(self, request: MCPRequest) -> JSON:
        return self._schema(request)

    @cached_property
    def _input(self) -> Schema:
        properties: JSON = {
            "id": {"type": "string", "description": f"Primary key of the {self.model_mcp.label} row to act on."},
            "pages": action_pages.SCHEMA,
        }
        schema: JSON = {"type": "object", "properties": properties, "required": ["id"], "additionalProperties": False}
        return Schema(schema if self.annotations.read_only else asked.with_confirmation(schema, (CONFIRM,)))

    def is_available(self, request: MCPRequest) -> bool:
        """Whether the user may run it on some rows. Whether the admin offers it is known with the row."""
        if Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label) is None:
            return False
        return self._may(request, lambda hook: allows_some(self._admin, request, hook))

    def _may(self, request: MCPRequest, allows: Callable[[str], bool]) -> bool:
        """Whether the user has one of the permissions that are named. ``allows`` asks a hook of the ModelAdmin."""
        if self.declared.permissions is None and self.model_mcp.site.action_permission == "view":
            # Whoever has rights on the model sees its pages.
            return True
        user: Any = request.user
        asked_for = (user.has_perm(one) if "." in one else allows(f"has_{one}_permission") for one in self.permissions)
        return not self.permissions or any(asked_for)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> ProposedAction:
        request, key = exchange.request, str(arguments["id"])
        try:
            chosen = of_ids(self.model_mcp, self._admin, request, [arguments["id"]])
        except ToolError as error:
            wrong: list[FieldError] = [{**one, "field": "id"} for one in error.errors]
            raise ToolError(error.message, wrong, reason=error.reason) from None
        if self.start(request, chosen) is None:
            text = "The admin does not offer this action for this row. Nothing was changed."
            raise ToolError(text, reason="NO_PERMISSION")
        return ProposedAction(self, exchange, chosen, {"id": key}, arguments.get("pages", []))

    def start(self, request: MCPRequest, chosen: ChosenRows) -> PageStart | None:
        """The page of the row, if the row is there and the admin offers the action on it."""
        obj = chosen.stored(router.db_for_write(self.model_mcp.model)).first()
        nothing: PageStart | None = None
        if obj is None:
            return nothing
        return call_hook(partial(self._start, request, obj), nothing, f"the object action {self.action_name}")

    def _start(self, request: MCPRequest, obj: Model) -> PageStart | None:
        admin, declared = self._admin, self.declared
        may = self._may(request, lambda hook: bool(getattr(admin, hook)(request, obj)))
        if not may or not declared.is_available(request, obj):
            return None
        path = None if declared.path is None else declared.path(obj)
        if declared.path is not None and path is None:
            return None  # It is not served.
        button = declared.button if isinstance(declared.button, str) else declared.button(obj)
        return PageStart(obj.pk, path, declared.method, button)

    def _is_few(self, arguments: JSON) -> bool:
        return True

    def _named_by(self, arguments: JSON) -> str:
        return "id"

    def _misused(self, arguments: JSON, *, needs_people: bool) -> list[FieldError]:
        if not needs_people and "pages" not in arguments and CONFIRM in arguments:
            return [field_error(CONFIRM, "goes with pages: without them none is needed.")]
        return []
