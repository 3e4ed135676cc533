"""Functions of the project as prompts: which arguments a client asks for, and how their texts are read."""

from __future__ import annotations

import datetime
import enum
import re
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured, PermissionDenied, ValidationError
from django.http import HttpRequest
from django.test import override_settings
from pydantic import BaseModel, Field, Json

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import MCPSite, PromptMessage, prompt
from mcp_django.content import EmbeddedText, Image, ResourceLink
from mcp_django.exceptions import ToolError
from tests.support.asking import DirectPeer
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN


class Tone(enum.Enum):
    SHORT = "short"
    LONG = "long"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Plain(enum.Enum):
    ONE = 1


class Seat(BaseModel):
    row: int


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


def listed(peer: DirectPeer, name: str) -> Any:
    """A prompt as prompts/list has it."""
    [found] = [item for item in peer.result(MODERN, "prompts/list")["prompts"] if item["name"] == name]
    return found


def get(peer: DirectPeer, name: str, **arguments: str) -> Any:
    return peer.result(MODERN, "prompts/get", {"name": name, "arguments": arguments})


def text(peer: DirectPeer, name: str, **arguments: str) -> str:
    """The text of a prompt that is one message of the user's."""
    [message] = get(peer, name, **arguments)["messages"]
    assert message["role"] == "user" and message["content"]["type"] == "text"
    said: str = message["content"]["text"]
    return said


def refused(peer: DirectPeer, name: str, **arguments: Any) -> Any:
    error = peer.error(MODERN, "prompts/get", {"name": name, "arguments": arguments})
    assert error["code"] == -32602
    return error


# What a client asks for.


def test_parameters_are_the_arguments(root: DirectPeer, declared: Declared) -> None:
    def report(
        request: HttpRequest,
        airport: Annotated[Airport, Field(description="Where from.", title="Airport")],  # type: ignore[valid-type]
        seats: Annotated[int, Field(description="How many.")],
        tone: Literal["short", "long"] = "short",
        level: Level = Level.HIGH,
        formal: bool = False,
        day: datetime.date | None = None,
        since: datetime.date = datetime.date(2013, 1, 31),
        notes: str = "",
    ) -> str:
        """Write a report.

        As long as it takes.
        """
        return ""

    declared.prompt(report, title="Report")

    assert listed(root, "report") == {
        "name": "report",
        "title": "Report",
        "description": "Write a report.\n\nAs long as it takes.",
        "arguments": [
            {"name": "airport", "required": True, "title": "Airport",
             "description": "Where from. Primary key of a flights.airport."},
            {"name": "seats", "required": True, "description": "How many."},
            {"name": "tone", "required": False, "description": "One of: short, long. Default: short."},
            {"name": "level", "required": False, "description": "One of: 1, 2. Default: 2."},
            {"name": "formal", "required": False, "description": "One of: true, false. Default: false."},
            {"name": "day", "required": False},
            {"name": "since", "required": False, "description": "Default: 2013-01-31."},
            {"name": "notes", "required": False},
        ],
    }  # fmt: skip


def test_a_prompt_without_arguments_has_none(root: DirectPeer, declared: Declared) -> None:
    def hello(request: HttpRequest) -> str:
        """Say hello."""
        return "Hello."

    declared.prompt(hello, name="say-hello")

    assert listed(root, "say-hello") == {"name": "say-hello", "description": "Say hello."}
    assert text(root, "say-hello") == "Hello."


# Texts become values.


def test_arguments_arrive_as_what_they_are_annotated_with(root: DirectPeer, declared: Declared) -> None:
    seen: list[Any] = []

    def take(
        request: HttpRequest, airport: Airport, carrier: Airline | None, count: int, tone: Tone, level: Level,
        formal: bool, day: datetime.date, price: Decimal, rows: Json[list[int]], free: Any,
        label: str,
    ) -> str:  # fmt: skip
        """Take."""
        seen.extend([airport, carrier, count, tone, level, formal, day, price, rows, free, label])
        return ""

    declared.prompt(take)

    get(root, "take", airport="JFK", carrier="UA", count="3", tone="long", level="2", formal="yes",
        day="2013-01-31", price="1.50", rows="[1, 2]", free="x", label=" 5 ")  # fmt: skip

    assert seen == [
        Airport.objects.get(pk="JFK"), Airline.objects.get(pk="UA"), 3, Tone.LONG, Level.HIGH, True,
        datetime.date(2013, 1, 31), Decimal("1.50"), [1, 2], "x", " 5 ",
    ]  # fmt: skip


