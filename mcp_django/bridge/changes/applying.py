"""Previews a change, asks for the consent that it needs, and makes it once.

The order is: check, ask, claim, write. Nothing before the claim may have an effect, since a question lets a call begin
again from the top.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.crypto import salted_hmac
from pydantic_core import from_json

from mcp_django.access.authentication import login_request
from mcp_django.access.throttling import throttles
from mcp_django.bridge.callers import can_own
from mcp_django.bridge.changes import approvals, change_rows, confirmations
from mcp_django.bridge.changes.approvals import NotApproved
from mcp_django.bridge.changes.change_rows import NotWaiting
from mcp_django.bridge.changes.outcomes import answer_of, can_begin_again, may_go_on, url_of, waits
from mcp_django.bridge.changes.proposed import CONFIRM, FEW
from mcp_django.bridge.changes.run import Run, StaleView
from mcp_django.bridge.changes.summaries import question_of
from mcp_django.bridge.declared.consent import APPROVED, Level, Needs
from mcp_django.bridge.uploads.files import keep_files
from mcp_django.exceptions import MissingCapability, ToolError
from mcp_django.exchange.principals import Source
from mcp_django.exchange.questions import digest
from mcp_django.exchange.scopes import WRITE, of_tool
from mcp_django.models import Call, Change, Tool
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_django.bridge.changes.proposed import Admit, ChangingTool, Proposed
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.exchange.exchange import Exchange

State = Change.State

#: The most characters of a question, which a client shows to its user. A longer one is not asked: see the page.
_MAX_QUESTION = 2_000
#: The most bytes of arguments that are kept while a change waits for a person.
_MAX_KEPT_BYTES = 100_000
_AGAIN = "Call again without confirm for another one."
NOT_YET = 'Nothing was changed yet. To make the change, send the same call again with "confirm" added.'
_NOTHING: JSON = {"type": "object", "properties": {}}
#: What a preview says of what the change needs.
_SAID: Mapping[Level, str] = {
    Level.ASK: "The user is asked before it is made.",
    Level.APPROVE: "Other people than the user must approve it before it is made.",
}
#: What became of a change, as its agent is told → as the trail calls the call. Others are done.
_OUTCOMES: Mapping[str, Call.Outcome] = {
    "pending": Call.Outcome.WAITING,
    State.WRITING: Call.Outcome.UNKNOWN,
    "unknown": Call.Outcome.UNKNOWN,
    State.FAILED: Call.Outcome.FAILED,
    **dict.fromkeys([State.REJECTED, State.WITHDRAWN, State.EXPIRED], Call.Outcome.REFUSED),
}
_MORE = "It needs more consent by now than was given. Nothing was changed. Call again without confirm."


def propose(exchange: Exchange, tool: ChangingTool, arguments: JSON, admit: Admit | None = None) -> Proposed:
    """Read the arguments of a call. Raises InvalidQuery and ToolError. ``admit``: see ``ChangingTool.propose``."""
    proposed = tool.propose(exchange, change_rows.without_call(tool, arguments), admit)
    proposed.least = decided(exchange, [tool.name, *tool.covers])
    return proposed


def decided(exchange: Exchange, names: Collection[str]) -> Needs:
    """What administrators decided that tools need: the strictest of what they decided of any of them."""
    rows = Tool.objects.filter(site=exchange.site.name, name__in=names).exclude(asks="")
    level = max(map(Level.named, rows.values_list("asks", flat=True)), default=Level.PREVIEW)
    return APPROVED if level is Level.APPROVE else Needs(level)


# Previews.


def preview(exchange: Exchange, tool: ChangingTool, arguments: JSON, *, how: str = NOT_YET) -> JSON:
    """What the change would do, the token that confirms it, and ``how``. Nothing is written.

    It tells whether values are taken, so new ones count, also if it is refused for another reason. The call that
    confirms it is for the same values, and counts none.
    """
    proposed = propose(
        exchange, tool, arguments, lambda proposed: throttles.admit_unique(exchange, proposed.new_values)
    )
    shown = proposed.preview()
    token = confirmations.issue(exchange, [tool.name, proposed.arguments], proposed.state)
    notes = [*shown.pop("notes", []), *([how] if how else [])]
    if said := _SAID.get(proposed.needs.level):
        notes.append(said)
    exchange.usage.outcome = Call.Outcome.PREVIEWED.value
    return {"status": "preview", **shown, "confirm": token, "notes": notes}


# Confirmed changes.


def change(exchange: Exchange, tool: ChangingTool, arguments: JSON) -> JSON:
    """Make a change that was previewed, once. A repeated call gets the answer of the first one."""
    answer = _changed(exchange, tool, arguments)
    outcome = _OUTCOMES.get(str(answer.get("status")))
    if outcome is not None:
        exchange.usage.outcome = outcome.value
        if outcome in (Call.Outcome.FAILED, Call.Outcome.REFUSED):
            exchange.usage.fail(f"CHANGE_{answer['status'].upper()}")
    return answer


def _changed(exchange: Exchange, tool: ChangingTool, arguments: JSON) -> JSON:
    known = _confirmed(exchange, tool, arguments)
    if known is not None and not may_go_on(known):
        return _repeated(exchange, known)
    check = partial(_checked, exchange, tool, arguments)
    try:
        proposed = check()
    except ToolError:
        # Another call with the same token may have written the rows since, so that they are not as they were shown.
        faster = None if known is not None else _confirmed(exchange, tool, arguments)
        if faster is None or can_begin_again(faster):
            raise
        return _repeated(exchange, faster)
    if known is not None:
        is_mine = change_rows.claim(known)
    else:
        needs, must_wait = proposed.needs, False
        lines = proposed.summary(values=needs.level > Level.PREVIEW)
        if needs.level > Level.PREVIEW:
            alike = change_rows.waiting_alike(exchange, tool, arguments)
            if alike is not None:
                return answer_of(exchange, alike)
            reason = change_rows.reason_of(tool, arguments)
            must_wait = needs.level > Level.ASK or not _is_agreed(exchange, proposed, lines, reason)
        planned = change_rows.planned(exchange, tool, proposed, arguments, lines, waits=must_wait)
        planned.needs = approvals.stored(needs)
        if must_wait:
            planned.persons = approvals.persons_of(exchange)
            _check_can_wait(exchange, tool, planned, proposed, arguments)
        known = change_rows.store(planned)
        if known is not None and must_wait:
            keep_files(exchange, known.expires_at)
            change_rows.tell(known)
            return answer_of(exchange, known)
        is_mine = known is not None
        if not proposed.using and needs.level <= Level.PREVIEW:
            # Nobody was asked since it was checked, and checking it again would hold no row.
            check = partial(_same, proposed)
    if known is not None and is_mine:
        claimed = known
        # One that waited, and whose run died, has its arguments: with it the votes would go.
        run = Run(exchange, claimed, lambda: _agreed(exchange, claimed, check()), has_waited=bool(claimed.arguments))
        try:
            with suppress(change_rows.Overtaken):
                return run.write()
        except NotApproved:
            return answer_of(exchange, change_rows.again(claimed) or claimed)
    # Another call with the same token was faster.
    known = _confirmed(exchange, tool, arguments)
    if known is None:
        text = "Another call with this token failed at the same time. Nothing was changed. Call again."
        raise ToolError(text, reason="ROWS_BUSY")
    return _repeated(exchange, known)


def apply_waiting(exchange: Exchange, tool: ChangingTool, waiting: Change, shown: str) -> JSON:
    """Make a change that its user has agreed to. The digest ``shown`` names what the user was shown.

    Raises StaleView if the rows differ by now, NotApproved, NotWaiting, ToolError, InvalidQuery and what the project
    raises.
    """

    def check() -> Proposed:
        proposed = propose(exchange, tool, arguments)
        if shown_as(waiting, proposed) != shown:
            raise StaleView
        needs = proposed.needs
        if needs.level > approvals.level_of(waiting):
            change_rows.need_more(waiting, approvals.stored(needs))
            raise NotApproved
        return _agreed(exchange, waiting, proposed)

    arguments = _arguments_of(waiting)
    check()
    if not change_rows.claim(waiting):
        raise NotWaiting
    try:
        return Run(exchange, waiting, check, has_waited=True).write()
    except change_rows.Overtaken:
        raise NotWaiting from None


def propose_waiting(exchange: Exchange, tool: ChangingTool, waiting: Change) -> Proposed:
    """What a change that waits would do now. Raises NotWaiting, InvalidQuery and ToolError."""
    return propose(exchange, tool, _arguments_of(waiting))


def _arguments_of(waiting: Change) -> JSON:
    if not waits(waiting):
        raise NotWaiting
    found: JSON = from_json(waiting.arguments)
    return found


def _agreed(exchange: Exchange, known: Change, proposed: Proposed) -> Proposed:
    """The change, if what it needs by now was given. Raises ToolError and NotApproved."""
    needs, level = proposed.needs, approvals.level_of(known)
    if needs.level > level:
        raise ToolError(_MORE, reason="NOT_APPROVED")
    if level is Level.APPROVE:
        approvals.check(exchange, known, proposed, shown_as(known, proposed))
    return proposed


def shown_as(change: Change, proposed: Proposed) -> str:
    """Names a change and the rows that it is for, as a page shows both; for other people, with all that it does.

    It is keyed: otherwise anybody who sees it could find out the hidden values of a row by trying them.
    """
    is_voted_for = approvals.level_of(change) is Level.APPROVE
    effects = [asdict(one) for one in proposed.effects] if is_voted_for else []
    text = digest([proposed.arguments, proposed.state, *effects])
    return salted_hmac("mcp_django.writes.shown", text, algorithm="sha256").hexdigest()


def _confirmed(exchange: Exchange, tool: ChangingTool, arguments: JSON) -> Change | None:
    try:
        return change_rows.confirmed_by(arguments[CONFIRM], exchange, tool, arguments)
    except LookupError:
        raise confirmations.refused(f"This is no token for this call. {_AGAIN}") from None


def _repeated(exchange: Exchange, known: Change) -> JSON:
    answer = answer_of(exchange, known)
    return {**answer, "replayed": True} if known.state == State.APPLIED else answer


def _checked(exchange: Exchange, tool: ChangingTool, arguments: JSON) -> Proposed:
    """The change that the token confirms, for the rows as they are. Raises InvalidQuery and ToolError."""
    proposed = propose(exchange, tool, arguments)
    what = [tool.name, proposed.bound]
    proposed.check(confirmations.read(exchange, what, arguments[CONFIRM], again=proposed.again))
    return proposed


def _same(proposed: Proposed) -> Proposed:
    return proposed


def _is_agreed(exchange: Exchange, proposed: Proposed, lines: Sequence[Line], reason: str) -> bool:
    """Whether the user of the client agrees; False where nobody can be asked. Raises ToolError for a refusal.

    Whoever made the token for somebody else may hold it, and does not answer in that person's place. Nobody agrees to
    what is not shown whole.
    """
    question = _question(lines, reason)
    is_long = len(question) > _MAX_QUESTION or proposed.row_count > FEW
    if is_long or not proposed.asks_client or exchange.principal.is_made_by_another or _is_acted_for(exchange):
        return False
    try:
        # Not ``single_use``, since the token is: a client that lost our answer sends its user's again, and gets ours.
        answer = exchange.elicit(question, _NOTHING, key="consent")
    except MissingCapability:
        return False
    if not answer.accepted:
        raise ToolError("The user did not agree. Nothing was changed.", reason="USER_DECLINED")
    return True


def _is_acted_for(exchange: Exchange) -> bool:
    """Whether somebody else acts as the user of a login session by which a socket was opened."""
    if exchange.principal.source is not Source.LOGIN:
        return False
    login = login_request(exchange.request)
    return login is None or len(exchange.site.persons_of(login)) > 1


def _question(lines: Sequence[Line], reason: str) -> str:
    why = f"\n\nThe agent says why: {printable(reason)[: change_rows.MAX_REASON]}" if reason else ""
    return question_of(lines) + why


def _check_can_wait(
    exchange: Exchange, tool: ChangingTool, planned: Change, proposed: Proposed, arguments: JSON
) -> None:
    """Raises ToolError where nobody could agree later either, and LimitExceeded where too many changes wait."""
    needs = proposed.needs
    is_asked = needs.level is Level.ASK
    who = "The user must agree. That cannot be asked here, and" if is_asked else "Other people must approve this, and"
    if url_of(exchange.request) is None or not can_own(exchange.principal):
        text = f"{who} no page for it is served to this user. Nothing was changed."
        raise ToolError(text, reason="NO_APPROVER")
    change_rows.check_number(exchange, url_of(exchange.request))
    if len(encode(arguments)) > _MAX_KEPT_BYTES:
        raise ToolError(f"{who} this is too large to wait. Nothing was changed.", reason="LIMIT_EXCEEDED")
    if not is_asked:
        approvals.check_candidates(exchange, planned, proposed)
        if needs.expires is not None:
            planned.expires_at = planned.created_at + needs.expires
    end = _end_of_right(exchange, tool, proposed)
    if end is not None:
        planned.expires_at = min(planned.expires_at, end)


def _end_of_right(exchange: Exchange, tool: ChangingTool, proposed: Proposed) -> datetime | None:
    """When the credential loses the right to this by the tool; None where it has that for good."""
    by_scope = proposed.needed_scope if tool.scope == WRITE else tool.scope
    end = exchange.principal.end_of([by_scope or WRITE, of_tool(tool.name)])
    return None if end is None else datetime.fromtimestamp(end, UTC if settings.USE_TZ else None)
