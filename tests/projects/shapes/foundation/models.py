"""As python.org has them: what is tracked of each row, and a dozen kinds of rows in inlines."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models


def _user(name: str) -> Any:
    return models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name=f"%(class)s_{name}"
    )


class Tracked(models.Model):
    created = models.DateTimeField(auto_now_add=True)
    updated = models.DateTimeField(auto_now=True)
    creator = _user("creator")
    last_modified_by = _user("modified")

    class Meta:
        abstract = True


class Post(Tracked):
    title = models.CharField(max_length=100)
    status = models.CharField(max_length=10, choices=[("draft", "Draft"), ("public", "Public")], default="draft")


class Attached(Tracked):
    post = models.ForeignKey(Post, models.CASCADE)
    url = models.URLField()

    class Meta:
        abstract = True


class Link(Attached):
    title = models.CharField(max_length=100)


class Photo(Attached):
    caption = models.TextField(blank=True)


class Video(Attached):
    length = models.DurationField(null=True, blank=True)


class Release(Tracked):
    name = models.CharField(max_length=50)
    is_published = models.BooleanField(default=False)


class ReleaseFile(Tracked):
    release = models.ForeignKey(Release, models.CASCADE)
    name = models.CharField(max_length=50)
    md5_sum = models.CharField(max_length=32, blank=True)
    filesize = models.IntegerField(default=0)


class Event(Tracked):
    title = models.CharField(max_length=100)


class OccurringRule(models.Model):
    event = models.OneToOneField(Event, models.CASCADE)
    starts_at = models.DateTimeField()
    all_day = models.BooleanField(default=False)


class RecurringRule(models.Model):
    event = models.ForeignKey(Event, models.CASCADE)
    begins_at = models.DateTimeField()
    interval = models.PositiveSmallIntegerField(default=1)


class Page(Tracked):
    title = models.CharField(max_length=100)
    path = models.CharField(max_length=100)


class Image(models.Model):
    page = models.ForeignKey(Page, models.CASCADE)
    name = models.CharField(max_length=50)


class Document(models.Model):
    page = models.ForeignKey(Page, models.CASCADE)
    name = models.CharField(max_length=50)


class Sponsor(Tracked):
    name = models.CharField(max_length=100)
    slug = models.SlugField()


class Contact(models.Model):
    sponsor = models.ForeignKey(Sponsor, models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True)
    name = models.CharField(max_length=100)
    primary = models.BooleanField(default=False)


class Sponsorship(models.Model):
    sponsor = models.ForeignKey(Sponsor, models.CASCADE)
    status = models.CharField(max_length=20, default="applied")
    year = models.PositiveIntegerField(default=2024)
    locked = models.BooleanField(default=False)


class Benefit(models.Model):
    sponsorship = models.ForeignKey(Sponsorship, models.CASCADE)
    name = models.CharField(max_length=50)
    internal_value = models.IntegerField(null=True, blank=True)
    year = models.PositiveIntegerField(default=2024)


class Asset(models.Model):
    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = models.PositiveIntegerField()
    owner = GenericForeignKey()
    internal_name = models.CharField(max_length=50)
