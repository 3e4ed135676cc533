"""What the comparison of the API needs to know of this project."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from oscar.core.loading import get_model

from tests.projects.apis.rows import ApiFactory
from tests.projects.oscar_api.makers import MAKERS

PREFIX = "api/"
#: Values of variables of paths, by their names.
PATH: dict[str, Any] = {}
#: A picture that is sent is stored under a new name.
VOLATILE = ("last_login", "image")
#: The API has no pages, so that a list must be longer than ours are.
_PRODUCTS = 120
_NAMES = ["root", "clerk", "plain"]


def fill() -> None:
    """Make rows of each model, and the callers, who have a basket each."""
    users = get_user_model()._default_manager
    root = users.create_superuser("root", "root@example.com", "x")
    clerk = users.create_user("clerk", "clerk@example.com", "x", is_staff=True)
    plain = users.create_user("plain", "plain@example.com", "x")
    factory = ApiFactory(MAKERS)
    for model in apps.get_models():
        if model._meta.app_label not in ("mcp_django", "sessions", "contenttypes", "auth", "admin"):
            for row in factory.rows_of(model):
                factory.relate(row)
    get_model("offer", "Range").classes.through.objects.all().delete()
    _fill_baskets([root, clerk, plain])
    product = get_model("catalogue", "Product")
    kind = product.objects.exclude(product_class=None).first().product_class
    product.objects.bulk_create(
        product(title=f"Product {number}", slug=f"product-{number}", product_class=kind) for number in range(_PRODUCTS)
    )
    # A clerk of every second model.
    labels = sorted(model._meta.model_name for model in apps.get_models() if model._meta.app_label != "auth")[::2]
    clerk.user_permissions.set(Permission.objects.filter(content_type__model__in=labels))


def _fill_baskets(users: list[Any]) -> None:
    """Give each a basket with a line, an address, an order and what else belongs to a user."""
    basket, line = get_model("basket", "Basket"), get_model("basket", "Line")
    attribute = get_model("basket", "LineAttribute")
    like = line.objects.first()
    option = get_model("catalogue", "Option").objects.first()
    for user in users:
        own = basket.objects.create(owner=user, status="Open")
        made = line.objects.create(
            basket=own, line_reference=f"of-{user.pk}", product=like.product, stockrecord=like.stockrecord,
            price_currency="EUR", price_excl_tax=1, price_incl_tax=1,
        )  # fmt: skip
        attribute.objects.create(line=made, option=option, value="x")
    # Of the rows that were made, the first of each kind is the superuser's.
    for model in (get_model("address", "UserAddress"), get_model("order", "Order")):
        first = model.objects.order_by("pk").first()
        if first is not None:
            model.objects.filter(pk=first.pk).update(user=users[0])


def people() -> dict[str, Any]:
    """The callers by their names; empty before the rows are made."""
    users = {one.username: one for one in get_user_model()._default_manager.filter(username__in=_NAMES)}
    return {**{name: users[name] for name in _NAMES}, "anonymous": None} if users else {}
