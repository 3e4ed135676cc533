"""Content blocks, which tools return and messages of prompts hold, beside plain text.

Each block is written in the shape of the newest revision (2026-07-28 server/tools#tool-result). Older clients get a
block that their revision knows in its place (``protocol.projection``).
"""

from __future__ import annotations

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mcp_django.protocol.types import JSON

Role = Literal["user", "assistant"]

_ROLES = frozenset({"user", "assistant"})
#: A scheme and something after it. A client that cannot parse one URI refuses the whole result.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+")

__all__ = ["Audio", "EmbeddedBlob", "EmbeddedText", "Image", "ResourceLink", "Text"]


def write_annotations(
    audience: Sequence[Role] = (), priority: float | None = None, last_modified: datetime | None = None
) -> JSON:
    """The protocol's Annotations, with the members that are given. Raises ValueError for values that clients refuse."""
    written: JSON = {}
    if isinstance(audience, str) or not _ROLES.issuperset(audience):
        raise ValueError(f'audience must be a list of "user" and "assistant", not {audience!r}.')
    if priority is not None and not 0 <= priority <= 1:
        raise ValueError(f"priority must be a number from 0 to 1, not {priority!r}.")
    if audience:
        written["audience"] = list(audience)
    if priority is not None:
        written["priority"] = priority
    if last_modified is not None:
        written["lastModified"] = last_modified.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return written


@dataclass(frozen=True, kw_only=True)
class _Annotated(ABC):
    """The members that every block may have. Raises ValueError for values that clients refuse."""

    #: The readers that the block is meant for: the user, the assistant, or both.
    audience: Sequence[Role] = ()
    #: From 0 (may be left out) to 1 (must be read).
    priority: float | None = None
    #: Naive datetimes are in the time zone of the process, as Django sets it.
    last_modified: datetime | None = None
    #: The block's ``_meta``.
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        write_annotations(self.audience, self.priority)
        uri = getattr(self, "uri", None)
        if uri is not None and not _URI.fullmatch(uri):
            raise ValueError(f"{uri!r} is not an absolute URI: scheme:path, percent-encoded.")

    def to_json(self) -> JSON:
        """The block as JSON, in the shape of the newest revision."""
        block = self._block()
        if annotations := write_annotations(self.audience, self.priority, self.last_modified):
            block["annotations"] = annotations
        if self.meta is not None:
            block["_meta"] = dict(self.meta)
        return block

    @abstractmethod
    def _block(self) -> JSON:
        """The block without annotations and ``_meta``."""


@dataclass(frozen=True)
class Text(_Annotated):
    """A text."""

    text: str

    def _block(self) -> JSON:
        # A lazy translation becomes text here.
        return {"type": "text", "text": str(self.text)}


@dataclass(frozen=True)
class Image(_Annotated):
    """A picture: its bytes as in a file, and their type, such as "image/png"."""

    data: bytes
    mime_type: str

    def _block(self) -> JSON:
        return {"type": "image", "data": _base64(self.data), "mimeType": self.mime_type}


@dataclass(frozen=True)
class Audio(_Annotated):
    """A sound, as ``Image``. Clients of 2024-11-05, which has no sounds, get an embedded resource."""

    data: bytes
    mime_type: str

    def _block(self) -> JSON:
        return {"type": "audio", "data": _base64(self.data), "mimeType": self.mime_type}


@dataclass(frozen=True)
class EmbeddedText(_Annotated):
    """A text resource with its content. The server need not list the ``uri``."""

    uri: str
    text: str
    mime_type: str = "text/plain"

    def _block(self) -> JSON:
        return {"type": "resource", "resource": {"uri": self.uri, "mimeType": self.mime_type, "text": self.text}}


@dataclass(frozen=True)
class EmbeddedBlob(_Annotated):
    """A resource of any bytes, with its content. The server need not list the ``uri``."""

    uri: str
    data: bytes
    mime_type: str = "application/octet-stream"

    def _block(self) -> JSON:
        blob = _base64(self.data)
        return {"type": "resource", "resource": {"uri": self.uri, "mimeType": self.mime_type, "blob": blob}}


@dataclass(frozen=True)
class ResourceLink(_Annotated):
    """A link to a resource, which the client may read. Clients older than 2025-06-18 get the URI as text."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    #: The size of the content in bytes, before any encoding.
    size: int | None = None

    def _block(self) -> JSON:
        block: JSON = {"type": "resource_link", "uri": self.uri, "name": str(self.name)}
        for key, value in (("title", self.title), ("description", self.description), ("mimeType", self.mime_type)):
            if value:
                block[key] = str(value)
        if self.size is not None:
            block["size"] = self.size
        return block


Block = Text | Image | Audio | EmbeddedText | EmbeddedBlob | ResourceLink


def _base64(data: bytes) -> str:
    """Base64 with the standard alphabet and padding (RFC 4648 §4), as the schemas of every revision demand."""
    return base64.b64encode(data).decode("ascii")
