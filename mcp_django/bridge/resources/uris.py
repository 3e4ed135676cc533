"""URIs of resources: ``db://<app>/<model>``, ``…/<pk>``, ``…/<pk>/<field>``, ``….schema``, and queries (RFC 3986).

A key is percent-encoded whole, and so is what names of apps, models and fields hold beyond ASCII. Keys that a client's
URL parser would resolve away (``.``, ``..``, empty) stand in the query as ``?pk=``, and the field of such a record as
``?pk=&field=``. A query that names groups or measures is an aggregate: ``?group_by=carrier&measures=count``.
``kept_uri`` is what the audit trail, telemetry and the admin may show of a URI that a client asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote

from django.db import models

from mcp_django.audit.lines import safe_key

if TYPE_CHECKING:
    from mcp_django.exchange.site import Site

SCHEME = "db://"
#: A URI is also a header (Mcp-Name), and servers bound the lines of a head, nginx to 8 kB.
MAX_URI = 4_000
_SCHEMA_SUFFIX = ".schema"
_MODEL = re.compile(
    r"(?P<app>[^/?#.]+)/(?P<model>[^/?#.]+)(?P<schema>\.schema)?(?:/(?P<key>[^/?#]+)(?:/(?P<field>[^/?#]+))?)?"
    r"(?:\?(?P<query>[^#]*))?"
)
#: Bytes beyond ASCII, as a URI writes them.
_ENCODED = re.compile("(?:%[89A-Fa-f][0-9A-Fa-f])+")
#: Keys that no path can hold.
UNSAFE_KEYS = frozenset({"", ".", ".."})

#: A query with one of these parameters is about one page, and not about all rows that meet its conditions.
PAGING = frozenset({"limit", "cursor"})
#: A query with one of these parameters is an aggregate; so is one with a condition on groups, as ``having.count__gte``.
GROUPING = frozenset({"group_by", "measures", "having"})
HAVING = "having."


@dataclass(frozen=True, slots=True)
class Target:
    """The resource that a ``db://`` URI names."""

    kind: Literal["collection", "aggregate", "record", "file", "schema"]
    #: ``app_label.model_name``.
    label: str
    key: str = ""
    query: tuple[tuple[str, str], ...] = ()
    #: Of a file: the field of the record that holds it.
    field: str = ""

    @property
    def is_of_record(self) -> bool:
        """Whether the URI names a record or a file in it. A principal who may see a record may see its files."""
        return self.kind in ("record", "file")

    @property
    def is_query(self) -> bool:
        """Whether the URI has a query, and does not stand for all rows of a model."""
        return bool(self.query)

    @property
    def is_set(self) -> bool:
        """Whether the URI is a query for all rows that meet it, and not for one page or a table of groups."""
        return self.kind == "collection" and self.is_query and not any(name in PAGING for name, _ in self.query)


def collection_uri(model: type[models.Model]) -> str:
    return f"{SCHEME}{quote_name(model._meta.app_label)}/{quote_name(str(model._meta.model_name))}"


def decoded(uri: str) -> str:
    """The URI with each character beyond ASCII as itself, however it is written (RFC 3987 §3.2)."""
    return _ENCODED.sub(_decoded, uri) if "%" in uri else uri


def _decoded(found: re.Match[str]) -> str:
    try:
        return bytes.fromhex(found[0].replace("%", "")).decode()
    except UnicodeDecodeError:
        return found[0]


def quote_name(name: str) -> str:
    """The name of an app, a model or a field as a URI has it."""
    return quote(name, safe="")


def schema_uri(model: type[models.Model]) -> str:
    return collection_uri(model) + _SCHEMA_SUFFIX


def record_uri(model: type[models.Model], key: object) -> str:
    text = str(key)
    if text in UNSAFE_KEYS:
        return f"{collection_uri(model)}?pk={quote(text, safe='')}"
    return f"{collection_uri(model)}/{quote(text, safe='')}"


def file_uri(model: type[models.Model], key: object, name: str) -> str:
    """The URI of the file, or the bytes, in a field of a record."""
    text, name = str(key), quote_name(name)
    if text in UNSAFE_KEYS:
        return f"{record_uri(model, key)}&field={name}"
    return f"{record_uri(model, key)}/{name}"


def query_uri(model: type[models.Model], parameters: Iterable[tuple[str, str]]) -> str:
    pairs = [f"{quote(name, safe='_')}={quote(value, safe=':,-')}" for name, value in parameters]
    return f"{collection_uri(model)}?{'&'.join(pairs)}"


def parse(uri: str) -> Target | None:
    """The resource that the URI names, or None if it is no ``db://`` URI. Models match without regard to case."""
    if not uri.startswith(SCHEME):
        return None
    match = _MODEL.fullmatch(uri, len(SCHEME))
    if match is None:
        return None
    names = [unquote(match[part]).lower() for part in ("app", "model")]
    if not all(name.isidentifier() for name in names):
        return None
    label = ".".join(names)
    query = _parse_query(match["query"])
    if match["schema"]:
        return None if match["key"] or query else Target("schema", label)
    if match["key"]:
        return None if query else _of_record(label, unquote(match["key"]), match["field"])
    if len(query) == 1 and query[0][0] == "pk":
        return Target("record", label, query[0][1])
    if [name for name, _ in query] == ["pk", "field"] and query[0][1] in UNSAFE_KEYS:
        return Target("file", label, query[0][1], field=query[1][1])
    is_aggregate = any(name in GROUPING or name.startswith(HAVING) for name, _ in query)
    return Target("aggregate" if is_aggregate else "collection", label, query=query)


def _of_record(label: str, key: str, quoted_field: str | None) -> Target | None:
    if key in UNSAFE_KEYS:
        return None
    if quoted_field is None:
        return Target("record", label, key)
    name = unquote(quoted_field)
    return Target("file", label, key, field=name) if name.isidentifier() else None


def _parse_query(text: str | None) -> tuple[tuple[str, str], ...]:
    """Pairs of a query, split on & and =; a plus stays a plus, as in any URI that is not a form."""
    if not text:
        return ()
    pairs = (part.partition("=") for part in text.split("&") if part)
    return tuple((unquote(name), unquote(value)) for name, _, value in pairs)


#: Stands for a name, a key or a URI that is not repeated, since a client may write anything into it.
LEFT_OUT = "*"


def kept_uri(site: Site, uri: str) -> str:
    """The URI of one of our models, or as the project declares it: without its query, and without texts that are keys.

    A key is kept if it is an integer or a UUID. For a URI of a declared template, the template itself is given.
    """
    target = parse(uri)
    if target is None:
        found = site.find_resource(uri) if len(uri) <= MAX_URI else None
        return found.uri if found is not None else LEFT_OUT
    model = site.models.get(target.label)
    if model is None:
        return f"{SCHEME}{LEFT_OUT}"
    kept = collection_uri(model.model)
    if target.kind == "schema":
        return schema_uri(model.model)
    if not target.is_of_record:
        return kept
    field = f"/{target.field}" if target.field in {one.name for one in model.opts.fields} else ""
    return f"{kept}/{safe_key(target.key) or LEFT_OUT}{field}"
