"""Pages of the protocol's lists. A list is ordered by a key, and a signed cursor holds the last key of a page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from django.core import signing

from mcp_django.conf import get_conf
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import InvalidCursor
from mcp_django.protocol.types import JSON

_SALT = "mcp_django.protocol.pages"


def page(exchange: Exchange, key: str, items: Sequence[JSON], sort_key: Callable[[JSON], str]) -> JSON:
    """One page of a list result, ``{key: [...], "nextCursor"?: str}``. Raises InvalidCursor."""
    ordered = sorted(items, key=sort_key)
    start = bisect_right(ordered, _after(exchange), key=sort_key) if exchange.params.get("cursor") is not None else 0
    size = get_conf().LIST_PAGE
    result: JSON = {key: ordered[start : start + size]}
    if start + size < len(ordered):
        last = sort_key(ordered[start + size - 1])
        result["nextCursor"] = signing.dumps([_owner(exchange), last], salt=_SALT)
    return result


def _after(exchange: Exchange) -> str:
    cursor = exchange.params["cursor"]
    try:
        owner, last = signing.loads(cursor, salt=_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        raise InvalidCursor(cursor) from None
    if owner != _owner(exchange) or not isinstance(last, str):
        raise InvalidCursor(cursor)
    return last


def _owner(exchange: Exchange) -> list[str]:
    return [exchange.method, exchange.site.name, exchange.principal.lineage]
