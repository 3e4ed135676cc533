"""Controls: what processes report to each other beside changed rows, such as revoked rights or a message in a mailbox.

Nobody's work depends on a control alone: what it reports is in the database too, where the sweep finds it. Others may
write to the bus and read it. So a control grants nothing, and its key lets nobody in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mcp_django.core.macs import macs
from mcp_django.protocol.types import JSON

#: Above this number of users in one transaction, the control says that everybody's rights have changed.
_MAX_USERS = 100
#: Above this number of controls in one event, only those without a key are kept: each process finds the others in its
#: next sweep.
_MAX_CONTROLS = 10_000
#: The length of a MAC in hex digits.
_MAC_CHARS = 64


class ControlKind(StrEnum):
    """What a control reports. The values are what goes over the wire."""

    #: The rights of one user have changed, by the user's key; without a key, the rights of everybody.
    ACCESS = "access"
    #: An administrator has changed what the list offers.
    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    #: A stored session watches other resources than before, or has ended, by the digest of its key: see ``named``.
    SESSION = "session"
    #: The sweep found that a stream does not watch what its stored session watches, or a control of the session came
    #: late. Stays within the process: from the bus it is not obeyed.
    STALE_SESSION = "stale_session"
    #: The state of a task has changed.
    TASK = "task"
    #: There is a message in the mailbox of an SSE stream, or of a collector of notifications for polls.
    MAIL = "mail"
    #: A question to a user was answered.
    QUESTION = "question"
    #: A stored stream has new events.
    STREAM = "stream"
    #: A request is to be cancelled, by its key in ``RUNNING``. It is obeyed if there is a message in the mailbox.
    CANCEL = "cancel"
    #: A page of the admin asks which clients are connected. It is signed: see ``push.presence``.
    ROLL_CALL = "roll_call"
    #: A part of an answer to a roll call, signed too.
    HERE = "here"


#: What a page asks of every process, and is answered while it waits. Nobody looks again if one of these is lost, so
#: they take no number of their publisher's, which would then be repeated to every process.
UNNUMBERED = frozenset({ControlKind.ROLL_CALL, ControlKind.HERE})


@dataclass(frozen=True, slots=True, order=True)
class Control:
    """One control: its kind, and the key of what it is about where the kind has one."""

    kind: ControlKind
    key: str = ""

    def as_json(self) -> JSON:
        return {"kind": self.kind.value, "key": self.key} if self.key else {"kind": self.kind.value}


def named(key: str) -> str:
    """The digest by which controls name a session, or a stream, whose key only its client should know."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def sign(kind: ControlKind, text: str) -> Control:
    """A control that only a process which knows SECRET_KEY can have sent. The text holds the nonce of whoever asked."""
    return Control(kind, next(_macs(kind, text)) + text)


def signed_text(control: Control) -> str | None:
    """The text that was signed; None if the control is forged."""
    mac, text = control.key[:_MAC_CHARS].encode("utf-8", "surrogatepass"), control.key[_MAC_CHARS:]
    is_ours = any(hmac.compare_digest(mac, known.encode()) for known in _macs(control.kind, text))
    return text if is_ours else None


def _macs(kind: ControlKind, text: str) -> Iterator[str]:
    return (mac.hex() for mac in macs(f"mcp_django.controls:{kind}", text))


_KINDS = frozenset(ControlKind)
#: The rights of everybody may have changed.
EVERYBODY = Control(ControlKind.ACCESS)


class ControlSet(set[Control]):
    """Controls without repetitions, whose number is bounded: rather too much is reported than too little."""

    def note(self, control: Control) -> None:
        """Add a control of a transaction. Those of too many users become one of everybody."""
        self.add(control)
        if control.kind is ControlKind.ACCESS and (EVERYBODY in self or len(self.keys_of(control.kind)) > _MAX_USERS):
            self._generalise_access()

    def absorb(self, other: Iterable[Control]) -> None:
        """Add the controls of another transaction. Of too many, only those without a key are kept."""
        self.update(other)
        if len(self) > _MAX_CONTROLS:
            self._generalise_access()
            self.intersection_update([control for control in self if not control.key])

    def keys_of(self, kind: ControlKind) -> set[str]:
        """The keys of the controls of this kind that have one."""
        return {control.key for control in self if control.kind is kind and control.key}

    def as_json(self) -> list[JSON]:
        """The controls as an event carries them, in a fixed order."""
        return [control.as_json() for control in sorted(self)]

    @classmethod
    def from_json(cls, values: Any) -> ControlSet:
        """The controls of an event. Raises ValueError for anything but a list of controls."""
        if not isinstance(values, list):
            raise ValueError("controls are a list")
        return cls(control for control in map(_read, values) if control is not None)

    def _generalise_access(self) -> None:
        users = [control for control in self if control.kind is ControlKind.ACCESS]
        if users:
            self.difference_update(users)
            self.add(EVERYBODY)


def _read(value: Any) -> Control | None:
    """One control; None for a kind that only newer processes know, as during a rolling deployment."""
    if not isinstance(value, dict) or not {"kind"} <= value.keys() <= {"kind", "key"}:
        raise ValueError("a control has a kind, and perhaps a key")
    kind, key = value["kind"], value.get("key", "")
    if not isinstance(kind, str) or not isinstance(key, str):
        raise ValueError("the kind and the key of a control are texts")
    return Control(ControlKind(kind), key) if kind in _KINDS else None
