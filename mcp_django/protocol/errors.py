"""The errors that the server itself answers with, each with its JSON-RPC code, its symbolic reason and its data.

``mcp_django.exceptions`` has the errors that a project raises. ``MCPError.to_json`` makes every error object.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from mcp_django import exceptions
from mcp_django.exceptions import RECEIVED_CHARS, FieldError, MCPError, ToolError, field_error
from mcp_django.protocol.revisions import MODERN_REVISIONS, Era

if TYPE_CHECKING:
    from pydantic import ValidationError

_ECHOED_CHARS = 2_000
#: If more values than this are wrong, the error lists none of them.
_MAX_LISTED = 1_000


class ParseError(MCPError):
    code = exceptions.PARSE_ERROR
    reason = "PARSE_ERROR"


class InvalidRequest(MCPError):
    code = exceptions.INVALID_REQUEST
    reason = "INVALID_REQUEST"


class MethodNotFound(MCPError):
    code = exceptions.METHOD_NOT_FOUND
    reason = "METHOD_NOT_FOUND"

    def __init__(self, method: str, hint: str = "", **data: Any) -> None:
        super().__init__(f"Method not found: {method[:100]}." + (f" {hint}" if hint else ""), **data)


class InvalidParams(MCPError):
    code = exceptions.INVALID_PARAMS
    reason = "INVALID_PARAMS"

    def __init__(self, message: str, errors: Sequence[FieldError] = (), **data: Any) -> None:
        # Some clients show the message alone.
        if errors and errors[0]["message"] not in message:
            message = f"{message} {errors[0]['field']}: {errors[0]['message']}"
        super().__init__(message, errors=list(errors), **data)

    @classmethod
    def from_pydantic(cls, method: str, error: ValidationError) -> InvalidParams:
        if error.error_count() > _MAX_LISTED:
            # A body has room for half a million wrong items, and an entry for each of them would take gigabytes.
            return cls(f"Invalid params of {method}: {error.error_count()} values are wrong.")
        errors = [
            field_error(
                ".".join(str(part) for part in detail["loc"]).removeprefix("params."),
                detail["msg"],
                # For a missing field, pydantic gives the object that lacks it.
                None if detail["type"] == "missing" else detail["input"],
            )
            for detail in error.errors(include_url=False, include_context=False)[:20]
        ]
        return cls(f"Invalid params of {method}: {errors[0]['field']}: {errors[0]['message']}.", errors)


class EnvelopeError(InvalidParams):
    """A modern request whose ``_meta`` lacks a required member (2026-07-28 basic#meta)."""

    reason = "INVALID_ENVELOPE"
    http_status = HTTPStatus.BAD_REQUEST


class InvalidCursor(InvalidParams):
    reason = "INVALID_CURSOR"

    def __init__(self, received: object) -> None:
        super().__init__(
            "Invalid cursor: use nextCursor of the previous page of this same list.",
            [field_error("cursor", "not a cursor of this list", received)],
        )


class ToolNotFound(InvalidParams):
    reason = "TOOL_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Unknown tool: {name[:100]}.", [field_error("name", "not a tool; tools/list names the tools", name)]
        )


class PromptNotFound(InvalidParams):
    reason = "PROMPT_NOT_FOUND"

    def __init__(self, name: str, field: str = "name") -> None:
        super().__init__(
            f"Unknown prompt: {name[:100]}.", [field_error(field, "not a prompt; prompts/list names the prompts", name)]
        )


class InvalidPrompt(InvalidParams):
    """The prompt cannot be written with these arguments."""

    def __init__(self, message: str, errors: Sequence[FieldError], reason: str = "INVALID_ARGUMENTS") -> None:
        super().__init__(message, errors)
        self.trail_reason = reason


class PromptRefused(InvalidParams):
    """The prompt itself refuses these arguments, and its text says why."""

    reason = "PROMPT_REFUSED"

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message, error.errors)
        self.trail_reason = _more_than_refused(error)


class ResourceRefused(MCPError):
    """The resource itself refuses to be read, and its text says why: its client did not answer a question, say."""

    reason = "RESOURCE_REFUSED"

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message)
        self.trail_reason = _more_than_refused(error)


def _more_than_refused(error: ToolError) -> str:
    """The reason of the error; empty where it says no more than that something refused."""
    return "" if error.reason == "TOOL_ERROR" else error.reason


class ReferenceNotFound(InvalidParams):
    """Completion was asked for a URI that is neither a resource nor a template of this principal."""

    reason = "REFERENCE_NOT_FOUND"

    def __init__(self, uri: str) -> None:
        super().__init__(
            "Unknown resource template.",
            [field_error("ref.uri", "not a template; resources/templates/list names the templates", uri)],
        )


