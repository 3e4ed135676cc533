"""As healthchecks has them: accounts, what they watch, and the records of it."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models


class Profile(models.Model):
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE)
    token = models.CharField(max_length=128, blank=True)
    totp = models.CharField(max_length=32, null=True, blank=True)
    sms_sent = models.IntegerField(default=0)
    sms_limit = models.IntegerField(default=5)
    over_limit_date = models.DateTimeField(null=True, blank=True)


class Project(models.Model):
    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=100, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    api_key = models.CharField(max_length=128, blank=True)
    badge_key = models.CharField(max_length=150, unique=True)


class Check(models.Model):
    project = models.ForeignKey(Project, models.CASCADE)
    name = models.CharField(max_length=100)
    filter_body = models.BooleanField(default=False)
    success_kw = models.CharField(max_length=200, blank=True)


class Ping(models.Model):
    owner = models.ForeignKey(Check, models.CASCADE)
    created = models.DateTimeField()
    scheme = models.CharField(max_length=10, default="http")
    body = models.TextField(blank=True)

    def has_body(self) -> bool:
        return bool(self.body)


class Channel(models.Model):
    project = models.ForeignKey(Project, models.CASCADE)
    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    kind = models.CharField(max_length=20)
    value = models.TextField(blank=True)
    disabled = models.BooleanField(default=False)
    last_error = models.CharField(max_length=200, blank=True)
    last_notify_duration = models.DurationField(null=True, blank=True)


class Notification(models.Model):
    code = models.UUIDField(default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(Channel, models.CASCADE)
    owner = models.ForeignKey(Check, models.CASCADE, null=True)
    error = models.CharField(max_length=200, blank=True)

    def receipt(self) -> Any:
        """Fails where there is none, as the other side of a one-to-one relation does."""
        return self.seen.read_at


class Seen(models.Model):
    notification = models.OneToOneField(Notification, models.CASCADE)
    read_at = models.DateTimeField()


class Record(models.Model):
    level = models.IntegerField(choices=[(20, "INFO"), (40, "ERROR")])
    message = models.TextField()
    traceback = models.TextField(blank=True)
