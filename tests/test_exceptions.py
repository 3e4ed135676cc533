"""The exceptions that a handler may raise, and what its client gets: the table of docs/reference-imports.md."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError

from demo_project.flights.models import Airline
from mcp_django import site
from mcp_django.exceptions import MCPError, MissingCapability, ToolError, field_error
from mcp_django.test import MCPClient, ProtocolError, ToolResult
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN


class Teapot(MCPError):
    code = 418
    reason = "TEAPOT"


REFUSALS: list[tuple[Exception, str]] = [
    (ToolError("Only on Mondays."), "Only on Mondays."),
    (PermissionDenied("secret"), "You may not do this."),
    (ObjectDoesNotExist("secret"), "There is no such object."),
    (ValidationError("Too short."), "Too short."),
]
ERRORS: list[tuple[Exception, int, str]] = [
    (MCPError("Busy."), -32603, "INTERNAL_ERROR"),
    (Teapot("Short and stout."), 418, "TEAPOT"),
    (MissingCapability({"sampling": {}}), -32021, "MISSING_CLIENT_CAPABILITY"),
]


class Raising:
    """Handlers of each kind, which raise the exception of the test."""

    def __init__(self, declared: Declared, user: User) -> None:
        self.error: Exception = ValueError("secret")
        self.user = user
        declared.tool(self.tool_of(), name="act", read_only=True)
        declared.prompt(self.prompt_of(), name="write", complete={"topic": lambda request, typed, others: self.fail()})
        declared.resource("raising://one", lambda request: self.fail())
        declared.resource("raising://{key}", lambda request, key: self.fail())

    def fail(self) -> Any:
        raise self.error

    def tool_of(self) -> Any:
        def act(request: Any) -> str:
            """Act."""
            return str(self.fail())

        return act

    def prompt_of(self) -> Any:
        def write(request: Any, topic: str) -> str:
            """Write."""
            return str(self.fail())

        return write

    def call(self, error: Exception, revision: str = MODERN) -> ToolResult:
        self.error = error
        with MCPClient(self.user, revision=revision, raise_exceptions=False) as client:
            return client.call("act", raise_on_error=False)

    def error_of(self, error: Exception, method: str, params: Any, revision: str = MODERN) -> ProtocolError:
        self.error = error
        with (
            MCPClient(self.user, revision=revision, raise_exceptions=False) as client,
            pytest.raises(ProtocolError) as raised,
        ):
            client.request(method, params)
        return raised.value


PROMPT = ("prompts/get", {"name": "write", "arguments": {"topic": "t"}})
RESOURCE = ("resources/read", {"uri": "raising://one"})
TEMPLATE = ("resources/read", {"uri": "raising://other"})
TOOL = ("tools/call", {"name": "act", "arguments": {}})
COMPLETER = (
    "completion/complete",
    {"ref": {"type": "ref/prompt", "name": "write"}, "argument": {"name": "topic", "value": ""}},
)


@pytest.fixture
def raising(db: None, declared: Declared) -> Raising:
    return Raising(declared, User.objects.create_superuser("root"))


def test_a_tool_and_a_prompt_that_refuse_give_the_text_and_a_completer_suggests_nothing(raising: Raising) -> None:
    for error, text in REFUSALS:
        result, told = raising.call(error), raising.error_of(error, *PROMPT)

        assert (result.is_error, result.text) == (True, text)
        assert (told.reason, told.message) == ("PROMPT_REFUSED", text)
        with MCPClient(raising.user) as client:
            assert client.complete("write", "topic") == []


def test_a_resource_that_refuses_gives_the_text_of_a_tool_error_alone(raising: Raising) -> None:
    for place in (RESOURCE, TEMPLATE):
        told = raising.error_of(ToolError("Only on Mondays."), *place)
        assert (told.reason, told.message) == ("RESOURCE_REFUSED", "Only on Mondays.")
        assert raising.error_of(ValidationError("secret"), *place).reason == "INTERNAL_ERROR"
    for error in (PermissionDenied("secret"), ObjectDoesNotExist("secret")):
        assert raising.error_of(error, *TEMPLATE).reason == "RESOURCE_NOT_FOUND"
        assert raising.error_of(error, *RESOURCE).reason == "INTERNAL_ERROR"


def test_an_error_of_the_protocol_is_told_as_it_is(raising: Raising) -> None:
    for error, code, reason in ERRORS:
        told = [raising.error_of(error, *place) for place in (TOOL, PROMPT, RESOURCE, TEMPLATE, COMPLETER)]

        assert [(one.code, one.reason, one.message) for one in told] == [(code, reason, str(error))] * 5


def test_the_data_of_an_error_reach_the_client(raising: Raising) -> None:
    assert raising.error_of(MCPError("The line is cut.", line=7), *TOOL).data == {"reason": "INTERNAL_ERROR", "line": 7}


def test_an_earlier_client_is_told_in_a_result_what_it_lacks(raising: Raising) -> None:
    result = raising.call(MissingCapability({"elicitation": {"url": {}}}), LEGACY[-1])

    assert result.is_error
    assert result.text == "This needs a client with the capability elicitation.url."


def test_the_wrong_arguments_are_listed(raising: Raising) -> None:
    wrong = field_error("percent", "must be less than 50", 70)

    assert raising.call(ToolError("Too much.", [wrong])).errors == [wrong]


def test_the_text_of_any_other_exception_is_not_told(raising: Raising) -> None:
    told = [raising.error_of(ValueError("secret"), *place) for place in (PROMPT, RESOURCE, TEMPLATE, COMPLETER)]

    assert {one.reason for one in told} == {"INTERNAL_ERROR"}
    assert "secret" not in str([one.message for one in told]) + raising.call(ValueError("secret")).text


def test_a_hook_finds_the_principal_and_is_told_where_it_may_ask(db: None, declared: Declared) -> None:
    seen: list[tuple[Any, frozenset[str], str]] = []

    class Seen(site.models["flights.airline"].__class__):  # type: ignore[misc, name-defined]
        def get_queryset(self, request: Any) -> Any:
            try:
                told = str(request.mcp.cancelled)
            except AttributeError as error:
                told = str(error)
            seen.append((request.mcp.principal.user, request.mcp.principal.scopes, told))
            return super().get_queryset(request)

    declared.model(Airline, Seen)
    make_flights(1)
    clerk = make_staff("clerk", "flights.view_airline")

    with MCPClient(clerk, scopes=["read"]) as client:
        client.subscribe("db://flights/airline")
        answered = list(seen)
        seen.clear()
        Airline.objects.get(pk="UA").save()
        client.wait_for_update()

    assert {told for _, _, told in answered} == {"False"}
    assert {(user, scopes) for user, scopes, _ in seen} == {(clerk, frozenset({"read"}))}
    assert all("in a check before a push" in told for _, _, told in seen)
