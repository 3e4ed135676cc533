"""Single operations as tools of their own, with a schema of what each of them takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.api import calling, field_schemas
from mcp_django.bridge.api.tools import CallApi, call, change
from mcp_django.bridge.changes import asked
from mcp_django.bridge.changes.proposed import CONFIRM, REASON
from mcp_django.bridge.tools.base import Annotations, BaseTool
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import READ, WRITE
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.names import ascii_name
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.api.describing import Description
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.bridge.changes.proposed import Admit, Proposed
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

_BODY = "body"
#: Words → the type that JSON has for them. What has no other is a text.
_TYPES: Mapping[str, JSON] = {
    "integer": {"type": "integer"}, "boolean": {"type": "boolean"}, "number": {"type": "number"}, "any": {},
}  # fmt: skip
#: The arguments of ``call_api`` that an operation which reads has beside its own.
_OF_READING = ("fields", "limit", "cursor")


def tool_name(operation: Operation) -> str:
    """``order.list`` → ``order_list``: clients allow no dots."""
    return ascii_name(operation.name.replace(".", "_"))[:64]


class OperationTool(BaseTool):
    """One operation of the API."""

    audited: Collection[str] = ()

    def __init__(self, site: Site, operation: Operation) -> None:
        self.site, self.operation = site, operation
        self.name = tool_name(operation)
        self.scope = READ if operation.is_safe else WRITE
        self.enabled_by_default = operation.is_safe
        self.annotations = Annotations(
            read_only=operation.is_safe,
            destructive=not operation.is_safe,
            idempotent=operation.method in ("GET", "PUT", "DELETE"),
        )
        self.about_call: Collection[str] = () if operation.is_safe else (CONFIRM, REASON)

    @property
    def takes_files(self) -> bool:
        return not self.operation.is_safe

    @property
    def least_scope(self) -> str:
        return self.operation.scope

    def get_description(self, request: MCPRequest | None) -> str:
        from mcp_django.bridge.api.describing import what_of

        what = what_of(self.operation) or f"{self.operation.method} {self.operation.route.text}"
        return what if self.operation.is_safe else f"{what} Without confirm: a plan, which writes nothing."

    def get_input_schema(self, request: MCPRequest) -> JSON:
        return self._schema(calling.described(request, self.operation))

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        return {"type": "object"}

    def is_available(self, request: MCPRequest) -> bool:
        if self.operation.name not in self.site.api.reached(request):
            return False
        try:
            return calling.described(request, self.operation).is_allowed
        except ToolError:
            return False

    def is_permitted(self, request: MCPRequest) -> bool:
        return True

    def acts_at_once(self, request: MCPRequest, arguments: JSON) -> bool:
        return CONFIRM in arguments

    def needs_people(self, request: MCPRequest) -> bool:
        return not self.operation.is_safe

    def _schema(self, description: Description) -> JSON:
        params = {**description.path, **description.query}
        properties: JSON = {name: _of_words(said) for name, said in params.items()}
        if self.operation.is_safe:
            properties = {**{name: CallApi.properties[name] for name in _OF_READING}, **properties}
        elif description.body is not None:
            properties[_BODY] = _of_body(description)
        required = [name for name in description.path if name not in self.operation.route.optional_names]
        schema = {
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": description.is_open,
        }  # fmt: skip
        return asked.with_confirmation(schema, self.about_call)

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        description = calling.described(exchange.request, self.operation)
        checks = Schema(self._schema(description))
        checks.owner = self.name
        arguments = checks.without_nulls(arguments)
        if errors := checks.errors(arguments):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        exchange.usage.values["operation"] = self.operation.name
        if self.operation.is_safe:
            return call(exchange, self.operation, self._as_call(description, arguments))
        return change(exchange, self, arguments)

    def _as_call(self, description: Description, arguments: JSON) -> JSON:
        """The arguments as ``call_api`` and ``change_api`` have them."""
        own = {*_OF_READING, _BODY, *self.about_call} - description.path.keys() - description.query.keys()
        params = {name: value for name, value in arguments.items() if name not in own}
        return {"params": params, **{name: value for name, value in arguments.items() if name in own}}

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> Proposed:
        from mcp_django.bridge.api import changing

        description = calling.described(exchange.request, self.operation)
        return changing.propose(exchange, self.operation, self._as_call(description, arguments))


def _of_words(said: Any) -> JSON:
    """The schema of a parameter, as far as its words tell its type."""
    kind = str(said).partition(",")[0]
    if kind.startswith("list of "):
        return {"type": "array", "items": {"type": "string"}, "description": said}
    text = {"type": list(field_schemas.KEY_TYPES) if kind.startswith("key of ") else "string"}
    schema = _TYPES.get(kind, text)
    return {**schema, "description": said} if kind != said or kind not in _TYPES else dict(schema)


def _of_body(description: Description) -> JSON:
    body: Any = description.body
    if body.schema is not None:
        properties = {name: one for name, one in body.schema.get("properties", {}).items() if name in body.fields}
    else:
        properties = {name: _of_words(said) for name, said in body.fields.items() if isinstance(said, str)}
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return {"type": "array", "items": schema} if body.is_list else schema
