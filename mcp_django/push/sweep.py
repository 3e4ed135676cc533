"""The sweep: compares what is open with the database, for everything that no control reports or that was lost."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from mcp_django.bridge.uploads import upload_rows
from mcp_django.conf import get_conf
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.core.running.workers import get_workers
from mcp_django.protocol.errors import Overloaded
from mcp_django.push import credentials, task_watch

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub

logger = logging.getLogger("mcp_django")

#: How often expired uploads are looked for.
_UPLOADS_SECONDS = 300.0


async def sweep(hub: Hub) -> None:
    """Compare a hub with the database, for ever."""
    turn = 0
    while True:
        await asyncio.sleep(get_conf().SWEEP_SECONDS)
        turn += 1
        for work in (
            partial(hub.waiters.look, turn),
            partial(look_at_tasks, hub),
            partial(compare, hub, turn),
            partial(clear_uploads, turn),
        ):
            try:
                await work()
            except Overloaded:
                pass
            except asyncio.CancelledError:
                # Something that was awaited may have been cancelled, and not the sweep. Without the sweep a revoked
                # token would end no stream.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            except Exception:
                logger.exception("What is open could not be compared with the database; trying again")


async def look_at_tasks(hub: Hub) -> None:
    """Notify the clients of watched tasks whose changes no control reported."""
    await task_watch.notify(hub, {key for listener in hub.listeners() for key in listener.tasks})


async def clear_uploads(turn: int) -> None:
    """Delete uploads that have expired, once in _UPLOADS_SECONDS."""
    if turn % round(_UPLOADS_SECONDS / min(max(get_conf().SWEEP_SECONDS, 0.1), _UPLOADS_SECONDS)) == 0:
        await get_workers().run(upload_rows.sweep)


async def compare(hub: Hub, turn: int) -> None:
    """End the streams and sockets whose token, user or session is over, and reload those of changed sessions.

    Clients whose credential was lent a scope, or has one no longer, are notified of changed lists.
    """
    members = hub.members()
    if not members:
        return
    hub.lists.sweep()
    for listener in [listener for listener in hub.listeners() if listener.is_overdue()]:
        hub.remove(listener)
        # Should its stream begin after all, it ends at once: it would get no notification any more.
        listener.close()
    found = await get_workers().run(credentials.compared, members, turn)
    for member in found.ended:
        hub.end(member)
    for member, paused in found.paused:
        member.pause(paused)
    paused_now = {member for member, _ in found.paused}
    for listener in hub.listeners():
        if listener.is_held and listener not in paused_now:
            listener.let_go_on()
    # No process has a timer for the end of what is lent: lists and live answers are looked at again once it is seen.
    moved = credentials.changed_rights(members, hub.lent, found)
    hub.lent = found.lent
    if moved:
        hub.receive(Changes(), moved)
    # The hub reads them again, in the order of its events: what was read here may be older than a control.
    stale = {
        listener.session_name
        for listener, uris in found.sessions.items()
        if listener.is_settled and uris != set(listener.subscriptions)
    }
    if stale:
        hub.receive(Changes(), [Control(ControlKind.STALE_SESSION, name) for name in stale if name is not None])
