"""What there is to tell of watched tasks: asked in a worker, of the database, which every process writes to."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils import timezone

from mcp_django.db.outages import is_outage
from mcp_django.models import Task
from mcp_django.protocol.errors import MCPError
from mcp_django.push.listeners import Listener
from mcp_django.push.visibility import current_request
from mcp_django.tasks import store
from mcp_django.tasks.shapes import detailed
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal


logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class News:
    """A task that a listener is to be told of. ``task`` is None for one that nothing more will be told of."""

    listener: Listener
    key: str
    changed_at: datetime | None
    task: JSON | None
    is_last: bool

    def is_older_than(self, told: datetime | None) -> bool:
        """Whether something newer was told meanwhile."""
        return told is not None and self.changed_at is not None and self.changed_at < told


def news(listeners: Collection[Listener], keys: Collection[str]) -> list[News]:
    """What the listeners were not told yet of those of the tasks that they watch."""
    watched = [
        (listener, key, told) for listener in listeners for key, told in list(listener.tasks.items()) if key in keys
    ]
    stand = _stand({key for _, key, _ in watched})
    changed = [(listener, key) for listener, key, told in watched if key in stand and stand[key] != told]
    gone = [News(listener, key, None, None, True) for listener, key, _ in watched if key not in stand]
    return gone + _told(changed)


def _stand(keys: Collection[str]) -> dict[str, datetime]:
    """When each of the tasks last changed. A task whose worker is gone changes now."""
    now = timezone.now()
    tasks = Task.objects.filter(pk__in=keys, expires_at__gt=now)
    for key, run in tasks.filter(state=Task.State.RUNNING, lease_until__lte=now).values_list("key", "run"):
        store.lose(key, run)
    return dict(tasks.values_list("key", "updated_at"))


def _told(changed: Iterable[tuple[Listener, str]]) -> list[News]:
    rows = {task.key: task for task in Task.objects.filter(pk__in={key for _, key in changed})}
    shapes = {key: detailed(task) for key, task in rows.items()}
    principals = _principals({listener for listener, _ in changed})
    found = []
    for listener, key in changed:
        task = rows.get(key)
        if task is not None and listener in principals:
            principal = principals[listener]
            may_see = principal is not None and store.is_of(task, listener.site, principal)
            is_last = task.state in store.ENDED
            found.append(News(listener, key, task.updated_at, shapes[key] if may_see else None, is_last))
    return found


def _principals(listeners: Iterable[Listener]) -> dict[Listener, Principal | None]:
    """Each with its principal, as its credentials give it now. Absent: a database is away, and the sweep asks again."""
    found: dict[Listener, Principal | None] = {}
    for listener in listeners:
        try:
            found[listener] = current_request(listener).mcp
        except MCPError:
            found[listener] = None  # The credentials no longer hold; the sweep ends the stream.
        except BaseException as error:
            if is_outage(error):
                logger.warning("Who is told of a task cannot be found out yet: %s", error)
                continue
            logger.exception("The check before a push failed; nobody is told")
            found[listener] = None
    return found
