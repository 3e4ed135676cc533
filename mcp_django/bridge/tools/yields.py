"""Functions that yield the parts of their result: text, content blocks or rows.

The parts go to a client that asks for them while the function runs (``exchange.chunks``), and into one result at its
end. Each is written by ``Returns``, as the result of a function that returns.
"""

from __future__ import annotations

import inspect
import time
from asyncio import sleep
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, closing, nullcontext
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured

from mcp_django.bridge.signatures import ASYNC_ITERATORS, is_asynchronous
from mcp_django.bridge.tools.results import structured_result, text_block, text_result, too_large
from mcp_django.bridge.tools.returns import BLOCKS, Returns
from mcp_django.conf import get_conf
from mcp_django.core.running.bodies import is_small
from mcp_django.exchange.chunks import ChunkStream, Part, joined, row_part
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.protocol.json_schema.plain import is_plain
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.projection import content_block
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.protocol.json_schema.schema import Schema

_ITERATORS = (*ASYNC_ITERATORS, Iterator, Generator)
#: A longer text is sent in pieces.
_PIECE_CHARS = 40_000
#: What a block of text takes beside the text itself.
_BLOCK_BYTES = 26
#: Room in an answer for everything but the parts of its result.
_FRAME_BYTES = 8_000
_LESS = "For one result, ask for less."
#: After so long, a generator that awaits nothing lets the event loop go on.
_HELD_SECONDS = 0.01


def does_yield(function: Callable[..., Any], annotation: Any) -> bool:
    """Whether a function yields its result: it is a generator function, or its annotation names an iterator."""
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return is_generator or (get_origin(annotation) or annotation) in _ITERATORS


class Yields:
    """The annotation of a function that yields. Raises ImproperlyConfigured where it cannot be used.

    ``Iterator[str]`` is text in pieces, and an iterator of content blocks, or of blocks and str, is content. Any other
    has the schema of a list. Without an annotation the first part decides: text and blocks are content, all else rows.
    """

    def __init__(self, function: Callable[..., Any], annotation: Any, owner: str) -> None:
        self.function = function
        self.is_async = is_asynchronous(function, annotation)
        self.item = _item_of(annotation, owner)
        self.returns = Returns(self.item, owner)
        if self.returns.rows is not None:
            # Each would take statements of its own.
            raise ImproperlyConfigured(f"{owner} cannot yield rows of a model: return a list or a queryset of them.")
        self.kind: Literal["content", "rows"] | None = None
        if self.returns.schema is not None:
            self.kind = "rows"
        elif self.returns.is_content or self.item is str:
            self.kind = "content"
        #: The schema of the whole result.
        self.schema: Schema | None = None
        if self.returns.schema is not None:
            self.schema = Returns(list[self.item], owner).schema  # type: ignore[name-defined]
        #: Whether a value is written without code of the project.
        self.is_plain = self.kind is None or self.returns.is_content or is_plain(self.item)


def _item_of(annotation: Any, owner: str) -> Any:
    """The annotation of one part."""
    if annotation in (None, Any):
        return Any
    if (get_origin(annotation) or annotation) not in (*_ITERATORS, Iterable):
        raise ImproperlyConfigured(f"{owner} yields, so its annotation must be an iterator, as Iterator[{annotation}].")
    return get_args(annotation)[0] if get_args(annotation) else Any


