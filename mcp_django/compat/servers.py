"""What lies below an ASGI ``send``, and how each server learns of its end: of this ASGI says nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

#: How many objects lie between an application and the transport at most, in hypercorn.
_DEPTH = 4


def transport_below(send: Any) -> Any:
    """The transport that an ASGI server's ``send`` writes to, of asyncio or of Twisted; None: it cannot be seen.

    Private: the protocols of uvicorn and of Daphne, whose ``send`` is a method of one or a ``partial`` on it; the
    streams of hypercorn below each other. Seen with: uvicorn 0.54, Daphne 4.2, hypercorn 0.18. Public way: none.
    """
    if isinstance(send, partial):
        # Daphne: the protocol of a socket, or a request of a channel.
        protocol = send.args[0] if send.args else None
        transport = getattr(getattr(protocol, "channel", protocol), "transport", None)
        return transport if hasattr(transport, "abortConnection") else None
    holder = getattr(send, "__self__", None)
    for _ in range(_DEPTH):
        # uvicorn's protocols hold it, and at the bottom of hypercorn a stream's writer does.
        transport = getattr(getattr(holder, "writer", holder), "transport", None)
        if hasattr(transport, "get_write_buffer_size"):
            return transport
        holder = getattr(getattr(holder, "send", None), "__self__", None)
        if type(holder).__name__ == "H2Protocol":
            return None  # It carries the streams of other requests too.
    return None


def is_twisted(transport: Any) -> bool:
    """Whether a transport is one of Twisted's, as Daphne has them, and none of asyncio's.

    Private: nothing; ``abortConnection`` is Twisted's name. Seen with: Twisted 26.10. Public way: ``ITCPTransport``,
    for which Twisted would have to be imported.
    """
    return hasattr(transport, "abortConnection")


def bears_end_by_system(send: Any) -> bool:
    """Whether the server bears that the system ends a connection: hypercorn takes it for a defect of its own.

    Private: uvicorn's ``send`` is a method of what holds the transport. Seen with: uvicorn 0.54. Public way: none.
    """
    return getattr(getattr(send, "__self__", None), "transport", None) is not None


def unsent_by_twisted(transport: Any) -> int:
    """The bytes that wait in a transport of Twisted's.

    Private: ``dataBuffer``, ``offset`` and ``_tempDataLen`` of ``twisted.internet.abstract.FileDescriptor``. Seen with:
    Twisted 26.10. Public way: to register as a producer, which Twisted's HTTP channel has done already.
    """
    if getattr(transport, "disconnected", False):
        return 0
    below = getattr(transport, "transport", transport)  # That of TLS lies on another.
    waiting = len(getattr(below, "dataBuffer", b"")) - getattr(below, "offset", 0)
    return int(waiting + getattr(below, "_tempDataLen", 0))


def ends_of_hypercorn(loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    """The events that hypercorn's workers on the loop set when they end: it ends idle connections by them.

    Private: ``context.terminated`` in the frame of ``hypercorn.asyncio.run.worker_serve``. Seen with: hypercorn 0.18.
    Public way: none; workers get no signal, and ``lifespan.shutdown`` comes when the connections have ended.
    """
    if "hypercorn.asyncio.run" not in sys.modules:
        return
    for task in asyncio.all_tasks(loop):
        waiting: Any = task.get_coro()
        while waiting is not None:
            frame = getattr(waiting, "cr_frame", None)
            if frame is not None and frame.f_code.co_name == "worker_serve":
                terminated = getattr(frame.f_locals.get("context"), "terminated", None)
                if terminated is not None:
                    yield terminated
            waiting = getattr(waiting, "cr_await", None)


def signal_handler(loop: asyncio.AbstractEventLoop, number: int) -> Callable[[], Any] | None:
    """What ``loop.add_signal_handler`` was given for a signal, ready to be called; None: nothing.

    Private: ``_signal_handlers`` of asyncio's loops, and ``Handle._run``. Seen with: Python 3.11, 3.12, 3.13. Public
    way: none.
    """
    handle = getattr(loop, "_signal_handlers", {}).get(number)
    return None if handle is None else handle._run


def twisted_reactor() -> Any:
    """The reactor that Daphne runs on; None in a process that Daphne does not serve.

    Private: ``daphne.server`` installs the reactor when it is imported. Seen with: Daphne 4.2, Twisted 26.10. Public
    way: ``from twisted.internet import reactor``, which would install one where there is none.
    """
    if "daphne.server" not in sys.modules:
        return None
    return getattr(sys.modules.get("twisted.internet"), "reactor", None)
