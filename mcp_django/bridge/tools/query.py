"""The query tools serve every model, so that more models mean no more tools. find_records and get_record are here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from mcp_django.access.permissions import check_scopes
from mcp_django.bridge.completion import Completion
from mcp_django.bridge.declared.every_object import only_reading
from mcp_django.bridge.resources import rules
from mcp_django.bridge.resources.completers import complete_argument
from mcp_django.bridge.resources.fields.errors import MAX_MISTAKES, InvalidQuery, Mistakes
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.audited import note_filter
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.policy.searching import MAX_SEARCH_CHARS
from mcp_django.bridge.resources.reading import cursors, rows, splitting
from mcp_django.bridge.resources.reading.keys import no_record
from mcp_django.bridge.resources.reading.known_values import verified
from mcp_django.bridge.resources.reading.selection import MAX_ORDERS
from mcp_django.bridge.tools.base import Annotations, BaseTool
from mcp_django.bridge.tools.results import FORMATS, table_result
from mcp_django.bridge.tools.row_results import record_result
from mcp_django.conf import get_conf
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.exchange.chunks import ChunkStream, row_part
from mcp_django.exchange.scopes import ANY_MODEL
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import open_object
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


#: More models than this are not listed in the schema of each query tool.
MAX_LISTED_MODELS = 40

#: Names of fields, and paths to fields of related rows.
NAMES: JSON = {"type": "array", "items": {"type": "string"}, "maxItems": 50}
FIELDS = "What to return; if left out, all plain fields."


#: The arguments that several query tools have.
FILTER = open_object('Conditions, as {"departs_at__gte": "2013-01-31", "origin": "JFK"}.')
SEARCH: JSON = {"type": "string", "maxLength": MAX_SEARCH_CHARS, "description": "Words to find in search fields."}
FORMAT: JSON = {
    "type": "string",
    "enum": list(FORMATS),
    "default": "json",
    "description": "csv: fewer bytes, rows in the text alone.",
}
CURSOR: JSON = {
    "type": "string",
    "maxLength": cursors.MAX_CURSOR_CHARS,
    "description": "next_cursor of the page before; all else unchanged.",
}


def limit_schema(most: int, default: int) -> JSON:
    described = "Most rows."
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default, "description": described}


def arguments_schema(properties: Mapping[str, JSON], *required: str) -> Schema:
    """The schema of arguments."""
    more = {"required": list(required)} if required else {}
    return Schema({"type": "object", "properties": dict(properties), **more, "additionalProperties": False})


def table_schema(**extra: JSON) -> JSON:
    """The schema of the structured content of ``table_result``, with the members of ``extra`` beside the notes."""
    texts: JSON = {"type": "array", "items": {"type": "string"}}
    properties: JSON = {
        "more": {"type": "string", "description": "Present where more rows follow."},
        "columns": {**texts, "description": "Names of a row's values."},
        "rows": {"type": "array", "items": {"type": "array"}, "description": "None with csv."},
        "row_count": {"type": "integer", "description": "With csv."},
        "rows_in": {"const": "text", "description": "With csv."},
        "next_cursor": {"type": "string", "description": "Of the next page."},
        **extra,
        "notes": {**texts, "description": "What was left out."},
    }
    return {"type": "object", "properties": properties, "required": ["columns"]}


#: Lists as agents may send them.
EXAMPLES: Mapping[str, Sequence[str]] = {
    "order_by": ["-departs_at"], "fields": ["name"], "group_by": ["status"], "measures": ["count", "avg:arrival_delay"],
}  # fmt: skip
#: What other query languages call the arguments.
SYNONYMS: Mapping[str, str] = {
    "where": "filter", "filters": "filter", "conditions": "filter", "query": "search", "q": "search",
    "columns": "fields", "select": "fields", "sort": "order_by", "sort_by": "order_by", "orderby": "order_by",
    "ordering": "order_by", "groupby": "group_by", "aggregates": "measures", "metrics": "measures",
    "table": "model", "page_size": "limit", "max_results": "limit", "top": "limit", "count": "total", "pk": "id",
    "key": "id",
}  # fmt: skip


class FixedTool(BaseTool):
    """A tool that takes the same arguments whoever calls it, and answers with an object."""

    site: Any
    properties: ClassVar[Mapping[str, JSON]]
    required: ClassVar[Collection[str]] = ()
    description = ""

    def __init__(self, site: Any) -> None:
        self.site = site
        self._input: Schema = arguments_schema(self.properties, *self.required)
        self._input.owner = self.name

    def get_description(self, request: MCPRequest | None) -> str:
        return self.description

    def get_input_schema(self, request: MCPRequest) -> JSON:
        return self._input.schema

    @property
    def argument_names(self) -> Collection[str]:
        return self.properties.keys()

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        return {"type": "object"}


class QueryTool(BaseTool):
    """A read-only tool over every model that the principal may view."""

    #: How it reads a model.
    way: ways.Way
    annotations = Annotations(read_only=True, destructive=False, idempotent=True)
    description = ""
    #: A scope for one model is enough to read that model.
    least_scope = ANY_MODEL

    def get_description(self, request: MCPRequest | None) -> str:
        return self.description

    @property
    def argument_names(self) -> Collection[str]:
        names: Collection[str] = self._input.schema.get("properties", {})
        return names

    def is_available(self, request: MCPRequest) -> bool:
        rights = self._rights(request)
        found = (rights.of_label(label) for label in self.site.models)
        return any(model is not None and ways.has(model.model_mcp, self.way) for model in found)

    def get_input_schema(self, request: MCPRequest) -> JSON:
        # The names are listed for the agent to read. ``_model`` checks the name, and has a better error for it.
        rights = self._rights(request)
        labels = self._labels(rights)
        if len(labels) > MAX_LISTED_MODELS:
            where = ": describe_models lists them" if rights.may_use("describe_models") else ""
            described = f"One of {len(labels)} models, as app.model{where}."
            return self.arguments({"type": "string", "description": described}).schema
        return self.arguments({"type": "string", "enum": labels, "description": "The model."}).schema

    def arguments(self, model: JSON) -> Schema:
        """The schema of the arguments, with ``model`` as the schema of the model's name."""
        raise NotImplementedError

    def __init__(self, site: Any) -> None:
        self.site = site
        self._input = self.arguments({"type": "string"})
        own = self._input.schema["properties"]
        self._input.synonyms = {name: meant for name, meant in SYNONYMS.items() if meant in own}
        self._input.examples = EXAMPLES

    def _rights(self, request: MCPRequest) -> Rights:
        return Rights.of(self.site, request)

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        models = self._models(self._rights(exchange.request))
        return complete_argument(models, name, arguments, in_groups=self.way == "aggregate")

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        arguments = self._input.without_blanks(arguments)
        mistakes = Mistakes()
        rights = self._rights(exchange.request)
        mistakes.errors += map(partial(self.explained, rights), self._input.errors(arguments))
        with only_reading(exchange.request), splitting.explained(rights, arguments), mistakes:
            self._note(exchange, rights, arguments, filter_too=not mistakes.errors)
            if not mistakes.errors:
                return self.answer(exchange, rights, arguments)
            self._check_rest(rights, arguments, {error["field"].partition(".")[0] for error in mistakes.errors})
        raise ToolError(f"Invalid arguments for {self.name}.", mistakes.errors[:MAX_MISTAKES])

    def explained(self, rights: Rights, error: FieldError) -> FieldError:
        """An error of the arguments, with what can be done instead."""
        return error

    def _note(self, exchange: Exchange, rights: Rights, arguments: JSON, *, filter_too: bool) -> None:
        """Note for the audit trail what the call is about, with the values of its filter where that is valid."""
        model = rights.of_label(str(arguments.get("model", "")).lower())
        if model is not None:
            exchange.usage.model = model.label
            if filter_too and "filter" in arguments:
                note_filter(exchange.usage, model, arguments["filter"])

    def _check_rest(self, rights: Rights, arguments: JSON, wrong: Collection[str]) -> None:
        """Raises InvalidQuery for what else is wrong, beside the arguments whose values are ``wrong``."""
        if "group_by" in wrong or "measures" in wrong:
            wrong = {*wrong, "having", "order_by"}  # They repeat these names.
        known = self._input.schema["properties"].keys() - set(wrong)
        if "model" in known and "model" in arguments:
            rest = {name: value for name, value in arguments.items() if name in known}
            self.check(self._model(rights, arguments["model"]), rest)

    def errors_in(self, arguments: JSON) -> list[FieldError]:
        """What is wrong with the arguments by their schema, which is the same for all models."""
        return self._input.errors(arguments)

    def check(self, model: ModelRights, arguments: JSON, *, by_database: bool = True) -> None:
        """Raises InvalidQuery for arguments that are wrong for the model, ``by_database`` also for unknown values."""

    def answer(self, exchange: Exchange, rights: Rights, arguments: JSON) -> JSON:
        """The CallToolResult. Raises InvalidQuery, TooSlow and ToolError."""
        raise NotImplementedError

    def _is_there(self, request: MCPRequest, label: str) -> bool:
        return self._rights(request).of_label(label) is not None

    def _model(self, rights: Rights, label: str, argument: str = "model") -> ModelRights:
        found = rights.of_label(label.lower())
        if found is None:
            check_scopes(rights.request, partial(self._is_there, rights.request, label.lower()))
            raise InvalidQuery.one(argument, unknown_name("model", label, self._labels(rights)), label)
        if not ways.has(found.model_mcp, self.way):
            instead = ": ask aggregate_records" if ways.is_open(found, "aggregate") else ""
            raise InvalidQuery.one(argument, f"rows of {found.label} are shown in groups alone{instead}.", label)
        return found

    def _labels(self, rights: Rights) -> list[str]:
        return [model.label for model in self._models(rights)]

    def _models(self, rights: Rights) -> list[ModelRights]:
        """The models that it can be asked for."""
        return [model for model in rights.models() if ways.has(model.model_mcp, self.way)]


