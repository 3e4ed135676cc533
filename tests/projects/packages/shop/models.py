"""A shop, each of whose models uses a package as the documentation of the package shows it."""

from __future__ import annotations

from typing import Any

from django.db import models
from django_date_extensions.fields import ApproximateDateField
from django_fsm import FSMField, transition
from django_lifecycle import BEFORE_UPDATE, LifecycleModel, hook
from djmoney.models.fields import MoneyField
from filer.fields.file import FilerFileField
from filer.fields.folder import FilerFolderField
from filer.fields.image import FilerImageField
from localflavor.generic.models import BICField, IBANField
from localflavor.us.models import USSocialSecurityNumberField, USStateField, USZipCodeField
from markupfield.fields import MarkupField
from model_utils import Choices
from model_utils.fields import MonitorField, SplitField, StatusField, UrlsafeTokenField
from model_utils.models import SoftDeletableModel, StatusModel, TimeFramedModel, TimeStampedModel
from ordered_model.models import OrderedModel
from payments.models import BasePayment
from phonenumber_field.modelfields import PhoneNumberField
from polymorphic.models import PolymorphicModel
from smart_selects.db_fields import ChainedForeignKey, ChainedManyToManyField, GroupedForeignKey


class Named(models.Model):
    name = models.CharField(max_length=60)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Shelf(OrderedModel):  # type: ignore[misc]
    """With django-ordered-model."""

    name = models.CharField(max_length=60)

    class Meta(OrderedModel.Meta):
        pass

    def __str__(self) -> str:
        return self.name


class Pizza(Named):
    """With django-ordered-model, whose inline orders the toppings of each."""

    toppings: Any = models.ManyToManyField("Topping", through="PizzaTopping")


class Topping(Named):
    pass


class PizzaTopping(OrderedModel):  # type: ignore[misc]
    pizza = models.ForeignKey(Pizza, models.CASCADE)
    topping = models.ForeignKey(Topping, models.CASCADE)
    order_with_respect_to = "pizza"

    class Meta:
        ordering = ("pizza", "order")

    def __str__(self) -> str:
        return f"{self.pizza} {self.topping}"


class Panel(Named):
    """With django-admin-sortable2."""

    my_order = models.PositiveIntegerField(default=0, blank=False, null=False)

    class Meta:
        ordering = ("my_order",)


class Picture(Named):
    panel = models.ForeignKey(Panel, models.CASCADE)
    my_order = models.PositiveIntegerField(default=0, blank=False, null=False)

    class Meta:
        ordering = ("my_order",)


class Fair(Named):
    """With django-nested-admin: halls, and stands of each hall."""


class Hall(Named):
    fair = models.ForeignKey(Fair, models.CASCADE)
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("position",)


class Stand(Named):
    hall = models.ForeignKey(Hall, models.CASCADE)


class Layout(Named):
    """With django-json-widget."""

    options = models.JSONField(default=dict)


class Delivery(Named):
    """With django-admin-rangefilter."""

    sent = models.DateField()
    arrived = models.DateTimeField(null=True, blank=True)
    weight = models.IntegerField()


class Continent(Named):
    """With django-smart-selects."""


class Country(Named):
    continent = models.ForeignKey(Continent, models.CASCADE)


class Location(models.Model):
    continent = models.ForeignKey(Continent, models.CASCADE)
    country = ChainedForeignKey(
        Country, chained_field="continent", chained_model_field="continent", show_all=False, auto_choose=True, sort=True
    )
    nearest = GroupedForeignKey(Country, "continent", related_name="near", null=True, blank=True)
    street = models.CharField(max_length=60)

    def __str__(self) -> str:
        return self.street


class Publication(Named):
    """With django-smart-selects."""


class Writer(Named):
    publications: Any = models.ManyToManyField(Publication, blank=True)


class Book(Named):
    publication = models.ForeignKey(Publication, models.CASCADE)
    writers: Any = ChainedManyToManyField(
        Writer, verbose_name="writer", chained_field="publication", chained_model_field="publications"
    )


class Offer(Named):
    """With django-money."""

    price = MoneyField(max_digits=14, decimal_places=2, default_currency="EUR")
    discount = MoneyField(max_digits=14, decimal_places=2, null=True, blank=True, default_currency=None)


