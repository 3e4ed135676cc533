"""Which clients are connected to this process, as it answers when a page of the admin asks every process.

The question is a control with a key, which is used once. The answer is many controls, since a payload of PostgreSQL's
holds only a few connections. Nothing is stored. The answers hold names, numbers and times, and of URIs what the audit
trail keeps of them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter

from mcp_django.audit.lines import caller, chosen
from mcp_django.bridge.resources.uris import kept_uri
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind, ControlSet
from mcp_django.core.events.publisher import publisher
from mcp_django.core.running.workers import get_workers
from mcp_django.protocol.errors import Overloaded
from mcp_django.protocol.names import printable
from mcp_django.push.listeners import Listener

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub, Member

logger = logging.getLogger("mcp_django")

#: A process names at most so many connections, the newest.
MAX_LISTED = 200
#: The size of one control, as the bus writes it, and of all that answer one question.
MAX_PART_BYTES, _MAX_ANSWER_BYTES = 6_000, 100_000
#: At most so many questions that come together are answered.
_MAX_ASKERS = 5
#: URIs of a connection that are named.
_NAMED_URIS = 3
_MAX_TEXT = 200
_KEY = re.compile(r"[0-9a-f]{32}")

#: The members of one connection, with the times when they came.
Connected = list[tuple["Member", float]]

Text = Annotated[str, Field(max_length=_MAX_TEXT)]
Number = Annotated[int, Field(ge=0, lt=2**31)]
#: In seconds since 1970.
Moment = Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]


@dataclass(frozen=True)
class ConnectedClient:
    """One connection, as people see it."""

    client: Text
    user: Text
    token: Text
    token_ends_in: Text
    transport: Text
    since: Moment
    #: How many resources, lists and tasks it watches, and the first of the resources.
    watches: Number
    uris: Annotated[tuple[Text, ...], Field(max_length=_NAMED_URIS)]
    told_at: Moment | None


@dataclass(frozen=True)
class Part:
    """A part of the answer of a hub, with one of its connections, or with none if it has none."""

    #: The key of the question.
    to: Text
    hub: Text
    process: Text
    total: Number
    #: How many connections the whole answer names, and which of them this is.
    listed: Annotated[int, Field(ge=0, le=MAX_LISTED)]
    number: Annotated[int, Field(ge=0, lt=MAX_LISTED)]
    one: ConnectedClient | None


_PART = TypeAdapter(Part)
_CLIENT = TypeAdapter(ConnectedClient)


def read(text: str) -> Part | None:
    """A part as it came over the bus; None for anything else."""
    if len(text) > MAX_PART_BYTES:
        return None
    try:
        return _PART.validate_json(text, strict=True)
    except ValueError:
        return None


async def answer(hub: Hub, askers: Collection[str]) -> None:
    """Answer the questions with these keys. A process whose workers are all busy stays silent."""
    keys = sorted(key for key in askers if _KEY.fullmatch(key))[:_MAX_ASKERS]
    connections = hub.connections()
    try:
        clients = await get_workers().run(_describe_all, connections[:MAX_LISTED])
    except Overloaded:
        return
    except Exception:
        logger.exception("The connections of this process could not be described")
        return
    for key in keys:
        publisher.put(Changes(), _answer(key, hub.id, len(connections), clients))


def _answer(key: str, hub: str, total: int, clients: list[ConnectedClient]) -> ControlSet:
    process = f"{socket.gethostname()[:100]} {os.getpid()}"
    named: list[ConnectedClient | None] = [*clients]
    parts = [
        Part(key, hub, process, total, len(clients), number, one) for number, one in enumerate(named or [None])
    ]  # fmt: skip
    return ControlSet(Control(ControlKind.HERE, _PART.dump_json(part).decode()) for part in parts)


# In a worker: names are asked of classes of the project.


def _describe_all(connections: list[Connected]) -> list[ConnectedClient]:
    """As many of the connections as an answer may hold."""
    found: list[ConnectedClient] = []
    size = 0
    for one in map(_describe, connections):
        # Encoded twice, since the bus writes this JSON as a text of JSON. The rest is for the names around it.
        written = len(json.dumps(_CLIENT.dump_json(one).decode())) + 600
        size += written
        if size > _MAX_ANSWER_BYTES:
            break
        if written <= MAX_PART_BYTES:
            found.append(one)
    return found


def _describe(members: Connected) -> ConnectedClient:
    listeners = [member for member, _ in members if isinstance(member, Listener)]
    principal = members[0][0].principal
    named = caller(principal)
    client = next(filter(None, (listener.client_name for listener in listeners)), "")
    told = [told_at for listener in listeners if (told_at := listener.told_at) is not None]
    return ConnectedClient(
        client=chosen(client),
        user=str(named.get("user_name", ""))[:_MAX_TEXT],
        token=str(named.get("token_name", ""))[:_MAX_TEXT],
        token_ends_in=principal.auth.last_chars if principal.token_id is not None else "",
        transport=next(filter(None, (member.transport for member, _ in members)), ""),
        since=min(since for _, since in members),
        watches=sum(len(one.subscriptions) + len(one.lists) + len(one.tasks) for one in listeners),
        uris=tuple(_uris(listeners)),
        told_at=max(told, default=None),
    )


def _uris(listeners: list[Listener]) -> Iterator[str]:
    """What is shown of the first URIs that are watched."""
    watched = ((listener.site, uri) for listener in listeners for uri in list(listener.subscriptions))
    for (site, uri), _ in zip(watched, range(_NAMED_URIS), strict=False):
        yield printable(kept_uri(site, uri))[:_MAX_TEXT]
