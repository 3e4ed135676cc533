"""The official Python SDK and what tools take and return: it reads every block and value, and repeats arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any, TypeVar

import httpx2
import pytest
from django.core.asgi import get_asgi_application as get_django_application
from django.http import HttpRequest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import Field

from mcp_django.content import Audio, Block, EmbeddedBlob, EmbeddedText, Image, ResourceLink, Text
from mcp_django.routing import get_asgi_application
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread

pytestmark = pytest.mark.more("further tools by the official client")

T = TypeVar("T")
Talk = Callable[[Callable[[Client], Awaitable[T]]], T]


@pytest.fixture
def mode() -> str:
    """The SDK's word for the era; narrowed by parametrize."""
    return "2026-07-28"


@pytest.fixture
def talk(mode: str, users: Any, serving_loop: LoopThread) -> Talk[Any]:
    """``talk(conversation)``: what the conversation with a client of an era returns."""
    application = get_asgi_application(get_django_application())
    headers = {"Authorization": f"Bearer {token_of(users.admin)}"}

    async def run(conversation: Callable[[Client], Awaitable[T]]) -> T:
        transport = httpx2.ASGITransport(application)
        async with (
            httpx2.AsyncClient(transport=transport, headers=headers, base_url="http://localhost") as http_client,
            Client(streamable_http_client("http://localhost/mcp", http_client=http_client), mode=mode) as client,
        ):
            return await conversation(client)

    return lambda conversation: serving_loop.run(run(conversation), 60)


def show(request: HttpRequest) -> list[Block]:
    """Show."""
    return [
        Text("text", audience=["user"], priority=1),
        Image(b"\xff", "image/png"),
        Audio(b"\xff", "audio/wav"),
        EmbeddedText("shop://note", "note"),
        EmbeddedBlob("shop://blob", b"\xff"),
        ResourceLink("db://flights/flight", "flights"),
    ]


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_it_reads_every_kind_of_block(talk: Talk[Any], declared: Declared) -> None:
    declared.tool(show, read_only=True)

    async def conversation(client: Client) -> Any:
        return await client.call_tool("show", {})

    content = talk(conversation).content

    assert [block.type for block in content] == ["text", "image", "audio", "resource", "resource", "resource_link"]
    assert content[1].data == "/w==" and content[4].resource.blob == "/w=="


VALUES: list[tuple[Any, Any, Any]] = [
    (int | None, None, None),
    (int, 0, 0),
    (bool, False, False),
    (list[int], [], []),
    (str | list[str], ["a"], ["a"]),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[str, int] | None, None, {"result": None}),
]


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
@pytest.mark.parametrize(("returns", "value", "structured"), VALUES, ids=[str(one[0]) for one in VALUES])
def test_it_takes_a_value_of_any_type_and_holds_it_against_its_schema(
    talk: Talk[Any], mode: str, declared: Declared, returns: Any, value: Any, structured: Any
) -> None:
    def give(request: HttpRequest) -> Any:
        """Give."""
        return value

    give.__annotations__["return"] = returns
    declared.tool(give, read_only=True)

    async def conversation(client: Client) -> Any:
        await client.list_tools()
        return await client.call_tool("give", {})

    result = talk(conversation)

    assert "structured_content" in result.model_fields_set
    under_result = mode == "legacy" and not isinstance(structured, dict)
    assert result.structured_content == ({"result": structured} if under_result else structured)


@pytest.mark.parametrize("region", ["us-west1", "Hello, 世界", " padded ", "line1\nline2", "=?base64?literal?=", ""])
def test_it_repeats_arguments_in_headers_as_the_server_expects_them(
    talk: Talk[Any], declared: Declared, region: str
) -> None:
    def execute(
        request: HttpRequest,
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
        seats: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Seats"})],
        dry: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Dry-Run"})] = False,
    ) -> dict[str, Any]:
        """Execute."""
        return {"region": region, "seats": seats, "dry": dry}

    declared.tool(execute, read_only=True)

    async def conversation(client: Client) -> tuple[list[str], Any]:
        tools = await client.list_tools()
        return [tool.name for tool in tools.tools], await client.call_tool(
            "execute", {"region": region, "seats": -3, "dry": True}
        )

    names, result = talk(conversation)

    assert "execute" in names
    assert result.structured_content == {"region": region, "seats": -3, "dry": True}


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_its_progress_callback_gets_the_text_of_chunks(talk: Talk[Any], declared: Declared) -> None:
    def poem(request: HttpRequest) -> Iterator[str]:
        """Say it piece by piece."""
        yield from ("roses ", "are ", "red")

    declared.tool(poem, read_only=True)
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def conversation(client: Client) -> Any:
        return await client.call_tool("poem", {}, progress_callback=note)

    result = talk(conversation)

    assert "".join(message or "" for _, message in told) == "roses are red"
    assert [progress for progress, _ in told] == sorted({progress for progress, _ in told})
    assert [block.text for block in result.content] == ["roses are red"]