class FindRecords(QueryTool):
    name, way = "find_records", "collection"
    title = "Find records"
    description = (
        'Find rows of a model. filter is {"field__lookup": value}, all of which must hold, with {"any": [..]}, '
        '{"all": [..]} and {"not": {..}}; a field alone means equality. Fields of related rows are paths, '
        "as origin__name, in filter, fields and order_by; those of many rows come as a small table. The answer is "
        "columns and rows, the primary key first."
    )

    def arguments(self, model: JSON) -> Schema:
        conf = get_conf()
        properties: JSON = {
            "model": model,
            "filter": FILTER,
            "search": SEARCH,
            "order_by": {
                **NAMES,
                "maxItems": MAX_ORDERS,
                "description": 'As ["-departs_at"] for the latest first.',
            },
            "fields": {**NAMES, "description": FIELDS},
            "limit": limit_schema(conf.MAX_ROWS, min(rows.DEFAULT_ROWS, conf.MAX_ROWS)),
            "cursor": CURSOR,
            "total": {"type": "boolean", "description": "Count all rows."},
            "format": FORMAT,
        }
        return arguments_schema(properties, "model")

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        return table_schema(total={"type": "integer", "description": "All rows."})

    def answer(self, exchange: Exchange, rights: Rights, arguments: JSON) -> JSON:
        model, query = self._model(rights, arguments["model"]), self._query(arguments)
        # The result has the whole page, so a progress token alone does not ask for its rows as chunks too.
        read = partial(_read_rows, exchange, model.label, exchange.wants_chunks(by_token=False))
        page = rows.find(model, query, read=read)
        extra: JSON = {} if page.total is None else {"total": page.total}
        if page.next_cursor is not None:
            extra["next_cursor"] = page.next_cursor
        if notes := [*page.notes, *rules.of_records(model, query)]:
            extra["notes"] = notes
        first = {} if page.next_cursor is None else {"more": "More rows follow: pass next_cursor."}
        return table_result(page.columns, page.rows, extra, arguments.get("format", "json"), first=first)

    def explained(self, rights: Rights, error: FieldError) -> FieldError:
        if error["field"] != "limit" or not error["message"].startswith("must not be greater"):
            return error
        others = ", or aggregate_records" if rights.may_use("aggregate_records") else ""
        return {**error, "message": f"{error['message']}: take pages by next_cursor{others}"}

    def check(self, model: ModelRights, arguments: JSON, *, by_database: bool = True) -> None:
        query = self._query(arguments)
        with verified([], asks=by_database and query.cursor is None) as doubts:
            rows.check(model, query, doubts)

    def _query(self, arguments: JSON) -> rows.RecordQuery:
        return rows.RecordQuery(
            filter=arguments.get("filter", {}),
            search=arguments.get("search", ""),
            order_by=arguments.get("order_by", ()),
            fields=arguments.get("fields", ()),
            limit=int(arguments.get("limit", 0)),
            cursor=arguments.get("cursor"),
            total=arguments.get("total", False),
        )


