"""Results of tools, and the error that a tool raises to tell the agent what to do otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_django.protocol.errors import FieldError
from mcp_django.protocol.jsonrpc import encode

JSON = dict[str, Any]


class ToolError(Exception):
    """Raised in a tool to answer ``isError`` with this text, which the agent reads and may act on."""

    def __init__(self, message: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.errors = list(errors)


def text_block(text: str) -> JSON:
    return {"type": "text", "text": text}


def text_result(text: str) -> JSON:
    return {"content": [text_block(text)], "isError": False}


def structured_result(value: JSON, text: str | None = None) -> JSON:
    """A result whose text says the same as its structured content."""
    return {
        "content": [text_block(encode(value).decode() if text is None else text)],
        "structuredContent": value,
        "isError": False,
    }


def error_result(message: str, errors: Sequence[FieldError] = ()) -> JSON:
    """An ``isError`` result; wrong arguments are listed as JSON, as in the ``data`` of a protocol error."""
    text = encode({"error": message, "errors": list(errors)}).decode() if errors else message
    return {"content": [text_block(text)], "isError": True}
