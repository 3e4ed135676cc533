"""The tools for a project's own API: the same three, whatever the number of its operations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from mcp_django.access.throttling import throttles
from mcp_django.bridge.api import answers, calling
from mcp_django.bridge.api.answers import MOST_ROWS
from mcp_django.bridge.changes import asked
from mcp_django.bridge.changes.proposed import CONFIRM, REASON
from mcp_django.bridge.resources.policy.audited import note_arguments
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.base import Annotations
from mcp_django.bridge.tools.query import FixedTool
from mcp_django.bridge.tools.results import checked, structured_result
from mcp_django.exceptions import ToolError, field_error
from mcp_django.exchange.scopes import ANY_API, ANY_READABLE_API, ANY_WRITABLE_API, WRITE
from mcp_django.protocol.errors import ParseError
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import open_object
from mcp_django.protocol.jsonrpc import decode
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.bridge.changes.proposed import Admit, ChangingTool, Proposed
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

OPERATION: JSON = {"type": "string", "maxLength": 200, "description": "As resource.action."}
_ONLY_READS = "change_api is not among your tools, so what it would call is only described."
PARAMS = open_object("Path and query, as describe_api says.")


class ApiTool(FixedTool):
    """A tool over the operations that the principal's scopes reach."""

    audited = ("operation",)
    # The permission classes of the API ask for them, where they do.
    asks_permissions = False
    #: Whether it is for operations that read (True), for those that change data (False), or for both.
    takes: ClassVar[Sequence[bool]] = (True,)
    #: Of these, those that it calls.
    opens: Sequence[bool] | None = (True,)

    def is_available(self, request: MCPRequest) -> bool:
        return any(self.site.api.reaches(request, safe=safe) for safe in self.takes)

    def is_permitted(self, request: MCPRequest) -> bool:
        return any(self.site.api.scopes[safe] for safe in self.takes)

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        arguments = self._input.without_nulls(arguments)
        if errors := self._input.errors(arguments):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        note_arguments(exchange.usage, self.audited, arguments)
        return self.answer(exchange, arguments)

    @abstractmethod
    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        """The result for arguments that fit the schema. Raises ToolError."""


class DescribeApi(ApiTool):
    name = "describe_api"
    title = "Describe the API"
    description = (
        "The API of this project: its resources and their actions; with a resource, its operations; with an operation, "
        "its parameters, body and answer. Call it before you call an operation."
    )
    annotations = Annotations(read_only=True, destructive=False, idempotent=True)
    least_scope = ANY_API
    takes, opens = (True, False), ()
    properties: ClassVar[Mapping[str, JSON]] = {
        "resource": {"type": "string", "maxLength": 100, "description": "Its operations."}, "operation": OPERATION,
    }  # fmt: skip

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        reached = self.site.api.reached(exchange.request)
        if "operation" in arguments:
            operation = calling.find(self.site, exchange.request, arguments["operation"])
            found, told = calling.described(exchange.request, operation).to_json(), [operation]
        elif "resource" in arguments:
            told = [one for one in reached.values() if one.resource == arguments["resource"]]
            found = self._of_resource(exchange, arguments["resource"], told, reached)
        else:
            told = list(reached.values())
            found = {"resources": calling.resources(told)}
        if not all(one.is_safe for one in told) and not self._may_change(exchange.request):
            found["notes"] = [*found.get("notes", ()), _ONLY_READS]
        return structured_result(found)

    def _may_change(self, request: MCPRequest) -> bool:
        changing = [tool for tool in self.site.tools.values() if isinstance(tool, ChangeApi)]
        return catalog.may_call_one_of(self.site, request, changing)

    def _of_resource(
        self, exchange: Exchange, resource: str, found: Sequence[Operation], reached: Mapping[str, Operation]
    ) -> JSON:
        if not found:
            names = list(dict.fromkeys(one.resource for one in reached.values()))
            text = unknown_name("resource", resource, names)
            raise ToolError("No such resource.", [field_error("resource", text)], reason="NO_OPERATION")
        described = [calling.described(exchange.request, one) for one in found]
        allowed = [one for one in described if one.is_allowed]
        if not allowed:
            raise ToolError(f"You may call none of the operations of {resource}.", reason="NO_PERMISSION")
        return {"resource": resource, "operations": {one.operation.action: one.line() for one in allowed}}


