"""The messages of a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from mcp_django.content import Block, Text
from mcp_django.protocol.types import JSON

Role = Literal["user", "assistant"]


@dataclass(frozen=True)
class PromptMessage:
    """One message: a text, or a block of ``mcp_django.content`` (2026-07-28 server/prompts).

    Raises ValueError for another role than "user" and "assistant", and TypeError for content of another type.
    """

    role: Role
    content: str | Block

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"The role of a message is one of {', '.join(get_args(Role))}; not {self.role!r}.")
        if not isinstance(self.content, str | Block):
            raise TypeError(f"A message holds a text or a content block, not {type(self.content).__name__}.")

    def to_json(self) -> JSON:
        content = Text(self.content) if isinstance(self.content, str) else self.content
        return {"role": self.role, "content": content.to_json()}


def messages_of(returned: Any) -> list[JSON]:
    """The messages that a prompt's function returned. A text becomes a message of the user. Raises TypeError."""
    items = returned if isinstance(returned, list | tuple) else [returned]
    return [_message(item).to_json() for item in items]


def _message(item: Any) -> PromptMessage:
    if isinstance(item, str):
        return PromptMessage("user", item)
    if isinstance(item, PromptMessage):
        return item
    raise TypeError(f"A prompt returns texts and PromptMessages, not {type(item).__name__}.")
