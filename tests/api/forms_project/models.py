"""A club: topics, notes on them, labels and coupons.

None has migrations: the test database makes their tables, before those of users, to which there is therefore no
constraint. Nothing is set from the clock or at random, so that equal calls answer the same.
"""

from django.conf import settings
from django.db import models
from django.urls import reverse


class Topic(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="topics")
    name = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.name


class Label(models.Model):
    name = models.CharField(max_length=50, unique=True)
    colour = models.CharField(max_length=10, choices=[("red", "Red"), ("blue", "Blue")], default="red")

    def __str__(self) -> str:
        return self.name


class Note(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="notes")
    topic = models.ForeignKey(Topic, models.CASCADE, null=True, blank=True, related_name="notes")
    labels = models.ManyToManyField(Label, blank=True)
    title = models.CharField(max_length=80)
    slug = models.SlugField(unique=True)
    text = models.TextField(blank=True)
    due = models.DateField(null=True, blank=True)
    fee = models.DecimalField(max_digits=7, decimal_places=2, null=True, blank=True)
    public = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("note-by-slug", kwargs={"slug": self.slug})


class Member(models.Model):
    """What a user tells of itself: a page of its own changes it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="member")
    number = models.CharField(max_length=20, unique=True)
    motto = models.CharField(max_length=80, blank=True)
    newsletter = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.number


class Coupon(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="coupons")
    code = models.CharField(max_length=20, unique=True)
    percent = models.PositiveSmallIntegerField(default=10)

    def __str__(self) -> str:
        return self.code


class Booking(models.Model):
    """What a booking form asked for: of a file its name and its size alone."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="bookings")
    topic = models.ForeignKey(Topic, models.CASCADE)
    room = models.CharField(max_length=10)
    day = models.DateField()
    fee = models.DecimalField(max_digits=7, decimal_places=2)
    lunch = models.BooleanField(default=False)
    extras = models.CharField(max_length=50, blank=True)
    source = models.CharField(max_length=10, blank=True)
    file_name = models.CharField(max_length=80, blank=True)
    file_size = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.room} on {self.day}"
