"""Rows of the models of an API, whose values are such as its serializers show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models

from tests.projects.rows import Factory, Makers, Model


class ApiFactory(Factory):
    """Makes rows with values that are given, by ``model.field`` or ``field``: where a text holds JSON, say.

    It forgets the rows that were rolled back with one that could not be made.
    """

    def __init__(self, makers: Makers, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(makers)
        self._given = given or {}
        self._shared: dict[Model, models.Model] = {}

    def share(self, *rows: models.Model) -> None:
        """Let all rows that can belong to one of these."""
        for row in rows:
            self._shared[type(row)] = row
            self._made[type(row)] = [row]

    def make(self, model: Model, depth: int = 0, **given: Any) -> models.Model:
        before = {one: list(rows) for one, rows in self._made.items()}
        try:
            return super().make(model, depth, **given)
        except Exception:
            for one, rows in self._made.items():
                rows[:] = before.get(one, [])
            raise

    def _related(self, field: Any, depth: int) -> Any:
        shared = None if field.unique else self._shared.get(field.related_model)
        return super()._related(field, depth) if shared is None else shared

    def value(self, field: Any) -> Any:
        for name in (f"{field.model._meta.model_name}.{field.name}", field.name):
            if name in self._given:
                return self._given[name]
        value = super().value(field)
        try:
            field.get_prep_value(value)
        except TypeError:
            # A field whose values are lists, although it is one of texts.
            return []
        return value
