"""What the server answers the client: results, and errors of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from mcp_django.exceptions import FieldError, ToolError
from mcp_django.protocol.types import JSON

#: Finds out the true reason of a refusal.
FindReason = Callable[[], str]


def _reason(find: FindReason | None, told: str) -> str:
    """The true reason; what the agent was ``told`` where there is no other."""
    return ("" if find is None else find()) or told


class Refusal(Exception):
    """An error that an agent reads, for a test that may know more than the agent."""

    _find_reason: FindReason | None = None

    @cached_property
    def true_reason(self) -> str:
        """Why the request was refused or has failed, as of the moment when it is first asked for.

        An agent reads that a tool does not exist; the reason may be that it is switched off, or that its user lacks a
        permission. Where nothing else refuses the request, it is what the agent reads.
        """
        return _reason(self._find_reason, self.args[0])


class CallRefused(Refusal, ToolError):
    """A call whose result has ``isError``."""

    def __init__(self, message: str, errors: Sequence[FieldError], find_reason: FindReason) -> None:
        super().__init__(message, errors)
        self._find_reason = find_reason

    def __str__(self) -> str:
        """The message, and what it leaves out of what is wrong with single arguments."""
        left_out = (one for one in self.errors if one["message"].rstrip(".") not in self.message)
        return " ".join([self.message, *(f"{one['field']}: {one['message'].rstrip('.')}." for one in left_out)])


class ProtocolError(Refusal):
    """The server answered a request with an error of the protocol."""

    def __init__(self, error: JSON, find_reason: FindReason | None = None) -> None:
        self._find_reason = find_reason
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: JSON = error.get("data") or {}
        super().__init__(f"{self.message} ({self.code} {self.reason})")

    @property
    def reason(self) -> str:
        """Names the error, as ``TOOL_NOT_FOUND``."""
        return str(self.data.get("reason", ""))


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returned."""

    #: The content blocks.
    content: list[JSON]
    #: The structured content; None where there is none.
    structured: Any = None
    is_error: bool = False
    #: The whole CallToolResult.
    raw: JSON = field(default_factory=dict)
    _find_reason: FindReason | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The texts of the content, line by line; of a call that was refused, why."""
        return refusal(self._texts)[0] if self.is_error else self._texts

    @property
    def errors(self) -> list[FieldError]:
        """The errors of single arguments, where the tool names them."""
        return refusal(self._texts)[1] if self.is_error else []

    @property
    def true_reason(self) -> str:
        """As that of an error; empty for a call that was not refused."""
        return _reason(self._find_reason, self.text) if self.is_error else ""

    @property
    def _texts(self) -> str:
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """What a resource holds."""

    contents: list[JSON]

    @property
    def text(self) -> str:
        """The texts of the contents, line by line."""
        return "\n".join(item["text"] for item in self.contents if "text" in item)

    def json(self) -> Any:
        """The value that the text is as JSON."""
        return from_json(self.text)


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The messages of a prompt."""

    messages: list[JSON]
    description: str = ""

    @property
    def text(self) -> str:
        """The texts of the messages, line by line."""
        return "\n".join(item["content"]["text"] for item in self.messages if item["content"]["type"] == "text")


def result_of(message: JSON, find_reason: FindReason | None = None) -> JSON:
    """The result that an answer holds. Raises ProtocolError."""
    if "error" in message:
        raise ProtocolError(message["error"], find_reason)
    result: JSON = message["result"]
    return result


def refusal(text: str) -> tuple[str, list[FieldError]]:
    """The text of a refused call, and what it says of single arguments."""
    try:
        refused = from_json(text)
        return refused["error"], refused["errors"]
    except (ValueError, TypeError, KeyError):
        return text, []
