"""A conversation through ``Client`` of the official Python SDK 2, in the era that the job names.

Takes a job as JSON in its one argument, and writes what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import grpc
import httpx2
import mcp_types as types
from anyio import ClosedResourceError, create_memory_object_stream
from mcp import Client, MCPError
from mcp.client import session
from mcp.client.caching import CacheConfig
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from mcp_django.protocol import mcp_pb2_grpc, protobuf

SECONDS = 60
#: How long the client keeps what does not say how long it is good for, which no legacy result can say.
KEEP_MILLISECONDS = 3_600_000

# Logging, sampling and roots are deprecated in 2026-07-28, and sessions have to go some day: we know.
warnings.simplefilter("ignore")


class Host:
    """What stands around the client: its user, its model, its folders, and its eyes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.logged: list[Any] = []
        self.progress: list[list[Any]] = []
        self.counted = asyncio.Event()
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def sample(self, context: Any, params: Any) -> Any:
        [message] = params.messages
        self.asked.append(message.content.text)
        content = types.TextContent(type="text", text="Bonjour")
        return types.CreateMessageResult(role="assistant", content=content, model="parrot", stop_reason="endTurn")

    async def elicit(self, context: Any, params: Any) -> Any:
        self.asked.append(f"{params.message} {list(params.requested_schema['properties'])}")
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
        if isinstance(message, types.ResourceUpdatedNotification):
            await self.told.put(str(message.params.uri))


def text_of(result: Any) -> list[Any]:
    """Whether it is an error, and the text."""
    [content] = result.content
    return [bool(result.is_error), content.text]


class Talk:
    """A connected client, and what is asked of it."""

    def __init__(self, client: Client, host: Host) -> None:
        self.client = client
        self.host = host

    async def call(self, name: str, **arguments: Any) -> list[Any]:
        return text_of(await self.client.call_tool(name, arguments))

    async def call_with_progress(self, name: str, **arguments: Any) -> list[Any]:
        return text_of(await self.client.call_tool(name, arguments, progress_callback=self.host.on_progress))

    async def close_when_counted(self, ticket: int) -> list[Any]:
        await self.host.counted.wait()
        return await self.call("desk_ticket_close", ids=[ticket])

    async def read(self, uri: str) -> str:
        [contents] = (await self.client.read_resource(uri)).contents
        return contents.text

    async def told_of(self, uri: str, job: dict[str, Any]) -> str:
        if job["mode"] == "legacy":
            await self.client.subscribe_resource(uri)
            await asyncio.to_thread(change_elsewhere, job)
            told = await asyncio.wait_for(self.host.told.get(), SECONDS)
            await self.client.unsubscribe_resource(uri)
            return told
        async with self.client.listen(resource_subscriptions=[uri]) as listening:
            await asyncio.to_thread(change_elsewhere, job)
            event = await asyncio.wait_for(anext(listening), SECONDS)
        return str(event.uri)


@asynccontextmanager
async def grpc_client(address: str, token: str) -> AsyncIterator[Any]:
    """The SDK's transport over gRPC: the streams of one Session."""
    received, incoming = create_memory_object_stream[Any](0)
    outgoing, sent = create_memory_object_stream[Any](0)
    async with grpc.aio.insecure_channel(address) as channel:
        call = mcp_pb2_grpc.MCPStub(channel).Session(metadata=[("authorization", f"Bearer {token}")])

        async def read() -> None:
            async with received:
                with suppress(ClosedResourceError, asyncio.CancelledError):
                    async for message in call:
                        value = protobuf.value_of(message)
                        await received.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(value)))

        async def write() -> None:
            async with sent:
                async for one in sent:
                    value = one.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                    await call.write(protobuf.message_of(value))
            # The call may have ended meanwhile: on a busy machine its cancellation comes first.
            with suppress(grpc.aio.BaseError, asyncio.InvalidStateError):
                await call.done_writing()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            tasks.create_task(write())
            yield incoming, outgoing
            incoming.close()
            outgoing.close()
            call.cancel()


