"""Models with what goes wrong elsewhere. None has migrations: the test database makes their tables."""

import uuid

from django.db import models


class Tag(models.Model):
    """A key that is any text: dots, slashes, spaces."""

    name = models.CharField(max_length=50, primary_key=True)

    def __str__(self) -> str:
        return self.name


class Product(models.Model):
    """Every kind of field, some of them secret."""

    name = models.CharField(max_length=50)
    sku = models.UUIDField(default=uuid.uuid4)
    price = models.DecimalField(max_digits=20, decimal_places=2, null=True)
    weight = models.FloatField(null=True)
    stock = models.BigIntegerField(default=0)
    launched = models.DateField(null=True)
    opens = models.TimeField(null=True)
    lead_time = models.DurationField(null=True)
    active = models.BooleanField(default=True)
    details = models.JSONField(default=dict)
    manual = models.FileField(blank=True)
    blob = models.BinaryField(default=b"")
    api_key = models.CharField(max_length=50, default="sk-secret")
    tags = models.ManyToManyField(Tag, blank=True)

    def __str__(self) -> str:
        return self.name


class Book(Product):
    """A child by multi-table inheritance."""

    author = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.name


class CheapProduct(Product):
    """A proxy."""

    class Meta:
        proxy = True


class Apikey(models.Model):
    """The key of the row is the secret itself."""

    token = models.CharField(max_length=40, primary_key=True)

    def __str__(self) -> str:
        return "a key"


class Unwatched(models.Model):
    """Exposed to nobody: its deletes must stay fast."""

    name = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.name


class Person(models.Model):
    """Has a second key, which people do not show."""

    name = models.CharField(max_length=50)
    badge = models.CharField(max_length=20, unique=True)

    def __str__(self) -> str:
        return self.name


class Visit(models.Model):
    """Points to a person by the key that is not shown."""

    person = models.ForeignKey(Person, models.CASCADE, to_field="badge", related_name="visits")

    def __str__(self) -> str:
        return f"visit {self.pk}"


class Locker(models.Model):
    """Its key is that of its owner."""

    owner = models.OneToOneField(Person, models.CASCADE, primary_key=True)
    number = models.IntegerField()

    def __str__(self) -> str:
        return f"locker {self.number}"
