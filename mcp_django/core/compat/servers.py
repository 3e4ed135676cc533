"""The transport below an ASGI ``send``, and the signs of a server's shutdown, which ASGI does not specify."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

#: The most objects between an application and the transport, which are those of hypercorn.
_DEPTH = 4


def transport_below(send: Any) -> Any:
    """The transport of asyncio or Twisted that an ASGI server's ``send`` writes to. None if it cannot be found.

    Private: the protocols of uvicorn and of Daphne, whose ``send`` is a method of one or a ``partial`` on it; the chain
    of hypercorn's streams. Seen with: uvicorn 0.54, Daphne 4.2, hypercorn 0.18. Public way: none.
    """
    if isinstance(send, partial):
        # In Daphne it is the protocol of a socket, or a request with a channel.
        protocol = send.args[0] if send.args else None
        transport = getattr(getattr(protocol, "channel", protocol), "transport", None)
        return transport if hasattr(transport, "abortConnection") else None
    holder = getattr(send, "__self__", None)
    for _ in range(_DEPTH):
        # In uvicorn the protocol has it. In hypercorn the writer of the lowest stream has it.
        transport = getattr(getattr(holder, "writer", holder), "transport", None)
        if hasattr(transport, "get_write_buffer_size"):
            return transport
        holder = getattr(getattr(holder, "send", None), "__self__", None)
        if type(holder).__name__ == "H2Protocol":
            return None  # An HTTP/2 connection carries other requests too.
    return None


def is_twisted(transport: Any) -> bool:
    """Whether a transport is Twisted's, which Daphne uses, and not asyncio's.

    Private: nothing; ``abortConnection`` is Twisted's name. Seen with: Twisted 26.10. Public way: ``ITCPTransport``,
    which would need an import of Twisted.
    """
    return hasattr(transport, "abortConnection")


def bears_end_by_system(send: Any) -> bool:
    """Whether the server tolerates that the system ends a connection. Hypercorn treats that as its own failure.

    Private: uvicorn's ``send`` is a method of the object that has the transport. Seen with: uvicorn 0.54. Public way:
    none.
    """
    return getattr(getattr(send, "__self__", None), "transport", None) is not None


def end_handshake(send: Any) -> None:
    """Tell uvicorn that a socket was answered by HTTP. Otherwise it logs as an error that its handshake is missing.

    Private: ``handshake_complete`` of the protocol ``WebSocketsSansIOProtocol``, which ``send`` is a method of. Seen
    with: uvicorn 0.54. Public way: none.
    """
    protocol = getattr(send, "__self__", None)
    if type(protocol).__name__ == "WebSocketsSansIOProtocol":
        protocol.handshake_complete = True  # type: ignore[union-attr]


def unsent_by_twisted(transport: Any) -> int:
    """The number of bytes that wait in a transport of Twisted.

    Private: ``dataBuffer``, ``offset`` and ``_tempDataLen`` of ``twisted.internet.abstract.FileDescriptor``. Seen with:
    Twisted 26.10. Public way: to register as a producer, but Twisted's HTTP channel is one already.
    """
    if getattr(transport, "disconnected", False):
        return 0
    below = getattr(transport, "transport", transport)  # A TLS transport wraps another one.
    waiting = len(getattr(below, "dataBuffer", b"")) - getattr(below, "offset", 0)
    return int(waiting + getattr(below, "_tempDataLen", 0))


def ends_of_hypercorn(loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    """The events that hypercorn's workers on the loop set at their shutdown, to end idle connections.

    Private: ``context.terminated`` in the frame of ``hypercorn.asyncio.run.worker_serve``. Seen with: hypercorn 0.18.
    Public way: none; workers get no signal, and ``lifespan.shutdown`` is sent only after the connections have ended.
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
    """The handler that ``loop.add_signal_handler`` has set for a signal, ready to be called. None if there is none.

    Private: ``_signal_handlers`` of asyncio's loops, and ``Handle._run``. Seen with: Python 3.11 to 3.14. Public way:
    none.
    """
    handle = getattr(loop, "_signal_handlers", {}).get(number)
    return None if handle is None else handle._run


def twisted_reactor() -> Any:
    """The reactor of Twisted that Daphne runs on. None in a process without Daphne.

    Private: ``daphne.server`` installs the reactor when it is imported. Seen with: Daphne 4.2, Twisted 26.10. Public
    way: ``from twisted.internet import reactor``, which would install a reactor if there is none.
    """
    if "daphne.server" not in sys.modules:
        return None
    return getattr(sys.modules.get("twisted.internet"), "reactor", None)