class CallApi(ApiTool):
    name = "call_api"
    title = "Call the API"
    description = (
        "Call an operation of the API that reads, as your user. Lists come as columns and rows; next_cursor, passed as "
        "cursor, gives the next page."
    )
    annotations = Annotations(read_only=True, destructive=False, idempotent=True, open_world=False)
    least_scope = ANY_READABLE_API
    properties: ClassVar[Mapping[str, JSON]] = {
        "operation": OPERATION,
        "params": PARAMS,
        "fields": {
            "type": "array", "items": {"type": "string"}, "maxItems": 50, "description": "Of each row; else all.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "description": "Most rows."},
        "cursor": open_object("next_cursor of the page before; all else unchanged."),
    }  # fmt: skip
    required = ("operation",)

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        operation = calling.find(self.site, exchange.request, arguments["operation"], safe=True)
        return call(exchange, operation, arguments)


def call(exchange: Exchange, operation: Operation, arguments: JSON) -> JSON:
    """The result of an operation that reads, for the arguments of ``call_api``. Raises ToolError."""
    params, cursor = arguments.get("params", {}), arguments.get("cursor", {})
    description = calling.described(exchange.request, operation, params)
    sent = calling.sent_by(description, params, cursor, arguments.get("limit"))
    answer = calling.call(exchange, operation, sent)
    found = answers.result(operation, answer, sent.query, arguments)
    model = operation.model
    rows: Any = found.get("rows", found.get("items"))
    exchange.usage.read(model._meta.label_lower if model is not None else "", 1 if rows is None else len(rows))
    return checked(structured_result(found), is_done=False)


class ChangeApi(ApiTool):
    name = "change_api"
    title = "Change by the API"
    description = (
        "Call an operation of the API that changes data. Without confirm: a plan, which writes nothing, with the token."
    )
    annotations = Annotations()
    scope = WRITE
    least_scope = ANY_WRITABLE_API
    takes = opens = (False,)
    # An administrator must decide that agents may change data.
    enabled_by_default = False
    about_call: Collection[str] = (CONFIRM, REASON)
    takes_files = True
    properties: ClassVar[Mapping[str, JSON]] = {
        "operation": OPERATION,
        "params": PARAMS,
        "body": {"type": ["object", "array"], "description": "As describe_api says."},
    }  # fmt: skip
    required = ("operation",)
    on_failure = "The server's log has the details."

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._input = Schema(asked.with_confirmation(self._input.schema, self.about_call))

    @property
    def argument_names(self) -> Collection[str]:
        return (*self.properties, *self.about_call)

    def acts_at_once(self, request: MCPRequest, arguments: JSON) -> bool:
        return CONFIRM in arguments

    def needs_people(self, request: MCPRequest) -> bool:
        return True

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        body = arguments.get("body")
        if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
            # For an argument of two types, clients send texts.
            with suppress(ParseError):
                arguments = {**arguments, "body": decode(body)}
        return super().run(exchange, arguments)

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        return change(exchange, self, arguments)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> Proposed:
        from mcp_django.bridge.api import changing

        operation = calling.find(self.site, exchange.request, arguments["operation"], safe=False)
        return changing.propose(exchange, operation, arguments)


def change(exchange: Exchange, tool: ChangingTool, arguments: JSON) -> JSON:
    """The plan of a change, or what came of it. Refusals count, since they tell what is there. Raises ToolError."""
    try:
        throttles.admit_writes(exchange)
        answer, _ = asked.preview_or_change(exchange, tool, arguments)
    except ToolError:
        throttles.count_refusal(exchange)
        raise
    return checked(structured_result(answer), is_done=exchange.usage.is_done)


API_TOOLS: tuple[type[ApiTool], ...] = (DescribeApi, CallApi, ChangeApi)
