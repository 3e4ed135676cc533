"""URI templates of models (RFC 6570): one record by its key, the rows of a query, and the groups of an aggregate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from django.utils.text import capfirst

from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.protocol.types import JSON

#: The type of records and of pages of rows.
MIME_TYPE = "application/json"

#: The template of the schemas of all models.
SCHEMA = "db://{app_label}/{model}.schema"

#: Names of a filter whose values are filters, which a URI cannot hold.
ONLY_IN_FILTERS = frozenset({"all", "any", "not"})
#: Names in a query that are no fields: see ``queries``.
_RESERVED = ONLY_IN_FILTERS | uris.GROUPING | {"cursor", "fields", "limit", "order_by", "search", "total"}

_OF_MODEL = re.compile(r"(?P<uri>[^{}]+?)(?:/\{(?P<key>[^{},]+)\}|\{\?(?P<names>[^{}]*)\})")


@dataclass(frozen=True, slots=True)
class Template:
    """A template of a model."""

    model: ModelRights
    #: The name of the key in it; empty for a query.
    key: str = ""
    is_aggregate: bool = False


def of_model(model: ModelRights) -> list[JSON]:
    """The templates of a model that the principal may use, as resources/templates/list has them."""
    described: Mapping[ways.Way, Callable[[ModelRights], JSON]] = {
        "record": _record,
        "collection": _query,
        **({} if model.checks_objects else {"aggregate": _aggregate}),
    }
    return [describe(model) for way, describe in described.items() if ways.is_open(model, way)]


def aggregate_parameters(model: ModelRights) -> dict[str, Column | None]:
    """As ``parameters``, for an aggregate. Conditions on groups, as ``having.count__gte``, are too many to list."""
    return {"group_by": None, "measures": None, **parameters(model)}


def parameters(model: ModelRights) -> dict[str, Column | None]:
    """The parameters of a query of the model's rows, with the field that each compares, or None."""
    found: dict[str, Column | None] = {
        f"{name}__exact" if name in _RESERVED else name: column
        for name, column in model.filterable.items()
        if "exact" in column.kind.lookups
    }
    if model.can_search:
        found["search"] = None
    if model.orderable:
        found["order_by"] = None
    found["limit"] = None
    return found


def parse(rights: Rights, template: str) -> Template | None:
    """The meaning of a template that ``of_model`` returned; None for any other text."""
    match = _OF_MODEL.fullmatch(template)
    target = uris.parse(match["uri"]) if match else None
    if match is None or target is None or target.kind != "collection" or target.is_query:
        return None
    model, key = rights.of_label(target.label), unquote(match["key"] or "")
    if model is None:
        return None
    is_aggregate = not uris.GROUPING.isdisjoint((match["names"] or "").split(","))
    way: ways.Way = "record" if key else "aggregate" if is_aggregate else "collection"
    is_known = key in ("", model.primary_key.name) and ways.is_open(model, way)
    return Template(model, key, is_aggregate) if is_known else None


def _record(model: ModelRights) -> JSON:
    meta = model.model._meta
    return {
        "uriTemplate": f"{uris.collection_uri(model.model)}/{{{uris.quote_name(model.primary_key.name)}}}",
        "name": model.label,
        "title": str(capfirst(meta.verbose_name)),
        "description": f"One {meta.verbose_name} by its {model.primary_key.name}.",
        "mimeType": MIME_TYPE,
    }


def _query(model: ModelRights) -> JSON:
    what = f"The {model.model._meta.verbose_name_plural} whose fields have these values, page by page."
    return _with_parameters(model, "query", parameters(model), what)


def _aggregate(model: ModelRights) -> JSON:
    what = f"Counts and other measures of the {model.model._meta.verbose_name_plural}, in groups."
    return _with_parameters(model, "aggregate", aggregate_parameters(model), what)


def _with_parameters(model: ModelRights, name: str, names: Iterable[str], description: str) -> JSON:
    return {
        "uriTemplate": f"{uris.collection_uri(model.model)}{{?{','.join(map(uris.quote_name, names))}}}",
        "name": f"{model.label} {name}",
        "title": f"{capfirst(model.model._meta.verbose_name_plural)}: {name}",
        "description": description,
        "mimeType": MIME_TYPE,
    }
