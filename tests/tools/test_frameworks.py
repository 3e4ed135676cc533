"""What agent frameworks send to our tools, and what is left of our results when a model reads them.

Each framework was recorded in conversation with the demo (``tests/tools/recorded/record.py``). Its rules are repeated
here and held against what was recorded; then they are applied to the schemas and results of today.
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

every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.framework} {way.name}")


def recorded(*tools: str) -> pytest.MarkDecorator:
    """Parametrizes a test with the recorded calls; with those of some tools, if any is named."""
    found = [(way, call) for way in WAYS for call in way.calls if not tools or call["tool"] in tools]
    assert {call["tool"] for _, call in found} >= set(tools)
    ids = [f"{way.framework} {way.name} {call['tool']}" for way, call in found]
    return pytest.mark.parametrize(("way", "call"), found, ids=ids)


# Arguments.


@recorded(*QUERY_TOOLS, EXPORT)
def test_a_framework_was_recorded_with_the_schema_of_today(root: DirectPeer, way: Way, call: Any) -> None:
    """Where the schema has changed since, the frameworks are to be recorded anew."""
    schema = listed(root, call["tool"])["inputSchema"]

    assert way.sends(schema, call["given"]) == call["sent"]


@recorded(*QUERY_TOOLS, EXPORT)
def test_what_a_framework_sends_has_the_result_of_what_its_model_gave(root: DirectPeer, way: Way, call: Any) -> None:
    plain = root.call(call["tool"], REVISION, **call["given"])

    assert plain["isError"] is call["result"]["isError"]
    assert root.call(call["tool"], REVISION, **call["sent"]) == plain


#: What a model gives where it has nothing to say and the schema no default.
BLANKS: Arguments = {"string": "", "array": [], "object": {}, "boolean": False}


@recorded(*QUERY_TOOLS, EXPORT)
def test_what_a_framework_has_its_model_give_may_be_blank(root: DirectPeer, way: Way, call: Any) -> None:
    """smolagents has its model give every argument, even those that the schema does not require."""
    properties = listed(root, call["tool"])["inputSchema"]["properties"]
    blanks = {name: BLANKS.get(properties[name]["type"]) for name in call["required"]}
    defaults = {name: properties[name]["default"] for name in blanks if "default" in properties[name]}
    plain = root.call(call["tool"], REVISION, **call["given"])

    assert root.call(call["tool"], REVISION, **{**blanks, **defaults, **call["given"]}) == plain


# Results.


@recorded()
def test_the_rule_reads_what_the_framework_read(way: Way, call: Any) -> None:
    assert way.reads(call["result"]) == call["read"]


@every_way
def test_rows_and_the_next_cursor_are_read(root: DirectPeer, way: Way) -> None:
    result = root.call("find_records", REVISION, model="flights.flight", fields=["carrier"], limit=2)

    assert '"rows":[[1,"UA"],[2,"AA"]]' in way.words(result)
    assert result["structuredContent"]["next_cursor"] in way.words(result)


@every_way
def test_the_rows_of_a_csv_are_read(root: DirectPeer, way: Way) -> None:
    result = root.call("find_records", REVISION, model="flights.flight", fields=["carrier"], limit=2, format="csv")

    words = way.words(result)
    if way.reads is structured_content:
        # Here the model reads no text, and is told where the rows are.
        assert '"row_count":2,"rows_in":"text"' in words
    else:
        assert "1,UA\r\n2,AA" in words.replace("\\r\\n", "\r\n")


@every_way
def test_a_record_is_read(root: DirectPeer, way: Way) -> None:
    result = root.call("get_record", REVISION, model="flights.airline", id="AA")

    assert '{"carrier":"AA","name":"American"}' in way.words(result)


@every_way
def test_the_first_error_is_read(root: DirectPeer, way: Way) -> None:
    of_arguments = root.call("find_records", REVISION, model="flight")
    of_ids = root.call(EXPORT, REVISION, ids=["0"])

    assert "Did you mean flights.flight?" in way.words(of_arguments)
    assert "no flights.flight with the primary key 0." in way.words(of_ids)


@every_way
def test_a_file_is_named(root: DirectPeer, way: Way) -> None:
    result = root.call(EXPORT, REVISION, ids=["1", "2"])

    assert "attached: flights.csv, text/csv, 3 lines, 239 bytes" in way.words(result)


@pytest.fixture
def act(root: DirectPeer, declared: Declared) -> Callable[..., Any]:
    """Runs an action that says something and returns what is given."""

    def run(level: int, returns: Any = None) -> Any:
        @admin.action(permissions=["view"])
        def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
            self.message_user(request, "said", level)
            return returns

        declared.admin(Flight, type("Acting", (FlightAdmin,), {"actions": ["act"], "act": act}))
        switch_on("flights_flight_act")
        return root.call("flights_flight_act", REVISION, ids=["1"])

    return run


@every_way
def test_a_file_is_named_beside_a_message(act: Callable[..., Any], way: Way) -> None:
    result = act(messages.SUCCESS, HttpResponse(b"\xff", content_type="application/pdf"))

    assert "said" in way.words(result)
    assert "attached: file.pdf, application/pdf, 1 bytes" in way.words(result)


@every_way
def test_a_failure_is_read_without_its_flag(act: Callable[..., Any], way: Way) -> None:
    result = act(messages.ERROR)

    assert "error: said" in way.words(result)
    assert "Nothing was rolled back" in way.words(result)
