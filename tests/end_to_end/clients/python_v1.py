"""A conversation through ``ClientSession`` of the official Python SDK 1.x, any version from 1.6 on.

Takes a job as JSON in its one argument, and writes what it saw as JSON; run by the interpreter that has the version.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import sys
import urllib.request
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from mcp import types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

SECONDS = 60


async def connect(job: dict[str, Any], stack: AsyncExitStack) -> Any:
    """The streams of the transport."""
    headers = {"Authorization": f"Bearer {job['token']}"}
    match job["transport"]:
        case "stdio":
            command, *arguments = job["command"]
            server = StdioServerParameters(command=command, args=arguments, env=job["env"])
            return await stack.enter_async_context(stdio_client(server))
        case "sse":
            return await stack.enter_async_context(sse_client(job["url"], headers=headers))
        case "websocket":
            from mcp.client.websocket import websocket_client

            # It can set no header: the token goes as the password of the URL.
            url = job["url"].replace("ws://", f"ws://agent:{job['token']}@")
            return await stack.enter_async_context(websocket_client(url))
    from mcp.client import streamable_http

    if hasattr(streamable_http, "streamable_http_client"):
        import httpx

        http_client = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=SECONDS))
        transport = streamable_http.streamable_http_client(job["url"], http_client=http_client)
    else:
        transport = streamable_http.streamablehttp_client(job["url"], headers=headers)
    return (await stack.enter_async_context(transport))[:2]


class Host:
    """What stands around the client: its user, its model, its folders, and its eyes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.logged: list[Any] = []
        self.progress: list[list[Any]] = []
        self.counted = asyncio.Event()
        self.told: asyncio.Queue[str] = asyncio.Queue()

    def callbacks(self) -> dict[str, Any]:
        """Those that this version of the SDK knows."""
        known = inspect.signature(ClientSession).parameters
        offered = {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.list_roots,
            "logging_callback": self.log,
            "message_handler": self.take,
        }
        return {name: callback for name, callback in offered.items() if name in known}

    async def sample(self, context: Any, params: Any) -> Any:
        [message] = params.messages
        self.asked.append(message.content.text)
        content = types.TextContent(type="text", text="Bonjour")
        return types.CreateMessageResult(role="assistant", content=content, model="parrot", stopReason="endTurn")

    async def elicit(self, context: Any, params: Any) -> Any:
        self.asked.append(f"{params.message} {list(params.requestedSchema['properties'])}")
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def list_roots(self, context: Any) -> Any:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])

    async def log(self, params: Any) -> None:
        self.logged.append([params.level, params.logger, params.data])

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append([progress, total, message])
        if progress == total:
            self.counted.set()

    async def take(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        notification = getattr(message, "root", None)
        if isinstance(notification, types.ResourceUpdatedNotification):
            await self.told.put(str(notification.params.uri))
        elif isinstance(notification, types.ProgressNotification):
            # Only where the SDK has no callback for it.
            params = notification.params
            if params.progressToken == "by hand":
                await self.on_progress(params.progress, params.total, None)


class Talk:
    """A session, and what is asked in it."""

    def __init__(self, session: ClientSession, host: Host) -> None:
        self.session = session
        self.host = host

    async def call(self, name: str, **arguments: Any) -> list[Any]:
        """Whether it is an error, and the text."""
        result = await self.session.call_tool(name, arguments)
        [content] = result.content
        return [bool(result.isError), content.text]

    async def told_call(self, name: str, **arguments: Any) -> Any:
        """The result of a call whose progress is told."""
        if "progress_callback" in inspect.signature(self.session.call_tool).parameters:
            return await self.session.call_tool(name, arguments, progress_callback=self.host.on_progress)
        meta = types.RequestParams.Meta(progressToken="by hand")
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta)
        request = types.ClientRequest(types.CallToolRequest(method="tools/call", params=params))
        return await self.session.send_request(request, types.CallToolResult)

    async def call_with_progress(self, name: str, **arguments: Any) -> list[Any]:
        result = await self.told_call(name, **arguments)
        [content] = result.content
        return [bool(result.isError), content.text]

    async def close_when_counted(self, ticket: int) -> list[Any]:
        await self.host.counted.wait()
        return await self.call("desk_ticket_close", ids=[ticket])

    async def read(self, uri: str) -> str:
        [contents] = (await self.session.read_resource(AnyUrl(uri))).contents
        return contents.text

    async def told_of(self, uri: str, job: dict[str, Any]) -> str:
        await self.session.subscribe_resource(AnyUrl(uri))
        await asyncio.to_thread(change_elsewhere, job)
        told = await asyncio.wait_for(self.host.told.get(), SECONDS)
        await self.session.unsubscribe_resource(AnyUrl(uri))
        return told


