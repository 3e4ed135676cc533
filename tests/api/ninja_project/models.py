"""A workshop: items on shelves, and orders of them.

None has migrations: the test database makes their tables, before those of users, to which there is therefore no
constraint. Nothing is set from the clock, and what is set at random is not shown, so that equal calls answer the same.
"""

import uuid

from django.conf import settings
from django.db import models


class Shelf(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="shelves")
    name = models.CharField(max_length=50)
    colour = models.CharField(max_length=10, choices=[("red", "Red"), ("blue", "Blue")], default="red")
    width = models.PositiveIntegerField(default=80)

    def __str__(self) -> str:
        return self.name


class Item(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="items")
    shelf = models.ForeignKey(Shelf, models.SET_NULL, null=True, blank=True, related_name="items")
    name = models.CharField(max_length=80)
    slug = models.SlugField(unique=True)
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    stock = models.PositiveIntegerField(default=0)
    done = models.BooleanField(default=False)
    due = models.DateField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """An order, with an address of its own and lines that are rows of their own."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="orders")
    number = models.UUIDField(unique=True)
    customer = models.CharField(max_length=80)
    street = models.CharField(max_length=80)
    city = models.CharField(max_length=80)

    def __str__(self) -> str:
        return self.customer


class OrderLine(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    text = models.CharField(max_length=80)
    amount = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.amount} x {self.text}"


class Attachment(models.Model):
    """What is known of a file that was uploaded: the file itself is not kept."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="attachments")
    title = models.CharField(max_length=80)
    file_name = models.CharField(max_length=80)
    size = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.title
