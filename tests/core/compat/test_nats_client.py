"""The client of nats-py asks for the server's word on TLS where ``make_client`` looks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from nats.errors import Error

from mcp_django.core.compat.nats_client import make_client

INFO = b'INFO {"server_id":"x","version":"2.9.10","max_payload":1048576}\r\n'


def test_make_client_says_nothing_to_a_server_without_tls_whose_url_asks_for_it() -> None:
    told: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        told.append(await reader.readline())
        writer.close()

    async def connect(scheme: str) -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client: Any = make_client()
            given = {"user": "me", "password": "pw", "allow_reconnect": False, "error_cb": ignore}
            with suppress(Error):
                await client.connect(f"{scheme}://127.0.0.1:{port}", **given)
            await client.close()

    async def ignore(problem: Exception) -> None:
        pass

    for scheme in ("tls", "nats"):
        asyncio.run(asyncio.wait_for(connect(scheme), 60))

    assert [line.startswith(b"CONNECT ") for line in told] == [False, True]
