"""Pages by keyset: a page starts after the values of the last row, so that the last page costs what the first costs.

A cursor is those values as a short text that nobody can forge and that only its own query takes: base64url of the
values and of a MAC. The MAC also covers whether the values are compressed, and the query and the credential line,
which are not in the text.

The condition has the form ``a >= x AND (a > x OR (a = x AND …))``, which an index on ``(a, …)`` answers on all
databases. Nulls are their own query, in the place where the database sorts them.

Where a value that was read is not what is stored (a date that Python does not have, a decimal with more places than its
field), the cursor says only that the row holds it, and the next page compares with what that row holds.
"""

from __future__ import annotations

import binascii
import datetime
import hashlib
import hmac
import uuid
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connections, models
from django.db.models import Case, Q, Subquery, When
from django.utils.encoding import force_bytes

from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, INTEGER, NUMBER, TEXT, TIME, UUID, Kind
from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE
from mcp_django.bridge.resources.reading.selection import Order
from mcp_django.bridge.resources.reading.values import fetch_values
from mcp_django.core.compat.connections import sorts_nulls_last
from mcp_django.core.compat.queries import PreparedQuery
from mcp_django.core.db.bounds import fetch
from mcp_django.core.types import AnyField

#: A cursor may stand in a URI, and the URI in a header.
MAX_CURSOR_CHARS = 2_000

_SALT = "mcp_django.resources.cursors"
#: 96 bits: each guess is a request over the network, and a wrong one tells nothing about the next.
_MAC_BYTES = 12
#: Longer values are compressed. Such a cursor begins with a point, which base64 never has.
_SHORT_BYTES = 100
_COMPRESSED = "."

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

# The kinds of values in a cursor. What has no kind of its own is the text that its field reads back.
_NULL, _TEXT, _INTEGER, _UUID, _MOMENT, _HELD = range(6)


class Held:
    """Stands in a cursor for a value that only the row itself holds."""


HELD = Held()
#: A header is the length, with the kind in its lowest bits. Each byte holds seven bits of it, the lowest first.
_KIND_BITS = 3


def make_cursor(values: Sequence[Any], digest: str, lineage: str) -> str | None:
    """The cursor of a page that ends with these values of the order; None if they are too long for one."""
    body, prefix = b"".join(map(_packed, values)), ""
    if len(body) > _SHORT_BYTES:
        body, prefix = zlib.compress(body), _COMPRESSED
    signed = body + _mac(body, prefix + digest, lineage, settings.SECRET_KEY)
    cursor = prefix + urlsafe_b64encode(signed).decode().rstrip("=")
    return cursor if len(cursor) <= MAX_CURSOR_CHARS else None


def read_values(cursor: str, digest: str, lineage: str) -> list[str | Held | None]:
    """The values in a cursor: texts, nulls and HELD. Raises InvalidQuery for a cursor that is not of this query."""
    try:
        prefix = _COMPRESSED if cursor.startswith(_COMPRESSED) else ""
        signed = _decoded(cursor.removeprefix(prefix))
        body, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        if any(hmac.compare_digest(mac, _mac(body, prefix + digest, lineage, key)) for key in keys):
            return list(_unpacked(zlib.decompress(body) if prefix else body))
    except (ValueError, zlib.error):
        pass
    raise invalid_cursor(cursor)


def invalid_cursor(cursor: str) -> InvalidQuery:
    message = (
        "not a cursor of this query: use next_cursor of the previous page and leave every other argument as it "
        "was, or leave the cursor out to start again."
    )
    return InvalidQuery.one("cursor", message, cursor)


def _mac(body: bytes, digest: str, lineage: str, key: str | bytes) -> bytes:
    # The length keeps the end of a credential line from being taken for the beginning of the values.
    signed = f"{digest}:{len(lineage)}:{lineage}:".encode() + body
    return hmac.digest(_derived_key(key), signed, "sha256")[:_MAC_BYTES]


@lru_cache(maxsize=8)
def _derived_key(key: str | bytes) -> bytes:
    """The key that ``salted_hmac`` of Django derives."""
    return hashlib.sha256(_SALT.encode() + force_bytes(key)).digest()


def _decoded(text: str) -> bytes:
    """The bytes of base64url. Raises ValueError for another spelling of them, so that each cursor has one text."""
    found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if urlsafe_b64encode(found).decode().rstrip("=") != text:
        raise binascii.Error("not the shortest spelling")
    return found


