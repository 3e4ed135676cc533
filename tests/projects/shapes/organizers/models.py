"""As DjangoGirls has them: each organizer sees the events of their own team."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models


class Event(models.Model):
    name = models.CharField(max_length=100)
    city = models.CharField(max_length=100)
    page_url = models.CharField(max_length=100)
    is_frozen = models.BooleanField(default=False)
    applicants_count = models.IntegerField(null=True, blank=True)
    team: Any = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True)

    @property
    def has_stats(self) -> bool:
        return self.applicants_count is not None


class Form(models.Model):
    event = models.OneToOneField(Event, models.CASCADE)
    text_header = models.CharField(max_length=100)


class Question(models.Model):
    form = models.ForeignKey(Form, models.CASCADE)
    title = models.TextField()
    is_required = models.BooleanField(default=True)


class Application(models.Model):
    form = models.ForeignKey(Form, models.CASCADE)
    email = models.EmailField()


class Answer(models.Model):
    application = models.ForeignKey(Application, models.CASCADE)
    question = models.ForeignKey(Question, models.PROTECT)
    answer = models.TextField()


class Sponsor(models.Model):
    name = models.CharField(max_length=100)
    url = models.URLField(blank=True)
    events: Any = models.ManyToManyField(Event, blank=True)

    def logo(self) -> str:
        return f"logo of {self.name}"
