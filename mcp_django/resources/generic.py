"""Generic foreign keys: each is read as the URI of the row that it points to, where the principal can see that row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import models

from mcp_django.admin_form import generic_keys
from mcp_django.resources import uris
from mcp_django.resources.columns import Computed

if TYPE_CHECKING:
    from mcp_django.resources.policy import ModelRights


def links(rights: ModelRights) -> Iterator[Computed]:
    """The generic foreign keys that the principal may read."""
    for field in generic_keys(rights.model):
        if field.name in rights.shown and not rights.model_mcp.hides(field) and not _is_excluded(rights, field):
            yield Computed(field.name, field.name.replace("_", " "), partial(_uri, rights, field))


def _is_excluded(rights: ModelRights, field: Any) -> bool:
    """Whether one of its two columns is excluded."""
    return field.ct_field in rights.excluded or field.fk_field in rights.excluded


def _uri(rights: ModelRights, field: Any, instance: models.Model) -> str | None:
    """The URI of the row; None where there is none, or none that the principal can see."""
    from django.contrib.contenttypes.models import ContentType

    from mcp_django.resources.rows import visible_keys

    kind: Any = rights.model._meta.get_field(field.ct_field)
    kind_id = getattr(instance, kind.attname)
    key = getattr(instance, field.fk_field)
    if kind_id is None or key is None:
        return None
    try:
        model = ContentType.objects.get_for_id(kind_id).model_class()
        related = None if model is None else rights.rights.of_model(model)
        if model is None or related is None:
            return None
        # As the other model writes it: the key may be kept here as text, of a UUID for example.
        key = model._meta.pk.to_python(key)
    except (ObjectDoesNotExist, ValidationError):
        return None
    return uris.record_uri(model, key) if visible_keys(related, [str(key)]) else None