async def converse(job: dict[str, Any]) -> dict[str, Any]:
    host = Host()
    async with AsyncExitStack() as stack:
        streams = await connect(job, stack)
        seconds = timedelta(seconds=SECONDS)
        session = await stack.enter_async_context(
            ClientSession(*streams, read_timeout_seconds=seconds, **host.callbacks())
        )
        talk = Talk(session, host)
        tasks = {"all": see_all, "stateless": see_what_needs_no_session, "large": see_large}
        return await tasks[job["task"]](job, talk)


async def see_what_needs_no_session(job: dict[str, Any], talk: Talk) -> dict[str, Any]:
    session = talk.session
    own = f"db://desk/ticket/{job['own']}"
    opened = await session.initialize()
    seen: dict[str, Any] = {
        "server": [opened.serverInfo.name, opened.serverInfo.version],
        "revision": opened.protocolVersion,
        "tools": [tool.name for tool in (await session.list_tools()).tools],
        "resources": [str(resource.uri) for resource in (await session.list_resources()).resources],
        "templates": [template.uriTemplate for template in (await session.list_resource_templates()).resourceTemplates],
        "prompts": [prompt.name for prompt in (await session.list_prompts()).prompts],
    }
    [message] = (await session.get_prompt("reply", {"ticket": str(job["own"]), "tone": "long"})).messages
    seen["prompt"] = message.content.text
    reference = types.PromptReference(type="ref/prompt", name="reply")
    completed = await session.complete(reference, {"name": "tone", "value": "l"})
    seen["completed"] = completed.completion.values
    seen["record"] = json.loads(await talk.read(own))
    seen["rules"] = await talk.read("desk://rules")
    seen["card"] = await talk.read(f"desk://tickets/{job['own']}/card")
    seen["found"] = await talk.call("find_records", model="desk.ticket", filter={"id": job["own"]})
    seen["refused"] = await talk.call("find_records", model="desk.tickte")
    try:
        await talk.call("no_such_tool")
    except McpError as error:
        seen["unknown"] = [error.error.code, error.error.message]
    try:
        await talk.read("db://desk/ticket/0")
    except McpError as error:
        seen["absent"] = [error.error.code, error.error.message]
    seen["too large"] = await talk.call("letter", size=5_000_000)
    seen["done"] = await talk.call("file_away", lines=100_000)
    return seen


async def see_all(job: dict[str, Any], talk: Talk) -> dict[str, Any]:
    session, host = talk.session, talk.host
    own, watched = f"db://desk/ticket/{job['own']}", f"db://desk/ticket/{job['watched']}"
    seen = await see_what_needs_no_session(job, talk)
    seen["greeted"] = await talk.call("greet")
    seen["translated"] = await talk.call("translate", text="Hello")
    seen["folders"] = await talk.call("folders")
    seen["asked"] = host.asked
    await session.set_logging_level("info")
    seen["counted"], seen["acted"] = await asyncio.gather(
        talk.call_with_progress("count", to=3, ticket=job["own"]), talk.close_when_counted(job["own"])
    )
    seen["again"] = json.loads(await talk.read(own))
    seen["progress"] = host.progress
    seen["logged"] = host.logged
    if job["elsewhere"]:
        before = json.loads(await talk.read(watched))["status"]
        seen["told"] = await talk.told_of(watched, job)
        seen["watched"] = [before, json.loads(await talk.read(watched))["status"]]
    await session.send_ping()
    return seen


async def see_large(job: dict[str, Any], talk: Talk) -> dict[str, Any]:
    await talk.session.initialize()
    seen: dict[str, Any] = {}
    for name, (tool, arguments) in job["calls"].items():
        if arguments.get("steps"):
            result = await talk.told_call(tool, **arguments)
        else:
            result = await talk.session.call_tool(tool, arguments)
        [content] = result.content
        # Whether it is an error, and a digest of its text.
        seen[name] = [bool(result.isError), hashlib.sha256(content.text.encode()).hexdigest()]
    return seen


def change_elsewhere(job: dict[str, Any]) -> None:
    """Close the watched ticket by way of another process, as somebody else's client does."""
    params = {"name": "desk_ticket_close", "arguments": {"ids": [job["watched"]]}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {job['token']}", "Content-Type": "application/json"}
    headers["Accept"] = "application/json, text/event-stream"
    request = urllib.request.Request(job["elsewhere"], json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        assert not json.load(response)["result"]["isError"]


async def main() -> None:
    seen = await asyncio.wait_for(converse(json.loads(sys.argv[1])), 4 * SECONDS)
    sys.stdout.write(json.dumps(seen))


asyncio.run(main())