class ResourceNotFound(MCPError):
    """The principal has no such resource. An absent one and a forbidden one give the same answer."""

    reason = "RESOURCE_NOT_FOUND"

    def __init__(self, uri: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(
            "Resource not found.",
            uri=uri[:_ECHOED_CHARS],
            errors=list(errors) or [field_error("uri", "not a resource; resources/list names the resources", uri)],
        )

    def code_in(self, era: Era) -> int:
        return era.resource_not_found


class HeaderMismatch(MCPError):
    code = exceptions.HEADER_MISMATCH
    reason = "HEADER_MISMATCH"


class InvalidRequestState(InvalidParams):
    """This server did not issue the requestState for this very request of this principal, or it was used already."""

    reason = "INVALID_REQUEST_STATE"

    def __init__(self, message: str, received: object) -> None:
        super().__init__(f"{message} Send the request again without requestState.", [
            field_error("requestState", "not the state that the last input_required of this request gave", received)
        ])  # fmt: skip


class TaskNotFound(InvalidParams):
    """The principal has no such task. Unknown, expired and foreign tasks give the same answer."""

    reason = "TASK_NOT_FOUND"

    def __init__(self, key: str) -> None:
        super().__init__("Task not found: it is unknown or has expired.", [field_error("taskId", "not a task", key)])


class TaskRefused(MCPError):
    """The user, the token or the tool of a task has changed since the task was created, so that it may not run."""

    reason = "TASK_REFUSED"

    def __init__(self) -> None:
        super().__init__("The task was stopped: its user, token or tool no longer exists, or no longer allows it.")


class WorkerLost(MCPError):
    reason = "WORKER_LOST"

    def __init__(self) -> None:
        super().__init__("The process that ran the task has ended. Its work may be half done.")


class UnsupportedVersion(MCPError):
    code = exceptions.UNSUPPORTED_PROTOCOL_VERSION
    reason = "UNSUPPORTED_PROTOCOL_VERSION"

    def __init__(self, requested: str) -> None:
        super().__init__(
            "Unsupported protocol version.", supported=list(MODERN_REVISIONS), requested=requested[:RECEIVED_CHARS]
        )


class UnsupportedVersionHeader(InvalidRequest):
    """A legacy MCP-Protocol-Version that we do not support (2025-06-18 basic/transports#protocol-version-header)."""

    reason = "UNSUPPORTED_PROTOCOL_VERSION"
    http_status = HTTPStatus.BAD_REQUEST

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(
            f"MCP-Protocol-Version {requested[:40]!r} is not supported.",
            supported=list(supported),
            requested=requested[:40],
        )


class SessionRequired(InvalidRequest):
    reason = "SESSION_REQUIRED"
    http_status = HTTPStatus.BAD_REQUEST

    def __init__(self, method: str) -> None:
        super().__init__(f"{method} needs a session: send initialize first, then its Mcp-Session-Id on every request.")


class NotInitialized(InvalidRequest):
    reason = "NOT_INITIALIZED"

    def __init__(self) -> None:
        super().__init__(
            "This connection has no session: send initialize first, or put io.modelcontextprotocol/protocolVersion "
            "and io.modelcontextprotocol/clientCapabilities into params._meta of each request."
        )


class SessionNotFound(InvalidRequest):
    """The principal has no such session. Unknown, ended, expired and foreign sessions give the same answer."""

    reason = "SESSION_NOT_FOUND"
    http_status = HTTPStatus.NOT_FOUND

    def __init__(self, hint: str = "send initialize without Mcp-Session-Id to start a new one.") -> None:
        super().__init__(f"Session not found: {hint}")


class InternalError(MCPError):
    def __init__(self) -> None:
        super().__init__("Internal error. The server's log has the details.")


class RequestCancelled(MCPError):
    """The client has cancelled the request, and gets no answer to it."""

    reason = "CANCELLED"

    def __init__(self) -> None:
        super().__init__("The request was cancelled.")


class LimitExceeded(MCPError):
    """A request exceeds a limit of the server. The message names the setting."""

    reason = "LIMIT_EXCEEDED"


class AnswerTooLong(LimitExceeded):
    """The work is done, and what it gave is too long to be sent."""


class RequestTimedOut(LimitExceeded):
    reason = "REQUEST_TIMED_OUT"

    def __init__(self) -> None:
        super().__init__(
            "The request was stopped: it took longer than the server allows (REQUEST_SECONDS). Ask for less at a time. "
            "If it was to change anything, look first at what it has changed."
        )


class TooSlow(LimitExceeded):
    """The database did not answer a query in time. The errors, if there are any, say how to split the query."""

    reason = "TOO_SLOW"
    _ADVICE = (
        "Narrow it: filter by the key or by another indexed field, over a smaller range, and through fewer relations."
    )

    def __init__(self, errors: Sequence[FieldError] = (), seconds: float = 0.0, *, advice: str = _ADVICE) -> None:
        self.errors = list(errors)
        limit = f"{seconds:g} s" if seconds else "the server allows"
        # Some clients show the message alone.
        advice = self.errors[0]["message"] if self.errors else advice
        message = f"The query was stopped: it took longer than {limit} (STATEMENT_SECONDS). {advice}"
        super().__init__(message, **({"errors": self.errors} if self.errors else {}))


class TaskTimedOut(LimitExceeded):
    reason = "TASK_TIMED_OUT"

    def __init__(self) -> None:
        super().__init__(
            "The task was stopped: it took longer than the server allows (TASK_SECONDS). If it was to change anything, "
            "look first at what it has changed."
        )


class Overloaded(LimitExceeded):
    reason = "OVERLOADED"
    http_status = HTTPStatus.SERVICE_UNAVAILABLE

    def status_in(self, era: Era) -> HTTPStatus:
        # Old legacy clients do not survive a 4xx or 5xx, so they get the error in a body with status 200.
        return HTTPStatus.SERVICE_UNAVAILABLE if era.enveloped else HTTPStatus.OK


class AuditUnavailable(MCPError):
    """The audit trail must be written before a call is made, and cannot be."""

    reason = "AUDIT_UNAVAILABLE"

    def __init__(self) -> None:
        super().__init__(
            "The call was not made, since the server could not write it down first. Nothing was changed. Try again in "
            "a moment."
        )


class Throttled(LimitExceeded):
    """The caller has used up one of its budgets. ``retry_after`` says in how many seconds it has one again."""

    reason = "THROTTLED"
    http_status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, message: str, retry_after: int, limit: str, kind: str) -> None:
        super().__init__(message, retryAfter=retry_after, limit=limit, kind=kind)
        self.retry_after = retry_after
        self.limit = limit

    def status_in(self, era: Era) -> HTTPStatus:
        # As for Overloaded.
        return HTTPStatus.TOO_MANY_REQUESTS if era.enveloped else HTTPStatus.OK