class Contact(Named):
    """With django-phonenumber-field and django-localflavor."""

    phone = PhoneNumberField(blank=True)
    fax = PhoneNumberField(blank=True, region="US")
    state = USStateField(blank=True)
    zip_code = USZipCodeField(blank=True)
    social_security = USSocialSecurityNumberField(blank=True)
    iban = IBANField(blank=True)
    bic = BICField(blank=True)


class Post(Named):
    """With django-fsm-2."""

    state = FSMField(default="new", protected=True)
    mood = FSMField(default="calm", choices=[("calm", "Calm"), ("wild", "Wild")])

    @transition(field=state, source="new", target="published")
    def publish(self) -> None:
        pass


class Notice(LifecycleModel):
    """With django-lifecycle."""

    title = models.CharField(max_length=60)
    text = models.TextField(blank=True)
    edited = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.title

    @hook(BEFORE_UPDATE, when="text", has_changed=True)
    def remember(self) -> None:
        from django.utils import timezone

        self.edited = timezone.now()


class Good(PolymorphicModel):
    """With django-polymorphic, and its inlines."""

    name = models.CharField(max_length=60)

    def __str__(self) -> str:
        return self.name


class Toy(Good):
    age = models.IntegerField()


class Drink(Good):
    litres = models.DecimalField(max_digits=10, decimal_places=2)


class Parcel(Named):
    """With the inlines of django-polymorphic."""


class Item(PolymorphicModel):
    parcel = models.ForeignKey(Parcel, models.CASCADE)
    label = models.CharField(max_length=60)

    def __str__(self) -> str:
        return self.label


class Breakable(Item):
    padding = models.CharField(max_length=60)


class Review(TimeStampedModel, StatusModel, TimeFramedModel):  # type: ignore[misc]
    """With django-model-utils."""

    STATUS = Choices("draft", "published")
    title = models.CharField(max_length=60)
    body = SplitField()
    status_changed = MonitorField(monitor="status")
    slug_of_link = UrlsafeTokenField(max_length=40)

    def __str__(self) -> str:
        return self.title


class Ticket(SoftDeletableModel):  # type: ignore[misc]
    """With django-model-utils."""

    KINDS = Choices((0, "low", "Low"), (1, "high", "High"))
    LEVELS = Choices("old", "new")
    title = models.CharField(max_length=60)
    kind = models.IntegerField(choices=KINDS, default=KINDS.low)
    level = StatusField(choices_name="LEVELS")

    def __str__(self) -> str:
        return self.title


class News(models.Model):
    """With django-modeltranslation."""

    title = models.CharField(max_length=60)
    text = models.TextField(blank=True)
    published = models.DateField(null=True, blank=True)

    def __str__(self) -> str:
        return self.title


class Remark(models.Model):
    news = models.ForeignKey(News, models.CASCADE)
    text = models.CharField(max_length=60)

    def __str__(self) -> str:
        return self.text


class Recipe(Named):
    """With django-markupfield and django-date-extensions."""

    text = MarkupField(default_markup_type="html", blank=True)
    steps = MarkupField(markup_type="plain")
    invented = ApproximateDateField(blank=True)


class Brand(Named):
    """With the widgets of django-select2 and django-autocomplete-light, in the form of its products."""


class Ware(Named):
    brand = models.ForeignKey(Brand, models.CASCADE)
    maker = models.ForeignKey(Brand, models.CASCADE, related_name="made", null=True, blank=True)
    others: Any = models.ManyToManyField(Brand, related_name="sold", blank=True)


class Album(Named):
    """With the fields of django-filer."""

    folder = FilerFolderField(null=True, blank=True, on_delete=models.SET_NULL, related_name="albums")
    cover = FilerImageField(null=True, blank=True, on_delete=models.SET_NULL, related_name="covers")
    leaflet = FilerFileField(null=True, blank=True, on_delete=models.SET_NULL, related_name="leaflets")


class Dossier(Named):
    """With the permissions of django-guardian on single objects."""

    note = models.TextField(blank=True)


class Payment(BasePayment):
    """With django-payments."""
