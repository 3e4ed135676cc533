"""A process that calls a server on many connections, each as soon as its last call was answered.

It reads a JSON line: the port, the number of connections, and the tokens to use in turn. Without tokens each call has a
new one that nobody knows. It prints ``{"ready": true}`` once every connection was answered, and when its input ends,
how many answers had which status. A refusal in an answer of status 200 counts as ``refused``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from mcp_django.exchange.token_format import new_token

_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "find_records", "arguments": {"model": "flights.flight"}},
}
BODY = json.dumps(_CALL).encode()


def request(token: str) -> bytes:
    """A call of find_records, as curl sends it."""
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    return head.encode() + BODY


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    lengths = [int(line.partition(":")[2]) for line in head if line.lower().startswith("content-length:")]
    return int(head[0].split()[1]), await reader.readexactly(lengths[0])


class Hammer:
    def __init__(self, port: int, connections: int, tokens: Sequence[str]) -> None:
        self._port = port
        self._connections = connections
        self._tokens: Iterator[str] = itertools.cycle(tokens) if tokens else iter(new_token, None)
        self.statuses: Counter[str] = Counter()
        self._answered: set[int] = set()
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Call until the input of the process ends."""
        calling = [asyncio.create_task(self._call(number)) for number in range(self._connections)]
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait([ready, *calling], return_when=asyncio.FIRST_COMPLETED)
        say(ready=self._ready.is_set())
        await asyncio.to_thread(sys.stdin.read)
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)

    async def _call(self, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while True:
            writer.write(request(next(self._tokens)))
            status, body = await answer(reader)
            self.statuses["refused" if status == 200 and b'"error"' in body else str(status)] += 1
            self._answered.add(number)
            if len(self._answered) == self._connections:
                self._ready.set()


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def main() -> None:
    given = json.loads(sys.stdin.readline())
    hammer = Hammer(given["port"], given["connections"], given["tokens"])
    await hammer.run()
    say(statuses=hammer.statuses)


if __name__ == "__main__":
    asyncio.run(main())
