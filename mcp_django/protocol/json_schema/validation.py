"""Validates values with bounded work, so that no value can keep the server busy (2026-07-28 basic).

jsonschema itself compares each item of a list with each other item, matches patterns by backtracking, and follows
references again for each alternative of each level. A body of a few kilobytes can make each of them take hours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry

from mcp_django.protocol.types import JSON

#: The most references that are followed, and the most items of lists that are validated, for one value.
_MAX_FOLLOWED = 20_000
_MAX_ITEMS = 200_000

_followed: ContextVar[list[int]] = ContextVar("followed")
_items_seen: ContextVar[list[int]] = ContextVar("items_seen")


class TooMuchWork(Exception):
    """Validating the value would take more work than one value may cost."""


def validator_of(schema: JSON) -> Any:
    """A validator of the dialect 2020-12. It fetches nothing, so a reference to the network stays unresolved."""
    return _Validator(schema, registry=Registry())


def find_errors(validator: Any, instance: Any, limit: int) -> list[ValidationError]:
    """The first errors of an instance. Raises TooMuchWork."""
    token, items_token = _followed.set([0]), _items_seen.set([0])
    try:
        return list(islice(validator.iter_errors(instance), limit))
    except RecursionError:
        raise TooMuchWork from None
    finally:
        _followed.reset(token)
        _items_seen.reset(items_token)


def _counted(keyword: str) -> Callable[..., Iterator[ValidationError]]:
    follow = Draft202012Validator.VALIDATORS[keyword]

    def validate(validator: Any, reference: str, instance: Any, schema: JSON) -> Iterator[ValidationError]:
        count = _followed.get()
        count[0] += 1
        if count[0] > _MAX_FOLLOWED:
            raise TooMuchWork
        yield from follow(validator, reference, instance, schema)

    return validate


def _items(validator: Any, items: Any, instance: Any, schema: JSON) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "array") or len(instance) > schema.get("maxItems", len(instance)):
        return  # The keyword maxItems reports a list that is too long, so its items need no validation.
    # The items of one body of a megabyte can take seconds.
    count = _items_seen.get()
    count[0] += len(instance)
    if count[0] > _MAX_ITEMS:
        raise TooMuchWork
    yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


def _unique_items(validator: Any, wanted: bool, instance: Any, schema: JSON) -> Iterator[ValidationError]:
    if wanted and validator.is_type(instance, "array") and len({_identity(item) for item in instance}) < len(instance):
        yield ValidationError("has items that are the same")


def _identity(value: Any) -> Hashable:
    """A key that is equal for equal values of JSON Schema (2020-12 core §4.2.2): 1 equals 1.0, but not true."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _identity(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_identity(item) for item in value))
    return (isinstance(value, bool), value)


def _pattern(validator: Any, pattern: str, instance: Any, schema: JSON) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not _matcher(pattern)(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@lru_cache(maxsize=1_000)
def _matcher(pattern: str) -> Callable[[str], object]:
    """A function that searches a text for the pattern, in linear time unless the pattern looks around or back."""
    try:
        linear = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return re.compile(pattern).search
    return linear.isinstance_python


_Validator: Any = validators.extend(
    Draft202012Validator,
    {
        "$ref": _counted("$ref"),
        "$dynamicRef": _counted("$dynamicRef"),
        "items": _items,
        "uniqueItems": _unique_items,
        "pattern": _pattern,
    },
)