def _read_rows(exchange: Exchange, label: str, are_sent: bool, columns: Sequence[str], found: Sequence[Any]) -> None:
    """Count the rows of a page, and send them in chunks ahead of the result. Raises RequestCancelled."""
    # Counted before they are sent: the client has them, whatever ends the call.
    exchange.usage.read(label, len(found))
    if not are_sent:
        return
    stream = ChunkStream(exchange, "rows", columns)
    try:
        for row in found:
            stream.put(row_part(row))
    finally:
        stream.end()


class GetRecord(QueryTool):
    name, way = "get_record", "record"
    title = "Get a record"
    description = "Read one record of a model by its primary key, with every field that you may read, whole."

    def arguments(self, model: JSON) -> Schema:
        # Integers are taken too. Forms cannot type "a string or an integer".
        key: JSON = {"type": "string", "description": "Primary key of the record."}
        return arguments_schema({"model": model, "id": key, "fields": {**NAMES, "description": FIELDS}}, "model", "id")

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        return {"type": "object"}

    def check(self, model: ModelRights, arguments: JSON, *, by_database: bool = True) -> None:
        rows.check_fields(model, arguments.get("fields", ()))

    def answer(self, exchange: Exchange, rights: Rights, arguments: JSON) -> JSON:
        model = self._model(rights, arguments["model"])
        record = rows.get(model, arguments["id"], arguments.get("fields", ()))
        if record is None:
            message = no_record(model, arguments["id"])
            why = " ".join(["There is no such record.", *rules.of_model(model)])
            raise ToolError(why, [field_error("id", message, arguments["id"])], reason="NO_RECORD")
        exchange.usage.read(model.label, 1)
        return record_result(model, arguments["id"], record, arguments.get("fields"))
