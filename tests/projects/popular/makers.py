"""Rows of models that ask for more than their fields."""

from __future__ import annotations

from typing import Any

from django.db import models

from tests.projects.popular.shelf.models import ResearchProject
from tests.projects.rows import Factory, Makers


def _node(factory: Factory, model: Any) -> models.Model:
    """A node of a tree of treebeard, which places it itself."""
    node: models.Model = model.add_root(**factory.values(model, without={"path", "depth", "numchild"}))
    return node


def _title(factory: Factory, model: Any) -> models.Model:
    """A row with its translation, which is a row of another model."""
    translated = model._parler_meta.root_model
    texts = {name: factory.word(translated._meta.get_field(name)) for name in ("title", "summary")}
    row: models.Model = model.objects.create(**factory.values(model), **texts)
    return row


def _tagged(factory: Factory, model: Any) -> models.Model:
    row = model.objects.create(**factory.values(model))
    row.tags.add("red", "round")
    return row  # type: ignore[no-any-return]


def _child(factory: Factory, model: Any) -> models.Model:
    """A row of a class below the polymorphic one, which says itself of which class it is."""
    row: models.Model = model.objects.create(**factory.values(model, without={"polymorphic_ctype"}))
    return row


def _periodic(factory: Factory, model: Any) -> models.Model:
    """A task of celery-beat, which takes one schedule and one end alone."""
    kept = {"interval", "name", "task", "description"}
    without = {field.name for field in model._meta.concrete_fields} - kept
    row: models.Model = model.objects.create(**factory.values(model, without=without))
    return row


MAKERS: Makers = {
    "django_celery_beat.periodictask": _periodic,
    "shelf.artproject": _child,
    "shelf.food": _tagged,
    "shelf.project": lambda factory, model: _child(factory, ResearchProject),
    "shelf.researchproject": _child,
    "shelf.section": _node,
    "shelf.title": _title,
}
