"""One line of the audit trail, as the values of a row of ``Call``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import models

from mcp_django.exchange.principals import Principal
from mcp_django.models import Call
from mcp_django.models.call_queries import user_id
from mcp_django.models.calls import MAX_CHOSEN
from mcp_django.protocol.names import escaped, printable, quoted

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

#: The values of a row, in the order of COLUMNS.
Line = tuple[Any, ...]

_FIELDS: Mapping[str, models.Field[Any, Any]] = {
    str(field.column): field for field in Call._meta.concrete_fields if not field.primary_key
}
COLUMNS = tuple(_FIELDS)
_DEFAULTS: Mapping[str, Any] = {name: field.get_default() for name, field in _FIELDS.items()}
_LENGTHS: Mapping[str, int] = {
    name: field.max_length for name, field in _FIELDS.items() if field.max_length and not field.choices
}
#: Keys of changed rows that a line names.
MAX_KEYS = 20
_NUMBERS = ("rows", "bytes", "queries", "count")
#: The largest value of a PositiveIntegerField on each database.
_MAX_NUMBER = 2_147_483_647
#: The bound of a BigIntegerField. Keys that are unsigned may be up to twice as large.
_MAX_KEY = 2**63

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange


def line(at: float, **values: Any) -> Line:
    """A line of the time ``at``, in seconds since 1970. Values that are too long are cut."""
    columns = {**_DEFAULTS, **values, "at": datetime.fromtimestamp(at, UTC if settings.USE_TZ else None)}
    for name, limit in _LENGTHS.items():
        if len(columns[name]) > limit:
            columns[name] = columns[name][:limit]
    for name in _NUMBERS:
        columns[name] = min(columns[name], _MAX_NUMBER)
    # The order is that of COLUMNS, since ``values`` adds no name.
    return tuple(columns.values())


def as_dict(of: Line) -> dict[str, Any]:
    return dict(zip(COLUMNS, of, strict=True))


def caller(principal: Principal | None) -> dict[str, Any]:
    """The columns that name a caller. A caller without credentials has none."""
    if principal is None or principal.user.pk is None:
        return {}
    return user(principal.user) | (_token(principal.auth) if principal.token_id is not None else {})


def holder(token: Any) -> dict[str, Any]:
    """The columns that name a token whose secret was sent, and its user."""
    return user(token.user) | _token(token)


def _token(token: Any) -> dict[str, Any]:
    columns = {"token_id": token.pk, "token_name": printable(str(token))}
    return columns | {"client_id": token.client, "lineage": str(token.line)}


def user(one: Any) -> dict[str, Any]:
    """The columns that name a user. One of a project's own authentication may be of any class."""
    name = getattr(one, "get_username", one.__str__)()
    return {"user_id": user_id(one.pk), "user_name": printable(str(name))}


def chosen(value: object) -> str:
    """What a client chose freely, such as its name or a request id: at most 64 characters, each shown as what it is."""
    return escaped(str(value)[: MAX_CHOSEN + 1])


def safe_key(value: object) -> str:
    """The text of a primary key that is an integer or a UUID; empty for any other, which may say whose the row is."""
    if isinstance(value, UUID):
        return str(value)
    text = str(value)
    if text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal() and len(text) <= MAX_CHOSEN:
        return text if -_MAX_KEY <= int(text) < 2 * _MAX_KEY else ""
    try:
        return str(UUID(text)) if len(text) == 36 else ""
    except ValueError:
        return ""


def keys_of(values: Iterable[object]) -> str:
    """The column of changed keys: `` 17 18 ``, so that each is found between spaces."""
    found = [key for value in values if (key := safe_key(value))][:MAX_KEYS]
    return f" {' '.join(found)} " if found else ""


def by_agent(exchange: Exchange) -> str:
    """As ``by agent "claude-code" (as it calls itself), token "laptop"``."""
    name, principal = exchange.client.name, exchange.principal
    named = f'agent "{name}" (as it calls itself)' if name else "an agent without a name"
    return f"by {named}" + (f", token {quoted(str(principal.auth))}" if principal.token_id is not None else "")
