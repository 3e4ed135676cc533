"""The gate: which controls of the bus a hub obeys, and how often.

Whoever may write to the bus can forge a control. Most of them only make a process look into the database, so they are
obeyed as they are, but not more than once a second.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet
from mcp_django.push.dropped import dropped

#: How long an equal control waits after one that came through.
_PAUSE_SECONDS = 1.0
#: So many controls are remembered. Beyond, only those without a key come through: the sweep finds the others.
_MAX_REMEMBERED = 10_000
#: No key of ours is longer.
_MAX_KEY = 1_000

#: The kinds whose controls have no key, and those whose controls may have one or not. All others have one.
_WITHOUT_KEY = frozenset({ControlKind.TOOLS, ControlKind.PROMPTS, ControlKind.RESOURCES})
_WITH_ANY_KEY = frozenset({ControlKind.ACCESS})


class Gate:
    """Lets controls of the bus through to a hub. On the hub's loop.

    An equal control that comes within a second waits until that second is over, and then comes through once.
    """

    def __init__(self, loop: AbstractEventLoop, receive: Callable[[Changes, ControlSet], None]) -> None:
        self._loop = loop
        self._receive = receive
        #: What came through within the last second, and whether it came again.
        self._came_again: dict[Control, bool] = {}

    def admit(self, controls: ControlSet) -> ControlSet:
        """The controls that come through now."""
        found = ControlSet()
        for control in controls:
            if control.kind is ControlKind.HERE:
                continue  # It is for the page that asked.
            if not _has_form(control):
                dropped.add(control.kind)
            elif control in self._came_again:
                self._came_again[control] = True
            elif control.key and len(self._came_again) >= _MAX_REMEMBERED:
                if control.kind is ControlKind.ACCESS:
                    # No sweep finds changed rights of a user.
                    found.update(self.admit(ControlSet([EVERYBODY])))
                else:
                    dropped.add(control.kind)
            else:
                found.add(control)
                self._begin(control)
        return found

    def _begin(self, control: Control) -> None:
        self._came_again[control] = False
        self._loop.call_later(_PAUSE_SECONDS, self._end, control)

    def _end(self, control: Control) -> None:
        if self._came_again.pop(control):
            self._begin(control)
            self._receive(Changes(), ControlSet([_as_late(control)]))


def _has_form(control: Control) -> bool:
    """Whether a process could have sent it."""
    if control.kind is ControlKind.STALE_SESSION or len(control.key) > _MAX_KEY:
        return False
    return control.kind in _WITH_ANY_KEY or bool(control.key) != (control.kind in _WITHOUT_KEY)


def _as_late(control: Control) -> Control:
    """The control as it is obeyed after a pause, in which a change of a newly watched resource may have come."""
    return Control(ControlKind.STALE_SESSION, control.key) if control.kind is ControlKind.SESSION else control
