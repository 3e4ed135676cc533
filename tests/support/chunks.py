"""The chunks of a result, as a client gets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.base import Message

KEY = "mcp-django/chunk"


def chunks_in(messages: Iterable[Message]) -> list[Message]:
    """What our key in ``_meta`` says in each notification that has it."""
    return [told["params"]["_meta"][KEY] for told in messages if KEY in told.get("params", {}).get("_meta", {})]


def parts_in(messages: Iterable[Message]) -> list[Any]:
    """The blocks and rows of all chunks."""
    return [part for chunk in chunks_in(messages) for part in chunk.get("rows", chunk.get("content"))]


def texts_in(messages: Iterable[Message]) -> str:
    """The text of the blocks of all chunks."""
    return "".join(part["text"] for part in parts_in(messages))
