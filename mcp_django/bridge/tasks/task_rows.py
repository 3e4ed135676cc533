"""The rows of tasks. Each transition is a conditional UPDATE, so that of two at the same time only one takes effect."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import router, transaction
from django.db.models import F, Q
from django.utils import timezone
from pydantic_core import from_json

from mcp_django.access.held import held
from mcp_django.bridge.callers import origin_of
from mcp_django.bridge.tasks.framework import enqueue
from mcp_django.conf import get_conf
from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.transaction import note_control
from mcp_django.exceptions import MCPError
from mcp_django.exchange.cancellation import RUNNING
from mcp_django.exchange.scopes import grant
from mcp_django.models import Task, TaskQuestion
from mcp_django.protocol.errors import LimitExceeded, TaskNotFound, WorkerLost
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.revisions import MODERN
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site


OPEN = (Task.State.QUEUED, Task.State.RUNNING, Task.State.ASKING)
ENDED = (Task.State.COMPLETED, Task.State.FAILED, Task.State.CANCELLED)
#: A task that no worker has claimed after this time is enqueued again, and then each time after twice as long.
_RETRY_SECONDS = 30.0
_MAX_TRIES = 10
#: Tasks that are enqueued again after a pause. The others follow when their clients ask for them.
_MAX_WOKEN = 1_000
#: Finished tasks of one principal that are kept; the oldest give way.
_MAX_FINISHED = 1_000
_MAX_MESSAGE = 500
_MAX_KEY = 150
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Params of a call that belong to the protocol or to another extension, and not to the tool.
_NOT_KEPT = frozenset({"inputResponses", "requestState", "task"})


def alias() -> str:
    return router.db_for_write(Task)


# Creating a task.


def create(exchange: Exchange) -> Task:
    """Create and enqueue the task that an exchange continues as. Raises LimitExceeded."""
    principal, now = exchange.principal, timezone.now()
    _make_room(exchange.site, principal, now)
    task = Task.objects.create(
        key=secrets.token_urlsafe(32), site=exchange.site.name, principal_key=principal.key,
        user_id=principal.user.pk, line=principal.lineage, grant_id=principal.grant_id, scopes=sorted(principal.scopes),
        lent=sorted(principal.scopes - principal.lasting), tool=exchange.params["name"], revision=exchange.revision,
        params=_json({name: value for name, value in exchange.params.items() if name not in _NOT_KEPT}),
        origin=_json(origin_of(exchange.request)),
        answers=_json({"vouched": exchange.answers.vouched, "claimed": exchange.answers.claimed}),
        rounds=exchange.round, created_at=now, updated_at=now, queued_at=now, expires_at=_end(now),
    )  # fmt: skip
    transaction.on_commit(partial(enqueue, task.key), using=alias())
    # An immediate backend has run the task already.
    task.refresh_from_db()
    return task


def _make_room(site: Site, principal: Principal, now: datetime) -> None:
    """Delete expired tasks, and the oldest of the principal's finished tasks. Raises LimitExceeded."""
    limit = get_conf().MAX_OPEN_TASKS
    Task.objects.filter(~held(), expires_at__lte=now).delete()
    mine = Task.objects.filter(site=site.name, principal_key=principal.key)
    for key, run in mine.filter(state=Task.State.RUNNING, lease_until__lte=now).values_list("key", "run"):
        lose(key, run)
    if mine.filter(state__in=OPEN).count() >= limit:
        raise LimitExceeded(f"You have {limit} unfinished tasks (MAX_OPEN_TASKS). Wait for one, or cancel one.")
    finished = mine.filter(state__in=ENDED).order_by("-expires_at", "-pk")
    surplus = list(finished.values_list("pk", flat=True)[_MAX_FINISHED:])
    if surplus:
        Task.objects.filter(pk__in=surplus).delete()


# Finding a task.


def find(site: Site, principal: Principal, key: str) -> Task:
    """The principal's task with that key, in its present state. Raises TaskNotFound, also for a foreign task."""
    found = find_all(site, principal, [key])
    if not found:
        raise TaskNotFound(key)
    return _settled(found[0])