class Paused(MCPError):
    """A person has paused the caller: all agents, or those of a user, a token or an app. Nobody knows for how long."""

    reason = "PAUSED"
    http_status = HTTPStatus.SERVICE_UNAVAILABLE
    #: The seconds after which it is worth a try. It promises nothing.
    retry_after = 60

    def __init__(self, whom: str, why: str) -> None:
        self.whom, self.why = whom, why
        super().__init__(
            f"{self.said} Try again in a few minutes; nobody has said when the pause ends.",
            retryAfter=self.retry_after,
            why=why,
        )

    @property
    def said(self) -> str:
        """What is paused and why, as a sentence."""
        why = f": {self.why.rstrip('.')}" if self.why else ""
        return f"{self.whom} paused{why}."

    def status_in(self, era: Era) -> HTTPStatus:
        # As for Overloaded.
        return HTTPStatus.SERVICE_UNAVAILABLE if era.enveloped else HTTPStatus.OK


class StoppedByPause(Paused):
    """The pause began while the request was being answered, and the request could have changed something."""

    def __init__(self, paused: Paused) -> None:
        super().__init__(paused.whom, paused.why)
        self.message += " The call was stopped halfway. Check what it has changed before you call again."


class FailuresThrottled(Throttled):
    """Too many credentials from the caller's address were wrong."""

    def status_in(self, era: Era) -> HTTPStatus:
        # In the place of a 401, which every client gets in every era.
        return HTTPStatus.TOO_MANY_REQUESTS


class PushUnavailable(MethodNotFound):
    reason = "PUSH_UNAVAILABLE"


class Unauthenticated(MCPError):
    """The request has no valid credentials. ``challenge`` is the value of WWW-Authenticate."""

    code = exceptions.INVALID_REQUEST
    reason = "UNAUTHENTICATED"
    http_status = HTTPStatus.UNAUTHORIZED

    def __init__(self, message: str, challenge: str, *, trail_reason: str = "", token: Any = None) -> None:
        super().__init__(message)
        self.challenge = challenge
        self.trail_reason = trail_reason
        #: The AccessToken whose secret was sent, and which lets nobody in: for the audit trail.
        self.token = token

    @property
    def has_failed(self) -> bool:
        """Whether credentials were sent, and let nobody in. The challenge says so to the client (RFC 6750 §3.1)."""
        return 'error="invalid_token"' in self.challenge


class Forbidden(MCPError):
    code = exceptions.INVALID_REQUEST
    reason = "FORBIDDEN"
    http_status = HTTPStatus.FORBIDDEN


class InsufficientScope(MCPError):
    """An OAuth client lacks scopes that its user can give it (2025-11-25 basic/authorization#scope-challenge-handling).

    Over HTTP, ``challenge`` becomes the WWW-Authenticate of a 403. Where no status can say so, it stays empty.
    """

    code = exceptions.INVALID_REQUEST
    reason = "INSUFFICIENT_SCOPE"

    def __init__(self, needed: Sequence[str], wanted: Sequence[str]) -> None:
        names = " and ".join(needed)
        #: What is missing, as a sentence without what to do.
        self.lacks = f"This needs the scope{'s' if len(needed) > 1 else ''} {names}, which your user has not given you."
        super().__init__(f"{self.lacks} Your client can ask for it: log in again.", scopes=list(needed))
        self.needed = tuple(needed)
        #: Those to ask for: the needed ones, and those that the client has.
        self.wanted = tuple(wanted)
        self.challenge = ""

    def status_in(self, era: Era) -> HTTPStatus:
        return HTTPStatus.FORBIDDEN if self.challenge else HTTPStatus.OK
