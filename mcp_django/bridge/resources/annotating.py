"""Annotations of a model's resources: whom they are for, how important they are, when they were last changed.

The protocol has Annotations on what is listed and linked, and none on contents (2026-07-28 schema#annotations).
"""

from __future__ import annotations

import datetime
import logging
from typing import Any

from django.db import models
from django.db.models import Q

from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.indexes import is_indexed
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows
from mcp_django.bridge.resources.reading.templates import MIME_TYPE
from mcp_django.content import write_annotations
from mcp_django.core.db.bounds import fetch
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

logger = logging.getLogger("mcp_django")


def of_model(rights: ModelRights, last_modified: datetime.datetime | None = None) -> JSON:
    """The Annotations that the ModelMCP declares, with ``last_modified``. Invalid ones are logged and left out."""
    try:
        return write_annotations(**rights.annotations, last_modified=last_modified)
    except (TypeError, ValueError):
        logger.exception("%s.annotations are not valid", rights.model_mcp)
        return write_annotations(last_modified=last_modified)


def of_collection(rights: ModelRights) -> JSON:
    """The Annotations of all rows, with the time of the last change that the principal may see.

    The time is left out if no index gives it, or if the permission is checked for each row.
    """
    field = rights.last_modified_field
    if field is None or rights.checks_objects or not is_indexed(rights.model, [f"-{field}"]):
        return of_model(rights)
    try:
        return of_model(rights, _newest(rights, rights.rows(), field))
    except TooSlow:
        return of_model(rights)


def link(rights: ModelRights, key: Any, record: rows.Record, *, whole: bool) -> JSON | None:
    """A link to a record with its Annotations; None if it has none. One that is ``whole`` and uncut has its size."""
    pk, field = rights.primary_key, rights.last_modified_field
    value = pk.kind.read(pk.field, key)
    moment = None if field is None else _newest(rights, rights.rows().filter(pk=value), field)
    annotations = of_model(rights, moment)
    if not annotations:
        return None
    text = str(pk.kind.write(value))
    block: JSON = {
        "type": "resource_link",
        "uri": uris.record_uri(rights.model, text),
        "name": f"{rights.label} {text}",
    }
    size = {"size": len(encode(record.values))} if whole and not record.notes else {}
    return {**block, "mimeType": MIME_TYPE, **size, "annotations": annotations}


def _newest(rights: ModelRights, queryset: models.QuerySet[Any], field: str) -> datetime.datetime | None:
    dated = queryset.filter(Q((f"{field}__isnull", False))).order_by(f"-{field}")
    return next(iter(fetch(dated.values_list(field, flat=True)[:1])), None)