async def converse(job: dict[str, Any]) -> dict[str, Any]:
    # A server that starts on a busy machine is not taken for one that speaks an older revision alone.
    session.DISCOVER_TIMEOUT_SECONDS = SECONDS
    host = Host()
    async with AsyncExitStack() as stack:
        if job["transport"] == "stdio":
            command, *arguments = job["command"]
            server: Any = StdioServerParameters(command=command, args=arguments, env=job["env"])
        elif job["transport"] == "grpc":
            server = grpc_client(job["url"], job["token"])
        else:
            headers = {"Authorization": f"Bearer {job['token']}"}
            http_client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=SECONDS))
            server = streamable_http_client(job["url"], http_client=http_client)
        client = Client(
            server,
            mode=job["mode"],
            read_timeout_seconds=SECONDS,
            sampling_callback=host.sample,
            elicitation_callback=host.elicit,
            list_roots_callback=host.list_roots,
            logging_callback=host.log,
            log_level="info",
            message_handler=host.take,
            cache=CacheConfig(default_ttl_ms=0 if job["mode"] == "legacy" else KEEP_MILLISECONDS),
        )
        talk = Talk(await stack.enter_async_context(client), host)
        tasks = {"all": see_all, "stateless": see_what_needs_no_session, "large": see_large}
        return await tasks[job["task"]](job, talk)


async def see_what_needs_no_session(job: dict[str, Any], talk: Talk) -> dict[str, Any]:
    client = talk.client
    own = f"db://desk/ticket/{job['own']}"
    tools = await client.list_tools()
    seen: dict[str, Any] = {
        "server": [client.server_info.name, client.server_info.version] if client.server_info else None,
        "revision": client.protocol_version,
        "tools": [tool.name for tool in tools.tools],
        "resources": [str(resource.uri) for resource in (await client.list_resources()).resources],
        "templates": [
            template.uri_template for template in (await client.list_resource_templates()).resource_templates
        ],
        "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
    }
    [message] = (await client.get_prompt("reply", {"ticket": str(job["own"]), "tone": "long"})).messages
    seen["prompt"] = message.content.text
    reference = types.PromptReference(type="ref/prompt", name="reply")
    completed = await client.complete(reference, {"name": "tone", "value": "l"})
    seen["completed"] = completed.completion.values
    seen["record"] = json.loads(await talk.read(own))
    seen["rules"] = await talk.read("desk://rules")
    seen["card"] = await talk.read(f"desk://tickets/{job['own']}/card")
    seen["found"] = await talk.call("find_records", model="desk.ticket", filter={"id": job["own"]})
    seen["refused"] = await talk.call("find_records", model="desk.tickte")
    try:
        await talk.call("no_such_tool")
    except MCPError as error:
        seen["unknown"] = [error.code, error.message]
    try:
        await talk.read("db://desk/ticket/0")
    except MCPError as error:
        seen["absent"] = [error.code, error.message]
    seen["too large"] = await talk.call("letter", size=5_000_000)
    seen["done"] = await talk.call("file_away", lines=100_000)
    return seen


async def see_all(job: dict[str, Any], talk: Talk) -> dict[str, Any]:
    client, host = talk.client, talk.host
    own, watched = f"db://desk/ticket/{job['own']}", f"db://desk/ticket/{job['watched']}"
    seen = await see_what_needs_no_session(job, talk)
    seen["greeted"] = await talk.call("greet")
    seen["translated"] = await talk.call("translate", text="Hello")
    seen["folders"] = await talk.call("folders")
    seen["asked"] = host.asked
    if job["mode"] == "legacy":
        await client.set_logging_level("info")
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
    return seen


async def see_large(job: dict[str, Any], talk: Talk) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, (tool, arguments) in job["calls"].items():
        callback = talk.host.on_progress if arguments.get("steps") else None
        result = await talk.client.call_tool(tool, arguments, progress_callback=callback)
        [content] = result.content
        # Whether it is an error, and a digest of its text.
        seen[name] = [bool(result.is_error), hashlib.sha256(content.text.encode()).hexdigest()]
    return seen


def change_elsewhere(job: dict[str, Any]) -> None:
    """Close the watched ticket by way of another process, as somebody else's client does."""
    params = {"name": "desk_ticket_close", "arguments": {"ids": [job["watched"]]}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {job['token']}", "Accept": "application/json, text/event-stream"}
    with httpx2.Client(headers=headers, timeout=SECONDS) as http_client:
        answer = http_client.post(job["elsewhere"], json=message)
    assert not answer.json()["result"]["isError"], answer.text


async def main() -> None:
    seen = await asyncio.wait_for(converse(json.loads(sys.argv[1])), 4 * SECONDS)
    sys.stdout.write(json.dumps(seen))


asyncio.run(main())
