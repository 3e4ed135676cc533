"""What became of a change, in words: for its agent, and for its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import DataError, IntegrityError, router
from django.urls import NoReverseMatch, reverse
from pydantic_core import from_json

from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.tools.results import refused_by_database
from mcp_django.bridge.writes import approvals, change_rows
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.models import Change
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

State = Change.State

_UNKNOWN = "Its end is not known. Look at the record before you propose it again."
_NOT_DONE = "Nothing was changed."


def answer_of(exchange: Exchange, known: Change) -> JSON:
    """What became of a change, for its agent."""
    state = State.WAITING if waits(known) else change_rows.state_of(known)
    about: JSON = {"status": state, "change": known.key, "model": known.model}
    match state:
        case State.APPLIED:
            return from_json(known.result) if known.result else {**about, "ids": change_rows.keys_of(known)}
        case State.WAITING:
            pending: JSON = {"status": "pending", "resource": change_rows.uri_of(known)}
            who = "The user must agree"
            if exchange.principal.lent:
                # It may end with a right that the agent has for a while.
                pending["expires_at"] = known.expires_at.isoformat()
            if approvals.level_of(known) is Level.APPROVE:
                pending |= {"needs": approvals.told(known), "expires_at": known.expires_at.isoformat()}
                who = "Other people than the user must approve it"
            notes = [f"{who} on this page of the admin. Tell the user, then watch the resource."]
            return {**about, **pending, "url": url_of(exchange.request, known.key), "notes": notes}
        case State.WRITING if can_begin_again(known):
            return {**about, "status": State.FAILED, "notes": [_NOT_DONE, "Make the same call again."]}
        case State.WRITING if change_rows.lease_is_over(known):
            return {**about, "status": "unknown", "notes": [_UNKNOWN]}
        case State.WRITING:
            return {**about, "notes": ["It is being written. Call get_change to learn how it ends."]}
    return {**about, "notes": [known.note or _NOT_DONE]}


def url_of(request: MCPRequest, *key: str) -> str | None:
    """The URL of a change in the admin, or of all; None where it is not served."""
    try:
        path = reverse(f"admin:mcp_django_change_{'change' if key else 'changelist'}", args=key)
    except NoReverseMatch:
        return None
    return request.build_absolute_uri(path)


def waits(change: Change) -> bool:
    """Whether the change waits for its user, also again after a run that died before it wrote anything."""
    return bool(change.arguments) and (change_rows.state_of(change) == State.WAITING or can_begin_again(change))


def can_begin_again(known: Change) -> bool:
    """Whether its run is gone and has certainly written nothing: it would have said so in the same transaction."""
    return (
        known.state == State.WRITING
        and change_rows.lease_is_over(known)
        and is_one_database(apps.get_model(known.model))
    )


def is_one_database(model: Any) -> bool:
    return router.db_for_write(model) == change_rows.alias()


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
