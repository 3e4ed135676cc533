"""A program that logs in with ``OAuthClientProvider`` of the official Python SDK 2, knowing nothing but the URL.

Takes a job as JSON in its one argument, and orders on stdin, a line for each. Writes lines of JSON: where its person
has to go, and the texts that an order gave.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import warnings
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

SECONDS = 60
COPIES = 5

# Sessions have to go some day: we know.
warnings.simplefilter("ignore")


def say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


class Storage:
    """What a program keeps, until it ends."""

    def __init__(self) -> None:
        self.all_tokens: list[OAuthToken] = []
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.all_tokens[-1] if self.all_tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.all_tokens.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Loopback:
    """Where the program waits for its person to come back."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def open(self, stack: AsyncExitStack) -> str:
        server = await stack.enter_async_context(await asyncio.start_server(self._answer, "127.0.0.1", 0))
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        query = parse_qs(urlsplit(request.split()[1]).query)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nBack.")
        await writer.drain()
        writer.close()
        await self.answers.put({name: value for name, [value] in query.items()})


class Program:
    """A connection that logs in as needed."""

    def __init__(self, job: dict[str, Any], stack: AsyncExitStack, loopback: Loopback, redirect_uri: str) -> None:
        self.job, self.stack, self.loopback = job, stack, loopback
        self.storage = Storage()
        self.provider = OAuthClientProvider(
            job["url"],
            OAuthClientMetadata(client_name="Python", redirect_uris=[redirect_uri]),  # type: ignore[list-item]
            self.storage,
            redirect_handler=self.send_person,
            callback_handler=self.meet_person,
            client_metadata_url=job["document"] or None,
        )
        self.redirect_uri = redirect_uri
        self.client: Client | None = None

    async def send_person(self, url: str) -> None:
        say(visit=url)

    async def meet_person(self) -> AuthorizationCodeResult:
        answer = await asyncio.wait_for(self.loopback.answers.get(), SECONDS)
        return AuthorizationCodeResult(code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss"))

    async def connect(self) -> Client:
        http_client = await self.stack.enter_async_context(httpx2.AsyncClient(auth=self.provider, timeout=SECONDS))
        transport = streamable_http_client(self.job["url"], http_client=http_client)
        client = Client(transport, mode=self.job["mode"], read_timeout_seconds=SECONDS)
        return await self.stack.enter_async_context(client)

    async def call(self) -> str:
        if self.client is None:
            self.client = await self.connect()
        result = await self.client.call_tool(self.job["tool"], self.job["arguments"])
        [content] = result.content
        return str(content.text)  # type: ignore[union-attr]

    def end_hour(self) -> None:
        """What an hour does: the client counts the seconds of its token."""
        self.provider.context.token_expiry_time = time.time() - 1

    def forget_answer(self) -> None:
        """Have the tokens that came before the last ones, as if these had got lost on their way."""
        self.storage.all_tokens.pop()
        self.provider.context.current_tokens = self.storage.all_tokens[-1]

    def copy(self) -> Program:
        """Another program that shares all that this one knows."""
        made = Program(self.job, self.stack, self.loopback, self.redirect_uri)
        made.storage.all_tokens = list(self.storage.all_tokens)
        made.storage.client = self.storage.client
        made.provider.context.oauth_metadata = self.provider.context.oauth_metadata
        made.provider.context.protected_resource_metadata = self.provider.context.protected_resource_metadata
        return made


async def obey(order: str, program: Program) -> list[str]:
    match order:
        case "call":
            return [await program.call()]
        case "late":
            program.end_hour()
        case "lost":
            program.forget_answer()
        case "copies":
            copies = [program.copy() for _ in range(COPIES)]
            for copy in copies:
                # One after the other, since the blocks that hold connections are left in the order of a stack.
                copy.client = await copy.connect()
            for copy in copies:
                copy.end_hour()
            return await asyncio.gather(*(copy.call() for copy in copies))
    return []


async def main() -> None:
    async with AsyncExitStack() as stack:
        loopback = Loopback()
        program = Program(json.loads(sys.argv[1]), stack, loopback, await loopback.open(stack))
        while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
            say(texts=await obey(order, program))


asyncio.run(main())
