"""The rows of the workshop, the same each time but for their numbers."""

from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID

from django.contrib.auth.models import User

from tests.api.ninja_project.models import Item, Order, Shelf


def make_rows() -> SimpleNamespace:
    """Three users, and what belongs to them: most is of anna, some of otto, and one item of stella."""
    anna = User.objects.create_user("anna", "anna@example.com", "anna")
    otto = User.objects.create_user("otto", "otto@example.com", "otto")
    stella = User.objects.create_superuser("stella", "stella@example.com", "stella")

    anna_shelf = Shelf.objects.create(owner=anna, name="By the door", colour="red", width=80)
    anna_empty_shelf = Shelf.objects.create(owner=anna, name="In the corner", colour="blue", width=60)
    otto_shelf = Shelf.objects.create(owner=otto, name="By the window", colour="blue", width=120)

    anna_item = Item.objects.create(
        owner=anna,
        shelf=anna_shelf,
        name="Hammer",
        slug="hammer",
        key=UUID(int=1),
        price=Decimal("12.50"),
        stock=3,
        due=date(2025, 3, 1),
        checked_at=datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    anna_done_item = Item.objects.create(
        owner=anna, name="Saw", slug="saw", key=UUID(int=2), price=Decimal("30.00"), stock=1, done=True
    )
    anna_late_item = Item.objects.create(
        owner=anna,
        shelf=anna_shelf,
        name="Drill",
        slug="power-drill",
        key=UUID(int=3),
        price=Decimal("99.99"),
        due=date(2025, 12, 24),
    )
    otto_item = Item.objects.create(
        owner=otto, shelf=otto_shelf, name="Plane", slug="plane", key=UUID(int=4), price=Decimal("45.00"), stock=7
    )
    stella_item = Item.objects.create(owner=stella, name="Äxte & Co", slug="axes", key=UUID(int=5), stock=2)

    anna_order = Order.objects.create(
        owner=anna, number=UUID(int=11), customer="Mill Ltd", street="Mill Lane 1", city="Ulm"
    )
    anna_order.lines.create(text="Handles", amount=4)
    anna_order.lines.create(text="Screws", amount=500)
    otto_order = Order.objects.create(
        owner=otto, number=UUID(int=12), customer="Forge & Sons", street="Forge Road 2", city="Bonn"
    )
    otto_order.lines.create(text="Anvil", amount=1)

    return SimpleNamespace(
        anna=anna,
        otto=otto,
        stella=stella,
        anna_shelf=anna_shelf,
        anna_empty_shelf=anna_empty_shelf,
        otto_shelf=otto_shelf,
        anna_item=anna_item,
        anna_done_item=anna_done_item,
        anna_late_item=anna_late_item,
        otto_item=otto_item,
        stella_item=stella_item,
        anna_order=anna_order,
        otto_order=otto_order,
    )
