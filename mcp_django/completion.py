"""Suggestions for the value of an argument while somebody types it (2026-07-28 server/utilities/completion)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db.models import QuerySet

from mcp_django.exceptions import MCPError, ToolError
from mcp_django.protocol.errors import InternalError
from mcp_django.types import JSON
from mcp_django.workers import run_function

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


#: What a client may be given at once.
MAX_VALUES = 100

#: What a project's function for one argument is: ``f(request, typed, arguments)`` gives texts.
Function = Callable[..., Iterable[str]]

logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class Completion:
    """Suggested values, and what is known of those that were left out."""

    values: list[str]
    #: How many there are in all, where that is known without counting.
    total: int | None = None
    has_more: bool = False

    @classmethod
    def of(cls, values: list[str], *, complete: bool = True) -> Completion:
        """The first of the values; ``complete``: there are no others than these."""
        more = not complete or len(values) > MAX_VALUES
        return cls(values[:MAX_VALUES], len(values) if complete else None, more)

    def to_json(self) -> JSON:
        total = {} if self.total is None else {"total": self.total}
        return {"values": self.values, **total, "hasMore": self.has_more}


#: For an argument of which nothing is known.
NOTHING = Completion([], 0)

#: From what was typed, and the other arguments as far as they are known, to suggestions.
Completer = Callable[[str, Mapping[str, str]], Completion]


def nothing(typed: str, arguments: Mapping[str, str]) -> Completion:
    """The completer of an argument that has none."""
    return NOTHING


def among(values: Iterable[str] | Mapping[str, str], typed: str) -> Completion:
    """Those of a few known values that begin with what was typed, whatever its case, or whose label does."""
    start = typed.casefold()
    labels = values if isinstance(values, Mapping) else {}
    return Completion.of(
        [
            value
            for value in dict.fromkeys(values)
            if value.casefold().startswith(start) or labels.get(value, value).casefold().startswith(start)
        ]
    )


def asked(function: Function, request: MCPRequest, typed: str, arguments: Mapping[str, str], what: str) -> Completion:
    """What a project's function suggests, as it is. One that refuses suggests nothing. Raises MCPError."""
    try:
        found: Any = run_function(function, request, typed, dict(arguments))
        if isinstance(found, QuerySet):
            found = found[: MAX_VALUES + 1]
        elif isinstance(found, str):
            raise TypeError("suggestions are a list of texts, not a text")
        values = [str(value) for value in islice(found, MAX_VALUES + 1)]
    except (ToolError, PermissionDenied, ObjectDoesNotExist, ValidationError):
        return NOTHING
    except MCPError:
        raise
    except (Exception, SystemExit) as error:
        if request.mcp.cancelled:
            raise
        logger.exception("The completion of %s failed", what)
        raise InternalError from error
    return Completion.of(values, complete=len(values) <= MAX_VALUES)
