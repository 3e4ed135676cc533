"""What is measured when one change goes to many sockets: ASGI applications that all tell every socket at ``GET /fire``.

`BENCH_FANOUT` names the one that is served: ``ours``, or what a project would write by hand.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
django.setup()

from asgiref.sync import sync_to_async  # noqa: E402
from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.layers import get_channel_layer  # noqa: E402

from demo_project.asgi import application as demo  # noqa: E402
from demo_project.flights.models import Airline  # noqa: E402
from mcp_django.core.events.bus import get_bus  # noqa: E402
from mcp_django.push.receivers import watch  # noqa: E402

Fire = Callable[[], Awaitable[None]]

#: As long as a notification of ours, with the id of a listen.
FRAME = (
    '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"db://flights/airline/UA",'
    '"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}'
)

_GROUP = "bench"


def with_fire(application: Any, fire: Fire) -> Any:
    """The application, and ``fire`` at ``/fire``, answered when it is done."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/fire":
            await fire()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        elif scope["type"] != "lifespan":
            await application(scope, receive, send)

    return served


@sync_to_async
def save() -> None:
    Airline.objects.get(pk="UA").save()


def ours() -> Any:
    """The demo: a row is saved."""
    return with_fire(demo, save)


class Sockets:
    """A bare application that accepts sockets, and can send the frame to each of them in a loop."""

    def __init__(self) -> None:
        self._sends: set[Any] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        self._sends.add(send)
        try:
            while (await receive())["type"] != "websocket.disconnect":
                pass
        finally:
            self._sends.discard(send)

    async def tell(self) -> None:
        for send in list(self._sends):
            await send({"type": "websocket.send", "text": FRAME})


def loop() -> Any:
    """The least that can be done: the row is saved, and every socket of the process is sent the frame, in a loop."""
    # Nothing of ours hears of the save.
    watch._connect()
    watch._disconnect()
    sockets = Sockets()

    async def fire() -> None:
        await save()
        await sockets.tell()

    return with_fire(sockets, fire)


def relay() -> Any:
    """The least that can be done for the changes of other processes: each event of the bus goes to every socket."""
    sockets = Sockets()
    following: list[asyncio.Task[None]] = []

    async def follow() -> None:
        async for event in get_bus().subscribe():
            if "changes" in event:
                await sockets.tell()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if not following:
            following.append(asyncio.create_task(follow()))
        await sockets(scope, receive, send)

    return with_fire(application, save)


class GroupConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """What Channels' tutorial teaches: each socket is a member of the group."""

    async def connect(self) -> None:
        await self.channel_layer.group_add(_GROUP, self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        await self.channel_layer.group_discard(_GROUP, self.channel_name)

    async def bench_event(self, event: dict[str, Any]) -> None:
        await self.send(text_data=event["frame"])


def group_send() -> Any:
    """A consumer for each socket, and one group_send of the in-memory layer."""

    async def fire() -> None:
        await get_channel_layer().group_send(_GROUP, {"type": "bench.event", "frame": FRAME})

    return with_fire(GroupConsumer.as_asgi(), fire)


application = {"ours": ours, "loop": loop, "relay": relay, "group_send": group_send}[
    os.environ.get("BENCH_FANOUT", "ours")
]()
