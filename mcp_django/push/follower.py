"""Following the bus: what other processes tell, and what their numbers say was lost on the way."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from django.db import connections

from mcp_django.events.changes import Changes
from mcp_django.push.visibility import ANY_DATABASE
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.events.bus import Bus
    from mcp_django.push.hub import Hub


logger = logging.getLogger("mcp_django")

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 5.0
#: How often subscribers are told to look for themselves while the bus is away.
_AWAY_SECONDS = 30.0
#: A publisher repeats its number at least this often; one that is quiet for longer is gone.
_REPEATED_WITHIN_SECONDS = 60.0
#: Clocks of two machines differ by less.
_CLOCK_SKEW_SECONDS = 5.0
_MANY_PUBLISHERS = 1_000


class Follower:
    """Hands a hub what the bus brings, and tells it to resync after a gap."""

    def __init__(self, hub: Hub, bus: Bus) -> None:
        self._hub = hub
        self._bus = bus
        self._since = time.time()
        #: Publisher → the last number that was heard of it, and when.
        self._heard: dict[str, tuple[int, float]] = {}

    async def follow(self) -> None:
        """Receive for ever; after an error, join anew, and take it that something was missed."""
        pause, looked_at = _FIRST_PAUSE, time.monotonic()
        while True:
            try:
                # What was told before, nobody here has heard: by a stream that is older, and while the bus was away.
                async with aclosing(self._bus.subscribe(self._hub.resync)) as events:
                    async for event in events:
                        pause, looked_at = _FIRST_PAUSE, time.monotonic()
                        self.hear(event)
            except Exception:
                logger.warning("The bus failed; joining it again", exc_info=pause == _FIRST_PAUSE)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)
            # A bus that stays away tells nobody anything: now and then everybody looks.
            if time.monotonic() - looked_at > _AWAY_SECONDS:
                looked_at = time.monotonic()
                self._hub.resync()

    def hear(self, event: JSON) -> None:
        """Take in one event; what its number says was lost, or it says itself, subscribers look for."""
        lost = self._count(event) if "number" in event else int(event.get("lost", False))
        if lost:
            logger.warning("%s or more events of another process were lost; subscribers look again", lost)
            self._hub.resync()
        if "changes" in event or "controls" in event:
            changes = Changes()
            for change in event.get("changes", ()):
                # Another process may name a database otherwise, and whoever speaks on the bus may name any.
                alias = change["alias"] if change["alias"] in connections else ANY_DATABASE
                changes.note(alias, change["label"], change["written"], change["deleted"])
            self._hub.receive(changes, event.get("controls", ()))

    def _count(self, event: JSON) -> int:
        """How many events of the event's publisher were lost before it; a bus that loses none numbers none."""
        carries = "changes" in event or "controls" in event
        expected = self._last_of(event) + carries
        self._keep(event["publisher"], event["number"])
        return max(0, int(event["number"]) - expected)

    def _last_of(self, event: JSON) -> int:
        """The last number that should have been heard of the event's publisher."""
        last = self._heard.get(event["publisher"])
        if last is not None:
            return last[0]
        started_meanwhile = event["started"] > self._since - _CLOCK_SKEW_SECONDS
        overdue = time.time() - self._since > _REPEATED_WITHIN_SECONDS
        if started_meanwhile or overdue:
            return 0
        # It was there before this hub, and what it told then, nobody here had asked for.
        carries = "changes" in event or "controls" in event
        return int(event["number"]) - carries

    def _keep(self, publisher: str, number: int) -> None:
        now = time.time()
        self._heard[publisher] = (number, now)
        if len(self._heard) > _MANY_PUBLISHERS:
            limit = now - _REPEATED_WITHIN_SECONDS
            self._heard = {name: heard for name, heard in self._heard.items() if heard[1] > limit}
