"""The exceptions that a project raises and catches, and what each of them tells the client.

Raise ToolError for what the agent may do better, MCPError for what it cannot. MissingCapability is raised where a
client cannot be asked. Django's PermissionDenied, ObjectDoesNotExist and ValidationError refuse as well. The text of
any other exception stays in the log: the client learns only that something failed. See docs/reference-imports.md.

The error codes are those of JSON-RPC 2.0 (its section 5.1) and of MCP 2026-07-28 (basic#error-codes).
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from mcp_django.protocol.revisions import Era
    from mcp_django.protocol.types import JSON

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

HEADER_MISMATCH = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022


__all__ = ["FieldError", "MCPError", "MissingCapability", "ToolError", "field_error"]

RECEIVED_CHARS = 100


class FieldError(TypedDict):
    """One wrong value: where it stood, what is wrong with it, and what was received."""

    field: str
    message: str
    received: Any


def field_error(field: str, message: str, received: Any = None) -> FieldError:
    """A FieldError whose ``received`` is short: long text is cut, a container is named by its JSON type."""
    if isinstance(received, str):
        received = received if len(received) <= RECEIVED_CHARS else received[:RECEIVED_CHARS] + "…"
    elif isinstance(received, dict):
        received = "object" if received else {}
    elif isinstance(received, list | tuple):
        received = "array" if received else []
    elif not (received is None or isinstance(received, bool | int | float)):
        received = type(received).__name__
    return FieldError(field=field, message=message, received=received)


class ToolError(Exception):
    """Refuses a call with a text that the agent reads and may act on.

    A tool or an admin action that raises it gives a result with ``isError``; a prompt and a resource give an error of
    the protocol, with the reason ``PROMPT_REFUSED`` or ``RESOURCE_REFUSED``; a completer suggests nothing. ``errors``
    lists what is wrong with single arguments: see ``field_error``.

    ``reason`` is what the audit trail calls the refusal, in capital letters: ``NO_SEATS``. The agent does not get it.
    Without one it is ``INVALID_ARGUMENTS`` where there are ``errors``, and ``TOOL_ERROR`` where there are none.
    """

    def __init__(self, message: str, errors: Sequence[FieldError] = (), *, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.errors = list(errors)
        self.reason = reason or ("INVALID_ARGUMENTS" if self.errors else "TOOL_ERROR")


class MCPError(Exception):
    """Ends a request with a JSON-RPC error, which the client's program handles and the agent may never see.

    The error has the message, the code -32603, and as its data the reason ``INTERNAL_ERROR`` beside ``data``. A
    subclass may have another ``code`` and ``reason``.
    """

    code: int = INTERNAL_ERROR
    reason: str = "INTERNAL_ERROR"
    #: The reason for the audit trail, where the client is told another one. Empty where it is told the true one.
    trail_reason: str = ""
    #: The HTTP status where it does not follow from the code and the era.
    http_status: HTTPStatus | None = None

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    def code_in(self, era: Era) -> int:
        """The code in an era of the protocol."""
        return self.code

    def status_in(self, era: Era) -> HTTPStatus:
        """The HTTP status in an era of the protocol."""
        return self.http_status or era.status_of(self.code_in(era))

    def to_json(self, era: Era) -> JSON:
        """The JSON-RPC error object: every error of the protocol is made here."""
        return {
            "code": self.code_in(era),
            "message": self.message,
            "data": {"reason": self.reason, **self.data},
        }


class MissingCapability(MCPError):
    """The client did not declare a capability that the request needs.

    ``request.mcp.elicit``, ``elicit_url``, ``sample``, ``list_roots`` and ``ask`` raise it. A function that can do
    without an answer catches it; else the client learns what it lacks. ``required`` is an object of ClientCapabilities,
    such as ``{"elicitation": {}}``.
    """

    code = MISSING_REQUIRED_CLIENT_CAPABILITY
    reason = "MISSING_CLIENT_CAPABILITY"

    def __init__(self, required: JSON, message: str = "") -> None:
        names = ", ".join(_capability_names(required))
        super().__init__(message or f"This needs a client with the capability {names}.", requiredCapabilities=required)

    def code_in(self, era: Era) -> int:
        # The code is a modern one, and legacy clients get it in the result.
        return self.code if era.enveloped else INTERNAL_ERROR


def _capability_names(required: JSON, prefix: str = "") -> list[str]:
    """``{"elicitation": {"url": {}}}`` as ``["elicitation.url"]``."""
    names: list[str] = []
    for name, value in required.items():
        names += _capability_names(value, f"{prefix}{name}.") if value else [prefix + name]
    return names
