"""Queries that people saved as tools: a call of find_records or aggregate_records, some values of which are arguments.

A saved query reads with the rights of its caller. A caller who may not read one of its fields does not have the tool.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from django.utils.translation import gettext as _

from mcp_django.bridge.completion import NOTHING, Completion, of_last
from mcp_django.bridge.resources.completers import complete_value
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.parsing import MAX_LIST_VALUES
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools.base import Annotations, BaseTool
from mcp_django.bridge.tools.query import CURSOR, QueryTool, arguments_schema
from mcp_django.conf import get_conf
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import ANY_MODEL
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.access.overrides import Override
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site
    from mcp_django.models import Tool


logger = logging.getLogger("mcp_django")

#: The tools whose calls can be saved.
SAVABLE = frozenset({"find_records", "aggregate_records"})
#: Saved queries of one site. Each of them is checked for each list of tools.
MAX_SAVED = 50
#: Characters of a saved query.
MAX_CHARS = 20_000

#: Where a value stands in the arguments of a call: ``("filter", "any", 0, "origin")``.
Place = tuple[str | int, ...]

#: To the agent whose query took too long.
_ADVICE = "Give other values, or ask an administrator to narrow the saved query."

_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)
#: The arguments with conditions, and those that are a value themselves.
_OF_CONDITIONS, _OF_ONE_VALUE = ("filter", "conditions", "having"), ("search", "limit")
#: Of these, the arguments whose conditions are on fields.
_OF_FIELDS = ("filter", "conditions")
_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value of a saved query that the caller gives."""

    name: str
    place: Place
    description: str = ""
    #: Whether the value that was saved is used where the caller gives none.
    optional: bool = False


def places(arguments: JSON) -> dict[Place, Any]:
    """The values of a call that can be parameters, by where they stand: never a name of a field or of a model."""
    return {place: value for place, value in _values(arguments) if _schema_of(value) is not None}


def _values(arguments: JSON) -> Iterator[tuple[Place, Any]]:
    for name in _OF_CONDITIONS:
        yield from _conditions(arguments.get(name, {}), (name,))
    for name in _OF_ONE_VALUE:
        if name in arguments:
            yield (name,), arguments[name]


