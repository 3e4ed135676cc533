"""Bodies that a view reads as they come, and never holds whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any

from mcp_django.conf import get_conf
from mcp_django.core.compat.handlers import is_asgi_request

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.core.types import Message, Receive

#: Bytes that are read at a time.
_CHUNK = 262_144
#: Bytes of a body that are held in memory until it is read.
_IN_MEMORY = 16_384


class ClientLeft(Exception):
    """The client has gone away before its body was there."""


class BodyOfView:
    """The body of a Django request, which is read in a thread.

    Under WSGI it comes from the client. Django's own ASGI handler has put it into a temporary file.
    """

    def __init__(self, request: HttpRequest) -> None:
        self._stream: Any = request
        environ = getattr(request, "environ", {})
        is_chunked = "HTTP_TRANSFER_ENCODING" in environ and not environ.get("CONTENT_LENGTH")
        #: Whether it can be read only with a Content-Length: under WSGI, Django finds no end of a body without one.
        self.needs_length = not is_asgi_request(request)
        if is_chunked and environ.get("wsgi.input_terminated"):
            # This server ends it where the last chunk does.
            self._stream, self.needs_length = environ["wsgi.input"], False
        #: Whether there is a body whose end nobody knows.
        self.lacks_length = is_chunked and self.needs_length

    def read(self, size: int) -> bytes:
        """At most so many bytes, and fewer only at the end of the body. Raises OSError and RequestDataTooBig."""
        found: bytes = self._stream.read(size)
        return found

    def chunks(self) -> Iterator[bytes]:
        """The body in chunks of at most 256 KiB. Raises ClientLeft."""
        try:
            while chunk := self.read(_CHUNK):
                yield chunk
        except OSError as error:
            raise ClientLeft from error


class BodyOfLoop:
    """The body of a request of our own ASGI application, which is read on the loop."""

    needs_length = lacks_length = False

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.has_ended = False

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Chunks of about 256 KiB. Raises ClientLeft, and TimeoutError if one takes longer than REQUEST_SECONDS."""
        while not self.has_ended:
            held = bytearray()
            async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
                while not self.has_ended and len(held) < _CHUNK:
                    held += await self._next()
            if held:
                yield bytes(held)

    async def drain(self, limit: int) -> None:
        """Throw away what is still to come: a client that is still sending loses the answer if the server closes."""
        size = 0
        with contextlib.suppress(ClientLeft, TimeoutError):
            async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
                while not self.has_ended and size <= limit:
                    size += len(await self._next())

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        self.has_ended = not message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        return chunk


class ReadBody:
    """A body that is read before Django's handler asks for it: beyond 16 kB into a file, as it does too."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed at the end of the block
        self._left = 0
        self._is_given = False
        #: Whether it has been read, and somebody waits for the answer.
        self.is_wanted = False

    async def __aenter__(self) -> ReadBody:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._file.close()

    async def read(self, limit: int | None) -> None:
        """Read it, to a little more than the limit. Raises ClientLeft and TimeoutError as ``BodyOfLoop``."""
        async with aclosing(BodyOfLoop(self._receive).chunks()) as chunks:
            async for chunk in chunks:
                self._file.write(chunk)
                self._left += len(chunk)
                if limit is not None and self._left > limit:
                    break
        self._file.seek(0)

    async def receive(self) -> Message:
        """As the ``receive`` of the request: what was read, and then whatever comes."""
        if self._is_given:
            return await self._receive()
        chunk = self._file.read(_CHUNK)
        self._left -= len(chunk)
        self._is_given = not self._left
        return {"type": "http.request", "body": chunk, "more_body": not self._is_given}


IncomingBody = BodyOfView | BodyOfLoop
