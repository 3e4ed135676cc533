"""What became of a change, in words: for its agent, and for its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import DataError, IntegrityError
from django.db.models import ProtectedError, RestrictedError
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from pydantic_core import from_json

from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.exchange.audience import own_page_path
from mcp_django.models import Change
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

State = Change.State

_UNKNOWN = "Its end is not known. Look at what it was to change before you propose it again."
_NOT_DONE = "Nothing was changed."
_SENT = "What the action sent elsewhere is not taken back. Call again without confirm, so that people are asked again."


def answer_of(exchange: Exchange, known: Change) -> JSON:
    """What became of a change, for its agent."""
    state = State.WAITING if waits(known) else change_rows.state_of(known)
    about: JSON = {"status": state, "change": known.key}
    about |= {"model": known.model} if known.model else {"tool": known.tool}
    match state:
        case State.APPLIED:
            ids = {"ids": change_rows.keys_of(known)} if known.model else {}
            return from_json(known.result) if known.result else {**about, **ids}
        case State.WAITING:
            pending: JSON = {"status": "pending", "resource": change_rows.uri_of(known)}
            who = "The user must agree"
            if exchange.principal.lent:
                # It may end with a right that the agent has for a while.
                pending["expires_at"] = known.expires_at.isoformat()
            if approvals.level_of(known) is Level.APPROVE:
                pending |= {"needs": approvals.told(known), "expires_at": known.expires_at.isoformat()}
                who = "Other people than the user must approve it"
            notes = [f"{who} on this page. Tell the user, then watch the resource."]
            return {**about, **pending, "url": url_of(exchange.request, known.key), "notes": notes}
        case State.WRITING if can_begin_again(known):
            again = "Make the same call again." if may_go_on(known) else _SENT
            return {**about, "status": State.FAILED, "notes": [_NOT_DONE, again]}
        case State.WRITING if change_rows.lease_is_over(known):
            return {**about, "status": "unknown", "notes": [_UNKNOWN]}
        case State.WRITING:
            return {**about, "notes": ["It is being written. Call get_change to learn how it ends."]}
    return {**about, "notes": [known.note or _NOT_DONE]}


def url_of(request: MCPRequest, *key: str, user: Any = None) -> str | None:
    """Where its user, or another one, decides about a change, or about all: in the admin, or on the page *My agent*.

    None where neither is served.
    """
    user = request.mcp.principal.user if user is None else user
    path = own_page_path(None, *key)
    if getattr(user, "is_staff", False):
        path = _admin_path(*key) or path
    return None if path is None else request.build_absolute_uri(path)


def _admin_path(*key: str) -> str | None:
    try:
        return reverse(f"admin:mcp_django_change_{'change' if key else 'changelist'}", args=key)
    except NoReverseMatch:
        return None


def waits(change: Change) -> bool:
    """Whether the change waits for its user, also again after a run that died before it wrote anything."""
    return bool(change.arguments) and (change_rows.state_of(change) == State.WAITING or can_begin_again(change))


def can_begin_again(known: Change) -> bool:
    """Whether its run is gone and has certainly written nothing: it would have said so in the same transaction."""
    return known.state == State.WRITING and change_rows.lease_is_over(known) and is_one_database(known)


def may_go_on(known: Change) -> bool:
    """Whether a call of its agent goes on with it, after a run that is gone.

    What an action sent elsewhere was not rolled back, so the people who were asked about it say whether it runs again.
    """
    is_asked = known.kind == Change.Kind.ACTION and approvals.level_of(known) > Level.PREVIEW
    return can_begin_again(known) and not is_asked


def is_one_database(change: Change) -> bool:
    """Whether its rows are where changes are remembered, so that both are written in one transaction."""
    return change.using == change_rows.alias()


def can_be_undone(change: Change) -> bool:
    return change.undo_until is not None and change.undo_until > timezone.now()


def why_not_undone(change: Change) -> str:
    """Why a change cannot be undone; empty where it can."""
    if can_be_undone(change):
        return ""
    if change.undo_until is not None:
        return "its time is over"
    if change.operation == "delete":
        return "what was deleted is not brought back"
    if change.kind in (Change.Kind.ACTION, Change.Kind.CALL, Change.Kind.API):
        return "nobody knows all that it did"
    return "nothing was kept of it"


def text_of(error: BaseException) -> str:
    """Why a change has failed, for the agent and for its user."""
    if isinstance(error, MCPError):
        return error.message
    if isinstance(error, ToolError | InvalidQuery):
        message = error.message if isinstance(error, ToolError) else "It is not valid any more."
        return " ".join([message, *(f"{one['field']}: {one['message']}" for one in error.errors)])
    if isinstance(error, IntegrityError | DataError):
        return refused_by_database(error)
    return "It failed. The server's log has the details."


def refused_by_database(error: IntegrityError | DataError) -> str:
    """What the database has against a change, without its own words: they name columns and values."""
    match error:
        case ProtectedError() | RestrictedError():
            return "Other records refer to what would be deleted, and protect it."
        case DataError():
            return "The database cannot hold one of the values."
    return (
        "The database refused it: a value that must be unique may be taken, a record that is referred to may be gone, "
        "or a value breaks a rule of the table."
    )
