"""Which clients are connected to this process, as it answers when a page of the admin asks every process.

The page asks with a nonce, each hub answers that it is there, and the page asks each of these by its id. The answer to
that is many controls, since a payload of PostgreSQL's holds only a few connections. Everything is signed. A question
that somebody has recorded and sends again gets no answer: a hub answers a nonce once, and hubs that are newer have
other ids. Nothing is stored. The answers hold names, numbers and times, and of URIs what the audit trail keeps of them.
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

from mcp_django.audit.lines import caller
from mcp_django.bridge.resources.uris import kept_uri
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind, ControlSet, sign, signed_text
from mcp_django.core.events.publisher import publisher
from mcp_django.core.running.workers import get_workers
from mcp_django.protocol.errors import Overloaded
from mcp_django.protocol.names import printable
from mcp_django.push.dropped import dropped
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
#: The nonce of a question, and the id of the hub that is asked.
_CALL = re.compile(r"([0-9a-f]{32})([0-9a-f]{16})?")

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

    #: The nonce of the question.
    to: Text
    hub: Text
    process: Text
    total: Number
    #: How many controls of the bus the process did not obey.
    dropped: Number
    #: How many connections the whole answer names, and which of them this is.
    listed: Annotated[int, Field(ge=0, le=MAX_LISTED)]
    number: Annotated[int, Field(ge=0, lt=MAX_LISTED)]
    one: ConnectedClient | None


_PART = TypeAdapter(Part)
_CLIENT = TypeAdapter(ConnectedClient)


def read(text: str) -> Part | None:
    """A part as it was signed; None for anything else."""
    if len(text) > MAX_PART_BYTES:
        return None
    try:
        return _PART.validate_json(text, strict=True)
    except ValueError:
        return None


async def answer(hub: Hub, calls: Collection[Control]) -> None:
    """Answer roll calls. A process whose workers are all busy stays silent."""
    nonces = _asked_of(hub, calls)
    if not nonces:
        return
    connections = hub.connections()
    try:
        clients = await get_workers().run(_describe_all, connections[:MAX_LISTED])
    except Overloaded:
        return
    except Exception:
        logger.exception("The connections of this process could not be described")
        return
    for nonce in nonces:
        publisher.put(Changes(), _answer(nonce, hub.id, len(connections), clients))


def _asked_of(hub: Hub, calls: Collection[Control]) -> list[str]:
    """The nonces of new questions to this hub. Whoever asks all hubs is told that this one is there."""
    signed = [_CALL.fullmatch(signed_text(control) or "") for control in calls]
    found = sorted(match.groups("") for match in signed if match is not None)
    there = [sign(ControlKind.HERE, f"{nonce}{hub.id}") for nonce, asked in found if not asked]
    if there:
        publisher.put(Changes(), ControlSet(there[:_MAX_ASKERS]))
    mine = [nonce for nonce, asked in found if asked == hub.id]
    new = [nonce for nonce in mine if nonce not in hub.answered]
    dropped.add(ControlKind.ROLL_CALL, len(calls) - len(found) + len(mine) - len(new))
    hub.answered.extend(new)
    return new[:_MAX_ASKERS]


def _answer(nonce: str, hub: str, total: int, clients: list[ConnectedClient]) -> ControlSet:
    process = f"{socket.gethostname()[:100]} {os.getpid()}"
    named: list[ConnectedClient | None] = [*clients]
    parts = [
        Part(nonce, hub, process, total, dropped.total, len(clients), number, one)
        for number, one in enumerate(named or [None])
    ]
    return ControlSet(sign(ControlKind.HERE, _PART.dump_json(part).decode()) for part in parts)


# In a worker: names are asked of classes of the project.


def _describe_all(connections: list[Connected]) -> list[ConnectedClient]:
    """As many of the connections as an answer may hold."""
    found: list[ConnectedClient] = []
    size = 0
    for one in map(_describe, connections):
        # Encoded twice, since the bus writes this JSON as a text of JSON. The rest is for the names around it.
        written = len(json.dumps(_CLIENT.dump_json(one).decode())) + 700
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
        client=client,
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
