"""Tools whose arguments have a ready JSON Schema: listed unchanged, validated here, and nothing ever fetched."""

from __future__ import annotations

import json
import socket
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from pydantic import BaseModel, Field

from mcp_django.protocol.json_schema.schema import Schema
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, REVISIONS, Peer

DIALECT = "https://json-schema.org/draft/2020-12/schema"

CONTACT: dict[str, Any] = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "address": {"$ref": "#/$defs/address"},
        "second": {"$ref": "#addressDef"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string", "pattern": "^[0-9]+$"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


TOO_MUCH = {
    "field": "",
    "message": "is nested too deeply, or too large, to be validated",
    "received": "object",
}


UNIQUE = {"type": "object", "properties": {"items": {"uniqueItems": True}}}


def reach(request: HttpRequest, arguments: dict[str, Any]) -> dict[str, Any]:
    """Reach somebody."""
    return arguments


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


# Listed and called.


def test_a_ready_schema_is_listed_unchanged_in_every_revision(admin: Peer, declared: Declared) -> None:
    declared.tool(reach, input_schema=CONTACT, read_only=True)

    listed = {revision: schema_of(admin, revision) for revision in REVISIONS}

    assert listed == dict.fromkeys(REVISIONS, CONTACT)
    assert list(listed[MODERN]) == list(CONTACT)


def test_the_function_is_given_the_arguments_as_they_came(admin: Peer, declared: Declared) -> None:
    declared.tool(reach, input_schema=CONTACT, read_only=True)
    arguments = {"name": "Ann", "address": {"city": "Bonn", "more": [1, None]}, "email": "a@example.org"}

    assert admin.call("reach", **arguments)["structuredContent"] == arguments


def test_an_async_function_under_any_names_takes_a_ready_schema(root: DirectPeer, declared: Declared) -> None:
    async def greet(_, given: Any) -> str:  # type: ignore[no-untyped-def]
        """Greet."""
        return f"Hello, {given['name']}!"

    declared.tool(greet, input_schema={"type": "object", "properties": {"name": {"type": "string"}}})

    assert text_of(root.call("greet", name="Ann")) == "Hello, Ann!"


def test_arguments_are_held_against_the_whole_of_a_ready_schema(root: DirectPeer, declared: Declared) -> None:
    declared.tool(reach, input_schema=CONTACT)
    wrong: list[tuple[Any, list[tuple[str, str]]]] = [
        ({}, [("", "'email' is a required property"), ("", "{} is not valid under any of the given schemas")]),
        ({"contactMethod": "phone", "email": "x"}, [("", "'phone' is a required property")]),
        ({"phone": "1"}, [("", "'email' is a required property")]),
        ({"contactMethod": "phone", "phone": "x"}, [("phone", "'x' does not match '^[0-9]+$'")]),
        ({"email": "x", "address": {"city": 5}}, [("address.city", "5 is not of type 'string'")]),
        ({"email": "x", "second": {"city": 5}}, [("second.city", "5 is not of type 'string'")]),
        ({"email": "x", "else": 1},
         [("else", "no argument 'else'. Allowed: name, address, second, contactMethod, phone, email.")]),
    ]  # fmt: skip

    for arguments, errors in wrong:
        found = errors_of(root.call("reach", **arguments))
        assert sorted((error["field"], error["message"]) for error in found) == errors


def test_a_function_that_changes_its_arguments_changes_nothing_else(root: DirectPeer, declared: Declared) -> None:
    seen: list[Any] = []

    def take(request: Any, arguments: dict[str, Any]) -> str:
        """Take."""
        seen.append(request.mcp.params["arguments"])
        arguments["list"].append(5)
        arguments.clear()
        return "taken"

    declared.tool(take, input_schema={"type": "object"})

    assert text_of(root.call("take", list=[1])) == "taken"
    assert seen == [{"list": [1]}]


def test_a_project_that_changes_its_schema_later_changes_nothing(root: DirectPeer, declared: Declared) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
    declared.tool(reach, input_schema=schema)

    schema["properties"]["name"]["$ref"] = "https://example.com/name"

    assert schema_of(root, MODERN) == {"type": "object", "properties": {"name": {"type": "string"}}}


def test_a_schema_that_refers_to_itself_is_refused_and_one_that_is_used_twice_is_not(declared: Declared) -> None:
    """Providers of models refuse it, even where the value gets smaller."""
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    pair = {"a": {"properties": {"b": {"$ref": "#/$defs/b"}}}, "b": {"additionalProperties": {"$ref": "#/$defs/a"}}}
    named = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": pair}
    used = {"$ref": "#/$defs/a"}
    twice = {"type": "object", "properties": {"a": used, "b": used}, "$defs": {
        "a": {"properties": {"c": {"$ref": "#/$defs/c"}}}, "c": {"type": "string"}}}  # fmt: skip

    for schema in (tree, named):
        with pytest.raises(ImproperlyConfigured, match="refers to itself, which providers of models refuse"):
            declared.tool(reach, input_schema=schema)
    declared.tool(reach, input_schema=twice)


def test_arguments_so_deep_that_a_schema_cannot_follow() -> None:
    schema = Schema({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {
        "a": {"anyOf": [{"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}]}}})  # fmt: skip
    deep: Any = {}
    for _ in range(150):
        deep = {"a": deep}

    assert schema.errors(deep)[0]["message"] == TOO_MUCH["message"]


def test_alternatives_of_alternatives_cannot_keep_the_server_following_them() -> None:
    """Two at each of forty levels would be a million million places."""
    either = [{"properties": {"op": {"const": op}, "of": {"$ref": "#/$defs/rule"}}} for op in ("and", "or")]
    schema = Schema(
        {"type": "object", "properties": {"rule": {"$ref": "#/$defs/rule"}}, "$defs": {"rule": {"oneOf": either}}}
    )
    rule: Any = {"op": "neither"}
    for _ in range(40):
        rule = {"of": rule}

    assert schema.errors({"rule": rule})[0]["message"] == TOO_MUCH["message"]


def test_a_pattern_cannot_be_kept_backtracking(root: DirectPeer, declared: Declared) -> None:
    def take(request: HttpRequest, text: Annotated[str, Field(pattern="^(a+)+$")]) -> str:
        """Take."""
        return "taken"

    declared.tool(take)
    declared.tool(reach, input_schema={"type": "object", "properties": {"text": {"pattern": "^(a+)+$"}}})

    for name in ("reach", "take"):
        assert root.call(name, text="a" * 50_000)["isError"] is False
        [error] = errors_of(root.call(name, text="a" * 50_000 + "!"))
        assert error["field"] == "text"


def test_a_pattern_is_looked_for_within_the_text(root: DirectPeer, declared: Declared) -> None:
    matches: dict[tuple[str, Any], bool] = {
        ("b", "abc"): True, ("^b", "abc"): False, ("^abc$", "abc"): True, ("^abc$", "abc\n"): False, ("é", "é"): True,
        ("^(?=.*[0-9])[a-z0-9]+$", "a1"): True, ("^(?=.*[0-9])[a-z0-9]+$", "ab"): False, (r"^(a|b)\1$", "aa"): True,
        ("b", 5): True,
    }  # fmt: skip
    found = {}
    for number, (pattern, text) in enumerate(matches):
        schema = {"type": "object", "properties": {"text": {"pattern": pattern}}}
        declared.tool(reach, name=f"reach_{number}", input_schema=schema)
        found[pattern, text] = not root.call(f"reach_{number}", text=text)["isError"]

    assert found == matches


def test_many_unlike_objects_cannot_keep_the_server_comparing_them(root: DirectPeer, declared: Declared) -> None:
    """Each with each would be half a billion comparisons."""
    declared.tool(reach, input_schema=UNIQUE)
    many: list[Any] = [{"a": number} for number in range(30_000)]

    assert root.call("reach", items=many)["isError"] is False
    assert [error["field"] for error in errors_of(root.call("reach", items=[*many, {"a": 5}]))] == ["items"]


def test_what_counts_as_the_same_item(root: DirectPeer, declared: Declared) -> None:
    declared.tool(reach, input_schema=UNIQUE)
    unlike = [1, True, "1", None, 0, False, "", [], {}, [1], [True], {"a": 1}, {"a": True}]
    alike = [
        [1, 1.0], [[1, {"a": [2]}], [1.0, {"a": [2.0]}]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [None, None],
    ]  # fmt: skip

    assert [root.call("reach", items=items)["isError"] for items in alike] == [True] * 4
    assert [root.call("reach", items=items)["isError"] for items in (unlike, ["é", "e\u0301"], "not a list")] == [
        False
    ] * 3


def test_older_clients_are_given_properties_and_these_as_objects(root: DirectPeer, declared: Declared) -> None:
    """smolagents connects to no server where they are missing."""
    given = {"type": "object", "properties": {"any": True, "none": False, "text": {"type": "string"}}}
    older = {"type": "object", "properties": {"any": {}, "none": {"not": {}}, "text": {"type": "string"}}}
    schemas = [(given, older), ({"type": "object"}, {"type": "object", "properties": {}})]

    for newest, expected in schemas:
        declared.tool(reach, input_schema=newest)
        assert {revision: schema_of(root, revision) for revision in REVISIONS} == {
            **dict.fromkeys(LEGACY, expected), MODERN: newest,
        }  # fmt: skip
        declared.close()


# Refused when it is declared.


def deep_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _refusal(value: Any) -> str:
    """What this Python says of a value that JSON has not; from 3.13 on it names the value."""
    with pytest.raises(ValueError) as refused:
        json.dumps(value, allow_nan=False)
    assert str(refused.value).startswith("Out of range float values are not JSON compliant")
    return str(refused.value)


REFUSED: dict[str, tuple[Any, str]] = {
    "no object at its root": ({}, 'must have "type": "object" at its root, because arguments are an object.'),
    "another type": ({"type": "string"}, 'must have "type": "object" at its root, because arguments are an object.'),
    "several types": ({"type": ["object"]}, 'must have "type": "object" at its root, because arguments are an object.'),
    "no schema": ({"type": "object", "properties": 5},
                  "is not a valid JSON Schema: $.properties: 5 is not of type 'object'."),
    "no regular expression": ({"type": "object", "properties": {"a": {"pattern": "("}}},
                              "is not a valid JSON Schema: $.properties.a.pattern: '(' is not a 'regex'."),
    "another dialect": ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
                        f"is written for http://json-schema.org/draft-07/schema#, but only {DIALECT} is supported."),
    "another dialect within": (
        {"type": "object", "$defs": {"a": {"$id": "urn:a", "$schema": "urn:mine"}}},
        f"is written for urn:mine, but only {DIALECT} is supported."),
    "no JSON": ({"type": "object", "default": object()},
                "cannot be written as JSON: Object of type object is not JSON serializable"),
    "infinity": ({"type": "object", "maxProperties": float("inf")},
                 f"cannot be written as JSON: {_refusal(float('inf'))}"),
    "too deep": (deep_schema(40), "is larger than 64000 bytes, or nested deeper than 64."),
    "too large": ({"type": "object", "description": "x" * 70_000},
                  "is larger than 64000 bytes, or nested deeper than 64."),
    "a name that is nowhere": (
        {"type": "object", "$ref": "#/$defs/a"},
        "refers to '#/$defs/a', which is not in it. Schemas are never fetched: put it under $defs."),
    "no URI": ({"type": "object", "$ref": "http://[x"},
               "refers to 'http://[x', which is not in it. Schemas are never fetched: put it under $defs."),
    "itself": ({"type": "object", "$ref": "#"},
               "refers to itself for the same value, which never ends."),
    "itself in a circle": (
        {"type": "object", "anyOf": [{"$ref": "#/$defs/a"}],
         "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"if": {"$ref": "#/$defs/a"}}}},
        "refers to itself for the same value, which never ends."),
    "a chain": (
        {"type": "object", "$ref": "#/$defs/a0",
         "$defs": {"a200": {}, **{f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(200)}}},
        "follows references deeper than 64 levels."),
    "more and more": (
        {"type": "object", "$ref": "#/$defs/a0",
         "$defs": {"a20": {}, **{f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(20)}}},
        "applies more than 1000 schemas to one value."),
    "no schema where a reference leads": (
        {"type": "object", "x-types": {"a": {"type": 5}}, "properties": {"a": {"$ref": "#/x-types/a"}}},
        "is not a valid JSON Schema: $.type: 5 is not valid under any of the given schemas."),
}  # fmt: skip


def refusal(declared: Declared, function: Any, schema: Any) -> str:
    with pytest.raises(ImproperlyConfigured) as refused:
        declared.tool(function, input_schema=schema)
    return str(refused.value)


def test_a_ready_schema_that_cannot_be_served_is_refused_in_words(declared: Declared) -> None:
    found = {case: refusal(declared, reach, schema) for case, (schema, _) in REFUSED.items()}

    assert found == {case: f"The input_schema of the tool reach {problem}" for case, (_, problem) in REFUSED.items()}


def test_a_schema_that_would_make_the_server_fetch_another(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *args, **more: pytest.fail("connected"))
    fetching: list[dict[str, Any]] = [
        {"properties": {"a": {"$ref": "https://example.com/schema.json"}}},
        {"properties": {"a": {"items": {"anyOf": [{"$ref": "http://169.254.169.254/latest"}]}}}},
        {"$defs": {"a": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"a": {"$dynamicRef": "https://example.com/schema.json#a"}}},
        {"properties": {"a": {"$ref": DIALECT}}},
        {"$id": "https://example.com/a/", "properties": {"a": {"$ref": "b.json"}}},
        {"properties": {"a": {"$ref": "#/x-types/a"}},
         "x-types": {"a": {"properties": {"b": {"$ref": "https://example.com/b.json"}}}}},
    ]  # fmt: skip

    for schema in fetching:
        refused = refusal(declared, reach, {"type": "object", **schema})
        assert refused.endswith("which is not in it. Schemas are never fetched: put it under $defs."), schema


def test_what_a_schema_holds_itself_may_be_referred_to(root: DirectPeer, declared: Declared) -> None:
    referring: list[dict[str, Any]] = [
        {"properties": {"a": {"$ref": "#a"}}, "$defs": {"x": {"$anchor": "a", "type": "string"}}},
        {"properties": {"a": {"$ref": "https://example.com/a"}},
         "$defs": {"x": {"$id": "https://example.com/a", "type": "string"}}},
        {"properties": {"a": {"$dynamicRef": "#a"}}, "$defs": {"x": {"$dynamicAnchor": "a", "type": "string"}}},
        {"properties": {"a": {"type": "string"}, "$ref": {"type": "integer"}},
         "default": {"$ref": "https://example.com/"}, "examples": [{"$ref": "https://example.com/"}]},
        {"$schema": DIALECT + "#", "properties": {"a": {"type": "string"}}},
    ]  # fmt: skip

    for number, schema in enumerate(referring):
        declared.tool(reach, name=f"reach_{number}", input_schema={"type": "object", **schema})
        assert root.call(f"reach_{number}", a="text")["isError"] is False, schema
        assert [error["field"] for error in errors_of(root.call(f"reach_{number}", a=5))] == ["a"], schema


def test_a_function_that_takes_no_arguments_as_one_is_refused(declared: Declared) -> None:
    parameters = ("request", "request, arguments, more", "*, request, arguments", "request, *all", "request, **all")

    for taken in parameters:
        made: dict[str, Any] = {}
        exec(f"def take({taken}) -> str:\n    'Take.'", made)
        assert refusal(declared, made["take"], {"type": "object"}) == (
            "The tool take has an input_schema, and must be written as take(request, arguments)."
        ), taken


# Schemas that are read from annotations.


class Book(BaseModel):
    title: str
    default: str = "title"


def test_the_titles_of_values_stay_where_those_of_schemas_go(root: DirectPeer, declared: Declared) -> None:
    def lend(request: HttpRequest, book: Book = Book(title="Emma"), more: Any = {"title": "Persuasion"}) -> str:  # noqa: B006, B008
        """Lend."""
        return f"{book.title} {more['title']}"

    declared.tool(lend)
    [schema] = [it["inputSchema"] for it in root.result(MODERN, "tools/list")["tools"] if it["name"] == "lend"]

    assert schema["properties"] == {
        "book": {
            "type": "object", "required": ["title"], "default": {"title": "Emma", "default": "title"},
            "properties": {"title": {"type": "string"}, "default": {"type": "string", "default": "title"}},
        },
        "more": {"default": {"title": "Persuasion"}},
    }  # fmt: skip
    assert text_of(root.call("lend")) == "Emma Persuasion"


def schema_of(peer: Peer, revision: str) -> Any:
    [tool] = [tool for tool in peer.result(revision, "tools/list")["tools"] if tool["name"] == "reach"]
    return tool["inputSchema"]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    discriminator: str = ""


def test_a_union_that_names_its_kind_refers_to_no_definition(root: DirectPeer, declared: Declared) -> None:
    def adopt(request: HttpRequest, pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
        """Adopt."""
        return type(pet).__name__

    declared.tool(adopt, read_only=True)

    schema = listed(root, "adopt")["inputSchema"]
    assert "$defs" not in json.dumps(schema) and "mapping" not in json.dumps(schema)
    cat, dog = schema["properties"]["pet"]["oneOf"]
    assert cat["properties"]["kind"] == {"const": "cat", "type": "string"}
    assert "discriminator" in dog["properties"]
    assert text_of(root.call("adopt", pet={"kind": "dog", "discriminator": "x"})) == "Dog"
    assert root.call("adopt", pet={"kind": "cow"})["isError"] is True


def test_every_argument_of_the_query_tools_has_a_description_and_no_title_that_repeats_its_name(
    root: DirectPeer,
) -> None:
    for name in ("describe_models", "find_records", "get_record", "aggregate_records"):
        for argument, schema in listed(root, name)["inputSchema"]["properties"].items():
            assert schema["description"] and "title" not in schema, (name, argument)


def test_an_object_may_be_the_text_of_its_json_and_says_so_where_that_is_wanted(
    root: DirectPeer, declared: Declared, settings: Any
) -> None:
    def take(request: HttpRequest, limits: dict[str, int], more: dict[str, Any] | None = None) -> str:
        """Take."""
        return json.dumps([limits, more])

    declared.tool(take)
    plain = listed(root, "take")["inputSchema"]["properties"], listed(root, "find_records")["inputSchema"]
    settings.MCP = {**settings.MCP, "TEXT_ARGUMENTS": True}
    texts = listed(root, "take")["inputSchema"]["properties"], listed(root, "find_records")["inputSchema"]
    calls = [
        root.call("take", limits='{"a": 1}', more={"b": '{"c": 1}'}),
        root.call("find_records", model="flights.airline", filter='{"carrier": "UA"}'),
        root.call(
            "aggregate_records",
            model="flights.airline",
            filter='{"carrier": "UA"}',
            group_by=["carrier"],
            having='{"count__gte": 0}',
        ),
    ]

    text = {"type": "string", "description": "The same as JSON."}
    assert plain[0]["more"] == {"type": "object", "additionalProperties": True}
    assert texts[0] == {name: {"anyOf": [schema, text]} for name, schema in plain[0].items()}
    described = plain[1]["properties"]["filter"].pop("description")
    assert texts[1]["properties"]["filter"] == {
        "anyOf": [plain[1]["properties"]["filter"], text], "description": described,
    }  # fmt: skip
    assert not [one["content"] for one in calls if one["isError"]]
    assert json.loads(calls[0]["content"][0]["text"]) == [{"a": 1}, {"b": '{"c": 1}'}]
