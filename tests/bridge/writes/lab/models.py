"""Models for each kind of ModelAdmin that the lab tries. No AdminSite but that of a test has them."""

import uuid

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone


class Named(models.Model):
    name = models.CharField(max_length=50)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


# Widgets.


class Meeting(Named):
    """Filled in by widgets of several inputs, and by some of the project's own."""

    begins = models.DateTimeField(null=True, blank=True)
    day = models.DateField(null=True, blank=True)
    agreed = models.BooleanField(null=True, blank=True)
    #: Two words with a dash between.
    room = models.CharField(max_length=50, blank=True)
    colour = models.CharField(max_length=20, blank=True)
    tags = models.CharField(max_length=100, blank=True)
    noted = models.DateTimeField(default=timezone.now)


# Files.


class Attachment(Named):
    paper = models.FileField(upload_to="papers", max_length=100)
    scan = models.FileField(upload_to="scans", blank=True, max_length=100)


# Inlines.


class Order(Named):
    total = models.IntegerField(default=0)
    changed_by = models.CharField(max_length=50, blank=True)


class Line(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    what = models.CharField(max_length=50)
    count = models.IntegerField(default=1)
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("position", "pk")

    def __str__(self) -> str:
        return self.what


class Note(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name="notes")
    text = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.text


class Remark(models.Model):
    """Belongs to a row of any model."""

    # Its table is made before that of content types, which has migrations.
    kind = models.ForeignKey(ContentType, models.CASCADE, db_constraint=False, related_name="+")
    key = models.PositiveBigIntegerField()
    about = GenericForeignKey("kind", "key")
    text = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.text


class Album(Named):
    remarks = GenericRelation(Remark, "key", "kind")


# Fields, rows and choices that depend on the object and on the user.


class Article(Named):
    status = models.CharField(max_length=10, choices=[("draft", "Draft"), ("out", "Out")], default="draft")
    text = models.CharField(max_length=100, blank=True)
    summary = models.CharField(max_length=100, blank=True)
    reviewer = models.CharField(max_length=50, blank=True)


class Ledger(Named):
    """Cannot be changed once it is closed."""

    closed = models.BooleanField(default=False)
    amount = models.DecimalField(max_digits=12, decimal_places=2, default=0)


class Team(Named):
    pass


class Desk(Named):
    """Belongs to a team that the user is offered."""

    team = models.ForeignKey(Team, models.CASCADE, null=True, blank=True, related_name="desks")


# Links to many rows.


class Topic(Named):
    pass


class Writer(Named):
    pass


class Story(Named):
    topics = models.ManyToManyField(Topic, blank=True, related_name="stories")
    writers = models.ManyToManyField(
        Writer, through="Credit", through_fields=("story", "writer"), blank=True, related_name="stories"
    )
    editor = models.ForeignKey(Writer, models.SET_NULL, null=True, blank=True, related_name="edited")
    follows = models.ManyToManyField("self", symmetrical=True, blank=True)


class Credit(models.Model):
    """Between a story and its writer, with a default for what the page does not ask."""

    story = models.ForeignKey(Story, models.CASCADE, related_name="credits")
    writer = models.ForeignKey(Writer, models.CASCADE, related_name="credits")
    role = models.CharField(max_length=20, default="writer")

    def __str__(self) -> str:
        return self.role


class Shelf(Named):
    """Linked by Django's own table, but with a model of it in the project."""

    books = models.ManyToManyField("Book", through="Place", blank=True, related_name="shelves")


class Book(Named):
    pass


class Place(models.Model):
    shelf = models.ForeignKey(Shelf, models.CASCADE)
    book = models.ForeignKey(Book, models.CASCADE)
    number = models.IntegerField(default=7)

    def __str__(self) -> str:
        return f"place {self.number}"


# Forms.


class Post(Named):
    slug = models.SlugField(blank=True)
    words = models.IntegerField(default=0)
    text = models.CharField(max_length=200, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, editable=False, db_constraint=False
    )
    made = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)


class Ticket(models.Model):
    code = models.CharField(max_length=20, unique=True)
    row = models.IntegerField(default=1)
    seat = models.IntegerField(default=1)
    since = models.IntegerField(default=1)
    until = models.IntegerField(default=9)
    owner = models.CharField(max_length=20, blank=True, null=True)

    class Meta:
        unique_together = [("row", "seat")]
        constraints = [
            models.CheckConstraint(condition=models.Q(since__lte=models.F("until")), name="lab_ticket_since"),
            models.UniqueConstraint(
                fields=["owner", "since"], name="lab_ticket_owner", violation_error_message="Twice."
            ),
        ]

    def __str__(self) -> str:
        return self.code


# Classes of models and keys.


class Vehicle(Named):
    wheels = models.IntegerField(default=4)


class Lorry(Vehicle):
    """A child by multi-table inheritance."""

    load = models.IntegerField(default=0)


class Bicycle(Vehicle):
    """A proxy."""

    class Meta:
        proxy = True


class Parcel(Named):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)


class Drawer(models.Model):
    """Its key is a text of any characters, which a person fills in."""

    code = models.CharField(max_length=50, primary_key=True)
    content = models.CharField(max_length=50, blank=True)

    def __str__(self) -> str:
        return self.code


class Sticker(models.Model):
    """In an inline of a drawer, whose key is text."""

    drawer = models.ForeignKey(Drawer, models.CASCADE, related_name="stickers")
    label = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.label


# Values that the database makes.


class Invoice(Named):
    count = models.IntegerField(default=1)
    price = models.IntegerField(default=0)
    state = models.CharField(max_length=10, blank=True, db_default="new")
    made = models.DateTimeField(db_default=Now(), editable=False)
    total = models.GeneratedField(
        expression=models.F("count") * models.F("price"), output_field=models.IntegerField(), db_persist=True
    )
