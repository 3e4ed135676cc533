"""The body of one request for an upload: which bytes of a file it is, and where they are until the storage has them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any

from django.conf import settings

from mcp_django.bridge.uploads import upload_rows
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import Tally
from mcp_django.protocol.errors import Overloaded
from mcp_django.transports.http.incoming import BodyOfLoop
from mcp_django.transports.http.messages import HTTPError

if TYPE_CHECKING:
    from mcp_django.models import Upload

#: The hint for a client that has sent something else.
SEND = "Send the bytes of the file as the body, as curl --data-binary @FILE does."
#: Bytes of a body that are held in memory before they go to the disk.
_MEMORY_BYTES = 262_144
#: Bodies that a process reads at the same time: of one caller, and of all.
_AT_ONCE_OF_ONE, _AT_ONCE = 4, 64
_RANGE = re.compile(r"bytes (?:(\d{1,15})-(\d{1,15})|\*)/(\d{1,15})", re.IGNORECASE | re.ASCII)

_being_read = Tally()
_lock = Lock()


@dataclass(frozen=True)
class ContentRange:
    """What Content-Range says that the body is: bytes of a file, or none of them, as ``bytes */5000``."""

    start: int
    length: int
    total: int

    @classmethod
    def read(cls, header: str) -> ContentRange:
        """Raises HTTPError."""
        found = _RANGE.fullmatch(header)
        if found is None:
            raise HTTPError(HTTPStatus.BAD_REQUEST, "Send Content-Range as: bytes FIRST-LAST/TOTAL, or bytes */TOTAL.")
        first, last, total = found.groups()
        if first is None:
            return cls(0, 0, int(total))
        if not int(first) <= int(last) < int(total):
            raise HTTPError(HTTPStatus.BAD_REQUEST, "Content-Range names no bytes of the file.")
        return cls(int(first), int(last) - int(first) + 1, int(total))


class Reception:
    """The body of one request for an upload. It is on the disk of this machine until the storage has it."""

    def __init__(self, upload: Upload, start: int, length: int | None, *, is_new: bool) -> None:
        self.upload = upload
        self.start = start
        #: Whether the request has begun the upload, so that nobody knows of it if the request fails.
        self.is_new = is_new
        self.size = 0
        self._length = length
        self.file: Any = SpooledTemporaryFile(  # noqa: SIM115 - see ``close``
            max_size=_MEMORY_BYTES, dir=settings.FILE_UPLOAD_TEMP_DIR
        )

    def write(self, chunk: bytes) -> None:
        """Raises HTTPError for more bytes than there may be."""
        self.size += len(chunk)
        if self._length is not None and self.size > self._length:
            raise HTTPError(HTTPStatus.BAD_REQUEST, f"The body is longer than the {self._length} bytes of its headers.")
        if self.start + self.size > get_conf().MAX_UPLOAD_BYTES:
            raise too_long()
        self.file.write(chunk)

    def finish(self) -> None:
        """Raises HTTPError for fewer bytes than the headers say."""
        if self._length is not None and self.size < self._length:
            raise HTTPError(HTTPStatus.BAD_REQUEST, f"The body has {self.size} of the {self._length} bytes.")
        if not self.size:
            raise HTTPError(HTTPStatus.BAD_REQUEST, f"The body is empty. {SEND}")
        self.file.seek(0)

    def close(self) -> None:
        """Take the bytes off the disk. It may be called twice."""
        self.file.close()


async def read_body(reception: Reception, body: BodyOfLoop, key: str) -> None:
    """Read a body on the loop. Raises Overloaded, HTTPError, ClientLeft and TimeoutError."""
    with _lock:
        if _being_read[key] >= _AT_ONCE_OF_ONE or _being_read.total >= _AT_ONCE:
            raise Overloaded("Too many uploads come at the same time. Try again in a moment.")
        _being_read.add(key, 1)
    try:
        async with asyncio.timeout(upload_rows.SECONDS):
            async for chunk in body.chunks():
                await asyncio.to_thread(reception.write, chunk)
    finally:
        with _lock:
            _being_read.add(key, -1)


def range_of(upload: Upload) -> dict[str, str]:
    """The header that says which bytes are there."""
    return {"Range": f"bytes=0-{upload.size - 1}"} if upload.size else {}


def wrong_range(upload: Upload) -> HTTPError:
    """The error for bytes that do not begin where the stored ones end."""
    total = "*" if upload.total is None else upload.total
    return HTTPError(
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        f"{upload.size} bytes are there. Continue with the next one.",
        {**range_of(upload), "Content-Range": f"bytes */{total}"},
    )


def too_long() -> HTTPError:
    limit = get_conf().MAX_UPLOAD_BYTES
    return HTTPError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The file is longer than {limit} bytes (MAX_UPLOAD_BYTES).")
