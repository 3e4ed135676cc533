from django.db import models
from django_fsm import FSMField, transition
from simple_history.models import HistoricalRecords


class Owner(models.Model):
    name = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.name


class Item(models.Model):
    """What is sold, with a column that no agent reads."""

    class State(models.TextChoices):
        OPEN = "open", "is open"
        GONE = "gone", "is gone"

    name = models.CharField(max_length=50)
    state = models.CharField(max_length=10, choices=State, default=State.OPEN)
    price = models.IntegerField(default=1)
    owner = models.ForeignKey(Owner, models.SET_NULL, null=True, blank=True)
    api_key = models.CharField(max_length=50, blank=True)

    def __str__(self) -> str:
        return self.name


class Row(models.Model):
    """What an action on the page of one row is about."""

    name = models.CharField(max_length=50)
    state = models.CharField(max_length=10, choices=Item.State, default=Item.State.OPEN)
    price = models.IntegerField(default=1)
    api_key = models.CharField(max_length=50, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Linked(Row):
    """Of django-object-actions."""


class Unfolded(Row):
    """Of django-unfold."""


class Buttoned(Row):
    """Of django-admin-extra-buttons."""


class Inlined(Row):
    """Of django-inline-actions."""


class Flowing(Row):
    """Of django-fsm-2-admin."""

    state = FSMField(choices=Item.State, default=Item.State.OPEN)

    @transition(field="state", source="open", target="gone")
    def let_go(self) -> None:
        """Nothing but its state changes."""


class Recorded(Row):
    """Of django-simple-history."""

    history = HistoricalRecords()


class Versioned(Row):
    """Of django-reversion."""
