"""Calls an ASGI application like a server."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.base import Message


class ASGICall:
    """One call of an ASGI application."""

    def __init__(self, application: Any, scope: Message) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.outbox: asyncio.Queue[Message] = asyncio.Queue()
        self.task = asyncio.ensure_future(application(scope, self.inbox.get, self.outbox.put))

    async def receive(self, seconds: float = 60) -> Message:
        """The next message of the application; its exception, if it raised one."""
        receiving = asyncio.ensure_future(self.outbox.get())
        try:
            await asyncio.wait({receiving, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                return receiving.result()
        finally:
            # Also when the caller is cancelled: nobody else would ever end this task.
            receiving.cancel()
        if self.task.done():
            self.task.result()
            raise EOFError("the application has returned")
        raise TimeoutError

    async def disconnect(self, kind: str, **more: Any) -> None:
        await self.inbox.put({"type": kind, **more})
        await self.finish()

    async def finish(self) -> None:
        """Wait until the application has returned."""
        await asyncio.wait({self.task}, timeout=60)
        assert self.task.done(), "the application still runs"
        if not self.task.cancelled():
            self.task.result()


def encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def decode_headers(headers: Any) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
