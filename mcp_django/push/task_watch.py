"""Notifications of watched tasks: a worker reads the state in the database, which every process writes to."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils import timezone

from mcp_django.access.throttling import throttles
from mcp_django.bridge.tasks import task_rows
from mcp_django.bridge.tasks.shapes import detailed
from mcp_django.core.db.outages import is_outage
from mcp_django.core.running.workers import get_workers
from mcp_django.exceptions import MCPError
from mcp_django.models import Task
from mcp_django.protocol.types import JSON
from mcp_django.push.listeners import Listener
from mcp_django.push.prefetch import current_request

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.push.hub import Hub


logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class TaskNews:
    """A change of a task for one listener. ``task`` is None if the listener may not see it, or if it is gone."""

    listener: Listener
    key: str
    changed_at: datetime | None
    task: JSON | None
    is_last: bool

    def is_older_than(self, sent_at: datetime | None) -> bool:
        """Whether a newer change was sent meanwhile."""
        return sent_at is not None and self.changed_at is not None and self.changed_at < sent_at


async def notify(hub: Hub, keys: Collection[str]) -> None:
    """Notify the listeners that watch these tasks of their new states. On the hub's loop."""
    if not keys:
        return
    listeners = [listener for listener in hub.listeners() if not listener.tasks.keys().isdisjoint(keys)]
    for found in await get_workers().run(news, listeners, keys) if listeners else ():
        sent = found.listener.tasks
        if found.key not in sent or not hub.has(found.listener) or found.is_older_than(sent[found.key]):
            continue
        if found.is_last:
            del sent[found.key]
        else:
            sent[found.key] = found.changed_at
        if found.task is not None:
            found.listener.notify_task(found.key, found.task)


# In a worker.


def news(listeners: Collection[Listener], keys: Collection[str]) -> list[TaskNews]:
    """The changes of these tasks that were not sent yet to the listeners that watch them."""
    watched = [
        (listener, key, sent_at)
        for listener in listeners
        for key, sent_at in list(listener.tasks.items())
        if key in keys
    ]
    last_changed = _changed_at({key for _, key, _ in watched})
    changed = [(listener, key) for listener, key, sent_at in watched if last_changed.get(key, sent_at) != sent_at]
    gone = [TaskNews(listener, key, None, None, True) for listener, key, _ in watched if key not in last_changed]
    return gone + _news_of(changed)


def _changed_at(keys: Collection[str]) -> dict[str, datetime]:
    """The time of each task's last change. A task whose worker is gone changes now."""
    now = timezone.now()
    tasks = Task.objects.filter(pk__in=keys, expires_at__gt=now)
    for key, run in tasks.filter(state=Task.State.RUNNING, lease_until__lte=now).values_list("key", "run"):
        task_rows.lose(key, run)
    return dict(tasks.values_list("key", "updated_at"))


def _news_of(changed: Iterable[tuple[Listener, str]]) -> list[TaskNews]:
    rows = {task.key: task for task in Task.objects.filter(pk__in={key for _, key in changed})}
    shapes = {key: detailed(task) for key, task in rows.items()}
    principals = _principals({listener for listener, _ in changed})
    found = []
    for listener, key in changed:
        task = rows.get(key)
        if task is not None and listener in principals:
            principal = principals[listener]
            may_see = principal is not None and task_rows.is_of(task, listener.site, principal)
            is_last = task.state in task_rows.ENDED
            if principal is not None and may_see:
                throttles.spend_pushed(principal, listener.request, shapes[key])
            found.append(TaskNews(listener, key, task.updated_at, shapes[key] if may_see else None, is_last))
    return found


def _principals(listeners: Iterable[Listener]) -> dict[Listener, Principal | None]:
    """Listener → its principal, read again. A listener whose database is away is left to the next sweep."""
    found: dict[Listener, Principal | None] = {}
    for listener in listeners:
        try:
            found[listener] = current_request(listener).mcp.principal
        except MCPError:
            found[listener] = None  # The credentials no longer hold; the sweep ends the stream.
        except BaseException as error:
            if is_outage(error):
                logger.warning("The rights to a task cannot be checked yet: %s", error)
                continue
            logger.exception("The check before a push failed; no client is notified")
            found[listener] = None
    return found
