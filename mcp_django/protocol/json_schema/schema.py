"""The class Schema, with which all of mcp_django validates values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.utils.functional import cached_property

from mcp_django.exceptions import RECEIVED_CHARS, FieldError, field_error
from mcp_django.protocol.errors import ParseError
from mcp_django.protocol.json_schema.accepting import accepter_of
from mcp_django.protocol.jsonrpc import decode
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MAX_ERRORS = 20
_MAX_CHARS = 500
#: The types of a property of which nothing is known.
_ANY = ("", "")
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)

#: Keyword → what it asks for, where jsonschema would write the value first, or leave the limit out.
_TEXTS: Mapping[str, str] = {
    "maxLength": "must not be longer than {} characters",
    "maxItems": "must not have more than {} items",
    "maxProperties": "must not have more than {} members",
    "maximum": "must not be greater than {}",
    "minLength": "must not be shorter than {} characters",
    "minItems": "must not have fewer than {} items",
    "minProperties": "must not have fewer than {} members",
    "minimum": "must not be less than {}",
}
#: What an agent calls the types of JSON that have parts.
_NOUNS = {"array": "a list", "object": "an object"}


class Schema:
    """A JSON Schema (2020-12) with its validator, built once."""

    def __init__(self, schema: JSON) -> None:
        self.schema = schema
        #: A name that callers try → the property that they mean, for a suggestion: ``{"where": "filter"}``.
        self.synonyms: Mapping[str, str] = {}
        #: What takes the value, for errors: the name of a tool.
        self.owner = ""
        #: Lists as an example → shown where something else comes: ``{"order_by": ["-departs_at"]}``.
        self.examples: Mapping[str, Sequence[Any]] = {}

    @cached_property
    def _validator(self) -> Any:
        from mcp_django.protocol.json_schema.validation import validator_of

        return validator_of(self.schema)

    @cached_property
    def _accepts(self) -> Callable[[Any], bool]:
        return accepter_of(self.schema)

    def errors(self, instance: Any) -> list[FieldError]:
        """The errors of the instance, at most 20, ordered by their path. Empty if it is valid."""
        if self._accepts(instance):
            return []
        from mcp_django.protocol.json_schema.validation import TooMuchWork, find_errors

        try:
            # A long list may have an error for each item. The first few are enough.
            found = find_errors(self._validator, instance, _MAX_ERRORS)
        except TooMuchWork:
            return [field_error("", "is nested too deeply, or too large, to be validated", instance)]
        found.sort(key=lambda error: [str(part) for part in error.absolute_path])
        return [item for error in found for item in self._described(error)][:_MAX_ERRORS]

    def _described(self, error: ValidationError) -> Iterator[FieldError]:
        """The error, as one for each unknown property."""
        path = [str(part) for part in error.absolute_path]
        known = _names_alone_allowed(error)
        for name in error.instance if known else ():
            if name not in known:
                if not path and self.schema.get("properties", {}).get(f"{name}s", {}).get("type") == "array":
                    yield self._takes_list(f"{name}s", error.instance[name])
                    continue
                text = unknown_name("argument", name, known, self.synonyms.get(name.lower(), ""))
                yield field_error(".".join([*path, name[:RECEIVED_CHARS]]), text, error.instance[name])
        if not known:
            yield self._of_value(error, path) or field_error(".".join(path), _message(error), error.instance)

    def _of_value(self, error: ValidationError, path: Sequence[str]) -> FieldError | None:
        """The error of a list or an object in the place of which something else comes, or a name like it."""
        kind = error.validator_value if error.validator == "type" else None
        if isinstance(kind, str) and kind in _NOUNS and len(path) == 1:
            given, what = error.instance, f"{path[0]} must be {_NOUNS[error.validator_value]}"
            if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
                return field_error(path[0], f"{what}: this text is not the JSON of one", given)
            named = [part.strip() for part in given.split(",")] if isinstance(given, str) else []
            example = (named or self.examples.get(path[0])) if error.validator_value == "array" else None
            as_list = "" if example is None else f", as {json.dumps(example, ensure_ascii=False)[:_MAX_CHARS]}"
            return field_error(path[0], f"{what}{as_list}", given)
        # There is an error for each name that is missing.
        required = error.validator_value if _is_missing(error) else ()
        missing = [name for name in required if error.message.startswith(repr(name))]
        for name in missing:
            one = name.removesuffix("s")
            if one != name and one in error.instance:
                return self._takes_list(name, error.instance[one])
        return None

    def _takes_list(self, name: str, given: Any) -> FieldError:
        listed = json.dumps([str(given)[:RECEIVED_CHARS]], ensure_ascii=False)
        text = f'takes a list: "{name}": {listed}'
        return field_error(name, f"{self.owner} {text}" if self.owner else text, given)

    # Frameworks fill in every argument of a tool: CrewAI sends null, "" and [] for those that its model left out. Forms
    # know only texts, so a number arrives as its digits. Some clients send an object or a list as the text of its JSON.

    def without_blanks(self, arguments: JSON) -> JSON:
        """The arguments in the types of the schema, without optional ones that are null, "" or [].

        For an object whose properties give no meaning to a blank.
        """
        required, properties = self.schema.get("required", ()), self.schema["properties"]
        return {
            name: _as_text(self._types.get(name, _ANY), value)
            for name, value in self._in_types(arguments).items()
            if name in required or name not in properties or not _is_blank(value)
        }

    def without_nulls(self, arguments: JSON) -> JSON:
        """The arguments in the types of the schema, without optional ones that are null where it allows no null."""
        arguments = self._in_types(arguments)
        if None not in arguments.values():
            return arguments
        return {name: value for name, value in arguments.items() if value is not None or name not in self._never_null}

    def _in_types(self, arguments: JSON) -> JSON:
        """The arguments, each in the type that the schema declares for it, if what was sent can be read so."""
        return {name: _in_type(*self._types.get(name, _ANY), value) for name, value in arguments.items()}

    def read_from_texts(self, arguments: Mapping[str, Any]) -> list[str]:
        """The names of the objects and lists that come as the text of their JSON, and are read as such."""
        texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
        return [name for name, value in self._in_types(texts).items() if isinstance(value, dict | list)]

    @cached_property
    def _types(self) -> Mapping[str, tuple[str, str]]:
        """The one type of each property, and that of its items if it is a list; empty where there are several."""
        found = {}
        for name, schema in self.schema.get("properties", {}).items():
            kind = _type_of(schema, self.schema)
            found[name] = kind, _type_of(schema.get("items"), self.schema) if kind == "array" else ""
        return found

    @cached_property
    def _never_null(self) -> frozenset[str]:
        """The optional properties that may not be null."""
        optional = self.schema.get("properties", {}).keys() - set(self.schema.get("required", ()))
        definitions: JSON = {key: self.schema[key] for key in ("$defs", "$schema", "$id") if key in self.schema}
        alone = {name: Schema({**definitions, "allOf": [self.schema["properties"][name]]}) for name in optional}
        return frozenset(name for name, schema in alone.items() if schema.errors(None))


def _is_missing(error: ValidationError) -> bool:
    return error.validator == "required" and isinstance(error.instance, dict)


def _names_alone_allowed(error: ValidationError) -> list[str]:
    """The names of the properties, where the error is that there are others; else empty."""
    schema = error.schema
    if error.validator != "additionalProperties" or not isinstance(schema, dict) or "patternProperties" in schema:
        return []
    return list(schema.get("properties", ())) if error.validator_value is False else []


def _message(error: ValidationError) -> str:
    """What is wrong, with the limit before the value, of which the beginning is shown."""
    limit = _TEXTS.get(str(error.validator))
    if limit is not None:
        return limit.format(error.validator_value)
    whole = repr(error.instance)
    short = whole if len(whole) <= RECEIVED_CHARS else f"{whole[:RECEIVED_CHARS]}…"
    message: str = error.message.replace(whole, short)
    return message[:_MAX_CHARS]


def _is_blank(value: Any) -> bool:
    return value is None or value in ("", [])


def _as_text(types: tuple[str, str], value: Any) -> Any:
    """An integer as its digits where a text is wanted, alone or in a list: a key may be one."""
    match types, value:
        case ("array", of_items), list():
            return [_as_text((of_items, ""), item) for item in value]
        case ("string", _), int() if not isinstance(value, bool):
            return str(value)
        case ("string", _), float() if value.is_integer():
            return str(int(value))
    return value


def _in_type(kind: str, of_items: str, value: Any) -> Any:
    """The value in the one type that the schema asks for, null aside: digits as a number, "true" as true.

    An object or a list may be the text of its JSON, which is read once: a text within it stays a text.
    """
    match kind, value:
        case "integer", str() if _INTEGER.fullmatch(value):
            return int(value)
        case "boolean", "true" | "false":
            return value == "true"
        case "array", list():
            return [_in_type(of_items, "", item) for item in value]
        case (("object" | "array"), str()) if value.lstrip()[:1] == ("{" if kind == "object" else "["):
            # Read as a message is, and not twice: a text within it stays a text.
            with suppress(ParseError):
                return decode(value)
    return value


def _type_of(schema: Any, whole: JSON) -> str:
    """The one type beside null that a schema allows, as far as it says so plainly; else empty."""
    found = types_of(schema, whole) - {"null"}
    return found.pop() if len(found) == 1 else ""


def types_of(schema: Any, whole: JSON) -> set[str]:
    """The types that a schema names, itself or in its alternatives. An alternative that names none counts as "any"."""
    if not isinstance(schema, dict):
        return {"any"}
    if (name := str(schema.get("$ref", ""))).startswith("#/$defs/"):
        return types_of(whole.get("$defs", {}).get(name.removeprefix("#/$defs/")), {})
    types = schema.get("type")
    found = {types} if isinstance(types, str) else set(types or ())
    return found.union(*(types_of(option, whole) for option in schema.get("anyOf", ()))) or {"any"}
