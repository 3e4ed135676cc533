"""The result of a function tool, by its return annotation: text, content blocks, or a value with a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic import TypeAdapter
from pydantic_core import from_json

from mcp_django.bridge.tools.results import structured_result, text_result
from mcp_django.content import Block, Text
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import flat, under_result
from mcp_django.protocol.jsonrpc import encode
from mcp_django.types import JSON

#: The content blocks that a function may return.
BLOCKS: tuple[type, ...] = get_args(Block)
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


class Returns:
    """The return annotation of the tool ``owner``. Raises ImproperlyConfigured where the annotation cannot be used.

    No annotation, ``Any``, None and str promise nothing: the result is text, or the returned content blocks. Content
    blocks, alone or in a list that may hold str too, have no schema either. Any other annotation gives a schema.

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
        if self.is_content or annotation in (None, NoneType, str, Any):
            return
        self._adapter = TypeAdapter(annotation)
        schema = flat(self._adapter.json_schema(mode="serialization"))
        types = _types(schema)
        if types == {"object"}:
            schema = {"type": "object", **schema}
        elif types is None or "object" in types:
            self._wraps = True
            schema = under_result(schema)
        self.schema = Schema(schema)

    def write(self, value: Any) -> JSON:
        """The CallToolResult. Raises TypeError for a value that the annotation does not promise."""
        if self.schema is None:
            return self._write_content(value)
        written = self.write_value(value)
        return structured_result({"result": written} if self._wraps else written)

    def write_value(self, value: Any) -> Any:
        """The value as JSON, checked where there is a schema. Raises TypeError as ``write`` does."""
        if self._adapter is None or self.schema is None:
            return from_json(encode(value))
        written = self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        if errors := self.schema.errors({"result": written} if self._wraps else written):
            raise TypeError(f"{self._owner} returned what its annotation does not promise: {errors}")
        return written

    def _write_content(self, value: Any) -> JSON:
        if isinstance(value, str) and not self.is_content:
            return text_result(value)
        items = value if isinstance(value, list | tuple) else [] if value is None else [value]
        if self.is_content or any(isinstance(item, BLOCKS) for item in items):
            return {"content": [self.write_block(item) for item in items], "isError": False}
        return text_result(value if isinstance(value, str) else "Done." if value is None else encode(value).decode())

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
    if not any(_is_block(leaf) for leaf in _leaves(annotation)):
        return False
    for option in _options(annotation):
        if _is_block(option) or option in (str, NoneType):
            continue
        items = [one for item in get_args(option) if item is not Ellipsis for one in _options(item)]
        if get_origin(option) not in (list, tuple, Sequence) or not all(_is_block(it) or it is str for it in items):
            raise ImproperlyConfigured(
                f"{owner} may return a content block, or a list of content blocks and str, and not {annotation}."
            )
    return True


def _options(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(one for member in get_args(annotation) for one in _options(member))
    return (annotation,)


def _leaves(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _leaves(part)


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
