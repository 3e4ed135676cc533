"""Arguments that HTTP clients repeat in headers (2026-07-28 transports/streamable-http#custom-headers-…)."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import override_settings
from pydantic import BaseModel, Field

from demo_project.flights.models import Airport, Flight
from mcp_django import site
from mcp_django.bridge.tools.mirrored import Mirrored
from tests.axes import DUPLEX, HTTP
from tests.support import schemas
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, ASGIPeer, HTTPPeer, Peer, Peers, encode_headers, meta
from tests.support.raw import error


def mirror(name: str) -> Any:
    return Field(json_schema_extra={"x-mcp-header": name})


class Options(BaseModel):
    limit: Annotated[int, mirror("Limit")] = 10
    safe: Annotated[bool, mirror("Safe")] = True


def execute(
    request: HttpRequest,
    region: Annotated[str, mirror("Region")] = "",
    seats: Annotated[int, mirror("Seats")] = 0,
    dry: Annotated[bool, mirror("Dry-Run")] = False,
    options: Options = Options(),  # noqa: B008
    note: str = "",
) -> str:
    """Execute."""
    return f"{region} {seats} {dry} {options.limit} {options.safe}"


@pytest.fixture
def tool(declared: Declared) -> None:
    declared.tool(execute, read_only=True)


def call(
    peer: HTTPPeer, arguments: Any, headers: dict[str, str] | None = None, name: str = "execute"
) -> tuple[int, Any]:
    """Call the tool with headers beside the standard ones: the HTTP status, and the message."""
    params = {"name": name, "arguments": arguments, "_meta": meta()}
    sent = {**peer.modern_headers("tools/call", params), **(headers or {})}
    answer = peer.http("POST", body(params), sent)
    schemas.check(answer.json, MODERN, "tools/call")
    return answer.status, answer.json


def body(params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def refused(title: str, problem: str, where: str) -> tuple[int, Any]:
    message = f"The header {title} {problem}: it repeats arguments.{where} of the body."
    return 400, error(-32020, "HEADER_MISMATCH", message, 1, header=title)


def outcome(answered: tuple[int, Any]) -> str:
    """What was said of a call, in a word: the text of its result, or the reason of its error."""
    status, message = answered
    if status != 200:
        assert (status, message["error"]["code"]) == (400, -32020)
        return str(message["error"]["data"]["reason"])
    return text_of(message["result"])


MISMATCH = "HEADER_MISMATCH"


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


# What the header must say.


#: Case → the argument, the header, and whether they agree. The first ones are vectors of the specification.
TEXTS: dict[str, tuple[str, str | None, bool]] = {
    "plain": ("us-west1", "us-west1", True),
    "beyond ASCII": ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?=", True),
    "padded": (" padded ", "=?base64?IHBhZGRlZCA=?=", True),
    "two lines": ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?=", True),
    "like an encoded one": ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", True),
    "encoded": ("Hello", "=?base64?SGVsbG8=?=", True),
    "over-encoded": ("us-west1", encoded("us-west1"), True),
    "literal": ("SGVsbG8=", "SGVsbG8=", True),
    "start mark alone": ("=?base64?SGVsbG8=", "=?base64?SGVsbG8=", True),
    "end mark alone": ("SGVsbG8=?=", "SGVsbG8=?=", True),
    "marks that overlap": ("=?base64?=", "=?base64?=", True),
    "upper-case marks": ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", True),
    "empty": ("", "", True),
    "empty and encoded": ("", "=?base64??=", True),
    "whitespace around": ("us-west1", " \tus-west1\t ", True),
    "tab": ("a\tb", "a\tb", True),
    "number as text": ("42", "42", True),
    "missing": ("test-value", None, False),
    "missing though empty": ("", None, False),
    "another value": ("us-west1", "us-east1", False),
    "another case": ("us-west1", "US-WEST1", False),
    "another number as text": ("42", "42.0", False),
    "bad padding": ("Hello", "=?base64?SGVsbG8?=", False),
    "bad alphabet": ("Hello", "=?base64?SGVs!!!bG8=?=", False),
    "URL-safe alphabet": ("ÿÿÿ", "=?base64?w7_Dv8O_?=", False),
    "whitespace in base64": ("abc", "=?base64?YW\tJj?=", False),
    "bits left over": ("Hello", "=?base64?SGVsbG9=?=", False),
    "no UTF-8": ("\ufffd", "=?base64?/w==?=", False),
    "upper-case marks decoded": ("Hello", "=?BASE64?SGVsbG8=?=", False),
    "a literal unencoded": ("=?base64?literal?=", "=?base64?literal?=", False),
    "padding unencoded": (" padded ", " padded ", False),
    "raw latin-1": ("é", "é", False),
    "raw control character": ("a\x7f", "a\x7f", False),
}


@pytest.mark.parametrize("transport", HTTP)
def test_the_header_of_a_text_is_decoded_strictly(admin: HTTPPeer, tool: None) -> None:
    answers = {
        case: outcome(call(admin, {"region": value}, {} if header is None else {"Mcp-Param-Region": header}))
        for case, (value, header, _) in TEXTS.items()
    }

    assert answers == {
        case: f"{value} 0 False 10 True" if agree else MISMATCH for case, (value, _, agree) in TEXTS.items()
    }


INTEGERS: list[tuple[str, str | None, bool]] = [
    ("42", "42", True),
    ("42", "42.0", True),
    ("42", "4.2e1", True),
    ("42.0", "42", True),
    ("-7", "-7", True),
    ("0", "-0", True),
    ("9007199254740991", "9007199254740991", True),
    ("42", encoded("42"), True),
    ("42", None, False),
    ("0", None, False),
    ("42", "43", False),
    ("42", "42.5", False),
    ("42", "0x2a", False),
    ("42", "+42", False),
    ("42", "42 ", True),
    ("42", "4 2", False),
    ("42", "", False),
    ("42", "NaN", False),
    ("42", encoded("٤٢"), False),
    ("42", "1e9999999999", False),
    ("9007199254740993", "9007199254740993", False),
    ("9007199254740993", "9007199254740992", False),
    ("-9007199254740993", "-9007199254740993", False),
]


@pytest.mark.parametrize("transport", HTTP)
def test_an_integer_is_compared_as_a_number(admin: HTTPPeer, tool: None) -> None:
    found = {
        (value, header): outcome(
            call(admin, {"seats": json.loads(value)}, {} if header is None else {"Mcp-Param-Seats": header})
        )
        for value, header, _ in INTEGERS
    }

    assert found == {
        (value, header): f" {int(float(value)) if '.' in value else int(value)} False 10 True" if agree else MISMATCH
        for value, header, agree in INTEGERS
    }
    # One that a gateway would round is refused in words.
    assert call(admin, {"seats": 2**53 + 1}, {"Mcp-Param-Seats": str(2**53 + 1)}) == refused(
        "Mcp-Param-Seats", "cannot say an integer beyond ±9007199254740991", "seats"
    )


@pytest.mark.parametrize("transport", HTTP)
def test_a_boolean_is_true_or_false(admin: HTTPPeer, tool: None) -> None:
    cases = [(True, "true"), (False, "false"), (True, encoded("true")), (True, "True"), (True, "1"), (True, "yes"),
             (False, "true"), (False, ""), (False, "0"), (False, None)]  # fmt: skip

    found = [
        outcome(call(admin, {"dry": value}, {} if header is None else {"Mcp-Param-Dry-Run": header}))
        for value, header in cases
    ]

    assert found == [" 0 True 10 True", " 0 False 10 True", " 0 True 10 True", *[MISMATCH] * 7]


@pytest.mark.parametrize("transport", HTTP)
def test_a_property_of_an_argument_is_repeated_too(admin: HTTPPeer, tool: None) -> None:
    arguments = {"options": {"limit": 5, "safe": False}}
    both = {"Mcp-Param-Limit": "5", "Mcp-Param-Safe": "false"}

    assert outcome(call(admin, arguments, both)) == " 0 False 5 False"
    assert call(admin, arguments, {"Mcp-Param-Limit": "5"}) == refused("Mcp-Param-Safe", "is missing", "options.safe")
    assert call(admin, arguments, {**both, "Mcp-Param-Limit": "6"}) == refused(
        "Mcp-Param-Limit", "differs from the body", "options.limit"
    )


# What has no header.


@pytest.mark.parametrize("transport", HTTP)
def test_what_is_absent_or_null_has_no_header(admin: HTTPPeer, tool: None) -> None:
    header = {"Mcp-Param-Region": "us-west1"}
    absent = refused("Mcp-Param-Region", "was sent, but the argument is missing", "region")

    assert outcome(call(admin, {})) == " 0 False 10 True"
    assert call(admin, {}, header) == absent
    assert call(admin, {"region": None}, header) == absent
    assert call(admin, None, header) == absent
    assert call(admin, {"options": None}, {"Mcp-Param-Limit": "5"})[0] == 400
    # Null counts as left out, since the schema allows none.
    assert outcome(call(admin, {"region": None})) == " 0 False 10 True"


@pytest.mark.parametrize("transport", HTTP)
def test_a_value_of_another_type_is_for_the_schema_to_refuse(admin: HTTPPeer, tool: None) -> None:
    for value in (["us-west1"], {"a": 1}, []):
        status, message = call(admin, {"region": value})
        with_header = call(admin, {"region": value}, {"Mcp-Param-Region": json.dumps(value)})

        assert (status, [entry["field"] for entry in errors_of(message["result"])]) == (200, ["region"])
        assert with_header == refused("Mcp-Param-Region", "differs from the body", "region")
    for number, header in (("many", "many"), (1.5, "1.5"), (True, "true")):
        status, message = call(admin, {"seats": number}, {"Mcp-Param-Seats": header})

        assert (status, [entry["field"] for entry in errors_of(message["result"])]) == (200, ["seats"])


@pytest.mark.parametrize("transport", HTTP)
def test_a_header_that_no_argument_names_is_ignored(admin: HTTPPeer, tool: None) -> None:
    stray = {"Mcp-Param-Note": "x", "Mcp-Param-Nobody": "=?base64?!?=", "Mcp-Param-": "x"}

    assert outcome(call(admin, {"note": "y"}, stray)) == " 0 False 10 True"


# Attacks.


@pytest.mark.parametrize("transport", HTTP)
def test_a_gateway_is_told_one_region_and_the_server_another(admin: HTTPPeer, tool: None) -> None:
    answer = call(admin, {"region": "eu-secret"}, {"Mcp-Param-Region": "us-west1"})

    assert answer == refused("Mcp-Param-Region", "differs from the body", "region")
    assert "eu-secret" not in str(answer) and "us-west1" not in str(answer)


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
def test_a_second_header_says_something_else_to_a_gateway(admin: ASGIPeer, tool: None) -> None:
    for first, second, argument in (
        ("us-west1", "us-west1", "us-west1"), ("us-west1", "eu-west1", "us-west1"), ("us", "eu", "us,eu")
    ):  # fmt: skip
        params = {"name": "execute", "arguments": {"region": argument}, "_meta": meta()}
        headers = {**admin.modern_headers("tools/call", params), "Mcp-Param-Region": first}
        scope = admin.scope("POST", admin.headers(headers))
        scope["headers"] += encode_headers({"mcp-param-region": second})

        answer = admin.loop.run(admin._exchange(scope, body(params)))

        assert (answer.status, answer.json) == refused("Mcp-Param-Region", "was sent twice", "region")


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_a_second_header_that_wsgi_joins_to_the_first_is_not_the_argument(admin: HTTPPeer, tool: None) -> None:
    answer = call(admin, {"region": "us-west1"}, {"Mcp-Param-Region": "us-west1,us-west1"})

    assert answer == refused("Mcp-Param-Region", "differs from the body", "region")


@pytest.mark.parametrize("transport", HTTP)
def test_finding_a_hidden_tool_by_its_headers(peers: Peers, users: Any, declared: Declared) -> None:
    declared.tool(execute, permission="auth.delete_user", read_only=True)
    declared.tool(execute, name="rewrite")
    viewer, reader = peers(token_of(users.viewer)), peers(token_of(users.admin, "read"))
    assert isinstance(viewer, HTTPPeer) and isinstance(reader, HTTPPeer)

    for peer, hidden in ((viewer, "execute"), (reader, "rewrite")):
        for headers in ({}, {"Mcp-Param-Region": "elsewhere"}, {"Mcp-Param-Limit": "1"}):
            told = call(peer, {"region": "here"}, headers, hidden)
            absent = call(peer, {"region": "here"}, headers, "nothing")
            assert told[0] == 200 and str(told).replace(hidden, "nothing") == str(absent)


@pytest.mark.parametrize("transport", HTTP)
def test_headers_are_looked_at_after_the_caller(peers: Peers, users: Any, tool: None) -> None:
    stranger = peers("no-token")
    assert isinstance(stranger, HTTPPeer)
    params = {"name": "execute", "arguments": {"region": "here"}, "_meta": meta()}

    answer = stranger.http("POST", body(params), stranger.modern_headers("tools/call", params))

    assert answer.status == 401


@pytest.mark.parametrize("transport", HTTP)
def test_params_of_another_shape(admin: HTTPPeer, tool: None) -> None:
    shapes: list[dict[str, Any]] = [
        {"name": ["execute"], "arguments": {}}, {"name": {"execute": 1}}, {"arguments": {"region": "x"}},
        {"name": "execute", "arguments": ["region"]}, {"name": "execute", "arguments": "region"},
    ]  # fmt: skip
    for shape in shapes:
        params = {**shape, "_meta": meta()}

        answer = admin.http("POST", body(params), admin.modern_headers("tools/call", params))

        assert (answer.status, answer.json["error"]["code"]) == (200, -32602), shape


# Who is not asked for headers.


@pytest.mark.parametrize("transport", HTTP)
def test_older_revisions_know_no_such_headers(admin: HTTPPeer, tool: None) -> None:
    for revision in LEGACY:
        assert text_of(admin.call("execute", revision, region="us-west1")) == "us-west1 0 False 10 True"


@pytest.mark.parametrize("transport", DUPLEX)
def test_transports_without_headers_ask_for_none(admin: Peer, tool: None) -> None:
    assert text_of(admin.call("execute", region="us-west1", seats=2**60)) == f"us-west1 {2**60} False 10 True"


@pytest.mark.django_db
def test_what_is_repeated_is_marked_in_the_list(declared: Declared, tool: None) -> None:
    from django.contrib.auth.models import User

    properties = listed(DirectPeer(User.objects.create_superuser("root")), "execute")["inputSchema"]["properties"]

    assert properties["region"] == {"type": "string", "default": "", "x-mcp-header": "Region"}
    assert properties["options"]["properties"]["safe"] == {"type": "boolean", "default": True, "x-mcp-header": "Safe"}


# Browsers.


@pytest.mark.parametrize("transport", HTTP)
def test_a_browser_may_send_the_headers_that_it_asks_for_one_by_one(peers: Peers, users: Any) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)
    asked = "authorization, mcp-param-region,Mcp-Param-Dry-Run, x-other, mcp-param-a b, mcp-param-"
    with override_settings(MCP={"ALLOWED_ORIGINS": ["https://app.example"]}):
        answer = peer.http("OPTIONS", headers={
            "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked,
        })  # fmt: skip

    allowed = [name.strip() for name in answer.headers["access-control-allow-headers"].split(",")]
    assert allowed[-2:] == ["mcp-param-region", "mcp-param-dry-run"]
    assert "Authorization" in allowed and "x-other" not in allowed


# Declaring.

KEYWORD = "x-mcp-header"
NOWHERE = (
    f"the {KEYWORD} 'A' stands where no header can be read from. It belongs on an argument, or on a property of an "
    "argument that is an object, and not under items, anyOf, allOf, if, $defs and the like."
)
NAME = "it must be 1 to 100 letters, digits and hyphens (proxies drop names with underscores)"


def string(name: Any) -> Any:
    return {"type": "string", KEYWORD: name}


WRONG: list[tuple[Any, str]] = [
    ({"properties": {"a": string("")}}, f"the {KEYWORD} of a is ''; {NAME}."),
    ({"properties": {"a": string("a b")}}, f"the {KEYWORD} of a is 'a b'; {NAME}."),
    ({"properties": {"a": string("a\r\nX: y")}}, f"the {KEYWORD} of a is 'a\\r\\nX: y'; {NAME}."),
    ({"properties": {"a": string("a_b")}}, f"the {KEYWORD} of a is 'a_b'; {NAME}."),
    ({"properties": {"a": string("é")}}, f"the {KEYWORD} of a is 'é'; {NAME}."),
    ({"properties": {"a": string(5)}}, f"the {KEYWORD} of a is 5; {NAME}."),
    ({"properties": {"a": string("A"), "b": string("a")}}, f"b and a have the same {KEYWORD} 'a'."),
    ({"properties": {"a": string("A"), "o": {"properties": {"b": string("a")}}}},
     f"o.b and a have the same {KEYWORD} 'a'."),
    *(({"properties": {"a": {"type": kind, KEYWORD: "A"}}},
       f"the {KEYWORD} of a needs the type string, integer or boolean alone, and the type is {kind!r}.")
      for kind in ("number", ["string", "null"], "object", "array", "null")),
    ({"properties": {"a": {"enum": ["x"], KEYWORD: "A"}}},
     f"the {KEYWORD} of a needs the type string, integer or boolean alone, and the type is None."),
    ({"properties": {"a": {"type": "integer", "maximum": 2**63, KEYWORD: "A"}}},
     f"the {KEYWORD} of a allows integers beyond ±(2^53-1), which some clients cannot write exactly."),
    ({KEYWORD: "A"}, NOWHERE),
    ({"properties": {"a": {"items": string("A")}}}, NOWHERE),
    ({"properties": {"a": {"anyOf": [string("A"), {"type": "null"}]}}}, NOWHERE),
    ({"properties": {"a": {"oneOf": [string("A")]}}}, NOWHERE),
    ({"allOf": [{"properties": {"a": string("A")}}]}, NOWHERE),
    ({"if": {"properties": {"a": string("A")}}}, NOWHERE),
    ({"properties": {"a": {"not": string("A")}}}, NOWHERE),
    ({"patternProperties": {"a": string("A")}}, NOWHERE),
    ({"additionalProperties": string("A")}, NOWHERE),
    ({"$defs": {"a": string("A")}, "properties": {"a": {"$ref": "#/$defs/a"}}}, NOWHERE),
]  # fmt: skip


def take(request: HttpRequest, arguments: Any) -> str:
    """Take."""
    return ""


def test_a_header_that_clients_would_drop_the_tool_for_is_refused(declared: Declared) -> None:
    told = []
    for schema, _ in WRONG:
        with pytest.raises(ImproperlyConfigured) as found:
            declared.tool(take, input_schema={"type": "object", **schema})
        told.append((schema, str(found.value)))

    assert told == [(schema, f"The tool take: {problem}") for schema, problem in WRONG]


def test_an_argument_is_repeated_where_it_is_a_text_alone_as_the_key_of_a_model_or_where_null_means_left_out(
    declared: Declared,
) -> None:
    def from_airport(request: HttpRequest, airport: Annotated[Airport, mirror("Airport")]) -> str:
        """Take."""
        return ""

    def by_flight(request: HttpRequest, flight: Annotated[Flight, mirror("Flight")]) -> str:
        """Take."""
        return ""

    def anywhere(request: HttpRequest, region: Annotated[str | None, mirror("Region")] = None) -> str:
        """Take."""
        return ""

    def nowhere(request: HttpRequest, region: Annotated[str | None, mirror("Region")]) -> str:
        """Take."""
        return ""

    declared.tool(from_airport)
    assert site.tools["from_airport"].mirrored == (Mirrored(("airport",), "Mcp-Param-Airport"),)
    declared.tool(anywhere)
    assert site.tools["anywhere"].mirrored == (Mirrored(("region",), "Mcp-Param-Region"),)
    for function, argument in ((by_flight, "flight"), (nowhere, "region")):
        with pytest.raises(
            ImproperlyConfigured, match=f"of {argument} needs the type string, integer or boolean alone"
        ):
            declared.tool(function)


def test_the_word_as_a_name_or_a_value_means_nothing(declared: Declared) -> None:
    name = {"properties": {KEYWORD: {"type": "string"}}}
    values = {"default": {KEYWORD: "not a keyword"}, "examples": [{KEYWORD: 5}]}

    declared.tool(take, input_schema={"type": "object", **name, **values})


# Answers to questions.


@pytest.mark.parametrize("transport", HTTP)
def test_a_retry_without_its_header_does_not_use_its_state_up(admin: HTTPPeer, declared: Declared) -> None:
    def confirm(request: Any, region: Annotated[str, mirror("Region")]) -> str:
        """Confirm."""
        schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        answer = request.mcp.elicit("Sure?", schema, key="sure", single_use=True)
        return f"{answer.action} {region}"

    declared.tool(confirm, read_only=True)
    header = {"Mcp-Param-Region": "us-west1"}
    params: dict[str, Any] = {
        "name": "confirm",
        "arguments": {"region": "us-west1"},
        "_meta": meta(**{"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}),
    }
    headers = admin.modern_headers("tools/call", params)

    unasked = admin.http("POST", body(params), headers)
    asked = admin.http("POST", body(params), {**headers, **header})
    params["requestState"] = asked.json["result"]["requestState"]
    params["inputResponses"] = {"sure": {"action": "accept", "content": {"sure": True}}}
    refused_retry = admin.http("POST", body(params), headers)
    retry = admin.http("POST", body(params), {**headers, **header})

    missing = refused("Mcp-Param-Region", "is missing", "region")
    assert (unasked.status, unasked.json) == missing and (refused_retry.status, refused_retry.json) == missing
    assert asked.json["result"]["resultType"] == "input_required"
    assert text_of(retry.json["result"]) == "accept us-west1"
