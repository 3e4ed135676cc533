"""Events as payloads of PostgreSQL's NOTIFY, each of which takes fewer than 8,000 bytes, and as messages of NATS."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_django.core.events.controls import ControlSet
from mcp_django.protocol.types import JSON

#: The largest size of our payloads. They are ASCII, so that their bytes are the same in every encoding of a database.
MAX_BYTES = 7_900
#: The size of the keys in one part; the rest is for the names around them.
_KEY_BYTES = 7_000
#: A change whose keys need more payloads than this becomes "the model changed".
_MAX_PARTS = 32
#: An event that needs more payloads than this becomes "events were lost". A SELECT has at most 1,664 columns.
_MAX_PAYLOADS = 1_000
#: What a publisher adds to its events, and how long its name may be: hubs keep the names.
_NUMBERING = {"publisher", "started", "number"}
_MAX_NAME = 64


def write(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def cut(event: JSON) -> list[str]:
    """The event as payloads. Together they hold its ``changes``, its ``controls``, and whether events were ``lost``."""
    whole = write(event)
    if len(whole) <= MAX_BYTES:
        return [whole]
    payloads: list[str] = []
    gathered: JSON = {"lost": True} if event.get("lost") else {}
    pieces = [
        *(("changes", part) for change in event.get("changes", ()) for part in _parts(change)),
        *(("controls", control) for control in event.get("controls", ())),
    ]
    size = len(write(gathered))
    for name, piece in pieces:
        # With a comma, and with the name of the list: at most two of the pieces bring one.
        added = len(write(piece)) + len(name) + 6
        if gathered and size + added > MAX_BYTES:
            payloads.append(write(gathered))
            gathered, size = {}, 2
        gathered.setdefault(name, []).append(piece)
        size += added
    payloads.append(write(gathered))
    # No key of ours is so long, and no sensible transaction changes so much. Too many notifications are better than too
    # few.
    if len(payloads) > _MAX_PAYLOADS or any(len(payload) > MAX_BYTES for payload in payloads):
        return [write({"lost": True})]
    return payloads


def _parts(change: JSON) -> list[JSON]:
    """The change in parts that fit into a payload each; as "the model changed" if they are too many."""
    parts: list[JSON] = []
    for name in ("written", "deleted"):
        for keys in _chunks(change[name] or ()):
            empty = {"alias": change["alias"], "label": change["label"], "written": [], "deleted": []}
            parts.append({**empty, name: keys})
            if len(parts) > _MAX_PARTS or len(write(keys)) > _KEY_BYTES:
                return [{**empty, "written": None}]
    return parts or [change]


def _chunks(keys: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 2
    for key in keys:
        added = len(json.dumps(key)) + 1
        if chunk and size + added > _KEY_BYTES:
            yield chunk
            chunk, size = [], 2
        chunk.append(key)
        size += added
    if chunk:
        yield chunk


def read(payload: str | bytes, *, numbered: bool = False) -> JSON | None:
    """The event in a payload; None for anything else, which every user of the database or of the broker may send.

    ``numbered``: the bus may lose messages, so its events have the publisher's numbers.
    """
    try:
        event = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if not event.keys() - (_NUMBERING if numbered else {"lost"}) <= {"changes", "controls"}:
        return None
    if numbered and not _is_numbered(event):
        return None
    changes = event.get("changes", [])
    well_formed = (
        isinstance(changes, list)
        and all(_is_change(change) for change in changes)
        and _are_controls(event.get("controls", []))
        and isinstance(event.get("lost", False), bool)
    )
    return event if well_formed else None


def _is_numbered(event: JSON) -> bool:
    publisher, started, number = (event.get(name) for name in ("publisher", "started", "number"))
    return (
        isinstance(publisher, str)
        and len(publisher) <= _MAX_NAME
        and isinstance(started, float)
        and type(number) is int
        and 0 <= number < 2**63
    )


def _is_change(change: Any) -> bool:
    return (
        isinstance(change, dict)
        and change.keys() == {"alias", "label", "written", "deleted"}
        and isinstance(change["alias"], str)
        and isinstance(change["label"], str)
        and (change["written"] is None or _are_texts(change["written"]))
        and _are_texts(change["deleted"])
    )


def _are_controls(values: Any) -> bool:
    try:
        ControlSet.from_json(values)
    except ValueError:
        return False
    return True


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