def test_what_a_form_left_blank_counts_as_left_out(root: DirectPeer, declared: Declared) -> None:
    def ask(
        request: HttpRequest, need: str, day: datetime.date | None = None, flight: Flight | None = None,
        tone: Literal["short", "long"] = "short", notes: str = "none",
    ) -> str:  # fmt: skip
        """Ask."""
        return f"{need!r} {day} {flight} {tone} {notes!r}"

    declared.prompt(ask)

    assert text(root, "ask", need="", day="", flight="", tone="", notes="") == "'' None None short ''"


# Messages.


def test_messages_of_every_kind(root: DirectPeer, declared: Declared) -> None:
    def talk(request: HttpRequest) -> list[str | PromptMessage]:
        """Talk."""
        return [
            "Look at this.",
            PromptMessage("user", Image(b"\x00\xff", "image/png")),
            PromptMessage("user", EmbeddedText("shop://a", "inside", "text/plain")),
            PromptMessage("assistant", ResourceLink("shop://b", "b")),
            PromptMessage("assistant", "I see."),
        ]

    declared.prompt(talk)
    result = get(root, "talk")

    assert result.pop("_meta") and result.pop("resultType") == "complete"
    assert result == {
        "description": "Talk.",
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Look at this."}},
            {"role": "user", "content": {"type": "image", "data": "AP8=", "mimeType": "image/png"}},
            {"role": "user", "content": {
                "type": "resource", "resource": {"uri": "shop://a", "mimeType": "text/plain", "text": "inside"}}},
            {"role": "assistant", "content": {"type": "resource_link", "uri": "shop://b", "name": "b"}},
            {"role": "assistant", "content": {"type": "text", "text": "I see."}},
        ],
    }  # fmt: skip


def test_one_message_needs_no_list(root: DirectPeer, declared: Declared) -> None:
    returned: list[Any] = ["text", PromptMessage("user", "text"), ("text",), [PromptMessage("user", "text")]]

    def say(request: HttpRequest) -> Any:
        """Say."""
        return returned.pop()

    declared.prompt(say)

    assert [text(root, "say") for _ in range(4)] == ["text"] * 4


def test_a_prompt_may_be_asynchronous(root: DirectPeer, declared: Declared) -> None:
    async def wait(request: HttpRequest, airport: Airport) -> str:
        """Wait."""
        return f"{airport.name}: {await Flight.objects.acount()}"

    declared.prompt(wait)

    assert text(root, "wait", airport="JFK") == "JFK: 6"


def test_a_message_that_can_be_none() -> None:
    wrong: list[tuple[Any, Any, type[Exception]]] = [
        ("system", "x", ValueError), (None, "x", ValueError), ("user", b"x", TypeError), ("user", ["x"], TypeError),
        ("user", None, TypeError),
    ]  # fmt: skip
    for role, content, error in wrong:
        with pytest.raises(error):
            PromptMessage(role, content)


