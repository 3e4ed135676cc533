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


class Wire(httpx2.AsyncHTTPTransport):
    """The way to the server, on which an answer can get lost."""

    loses_tokens = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if self.loses_tokens and request.url.path.endswith("/token"):
            self.loses_tokens = False
            await response.aread()
            raise httpx2.ReadError("the answer was lost")
        return response


class Program:
    """A connection that logs in as needed."""

    def __init__(self, job: dict[str, Any], stack: AsyncExitStack, loopback: Loopback, redirect_uri: str) -> None:
        self.job, self.stack, self.loopback = job, stack, loopback
        self.wire = Wire()
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
        http_client = httpx2.AsyncClient(auth=self.provider, timeout=SECONDS, transport=self.wire)
        await self.stack.enter_async_context(http_client)
        transport = streamable_http_client(self.job["url"], http_client=http_client)
        client = Client(transport, mode=self.job["mode"], read_timeout_seconds=SECONDS)
        return await self.stack.enter_async_context(client)

    async def call(self) -> str:
        return await self._call(self.job["tool"], self.job["arguments"])

    async def act(self) -> str:
        """As ``call``, of a tool that changes data."""
        return await self._call(self.job["action"], self.job["action_arguments"])

    async def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        if self.client is None:
            self.client = await self.connect()
        result = await self.client.call_tool(tool, arguments)
        return str(result.content[0].text)  # type: ignore[union-attr]

    def end_hour(self) -> None:
        """What an hour does: the client counts the seconds of its token."""
        self.provider.context.token_expiry_time = time.time() - 1

    def go_back(self) -> None:
        """Have the tokens that came before the last ones, as one that has kept old ones."""
        self.storage.all_tokens.pop()
        self.provider.context.current_tokens = self.storage.all_tokens[-1]

    async def call_late(self, *, loses_tokens: bool = False) -> str:
        """As ``call``, when the hour is over, on a connection of its own, which ends with an answer that gets lost."""
        self.end_hour()
        self.wire.loses_tokens = loses_tokens
        try:
            async with AsyncExitStack() as self.stack:
                return await self.call()
        except ExceptionGroup as error:
            return f"failed: {error.exceptions[0]}"

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
        case "act":
            return [await program.act()]
        case "late":
            program.end_hour()
        case "back":
            program.go_back()
        case "copies":
            return await asyncio.gather(*(program.copy().call_late() for _ in range(COPIES)))
        case "lose":
            return [await program.copy().call_late(loses_tokens=True), await program.copy().call_late()]
    return []


async def main() -> None:
    async with AsyncExitStack() as stack:
        loopback = Loopback()
        program = Program(json.loads(sys.argv[1]), stack, loopback, await loopback.open(stack))
        while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
            say(texts=await obey(order, program))


asyncio.run(main())
