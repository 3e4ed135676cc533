"""Refuses a call whose caller has used up a limit, and counts what an answered call has read.

Where no limit is configured for a caller, nothing is asked and nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from django.db import DatabaseError

from mcp_django.access.throttling.budgets import Limit, budget_of, write_budget_of
from mcp_django.access.throttling.counters import Charge, counters
from mcp_django.exchange import rates
from mcp_django.exchange.rates import BYTES, CALLS, CHANGES, REFUSALS, ROWS, UNIQUE, WRITES
from mcp_django.protocol.errors import Overloaded
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")


def admit(principal: Principal, request: MCPRequest, is_change: Callable[[], bool] = lambda: False) -> None:
    """Count a request, before its handler runs. Raises Throttled where a limit is used up; then nothing is counted.

    ``is_change`` is asked only where changes are limited. What a call reads is known only afterwards: it counts for the
    next call.
    """
    budget = budget_of(principal, request)
    if not budget:
        return
    amounts = {CALLS: 1, CHANGES: int(any(limit.kind == CHANGES for limit in budget) and is_change())}
    take([limit for limit in budget if limit.kind != CHANGES or amounts[CHANGES]], amounts)


def spend(exchange: Exchange, size: int) -> None:
    """Count what an answer of ``size`` bytes has read. Raises nothing: the call has done its work."""
    usage = exchange.usage
    rows, usage.spent_rows = usage.rows - usage.spent_rows, usage.rows
    _spend(budget_of(exchange.principal, exchange.request), {ROWS: rows, BYTES: size})


def spend_streamed(exchange: Exchange) -> None:
    """Count the chunks that went ahead of an answer, also where none follows. Raises nothing."""
    if exchange.usage.streamed:
        spend(exchange, exchange.usage.streamed)


def admit_writes(exchange: Exchange, rows: int = 0) -> None:
    """Count rows that are about to be written. Raises Throttled, also where too many attempts were refused."""
    budget = write_budget_of(exchange.principal, exchange.request)
    if budget:
        kinds = (REFUSALS, WRITES) if rows else (REFUSALS,)
        take([limit for limit in budget if limit.kind in kinds], {WRITES: rows})


class NewValues(NamedTuple):
    """How many new values a call gives for what must be unique in a table."""

    table: str
    #: The model that the caller knows the table by.
    model: str
    number: int


def admit_unique(exchange: Exchange, given: Callable[[], Iterable[NewValues]]) -> None:
    """Count new values for what must be unique. Raises Throttled where those of a table do not fit; then none counts.

    ``given`` is asked only where they are limited.
    """
    budget = [limit for limit in write_budget_of(exchange.principal, exchange.request) if limit.kind == UNIQUE]
    if budget:
        _take(
            {
                replace(limit, table=values.table, model=values.model): values.number
                for values in given()
                for limit in budget
            }
        )


def count_refusal(exchange: Exchange) -> None:
    """Count an attempt to write that was refused. Raises nothing."""
    _spend(write_budget_of(exchange.principal, exchange.request), {REFUSALS: 1})


def spend_pushed(principal: Principal, request: MCPRequest, message: JSON) -> None:
    """Count the bytes of a notification to a caller. Raises nothing."""
    budget = budget_of(principal, request)
    if budget:
        _spend(budget, {BYTES: len(encode(message))})


def _spend(budget: Sequence[Limit], used: Mapping[str, int]) -> None:
    budget = [limit for limit in budget if used.get(limit.kind)]
    if not budget:
        return
    moment = rates.now()
    try:
        counters().add([limit.charge(moment, used[limit.kind], at_most=0) for limit in budget])
    except Exception:
        logger.exception("What a call has read could not be counted")


def take(budget: Sequence[Limit], amounts: Mapping[str, int]) -> None:
    """Count amounts by kind, all of them or none. Raises Throttled, and Overloaded while the cache is away."""
    _take({limit: amounts.get(limit.kind, 0) for limit in budget})


def _take(amounts: Mapping[Limit, int]) -> None:
    moment = rates.now()
    charges: dict[Charge, Limit] = {}
    for limit, amount in amounts.items():
        # What is counted afterwards must not have reached its limit yet.
        charges[limit.charge(moment, amount, at_most=limit.rate.number - (not amount))] = limit
    try:
        refused = counters().take(list(charges))
    except DatabaseError:
        raise
    except Exception:
        logger.exception("The budget of a caller could not be read")
        raise Overloaded("Your budget cannot be counted at the moment. Try again later.") from None
    if refused is not None:
        raise charges[refused].error(moment, refused.amount)
