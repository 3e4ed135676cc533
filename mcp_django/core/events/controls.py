"""Controls: what processes report to each other beside changed rows, such as revoked rights or a message in a mailbox.

Nobody's work depends on a control alone: what it reports is in the database too, where the sweep finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mcp_django.types import JSON

#: Above this number of users in one transaction, the control says that everybody's rights have changed.
_MAX_USERS = 100
#: Above this number of controls in one event, only those without a key are kept: each process finds the others in its
#: next sweep.
_MAX_CONTROLS = 10_000


class ControlKind(StrEnum):
    """What a control reports. The values are what goes over the wire."""

    #: The rights of one user have changed, by the user's key; without a key, the rights of everybody.
    ACCESS = "access"
    #: An administrator has changed what the list offers.
    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    #: A stored session watches other resources than before, or has ended.
    SESSION = "session"
    #: The sweep found that a stream does not watch what its stored session watches. Stays within the process.
    STALE_SESSION = "stale_session"
    #: The state of a task has changed.
    TASK = "task"
    #: There is a message in the mailbox of an SSE stream, or of a collector of notifications for polls.
    MAIL = "mail"
    #: A question to a user was answered.
    QUESTION = "question"
    #: A stored stream has new events.
    STREAM = "stream"
    #: A request, or the run of a task, is to be cancelled, by its key in ``RUNNING``.
    CANCEL = "cancel"
    #: A page of the admin asks which clients are connected, with a key for the answers.
    ROLL_CALL = "roll_call"
    #: A part of an answer to a roll call: see ``push.presence``.
    HERE = "here"


@dataclass(frozen=True, slots=True, order=True)
class Control:
    """One control: its kind, and the key of what it is about where the kind has one."""

    kind: ControlKind
    key: str = ""

    def as_json(self) -> JSON:
        return {"kind": self.kind.value, "key": self.key} if self.key else {"kind": self.kind.value}


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
