"""Relations to rows of any model."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType

from tests.bridge.resources.relations.conftest import Admin, read, refusal
from tests.shop.models import (
    Part,
    Remark,
    Unwatched,
)  # fmt: skip
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


@pytest.fixture
def remarks(shop: None, declared: Declared) -> None:
    """About a part that is seen by all, one that is hidden, what nobody shows, what is gone, and nothing."""
    Part.objects.filter(pk=2).update(open=False)
    declared.model(Remark, fields="__all__")
    kinds = [ContentType.objects.get_for_model(model) for model in (Part, Part, Unwatched, Part, Part)]
    unseen = Unwatched.objects.create(name="x")
    for number, (kind, key) in enumerate(zip(kinds, (1, 2, unseen.pk, 99, "x"), strict=True), 1):
        Remark.objects.create(id=number, text=f"remark {number}", kind=kind, key=str(key))
    Remark.objects.create(id=6, text="remark 6")


def test_a_row_of_any_model_is_read_as_its_uri(root: User, clerk: User, remarks: None) -> None:
    nothing = [[number, None] for number in range(3, 7)]

    assert read(Remark, root, "about") == [[1, "db://shop/part/1"], [2, "db://shop/part/2"], *nothing]
    assert read(Remark, clerk, "about") == [[1, "db://shop/part/1"], [2, None], *nothing]


def test_a_row_of_any_model_is_not_compared(root: User, remarks: None) -> None:
    for name in ("about", "about__name"):
        assert refusal(Remark, root, filter={name: "x"}).startswith("no field 'about'.")
        assert "no field to order by" in refusal(Remark, root, order_by=[name])


def test_a_row_of_any_model_in_the_admin(root: User, remarks: None, declared: Declared) -> None:
    class Own(Admin):
        list_display = ["text", "about"]

    declared.close()
    declared.admin(Remark, Own)
    declared.model(Part, fields=["name"])

    assert read(Remark, root, "about")[0] == [1, "db://shop/part/1"]
