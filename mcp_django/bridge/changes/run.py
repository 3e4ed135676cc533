"""The run that has claimed a change: makes it, and ends what is stored of it after a failure.

What is written to a known database is written in one transaction. A function of the project may do anything, so its
change is marked as being written before it begins: if the process dies, nobody knows how far it came, and nothing runs
it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import connections, transaction

from mcp_django.access.throttling import throttles
from mcp_django.audit.lines import by_agent
from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.changes.approvals import NotApproved
from mcp_django.bridge.changes.outcomes import answer_of, is_one_database, text_of
from mcp_django.bridge.changes.proposed import FEW, UNDO_UNTIL, EndUnknown, NotMade
from mcp_django.bridge.declared.consent import being_made
from mcp_django.core import failures
from mcp_django.core.compat.connections import can_lock_rows, can_skip_locked
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.running.own_thread import in_own_thread
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.models import Change
from mcp_django.protocol.errors import Paused
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import Proposed
    from mcp_django.exchange.exchange import Exchange

logger = logging.getLogger("mcp_django")

State = Change.State
#: Rows that an error names.
_MOST_NAMED = 10


class StaleView(Exception):
    """The rows are not as the page has shown them."""

    reason = "ROWS_CHANGED"


class Run:
    """The run that has claimed a change."""

    def __init__(self, exchange: Exchange, claimed: Change, check: Callable[[], Proposed], *, has_waited: bool) -> None:
        self._exchange = exchange
        self._change = claimed
        self._check = check
        self._has_waited = has_waited
        #: The answer for the agent, set once all is written and the transaction may be committed.
        self._result: JSON | None = None
        self._keys: Sequence[Any] = ()
        self._proposed: Proposed | None = None
        #: Whether it was committed for certain.
        self._is_committed = False
        #: Whether what is not in one transaction has begun.
        self._has_begun = False

    def write(self) -> JSON:
        """Make the change. Raises ToolError, InvalidQuery and what the project raises."""
        try:
            return self._make()
        except BaseException as error:
            answer = self._settled(error)
            if answer is None or not isinstance(error, Exception):
                raise
            if not isinstance(error, ToolError | MCPError):
                failures.note(error)
            logger.exception("A change is %s, and what should happen afterwards has failed", answer["status"])
            return answer

    def _make(self) -> JSON:
        token = being_made.set(self._change.pk)
        try:
            return self._write() if self._change.using else self._call()
        finally:
            being_made.reset(token)

    def _write(self) -> JSON:
        """Write it in one transaction of the database of its rows."""
        exchange, claimed = self._exchange, self._change
        alias, is_one = claimed.using, is_one_database(claimed)
        with transaction.atomic(using=alias):
            transaction.on_commit(self._commit, using=alias)
            if is_one:
                change_rows.mark_applied(claimed)
            for label, keys in change_rows.rows_of(claimed):
                _lock(apps.get_model(label), alias, keys, waits=claimed.rows <= FEW)
            proposed = self._check()
            if proposed.counts_writes:
                throttles.admit_writes(exchange, proposed.row_count)
            exchange.usage.change(claimed.model, proposed.keys)
            result = self._applied(proposed)
            if claimed.operation == "create":
                exchange.usage.change(claimed.model, proposed.keys)
            self._result, self._keys = result, proposed.keys or change_rows.keys_of(claimed)
            self._proposed = proposed
            if is_one:
                self._keep()
        exchange.usage.is_done = True
        if not is_one:
            self._write_down()
        return result

    def _call(self) -> JSON:
        """Run code of the project that may do anything, in no transaction of ours."""
        proposed = self._check()
        if proposed.counts_writes:
            throttles.admit_writes(self._exchange, proposed.row_count)
        self._has_begun = True
        self._result = self._applied(proposed)
        self._commit()
        self._write_down()
        return self._result

    def _applied(self, proposed: Proposed) -> JSON:
        key = self._change.key
        # It cannot begin again from the top, so it asks nothing.
        self._exchange.is_confirmed = True
        who = proposed.by or by_agent(self._exchange)
        proposed.change, proposed.agreed_by = self._change, approvals.people_of(self._change)
        by = f"{who}, change {key}{approvals.named(self._change)}"
        return {"status": "applied", "change": key, **proposed.apply(by)}

    def _commit(self) -> None:
        """Called before whatever the project wants to do after the commit."""
        self._is_committed = self._exchange.usage.is_done = True

    def _write_down(self) -> None:
        """Record the result afterwards, where it is not in the transaction of the rows."""
        change_rows.mark_applied(self._change)
        self._keep()

    def _keep(self) -> None:
        if self._proposed is not None:
            change_rows.keep_for_undo(self._change, self._proposed)
            if self._result is not None and self._change.undo_until is not None:
                self._result[UNDO_UNTIL] = self._change.undo_until.isoformat()
        change_rows.keep_result(self._change, self._keys, self._result or {})

    def _settled(self, error: BaseException) -> JSON | None:
        """Settle what is stored after an error. Returns the answer if the change was, or may be, written; else None."""
        settle, known = partial(self._settle, error), None
        with suppress(Exception):
            # A request that was stopped can make no more queries in its own thread.
            known = in_own_thread(settle) if self._exchange.cancelled else settle()
        if self._is_committed:
            return self._result
        return None if known is None else answer_of(self._exchange, known)

    def _settle(self, error: BaseException) -> Change | None:
        ends = self._result is not None
        is_stopped = self._exchange.cancelled or not isinstance(error, Exception) or isinstance(error, EndUnknown)
        if (ends and not is_one_database(self._change)) or (self._has_begun and is_stopped):
            if self._is_committed:
                self._write_down()
            else:
                change_rows.lose(self._change)
            return change_rows.again(self._change)
        is_paused = isinstance(self._exchange.cancellation.why, Paused)
        is_refused = is_paused or isinstance(error, StaleView | NotApproved | MCPError)
        if self._has_waited and not self._has_begun and is_refused:
            change_rows.wait_again(self._change)
        else:
            why = self._exchange.cancellation.why or error
            # Its token confirms nothing again where nobody knows what was done before it failed.
            is_unknown = self._has_begun and not isinstance(error, NotMade)
            change_rows.give_up(self._change, text_of(why), is_kept=self._has_waited or is_unknown)
        known = change_rows.again(self._change) if ends else None
        return known if known is not None and known.state == State.APPLIED else None


def _lock(model: Any, alias: str, keys: Sequence[str], *, waits: bool) -> None:
    """Hold the rows, in the order of their keys, where the database can: another run waits, and finds them changed.

    Of many rows one is often held by somebody. Unless ``waits``, raises ToolError then.
    """
    connection = connections[alias]
    if not keys or not can_lock_rows(connection):
        return
    rows = model._base_manager.using(alias).filter(has_key_in(model, keys)).order_by("pk")
    skips = not waits and can_skip_locked(connection)
    held = set(rows.select_for_update(skip_locked=skips).values_list("pk", flat=True))
    if skips and (busy := [str(key) for key in rows.values_list("pk", flat=True) if key not in held]):
        named = ", ".join(busy[:_MOST_NAMED])
        text = f"Somebody is changing {len(busy):,} of these rows: {named}. Nothing was changed. Try again."
        raise ToolError(text, reason="ROWS_BUSY")
