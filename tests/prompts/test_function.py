"""Functions of the project as prompts: which arguments a client asks for, and how their texts are read."""

from __future__ import annotations

import datetime
import enum
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


@pytest.mark.parametrize(
    "returned", ["text", PromptMessage("user", "text"), ("text",), [PromptMessage("user", "text")]]
)
def test_one_message_needs_no_list(root: DirectPeer, declared: Declared, returned: Any) -> None:
    def say(request: HttpRequest) -> Any:
        """Say."""
        return returned

    declared.prompt(say)

    assert text(root, "say") == "text"


def test_a_prompt_may_be_asynchronous(root: DirectPeer, declared: Declared) -> None:
    async def wait(request: HttpRequest, airport: Airport) -> str:
        """Wait."""
        return f"{airport.name}: {await Flight.objects.acount()}"

    declared.prompt(wait)

    assert text(root, "wait", airport="JFK") == "JFK: 6"


@pytest.mark.parametrize(("role", "content", "error"), [
    ("system", "x", ValueError), ("user", b"x", TypeError), ("user", ["x"], TypeError), ("user", None, TypeError),
    (None, "x", ValueError),
])  # fmt: skip
def test_a_message_that_can_be_none(role: Any, content: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        PromptMessage(role, content)


@pytest.mark.parametrize("returned", [None, 5, b"x", {"role": "user"}, ["x", None], Image(b"", "image/png")])
def test_what_is_no_message_is_a_fault_of_the_server(
    root: DirectPeer, declared: Declared, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(request: HttpRequest) -> Any:
        """Wrong."""
        return returned

    declared.prompt(wrong)

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


@pytest.mark.parametrize(("arguments", "fields"), [
    ({}, ["arguments.airport", "arguments.seats"]),
    ({"airport": "JFK"}, ["arguments.seats"]),
    ({"airport": "JFK", "seats": "many"}, ["arguments.seats"]),
    ({"airport": "JFK", "seats": "10"}, ["arguments.seats"]),
    ({"airport": "JFK", "seats": "1.5"}, ["arguments.seats"]),
    ({"airport": "JFK", "seats": "1", "tone": "loud"}, ["arguments.tone"]),
    ({"airport": "JFK", "seats": "1", "day": "yesterday"}, ["arguments.day"]),
    ({"airport": "nope", "seats": "1"}, ["arguments.airport"]),
    ({"airport": "JFK", "seats": "1", "request": "x"}, ["arguments.request"]),
    ({"airport": "JFK", "seats": "1", "sets": "2"}, ["arguments.sets"]),
    ({"airport": "JFK", "seats": 1}, ["arguments.seats"]),
    ({"airport": "JFK", "seats": None}, ["arguments.seats"]),
    ({"airport": "JFK", "seats": ["1"]}, ["arguments.seats"]),
    ({"airport": True, "seats": {}}, ["arguments.airport", "arguments.seats"]),
    ({"airport": "JFK", "seats": "", "day": ""}, ["arguments.seats"]),
])  # fmt: skip
def test_wrong_arguments_are_listed(root: DirectPeer, declared: Declared, arguments: Any, fields: list[str]) -> None:
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

    error = refused(root, "book", **arguments)

    assert [entry["field"] for entry in error["data"]["errors"]] == fields


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


@pytest.mark.parametrize(("raised", "message"), [
    (ToolError("There is no such month. Name one from 1 to 12."), "There is no such month. Name one from 1 to 12."),
    (PermissionDenied("secret"), "You may not do this."),
    (Flight.DoesNotExist("secret"), "There is no such object."),
    (ValidationError(["Not this.", "Nor that."]), "Not this.; Nor that."),
])  # fmt: skip
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_prompt_that_refuses_says_why(
    root: DirectPeer, declared: Declared, raised: Exception, message: str, asynchronous: bool
) -> None:
    def refuse(request: HttpRequest) -> str:
        """Refuse."""
        raise raised

    async def refuse_later(request: HttpRequest) -> str:
        """Refuse."""
        raise raised

    declared.prompt(refuse_later if asynchronous else refuse, name="refuse")

    error = refused(root, "refuse")

    assert error == {"code": -32602, "message": message, "data": {"reason": "PROMPT_REFUSED", "errors": []}}


@pytest.mark.parametrize("raised", [ValueError("the password is hunter2"), KeyError("hunter2"), SystemExit("hunter2")])
def test_a_prompt_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: HttpRequest) -> str:
        """Fail."""
        raise raised

    declared.prompt(fail)

    error = root.error(MODERN, "prompts/get", {"name": "fail"})

    assert error == {
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

    assert str(refused(nobody, "describe", flight="1")) == str(refused(nobody, "describe", flight="1"))
    [entry] = refused(nobody, "describe", flight="1")["data"]["errors"]
    assert entry["message"] == "no flights.flight with the primary key 1."
    assert refused(root, "describe", flight="99")["data"]["errors"][0]["message"] == (
        "no flights.flight with the primary key 99."
    )


# Functions that can be no prompt.


def _undocumented(request: HttpRequest) -> str:
    return ""


def _untyped(request: HttpRequest, seats) -> str:  # type: ignore[no-untyped-def]
    """Untyped."""
    return ""


def _starred(request: HttpRequest, *seats: str) -> str:
    """Starred."""
    return ""


def _keywords(request: HttpRequest, **seats: str) -> str:
    """Keywords."""
    return ""


def _without_request() -> str:
    """Without request."""
    return ""


def _list(request: HttpRequest, seats: list[int]) -> str:
    """List."""
    return ""


def _dict(request: HttpRequest, seats: dict[str, int] | None = None) -> str:
    """Dict."""
    return ""


def _object(request: HttpRequest, seat: Seat) -> str:
    """Object."""
    return ""


def _nothing(request: HttpRequest, seat: None) -> str:
    """Nothing."""
    return ""


def _numbers(request: HttpRequest, plain: Plain) -> str:
    """Numbers."""
    return ""


def _literals(request: HttpRequest, seats: Literal[1, 2]) -> str:
    """Literals."""
    return ""


def _alias(request: HttpRequest, seat: Annotated[int, Field(alias="place")]) -> str:
    """Alias."""
    return ""


def _two_models(request: HttpRequest, thing: Flight | Airline) -> str:
    """Two models."""
    return ""


@pytest.mark.parametrize(("function", "message"), [
    (_undocumented, "The prompt _undocumented needs a docstring"),
    (_untyped, "The parameter seats of the prompt _untyped needs an annotation"),
    (_starred, "The parameter seats of the prompt _starred needs an annotation"),
    (_keywords, "The parameter seats of the prompt _keywords needs an annotation"),
    (_without_request, "The prompt _without_request must take the request as its first parameter"),
    (_list, "comes as a text of that name, which cannot be read as its annotation"),
    (_dict, "comes as a text of that name, which cannot be read as its annotation"),
    (_object, "comes as a text of that name, which cannot be read as its annotation"),
    (_nothing, "comes as a text of that name, which cannot be read as its annotation"),
    (_alias, "comes as a text of that name, which cannot be read as its annotation"),
    (_numbers, "its choice '1' cannot be read from a text"),
    (_literals, "its choice '1' cannot be read from a text. Use choices that are texts, or an IntEnum."),
    (_two_models, "may be one model, or one model or None"),
])  # fmt: skip
def test_a_function_that_can_be_no_prompt(function: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        prompt(site=MCPSite("own"))(function)


def test_names_that_clients_refuse_and_names_that_are_taken() -> None:
    own = MCPSite("own")

    def hello(request: HttpRequest) -> str:
        """Say hello."""
        return "Hello."

    prompt(site=own)(hello)
    with pytest.raises(ImproperlyConfigured, match="must be 1 to 64 letters, digits, _ and -, or clients refuse it"):
        prompt(site=own, name="say hello")(hello)
    with pytest.raises(ImproperlyConfigured, match="Two prompts are named hello"):
        prompt(site=own)(hello)
    with pytest.raises(
        ImproperlyConfigured, match="complete= of the prompt other names 'who', which is not an argument of it"
    ):
        prompt(site=own, name="other", complete={"who": lambda request, typed, arguments: []})(hello)
    assert list(own.prompts) == ["hello"]
    assert hello(HttpRequest()) == "Hello."
