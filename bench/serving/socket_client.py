"""Sends a message on many sockets, each time the last one was answered. In an environment of its own.

Its arguments: the URL, how many sockets, for how many seconds, the message, and what is sent before it, if anything.
Prints how many messages were answered, and in how many seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect


class Client(WSListener):  # type: ignore[misc]
    answered = 0
    is_open = True

    def __init__(self, message: bytes, opening: bytes) -> None:
        self._message = message
        self._opening = opening

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        transport.send(WSMsgType.TEXT, self._opening or self._message)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self.answered += 1
            if self.is_open:
                transport.send(WSMsgType.TEXT, self._message)


async def main(url: str, sockets: int, seconds: float, message: bytes, opening: bytes) -> None:
    clients = []
    for _ in range(sockets):
        _, client = await ws_connect(lambda: Client(message, opening), url)
        clients.append(client)
    before, started = sum(client.answered for client in clients), time.perf_counter()
    await asyncio.sleep(seconds)
    answered, taken = sum(client.answered for client in clients) - before, time.perf_counter() - started
    for client in clients:
        client.is_open = False
        client.transport.disconnect()
    print(answered, taken)


if __name__ == "__main__":
    _, _url, _sockets, _seconds, _message, _opening = sys.argv
    uvloop.run(main(_url, int(_sockets), float(_seconds), _message.encode(), _opening.encode()))
