"""URIs of resources: ``db://<app>/<model>``, ``…/<pk>``, ``….schema``, and queries (RFC 3986).

A key is percent-encoded whole. Keys that a client's URL parser would resolve away (``.``, ``..``, empty) stand in the
query as ``?pk=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote, unquote

from django.db import models

SCHEME = "db://"
_SCHEMA_SUFFIX = ".schema"
_MODEL = re.compile(
    r"(?P<app>\w+)/(?P<model>\w+)(?P<schema>\.schema)?(?:/(?P<key>[^/?#]+))?(?:\?(?P<query>[^#]*))?", re.ASCII
)
_UNSAFE_KEYS = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class Target:
    """What a ``db://`` URI names."""

    kind: Literal["collection", "record", "schema"]
    #: ``app_label.model_name``.
    label: str
    key: str = ""
    query: tuple[tuple[str, str], ...] = field(default=())


def collection_uri(model: type[models.Model]) -> str:
    return f"{SCHEME}{model._meta.app_label}/{model._meta.model_name}"


def schema_uri(model: type[models.Model]) -> str:
    return collection_uri(model) + _SCHEMA_SUFFIX


def record_uri(model: type[models.Model], key: object) -> str:
    text = str(key)
    if text in _UNSAFE_KEYS:
        return f"{collection_uri(model)}?pk={quote(text, safe='')}"
    return f"{collection_uri(model)}/{quote(text, safe='')}"


def query_uri(model: type[models.Model], parameters: Iterable[tuple[str, str]]) -> str:
    pairs = [f"{quote(name, safe='_')}={quote(value, safe=':,-')}" for name, value in parameters]
    return f"{collection_uri(model)}?{'&'.join(pairs)}"


def parse(uri: str) -> Target | None:
    """What the URI names, or None if it is none of ours. App labels match without regard to case."""
    if not uri.startswith(SCHEME):
        return None
    match = _MODEL.fullmatch(uri, len(SCHEME))
    if match is None:
        return None
    label = f"{match['app'].lower()}.{match['model'].lower()}"
    query = _parse_query(match["query"])
    if match["schema"]:
        return None if match["key"] or query else Target("schema", label)
    if match["key"]:
        key = unquote(match["key"])
        return None if query or key in _UNSAFE_KEYS else Target("record", label, key)
    if len(query) == 1 and query[0][0] == "pk":
        return Target("record", label, query[0][1])
    return Target("collection", label, query=query)


def _parse_query(text: str | None) -> tuple[tuple[str, str], ...]:
    """Pairs of a query, split on & and =; a plus stays a plus, as in any URI that is not a form."""
    if not text:
        return ()
    pairs = (part.partition("=") for part in text.split("&") if part)
    return tuple((unquote(name), unquote(value)) for name, _, value in pairs)
