"""A library, each of whose models uses a package as the documentation of the package shows it."""

from __future__ import annotations

from typing import Any

from django.db import models
from mptt.models import MPTTModel, TreeForeignKey
from parler.models import TranslatableModel, TranslatedFields
from polymorphic.models import PolymorphicModel
from simple_history.models import HistoricalRecords
from taggit.managers import TaggableManager
from treebeard.mp_tree import MP_Node
from wagtail.fields import RichTextField
from wagtail.models import Page


class Named(models.Model):
    name = models.CharField(max_length=60)
    note = models.TextField(blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Poll(Named):
    """With django-simple-history."""

    opened = models.DateField(null=True)
    history = HistoricalRecords()


class Genre(MPTTModel):
    """With django-mptt."""

    name = models.CharField(max_length=50, unique=True)
    parent = TreeForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")

    def __str__(self) -> str:
        return self.name


class Place(MPTTModel):
    """With django-mptt, and its draggable admin."""

    name = models.CharField(max_length=50)
    parent = TreeForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")

    class MPTTMeta:
        order_insertion_by = ("name",)

    def __str__(self) -> str:
        return self.name


class Title(TranslatableModel):
    """With django-parler."""

    number = models.IntegerField()
    translations = TranslatedFields(title=models.CharField(max_length=200), summary=models.TextField(blank=True))

    def __str__(self) -> str:
        return str(self.safe_translation_getter("title", any_language=True))


class Project(PolymorphicModel):
    """With django-polymorphic."""

    topic = models.CharField(max_length=30)

    def __str__(self) -> str:
        return self.topic


class ArtProject(Project):
    artist = models.CharField(max_length=30)


class ResearchProject(Project):
    supervisor = models.CharField(max_length=30)


class Author(Named):
    """With django-import-export."""

    birthday = models.DateField(null=True, blank=True)


class Book(Named):
    """With django-import-export."""

    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=10, decimal_places=2, null=True, blank=True)


class Article(Named):
    """With django-reversion."""

    author = models.ForeignKey(Author, models.CASCADE)


class Task(Named):
    """With django-guardian."""

    owner = models.ForeignKey("auth.User", models.CASCADE)


class Section(MP_Node):
    """With django-treebeard."""

    name = models.CharField(max_length=30)
    node_order_by = ("name",)

    def __str__(self) -> str:
        return self.name


class Lamp(Named):
    """With django-unfold."""

    watts = models.IntegerField()


class Bulb(Named):
    lamp = models.ForeignKey(Lamp, models.CASCADE)


class Food(Named):
    """With django-taggit."""

    tags: Any = TaggableManager()


class BlogPage(Page):
    """With wagtail, whose own admin edits it."""

    intro = models.CharField(max_length=250)
    body = RichTextField(blank=True)
