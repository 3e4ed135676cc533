"""A studio, each of whose models uses a package as the documentation of the package shows it."""

from __future__ import annotations

from colorfield.fields import ColorField
from django.db import models
from django_ckeditor_5.fields import CKEditor5Field
from django_countries.fields import CountryField
from djmoney.models.fields import MoneyField
from markupfield.fields import MarkupField
from model_utils.fields import SplitField
from mptt.models import MPTTModel, TreeForeignKey
from multiselectfield import MultiSelectField
from parler.models import TranslatableModel, TranslatedFields
from phonenumber_field.modelfields import PhoneNumberField
from polymorphic.models import PolymorphicModel
from simple_history.models import HistoricalRecords
from timezone_field import TimeZoneField
from treebeard.mp_tree import MP_Node


class Named(models.Model):
    name = models.CharField(max_length=60)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Contract(Named):
    """With django-reversion, and its clauses with it."""

    amount = models.IntegerField(default=0)
    files = models.ManyToManyField("Folder", blank=True)


class Folder(Named):
    pass


class Clause(models.Model):
    contract = models.ForeignKey(Contract, models.CASCADE, related_name="clauses")
    text = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.text


class Poll(Named):
    """With django-simple-history."""

    opened = models.DateField(null=True, blank=True)
    history = HistoricalRecords()


class Choice(models.Model):
    poll = models.ForeignKey(Poll, models.CASCADE, related_name="choices")
    text = models.CharField(max_length=50)
    history = HistoricalRecords()

    def __str__(self) -> str:
        return self.text


class Track(Named):
    """With django-import-export."""

    seconds = models.IntegerField(default=0)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)


class Task(Named):
    """With django-guardian."""

    owner = models.ForeignKey("auth.User", models.CASCADE, null=True, blank=True)


class Genre(MPTTModel):
    """With django-mptt."""

    name = models.CharField(max_length=50, unique=True)
    parent = TreeForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")

    class MPTTMeta:
        order_insertion_by = ("name",)

    def __str__(self) -> str:
        return self.name


class Place(MPTTModel):
    """With django-mptt, and its draggable admin."""

    name = models.CharField(max_length=50)
    parent = TreeForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")

    def __str__(self) -> str:
        return self.name


class Section(MP_Node):
    """With django-treebeard."""

    name = models.CharField(max_length=30)
    node_order_by = ("name",)

    def __str__(self) -> str:
        return self.name


class Step(MP_Node):
    """With django-treebeard, in an order that people choose."""

    name = models.CharField(max_length=30)

    def __str__(self) -> str:
        return self.name


class Title(TranslatableModel):
    """With django-parler."""

    number = models.IntegerField(default=0)
    translations = TranslatedFields(
        title=models.CharField(max_length=200), summary=models.CharField(max_length=200, blank=True)
    )

    def __str__(self) -> str:
        return str(self.safe_translation_getter("title", any_language=True))


class Show(Named):
    """With django-nested-admin: scenes, and takes of each scene."""


class Scene(Named):
    show = models.ForeignKey(Show, models.CASCADE, related_name="scenes")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("position",)


class Take(models.Model):
    scene = models.ForeignKey(Scene, models.CASCADE, related_name="takes")
    note = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.note


class Prop(PolymorphicModel):
    """With django-polymorphic."""

    name = models.CharField(max_length=60)

    def __str__(self) -> str:
        return str(self.name)


class Lamp(Prop):
    watts = models.IntegerField(default=0)


class Wardrobe(Named):
    """Fields of packages that have widgets and values of their own."""

    price = MoneyField(max_digits=14, decimal_places=2, default_currency="EUR", null=True, blank=True)
    phone = PhoneNumberField(blank=True)
    days = MultiSelectField(choices=[("mo", "Monday"), ("tu", "Tuesday")], max_length=30, blank=True)
    body = MarkupField(default_markup_type="plain", blank=True)
    country = CountryField(blank=True)
    color = ColorField(blank=True)
    rich = CKEditor5Field(blank=True)
    zone = TimeZoneField(blank=True)
    split = SplitField(blank=True)
    data = models.JSONField(default=dict, blank=True)
