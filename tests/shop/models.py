"""Models with unusual features. None has migrations: the test database makes their tables."""

import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.contrib.postgres import fields as postgres
from django.db import models

from mcp_django import WatchedManager, WatchedQuerySetMixin
from tests.shop import fields


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
    """A row whose key is that of its owner."""

    owner = models.OneToOneField(Person, models.CASCADE, primary_key=True)
    number = models.IntegerField()

    def __str__(self) -> str:
        return f"locker {self.number}"


class Document(models.Model):
    """A file and bytes, which are not shown in rows. The key is any text."""

    name = models.CharField(max_length=50, primary_key=True)
    upload = models.FileField(blank=True)
    scan = models.BinaryField(null=True)
    owner = models.ForeignKey(Person, models.CASCADE, null=True, related_name="documents")
    address = models.GenericIPAddressField(null=True)

    def __str__(self) -> str:
        return self.name


class Shelf(models.Model):
    """Fields that only PostgreSQL has, so that its table is made only there."""

    labels = postgres.ArrayField(models.CharField(max_length=10, null=True), null=True)
    counts = postgres.ArrayField(models.IntegerField(), default=list)
    prices = postgres.ArrayField(models.DecimalField(max_digits=6, decimal_places=2), default=list)
    days = postgres.ArrayField(models.DateField(), default=list)
    grid = postgres.ArrayField(postgres.ArrayField(models.BigIntegerField()), default=list)
    places = postgres.IntegerRangeField(null=True)
    serials = postgres.BigIntegerRangeField(null=True)
    weights = postgres.DecimalRangeField(null=True)
    open_days = postgres.DateRangeField(null=True)
    open_at = postgres.DateTimeRangeField(null=True)

    class Meta:
        required_db_vendor = "postgresql"

    def __str__(self) -> str:
        return f"shelf {self.pk}"


class Labelled(models.Model):
    """A field of an extension. The test that makes the extension makes the table too."""

    labels = postgres.HStoreField(null=True)

    class Meta:
        managed = False

    def __str__(self) -> str:
        return f"labelled {self.pk}"


class Supplier(models.Model):
    """Points to its own kind, by a key that may be null."""

    name = models.CharField(max_length=50)
    code = models.CharField(max_length=10, unique=True, null=True)
    rating = models.IntegerField(null=True)
    parent = models.ForeignKey("self", models.SET_NULL, to_field="code", null=True, related_name="branches")
    #: Decides who sees the row, and is never shown itself.
    open = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name


class Part(models.Model):
    """Leads to one row, to many rows, and to many by a model between."""

    name = models.CharField(max_length=50)
    weight = models.IntegerField(null=True)
    supplier = models.ForeignKey(Supplier, models.CASCADE, null=True, related_name="parts")
    makers = models.ManyToManyField(Supplier, through="Making", related_name="makes")
    tags = models.ManyToManyField(Tag, related_name="parts")
    remarks = GenericRelation("shop.Remark", "key", "kind")
    open = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name


class Making(models.Model):
    """A row between a part and its maker."""

    part = models.ForeignKey(Part, models.CASCADE, related_name="makings")
    maker = models.ForeignKey(Supplier, models.CASCADE, related_name="makings")
    open = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"making {self.pk}"


class Warranty(models.Model):
    """One of a part at most, with a secret."""

    part = models.OneToOneField(Part, models.CASCADE, related_name="warranty")
    months = models.IntegerField()
    pin = models.CharField(max_length=4, default="1234")

    def __str__(self) -> str:
        return f"warranty {self.pk}"


class Remark(models.Model):
    """Is about a row of any model."""

    text = models.CharField(max_length=50)
    # The table is made before the one that it points to.
    kind = models.ForeignKey(ContentType, models.CASCADE, null=True, db_constraint=False)
    key = models.CharField(max_length=50, blank=True)
    about = GenericForeignKey("kind", "key")

    def __str__(self) -> str:
        return self.text


class Stamp(models.Model):
    """Is about a row of any model that has a number for its key, and tells proxies apart."""

    kind = models.ForeignKey(ContentType, models.CASCADE, db_constraint=False)
    number = models.PositiveIntegerField()
    about = GenericForeignKey("kind", "number", for_concrete_model=False)
    remark = models.ForeignKey(Remark, models.CASCADE, null=True)

    def __str__(self) -> str:
        return f"stamp {self.pk}"


