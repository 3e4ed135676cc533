"""The calls of this process that may change data. Once their principal is paused, they are cancelled.

A thread compares them with the database every second while there are any, in servers of each kind and in workers of
tasks. A call that has done its work by then says so.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from django.db import connections

from mcp_django.access import pauses
from mcp_django.core.db.outages import is_outage
from mcp_django.protocol.errors import StoppedByPause

if TYPE_CHECKING:
    from mcp_django.exchange.cancellation import Cancellation
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")

_LOOK_SECONDS = 1.0


class _Call(NamedTuple):
    site: Site
    principal: Principal
    cancellation: Cancellation


class ChangingCalls:
    """The calls, by their cancellations. The first one starts the thread."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Set everything to the beginning, also in the child of a fork, which does not have our thread."""
        self._waiting = threading.Condition()
        self._calls: WeakKeyDictionary[Cancellation, tuple[Site, Principal]] = WeakKeyDictionary()
        self._runs = self._is_looking = False

    def add(self, exchange: Exchange) -> None:
        """Cancel the exchange once its principal is paused, until ``discard``. People are not paused."""
        if not exchange.connection.is_of_agent:
            return
        with self._waiting:
            self._calls[exchange.cancellation] = exchange.site, exchange.principal
            if not self._runs:
                self._runs = self._is_looking = True
                threading.Thread(target=self._run, name="mcp_django_pauses", daemon=True).start()
            elif not self._is_looking:
                self._waiting.notify()

    def discard(self, exchange: Exchange) -> None:
        if self._calls:
            with self._waiting:
                self._calls.pop(exchange.cancellation, None)

    def look(self) -> None:
        """Cancel those that are paused, as the database says."""
        with self._waiting:
            calls = [_Call(*about, cancellation) for cancellation, about in self._calls.items()]
        for call, paused in pauses.among(calls) if calls else ():
            if not call.cancellation.cancelled:
                call.cancellation.cancel(StoppedByPause(paused))
                # Each takes its time, and the others must not wait for it.
                threading.Thread(target=call.cancellation.queries.interrupt, daemon=True).start()

    def _run(self) -> None:
        is_failing = False
        while True:
            with self._waiting:
                self._is_looking = False
                while not self._calls:
                    self._waiting.wait()
                self._is_looking = True
            time.sleep(_LOOK_SECONDS)
            try:
                self.look()
                is_failing = False
            except Exception as error:
                if not is_failing:
                    logger.warning(
                        "Cannot find out whether agents with running calls are paused; trying again",
                        exc_info=not is_outage(error),
                    )
                is_failing = True
            finally:
                connections.close_all()


calls = ChangingCalls()
os.register_at_fork(after_in_child=calls._reset)
