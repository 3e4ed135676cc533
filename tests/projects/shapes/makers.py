"""Rows of models that ask for more than their fields."""

from __future__ import annotations

from typing import Any

from tests.projects.rows import Factory, Makers
from tests.projects.shapes.releases.models import Member


def _active(factory: Factory, model: Any) -> Member:
    """The list shows no others unless it is asked for them."""
    return Member.objects.create(**{**factory.values(Member), "inactive": False})


MAKERS: Makers = {"releases.member": _active}