def test_what_is_no_message_is_a_fault_of_the_server(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    returned: list[Any] = [None, 5, b"x", {"role": "user"}, ["x", None], Image(b"", "image/png")]

    def wrong(request: HttpRequest) -> Any:
        """Wrong."""
        return returned.pop()

    declared.prompt(wrong)

    while returned:
        caplog.clear()
        error = root.error(MODERN, "prompts/get", {"name": "wrong"})
        assert (error["code"], error["message"]) == (-32603, "Internal error. The server's log has the details.")
        assert "A prompt returns texts and PromptMessages" in caplog.text


def test_a_prompt_larger_than_a_message_is_refused_in_words(root: DirectPeer, declared: Declared) -> None:
    def shout(request: HttpRequest) -> str:
        """Shout."""
        return "x" * 5_000

    declared.prompt(shout)
    with override_settings(MCP={"MAX_RESULT_BYTES": 4_000}):
        error = root.error(MODERN, "prompts/get", {"name": "shout"})

    assert error["data"]["reason"] == "LIMIT_EXCEEDED"
    assert error["message"] == "The answer would be larger than 4000 bytes (MAX_RESULT_BYTES). Ask for less."


# Wrong arguments.


def test_wrong_arguments_are_listed(root: DirectPeer, declared: Declared) -> None:
    def book(
        request: HttpRequest,
        airport: Airport,
        seats: Annotated[int, Field(ge=1, le=9)],
        tone: Literal["short", "long"] = "short",
        day: datetime.date | None = None,
    ) -> str:
        """Book."""
        raise AssertionError("was called")

    declared.prompt(book)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"airport": "nope"}, "airport"), ({"seats": "many"}, "seats"), ({"seats": "10"}, "seats"),
        ({"seats": "1.5"}, "seats"), ({"tone": "loud"}, "tone"), ({"day": "yesterday"}, "day"),
        ({"request": "x"}, "request"), ({"sets": "2"}, "sets"), ({"seats": 1}, "seats"), ({"seats": None}, "seats"),
        ({"seats": ["1"]}, "seats"), ({"seats": "", "day": ""}, "seats"),
    ]  # fmt: skip

    for given, field in wrong:
        errors = refused(root, "book", **{"airport": "JFK", "seats": "1", **given})["data"]["errors"]
        assert [entry["field"] for entry in errors] == [f"arguments.{field}"], given
    for both in ({}, {"airport": True, "seats": {}}):
        errors = refused(root, "book", **both)["data"]["errors"]
        assert [entry["field"] for entry in errors] == ["arguments.airport", "arguments.seats"]
    assert [e["field"] for e in refused(root, "book", airport="JFK")["data"]["errors"]] == ["arguments.seats"]


def test_a_wrong_argument_is_named_with_what_would_be_right(root: DirectPeer, declared: Declared) -> None:
    def book(request: HttpRequest, seats: int, airport: str = "") -> str:
        """Book."""
        return ""

    declared.prompt(book)

    assert refused(root, "book", airpot="JFK") == {
        "code": -32602,
        "message": "Invalid arguments for the prompt book. arguments.airpot: no argument 'airpot'. Did you mean "
        "airport? Allowed: seats, airport.",
        "data": {
            "reason": "INVALID_PARAMS",
            "errors": [
                {"field": "arguments.airpot", "received": "JFK",
                 "message": "no argument 'airpot'. Did you mean airport? Allowed: seats, airport."},
                {"field": "arguments.seats", "message": "is required", "received": None},
            ],
        },
    }  # fmt: skip


def test_an_unknown_prompt(root: DirectPeer) -> None:
    assert refused(root, "nope") == {
        "code": -32602,
        "message": "Unknown prompt: nope. name: not a prompt; prompts/list names the prompts",
        "data": {
            "reason": "PROMPT_NOT_FOUND",
            "errors": [
                {"field": "name", "message": "not a prompt; prompts/list names the prompts", "received": "nope"}
            ],
        },
    }
    for params in ({}, {"name": 5}, {"name": None}, {"name": "x", "arguments": []}, {"name": "x", "arguments": "y"}):
        assert root.error(MODERN, "prompts/get", params)["code"] == -32602


# A prompt that fails.


def test_a_prompt_that_refuses_says_why(root: DirectPeer, declared: Declared) -> None:
    messages: dict[Exception, str] = {
        PermissionDenied("secret"): "You may not do this.",
        ToolError("There is no such month. Name one from 1 to 12."): "There is no such month. Name one from 1 to 12.",
        Flight.DoesNotExist("secret"): "There is no such object.",
        ValidationError(["Not this.", "Nor that."]): "Not this.; Nor that.",
    }
    raised = [*messages, *messages]

    def refuse(request: HttpRequest) -> str:
        """Refuse."""
        raise raised.pop(0)

    async def refuse_later(request: HttpRequest) -> str:
        """Refuse."""
        raise raised.pop(0)

    for function in (refuse, refuse_later):
        declared.prompt(function, name="refuse")
        assert [refused(root, "refuse") for _ in messages] == [
            {"code": -32602, "message": message, "data": {"reason": "PROMPT_REFUSED", "errors": []}}
            for message in messages.values()
        ]
        declared.close()


def test_a_prompt_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    raised: list[type[BaseException]] = [KeyError, ValueError, SystemExit]

    def fail(request: HttpRequest) -> str:
        """Fail."""
        raise raised.pop()("the password is hunter2")

    declared.prompt(fail)

    while raised:
        caplog.clear()
        assert root.error(MODERN, "prompts/get", {"name": "fail"}) == {
            "code": -32603, "message": "Internal error. The server's log has the details.",
            "data": {"reason": "INTERNAL_ERROR"},
        }  # fmt: skip
        assert "The prompt fail failed" in caplog.text and "hunter2" in caplog.text