class Gathering:
    """One run of a function that yields: its parts are sent on, and gathered for the result."""

    def __init__(self, yields: Yields, exchange: Exchange, *, runs_to_end: bool = False) -> None:
        self._yields = yields
        self._exchange = exchange
        #: Whether the function is not ended where its result has too many bytes: half of its work might be done.
        self._runs_to_end = runs_to_end
        self._kind = yields.kind
        self._is_wanted = exchange.wants_chunks()
        self._stream: ChunkStream | None = None
        #: What the result holds, which is the beginning of what was yielded, and the bytes that it takes.
        self._kept: list[Part] = []
        self._size = 0
        self._is_cut = False
        #: Whether a part was too large to be sent.
        self._is_sent_cut = False
        #: How many values were yielded, and how many of them the result holds.
        self._count = self._kept_count = 0

    def run(self, request: Any, /, **values: Any) -> None:
        """Call the function. Raises RequestCancelled, ToolError, and everything that the function raises."""
        yielded = self._yields.function(request, **values)
        try:
            with closing(yielded) if hasattr(yielded, "close") else nullcontext():
                for value in yielded:
                    for part in self._write(value):
                        if self._stream is not None:
                            self._stream.put(part)
        finally:
            self._end()

    async def arun(self, request: Any, /, **values: Any) -> None:
        """As ``run``, for a function with an asynchronous iterator."""
        yielded = self._yields.function(request, **values)
        if inspect.isawaitable(yielded):
            yielded = await yielded
        went_on_at = time.monotonic()
        try:
            async with aclosing(yielded) if hasattr(yielded, "aclose") else nullcontext():
                async for value in yielded:
                    for part in await self._awrite(value):
                        if self._stream is not None:
                            await self._stream.aput(part)
                    if time.monotonic() - went_on_at > _HELD_SECONDS:
                        await sleep(0)
                        went_on_at = time.monotonic()
        finally:
            self._end()

    @property
    def function(self) -> Callable[..., Any]:
        """What is called in the place of the function, before ``result``."""
        return self.arun if self._yields.is_async else self.run

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.end()

    # Parts.

    async def _awrite(self, value: Any) -> list[Part]:
        if isinstance(value, (str, *BLOCKS)) or (self._yields.is_plain and is_small(value)):
            return self._write(value)
        return await sync_to_async(self._write)(value)

    def _write(self, value: Any) -> list[Part]:
        """The parts of a yielded value. Raises ToolError if one has too many bytes for the client."""
        if self._exchange.cancelled:
            raise RequestCancelled
        if self._kind is None:
            self._kind = "content" if isinstance(value, (str, *BLOCKS)) else "rows"
        if self._stream is None and self._is_wanted:
            self._stream = ChunkStream(self._exchange, self._kind)
        parts = [self._row(value)] if self._kind == "rows" else self._content(value)
        self._count += 1
        if self._stream is not None and any(part.size > self._stream.most_bytes() for part in parts):
            if not self._runs_to_end:
                raise too_large(self._stream.most_bytes())
            self._is_cut = self._is_sent_cut = True
            return []
        if not self._is_cut:
            self._keep(parts)
        return parts

    def _row(self, value: Any) -> Part:
        if isinstance(value, BLOCKS):
            raise TypeError(f"{value!r:.100} was yielded after rows, but is a content block")
        return row_part(self._yields.returns.write_value(value))

    def _content(self, value: Any) -> list[Part]:
        parts: list[Part] = []
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, str):
                pieces = (item[start : start + _PIECE_CHARS] for start in range(0, len(item), _PIECE_CHARS))
                parts += (_piece(piece) for piece in pieces)
                continue
            block = content_block(self._yields.returns.write_block(item), self._exchange.revision)
            text = block["text"] if block["type"] == "text" else ""
            parts.append(Part(block, text, len(encode(block)) + 1, len(encode(text))))
        return parts

    # The result.

    def _keep(self, parts: Sequence[Part]) -> None:
        """Keep the parts of one value for the result, if they have room there. Raises ToolError."""
        size = self._size + sum(map(self._bytes_of, parts))
        if size > self._limit:
            if self._stream is None and not self._runs_to_end:
                raise too_large(self._limit)
            self._is_cut = True
            return
        self._size = size
        self._kept += parts
        self._kept_count += 1

    @property
    def _limit(self) -> int:
        """How many bytes the parts of the result may take."""
        if self._stream is None:
            return get_conf().MAX_RESULT_BYTES
        return min(get_conf().MAX_RESULT_BYTES, self._exchange.connection.message_limit) - _FRAME_BYTES

    def _bytes_of(self, part: Part) -> int:
        """The bytes that a part takes in the result."""
        if self._kind == "rows":
            return part.size if self._yields.schema is not None else part.text_bytes
        continues = part.is_piece and self._kept and self._kept[-1].is_piece
        return part.text_bytes if continues else part.value_bytes

    def result(self, returned: None) -> JSON:
        """The CallToolResult: whole, or the beginning with a sentence that says so."""
        result = self._written()
        if self._is_cut:
            cut = f"The result is cut here: it has {self._count} parts, and these are the first {self._kept_count}."
            if self._stream is not None and not self._is_sent_cut:
                cut += " All of them went to the client while the tool ran, in notifications/progress."
            instead = "The tool has done all of its work: do not repeat the call." if self._runs_to_end else _LESS
            result["content"].append(text_block(f"{cut} {instead}"))
        return result

    def _written(self) -> JSON:
        values = joined(self._kept)
        if self._yields.schema is not None:
            return structured_result(values)
        if self._kind is None:
            return text_result("Done.")
        return text_result(encode(values).decode()) if self._kind == "rows" else {"content": values, "isError": False}


def _piece(text: str) -> Part:
    size = len(encode(text))
    return Part(text_block(text), text, size + _BLOCK_BYTES, size, is_piece=True)
