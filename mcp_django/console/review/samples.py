"""Columns whose stored texts look like secrets, found by reading some rows: only when somebody asks for it.

No value leaves this file: what is told is the name of the column, what its texts look like, and how to hide it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error
from django.db.models import F
from django.db.models.functions import Left
from django.utils import translation

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.kinds import TEXT
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading.values import fetch_values
from mcp_django.bridge.sites import MCPSite
from mcp_django.console.review import inventory, secret_texts
from mcp_django.exchange.scopes import SCOPES
from mcp_django.protocol.types import JSON

#: Rows of each model, the newest of its keys, and characters of each text.
ROWS = 200
_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The columns of one model that are looked at."""

    rights: ModelRights
    columns: Sequence[Column]
    #: What its options exclude already.
    excluded: Sequence[str]


def take(
    site: MCPSite,
    user: Any = None,
    scopes: Iterable[str] = SCOPES,
    *,
    show_progress: Callable[[str], object] = lambda text: None,
) -> JSON:
    """Read rows of each model that is exposed as ``inventory.build`` says, whether or not the user may see these rows.

    ``{"rows", "models", "unread"}``:

    - ``rows``: of each model at most so many are read;
    - ``models``: label → ``{"columns", "exclude", "primary_key"}`` of those with such texts. ``columns``: name →
      ``{"kinds", "alike", "texts"}``, where ``alike`` of ``texts`` look like one of ``kinds``; ``exclude``: the option
      of a ModelMCP that hides them; ``primary_key``: its name if it is one of them, which no ``exclude`` hides;
    - ``unread``: label → the class of the error, of models whose rows cannot be read.
    """
    request = inventory.request_of(user, scopes)
    with translation.override(settings.LANGUAGE_CODE):
        with inventory.failures(), inventory.no_database() if user is None else nullcontext():
            rights = Rights.of(site, request)
            models = [found for found in map(_sampled, rights.models()) if found.columns]
        found: JSON = {"rows": ROWS, "models": {}, "unread": {}}
        with nullcontext() if user is None else site.call_context(request):
            for count, model in enumerate(models, 1):
                show_progress(f"{count} of {len(models)} models: {model.rights.label}")
                try:
                    columns = _read(model)
                except Error as error:
                    found["unread"][model.rights.label] = type(error).__name__
                    continue
                if columns:
                    found["models"][model.rights.label] = {"columns": columns, **_remedy(model, columns)}
    show_progress("")
    return found


def _remedy(model: _Sampled, names: Collection[str]) -> JSON:
    """What hides these columns."""
    key = model.rights.primary_key.name
    others = [name for name in names if name != key]
    exclude = list(dict.fromkeys([*model.excluded, *others])) if others else []
    return {"exclude": exclude, "primary_key": key if key in names else None}


def _sampled(rights: ModelRights) -> _Sampled:
    nothing: Sequence[str] = ()
    columns = [column for column in rights.columns.values() if _is_text(column)]
    return _Sampled(rights, columns, list(rights.ask_hook("get_exclude", nothing)))


def _is_text(column: Column) -> bool:
    """Whether the column holds texts of its own: no choices, and no keys of other rows."""
    return column.kind.name == TEXT.name and column.related is None and not column.field.choices


def _read(model: _Sampled) -> JSON:
    """What is found in the columns of a model. Raises Error where its table cannot be read."""
    values = [F(one.attname) if one.kind.converted else Left(one.attname, _CHARS) for one in model.columns]
    rows = model.rights.model._base_manager.order_by("-pk").values_list(*values)[:ROWS]
    found: JSON = {}
    for column, texts in zip(model.columns, zip(*fetch_values(rows, len(values)), strict=True), strict=False):
        secrets = secret_texts.find(str(text)[:_CHARS] for text in texts if text is not None)
        if secrets is not None:
            found[column.name] = {"kinds": secrets.kinds, "alike": secrets.alike, "texts": secrets.texts}
    return found
