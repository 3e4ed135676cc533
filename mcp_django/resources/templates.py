"""URI templates of models (RFC 6570): one record by its key, and the rows of a query."""

from __future__ import annotations

import re
from typing import Any

from mcp_django.resources import uris
from mcp_django.resources.columns import Column
from mcp_django.resources.policy import ModelRights, Rights

JSON = dict[str, Any]

#: Of records and of pages of rows.
MIME_TYPE = "application/json"

#: Schemas of all models.
SCHEMA = "db://{app_label}/{model}.schema"

#: Names of a filter whose values are filters, which no text is.
ONLY_IN_FILTERS = frozenset({"all", "any", "not"})
#: Names in a query that are no fields: see ``catalog.question``.
_RESERVED = ONLY_IN_FILTERS | {"cursor", "fields", "limit", "order_by", "search", "total"}

_OF_MODEL = re.compile(r"db://(?P<app>\w+)/(?P<model>\w+)(?:/\{(?P<key>\w+)\}|\{\?(?P<names>[\w,]*)\})", re.ASCII)


def of_model(model: ModelRights) -> list[JSON]:
    """The templates of a model, as resources/templates/list has them."""
    return [_record(model), _query(model)]


def parameters(model: ModelRights) -> dict[str, Column | None]:
    """What a query of the model's rows may name, by parameter: a field that is compared, or None for anything else."""
    found: dict[str, Column | None] = {
        f"{name}__exact" if name in _RESERVED else name: column
        for name, column in model.filterable.items()
        if "exact" in column.kind.lookups
    }
    if model.searchable:
        found["search"] = None
    if model.orderable:
        found["order_by"] = None
    found["limit"] = None
    return found


def parse(rights: Rights, template: str) -> tuple[ModelRights, str] | None:
    """The model that a template is of, and the name of the key in it, which is empty for a query."""
    match = _OF_MODEL.fullmatch(template)
    model = rights.of_label(f"{match['app']}.{match['model']}".lower()) if match else None
    if match is None or model is None:
        return None
    key = match["key"] or ""
    return None if key not in ("", model.primary_key.name) else (model, key)


def _record(model: ModelRights) -> JSON:
    meta = model.model._meta
    return {
        "uriTemplate": f"{uris.collection_uri(model.model)}/{{{model.primary_key.name}}}",
        "name": model.label,
        "title": str(meta.verbose_name),
        "description": f"One {meta.verbose_name} by its {model.primary_key.name}.",
        "mimeType": MIME_TYPE,
    }


def _query(model: ModelRights) -> JSON:
    meta = model.model._meta
    return {
        "uriTemplate": f"{uris.collection_uri(model.model)}{{?{','.join(parameters(model))}}}",
        "name": f"{model.label} query",
        "title": str(meta.verbose_name_plural),
        "description": f"The {meta.verbose_name_plural} whose fields have these values, page by page.",
        "mimeType": MIME_TYPE,
    }
