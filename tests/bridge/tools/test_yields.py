"""Tools that yield: what their clients get while they run, and the result at the end."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import override_settings

from demo_project.flights.models import Airport
from mcp_django.content import Audio, Image, ResourceLink, Text
from mcp_django.exceptions import ToolError
from mcp_django.test import MCPClient
from tests.axes import PUSHING
from tests.support import schemas
from tests.support.chunks import KEY, chunks_in, parts_in, texts_in
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, REVISIONS, HTTPPeer, Peer
from tests.support.talking import Talk, accept, talk

EACH = pytest.mark.parametrize("revision", REVISIONS[::-1])
PUSHED = pytest.mark.parametrize("transport", PUSHING)
FAILED = "failed. The server's log has the details; calling it again may not help."


def ask(peer: Peer, name: str, revision: str = MODERN, *, answerer: Any = None, **params: Any) -> Talk:
    return talk(peer, revision, "tools/call", {"name": name, "_stream": True, **params}, answerer)


@dataclass
class Row:
    number: int
    name: str


def poem(request: HttpRequest) -> Iterator[str]:
    """Say it piece by piece."""
    yield "roses "
    yield "are "
    yield "red"


async def apoem(request: HttpRequest) -> AsyncIterator[str]:
    """Say it piece by piece."""
    yield "roses "
    await asyncio.sleep(0)
    yield "are "
    yield "red"


def table(request: HttpRequest) -> Generator[Row, None, None]:
    """Three rows."""
    for number in range(3):
        yield Row(number, f"n{number}")


async def atable(request: HttpRequest) -> AsyncIterator[Row]:
    """Three rows."""
    for number in range(3):
        yield Row(number, f"n{number}")


ROWS = [{"number": number, "name": f"n{number}"} for number in range(3)]


# What the client gets.


@PUSHED
def test_text_comes_in_chunks_and_as_a_whole(declared: Declared, admin: Peer) -> None:
    declared.tool(poem, read_only=True)

    said = ask(admin, "poem")

    assert said.text == texts_in(said.told) == "roses are red"
    assert "".join(told["params"]["message"] for told in said.told) == "roses are red"
    # Without a token of the client's, the id of the request is the token.
    assert {(told["method"], told["params"]["progressToken"]) for told in said.told} == {
        ("notifications/progress", said.answer["id"])
    }


@EACH
def test_each_revision_has_text_in_chunks(declared: Declared, admin: Peer, revision: str) -> None:
    for tool in (poem, apoem):
        declared.tool(tool, read_only=True)

        said = ask(admin, tool.__name__, revision)

        assert said.text == texts_in(said.told) == "roses are red"
        messages = [told["params"].get("message") for told in said.told]
        assert messages == [None] * len(messages) if revision == "2024-11-05" else "".join(messages) == "roses are red"


@EACH
def test_rows_come_in_chunks_and_as_structured_content(declared: Declared, admin: Peer, revision: str) -> None:
    structured = None if revision < "2025-06-18" else ROWS if revision == MODERN else {"result": ROWS}
    for tool in (table, atable):
        declared.tool(tool, read_only=True)

        said = ask(admin, tool.__name__, revision)

        assert parts_in(said.told) == json.loads(said.text) == ROWS
        chunks = chunks_in(said.told)
        assert [chunk["count"] for chunk in chunks] == [len(chunk["rows"]) for chunk in chunks]
        assert [chunk["first"] for chunk in chunks] == [0, *itertools.accumulate(chunk["count"] for chunk in chunks)][
            :-1
        ]
        assert said.answer["result"].get("structuredContent") == structured
        if revision != "2024-11-05":
            lines = "\n".join(told["params"]["message"] for told in said.told).split("\n")
            assert list(map(json.loads, lines)) == ROWS


def test_the_schema_is_that_of_a_list(declared: Declared, admin: Peer) -> None:
    declared.tool(atable, read_only=True)

    listed = {revision: admin.result(revision, "tools/list")["tools"] for revision in REVISIONS}

    found = {
        revision: tool.get("outputSchema")
        for revision in REVISIONS
        for tool in listed[revision]
        if tool["name"] == "atable"
    }
    schema = found[MODERN]
    under = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    assert (schema["type"], schema["items"]["required"]) == ("array", ["number", "name"])
    assert found == {"2024-11-05": None, "2025-03-26": None, "2025-06-18": under, "2025-11-25": under, MODERN: schema}


@EACH
def test_blocks_are_those_of_the_revision_in_chunks_as_in_the_result(
    declared: Declared, admin: Peer, revision: str
) -> None:
    def report(request: HttpRequest) -> Iterator[str | Image | Audio | ResourceLink]:
        """All kinds of blocks."""
        yield "see "
        yield "this"
        yield Image(b"image", "image/png")
        yield Audio(b"sound", "audio/wav")
        yield ResourceLink("shop://returns", "How to return goods")

    declared.tool(report, read_only=True)

    said = ask(admin, "report", revision)

    content = said.answer["result"]["content"]
    kinds = {MODERN: ["audio", "resource_link"], "2024-11-05": ["resource", "text"], "2025-03-26": ["audio", "text"]}
    kinds |= dict.fromkeys(("2025-06-18", "2025-11-25"), kinds[MODERN])
    assert [block["type"] for block in content] == ["text", "image", *kinds[revision]]
    assert content[0]["text"] == "see this"
    sent = parts_in(said.told)
    assert "".join(block["text"] for block in sent[:-3]) == "see this"
    assert sent[-3:] == content[1:]


def test_a_client_that_does_not_ask_gets_the_result_alone(declared: Declared, admin: Peer) -> None:
    for tool in (poem, apoem):
        declared.tool(tool, read_only=True)
        for params in ({}, {"_stream": False}, {"_stream": "yes"}, {"_stream": False, "_meta": {"progressToken": 7}}):
            said = talk(admin, MODERN, "tools/call", {"name": tool.__name__, **params})

            assert (said.text, said.told) == ("roses are red", [])


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_under_wsgi_the_result_comes_alone(declared: Declared, admin: Peer) -> None:
    declared.tool(poem, read_only=True)

    said = ask(admin, "poem", _meta={"progressToken": 7})

    assert (said.text, said.told) == ("roses are red", [])


def test_a_client_that_accepts_no_stream_gets_the_result_alone(declared: Declared, admin: HTTPPeer) -> None:
    declared.tool(poem, read_only=True)
    params = {"name": "poem", "_stream": True, "_meta": admin.meta()}

    answer = admin.post(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        {**admin.modern_headers("tools/call", params), "Accept": "application/json"},
    )

    assert answer.json["result"]["content"] == [{"type": "text", "text": "roses are red"}]


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_a_progress_token_asks_for_chunks_and_comes_back(declared: Declared, admin: Peer, revision: str) -> None:
    declared.tool(poem, read_only=True)

    for token in ("a", 0):
        said = talk(admin, revision, "tools/call", {"name": "poem", "_meta": {"progressToken": token}})

        assert texts_in(said.told) == "roses are red"
        assert {told["params"]["progressToken"] for told in said.told} == {token}


def test_chunks_and_progress_of_the_tool_go_up_together(declared: Declared, admin: Peer) -> None:
    def steps(request: Any) -> Iterator[str]:
        """Two ways to tell how far it is."""
        for number in range(1, 4):
            request.mcp.progress(number / 10, 1)
            yield f"{number}."

    declared.tool(steps, read_only=True)

    said = ask(admin, "steps", _meta={"progressToken": "a"})

    progress = [told["params"]["progress"] for told in said.told]
    assert progress == sorted(set(progress))
    assert {0.1, 0.2, 0.3} <= set(progress)
    assert texts_in(said.told) == "1.2.3."


def test_what_is_yielded_at_once_leaves_in_few_chunks(declared: Declared, admin: Peer) -> None:
    def letters(request: HttpRequest) -> Iterator[str]:
        """Letter by letter."""
        yield from "abcde" * 2_000

    declared.tool(letters, read_only=True)

    said = ask(admin, "letters")

    assert texts_in(said.told) == said.text == "abcde" * 2_000
    assert len(said.told) < 1_000
    assert max(len(chunk["content"]) for chunk in chunks_in(said.told)) == 1


# Values.


def test_unannotated_rows_are_text(declared: Declared, admin: Peer) -> None:
    def rows(request: HttpRequest):  # type: ignore[no-untyped-def]
        """The same dict, changed again and again, and one whose names are the same in JSON."""
        row: dict[Any, Any] = {}
        for number in range(3):
            row["number"] = number
            yield row
        yield {1: "a", "1": "b"}

    declared.tool(rows, read_only=True)

    said = ask(admin, "rows")

    assert json.loads(said.text) == parts_in(said.told) == [{"number": 0}, {"number": 1}, {"number": 2}, {"1": "b"}]
    assert "structuredContent" not in said.answer["result"]


def test_nothing_yielded(declared: Declared, admin: Peer) -> None:
    def nothing(request: HttpRequest):  # type: ignore[no-untyped-def]
        """Yields nothing."""
        yield from ()

    def no_rows(request: HttpRequest) -> Iterator[Row]:
        """Yields no row."""
        yield from ()

    declared.tool(nothing, read_only=True)
    declared.tool(no_rows, read_only=True)

    assert (ask(admin, "nothing").text, ask(admin, "nothing").told) == ("Done.", [])
    assert ask(admin, "no_rows").answer["result"]["structuredContent"] == []


def test_a_function_may_return_an_iterator(declared: Declared, admin: Peer) -> None:
    def numbers(request: HttpRequest) -> Iterator[int]:
        """Numbers."""
        return iter([1, 2, 3])

    async def anumbers(request: HttpRequest) -> AsyncIterator[int]:
        """Numbers."""

        async def count() -> AsyncIterator[int]:
            for number in (1, 2, 3):
                yield number

        return count()

    declared.tool(numbers, read_only=True)
    declared.tool(anumbers, read_only=True)

    for name in ("numbers", "anumbers"):
        said = ask(admin, name)
        assert parts_in(said.told) == said.answer["result"]["structuredContent"] == [1, 2, 3]


def test_a_generator_with_another_annotation_is_refused(declared: Declared) -> None:
    def wrong(request: HttpRequest) -> list[int]:  # type: ignore[misc]
        """Wrong."""
        yield 1

    with pytest.raises(ImproperlyConfigured, match=r"yields, so its annotation must be an iterator, as Iterator\["):
        declared.tool(wrong)


@pytest.mark.usefixtures("flights")
def test_a_row_of_a_model_is_refused_in_a_chunk_as_in_a_result(declared: Declared, admin: Peer) -> None:
    """An instance has fields that nobody may see, and no policy was asked about them."""

    def airports(request: HttpRequest):  # type: ignore[no-untyped-def]
        """Instances."""
        yield {"airport": Airport.objects.first()}

    def returned(request: HttpRequest):  # type: ignore[no-untyped-def]
        """Instances."""
        return [{"airport": Airport.objects.first()}]

    for function in (airports, returned):
        declared.tool(function, read_only=True)
        said = ask(admin, function.__name__)
        assert (said.text, said.told) == (f"{function.__name__} {FAILED}", [])


def test_a_row_that_the_annotation_does_not_promise_is_not_sent(declared: Declared, admin: Peer) -> None:
    def rows(request: HttpRequest) -> Iterator[Row]:
        """A wrong one."""
        yield Row(1, "a")
        yield {"number": "secret"}  # type: ignore[misc]

    declared.tool(rows, read_only=True)

    said = ask(admin, "rows")

    assert said.text == f"rows {FAILED}"
    assert parts_in(said.told) == [{"number": 1, "name": "a"}]


# Failures.


def test_an_error_in_the_middle_follows_the_chunks(declared: Declared, admin: Peer) -> None:
    errors = [ToolError("No more."), ValueError("password")]

    def halves(request: HttpRequest) -> Iterator[str]:
        """Half of it."""
        yield "one "
        yield "two"
        raise errors.pop()

    declared.tool(halves, read_only=True)

    for text in (f"halves {FAILED}", "No more."):
        said = ask(admin, "halves")
        assert (said.text, said.answer["result"]["isError"]) == (text, True)
        assert texts_in(said.told) == "one two"


def test_a_result_that_is_too_large_holds_its_beginning_where_it_was_streamed(declared: Declared, admin: Peer) -> None:
    def text(request: HttpRequest) -> Iterator[str]:
        """Much."""
        yield from (f"{number:06} " for number in range(3_000))

    def rows(request: HttpRequest) -> Iterator[Row]:
        """Much."""
        yield from (Row(number, "n") for number in range(3_000))

    def untyped(request: HttpRequest):  # type: ignore[no-untyped-def]
        """Much."""
        yield from ({"number": number, "name": "n"} for number in range(3_000))

    for function in (rows, text, untyped):
        declared.tool(function, read_only=True)
        with override_settings(MCP={"MAX_RESULT_BYTES": 15_000}):
            said = ask(admin, function.__name__)
            alone = talk(admin, MODERN, "tools/call", {"name": function.__name__})

        first, told = said.answer["result"]["content"]
        assert len(json.dumps(said.answer["result"])) < 15_500
        assert said.answer["result"]["isError"] is False
        assert told["text"].startswith("The result is cut here: it has 3000 parts, and these are the first ")
        kept = int(told["text"].split("first ")[1].split(".")[0])
        assert 100 < kept < 3_000
        if function is text:
            assert texts_in(said.told) == "".join(f"{number:06} " for number in range(3_000))
            assert first["text"] == texts_in(said.told)[: 7 * kept]
        else:
            assert len(parts_in(said.told)) == 3_000
            assert json.loads(first["text"]) == parts_in(said.told)[:kept]
        assert (alone.told, alone.text) == ([], "The result is larger than 15000 bytes. Ask for less.")
        assert alone.answer["result"]["isError"] is True


def test_a_generator_whose_result_is_too_large_is_closed(declared: Declared, admin: Peer) -> None:
    """Nobody needs the rest."""
    ended: list[int] = []

    def endless(request: HttpRequest) -> Iterator[str]:
        """Never ends."""
        number = 0
        try:
            while True:
                number += 1
                yield "a" * 1_000
        finally:
            ended.append(number)

    declared.tool(endless, read_only=True)

    said = talk(admin, MODERN, "tools/call", {"name": "endless"})

    assert said.text == "The result is larger than 900000 bytes. Ask for less."
    assert 890 < ended[0] <= 900


def test_a_part_that_no_message_holds(declared: Declared, admin: Peer) -> None:
    def large(request: HttpRequest) -> Iterator[Row]:
        """A row of a megabyte."""
        yield Row(1, "a" * 1_000_000)

    declared.tool(large, read_only=True)

    said = ask(admin, "large")

    assert (said.text, said.answer["result"]["isError"]) == (
        "The result is larger than 898000 bytes. Ask for less.",
        True,
    )
    assert said.told == []


def test_a_long_text_goes_in_pieces_that_messages_hold(declared: Declared, admin: Peer) -> None:
    def novel(request: HttpRequest) -> Iterator[str]:
        """A megabyte, of which each character takes six bytes."""
        yield "\x01" * 1_000_000

    declared.tool(novel, read_only=True)

    said = ask(admin, "novel")

    assert texts_in(said.told) == "\x01" * 1_000_000
    assert max(len(json.dumps(told)) for told in said.told) < 900_000
    assert said.text.startswith("The result is cut here: it has 1 parts, and these are the first 0.")


# Questions and tasks.


@pytest.mark.every_case
@pytest.mark.http_and_duplex
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_a_question_in_the_middle_runs_it_again(declared: Declared, admin: Peer, revision: str) -> None:
    def book(request: Any) -> Iterator[str]:
        """Asks in the middle."""
        yield "one "
        yield "two "
        answer = request.mcp.elicit("Go on?", {"type": "object", "properties": {"go": {"type": "boolean"}}})
        yield f"three {answer.content['go']}"

    declared.tool(book, read_only=True)
    admin.capabilities = {"elicitation": {}}

    said = ask(admin, "book", revision, answerer=accept(go=True))

    assert said.text == "one two three True"
    again = "one two " if revision == MODERN else ""
    assert texts_in(said.told) == f"one two {again}three True"


# Asynchronous generators.


def test_an_asynchronous_generator_runs_on_the_loop_or_in_a_worker(declared: Declared, admin: Peer) -> None:
    loops: list[Any] = []

    async def here(request: HttpRequest) -> AsyncIterator[str]:
        """Where am I?"""
        loops.append(asyncio.get_running_loop())
        yield "here"

    declared.tool(here, read_only=True)
    declared.tool(here, name="there", read_only=True, on_loop=False)

    for name in ("here", "there"):
        said = ask(admin, name)
        assert said.text == texts_in(said.told) == "here"
    assert [loop is admin.loop.loop for loop in loops] == [True, False]  # type: ignore[attr-defined]


def test_a_generator_that_awaits_nothing_does_not_hold_the_loop(declared: Declared, admin: Peer) -> None:
    turns: list[int] = []

    async def busy(request: HttpRequest) -> AsyncIterator[int]:
        """Yields until the loop had its turn."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, turns.append, 1)
        number = 0
        while not turns:
            number += 1
            yield number

    declared.tool(busy, read_only=True)

    assert ask(admin, "busy", _stream=False).answer["result"]["isError"] is False
    assert turns == [1]


