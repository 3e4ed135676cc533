"""The result of a function tool, by its return annotation: text, content blocks, rows, or a value with a schema."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import PydanticSerializationError, from_json

from mcp_django.bridge.declared.returned import cannot_return, has_no_json, is_of_class, leaves, options, rows_of
from mcp_django.bridge.resources.reading import returned
from mcp_django.bridge.tools.results import structured_result, text_result
from mcp_django.bridge.tools.row_results import rows_result, rows_schema, without_structure
from mcp_django.content import Block, Text
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import flat, under_result
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

#: The content blocks that a function may return.
BLOCKS: tuple[type, ...] = get_args(Block)
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


class Returns:
    """The return annotation of the tool ``owner``. Raises ImproperlyConfigured where the annotation cannot be used.

    No annotation, ``Any``, None and str promise nothing: the result is text, or the returned content blocks. Content
    blocks, alone or in a list that may hold str too, have no schema either. Any other annotation gives a schema. Rows
    of a model are written as ``get_record`` and ``find_records`` write them, with an annotation or without.

    A value whose schema says that it is always an object, or never one, is sent as it is. Clients that know only
    objects receive any other value under ``result``: ``protocol.projection`` sees to it, and looks at the value alone.
    So a value that may be either is sent under ``result`` in every revision.
    """

    def __init__(self, annotation: Any, owner: str) -> None:
        self.schema: Schema | None = None
        self._owner = owner
        self._adapter: TypeAdapter[Any] | None = None
        self._wraps = False
        self.is_content = _promises_content(annotation, owner)
        #: The rows that the annotation promises.
        self.rows = None if self.is_content else rows_of(annotation, owner)
        if self.is_content or annotation in (None, NoneType, str, Any):
            return
        if self.rows is not None:
            self.schema = Schema(rows_schema(self.rows))
            return
        schema = self._read_schema(annotation)
        types = _types(schema)
        if types == {"object"}:
            schema = {"type": "object", **schema}
        elif types is None or "object" in types:
            self._wraps = True
            schema = under_result(schema)
        self.schema = Schema(schema)

    def _read_schema(self, annotation: Any) -> JSON:
        try:
            self._adapter = TypeAdapter(annotation)
            schema = flat(self._adapter.json_schema(mode="serialization"))
        except PydanticUserError as error:
            raise ImproperlyConfigured(cannot_return(annotation, self._owner)) from error
        # pydantic has a schema for a class, and nothing to write it with.
        if any(map(is_of_class, leaves(annotation))):
            raise ImproperlyConfigured(cannot_return(annotation, self._owner))
        return schema

    def check(self, exchange: Exchange) -> None:
        """Raises ToolError and InsufficientScope, before a call, for a principal who may not see what it returns."""
        if self.rows is not None:
            returned.check(exchange, self.rows, self._owner)

    def write(self, exchange: Exchange, value: Any) -> JSON:
        """The CallToolResult. Raises ToolError, and TypeError for a value that the annotation does not promise."""
        if self.rows is not None:
            is_none = value is None and self.rows.optional
            found = None if is_none else returned.read(exchange, self.rows, value, self._owner)
            return rows_result(found, self.rows)
        if self.schema is None:
            return self._write_content(exchange, value)
        written = self.write_value(value)
        return structured_result({"result": written} if self._wraps else written)

    def write_value(self, value: Any) -> Any:
        """The value as JSON, checked where there is a schema. Raises TypeError as ``write`` does."""
        if self._adapter is None or self.schema is None:
            return from_json(self._encode(value))
        try:
            written = self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except PydanticSerializationError as error:
            raise TypeError(has_no_json(self._owner, error)) from error
        if errors := self.schema.errors({"result": written} if self._wraps else written):
            raise TypeError(f"{self._owner} returned what its annotation does not promise: {errors}")
        return written

    def _encode(self, value: Any) -> bytes:
        try:
            return encode(value)
        except PydanticSerializationError as error:
            raise TypeError(has_no_json(self._owner, error)) from error

    def _write_content(self, exchange: Exchange, value: Any) -> JSON:
        if not self.is_content and (rows := returned.rows_in(value, self._owner)) is not None:
            if not rows.many:
                # A row that is hidden would be told otherwise than None, or than the exception of get().
                name = type(value).__name__
                raise TypeError(f"{self._owner} returned a {name}: annotate it with -> {name} or {name} | None")
            found = returned.read(exchange, rows, value, self._owner)
            # No annotation promises what a client may compare the structure with.
            return text_result("[]") if found is None and rows.many else without_structure(rows_result(found, rows))
        if isinstance(value, str) and not self.is_content:
            return text_result(value)
        items = value if isinstance(value, list | tuple) else [] if value is None else [value]
        if self.is_content or any(isinstance(item, BLOCKS) for item in items):
            return {"content": [self.write_block(item) for item in items], "isError": False}
        if value is None:
            return text_result("Done.")
        return text_result(value if isinstance(value, str) else self._encode(value).decode())

    def write_block(self, item: Any) -> JSON:
        """The content block of a block or a str. Raises TypeError for anything else."""
        if isinstance(item, str):
            item = Text(item)
        if not isinstance(item, BLOCKS):
            raise TypeError(f"{self._owner} returned {item!r:.100}, which is neither a content block nor a str")
        block: JSON = item.to_json()  # type: ignore[attr-defined]
        return block


def _promises_content(annotation: Any, owner: str) -> bool:
    """Whether the annotation names content blocks."""
    if not any(_is_block(leaf) for leaf in leaves(annotation)):
        return False
    for option in options(annotation):
        if _is_block(option) or option in (str, NoneType):
            continue
        items = [one for item in get_args(option) if item is not Ellipsis for one in options(item)]
        if get_origin(option) not in (list, tuple, Sequence) or not all(_is_block(it) or it is str for it in items):
            raise ImproperlyConfigured(
                f"{owner} may return a content block, or a list of content blocks and str, and not {annotation}."
            )
    return True


def _is_block(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BLOCKS)


def _types(schema: JSON) -> set[str] | None:
    """The JSON types that a schema allows, or None where it does not say."""
    if isinstance(schema.get("type"), str):
        return {schema["type"]}
    if isinstance(schema.get("type"), list):
        return set(schema["type"])
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return {_JSON_TYPES.get(type(value), "object") for value in values}
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            found = [_types(option) for option in schema[keyword]]
            return None if None in found else set().union(*(types or () for types in found))
    return None
