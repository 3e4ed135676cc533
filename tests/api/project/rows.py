"""The users and rows that the API answers with, always the same."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID

from django.contrib.auth.models import Group, User
from django.core.files.base import ContentFile
from rest_framework.authtoken.models import Token

from tests.api.project.models import Customer, Document, Event, Line, Order, Product, Setting, Ticket, document_storage

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
OWNERS = ["anna", "otto", "stella"]
PRODUCTS = [("hotplate-1", "Hotplate", 40), ("kettle", "Kettle", 25), ("mug", "Mug", 8), ("spoon", "Spoon", 2)]


def make_rows() -> SimpleNamespace:
    """Make the users, and for each owner three rows or more of each model.

    Of each owner ``anna_order`` is the first and ``anna_orders`` are all, and so for the other models.
    """
    rows = SimpleNamespace()
    for name in [*OWNERS, "ines"]:
        setattr(rows, name, User.objects.create_user(name, f"{name}@example.com", f"secret-of-{name}"))
    User.objects.filter(pk=rows.stella.pk).update(is_staff=True, is_superuser=True)
    User.objects.filter(pk=rows.ines.pk).update(is_active=False)
    rows.stella.refresh_from_db()
    rows.ines.refresh_from_db()
    rows.groups = [Group.objects.create(name=name) for name in ("buyers", "drivers", "sellers")]
    rows.group = rows.groups[0]
    rows.products = [Product.objects.create(slug=slug, name=name, price=price) for slug, name, price in PRODUCTS]
    rows.product = rows.products[0]
    rows.unused_product = Product.objects.create(slug="teapot", name="Teapot", price=30)
    for position, name in enumerate(OWNERS):
        _make_rows_of(rows, name, position)
    return rows


def _make_rows_of(rows: SimpleNamespace, name: str, position: int) -> None:
    owner = getattr(rows, name)
    Token.objects.create(user=owner, key=f"token-of-{name}")
    customers = [
        Customer.objects.create(owner=owner, name=f"Customer {number} of {name}", email=f"{name}-{number}@example.org")
        for number in (1, 2, 3)
    ]
    orders = [_make_order(owner, customers[number % 3], number, position) for number in range(1, 8)]
    made = {
        "customer": customers,
        "order": orders,
        "line": [_make_line(order, rows.products, place) for order in orders for place in (0, 1)],
        "ticket": [
            Ticket.objects.create(
                id=UUID(int=100 * (position + 1) + number),
                owner=owner,
                title=f"Ticket {number} of {name}",
                body="It does not work.",
                priority=number,
                closed=number == 3,
            )
            for number in (1, 2, 3)
        ],
        "document": [_make_document(owner, number) for number in (1, 2, 3)],
        "setting": [
            Setting.objects.create(owner=owner, name=key, value=f"{key} of {name}")
            for key in ("color", "language", "size")
        ],
        "event": Event.objects.bulk_create(_event(owner, number, position) for number in range(120)),
    }
    for model, values in made.items():
        setattr(rows, f"{name}_{model}s", values)
        setattr(rows, f"{name}_{model}", values[0])


def _make_order(owner: User, customer: Customer, number: int, position: int) -> Order:
    """The second order is paid, the third cancelled, and all others are open."""
    return Order.objects.create(
        owner=owner,
        customer=customer,
        number=f"{owner.username[0].upper()}-{number:03}",
        status={2: Order.Status.PAID, 3: Order.Status.CANCELLED}.get(number, Order.Status.OPEN),
        total=Decimal(number * 10) + Decimal("0.50"),
        note="by express" if number % 2 else "by bicycle",
        placed_at=START + timedelta(days=number, minutes=position),
        internal_note=f"Margin {number} %",
        api_key=f"key-{owner.username}-{number}",
    )


def _make_line(order: Order, products: list[Product], place: int) -> Line:
    product = products[(order.placed_at.day + place) % len(products)]
    return Line.objects.create(order=order, product=product, quantity=place + 1, amount=product.price * (place + 1))


def _make_document(owner: User, number: int) -> Document:
    file = f"documents/{owner.username}-{number}.txt"
    document_storage().save(file, ContentFile(f"Document {number} of {owner.username}\n".encode()))
    return Document.objects.create(owner=owner, title=f"Document {number}", file=file)


def _event(owner: User, number: int, position: int) -> Event:
    kind = list(Event.Kind)[number % 3]
    return Event(
        owner=owner,
        kind=kind,
        text=f"Message {number} of {owner.username}" if kind == Event.Kind.MESSAGE else "",
        amount=Decimal(number) if kind == Event.Kind.PAYMENT else None,
        created=START + timedelta(hours=number, minutes=position),
    )
