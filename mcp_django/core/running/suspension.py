"""An exception that unwinds a request from its worker while an async function runs on the event loop.

It collects the steps that finish the request when the function has ended. ``await`` would have been the obvious way,
but then every function between the transport and the tool would have to exist twice, synchronous and asynchronous.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mcp_django.exchange.cancellation import Cancellation

T = TypeVar("T")
R = TypeVar("R")


class Suspended(BaseException):
    """Ends the part of a request that runs before the body of an asynchronous function. ``workers`` alone catches it.

    Each function that it passes adds what it does with the outcome, to be done when the body has ended. It is no
    Exception: ``except Exception`` must not catch it.
    """

    def __init__(
        self,
        body: Callable[[], Coroutine[Any, Any, Any]],
        name: str,
        cancellation: Cancellation,
        principal_key: str = "",
    ) -> None:
        super().__init__(name)
        self.body = body
        #: Names the function in logs.
        self.name = name
        self.cancellation = cancellation
        #: Empty for a caller without a user, who is counted by the address, as in the queue of the workers.
        self.principal_key = principal_key
        self._steps: list[Callable[[Callable[[], Any]], Any]] = []

    def then(self, step: Callable[[Callable[[], Any]], Any]) -> None:
        """Add a step. It gets a function that returns what the step before it returned, or raises what it raised."""
        self._steps.append(step)

    def resume(self, outcome: Callable[[], Any]) -> Any:
        """Take the steps. ``outcome`` returns what the body returned, or raises what it raised."""
        run = outcome
        for step in self._steps:
            run = partial(step, run)
        return run()


def finishing(step: Callable[[Callable[[], T]], R], run: Callable[[], T]) -> R:
    """``step(run)``. Where ``run`` is suspended, the step is taken once more with the outcome of the body.

    Functions that every request passes contain these lines themselves, which saves a frame each.
    """
    try:
        return step(run)
    except Suspended as suspended:
        suspended.then(step)
        raise
