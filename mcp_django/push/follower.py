"""The follower: receives the events of other processes, and finds by their numbers which events were lost."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from django.db import connections

from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import UNNUMBERED, ControlSet
from mcp_django.protocol.types import JSON
from mcp_django.push.gate import Gate
from mcp_django.push.visibility import ANY_DATABASE

if TYPE_CHECKING:
    from mcp_django.core.events.bus import BaseBus
    from mcp_django.push.hub import Hub


logger = logging.getLogger("mcp_django")

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 5.0
#: How often the hub resyncs while the bus is away.
_AWAY_SECONDS = 30.0
#: A publisher repeats its number at least this often. One that is quiet for longer is gone.
_REPEATED_WITHIN_SECONDS = 60.0
#: Clocks of two machines differ by less.
_CLOCK_SKEW_SECONDS = 5.0
_MANY_PUBLISHERS = 1_000


class Follower:
    """Hands the events of a bus to a hub, and lets the hub resync after a gap."""

    def __init__(self, hub: Hub, bus: BaseBus) -> None:
        self._hub = hub
        self._bus = bus
        self._gate = Gate(hub.loop, hub.receive)
        self._since = time.time()
        #: Publisher → the last number that was received from it, and when.
        self._received: dict[str, tuple[int, float]] = {}

    async def follow(self) -> None:
        """Receive for ever. After an error, join again, and resync: events may have been missed."""
        pause, looked_at = _FIRST_PAUSE, time.monotonic()
        while True:
            try:
                # Once joined, the hub resyncs: streams may be open already, and it missed all earlier events.
                async with aclosing(self._bus.subscribe(self._hub.resync)) as events:
                    async for event in events:
                        pause, looked_at = _FIRST_PAUSE, time.monotonic()
                        self.receive(event)
            except Exception:
                logger.warning("The bus failed; joining it again", exc_info=pause == _FIRST_PAUSE)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)
            # While the bus stays away no events come, so the hub resyncs now and then.
            if time.monotonic() - looked_at > _AWAY_SECONDS:
                looked_at = time.monotonic()
                self._hub.resync()

    def receive(self, event: JSON) -> None:
        """Take in one event, and resync if its number, or the event itself, shows that others were lost."""
        lost = self._count(event) if "number" in event else int(event.get("lost", False))
        if lost:
            logger.warning("%s or more events of another process were lost; the hub resyncs", lost)
            self._hub.resync()
        if "changes" in event or "controls" in event:
            changes = Changes()
            for change in event.get("changes", ()):
                # Another process may have another name for a database, and a forged event may name anything.
                alias = change["alias"] if change["alias"] in connections else ANY_DATABASE
                changes.note(alias, change["label"], change["written"], change["deleted"])
            controls = ControlSet()
            if "controls" in event:
                controls = self._gate.admit(ControlSet.from_json(event["controls"]))
            self._hub.receive(changes, controls)

    def _count(self, event: JSON) -> int:
        """The number of lost events of this publisher. A bus that loses no events does not number them."""
        expected = self._last_of(event) + _takes_number(event)
        self._keep(event["publisher"], event["number"])
        return max(0, int(event["number"]) - expected)

    def _last_of(self, event: JSON) -> int:
        """The last number that should have come from the event's publisher."""
        last = self._received.get(event["publisher"])
        if last is not None:
            return last[0]
        started_meanwhile = event["started"] > self._since - _CLOCK_SKEW_SECONDS
        overdue = time.time() - self._since > _REPEATED_WITHIN_SECONDS
        if started_meanwhile or overdue:
            return 0
        # The publisher is older than this hub, which had no use for its earlier events.
        return int(event["number"]) - _takes_number(event)

    def _keep(self, publisher: str, number: int) -> None:
        now = time.time()
        self._received[publisher] = (number, now)
        if len(self._received) > _MANY_PUBLISHERS:
            limit = now - _REPEATED_WITHIN_SECONDS
            self._received = {name: last for name, last in self._received.items() if last[1] > limit}


def _takes_number(event: JSON) -> bool:
    """Whether its publisher has counted it: a repeated number is no event, and a roll call is not missed."""
    return "changes" in event or any(control["kind"] not in UNNUMBERED for control in event.get("controls", ()))
