"""The class Schema, which every room validates with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from mcp_django.exceptions import FieldError, field_error
from mcp_django.json_schema.validation import TooMuchWork, accepter_of, find_errors, validator_of
from mcp_django.types import JSON

_MAX_ERRORS = 20


class Schema:
    """A JSON Schema (2020-12) with its validator, built once."""

    def __init__(self, schema: JSON) -> None:
        self.schema = schema

    @cached_property
    def _validator(self) -> Any:
        return validator_of(self.schema)

    @cached_property
    def _accepts(self) -> Callable[[Any], bool]:
        return accepter_of(self.schema)

    def errors(self, instance: Any) -> list[FieldError]:
        """The errors of the instance, ordered by their path. Empty if it is valid."""
        if self._accepts(instance):
            return []
        try:
            # A long list may have an error for each item. The first few are enough.
            found = find_errors(self._validator, instance, _MAX_ERRORS)
        except TooMuchWork:
            return [field_error("", "is nested too deeply, or too large, to be validated", instance)]
        found.sort(key=lambda error: [str(part) for part in error.absolute_path])
        return [
            field_error(".".join(str(part) for part in error.absolute_path), error.message[:500], error.instance)
            for error in found
        ]