def _packed(value: Any) -> bytes:
    """A header and the value; microseconds are kept, and offsets are turned into UTC."""
    kind, data = _TEXT, b""
    if value is None:
        kind = _NULL
    elif value is HELD:
        kind = _HELD
    elif type(value) is int:
        kind, data = _INTEGER, _integer(value)
    elif isinstance(value, datetime.datetime) and value.tzinfo is not None:
        kind, data = _MOMENT, _integer((value - _EPOCH) // _MICROSECOND)
    elif isinstance(value, uuid.UUID):
        kind, data = _UUID, value.bytes
    else:
        text = value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
        data = text.encode("utf-8", "surrogatepass")
    return _header(kind, len(data)) + data


def _integer(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _header(kind: int, length: int) -> bytes:
    rest, header = length << _KIND_BITS | kind, bytearray()
    while rest > 0x7F:
        header.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*header, rest])


_READ: Mapping[int, Callable[[bytes], str | Held | None]] = {
    _NULL: lambda data: None,
    _HELD: lambda data: HELD,
    _TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    _INTEGER: lambda data: str(int.from_bytes(data, "big", signed=True)),
    _UUID: lambda data: str(uuid.UUID(bytes=data)),
    _MOMENT: lambda data: (_EPOCH + int.from_bytes(data, "big", signed=True) * _MICROSECOND).isoformat(),
}


def _unpacked(body: bytes) -> Iterator[str | Held | None]:
    """The values of a body whose MAC was right: they are as ``_packed`` wrote them."""
    place = 0
    while place < len(body):
        header, shift = 0, 0
        while True:
            byte = body[place]
            header |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte <= 0x7F:
                break
        end = place + (header >> _KIND_BITS)
        yield _READ[header & (1 << _KIND_BITS) - 1](body[place:end])
        place = end


def query_digest(*parts: Any) -> str:
    """A short name of a query: equal queries have equal digests."""
    from mcp_django.protocol.jsonrpc import encode

    return hashlib.sha256(encode(parts)).hexdigest()[:24]


def values_for_cursor(orders: Sequence[Order], values: Sequence[Any]) -> list[Any]:
    """The values of a row's order as a cursor holds them: HELD for one that cannot be written and read back.

    The last order is by the primary key. A key that cannot be read is UNREADABLE.
    """
    *places, key = values
    return [*(one if _is_read_back(order, one) else HELD for order, one in zip(orders, places, strict=False)), key]


@lru_cache(maxsize=256)
def _rows_that_hold(model: Any, compared: tuple[tuple[str, bool], ...]) -> PreparedQuery:
    """The query for a row by its key that holds these values. ``compared``: path → whether null is asked for."""
    key_field, fields = model._meta.pk, {path: _field_at(model, path) for path, _ in compared}

    def make(key: Any, *values: Any) -> models.QuerySet[Any]:
        given = iter(values)
        conditions = [_equal(path, fields[path], None if is_null else next(given)) for path, is_null in compared]
        rows: models.QuerySet[Any] = models.QuerySet(model).order_by()
        return rows.filter(Q((key_field.attname, key)), *conditions).values_list("pk")

    return PreparedQuery(make, key_field, *(fields[path] for path, is_null in compared if not is_null), answers=0)


def _field_at(model: Any, path: str) -> Any:
    """The field that a path ends in."""
    *steps, name = path.split("__")
    for step in steps:
        model = model._meta.get_field(step).related_model
    return model._meta.get_field(name)


#: Kinds whose values are read back from a cursor, and the type that they have unless something else is stored.
_READ_BACK: Mapping[Kind, type] = {
    INTEGER: int, TEXT: str, DATE: datetime.date, DATETIME: datetime.datetime, UUID: uuid.UUID,
}  # fmt: skip
#: Those that sqlite3 gives as they are stored.
_AS_STORED: Mapping[Kind, type] = {INTEGER: int, TEXT: str, NUMBER: float}
#: Kinds of which drivers may give null for a value that they cannot load.
_TEMPORAL = (DATE, DATETIME, TIME)


def _is_read_back(order: Order, value: Any) -> bool:
    """Whether the text of a cursor is read as this value again."""
    if value is UNREADABLE:
        return False
    if value is None or type(value) is _READ_BACK.get(order.column.kind):
        return True
    try:
        [text] = _unpacked(_packed(value))
        return bool(_typed(order, text) == value)
    except (ValueError, TypeError, ValidationError, ArithmeticError):
        return False


def _may_be_stored_otherwise(order: Order, value: Any, vendor: str) -> bool:
    """Whether the row may hold something that is only read as this value."""
    if value is None:
        return vendor in ("sqlite", "mysql") and order.column.kind in _TEMPORAL
    return vendor == "sqlite" and value is not HELD and order.column.kind not in _AS_STORED


