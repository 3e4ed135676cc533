"""The files of what clients make of our schemas: they are about the schemas that we have, and little is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.clients.converting import CONVERTERS, FOLDER, Converter, digest
from tests.clients.listed import listed_tools

#: Arguments that are objects with any members.
OPEN = ("filter", "conditions", "having", "values", "rows")
#: Ways of converting that close such an object, so that a model can put nothing into it.
CLOSING = {
    "beeai strict", "crewai anthropic", "crewai google", "crewai openai", "langchain openai-strict", "mastra openai",
    "pydantic_ai anthropic-strict", "pydantic_ai openai-strict",
}  # fmt: skip
#: Ways that fail, whatever we write: google-genai for any boolean ``additionalProperties``, and a function of the
#: Agents SDK that is made for closed objects alone. The SDK itself sends such a tool without its strict mode.
FAILING = {"google_genai gemini", "openai_agents forced"}


def written(converter: Converter) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(converter.file.read_text())
    return found


def conversions(kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each way that works, as ``crewai openai``, with what it made of the tools as they were listed."""
    for converter in CONVERTERS:
        for name, made in written(converter)["converted"].items():
            way = f"{converter.name} {name.partition(' ')[2]}"
            if name.startswith(f"{kind} ") and way not in FAILING:
                yield way, {tool: one["schema"] for tool, one in made.items()}


def arguments(kind: str) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for way, made in conversions(kind):
        for tool, schema in made.items():
            for name, one in schema.get("properties", {}).items():
                yield way, tool, name, one


def alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema, *schema.get("anyOf", ())]


def types(schema: Mapping[str, Any]) -> set[str]:
    found = [one.get("type", "") for one in alternatives(schema)]
    return {str(kind).lower() for one in found for kind in (one if isinstance(one, list) else [one])}


def is_closed(schema: Mapping[str, Any]) -> bool:
    options = alternatives(schema)
    return any(one.get("additionalProperties") is False and not one.get("properties") for one in options)


def test_each_converter_has_its_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {converter.name for converter in CONVERTERS}


def test_what_was_converted_is_what_we_list(db: None) -> None:
    ours = digest(listed_tools())

    for converter in CONVERTERS:
        assert written(converter)["digest"] == ours, "The schema of a tool has changed: run make clients."
        assert written(converter)["version"] == converter.versions, converter.name


def test_open_arguments_stay_open_but_where_a_client_closes_every_object() -> None:
    closed = {way for way, _, name, schema in arguments("plain") if name in OPEN and is_closed(schema)}
    # One of create_records is a list of such objects.
    lost = {
        way
        for way, _, name, schema in arguments("plain")
        if name in OPEN and not {"object", "array"} & set(types(schema))
    }

    assert (closed, lost) == (CLOSING, set())


def test_with_texts_no_client_is_left_without_a_way() -> None:
    wrong = [
        (way, tool, name)
        for way, tool, name, schema in arguments("texts")
        if name in OPEN and "string" not in types(schema)
    ]

    assert wrong == []


@pytest.mark.parametrize("kind", ["plain", "texts"])
def test_no_argument_nor_what_is_said_of_it_is_dropped(db: None, kind: str) -> None:
    ours = {tool["name"]: tool["inputSchema"]["properties"] for tool in listed_tools()[kind]}
    lost = []
    for way, made in conversions(kind):
        assert made.keys() == ours.keys(), way
        for tool, properties in ours.items():
            found = made[tool].get("properties", {})
            lost += [(way, tool, name) for name, one in properties.items() if not _says(found.get(name), one)]

    assert lost == []


def _says(found: Any, ours: Mapping[str, Any]) -> bool:
    """Whether a converted argument has the choices and the description of ours."""
    if found is None or ours.get("description", "") not in found.get("description", ""):
        return False
    choices = [one.get("enum", ()) for one in alternatives(found)]
    return "enum" not in ours or any(set(ours["enum"]) <= set(one) for one in choices)


#: Provider → names of arguments that it takes, and keywords that it refuses.
NAMES = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
REFUSED: Mapping[str, set[str]] = {
    "openai": {"oneOf", "allOf", "not", "if", "patternProperties", "dependentSchemas", "unevaluatedProperties"},
    "google": {"oneOf", "allOf", "not", "if", "patternProperties", "$ref", "prefixItems", "const"},
    "anthropic": {"oneOf", "not", "if", "patternProperties"},
}


def test_the_rules_of_providers() -> None:
    """What each takes (their documentation of function calling): objects at the top, plain names, no such keywords."""
    wrong = []
    for kind in ("plain", "texts"):
        for way, made in conversions(kind):
            provider = next((name for name in REFUSED if name in way), "openai")
            for tool, schema in made.items():
                is_object = str(schema["type"]).lower() == "object" and not {"anyOf", "oneOf", "allOf"} & schema.keys()
                names = [name for name in schema.get("properties", {}) if not NAMES.fullmatch(name)]
                refused = {keyword for part in parts(schema) for keyword in REFUSED[provider] & part.keys()}
                if not is_object or names or refused or not NAMES.fullmatch(tool):
                    wrong.append((way, tool, is_object, names, refused))

    assert wrong == []


def parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schema and those within it."""
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", ())]
    for one in inner:
        yield from parts(one)


def test_strict_modes_get_every_argument_required_and_every_object_closed() -> None:
    wrong = [
        (converter.name, way, tool)
        for converter in CONVERTERS
        for way, made in written(converter)["converted"].items()
        for tool, one in made.items()
        if one.get("strict") and "openai" in way and not all(map(_is_strict, parts(one["schema"])))
    ]

    assert wrong == []


def _is_strict(part: Mapping[str, Any]) -> bool:
    if part.get("type") != "object":
        return True
    is_closed = part.get("additionalProperties") is False
    return is_closed and set(part.get("required", ())) == set(part.get("properties", {}))