def _conditions(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _conditions(one, (*place, name))
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for index, one in enumerate(value):
            yield from _conditions(one, (*place, index))
    else:
        yield place, value


def _schema_of(value: Any) -> JSON | None:
    """The JSON Schema of values like this one; None where it has no type."""
    if isinstance(value, list):
        types = {_TYPES.get(type(one)) for one in value}
        if len(types) != 1 or None in types:
            return None
        return {"type": "array", "items": {"type": types.pop()}, "minItems": 1, "maxItems": MAX_LIST_VALUES}
    name = _TYPES.get(type(value))
    return None if name is None else {"type": name}


def write(tool: str, arguments: JSON, parameters: Iterable[Parameter]) -> str:
    """The text that is stored of a saved query."""
    listed = [
        {"name": one.name, "place": one.place, "description": one.description, "optional": one.optional}
        for one in parameters
    ]
    return json.dumps({"tool": tool, "arguments": arguments, "parameters": listed}, ensure_ascii=False)


class SavedQuery(BaseTool):
    """A saved query as a tool. Raises ValueError, with a text for people, if its ``text`` cannot be a tool."""

    annotations = Annotations(read_only=True, destructive=False, idempotent=True)
    #: As for the query tools.
    least_scope = ANY_MODEL

    def __init__(self, site: Site, name: str, text: str) -> None:
        self.name = name
        self.site = site
        stored = json.loads(text)
        #: The name of the tool whose call was saved.
        self.tool_name: str = stored["tool"]
        if self.tool_name not in SAVABLE:
            raise ValueError(_("Calls of %(tool)s cannot be saved.") % {"tool": self.tool_name})
        self.arguments: JSON = stored["arguments"]
        self.parameters = [
            Parameter(one["name"], tuple(one["place"]), one["description"], one["optional"])
            for one in stored["parameters"]
        ]
        self._check_parameters()
        self._input = arguments_schema(
            {**{one.name: self._described(one) for one in self.parameters}, "cursor": CURSOR},
            *(one.name for one in self.parameters if not one.optional),
        )

    def _check_parameters(self) -> None:
        there, names = places(self.arguments), [one.name for one in self.parameters]
        for one in self.parameters:
            if not _PARAMETER_NAME.fullmatch(one.name) or one.name == "cursor":
                raise ValueError(_("%(name)r cannot be the name of an argument.") % {"name": one.name})
            if names.count(one.name) > 1:
                raise ValueError(_("Two arguments are called %(name)s.") % {"name": one.name})
            if one.place not in there:
                raise ValueError(_("There is no value at %(place)s.") % {"place": dotted(one.place)})

    def _described(self, parameter: Parameter) -> JSON:
        value = places(self.arguments)[parameter.place]
        schema = {**(_schema_of(value) or {}), "description": parameter.description or dotted(parameter.place)}
        return {**schema, "default": value} if parameter.optional else schema

    @property
    def tool(self) -> QueryTool:
        """The tool whose call was saved."""
        return cast("QueryTool", self.site.tools[self.tool_name])

    def get_description(self, request: MCPRequest | None) -> str:
        model = self.arguments.get("model", "")
        return f"Asks {self.tool_name} about {model}, with a query that was saved."

    def get_input_schema(self, request: MCPRequest) -> JSON:
        return self._input.schema

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        return self.tool.get_output_schema(request)

    @property
    def argument_names(self) -> Collection[str]:
        names: Collection[str] = self._input.schema["properties"]
        return names

    def is_available(self, request: MCPRequest) -> bool:
        return self.why_not(request) is None

    def why_not(self, request: MCPRequest) -> str | None:
        """Why the request's principal may not run the query, for the person who saves it. Asks no database."""
        label = str(self.arguments.get("model", "")).lower()
        model = Rights.of(self.site, request).of_label(label)
        if model is None or not ways.has(model.model_mcp, self.tool.way):
            return _("The model %(model)s cannot be read.") % {"model": label}
        try:
            self.tool.check(model, self.arguments, by_database=False)
        except InvalidQuery as error:
            return "; ".join(f"{one['field']}: {one['message']}" for one in error.errors)
        return None

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        place = next((one.place for one in self.parameters if one.name == name), ())
        model = Rights.of(self.site, exchange.request).of_label(str(self.arguments.get("model", "")).lower())
        if model is None or not place or place[0] not in _OF_FIELDS:
            return NOTHING
        column, lookup = model.column_and_lookup(str(place[-1]))
        if column is None or lookup not in ("", "exact", "in"):
            return NOTHING
        complete = partial(complete_value, model, column)
        return of_last(complete, arguments[name]) if lookup == "in" else complete(arguments[name])

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        arguments = self._input.without_blanks(arguments)
        if errors := self._input.errors(arguments):
            raise ToolError(f"Invalid arguments for {self.name}.", errors)
        try:
            return self.tool.run(exchange, self.filled(arguments))
        except ToolError as error:
            raise self._in_own_words(error) from None
        except TooSlow as error:
            # What the tool advises is about arguments that this one does not have.
            raise TooSlow(advice=_ADVICE, seconds=get_conf().STATEMENT_SECONDS) from error

    def filled(self, arguments: JSON) -> JSON:
        """The arguments of the saved call, with the values that were given."""
        filled = deepcopy(self.arguments)
        for one in self.parameters:
            if one.name in arguments:
                *way, last = one.place
                within: Any = filled
                for step in way:
                    within = within[step]
                within[last] = arguments[one.name]
        return {**filled, **({"cursor": arguments["cursor"]} if "cursor" in arguments else {})}

    def _in_own_words(self, error: ToolError) -> ToolError:
        """The error with the names of our arguments, since the agent knows no others."""
        names = {dotted(one.place): one.name for one in self.parameters}
        errors = [{**one, "field": names.get(one["field"], one["field"])} for one in error.errors]
        message = error.message.replace(self.tool_name, self.name)
        return ToolError(message, errors, reason=error.reason)  # type: ignore[arg-type]


def dotted(place: Sequence[str | int]) -> str:
    """A place as errors name it: ``filter.any.0.origin``."""
    return ".".join(map(str, place))


def saved_query(site: Site, name: str, row: Override | Tool | None) -> SavedQuery | None:
    """The query that was saved under the name, where no tool of the project has it."""
    if row is None or not row.query or name in site.tools:
        return None
    return _read(site, name, row.query)


@lru_cache(maxsize=1_000)
def _read(site: Site, name: str, text: str) -> SavedQuery | None:
    try:
        return SavedQuery(site, name, text)
    except (ValueError, TypeError, LookupError):
        logger.exception("The saved query %s cannot be read; it is not offered", name)
        return None
