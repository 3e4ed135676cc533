"""The answer of a live query: a digest of what ``resources/read`` gives, and the models that it was made of."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections, models

from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.jsonrpc import encode
from mcp_django.resources import queries, uris
from mcp_django.resources.filters import InvalidQuestion
from mcp_django.resources.policy import ModelRights, Rights

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.sites import MCPSite

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """What a query gave, as far as it is remembered."""

    digest: str
    #: Labels of the concrete models whose changes may make it another one.
    labels: frozenset[str]
    #: How long it took.
    seconds: float


class Viewer:
    """Answers queries for one principal, with the rights that its request has.

    Rows are read where they are written: a replica that lags would give the answer from before a change.
    """

    def __init__(self, site: MCPSite, request: MCPRequest) -> None:
        self._rights = Rights(site, request, from_primary=True)
        self._tables = list(_watched_tables(site))
        #: What the queries that were asked for look at: see ``queries.followed``.
        self._followed: dict[uris.Target, Mapping[str, list[type[models.Model]]]] = {}

    @classmethod
    def of(cls, site: MCPSite, request: MCPRequest) -> Viewer:
        """The viewer of the request's principal, kept on the request."""
        kept: dict[str, Viewer] = request.__dict__.setdefault("_mcp_viewers", {})
        if site.name not in kept:
            kept[site.name] = cls(site, request)
        return kept[site.name]

    def sees(self, target: uris.Target) -> bool:
        """Whether the query can be asked, by this principal, and all that decides it is watched."""
        return self._rights.of_label(target.label) is not None and not self.errors(target)

    def errors(self, target: uris.Target) -> list[FieldError]:
        """What is wrong with the query, by its parameters; asks nothing of the database."""
        model = self._rights.of_label(target.label)
        if model is None:
            return []
        try:
            followed = self._models_beside(model, target)
        except InvalidQuestion as error:
            return queries.in_query(error)
        message = f"looks at rows of other models, whose changes are not told here. Watch {model.label} without it."
        return [
            field_error(place, message)
            for place, steps in followed.items()
            if not all(self._is_watched(step) for step in steps)
        ]

    def answer(self, target: uris.Target) -> LiveAnswer | None:
        """The answer now; None where the model is not there. Raises InvalidQuestion and TooSlow."""
        model = self._rights.of_label(target.label)
        if model is None:
            return None
        begun, asked = time.monotonic(), _Words()
        with ExitStack() as listening:
            # Whatever is asked on the way, by the project's hooks too, has a part in the answer.
            for alias in connections:
                listening.enter_context(connections[alias].execute_wrapper(asked))
            found = queries.answer(model, target)
        labels = {label for names, label in self._tables if names <= asked.words}
        # Conditions that nothing can meet are not asked.
        named = (step for steps in self._models_beside(model, target).values() for step in steps)
        labels.update(_label(step) for step in (model.model, *named))
        # The cursor of the next page holds the place of the last row, which is no part of the answer.
        told = encode([found.values, found.notes, found.next_cursor is not None])
        return LiveAnswer(hashlib.sha256(told).hexdigest(), frozenset(labels), time.monotonic() - begun)

    def _models_beside(self, model: ModelRights, target: uris.Target) -> Mapping[str, list[type[models.Model]]]:
        if target not in self._followed:
            self._followed[target] = queries.followed(model, target)
        return self._followed[target]

    def _is_watched(self, model: type[models.Model]) -> bool:
        declared = self._rights.site.models.get(Rights.label_of(model))
        return declared is not None and declared.watch


class _Words:
    """The words of the statements that are executed, the names of tables among them."""

    def __init__(self) -> None:
        self.words: set[str] = set()

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if isinstance(sql, str):
            self.words.update(_WORD.findall(sql))
        return execute(sql, params, many, context)


def _watched_tables(site: MCPSite) -> Iterator[tuple[set[str], str]]:
    """The words of a table's name, and the label of the model whose changes are those of the table."""
    for model_mcp in site.models.values():
        if not model_mcp.watch:
            continue
        label, opts = _label(model_mcp.model), model_mcp.model._meta
        # The rows between of a many-to-many field are told as changes of both its ends.
        between: list[Any] = [field.remote_field.through for field in opts.many_to_many]
        for table in (opts.db_table, *(through._meta.db_table for through in between if through._meta.auto_created)):
            yield set(_WORD.findall(table)), label


def _label(model: type[models.Model]) -> str:
    return (model._meta.concrete_model or model)._meta.label_lower
