"""What agent frameworks send to our tools, and what is left of our results when a model reads them.

Each framework was recorded in conversation with the demo (``tests/bridge/tools/recorded/record.py``). Its rules are
repeated here and held against what was recorded; then they are applied to the schemas and results of today.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django.protocol.jsonrpc import encode
from tests.support.asking import DirectPeer, listed
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared

#: The revision that each framework asked for.
REVISION = "2025-11-25"
EXPORT = "flights_flight_export_as_csv"
QUERY_TOOLS = ("describe_models", "find_records", "get_record", "aggregate_records")

Arguments = dict[str, Any]


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights()
    switch_on(EXPORT)
    return DirectPeer(User.objects.create_superuser("root"))


# What a framework sends, by the schema of the tool's arguments and what the model gave.


def as_given(schema: Any, given: Arguments) -> Arguments:
    return given


def filled_in(schema: Any, given: Arguments) -> Arguments:
    """Each argument that the model left out is its default or null, and an integer may be given as a text."""
    sent = {name: given.get(name, property.get("default")) for name, property in schema["properties"].items()}
    is_integer = {name: property.get("type") == "integer" for name, property in schema["properties"].items()}
    return {name: int(value) if is_integer[name] and value is not None else value for name, value in sent.items()}


def filled_in_but_for_null(schema: Any, given: Arguments) -> Arguments:
    return {name: value for name, value in filled_in(schema, given).items() if value is not None}


# What the model of a framework reads of a result.


def list_of_texts(result: Any) -> Any:
    """The text of a single block, or a list of the texts of all; what is no text is dropped."""
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    return texts[0] if len(result["content"]) == 1 else str(texts)


def lines(result: Any) -> Any:
    """The texts of all blocks, embedded ones too, and of other blocks the type and the URI."""

    def line(block: Any) -> str:
        if block["type"] == "text":
            return str(block["text"])
        resource = block.get("resource", block)
        return str(resource.get("text", f"[{block['type']}: {resource['uri']}]"))

    return "\n".join(map(line, result["content"]))


def converted(result: Any) -> Any:
    """A block for each block, without the names of files."""

    def convert(block: Any) -> Any:
        resource = block.get("resource", block)
        if "text" in resource:
            return {"type": "text", "text": resource["text"]}
        held = {"base64": resource["blob"]} if "blob" in resource else {"url": resource["uri"]}
        return {"type": "file", **held, "mime_type": resource["mimeType"]}

    return [convert(block) for block in result["content"]]


def first_text(result: Any) -> Any:
    return result["content"][0]["text"]


def structured_content(result: Any) -> Any:
    """The structured content, or else the first text, as JSON where it is JSON."""
    if "structuredContent" in result:
        return result["structuredContent"]
    try:
        return json.loads(first_text(result))
    except ValueError:
        return first_text(result)


class Way(NamedTuple):
    """One of the ways in which a framework connects."""

    framework: str
    name: str
    sends: Callable[[Any, Arguments], Arguments]
    reads: Callable[[Any], Any]

    @property
    def calls(self) -> list[Any]:
        """The recorded calls."""
        file = Path(__file__).parent / "recorded" / f"{self.framework}.json"
        calls: list[Any] = json.loads(file.read_text())["ways"][self.name]
        return calls

    def words(self, result: Any) -> str:
        """All words that the model reads, in one text."""
        read = self.reads(result)
        if isinstance(read, list):
            return "\n".join(block.get("text", "") for block in read)
        return read if isinstance(read, str) else encode(read).decode()


WAYS = [
    Way("crewai", "MCPServerAdapter", filled_in, list_of_texts),
    Way("crewai", "MCPServerHTTP", filled_in_but_for_null, lines),
    Way("langchain", "MultiServerMCPClient", as_given, converted),
    Way("smolagents", "MCPClient(structured_output=False)", as_given, first_text),
    Way("smolagents", "MCPClient(structured_output=True)", as_given, structured_content),
]


#: Each recorded call of the tools of today, with its way.
CALLS = [(way, call) for way in WAYS for call in way.calls if call["tool"] in (*QUERY_TOOLS, EXPORT)]


#: What a model gives where it has nothing to say and the schema no default.
BLANKS: Arguments = {"string": "", "array": [], "object": {}, "boolean": False}


# Arguments.


def test_a_framework_was_recorded_with_the_schema_of_today(root: DirectPeer) -> None:
    """Where the schema has changed since, the frameworks are to be recorded anew."""
    schemas = {name: listed(root, name)["inputSchema"] for name in (*QUERY_TOOLS, EXPORT)}

    for way, call in CALLS:
        assert way.sends(schemas[call["tool"]], call["given"]) == call["sent"], way
    assert {call["tool"] for _, call in CALLS} == set(schemas)


def test_what_a_framework_sends_has_the_result_of_what_its_model_gave(root: DirectPeer) -> None:
    """smolagents has its model give every argument, even those that the schema does not require."""
    schemas = {name: listed(root, name)["inputSchema"]["properties"] for name in (*QUERY_TOOLS, EXPORT)}

    for way, call in CALLS:
        properties = schemas[call["tool"]]
        blanks = {
            name: properties[name].get("default", BLANKS.get(properties[name]["type"])) for name in call["required"]
        }
        plain = root.call(call["tool"], REVISION, **call["given"])
        assert plain["isError"] is call["result"]["isError"]
        assert root.call(call["tool"], REVISION, **call["sent"]) == plain, way
        assert root.call(call["tool"], REVISION, **{**blanks, **call["given"]}) == plain, way


# Results.


def test_the_rule_reads_what_the_framework_read() -> None:
    for way in WAYS:
        for call in way.calls:
            assert way.reads(call["result"]) == call["read"], (way, call["tool"])


def test_what_a_model_must_know_is_read_in_each_way(root: DirectPeer, declared: Declared) -> None:
    returned: list[HttpResponse | None] = [HttpResponse(b"\xff", content_type="application/pdf"), None]
    levels = [messages.SUCCESS, messages.ERROR]

    @admin.action(permissions=["view"])
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        self.message_user(request, "said", levels.pop(0))
        return returned.pop(0)

    actions = [*FlightAdmin.actions, "act"]
    declared.admin(Flight, type("Acting", (FlightAdmin,), {"actions": actions, "act": act}))
    switch_on("flights_flight_act")
    asked = {"model": "flights.flight", "fields": ["carrier"], "limit": 2}
    page = root.call("find_records", REVISION, **asked)
    csv = root.call("find_records", REVISION, **asked, format="csv")
    results: list[tuple[Any, list[str]]] = [
        (page, ['"rows":[[1,"UA"],[2,"AA"]]', page["structuredContent"]["next_cursor"]]),
        (root.call("get_record", REVISION, model="flights.airline", id="AA"), ['{"carrier":"AA","name":"American"}']),
        (root.call("find_records", REVISION, model="flight"), ["Did you mean flights.flight?"]),
        (root.call(EXPORT, REVISION, ids=["0"]), ["no flights.flight with the primary key 0."]),
        (root.call(EXPORT, REVISION, ids=["1", "2"]), ["attached: flights.csv, text/csv, 3 lines, 239 bytes"]),
        (
            root.call("flights_flight_act", REVISION, ids=["1"]),
            ["said", "attached: file.pdf, application/pdf, 1 bytes"],
        ),
        (root.call("flights_flight_act", REVISION, ids=["1"]), ["error: said", "Nothing was rolled back"]),
    ]

    for way in WAYS:
        for result, needed in results:
            assert [words for words in needed if words not in way.words(result)] == [], way
        # Where the model reads no text, it is told where the rows are.
        rows = '"row_count":2,"rows_in":"text"' if way.reads is structured_content else "1,UA\r\n2,AA"
        assert rows in way.words(csv).replace("\\r\\n", "\r\n"), way
