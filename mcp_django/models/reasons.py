"""Why a call was refused or failed: the reasons of the audit trail, each with what it says to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

#: Reason → what it says. A test compares it with the errors that the server raises. A project may have its own.
REASONS: Mapping[str, Any] = {
    # Who calls.
    "UNAUTHENTICATED": _("No credentials were sent, or unknown ones."),
    "EXPIRED": _("The token has expired. Its holder was told so."),
    "REVOKED": _("The token was revoked. Its holder was told so."),
    "INACTIVE": _("The user of the token is inactive. To its holder, the token is unknown."),
    "WRONG_ADDRESS": _("The token may not be used from this address. To its holder, it is unknown."),
    "WRONG_RESOURCE": _("The token is for another endpoint. To its holder, it is unknown."),
    "FORBIDDEN": _("The host, the origin or the kind of credentials is not allowed."),
    # What they may use.
    "NO_SCOPE": _("The token lacks the scope. To the agent, it does not exist."),
    "SWITCHED_OFF": _("It is switched off. To the agent, it does not exist."),
    "NO_GROUP": _("It is for groups that the user is not in. To the agent, it does not exist."),
    "NO_PERMISSION": _("The user lacks the permission."),
    "NOT_WRITABLE": _("Agents may not write this: the project does not let them, or an administrator decided so."),
    "READ_ONLY": _('It changes data, or belongs to a change, and MCP["READ_ONLY"] lets no agent change any.'),
    "PAUSED": _("Its agents were paused. They were told the reason."),
    "NO_TASKS": _("It runs only as a task, and this site runs no tasks."),
    "INSUFFICIENT_SCOPE": _("The app lacks a scope that its user can give it. It was told to ask."),
    # What was asked for.
    "INVALID_ARGUMENTS": _("Arguments were missing, unknown, or had wrong values."),
    "INVALID_PARAMS": _("The request itself was malformed."),
    "INVALID_ENVELOPE": _("The request lacked what each request of its revision has."),
    "INVALID_REQUEST": _("The message was no valid request."),
    "INVALID_CURSOR": _("The cursor is not of this list, or has expired."),
    "INVALID_REQUEST_STATE": _("The state of a question was not issued for this request, or was used already."),
    "PARSE_ERROR": _("The message was no JSON."),
    "HEADER_MISMATCH": _("A header did not say what the message says."),
    "METHOD_NOT_FOUND": _("There is no such method in its revision."),
    "PUSH_UNAVAILABLE": _("This connection cannot send notifications."),
    "UNSUPPORTED_PROTOCOL_VERSION": _("The client speaks a revision that the server does not know."),
    "SESSION_REQUIRED": _("The method needs a session, and none was begun."),
    "NOT_INITIALIZED": _("The connection had no session yet."),
    "SESSION_NOT_FOUND": _("The session has ended, or is of somebody else."),
    "TOOL_NOT_FOUND": _("There is no such tool."),
    "PROMPT_NOT_FOUND": _("There is no such prompt."),
    "RESOURCE_NOT_FOUND": _("There is no such resource, or the user may not see it."),
    "REFERENCE_NOT_FOUND": _("There is no such template of resources."),
    "TASK_NOT_FOUND": _("There is no such task, or it has expired."),
    "NO_RECORD": _("There is no such record, or the user may not see it."),
    "NOT_FOUND": _("There is no such upload, or it has expired."),
    "NO_UPLOAD": _("The uploaded file is gone."),
    "MISSING_CLIENT_CAPABILITY": _("It needs something that the client cannot do."),
    # Changes.
    "CONFIRM_INVALID": _("The confirmation was for another call, or no confirmation at all."),
    "CONFIRM_EXPIRED": _("The confirmation came too late: it is valid for ten minutes."),
    "ROWS_CHANGED": _("The records had changed since they were shown."),
    "ROWS_BUSY": _("Somebody else was changing the same records."),
    "USER_DECLINED": _("The user did not agree."),
    "NOT_APPROVED": _("It needs more consent than was given."),
    "NO_APPROVER": _("Nobody could have agreed to it."),
    "NOT_WAITING": _("The change did not wait for anybody any more."),
    "CANNOT_UNDO": _("The change could not be undone."),
    "CHANGE_REJECTED": _("The change had been rejected."),
    "CHANGE_WITHDRAWN": _("The change had been withdrawn."),
    "CHANGE_EXPIRED": _("Nobody had agreed to the change in time."),
    "CHANGE_FAILED": _("The change had failed."),
    "PROTECTED": _("Other records refer to what would be deleted."),
    "DATABASE_REFUSED": _("The database refused the values."),
    # What came in between.
    "TOOL_ERROR": _("The tool itself refused, or raised an exception: the log of the server has it."),
    "PROMPT_REFUSED": _("The prompt itself refused."),
    "RESOURCE_REFUSED": _("The resource itself refused."),
    "INTERNAL_ERROR": _("The server failed: its log says why."),
    "CANCELLED": _("The client gave it up."),
    "LIMIT_EXCEEDED": _("It was larger or more than a limit allows."),
    "THROTTLED": _("A budget was used up."),
    "TOO_MANY_ADDRESSES": _("Too many addresses at once. They are counted together."),
    "OVERLOADED": _("The server had too much to do."),
    "REQUEST_TIMED_OUT": _("It took longer than a request may."),
    "TOO_SLOW": _("The database took longer than a statement may."),
    "TASK_TIMED_OUT": _("It took longer than a task may."),
    "TASK_REFUSED": _("Its user, its token or its tool allowed it no longer when it was to run."),
    "WORKER_LOST": _("The process that ran it has ended."),
    "AUDIT_UNAVAILABLE": _("It could not be written down first, so it was not made."),
    "STORAGE_FAILED": _("The storage of uploads failed."),
}
