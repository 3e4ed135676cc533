"""Models with translated fields of several kinds, and one that points to them."""

from django.db import models


class Animal(models.Model):
    """Has a name in each language, or in one alone."""

    name = models.CharField(max_length=40)
    about = models.TextField(blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    seen = models.DateField(null=True, blank=True)
    legs = models.IntegerField(default=4)

    def __str__(self) -> str:
        return str(self.name)


class Visit(models.Model):
    """Is not translated itself."""

    animal = models.ForeignKey(Animal, models.CASCADE, related_name="visits")

    def __str__(self) -> str:
        return f"visit {self.pk}"
