"""The models, one module for each subject.

It imports conf, and for validators exchange (the scopes), protocol (the rules for names) and core.
"""

from mcp_django.models.calls import Call
from mcp_django.models.changes import Change, ChangedRow, Decision, DueRun, change_waits
from mcp_django.models.grants import Grant
from mcp_django.models.lendings import Lending
from mcp_django.models.overrides import AdminOverride, Prompt, Tool
from mcp_django.models.restrictions import Restriction
from mcp_django.models.sessions import (
    CallStream,
    OpenQuestion,
    Poll,
    PostedMessage,
    Session,
    SSEConnection,
    StreamEvent,
    WatchedResource,
)
from mcp_django.models.tasks import Task, TaskQuestion
from mcp_django.models.throttles import Throttle
from mcp_django.models.token_templates import TokenTemplate
from mcp_django.models.tokens import AccessToken, Ticket, UsedNonce, digest, sealed
from mcp_django.models.uploads import Upload, UploadPart

__all__ = [
    "AccessToken",
    "AdminOverride",
    "Call",
    "CallStream",
    "Change",
    "ChangedRow",
    "Decision",
    "DueRun",
    "Grant",
    "Lending",
    "OpenQuestion",
    "Poll",
    "PostedMessage",
    "Prompt",
    "Restriction",
    "SSEConnection",
    "Session",
    "StreamEvent",
    "Task",
    "TaskQuestion",
    "Throttle",
    "Ticket",
    "TokenTemplate",
    "Tool",
    "Upload",
    "UploadPart",
    "UsedNonce",
    "WatchedResource",
    "change_waits",
    "digest",
    "sealed",
]