def _equal(path: str, field: AnyField, value: Any) -> Q:
    """A condition that the column of a path holds a value, or null."""
    if value is None:
        return Q((f"{path}__isnull", True))
    if isinstance(column_of(field), models.BooleanField):
        # Django writes NOT for ``exact``, which also finds what is neither true nor false.
        return Q((f"{path}__gte", value), (f"{path}__lte", value))
    return Q((f"{path}__exact", value))


def compared_with(orders: Sequence[Order], after: Sequence[Any], rows: models.QuerySet[Any]) -> list[Any]:
    """What a page compares with: the values of a cursor, or an expression for one that its row holds otherwise.

    ``rows``: those that the principal may see. Raises InvalidQuery if such a row is not among them, and TooSlow.
    """
    values, places = list(after), _held_otherwise(orders, after, rows)
    if not places:
        return values
    row = rows.filter(Q((orders[-1].column.path, after[-1])))
    nulls = {f"_mcp_{place}": Q((f"{orders[place].column.lookup_path}__isnull", True)) for place in places}
    asked = {name: Case(When(null, then=True), default=False) for name, null in nulls.items()}
    found = fetch(row.annotate(**asked).values_list(*asked)[:1])
    if not found:
        message = "the row with which the last page ended is gone: leave the cursor out to start again."
        raise InvalidQuery.one("cursor", message)
    for place, is_null in zip(places, found[0], strict=True):
        values[place] = None if is_null else Subquery(row.values(orders[place].column.path)[:1])
    return values


def _held_otherwise(orders: Sequence[Order], after: Sequence[Any], rows: models.QuerySet[Any]) -> list[int]:
    """The places of values that are HELD, and of those that the row of the cursor holds in another form."""
    held = [place for place, value in enumerate(after) if value is HELD]
    vendor, model = connections[rows.db].vendor, cast("Any", rows.model)
    doubtful = [
        place for place, order in enumerate(orders[:-1]) if _may_be_stored_otherwise(order, after[place], vendor)
    ]
    if not doubtful:
        return held
    compared = tuple((orders[place].column.lookup_path, after[place] is None) for place in doubtful)
    asked = [after[place] for place in doubtful if after[place] is not None]
    # One row by its key, which takes no time that would have to be bounded.
    if _rows_that_hold(model, compared).fetch(rows.db, after[-1], *asked):
        return held
    row = rows.filter(Q((orders[-1].column.path, after[-1])))
    paths = [orders[place].column.path for place in doubtful]
    # A row that has changed since is compared by what it held.
    for read in fetch_values(row.values_list(*paths)[:1]):
        held += [place for place, value in zip(doubtful, read, strict=True) if value == after[place]]
    return sorted(held)


def read_cursor(cursor: str, orders: Sequence[Order], digest: str, lineage: str) -> list[Any]:
    """The values that a page starts after. Raises InvalidQuery for a cursor that is not of this query."""
    values = read_values(cursor, digest, lineage)
    try:
        return [_typed(order, value) for order, value in zip(orders, values, strict=True)]
    except (ValueError, TypeError, ValidationError):
        raise invalid_cursor(cursor) from None


def _typed(order: Order, value: str | Held | None) -> Any:
    return value if value is None or value is HELD else column_of(order.column.field).to_python(value)


def segments(orders: Sequence[Order], after: Sequence[Any], *, alias: str) -> Iterator[Q]:
    """Conditions that find all rows after ``after``: those of the first one in the order, then those of the next."""
    order, value, last = orders[0], after[0], len(orders) == 1
    path = order.column.lookup_path
    nullable = order.column.nullable
    nulls_last = sorts_nulls_last(connections[alias]) != order.descending
    if value is None:
        if not last:
            for rest in segments(orders[1:], after[1:], alias=alias):
                yield Q((f"{path}__isnull", True)) & rest
        if not nulls_last:
            yield Q((f"{path}__isnull", False))
        return
    beyond = Q((f"{path}__lt" if order.descending else f"{path}__gt", value))
    if last:
        yield beyond
    else:
        rests = list(segments(orders[1:], after[1:], alias=alias))
        equal = _equal(path, order.column.field, value)
        if len(rests) == 1:
            yield Q((f"{path}__lte" if order.descending else f"{path}__gte", value)) & (beyond | (equal & rests[0]))
        else:
            yield from (equal & rest for rest in rests)
            yield beyond
    if nullable and nulls_last:
        yield Q((f"{path}__isnull", True))
