"""Reading and writing descriptors without holding up the event loop, each in a thread of its own.

asyncio's own pipes know neither files nor, on Windows, the pipes of a parent process. Making a descriptor non-blocking
would make it so for the terminal and the other processes that share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from typing import Any

_CHUNK_BYTES = 65_536


class Lines:
    """Cuts a stream of bytes into lines. Lines that are longer than ``limit`` are dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that the chunk completes, without their ends; None for one that is too long."""
        for position, part in enumerate(chunk.split(b"\n")):
            if position:
                yield from self.end()
            if self._skipping:
                continue
            self._begun += part
            if len(self._begun) > self._limit + len(b"\r"):
                self._begun.clear()
                self._skipping = True
                yield None

    def end(self) -> Iterator[bytes | None]:
        """The line that ends here, unless it is empty or was reported as too long."""
        line = bytes(self._begun).removesuffix(b"\r")
        self._begun.clear()
        if self._skipping:
            self._skipping = False
        elif len(line) > self._limit:
            yield None
        elif line.strip():
            yield line


class PipeReader:
    """Reads a descriptor to its end, and closes it then. It reads at most one chunk ahead."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._wanted = threading.Semaphore()
        threading.Thread(target=self._run, name="mcp_django stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._chunks.get():
            self._wanted.release()
            yield chunk

    def _run(self) -> None:
        chunk = b"-"
        while chunk:
            self._wanted.acquire()
            try:
                chunk = os.read(self._descriptor, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            with contextlib.suppress(RuntimeError):  # The loop is over, and nobody reads any more.
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
        os.close(self._descriptor)


class PipeWriter:
    """Writes to a descriptor, one thing after the other. ``broken`` is called once nobody reads it any more.

    ``write`` waits for room, but not until its data is written: when a client has read an answer, its request must be
    over.
    """

    def __init__(self, descriptor: int, broken: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        #: Bytes that wait to be written; counted on the loop.
        self._pending = 0
        threading.Thread(target=self._run, name="mcp_django stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Queue the data, after waiting while too much is queued already."""
        async with self._turn:
            await self._room.wait()
            self._count(len(data))
            self._waiting.put(data)

    async def close(self, seconds: float) -> None:
        """Nobody writes any more: write what waits, for so long at most, and close the descriptor."""
        self._waiting.put(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._pending:
                    self._room.clear()
                    await self._room.wait()

    def _count(self, size: int) -> None:
        self._pending += size
        if self._pending > _CHUNK_BYTES:
            self._room.clear()
        else:
            self._room.set()

    def _run(self) -> None:
        while (data := self._waiting.get()) is not None:
            try:
                self._write(data)
            except OSError:
                self._call(self._broken)
            self._call(self._count, -len(data))
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def _call(self, function: Callable[..., object], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is over.
            self._loop.call_soon_threadsafe(function, *args)
