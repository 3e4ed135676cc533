"""A fast check of the params that nearly all requests have, which does without mcp-types.

The models of mcp-types take 13 MB and longer to make than all of this package to import. So they come with the first
request that is not plain: one that is wrong, answers a question, or declares what few clients do.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import CoreSchema, SchemaValidator, core_schema

from mcp_django.protocol.envelope import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_django.protocol.revisions import MODERN_REVISIONS
from mcp_django.protocol.types import JSON


def is_plain(method: str, revision: str, params: JSON) -> bool:
    """Whether these are params that mcp-types accepts for the method. False where only mcp-types can say it."""
    if method not in _VALIDATORS:
        return False
    legacy, modern = _VALIDATORS[method]
    return (modern if revision in MODERN_REVISIONS else legacy).isinstance_python(params)


def _object(required: Mapping[str, CoreSchema], optional: Mapping[str, CoreSchema], *, is_open: bool) -> CoreSchema:
    """An object with these members, and with any others if it is open."""
    fields = {name: core_schema.typed_dict_field(schema, required=name in required)
              for name, schema in {**required, **optional}.items()}  # fmt: skip
    return core_schema.typed_dict_schema(fields, strict=True, extra_behavior="allow" if is_open else "forbid")


#: The levels of logging that a modern request may ask for.
_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_TEXT = core_schema.str_schema(strict=True)
_EMPTY = core_schema.dict_schema(max_length=0, strict=True)
_EMPTY_BY_NAME = core_schema.dict_schema(_TEXT, _EMPTY, strict=True)
_VALUES = core_schema.dict_schema(_TEXT, core_schema.any_schema(), strict=True)
_TOKEN = {"progressToken": core_schema.union_schema([_TEXT, core_schema.int_schema(strict=True)])}
_CLIENT = _object({"name": _TEXT, "version": _TEXT}, {"title": _TEXT, "description": _TEXT, "websiteUrl": _TEXT},
                  is_open=False)  # fmt: skip
_CAPABILITIES = _object(
    {},
    {
        "elicitation": _object({}, {"form": _EMPTY, "url": _EMPTY}, is_open=False),
        "experimental": _EMPTY_BY_NAME,
        "extensions": _EMPTY_BY_NAME,
        "roots": _object({}, {"listChanged": core_schema.bool_schema(strict=True)}, is_open=False),
        "sampling": _object({}, {"context": _EMPTY, "tools": _EMPTY}, is_open=False),
    },
    is_open=False,
)
_META = _object(
    {PROTOCOL_VERSION_META_KEY: _TEXT, CLIENT_CAPABILITIES_META_KEY: _CAPABILITIES},
    {CLIENT_INFO_META_KEY: _CLIENT, LOG_LEVEL_META_KEY: core_schema.literal_schema(_LEVELS), **_TOKEN},
    is_open=True,
)
_LEGACY_META = _object({}, _TOKEN, is_open=True)

_PAGE: tuple[Mapping[str, CoreSchema], Mapping[str, CoreSchema]] = {}, {"cursor": _TEXT}
#: Method → its members that are required, and others. Methods that are called less often are not here.
_PARAMS: Mapping[str, tuple[Mapping[str, CoreSchema], Mapping[str, CoreSchema]]] = {
    "initialize": ({"protocolVersion": _TEXT, "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}, {}),
    "server/discover": ({}, {}),
    "ping": ({}, {}),
    "tools/list": _PAGE,
    "tools/call": ({"name": _TEXT}, {"arguments": _VALUES}),
    "resources/list": _PAGE,
    "resources/templates/list": _PAGE,
    "resources/read": ({"uri": _TEXT}, {}),
    "prompts/list": _PAGE,
    "prompts/get": ({"name": _TEXT}, {"arguments": core_schema.dict_schema(_TEXT, _TEXT, strict=True)}),
}


def _validators(method: str) -> tuple[SchemaValidator, SchemaValidator]:
    """Those of legacy and of modern requests."""
    required, optional = _PARAMS[method]
    legacy = _object(required, {**optional, "_meta": _LEGACY_META}, is_open=False)
    modern = _object({**required, "_meta": _META}, optional, is_open=False)
    return SchemaValidator(legacy), SchemaValidator(modern)


_VALIDATORS = {method: _validators(method) for method in _PARAMS}
