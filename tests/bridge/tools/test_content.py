"""What a tool returns: content blocks, and values of any type, as each revision knows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import override_settings
from django.utils.translation import gettext_lazy
from pydantic import AnyUrl, BaseModel

from mcp_django.bridge.tools.results import may_be_longer, structured_result, text_result
from mcp_django.content import Audio, Block, EmbeddedBlob, EmbeddedText, Image, ResourceLink, Text
from mcp_django.protocol.jsonrpc import encode
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, REVISIONS, Peer

#: Bytes whose base64 has both special characters of the standard alphabet, and padding.
DATA = b"\xfb\xff\xbf\x00"
ENCODED = "+/+/AA=="


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


# Blocks.


BLOCKS: list[tuple[Block, dict[str, Any]]] = [
    (Text("hello"), {"type": "text", "text": "hello"}),
    (Text(gettext_lazy("hello")), {"type": "text", "text": "hello"}),  # type: ignore[arg-type]
    (Image(DATA, "image/png"), {"type": "image", "data": ENCODED, "mimeType": "image/png"}),
    (Image(memoryview(DATA), "image/png"),  # type: ignore[arg-type]
     {"type": "image", "data": ENCODED, "mimeType": "image/png"}),
    (Audio(DATA, "audio/wav"), {"type": "audio", "data": ENCODED, "mimeType": "audio/wav"}),
    (EmbeddedText("shop://notes/1", "note"),
     {"type": "resource", "resource": {"uri": "shop://notes/1", "mimeType": "text/plain", "text": "note"}}),
    (EmbeddedBlob("file:///a.bin", DATA),
     {"type": "resource",
      "resource": {"uri": "file:///a.bin", "mimeType": "application/octet-stream", "blob": ENCODED}}),
    (ResourceLink("db://flights/flight", "flights"),
     {"type": "resource_link", "uri": "db://flights/flight", "name": "flights"}),
    (ResourceLink("db://flights/flight", "flights", "Flights", "All of them.", "application/json", 0),
     {"type": "resource_link", "uri": "db://flights/flight", "name": "flights", "title": "Flights",
      "description": "All of them.", "mimeType": "application/json", "size": 0}),
    (Text("hello", audience=["user", "assistant"], priority=0,
          last_modified=datetime(2013, 1, 31, 8, 30, tzinfo=UTC), meta={"org.example/a": 1}),
     {"type": "text", "text": "hello", "_meta": {"org.example/a": 1},
      "annotations": {"audience": ["user", "assistant"], "priority": 0, "lastModified": "2013-01-31T08:30:00Z"}}),
]  # fmt: skip


def test_a_block_as_json() -> None:
    assert [block.to_json() for block, _ in BLOCKS] == [expected for _, expected in BLOCKS]


def test_a_block_that_no_client_could_read_is_not_made() -> None:
    for make in (
        lambda: EmbeddedText("no-scheme", "x"),
        lambda: EmbeddedBlob("shop://with space", b"x"),
        lambda: EmbeddedBlob("shop://größe", b"x"),
        lambda: ResourceLink("", "x"),
        lambda: ResourceLink("shop:", "x"),
        lambda: Text("x", audience=["nobody"]),  # type: ignore[list-item]
        lambda: Text("x", audience="user"),  # type: ignore[arg-type]
        lambda: Text("x", priority=1.5),
        lambda: Text("x", priority=float("nan")),
    ):
        with pytest.raises(ValueError, match=r"must be|is not"):
            make()


# Blocks in results.


ANNOTATED = {
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2013-01-31T00:00:00Z"},
    "_meta": {"org.example/a": 1},
}


def block_of_every_kind(request: HttpRequest) -> list[Block | str]:
    """Give."""
    more: dict[str, Any] = {
        "audience": ["user"], "priority": 0.5, "last_modified": datetime(2013, 1, 31, tzinfo=UTC),
        "meta": {"org.example/a": 1},
    }  # fmt: skip
    return [
        "a string",
        Text("text", **more),
        Image(DATA, "image/png", **more),
        Audio(DATA, "audio/wav", **more),
        EmbeddedText("shop://note", "note", **more),
        EmbeddedBlob("shop://blob", DATA, **more),
        ResourceLink("db://flights/flight", "flights", "Flights", **more),
    ]


def test_a_tool_returns_blocks_in_every_revision(admin: Peer, declared: Declared) -> None:
    declared.tool(block_of_every_kind, name="give", read_only=True)
    note = {"uri": "shop://note", "mimeType": "text/plain", "text": "note"}
    blob = {"uri": "shop://blob", "mimeType": "application/octet-stream", "blob": ENCODED}
    newest = [
        {"type": "text", "text": "a string"},
        {"type": "text", "text": "text", **ANNOTATED},
        {"type": "image", "data": ENCODED, "mimeType": "image/png", **ANNOTATED},
        {"type": "audio", "data": ENCODED, "mimeType": "audio/wav", **ANNOTATED},
        {"type": "resource", "resource": note, **ANNOTATED},
        {"type": "resource", "resource": blob, **ANNOTATED},
        {"type": "resource_link", "uri": "db://flights/flight", "name": "flights", "title": "Flights", **ANNOTATED},
    ]
    less = {"annotations": {"audience": ["user"], "priority": 0.5}}
    older = [newest[0], *({**without(block, "_meta"), **less} for block in newest[1:])]
    older[6] = {"type": "text", "text": "Flights: db://flights/flight", **less}
    oldest = [*older]
    sound = {
        "uri": "ni:///sha-256;L2rHRZZnQiXmjXh3XP3xsrrPvMGBAw7d7iSiFZXBzHg",
        "mimeType": "audio/wav",
        "blob": ENCODED,
    }
    oldest[3] = {"type": "resource", "resource": sound, **less}

    contents = {revision: admin.call("give", revision)["content"] for revision in REVISIONS}

    assert contents == {
        "2024-11-05": oldest, "2025-03-26": older, "2025-06-18": newest, "2025-11-25": newest, MODERN: newest,
    }  # fmt: skip
    assert str(AnyUrl(sound["uri"])) == sound["uri"]


def without(block: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != key}


PROMISES: list[tuple[Any, Any, Any]] = [
    (Text, Text("a"), [{"type": "text", "text": "a"}]),
    (Text | None, None, []),
    (Text | str, "a", [{"type": "text", "text": "a"}]),
    (list[Text], [], []),
    (list[Text | str] | None, ["a", Text("b")], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    (tuple[Text, str], (Text("a"), "b"), [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    (tuple[Block, ...], (Text("a"),), [{"type": "text", "text": "a"}]),
    (Annotated[Block, "a note"], Text("a"), [{"type": "text", "text": "a"}]),
    (Any, Text("a"), [{"type": "text", "text": "a"}]),
    (Any, [Text("a"), "b"], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    (Any, ["a", "b"], [{"type": "text", "text": '["a","b"]'}]),
]


def test_blocks_are_promised_by_the_annotation_and_have_no_schema(root: DirectPeer, declared: Declared) -> None:
    for number, (returns, value, content) in enumerate(PROMISES):
        declared.tool(giving(value, returns), name=f"give_{number}")
        result = root.call(f"give_{number}")
        assert (result["content"], result["isError"]) == (content, False), returns
        assert "structuredContent" not in result and "outputSchema" not in listed(root, f"give_{number}"), returns


def test_a_promise_of_blocks_among_other_things_is_refused(declared: Declared) -> None:
    wrong: list[Any] = [dict[str, Image], list[Image | int], list[list[Image]], Image | int, tuple[Image, int]]
    for returns in wrong:
        with pytest.raises(ImproperlyConfigured, match=r"^The tool give may return a content block, or a list of"):
            declared.tool(giving(None, returns), name="give")


def test_a_list_of_blocks_that_holds_something_else_is_no_result(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    declared.tool(giving([Text("a"), 5], list[Text]), name="give", read_only=True)

    result = root.call("give")

    assert result["isError"] is True
    assert text_of(result) == "give failed. The server's log has the details; calling it again may not help."
    assert "The tool give returned 5, which is neither a content block nor a str" in caplog.text


def test_a_result_larger_than_a_message_is_refused_in_words(root: DirectPeer, declared: Declared) -> None:
    for value, returns in ((Image(bytes(3_000), "image/png"), Image), ("x" * 5_000, str)):
        declared.tool(giving(value, returns), name="give", read_only=True)
        with override_settings(MCP={"MAX_RESULT_BYTES": 4_000}):
            result = root.call("give")
        declared.close()

        assert (result["isError"], text_of(result)) == (True, "The result is larger than 4000 bytes. Ask for less.")


# Values of any type.


class Seat(BaseModel):
    row: int


class Standing(BaseModel):
    floor: int


VALUES: list[tuple[Any, Any, Any, Any]] = [
    (list[int], [], {"type": "array", "items": {"type": "integer"}}, []),
    (int, 0, {"type": "integer"}, 0),
    (bool, False, {"type": "boolean"}, False),
    (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
    (list[Seat], [Seat(row=1)], {"type": "array", "items": {
        "type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}}, [{"row": 1}]),
]  # fmt: skip


def test_a_value_that_is_no_object_stands_under_result_for_older_clients(root: DirectPeer, declared: Declared) -> None:
    for number, (returns, value, schema, structured) in enumerate(VALUES):
        name = f"give_{number}"
        declared.tool(giving(value, returns), name=name, read_only=True)
        under = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
        plain = {"content": [{"type": "text", "text": encode(structured).decode()}], "isError": False}
        titled = {**plain, "structuredContent": {"result": structured}}

        schemas = {revision: tool_of(root, revision, name).get("outputSchema") for revision in REVISIONS}
        results = {revision: root.call(name, revision) for revision in REVISIONS}

        meta = results[MODERN]["_meta"]
        assert schemas == {
            "2024-11-05": None, "2025-03-26": None, "2025-06-18": under, "2025-11-25": under, MODERN: schema,
        }  # fmt: skip
        assert results == {
            "2024-11-05": plain, "2025-03-26": plain, "2025-06-18": titled, "2025-11-25": titled,
            MODERN: {**plain, "structuredContent": structured, "resultType": "complete", "_meta": meta},
        }  # fmt: skip


def test_what_may_be_an_object_or_not_stands_under_result_in_every_revision(
    root: DirectPeer, declared: Declared
) -> None:
    declared.tool(giving(None, Seat | None), name="nothing", read_only=True)
    declared.tool(giving(Seat(row=1), Seat | None), name="seat", read_only=True)
    declared.tool(giving(Standing(floor=2), Seat | Standing), name="standing", read_only=True)

    for revision in ("2025-06-18", "2025-11-25", MODERN):
        for name, structured in (("seat", {"result": {"row": 1}}), ("nothing", {"result": None})):
            schema = tool_of(root, revision, name)["outputSchema"]
            assert (schema["type"], schema["required"]) == ("object", ["result"])
            assert root.call(name, revision)["structuredContent"] == structured
        # One of several objects is given as it is.
        assert tool_of(root, revision, "standing")["outputSchema"]["type"] == "object"
        assert root.call("standing", revision)["structuredContent"] == {"floor": 2}


def test_wrong_arguments_are_a_result_in_every_revision(root: DirectPeer, declared: Declared) -> None:
    def take(request: HttpRequest, seats: int) -> str:
        """Take."""
        raise AssertionError("was called")

    declared.tool(take)

    results = {revision: root.call("take", revision, seats="many") for revision in REVISIONS}

    wrong = [{"field": "seats", "message": "'many' is not of type 'integer'", "received": "many"}]
    assert {revision: errors_of(result) for revision, result in results.items()} == dict.fromkeys(REVISIONS, wrong)
    assert not any("structuredContent" in result for result in results.values())


def test_a_call_that_is_no_call_is_a_protocol_error_in_every_revision(root: DirectPeer, declared: Declared) -> None:
    declared.tool(giving("given", str), name="give")
    calls: list[tuple[Any, str]] = [
        ({"name": "nobody", "arguments": {}}, "TOOL_NOT_FOUND"),
        ({"name": "give", "arguments": []}, "INVALID_PARAMS"),
        ({"name": "give", "arguments": "x"}, "INVALID_PARAMS"),
        ({"name": 5}, "INVALID_PARAMS"),
        ({"arguments": {}}, "INVALID_PARAMS"),
    ]

    for revision in REVISIONS:
        errors = [root.error(revision, "tools/call", params) for params, _ in calls]
        assert [(error["code"], error["data"]["reason"]) for error in errors] == [
            (-32602, reason) for _, reason in calls
        ]
    # Arguments may be left out.
    assert text_of(root.result(MODERN, "tools/call", {"name": "give"})) == "given"


def giving(value: Any, returns: Any) -> Any:
    """A tool that returns the value, and promises what it is told to promise."""

    def give(request: HttpRequest) -> Any:
        """Give."""
        return value

    give.__annotations__["return"] = returns
    return give


def tool_of(peer: Peer, revision: str, name: str) -> Any:
    [tool] = [tool for tool in peer.result(revision, "tools/list")["tools"] if tool["name"] == name]
    return tool


def test_a_result_that_is_too_long_is_never_taken_for_a_short_one() -> None:
    results: list[dict[str, Any]] = [
        {"content": [{"type": "image", "data": "x", "mimeType": "image/png"}]},
        text_result("x" * 100_000),
        text_result("\x01" * 20_000),
        structured_result({"value": "\x01" * 10_000}),
    ]
    assert all(may_be_longer(result, len(encode(result)) - 1) for result in results)
    assert not may_be_longer(text_result("short"), 1_000)