class Crate(models.Model):
    """Has a UUID for its key, and what is about it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    remarks = GenericRelation(Remark, "key", "kind")
    stamps = GenericRelation(Stamp, "number", "kind")

    def __str__(self) -> str:
        return str(self.pk)


class Aisle(models.Model):
    """Has text for its key, and what is about it."""

    name = models.CharField(max_length=50, primary_key=True)
    remarks = GenericRelation(Remark, "key", "kind")

    def __str__(self) -> str:
        return self.name


class Pallet(models.Model):
    """Has two relations to what is about it: to remarks on any of its rows, and to stamps on no proxy of it."""

    name = models.CharField(max_length=50)
    remarks = GenericRelation(Remark, "key", "kind")
    stamps = GenericRelation(Stamp, "number", "kind", for_concrete_model=False)

    def __str__(self) -> str:
        return self.name


class SparePallet(Pallet):
    """A proxy."""

    class Meta:
        proxy = True


class Maß(models.Model):  # noqa: PLC2401
    """Its names go beyond ASCII, as any identifier of Python may."""

    größe = models.CharField(max_length=50, primary_key=True)  # noqa: PLC2401
    höhe = models.IntegerField(default=0)  # noqa: PLC2401
    übergröße = models.ForeignKey("self", models.CASCADE, null=True, related_name="untergrößen")  # noqa: PLC2401
    zeichnung_ä = models.BinaryField(null=True)  # noqa: PLC2401

    def __str__(self) -> str:
        return self.größe


class Gadget(models.Model):
    """A model whose default manager reports bulk operations."""

    name = models.CharField(max_length=50)
    code = models.CharField(max_length=10, unique=True, null=True)
    count = models.IntegerField(default=0)
    person = models.ForeignKey(Person, models.SET_NULL, null=True, related_name="gadgets")
    tags = models.ManyToManyField(Tag)

    objects = WatchedManager()

    def __str__(self) -> str:
        return self.name


class Gizmo(Gadget):
    """A child by multi-table inheritance, with the manager of its parent."""

    size = models.IntegerField(default=0)


class SpareGadget(Gadget):
    """A proxy."""

    class Meta:
        proxy = True


class WareQuerySet(WatchedQuerySetMixin, models.QuerySet["Ware"]):
    """A queryset of the project's own."""

    def cheap(self) -> "WareQuerySet":
        return self.filter(price__lt=10)


class Ware(models.Model):
    """Its key is text, and Django itself writes by its manager."""

    name = models.CharField(max_length=50, primary_key=True)
    price = models.IntegerField(default=0)
    gadget = models.ForeignKey(Gadget, models.SET_NULL, null=True, related_name="wares")

    objects = WareQuerySet.as_manager()

    class Meta:
        base_manager_name = "objects"

    def __str__(self) -> str:
        return self.name


class Parcel(models.Model):
    """Fields of other classes than Django's own."""

    code = fields.CodeField(default="P")
    seal = fields.SealedField(max_length=50, default="wax")
    card = fields.MaskedField(max_length=50, default="4711")
    size = fields.SizeField(max_length=50, default="1")
    stamp = fields.SealedBytesField(null=True, editable=True)
    price_currency = fields.CurrencyField(max_length=3, default="EUR", editable=False)
    price = fields.MoneyField(max_digits=10, decimal_places=2, null=True)
    owner = fields.OwnerKey(Person, models.CASCADE, null=True, related_name="parcels")

    def __str__(self) -> str:
        return self.code


class Trip(models.Model):
    """Two dates and two durations, which have a difference."""

    starts = models.DateField()
    ends = models.DateField(null=True)
    planned = models.DurationField()
    took = models.DurationField()

    def __str__(self) -> str:
        return f"from {self.starts}"


#: Names of lookups, transforms and parts of dates, and the words of filters, tools and URIs.
WORDS = (
    "exact", "iexact", "contains", "icontains", "startswith", "istartswith", "endswith", "iendswith", "in",
    "isnull", "range", "regex", "iregex", "gt", "gte", "lt", "lte", "year", "iso_year", "quarter", "month",
    "week", "week_day", "iso_week_day", "day", "date", "time", "hour", "minute", "second", "len", "trunc",
    "search", "count", "any", "all", "not", "field", "fields", "filter", "total", "limit", "cursor",
    "order_by", "group_by", "measures", "having", "conditions", "model",
)  # fmt: skip


class Worded(models.Model):
    """A number for each of the words, as a field of that name."""

    class Meta:
        abstract = True


for _word in WORDS:
    models.IntegerField(null=True).contribute_to_class(Worded, _word)


class Rule(Worded):
    def __str__(self) -> str:
        return f"rule {self.pk}"


class Ruling(Worded):
    rule = models.ForeignKey(Rule, models.CASCADE, null=True, related_name="rulings")

    def __str__(self) -> str:
        return f"ruling {self.pk}"


class Footnote(Worded):
    """A row whose key is that of another row."""

    rule = models.OneToOneField(Rule, models.CASCADE, primary_key=True, related_name="footnote")

    def __str__(self) -> str:
        return f"note on {self.rule_id}"


class SpecialRule(Rule):
    """A child by multi-table inheritance."""


class Moment(models.Model):
    """A moment in a field that has the name of a part of it."""

    hour = models.DateTimeField(unique=True)

    def __str__(self) -> str:
        return str(self.hour)


