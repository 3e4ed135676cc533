"""What the clients of ``bench.soak`` do: each visit comes, does one thing as clients do it, and goes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore

from bench.cluster import Member
from bench.fanout import META
from demo_project.flights.models import Airline, Airport
from mcp_django.models import AccessToken, Tool
from tests.faults.subscribers import Session, Socket, Stream, Subscriber
from tests.oauth.flow import CLAUDE_CODE, LOCAL_REDIRECT, Program
from tests.support.forms import Form

_ANSWERED_SECONDS = 60.0
_TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
_AIRLINE = "db://flights/airline/UA"
_FILE_BYTES = 200_000
_OLD_REVISION = "2025-11-25"


@dataclass
class Visitor:
    """A client of one server, with a token that may do everything."""

    server: Member
    token: str
    http: httpx.AsyncClient
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def url(self) -> str:
        return f"{self.server.origin}/mcp"

    async def ask(self, method: str, params: Mapping[str, Any], token: str | None = None) -> Any:
        """The result of a request of the newest revision. Raises ValueError for an error."""
        meta = {**META, "io.modelcontextprotocol/clientCapabilities": _TASKS}
        headers = {**self._headers(token), "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if name := params.get("name") or params.get("taskId"):
            headers["Mcp-Name"] = name
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        answer = (await self.http.post(self.url, json=message, headers=headers)).json()
        if "result" not in answer:
            raise ValueError(f"{method}: {answer}")
        return answer["result"]

    async def call(self, name: str, token: str | None = None, **arguments: Any) -> Any:
        """The result of a tool: what it says as JSON, or its text. Raises ValueError where it has failed."""
        result = await self.ask("tools/call", {"name": name, "arguments": arguments}, token)
        if result.get("isError"):
            raise ValueError(f"{name}: {result}")
        return result.get("structuredContent", result)

    def _headers(self, token: str | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.token}", "Accept": "application/json, text/event-stream"}

    def happens(self) -> bool:
        """True for half of the visits."""
        return self.chance.random() < 0.5

    # Visits.

    async def listen(self) -> None:
        """A listen over HTTP, on a socket, or of a session that is left behind, until a change is heard."""
        kind: type[Subscriber] = self.chance.choice((Stream, Socket, Session))
        one = kind(1, self.server, self.token, "", [_AIRLINE])
        one.start()
        try:
            async with asyncio.timeout(_ANSWERED_SECONDS):
                await one.is_there.wait()
                while not one.heard:
                    await sync_to_async(_rename)()
                    await asyncio.sleep(0.2)
        finally:
            await one.close()
        if one.wrong:
            raise ValueError(one.wrong)

    async def session(self) -> None:
        """A session that says goodbye."""
        opening = {"protocolVersion": _OLD_REVISION, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}
        opened = await self.http.post(self.url, json=message, headers=self._headers())
        key = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": _OLD_REVISION}
        message = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": _AIRLINE}}
        subscribed = await self.http.post(self.url, json=message, headers={**self._headers(), **key})
        ended = await self.http.delete(self.url, headers={**self._headers(), **key})
        if "result" not in subscribed.json() or ended.is_error:
            raise ValueError(f"{subscribed.text} {ended}")

    async def task(self) -> None:
        """A task to its end, or cancelled."""
        begun = await self.ask("tools/call", {"name": "wait", "arguments": {"steps": 2}})
        if self.happens():
            await self.ask("tasks/cancel", {"taskId": begun["taskId"]})
        async with asyncio.timeout(_ANSWERED_SECONDS):
            while True:
                state = await self.ask("tasks/get", {"taskId": begun["taskId"]})
                if state["status"] != "working":
                    return
                await asyncio.sleep(0.5)

    async def upload(self) -> None:
        """A file that is used, and deleted or left."""
        content = self.chance.randbytes(_FILE_BYTES)
        url = f"{self.url}/upload"
        sent = await self.http.post(f"{url}?name=a.bin", content=content, headers=self._headers())
        uri = sent.raise_for_status().json()["uri"]
        digest = await self.call("digest", file=uri)
        if hashlib.sha256(content).hexdigest() not in json.dumps(digest):
            raise ValueError(digest)
        if self.chance.random() < 0.9:
            key = uri.removeprefix("upload://")
            (await self.http.delete(f"{url}/{key}", headers=self._headers())).raise_for_status()

    async def change(self) -> None:
        """A change that is confirmed, or whose preview is forgotten."""
        values = {"time_zone": f"Etc/{self.chance.random()}"}
        change: dict[str, Any] = {"model": "flights.airport", "id": "JFK", "values": values}
        preview = await self.call("update_record", **change)
        if self.happens():
            # Another change may have come between.
            await self.ask(
                "tools/call", {"name": "update_record", "arguments": {**change, "confirm": preview["confirm"]}}
            )

    async def waiting(self) -> None:
        """A delete that waits for its person, who never comes: its client asks again for the same."""
        arguments: dict[str, Any] = {"model": "flights.airline", "ids": ["XX"]}
        preview = await self.call("delete_record", **arguments)
        if "confirm" in preview:
            await self.call("delete_record", **arguments, confirm=preview["confirm"])

    async def credential(self) -> None:
        """A token that is made, used and revoked."""
        row, token = await sync_to_async(new_token)()
        await self.call("find_records", token, model="flights.airline")
        await sync_to_async(row.revoke)()

    async def grant(self) -> None:
        """A client that logs in, calls, gets its next token, and is disconnected or forgotten."""
        program = Program(CLAUDE_CODE, LOCAL_REDIRECT)
        cookie = await sync_to_async(_logged_in)()
        async with httpx.AsyncClient(timeout=_ANSWERED_SECONDS, cookies={settings.SESSION_COOKIE_NAME: cookie}) as web:
            url = f"{self.server.origin}{program.url(resource=self.url)}"
            page = await web.get(url)
            if page.status_code != 302:
                form = {**Form(page.text).hidden, "decision": "allow", "scope": "read"}
                page = await web.post(url, data=form, headers={"Referer": url})
        code = parse_qs(urlsplit(page.headers["location"]).query)["code"][0]
        common = {"client_id": program.client_id, "resource": self.url}
        asked = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": program.redirect_uri,
            "code_verifier": program.verifier, **common,
        }  # fmt: skip
        tokens = (await self.http.post(f"{self.url}/token", data=asked)).raise_for_status().json()
        await self.call("find_records", tokens["access_token"], model="flights.airline")
        asked = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **common}
        tokens = (await self.http.post(f"{self.url}/token", data=asked)).raise_for_status().json()
        await self.call("find_records", tokens["access_token"], model="flights.airline")
        if self.happens():
            await sync_to_async(_revoke)(tokens["access_token"])
        await sync_to_async(SessionStore(cookie).delete)()

    @property
    def visits(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.listen, self.session, self.task, self.upload, self.change, self.waiting, self.credential, self.grant,
        ]  # fmt: skip


def _admin() -> User:
    return User.objects.get(username="admin")


def _rename() -> None:
    Airline.objects.get(pk="UA").save()


def new_token() -> tuple[AccessToken, str]:
    return AccessToken.objects.create_token(user=_admin(), name="visit", scopes=["read"])


def visitor_token() -> str:
    """A token that may do everything."""
    scopes = ["read", "actions", "write"]
    return AccessToken.objects.create_token(user=_admin(), name="visitor", scopes=scopes)[1]


def prepare() -> None:
    """Make the rows that visits are about, and switch on the tools that they call."""
    for code in ("JFK", "EWR"):
        Airport.objects.get_or_create(faa=code, latitude=40, longitude=-73, altitude=10, utc_offset=-5, name=code)
    Airline.objects.get_or_create(carrier="XX", name="None")
    Tool.objects.update(enabled=True)


def _revoke(token: str) -> None:
    AccessToken.objects.get(hash=hashlib.sha256(token.encode()).hexdigest()).revoke()


def _logged_in() -> str:
    """The key of a session of the site in which the administrator is logged in."""
    user, store = _admin(), SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)
