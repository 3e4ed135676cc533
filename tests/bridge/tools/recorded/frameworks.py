"""Calls the tools of a server through an agent framework, and prints what it sends and what its model would read.

``record`` runs it in the environment of the framework: ``python -m tests.bridge.tools.recorded.frameworks crewai``,
with the URL, the headers and the calls as JSON on the standard input. So it imports nothing of ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool as the framework made it."""

    #: The arguments that the framework has its model give.
    required: list[str]
    #: Calls the tool; returns what the model reads.
    read: Callable[[Arguments], Any]


#: The tools of a server, given its URL and headers.
Way = Callable[[str, Mapping[str, str]], AbstractContextManager[dict[str, Tool]]]


@contextmanager
def crewai_adapter(url: str, headers: Mapping[str, str]) -> Iterator[dict[str, Tool]]:
    from crewai_tools import MCPServerAdapter

    with MCPServerAdapter({"url": url, "transport": "streamable-http", "headers": headers}) as tools:
        yield {tool.name: _of_crewai(tool) for tool in tools}


@contextmanager
def crewai_native(url: str, headers: Mapping[str, str]) -> Iterator[dict[str, Tool]]:
    from crewai.mcp import MCPServerHTTP
    from crewai.mcp.tool_resolver import MCPToolResolver
    from crewai.utilities.logger import Logger

    resolver = MCPToolResolver(agent=None, logger=Logger(verbose=False))
    tools = resolver.resolve([MCPServerHTTP(url=url, headers=dict(headers))])
    yield {tool.original_tool_name: _of_crewai(tool) for tool in tools}


def _of_crewai(tool: Any) -> Tool:
    async def read(arguments: Arguments) -> Any:
        # In a loop, as in a running crew. Without one, MCPServerHTTP of 1.15.30 fails with every server.
        return tool.format_output_for_agent(tool.run(**arguments))

    required = tool.args_schema.model_json_schema().get("required", [])
    return Tool(required, lambda arguments: asyncio.run(read(arguments)))


@contextmanager
def langchain(url: str, headers: Mapping[str, str]) -> Iterator[dict[str, Tool]]:
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.client import MultiServerMCPClient

    def adapted(tool: Any) -> Tool:
        def read(arguments: Arguments) -> Any:
            call = {"type": "tool_call", "id": "1", "name": tool.name, "args": arguments}
            message = asyncio.run(tool.ainvoke(call))
            # The id of a block is a new one each time.
            return [{name: value for name, value in block.items() if name != "id"} for block in message.content]

        return Tool(convert_to_openai_tool(tool)["function"]["parameters"].get("required", []), read)

    server = {"url": url, "transport": "streamable_http", "headers": headers}
    tools = asyncio.run(MultiServerMCPClient({"server": server}).get_tools())
    yield {tool.name: adapted(tool) for tool in tools}


def smolagents(*, structured_output: bool) -> Way:
    @contextmanager
    def connect(url: str, headers: Mapping[str, str]) -> Iterator[dict[str, Tool]]:
        from smolagents import MCPClient
        from smolagents.models import get_tool_json_schema

        def adapted(tool: Any) -> Tool:
            required = get_tool_json_schema(tool)["function"]["parameters"]["required"]
            return Tool(required, lambda arguments: tool(**arguments))

        server = {"url": url, "transport": "streamable-http", "headers": headers}
        with MCPClient(server, structured_output=structured_output) as tools:
            yield {tool.name: adapted(tool) for tool in tools}

    return connect


#: Each framework: the packages that decide, and the ways in which it connects.
FRAMEWORKS: dict[str, tuple[list[str], dict[str, Way]]] = {
    "crewai": (
        ["crewai", "crewai-tools", "mcpadapt", "mcp"],
        {"MCPServerAdapter": crewai_adapter, "MCPServerHTTP": crewai_native},
    ),
    "langchain": (["langchain-core", "langchain-mcp-adapters", "mcp"], {"MultiServerMCPClient": langchain}),
    "smolagents": (
        ["smolagents", "mcpadapt", "mcp"],
        {
            "MCPClient(structured_output=False)": smolagents(structured_output=False),
            "MCPClient(structured_output=True)": smolagents(structured_output=True),
        },
    ),
}


@contextmanager
def wire() -> Iterator[list[dict[str, Any]]]:
    """The arguments and results of each call, as the SDK below each framework sends and receives them."""
    from mcp import ClientSession

    exchanged: list[dict[str, Any]] = []
    original = ClientSession.call_tool

    async def call_tool(session: Any, name: str, arguments: Any = None, *rest: Any, **more: Any) -> Any:
        result = await original(session, name, arguments, *rest, **more)
        written = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        exchanged.append({"sent": arguments, "result": written})
        return result

    ClientSession.call_tool = call_tool
    try:
        yield exchanged
    finally:
        ClientSession.call_tool = original


def main() -> None:
    name, given = sys.argv[1], json.load(sys.stdin)
    packages, ways = FRAMEWORKS[name]
    recorded: dict[str, Any] = {}
    for way, connect in ways.items():
        with wire() as exchanged, connect(given["url"], given["headers"]) as tools:
            calls = recorded[way] = []
            for tool, arguments in given["calls"]:
                read = tools[tool].read(arguments)
                calls.append(
                    {
                        "tool": tool,
                        "required": tools[tool].required,
                        "given": arguments,
                        **exchanged.pop(),
                        "read": read,
                    }
                )
    # The frameworks themselves write to the standard output, so this is the last line of it.
    print("\n" + json.dumps({"versions": {package: version(package) for package in packages}, "ways": recorded}))


if __name__ == "__main__":
    main()
