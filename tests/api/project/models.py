"""Customers, orders and what belongs to them, each with an owner.

Keys to users have no constraint, because tables without migrations are made before that of the users.
"""

import uuid

from django.contrib.auth.models import User
from django.core.files.storage import FileSystemStorage
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone


def document_storage() -> FileSystemStorage:
    """A storage in which a file of the same name is replaced, so that names are always the same."""
    return FileSystemStorage(allow_overwrite=True)


class Customer(models.Model):
    """Somebody who buys from an owner."""

    owner = models.ForeignKey(User, models.CASCADE, related_name="api_customers", db_constraint=False)
    name = models.CharField(max_length=80)
    email = models.EmailField()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class Product(models.Model):
    """Something that is sold, known by its slug."""

    slug = models.SlugField(primary_key=True)
    name = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=8, decimal_places=2, validators=[MinValueValidator(0)])

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """What a customer has ordered."""

    class Status(models.TextChoices):
        OPEN = "open"
        PAID = "paid"
        CANCELLED = "cancelled"

    owner = models.ForeignKey(User, models.CASCADE, related_name="api_orders", db_constraint=False)
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="orders")
    number = models.CharField(max_length=20, unique=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    total = models.DecimalField(max_digits=10, decimal_places=2, default=0, validators=[MinValueValidator(0)])
    note = models.CharField(max_length=200, blank=True)
    placed_at = models.DateTimeField(default=timezone.now)
    internal_note = models.CharField(max_length=200, blank=True)
    api_key = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return self.number


class Line(models.Model):
    """A product of an order."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.PROTECT, related_name="lines")
    quantity = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(1000)])
    amount = models.DecimalField(max_digits=12, decimal_places=2)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.quantity} of {self.product_id}"


class Ticket(models.Model):
    """A question to the support."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, models.CASCADE, related_name="api_tickets", db_constraint=False)
    title = models.CharField(max_length=80)
    body = models.TextField(blank=True)
    priority = models.IntegerField(default=3, validators=[MinValueValidator(1), MaxValueValidator(5)])
    closed = models.BooleanField(default=False)

    class Meta:
        ordering = ["priority", "title"]

    def __str__(self) -> str:
        return self.title


class Document(models.Model):
    """A file of an owner."""

    owner = models.ForeignKey(User, models.CASCADE, related_name="api_documents", db_constraint=False)
    title = models.CharField(max_length=80)
    file = models.FileField(upload_to="documents/", storage=document_storage)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.title


class Setting(models.Model):
    """A personal setting, once for each owner and name."""

    owner = models.ForeignKey(User, models.CASCADE, related_name="api_settings", db_constraint=False)
    name = models.CharField(max_length=40)
    value = models.CharField(max_length=80)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="api_project_one_setting")]

    def __str__(self) -> str:
        return self.name


class Event(models.Model):
    """Something that has happened."""

    class Kind(models.TextChoices):
        LOGIN = "login"
        PAYMENT = "payment"
        MESSAGE = "message"

    owner = models.ForeignKey(User, models.CASCADE, related_name="api_events", db_constraint=False)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.MESSAGE)
    text = models.CharField(max_length=80, blank=True)
    amount = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["created", "pk"]

    def __str__(self) -> str:
        return self.text or self.kind
