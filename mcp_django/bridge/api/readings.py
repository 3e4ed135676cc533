"""What GET of the same URL shows before a change: for its diff, and to notice by the confirmation that it has moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_django.access.permissions import has_scope
from mcp_django.bridge.api import answers, calling
from mcp_django.bridge.api.sending import Sent
from mcp_django.bridge.api.views import has_own_throttle
from mcp_django.core.db.rolling_back import rolled_back

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.exchange import Exchange

_NO_DIFF = "What is there now could not be read, so it is not compared."
_DIFFERS = "Not compared, since it differs at each reading: {}."
#: Names in the note about what differs.
_MOST_NAMED = 5
_MOVES = object()


@dataclass(frozen=True, slots=True)
class Reading:
    """A record as it is shown. None: there is nothing to read, or nothing that the principal may read."""

    record: Any = None
    #: The record without what differs at each reading, such as a signed URL.
    compared: Any = None
    #: The names of its fields in which something differs at each reading.
    moving: frozenset[str] = frozenset()
    #: What an agent is told of it.
    notes: list[str] = field(default_factory=list)


def read(exchange: Exchange, operation: Operation, sent: Sent) -> Reading:
    """Read the record that an operation is about, below the middleware and with its throttles.

    It is read twice, but once where the view has a limit of its own. What the view writes as it is read, such as a
    count of its readers, is rolled back. A list, to which POST adds, is no record.
    """
    reading = exchange.site.api.reading(operation)
    if reading is None or not sent.path or not has_scope(exchange.request, reading.scope):
        return Reading()
    if operation.method == "POST" and reading.action == "list":
        return Reading()
    found = []
    for _ in range(1 if has_own_throttle(reading) else 2):
        with rolled_back():
            answer = calling.call(exchange, reading, Sent(sent.path, {}))
        if operation.method == "POST" and answer.is_done and answers.is_list(reading, answer):
            return Reading()
        if not (answer.is_done and isinstance(answer.value, Mapping)):
            break
        found.append(answers.without_secrets(answer.value, operation.exposure.show_secrets))
    match found:
        case [record, again]:
            moving: dict[str, None] = {}
            compared = _steady(record, again, "", moving)
            named = ", ".join(list(moving)[:_MOST_NAMED])
            fields = frozenset(place.partition(".")[0] for place in moving)
            return Reading(record, compared, fields, [_DIFFERS.format(named)] if moving else [])
        case [record]:
            return Reading(record, record)
    # What a refusal says, the view says itself.
    return Reading(notes=[] if answer.status in (401, 403, 404, 410) else [_NO_DIFF])


def _steady(first: Any, second: Any, place: str, moving: dict[str, None]) -> Any:
    """What two readings have in common; _MOVES where that is nothing. ``moving`` gets the places of the rest."""
    match first, second:
        case Mapping(), Mapping() if first.keys() == second.keys():
            found = {name: _steady(one, second[name], f"{place}.{name}", moving) for name, one in first.items()}
            return {name: one for name, one in found.items() if one is not _MOVES}
        case list(), list() if len(first) == len(second):
            pairs = zip(first, second, strict=True)
            return [one for pair in pairs if (one := _steady(*pair, place, moving)) is not _MOVES]
    if first == second:
        return first
    moving[place.removeprefix(".")] = None
    return _MOVES
