from django.db import models


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