class Bell(models.Model):
    moment = models.ForeignKey(Moment, models.CASCADE, to_field="hour", null=True)

    def __str__(self) -> str:
        return f"bell {self.pk}"


class Oddity(models.Model):
    """A field of each kind that rows may be ordered by, in which other programs have stored what they like."""

    number = models.IntegerField(null=True)
    amount = models.DecimalField(max_digits=10, decimal_places=2, null=True)
    ratio = models.FloatField(null=True)
    day = models.DateField(null=True)
    moment = models.DateTimeField(null=True)
    clock = models.TimeField(null=True)
    span = models.DurationField(null=True)
    flag = models.BooleanField(null=True)
    uid = models.UUIDField(null=True)
    word = models.CharField(max_length=50, null=True)
    address = models.GenericIPAddressField(null=True)
    opened = models.DateField(default="2013-01-01")

    def __str__(self) -> str:
        return f"odd {self.pk}"


class Keepsake(models.Model):
    """Fields whose widgets or classes lose a part of what is stored, or store other bytes for the same value."""

    name = models.CharField(max_length=50)
    word = models.CharField(max_length=50, blank=True)
    words = models.TextField(blank=True)
    number = models.BigIntegerField(null=True, blank=True)
    amount = models.DecimalField(max_digits=30, decimal_places=10, null=True, blank=True)
    ratio = models.FloatField(null=True, blank=True)
    flag = models.BooleanField(null=True)
    moment = models.DateTimeField(null=True, blank=True)
    clock = models.TimeField(null=True, blank=True)
    span = models.DurationField(null=True, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    data = models.JSONField(null=True, blank=True)
    day = models.DateField(null=True, blank=True)
    uid = models.UUIDField(null=True, blank=True)
    slug = models.SlugField(blank=True)
    mail = models.EmailField(blank=True)
    count = models.PositiveSmallIntegerField(null=True, blank=True)
    file = models.FileField(blank=True)
    noisy = fields.NoisyField(max_length=50, null=True, blank=True)
    box = fields.BoxField(max_length=50, null=True, blank=True)
    nickname = fields.NullCharField(max_length=50, null=True, blank=True, unique=True)
    scan = models.BinaryField(null=True)
    editable_scan = models.BinaryField(null=True, blank=True, editable=True)
    owner = models.ForeignKey(Supplier, models.CASCADE, to_field="code", null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Repeated(models.Model):
    """A view of the database, whose key is not unique. The test that reads it makes it."""

    code = models.IntegerField(primary_key=True)
    name = models.CharField(max_length=50)

    class Meta:
        managed = False

    def __str__(self) -> str:
        return self.name


class Pick(models.Model):
    """A field with choices of each kind, and relations that have no name on the other side."""

    size = models.IntegerField(choices=[(1, "small"), (2, "large")], null=True, blank=True)
    ratio = models.FloatField(choices=[(0.5, "half"), (1.0, "whole")], null=True, blank=True)
    price = models.DecimalField(
        max_digits=6, decimal_places=2, choices=[(Decimal("1.50"), "low"), (Decimal(20), "high")], null=True, blank=True
    )
    is_sold = models.BooleanField(choices=[(True, "sold"), (False, "there"), (None, "unknown")], null=True, blank=True)
    colour = models.CharField(max_length=9, choices=[("Warm", [("red", "Red")]), ("Cold", [("b", "Blue")])], blank=True)
    number = models.CharField(max_length=9, choices=[("01", "one"), ("2", "two")], blank=True)
    day = models.DateField(choices=[(date(2024, 1, 31), "the last")], null=True, blank=True)
    moment = models.DateTimeField(choices=[(datetime(2024, 1, 31, 8, 30, tzinfo=UTC), "then")], null=True, blank=True)
    clock = models.TimeField(choices=[(time(8, 30), "early")], null=True, blank=True)
    span = models.DurationField(choices=[(timedelta(days=1, hours=2), "a day")], null=True, blank=True)
    uid = models.UUIDField(choices=[(uuid.UUID(int=7), "seven")], null=True, blank=True)
    data = models.JSONField(choices=[(7, "number"), (1.5, "ratio"), ("x", "text")], null=True, blank=True)
    supplier = models.ForeignKey(Supplier, models.SET_NULL, null=True, blank=True, related_name="+")
    tags = models.ManyToManyField(Tag, related_name="+", blank=True)
    near = models.ManyToManyField("self", blank=True)

    def __str__(self) -> str:
        return f"pick {self.pk}"


class Shift(models.Model):
    """A row of an inline that points to a user, whose table is made after this one."""

    product = models.ForeignKey(Product, models.CASCADE, related_name="shifts")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False)
    hours = models.IntegerField(default=0)
    note = models.CharField(max_length=50, blank=True)

    def __str__(self) -> str:
        return f"shift {self.pk}"
