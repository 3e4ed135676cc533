"""Rows of the models of oscar that ask for more than their fields."""

from __future__ import annotations

from typing import Any

from django.db import models

from tests.projects.rows import Factory, Makers


def _node(factory: Factory, model: Any) -> models.Model:
    """A node of a tree of treebeard, which places it itself."""
    node: models.Model = model.add_root(**factory.values(model, without={"path", "depth", "numchild"}))
    return node


def _of_type(factory: Factory, model: Any) -> models.Model:
    """A row whose class is that of its type: a field may name another one, which would be imported."""
    row: models.Model = model(**factory.values(model, without={"proxy_class"}))
    row.save()
    return row


MAKERS: Makers = {
    "catalogue.category": _node,
    "offer.benefit": _of_type,
    "offer.condition": _of_type,
    "offer.range": _of_type,
}
