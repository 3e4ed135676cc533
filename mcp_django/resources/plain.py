"""Resources that a project declares as functions, with ``@resource``."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_django.signatures import run

if TYPE_CHECKING:
    from mcp_django.access.requests import MCPRequest

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlainResource:
    """One URI whose contents a function of the request gives: text, bytes, or anything that JSON can say."""

    uri: str
    name: str
    function: Callable[..., Any]
    title: str = ""
    description: str = ""
    mime_type: str = "text/plain"
    #: The permission that the principal's user must have, as ``app.codename``. Empty: every principal.
    permission: str = ""

    def is_available(self, request: MCPRequest) -> bool:
        return not self.permission or request.user.has_perm(self.permission)

    def describe(self) -> JSON:
        described: JSON = {"uri": self.uri, "name": self.name, "mimeType": self.mime_type}
        if self.title:
            described["title"] = self.title
        if self.description:
            described["description"] = self.description
        return described

    def read(self, request: MCPRequest, uri: str) -> JSON | None:
        """The contents."""
        return contents(uri, self.mime_type, run(self.function, request))


def contents(uri: str, mime_type: str, value: Any) -> JSON:
    """Contents of a resource, ``{uri, mimeType, text}`` or ``{uri, mimeType, blob}``."""
    from mcp_django.protocol.jsonrpc import encode

    if isinstance(value, bytes | bytearray | memoryview):
        return {"uri": uri, "mimeType": mime_type, "blob": base64.b64encode(value).decode()}
    text = value if isinstance(value, str) else encode(value).decode()
    return {"uri": uri, "mimeType": mime_type, "text": text}