# Who may.


def test_a_prompt_without_its_permission_does_not_exist(root: DirectPeer, declared: Declared) -> None:
    def hidden(request: HttpRequest) -> str:
        """Hidden."""
        return "hidden"

    declared.prompt(hidden, permission="flights.change_flight")
    nobody = DirectPeer(make_staff("nobody", "flights.view_flight"))

    assert "hidden" not in str(nobody.result(MODERN, "prompts/list"))
    assert str(refused(nobody, "hidden")).replace("hidden", "hxdden") == str(refused(nobody, "hxdden"))
    assert text(DirectPeer(make_staff("somebody", "flights.change_flight")), "hidden") == "hidden"


def test_a_token_without_the_scope_read_has_no_prompts(root: DirectPeer, declared: Declared) -> None:
    def hello(request: HttpRequest) -> str:
        """Say hello."""
        return "Hello."

    declared.prompt(hello)
    writing = DirectPeer(root.user, "actions")

    assert writing.result(MODERN, "prompts/list")["prompts"] == []
    assert refused(writing, "hello")["data"]["reason"] == "PROMPT_NOT_FOUND"


def test_the_key_of_a_hidden_row_is_the_key_of_no_row(root: DirectPeer, declared: Declared) -> None:
    def describe(request: HttpRequest, flight: Flight) -> str:
        """Describe."""
        return str(flight)

    declared.prompt(describe)
    nobody = DirectPeer(make_staff("nobody", "flights.view_airline"))

    for peer, key in ((nobody, "1"), (root, "99")):
        [entry] = refused(peer, "describe", flight=key)["data"]["errors"]
        assert entry["message"] == f"no flights.flight with the primary key {key}."


# Functions that can be no prompt.


def test_a_function_that_can_be_no_prompt() -> None:
    unreadable = "comes as a text of that name, which cannot be read as its annotation"
    unannotated = "The parameter seats of the prompt made needs an annotation"
    choice = "its choice '1' cannot be read from a text. Use choices that are texts, or an IntEnum."
    wrong = {
        "seats": unannotated, "*seats: str": unannotated, "**seats: str": unannotated,
        "seats: list[int]": unreadable, "seats: dict[str, int] | None = None": unreadable, "seat: Seat": unreadable,
        "seat: None": unreadable, "seat: Annotated[int, Field(alias='place')]": unreadable,
        "plain: Plain": choice, "seats: Literal[1, 2]": choice,
        "thing: Flight | Airline": "may be one model, or one model or None",
    }  # fmt: skip

    for parameter, message in wrong.items():
        namespace: dict[str, Any] = dict(globals())
        exec(f"def made(request: HttpRequest, {parameter}) -> str:\n    'Made.'", namespace)
        with pytest.raises(ImproperlyConfigured, match=re.escape(message)):
            prompt(site=MCPSite("own"))(namespace["made"])
    with pytest.raises(ImproperlyConfigured, match="The prompt <lambda> needs a docstring"):
        prompt(site=MCPSite("own"))(lambda request: "")

    def without_request() -> str:
        """Without request."""
        return ""

    with pytest.raises(ImproperlyConfigured, match="without_request must take the request as its first parameter"):
        prompt(site=MCPSite("own"))(without_request)


def test_names_that_clients_refuse_and_names_that_are_taken() -> None:
    own = MCPSite("own")

    def hello(request: HttpRequest) -> str:
        """Say hello."""
        return "Hello."

    prompt(site=own)(hello)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"name": "say hello"}, "must be 1 to 64 letters, digits, _ and -, or clients refuse it"),
        ({}, "Two prompts are named hello"),
        ({"name": "other", "complete": {"who": lambda request, typed, arguments: []}},
         "complete= of the prompt other names 'who', which is not an argument of it"),
    ]  # fmt: skip
    for options, message in wrong:
        with pytest.raises(ImproperlyConfigured, match=message):
            prompt(site=own, **options)(hello)
    assert list(own.prompts) == ["hello"]
    assert hello(HttpRequest()) == "Hello."
