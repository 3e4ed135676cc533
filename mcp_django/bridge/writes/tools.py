"""The tools that write through the forms of the admin. They are the same, whatever the number of models."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import DataError, IntegrityError

from mcp_django.access.read_only import is_read_only
from mcp_django.access.throttling import throttles
from mcp_django.bridge.changes import applying, change_rows, confirmations, outcomes
from mcp_django.bridge.changes.outcomes import refused_by_database
from mcp_django.bridge.changes.proposed import CONFIRM, REASON, UNDO_UNTIL
from mcp_django.bridge.completion import Completion
from mcp_django.bridge.declared.options import OPERATIONS
from mcp_django.bridge.resources.completers import complete_argument
from mcp_django.bridge.resources.fields.errors import MAX_MISTAKES, InvalidQuery
from mcp_django.bridge.resources.fields.unreadable import is_fault_of_value
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.base import Annotations
from mcp_django.bridge.tools.query import SYNONYMS, FixedTool
from mcp_django.bridge.tools.results import structured_result
from mcp_django.bridge.writes import access, deletions, form_errors, given_records
from mcp_django.bridge.writes.filling import NOT_SHOWN
from mcp_django.exceptions import ToolError, field_error
from mcp_django.exchange.scopes import ANY_WRITABLE, READ, WRITE
from mcp_django.protocol.json_schema.schemas import open_object
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import Admit, Proposed
    from mcp_django.bridge.declared.options import Operation
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

_MODEL: JSON = {"type": "string", "description": "As app.model."}
_ID: JSON = {"type": "string", "description": "Primary key of the record."}
_IDS: JSON = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": deletions.MAX_ROWS}
_VALUES = open_object("Field → value, as describe_form says.")
_ROWS = open_object(
    'Inline → list of rows: {"pk": .., field: value} changes, {field: value} adds, '
    '{"pk": .., "delete": true} deletes; others stay.'
)
_IDS_OF_MANY: JSON = {"type": "array", "items": {"type": "string"}, "maxItems": 1_000}
_FILTER = open_object("Instead: as in find_records.")
_EACH: JSON = {
    "type": "array", "items": {"type": "object", "additionalProperties": True}, "maxItems": given_records.MOST_LISTED,
    "description": 'Instead: [{"id": .., field: value}].',
}  # fmt: skip
_NEW_ROWS: JSON = {
    "type": "array", "items": {"type": "object", "additionalProperties": True}, "maxItems": given_records.MOST_LISTED,
    "description": "[{field: value}]",
}  # fmt: skip
_CSV: JSON = {
    "type": "string",
    "description": "Instead: upload://.. of CSV: line 1 names fields.",
}
_ON_ERROR: JSON = {"type": "string", "enum": ["stop", "skip"]}
CONFIRM_SCHEMA: JSON = {"type": "string", "maxLength": confirmations.MAX_CHARS, "description": "From the preview."}
_REASON: JSON = {"type": "string", "maxLength": change_rows.MAX_REASON, "description": "Why, for people."}


class WriteTool(FixedTool):
    """A tool over every model that the principal may write."""

    scope = WRITE
    #: A scope to write any one model is enough to call the tool for that model.
    least_scope = ANY_WRITABLE
    # An administrator must decide that agents may write.
    enabled_by_default = False
    audited = ()
    on_failure = "Nothing was changed. The server's log has the details."

    def __init__(self, site: Any) -> None:
        super().__init__(site)
        self._input.synonyms = {name: meant for name, meant in SYNONYMS.items() if meant in self.properties}

    def complete(self, exchange: Exchange, name: str, arguments: Mapping[str, str]) -> Completion:
        return complete_argument(access.writable_models(Rights.of(self.site, exchange.request)), name, arguments)

    def run(self, exchange: Exchange, arguments: JSON) -> JSON:
        arguments = self._input.without_blanks(arguments)
        try:
            throttles.admit_writes(exchange)
            if errors := self._input.errors(arguments):
                raise InvalidQuery(errors)
            exchange.usage.model = self._label_of(exchange, arguments)
            return structured_result(self._with_undo(exchange, self.answer(exchange, arguments)))
        except InvalidQuery as error:
            throttles.count_refusal(exchange)
            raise ToolError(f"Invalid arguments for {self.name}.", error.errors[:MAX_MISTAKES]) from None
        except ToolError:
            throttles.count_refusal(exchange)
            raise
        except Exception as error:
            refusal = None if exchange.usage.is_done else self._refusal(exchange, arguments, error)
            if refusal is None:
                raise
            logger.warning("A change by %s is refused", self.name, exc_info=True)
            throttles.count_refusal(exchange)
            raise refusal from None

    def _with_undo(self, exchange: Exchange, answer: JSON) -> JSON:
        """The answer, which says until when the change can be undone only to whoever may undo it."""
        undo = self.site.tools.get(UndoChange.name)
        if UNDO_UNTIL in answer and not (undo and catalog.may_call_one_of(self.site, exchange.request, [undo])):
            del answer[UNDO_UNTIL]
        return answer

    def _refusal(self, exchange: Exchange, arguments: JSON, error: Exception) -> ToolError | None:
        """What the agent can be told of an error of the data; None if it is of another kind."""
        if isinstance(error, IntegrityError | DataError) and not is_fault_of_value(error):
            return ToolError(f"{refused_by_database(error)} Nothing was changed.", reason="DATABASE_REFUSED")
        if not is_fault_of_value(error):
            return None
        model = Rights(self.site, exchange.request, from_primary=True).of_label(str(arguments.get("model", "")).lower())
        keys = [arguments["id"]] if "id" in arguments else arguments.get("ids", [])
        if model is not None and keys and (errors := form_errors.of_unreadable(model, keys, error)):
            return ToolError(f"{NOT_SHOWN} Nothing was changed.", errors)
        return None

    def acts_at_once(self, request: MCPRequest, arguments: JSON) -> bool:
        return self.may_change and CONFIRM in arguments

    @abstractmethod
    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        """The structured content. Raises InvalidQuery and ToolError."""

    def _label_of(self, exchange: Exchange, arguments: JSON) -> str:
        """The model for the audit trail: one that the caller may see."""
        found = Rights.of(self.site, exchange.request).of_label(str(arguments.get("model", "")).lower())
        return "" if found is None else found.label


class OperationTool(WriteTool):
    """Creates, updates or deletes: after a preview, once that is confirmed."""

    operation: ClassVar[Operation]
    about_call: Collection[str] = (CONFIRM, REASON)

    def is_available(self, request: MCPRequest) -> bool:
        rights = Rights.of(self.site, request)
        return any(access.may_write(model, self.operation) for model in rights.models())

    def is_permitted(self, request: MCPRequest) -> bool:
        rights = Rights.of(self.site, request)
        return any(access.may_write(model, self.operation, scope=READ) for model in rights.models())

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        if "confirm" not in arguments:
            return applying.preview(exchange, self, arguments)
        return applying.change(exchange, self, arguments)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> Proposed:
        # What fills forms is imported with the first of them: most processes of a project only read.
        from mcp_django.bridge.writes import proposals

        rights = Rights(self.site, exchange.request, from_primary=True)
        if self.operation == "delete":
            return deletions.propose(rights, arguments)
        return proposals.propose(rights, self.operation, arguments, admit)


class CreateRecord(OperationTool):
    name, operation = "create_record", "create"
    title = "Create a record"
    description = (
        "Create one record through the admin's form. Without confirm: a preview, with the token to confirm it."
    )
    annotations = Annotations(destructive=False)
    properties: ClassVar[Mapping[str, JSON]] = {
        "model": _MODEL, "values": _VALUES, "rows": _ROWS, "confirm": CONFIRM_SCHEMA, "reason": _REASON,
    }  # fmt: skip
    required = ("model", "values")


class UpdateRecord(OperationTool):
    name, operation = "update_record", "update"
    title = "Update a record"
    description = "Change fields of one record through the admin's form. Without confirm: a preview, with the token."
    annotations = Annotations()
    properties: ClassVar[Mapping[str, JSON]] = {
        "model": _MODEL, "id": _ID, "values": _VALUES, "rows": _ROWS, "confirm": CONFIRM_SCHEMA, "reason": _REASON,
    }  # fmt: skip
    required = ("model", "id")


class DeleteRecord(OperationTool):
    name, operation = "delete_record", "delete"
    title = "Delete records"
    description = "Delete records as the admin does. Without confirm: what would go with them, with the token."
    annotations = Annotations()
    properties: ClassVar[Mapping[str, JSON]] = {
        "model": _MODEL, "ids": _IDS, "filter": _FILTER, "confirm": CONFIRM_SCHEMA, "reason": _REASON,
    }  # fmt: skip
    required = ("model",)


class RecordsTool(OperationTool):
    """Writes several records of a model in one call, each through its form."""

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> Proposed:
        from mcp_django.bridge.writes import records

        return records.propose(exchange, self.operation, arguments)


class UpdateRecords(RecordsTool):
    name, operation, covers = "update_records", "update", ("update_record",)
    title = "Update several records"
    description = "Change several records, alike or each to its own. Without confirm: a preview."
    annotations = Annotations()
    properties: ClassVar[Mapping[str, JSON]] = {
        "model": _MODEL, "ids": _IDS_OF_MANY, "filter": _FILTER, "values": _VALUES, "each": _EACH,
        "on_error": _ON_ERROR, "confirm": CONFIRM_SCHEMA, "reason": _REASON,
    }  # fmt: skip
    required = ("model",)


class CreateRecords(RecordsTool):
    name, operation, covers = "create_records", "create", ("create_record",)
    title = "Create several records"
    description = "Create several records, all or none. Without confirm: a preview."
    annotations = Annotations(destructive=False)
    properties: ClassVar[Mapping[str, JSON]] = {
        "model": _MODEL, "rows": _NEW_ROWS, "file": _CSV, "on_error": _ON_ERROR,
        "confirm": CONFIRM_SCHEMA, "reason": _REASON,
    }  # fmt: skip
    file_arguments = ("file",)
    required = ("model",)


class UndoChange(WriteTool):
    """Takes back what this credential changed: with a preview, as any change."""

    name = "undo_change"
    title = "Undo changes"
    description = (
        "Take back a change of yours, or all since a time. What others changed since stays. Without confirm: a preview."
    )
    annotations = Annotations()
    about_call: Collection[str] = (CONFIRM, REASON)
    properties: ClassVar[Mapping[str, JSON]] = {
        "change": {"type": "string", "description": "Its number."},
        "since": {"type": "string", "description": "Instead: 2026-01-31T10:00:00+01:00."},
        "confirm": CONFIRM_SCHEMA, "reason": _REASON,
    }  # fmt: skip

    def is_available(self, request: MCPRequest) -> bool:
        writing = (tool for tool in self.site.tools.values() if isinstance(tool, OperationTool))
        return catalog.may_call_one_of(self.site, request, writing)

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        if CONFIRM not in arguments:
            return applying.preview(exchange, self, arguments)
        return applying.change(exchange, self, arguments)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> Proposed:
        from mcp_django.bridge.writes import undo

        return undo.propose(exchange, arguments)


class _Reading(WriteTool):
    """A tool that reads about writing. It is available where a tool that writes can be called."""

    annotations = Annotations(read_only=True, destructive=False, idempotent=True)

    @property
    def is_closed(self) -> bool:
        return is_read_only()

    def is_available(self, request: MCPRequest) -> bool:
        writing = (tool for tool in self.site.tools.values() if isinstance(tool, OperationTool))
        return catalog.may_call_one_of(self.site, request, writing)


class DescribeForm(_Reading):
    name = "describe_form"
    title = "Describe a form"
    description = (
        "What can be written: the models, or of a model the fields and inlines of the form for a new record, or of the "
        "record with this id. Call it before you write."
    )
    properties: ClassVar[Mapping[str, JSON]] = {"model": _MODEL, "id": _ID}

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        from mcp_django.bridge.writes import descriptions

        rights = Rights.of(self.site, exchange.request)
        if "model" not in arguments:
            return descriptions.listed(rights)
        return descriptions.describe(access.find(rights, arguments["model"]), arguments.get("id"))


class PreviewChange(_Reading):
    name = "preview_change"
    title = "Preview a change"
    description = "What create_record, update_record or delete_record would do, with the token that confirms it."
    properties: ClassVar[Mapping[str, JSON]] = {
        "operation": {"type": "string", "enum": list(OPERATIONS)},
        "model": _MODEL, "id": _ID, "ids": _IDS, "values": _VALUES, "rows": _ROWS,
    }  # fmt: skip
    required = ("operation", "model")

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        operation: Operation = arguments.pop("operation")
        tool = self.site.tools[next(one.name for one in _OPERATIONS if one.operation == operation)]
        if not catalog.may_call_one_of(self.site, exchange.request, [tool]):
            raise InvalidQuery.one("operation", f"{tool.name} cannot be called.", operation)
        if errors := [
            *(field_error(name, f"does not go with {operation}.") for name in arguments if name not in tool.properties),
            *(field_error(name, f"is needed to {operation}.") for name in tool.required if name not in arguments),
        ]:
            raise InvalidQuery(errors)
        how = f'Nothing was changed yet. To make the change, call {tool.name} with the same arguments and "confirm".'
        return applying.preview(exchange, tool, arguments, how=how)


class GetChange(_Reading):
    name = "get_change"
    title = "Get a change"
    description = "What became of a change that waits for people, or that was made within the last day."
    # Changes are proposed by actions, functions and request_rights too, which need no scope to write.
    scope = READ
    least_scope = READ
    properties: ClassVar[Mapping[str, JSON]] = {"change": {"type": "string", "description": "Its number."}}
    required = ("change",)

    def is_available(self, request: MCPRequest) -> bool:
        if super().is_available(request):
            return True
        asking = (tool for tool in self.site.tools.values() if tool.needs_people(request))
        return catalog.may_call_one_of(self.site, request, asking)

    def answer(self, exchange: Exchange, arguments: JSON) -> JSON:
        found = change_rows.find(exchange.site, exchange.principal, arguments["change"])
        if found is None:
            raise ToolError(
                "There is no such change.",
                [field_error("change", "is not the number of a change of yours.", arguments["change"])],
                reason="NO_RECORD",
            )
        return outcomes.answer_of(exchange, found)


_OPERATIONS: tuple[type[OperationTool], ...] = (CreateRecord, UpdateRecord, DeleteRecord)
WRITE_TOOLS: tuple[type[WriteTool], ...] = (
    DescribeForm, PreviewChange, *_OPERATIONS, UpdateRecords, CreateRecords, UndoChange, GetChange,
)  # fmt: skip
