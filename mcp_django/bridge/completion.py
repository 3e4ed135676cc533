"""Suggestions for the value of an argument while somebody types it (2026-07-28 server/utilities/completion)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db.models import Model, QuerySet

from mcp_django.core import failures
from mcp_django.core.running.workers import run_function
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.protocol.errors import InternalError
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


#: A client gets at most so many suggestions.
MAX_VALUES = 100

#: A project's function for one argument: ``f(request, typed, arguments)`` returns texts.
CompletionFunction = Callable[..., Iterable[str]]

#: To longer texts nothing is added: each suggestion repeats what was typed.
MAX_TYPED = 2_000

logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class Completion:
    """Suggested values, and how many more there are."""

    values: list[str]
    #: The number of all values, if it is known without a query.
    total: int | None = None
    has_more: bool = False

    @classmethod
    def of(cls, values: list[str], *, complete: bool = True) -> Completion:
        """A completion with the first of the values. ``complete`` means that there are no other values."""
        more = not complete or len(values) > MAX_VALUES
        return cls(values[:MAX_VALUES], len(values) if complete else None, more)

    def to_json(self) -> JSON:
        total = {} if self.total is None else {"total": self.total}
        return {"values": self.values, **total, "hasMore": self.has_more}


#: The completion of an argument whose values are not known.
NOTHING = Completion([], 0)

#: Suggests values for a typed text. It also gets the other arguments that are already known.
Completer = Callable[[str, Mapping[str, str]], Completion]


def suggest_nothing(typed: str, arguments: Mapping[str, str]) -> Completion:
    """The completer of an argument that has none."""
    return NOTHING


def among(values: Iterable[str] | Mapping[str, str], typed: str) -> Completion:
    """The values that begin with the typed text, or whose label does. Case does not matter."""
    start = typed.casefold()
    labels = values if isinstance(values, Mapping) else {}
    return Completion.of(
        [
            value
            for value in dict.fromkeys(values)
            if value.casefold().startswith(start) or labels.get(value, value).casefold().startswith(start)
        ]
    )


def of_last(complete: Callable[[str], Completion], typed: str) -> Completion:
    """Suggestions for the last of several values that are typed with commas between them, each after the others."""
    if len(typed) > MAX_TYPED:
        return NOTHING
    before, comma, last = typed.rpartition(",")
    start = f"{before}{comma}{last[: len(last) - len(last.lstrip())]}"
    found = complete(last.lstrip())
    return replace(found, values=[f"{start}{value}" for value in found.values])


def suggested_by(
    function: CompletionFunction, request: MCPRequest, typed: str, arguments: Mapping[str, str], what: str
) -> Completion:
    """The suggestions of a project's function, unfiltered, or none if the function refuses. Raises MCPError."""
    try:
        found: Any = run_function(function, request, typed, dict(arguments))
        if isinstance(found, QuerySet):
            found = found[: MAX_VALUES + 1]
        elif isinstance(found, str):
            raise TypeError("A function that completes must return a list of texts, not one text.")
        # The text of a row may hold what nobody may read.
        keys = (value.pk if isinstance(value, Model) else value for value in islice(found, MAX_VALUES + 1))
        values = [str(key) for key in keys]
    except (ToolError, PermissionDenied, ObjectDoesNotExist, ValidationError):
        return NOTHING
    except MCPError:
        raise
    except (Exception, SystemExit) as error:
        if request.mcp.cancelled:
            raise
        failures.note(error)
        logger.exception("The completion of %s failed", what)
        raise InternalError from error
    return Completion.of(values, complete=len(values) <= MAX_VALUES)