@pytest.mark.usefixtures("flights")
def test_rows_of_the_database_from_the_loop(declared: Declared, admin: Peer) -> None:
    async def codes(request: HttpRequest) -> AsyncIterator[str | Text]:
        """The codes of airports."""
        async with aclosing(Airport.objects.order_by("pk").values_list("faa", flat=True).aiterator()) as found:
            async for code in found:
                yield Text(code)

    declared.tool(codes, read_only=True)

    said = ask(admin, "codes")

    codes_there = list(Airport.objects.order_by("pk").values_list("faa", flat=True))
    assert [block["text"] for block in parts_in(said.told)] == codes_there
    assert [block["text"] for block in said.answer["result"]["content"]] == codes_there


# In one process.


def test_chunks_within_one_process(declared: Declared, users: Users, db: None) -> None:
    for tool in (poem, apoem, table, atable):
        declared.tool(tool, read_only=True)
        for revision in REVISIONS:
            with MCPClient(users.admin, revision=revision) as client:
                result = client.call(tool.__name__)
                told = client.notifications

            for message in told:
                schemas.check(message, revision)
            assert KEY in told[0]["params"]["_meta"]
            if "poem" in tool.__name__:
                assert result.text == texts_in(told) == "roses are red"
            else:
                assert parts_in(told) == ROWS