def find_all(site: Site, principal: Principal, keys: Iterable[str]) -> list[Task]:
    """The tasks with these keys that belong to the principal, in the order of the keys."""
    wanted = [key for key in keys if _KEY.fullmatch(key)]
    rows = {task.key: task for task in Task.objects.filter(pk__in=wanted, expires_at__gt=timezone.now())}
    # The keys are compared here once more, because some databases ignore the case of letters.
    return [rows[key] for key in wanted if key in rows and is_of(rows[key], site, principal)]


def is_of(task: Task, site: Site, principal: Principal) -> bool:
    """Whether the task belongs to the principal's credential line, which still grants the task's scopes.

    A scope that it was lent may have ended: the line reads what it has begun all the same.
    """
    is_own = (task.site, task.principal_key, task.line) == (site.name, principal.key, principal.lineage)
    return is_own and all(grant(principal.scopes, scope) for scope in task.scopes if scope not in task.lent)


def _settled(task: Task) -> Task:
    """The task after its deadlines were applied: its worker may have died, or its place in the queue was lost."""
    now = timezone.now()
    if task.state == Task.State.RUNNING and task.lease_until is not None and task.lease_until <= now:
        lose(task.key, task.run)
        task.refresh_from_db()
    elif task.state == Task.State.QUEUED and task.tries < _MAX_TRIES:
        overdue = task.queued_at + timedelta(seconds=_RETRY_SECONDS * 2**task.tries) <= now
        waiting = Task.objects.filter(pk=task.key, state=Task.State.QUEUED, queued_at=task.queued_at)
        if overdue and waiting.update(queued_at=now, tries=F("tries") + 1):
            enqueue(task.key)
            task.refresh_from_db()
    return task


def is_kept() -> Q:
    """Of tasks: those that have not expired, or may not because of a pause."""
    return Q(expires_at__gt=timezone.now()) | Q(held())


# The steps of a worker.


def claim(key: str) -> Task | None:
    """Claim the task for the caller, who must run it. None if the task is not queued."""
    now = timezone.now()
    run = secrets.token_hex(16)
    waiting = {"state": Task.State.QUEUED, "expires_at__gt": now}
    # The task is kept for longer than it may run, so that its client can read that it took too long.
    end = _end(lease(now))
    if not _change(key, waiting, state=Task.State.RUNNING, run=run, lease_until=lease(now), tries=0, expires_at=end):
        return None
    return Task.objects.filter(pk=key, run=run).first()


def is_wanted(key: str, run: str) -> bool | None:
    """Whether the run still counts. A cancelled or lost task no longer does. None if there is no such task."""
    found = Task.objects.filter(pk=key).values_list("run", "state").first()
    return None if found is None else found == (run, Task.State.RUNNING)


def put_back(key: str, run: str, message: str) -> None:
    """Let a task wait again that a run has claimed and not begun. ``enqueue_waiting`` gives it to a worker again."""
    _change(key, _run(run), state=Task.State.QUEUED, lease_until=None, queued_at=timezone.now(), message=_text(message))


def enqueue_waiting() -> None:
    """Put the tasks that wait into the queue once more, as after a pause: of two workers one alone gets a task."""
    waiting = Task.objects.filter(state=Task.State.QUEUED, expires_at__gt=timezone.now()).order_by("queued_at")
    for key in waiting.values_list("pk", flat=True)[:_MAX_WOKEN]:
        enqueue(key)


def renew(key: str, run: str) -> None:
    """Extend the lease."""
    Task.objects.filter(pk=key, **_run(run)).update(lease_until=lease())


def set_message(key: str, run: str, message: str) -> None:
    """Store the run's progress as the status message."""
    _change(key, _run(run), message=_text(message))


def complete(key: str, run: str, result: JSON) -> None:
    _end_run(key, run, Task.State.COMPLETED, outcome=_json(result), message="")


def fail(key: str, run: str, error: MCPError) -> None:
    outcome = _json(error.to_json(MODERN))
    _end_run(key, run, Task.State.FAILED, outcome=outcome, message=_text(error.message))


def lose(key: str, run: str) -> None:
    """Fail a task whose worker let its lease expire, unless the lease was renewed just now."""
    error = WorkerLost()
    lost = {**_run(run), "lease_until__lte": timezone.now()}
    outcome = _json(error.to_json(MODERN))
    _change(key, lost, state=Task.State.FAILED, outcome=outcome, message=error.message, expires_at=_end())


