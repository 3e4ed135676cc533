"""Sessions of legacy clients, and messages between processes that belong to them."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal


class SessionManager(models.Manager["Session"]):
    def open(self, *, site: str, principal: Principal, revision: str, client: Any) -> Session:
        """Create a session with an unguessable key of visible ASCII."""
        return self.create(
            key=secrets.token_urlsafe(32), site=site, principal_key=principal.key, line=principal.lineage,
            revision=revision, client_info=client.info, client_capabilities=client.capabilities,
            expires_at=_session_end(),
        )  # fmt: skip

    def live(self) -> models.QuerySet[Session]:
        return self.filter(expires_at__gt=timezone.now())


def _session_end() -> datetime:
    return timezone.now() + timedelta(seconds=get_conf().SESSION_SECONDS)


class Session(models.Model):
    """A legacy client's session over HTTP, stored so that every process can serve it."""

    key = models.CharField(max_length=64, primary_key=True)
    site = models.CharField(max_length=50)
    #: The user, whose sessions are counted together, and the credential line that may go on with this one.
    principal_key = models.CharField(max_length=100)
    line = models.CharField(max_length=100)
    revision = models.CharField(max_length=10)
    client_info = models.JSONField(default=dict)
    client_capabilities = models.JSONField(default=dict)
    log_level = models.CharField(max_length=9, default="info")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)

    objects = SessionManager()

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        indexes = [models.Index(fields=["site", "principal_key", "expires_at"], name="mcp_django_session_owner")]

    def __str__(self) -> str:
        return f"{self.client_info.get('name', 'client')} of {self.principal_key}"

    def renew(self) -> None:
        """Extend the session, at most once in a hundredth of its life."""
        end = _session_end()
        if end - self.expires_at > timedelta(seconds=get_conf().SESSION_SECONDS / 100):
            self.expires_at = end
            # Not if it has ended meanwhile.
            Session.objects.live().filter(pk=self.pk).update(expires_at=end)


class WatchedResource(models.Model):
    """A URI that a legacy session subscribed to, as the client wrote it."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="watched")
    uri = models.TextField()
    #: SHA-256 of the URI: a text cannot be unique on every database.
    uri_hash = models.CharField(max_length=64)
    #: For a live query, the SHA-256 of its answer at the subscription; empty once the client was notified of another.
    digest = models.CharField(max_length=64, default="")

    class Meta:
        verbose_name = _("watched resource")
        verbose_name_plural = _("watched resources")
        constraints = [models.UniqueConstraint(fields=["session", "uri_hash"], name="mcp_django_watched_once")]

    def __str__(self) -> str:
        return self.uri


class OpenQuestion(models.Model):
    """A request of ours to a legacy client, kept until the process that waits for the answer has fetched it."""

    #: The id of the request.
    key = models.CharField(max_length=64, primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="questions")
    #: The client's answer as JSON. It may have come to any process.
    answer = models.TextField(null=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("open question")
        verbose_name_plural = _("open questions")

    def __str__(self) -> str:
        return self.key


class CallStream(models.Model):
    """The event stream of one request of a legacy session, kept so that a client that lost it can read the rest.

    A session whose client polls has one more, with the messages that wait for it: see ``Poll``.
    """

    key = models.CharField(max_length=32, primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="streams")
    #: As JSON, since a JSONField cannot hold every string that JSON allows.
    request_id = models.TextField()
    ended = models.BooleanField(default=False)
    #: The process that answers renews the lease. When the lease ends, that process is gone and no answer will come.
    lease_until = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("stream of a call")
        verbose_name_plural = _("streams of calls")

    def __str__(self) -> str:
        return self.key


class StreamEvent(models.Model):
    """One event of a call's stream. ``number`` counts from 1."""

    stream = models.ForeignKey(CallStream, models.CASCADE, related_name="events")
    number = models.PositiveIntegerField()
    body = models.TextField()

    class Meta:
        verbose_name = _("event of a stream")
        verbose_name_plural = _("events of streams")
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["stream", "number"], name="mcp_django_event_once")]

    def __str__(self) -> str:
        return f"{self.stream_id}/{self.number}"


class Poll(models.Model):
    """A legacy session whose client polls: its stored stream of waiting messages, and the collector that adds to it."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="poll")
    stream = models.OneToOneField(CallStream, models.CASCADE, related_name="poll")
    #: Names the collector, which lives in one process; empty if it has ended and no other has begun yet.
    collector = models.CharField(max_length=32, default="")
    #: The number of the last message. Messages that were acknowledged are deleted, so it cannot be counted.
    last = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name = _("poll")
        verbose_name_plural = _("polls")

    def __str__(self) -> str:
        return f"poll up to {self.last}"


class SSEConnection(models.Model):
    """An open stream of the transport HTTP+SSE. Its row lets the client post its messages to any process."""

    key = models.CharField(max_length=64, primary_key=True)
    #: SHA-256 of the owner.
    owner = models.CharField(max_length=64)
    #: The process that holds the stream renews the lease. When the lease ends, that process is gone.
    lease_until = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("SSE connection")
        verbose_name_plural = _("SSE connections")

    def __str__(self) -> str:
        return f"stream until {self.lease_until:%H:%M:%S}"


class PostedMessage(models.Model):
    """A message that came to one process and is meant for another: the one that holds what the address names."""

    address = models.CharField(max_length=100, db_index=True)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        verbose_name = _("posted message")
        verbose_name_plural = _("posted messages")
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.address
