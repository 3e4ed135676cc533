"""The lines of ``manage.py mcp_audit``: columns for people, or an object of JSON for programs."""

from __future__ import annotations

import json
from typing import Any

from mcp_django.models import Call
from mcp_django.protocol.names import printable

#: Each column with its width. The last one takes the room that it needs.
_COLUMNS = {"time": 19, "user": 16, "token": 14, "client": 14, "what": 32, "model": 20, "outcome": 0}


def heading() -> str:
    return _aligned(list(_COLUMNS))


def as_columns(call: Call) -> str:
    """A line for people. What is longer than its column pushes the rest of the line to the right."""
    why = f"{call.reason} ({call.detail})" if call.detail else call.reason
    outcome = f"{call.outcome}: {why}" if why else call.outcome
    who = call.user_name or call.user_id or call.address
    cost = f"{outcome}, {call.rows} rows, {call.ms:.0f} ms"
    token = call.token_name or ("" if call.token_id is None else str(call.token_id))
    return _aligned(
        [f"{call.local_at:%Y-%m-%d %H:%M:%S}", who, token, call.client_name, call.subject, call.model, cost]
    )


def as_json(call: Call) -> str:
    """One object with every column. ``keys`` is a list; ``arguments`` and ``values`` are JSON values, or null."""
    line = {field.attname: getattr(call, field.attname) for field in Call._meta.concrete_fields}
    line |= {
        "at": call.local_at.isoformat(),
        "arguments": _decoded(call.arguments),
        "values": _decoded(call.values),
        "keys": call.keys.split(),
    }
    return json.dumps(line)


def _aligned(cells: list[str]) -> str:
    # A client could use control characters to write elsewhere on the terminal.
    padded = (printable(cell or "-").ljust(width) for cell, width in zip(cells, _COLUMNS.values(), strict=True))
    return "  ".join(padded).rstrip()


def _decoded(text: str) -> Any:
    """The value of a column that holds JSON; the text itself where it holds something else."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