def give_up(key: str, run: str) -> None:
    """Cancel the task, because the request that waits for this very run was cancelled."""
    _end_run(key, run, Task.State.CANCELLED, message="Cancelled.")


def ask(key: str, run: str, questions: Iterable[tuple[str, str, JSON]]) -> None:
    """Store the questions that ended a run. Each is a tuple: the tool's name for it, its digest, and its request."""
    with transaction.atomic(using=alias()):
        if not _change(
            key, _run(run), state=Task.State.ASKING, rounds=F("rounds") + 1, lease_until=None, message="",
            expires_at=_end(),
        ):  # fmt: skip
            return
        taken = {key.casefold() for key in TaskQuestion.objects.filter(task=key).values_list("key", flat=True)}
        for name, digest, request in questions:
            client_key = _unused(name[:_MAX_KEY], taken)
            taken.add(client_key.casefold())
            TaskQuestion.objects.create(
                task_id=key, key=client_key, asked_as=name, digest=digest, request=_json(request)
            )


def _unused(name: str, taken: set[str]) -> str:
    """A key that no question of the task has had before (ext-tasks#task-update-requests)."""
    key, number = name, 1
    while key.casefold() in taken:  # Some databases ignore the case of a key.
        number += 1
        key = f"{name}-{number}"
    return key


def _end_run(key: str, run: str, state: str, **fields: Any) -> None:
    _change(key, _run(run), state=state, lease_until=None, expires_at=_end(), **fields)


def _run(run: str) -> JSON:
    return {"state": Task.State.RUNNING, "run": run}


# The steps of a client.


def open_questions(task: Task) -> dict[str, JSON]:
    """The requests that the client has not answered yet."""
    rows = TaskQuestion.objects.filter(task=task.key, answer=None, task__state=Task.State.ASKING)
    return {key: from_json(request) for key, request in rows.values_list("key", "request")}


def answer(task: Task, answers: Mapping[str, Any]) -> None:
    """Store answers to open questions. Once no question is open, the task runs again."""
    unanswered = TaskQuestion.objects.filter(task=task.key, answer=None)
    given = [unanswered.filter(key=key).update(answer=_json(value)) for key, value in answers.items()]
    now = timezone.now()
    if unanswered.exists():
        if any(given):
            _change(task.key, {"state": Task.State.ASKING}, expires_at=_end(now))
    elif _change(
        task.key, {"state": Task.State.ASKING}, state=Task.State.QUEUED, queued_at=now, tries=0, expires_at=_end(now)
    ):
        transaction.on_commit(partial(enqueue, task.key), using=alias())


def cancel(task: Task, message: str = "Cancelled by the client.") -> bool:
    """Cancel the task, and stop its worker in whatever process it runs. False for one that has ended: it stays so."""
    ended = {"state": Task.State.CANCELLED, "lease_until": None, "message": message}
    if not _change(task.key, {"state__in": OPEN}, **ended, expires_at=_end()):
        return False
    running = RUNNING.get(task.key)
    # In another process the run's own monitor finds the cancellation in the database.
    if running is not None:
        running.cancel()
        running.queries.interrupt()
    return True


def _change(key: str, where: JSON, **fields: Any) -> bool:
    """Change the task if ``where`` still holds, and notify the clients that watch it. Whether it was changed."""
    if not Task.objects.filter(pk=key, **where).update(updated_at=timezone.now(), **fields):
        return False
    note_control(alias(), ControlKind.TASK, key)
    return True


def lease(now: datetime | None = None) -> datetime:
    """The end of a lease that is renewed now."""
    return (now or timezone.now()) + timedelta(seconds=get_conf().TASK_LEASE_SECONDS)


def _end(now: datetime | None = None) -> datetime:
    """The moment after which a task that does not change is deleted."""
    return (now or timezone.now()) + timedelta(seconds=get_conf().TASK_SECONDS)


def _text(message: str) -> str:
    """The message in a form that every database can store."""
    return message.replace("\0", "").encode(errors="replace").decode()[:_MAX_MESSAGE]


def _json(value: Any) -> str:
    return encode(value).decode()
