"""What a body or frame says, read without the code under test."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

from mcp_types import PROTOCOL_VERSION_META_KEY

Kind = Literal["no json", "malformed", "request", "notification", "response", "batch"]


@dataclass(frozen=True)
class Sent:
    """What a body or frame says."""

    kind: Kind
    value: Any = None
    #: Whether it is JSON that a parser may refuse: numbers out of range, deep nesting, members that stand twice.
    doubtful: bool = False

    @property
    def id(self) -> Any:
        """The id that an answer must carry; None where it cannot be read."""
        found = self.value.get("id") if isinstance(self.value, dict) else None
        return found if is_id(found) else None

    @property
    def method(self) -> str | None:
        found = self.value.get("method") if isinstance(self.value, dict) else None
        return found if isinstance(found, str) else None

    @property
    def is_modern(self) -> bool:
        given = self.value.get("params") if isinstance(self.value, dict) else None
        envelope = given.get("_meta") if isinstance(given, dict) else None
        return isinstance(envelope, dict) and PROTOCOL_VERSION_META_KEY in envelope


def is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 1000
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**100


def read(body: bytes | str) -> Sent:
    """What a body says, for a reader that takes everything that the RFC allows."""
    doubts = _Doubts()
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        value = json.loads(
            text,
            parse_constant=doubts.constant,
            parse_float=doubts.number,
            parse_int=doubts.integer,
            object_pairs_hook=doubts.members,
        )
    except RecursionError:
        return Sent("no json", doubtful=True)
    except ValueError:
        return Sent("no json")
    if doubts.refuse:
        return Sent("no json")
    doubtful = doubts.doubtful or "\\ud" in text.lower() or _depth(text) > 100
    return Sent(kind_of(value), value, doubtful)


class _Doubts:
    def __init__(self) -> None:
        self.refuse = False
        self.doubtful = False

    def constant(self, text: str) -> None:
        self.refuse = True

    def number(self, text: str) -> float:
        number = float(text)
        self.refuse |= not math.isfinite(number)
        return number

    def integer(self, text: str) -> int:
        self.doubtful |= len(text) > 300
        return int(text)

    def members(self, members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        self.doubtful |= len(found) != len(members)
        return found


def _depth(text: str) -> int:
    return text.count("[") + text.count("{")


def kind_of(value: Any) -> Kind:
    if isinstance(value, list):
        return "batch"
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return "malformed"
    if "id" in value and not is_id(value["id"]) and not ("error" in value and "method" not in value):
        return "malformed"
    if "method" not in value:
        return (
            "response"
            if ("result" in value) != ("error" in value) and ("error" in value or is_id(value.get("id")))
            else "malformed"
        )
    if not isinstance(value["method"], str) or not isinstance(value.get("params", {}), dict):
        return "malformed"
    return "request" if "id" in value else "notification"


def member(value: Any) -> Sent:
    """What one member of a batch says. No batch is in another one."""
    return Sent("malformed" if isinstance(value, list) else kind_of(value), value)


def refuses_batch(value: Any) -> bool:
    """Whether a message may not be in any batch."""
    return isinstance(value, dict) and (value.get("method") == "initialize" or Sent("request", value).is_modern)
