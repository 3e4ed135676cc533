"""Rows of the models of oscar: as those of the project without the API, but for what the API cannot link."""

from __future__ import annotations

from typing import Any

from django.core.files.base import ContentFile
from django.db import models

from tests.projects.oscar.makers import MAKERS as OF_OSCAR
from tests.projects.rows import Factory, Makers

#: A picture of one pixel.
_GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
#: Codes of countries, which paths have as two letters.
_CODES = iter(["NL", "DE", "FR", "BE", "DK"])


def _category(factory: Factory, model: Any) -> models.Model:
    values = factory.values(model, without={"path", "depth", "numchild", "image"})
    node: models.Model = model.add_root(**values, image=ContentFile(_GIF, "one.gif"))
    return node


def _image(factory: Factory, model: Any) -> models.Model:
    values = factory.values(model, without={"original"})
    row: models.Model = model.objects.create(**values, original=ContentFile(_GIF, "one.gif"))
    return row


def _country(factory: Factory, model: Any) -> models.Model:
    values = factory.values(model, without={"iso_3166_1_a2"})
    row: models.Model = model.objects.create(**values, iso_3166_1_a2=next(_CODES))
    return row


def _option(factory: Factory, model: Any) -> models.Model:
    """An option without a group, which the API has no URL for but for staff."""
    row: models.Model = model.objects.create(**factory.values(model, without={"option_group"}))
    return row


MAKERS: Makers = {
    **OF_OSCAR,
    "address.country": _country,
    "catalogue.category": _category,
    "catalogue.option": _option,
    "catalogue.productimage": _image,
}
