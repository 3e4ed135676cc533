"""What the page *Connections* shows, and how a person ends a stored session, a task, or what is lent to an agent.

Only its client should know the key of a session or a task, so the page names it by a digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext

from mcp_django.access.trail import note_ending
from mcp_django.bridge.tasks import task_rows
from mcp_django.conf import get_conf
from mcp_django.console.credentials import lendings
from mcp_django.models import Lending, Session, Task
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.types import JSON
from mcp_django.push.presence import ConnectedClient
from mcp_django.push.roll_call import ask_everybody
from mcp_django.push.sessions.session_rows import StoredSession

#: How many stored sessions, and tasks, the page lists: the newest.
_LISTED = 100
#: What the name of a principal begins with, before the key of its user.
_USER = "user:"


@dataclass(frozen=True)
class Line:
    """A client that is connected."""

    client: ConnectedClient

    @property
    def since(self) -> datetime:
        return _moment(self.client.since)

    @property
    def told_at(self) -> datetime | None:
        return None if self.client.told_at is None else _moment(self.client.told_at)

    @property
    def more_uris(self) -> bool:
        return self.client.watches > len(self.client.uris)


@dataclass(frozen=True)
class Stored:
    """A stored session, a task that has not ended, or what is lent to an agent."""

    named: str
    what: str
    user: str
    since: datetime
    seen: datetime
    may_end: bool


def shown_to(request: HttpRequest) -> JSON:
    """The context of the page. It asks every process, which takes up to a second."""
    answers = ask_everybody()
    return {
        "answers": answers,
        "processes": [(process, [Line(client) for client in process.clients]) for process in answers.processes],
        "sessions": _stored_sessions(request),
        "tasks": _stored_tasks(request),
        "lendings": _lendings(request),
        "most_listed": _LISTED,
    }


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC if settings.USE_TZ else None)


# What is stored.


def _sessions() -> QuerySet[Session]:
    return Session.objects.live().order_by("-created_at", "-pk")


def _tasks() -> QuerySet[Task]:
    return Task.objects.filter(task_rows.is_kept(), state__in=task_rows.OPEN).order_by("-created_at", "-pk")


def _stored_sessions(request: HttpRequest) -> list[Stored]:
    rows, life = list(_sessions()[:_LISTED]), timedelta(seconds=get_conf().SESSION_SECONDS)
    names = _user_names(row.principal_key for row in rows)
    return [
        Stored(
            named=_digest(row), what=_client_of(row), user=names.get(row.principal_key, row.principal_key),
            since=row.created_at, seen=max(row.created_at, row.expires_at - life), may_end=_may_end(request, row),
        )
        for row in rows
    ]  # fmt: skip


def _stored_tasks(request: HttpRequest) -> list[Stored]:
    rows = list(_tasks().defer("params", "origin", "answers", "outcome")[:_LISTED])
    names = _user_names(row.principal_key for row in rows)
    return [
        Stored(
            named=_digest(row), what=f"{row.tool}: {row.get_state_display()}",
            user=names.get(row.principal_key, row.principal_key),
            since=row.created_at, seen=row.updated_at, may_end=_may_end(request, row),
        )
        for row in rows
    ]  # fmt: skip


def _lendings(request: HttpRequest) -> list[Stored]:
    rows = Lending.objects.in_use().select_related("user").order_by("-starts_at", "-pk")[:_LISTED]
    return [
        Stored(
            named=_digest(row), what=lendings.ShownLending.of(row).text, user=row.user.get_username(),
            since=row.starts_at, seen=row.until, may_end=lendings.may_end(request.user, row),
        )
        for row in rows
    ]  # fmt: skip


def _client_of(session: Session) -> str:
    info: Any = session.client_info
    return Client(info if isinstance(info, dict) else {}).name


def _user_names(keys: Iterable[str]) -> dict[str, str]:
    """The names of users by the names of their principals. Users of a project's own authentication have none here."""
    users = get_user_model()
    wanted: dict[Any, str] = {}
    for key in keys:
        try:
            wanted[users._meta.pk.to_python(key.removeprefix(_USER))] = key
        except (ValidationError, TypeError):
            continue
    found = users._default_manager.filter(pk__in=list(wanted))
    return {wanted[user.pk]: user.get_username() for user in found}


# Ending.


def _may_end(request: HttpRequest, row: Session | Task) -> bool:
    return bool(request.user.is_superuser) or row.principal_key == f"{_USER}{request.user.pk}"


def _digest(row: Model) -> str:
    return salted_hmac("mcp_django.admin.connections", str(row.pk), algorithm="sha256").hexdigest()


def end(request: HttpRequest, what: str, named: str) -> str | None:
    """End what has this digest. Returns a sentence about it, or None if the user may not end it."""
    if what == "lending":
        mine = (row for row in Lending.objects.in_use() if constant_time_compare(_digest(row), named))
        return gettext("The right has ended.") if lendings.end(request.user, next(mine, None)) else None
    if what == "session":
        session = _find(request, _sessions(), named)
        if session is None:
            return None
        StoredSession(session).end()
        note_ending(what, session.site, _client_of(session), session.principal_key)
        return gettext("The session has ended.")
    task = _find(request, _tasks(), named) if what == "task" else None
    if task is None or not task_rows.cancel(task, "Cancelled in the admin."):
        return None
    note_ending("task", task.site, task.tool, task.principal_key)
    return gettext("The task has ended.")


def _find(request: HttpRequest, rows: QuerySet[Any], named: str) -> Any:
    """The row of the digest, among those that the user may end."""
    if not request.user.is_superuser:
        rows = rows.filter(principal_key=f"{_USER}{request.user.pk}")
    keys = (row for row in rows.only("pk").iterator() if constant_time_compare(_digest(row), named))
    key = next(keys, None)
    return None if key is None else rows.filter(pk=key.pk).first()
