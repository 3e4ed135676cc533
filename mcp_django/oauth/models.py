"""What the authorization server keeps: clients, codes and refresh tokens. Of codes and tokens only the hashes."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_django.models.grants import CLIENT_HELP, Grant


class Client(models.Model):
    """An OAuth client that at least one person has let in. It is made at the first consent."""

    class RegisteredBy(models.TextChoices):
        DOCUMENT = "document", _("its document")
        REGISTRATION = "registration", _("itself")
        UNPROVEN = "unproven", _("itself, its document could not be fetched")

    #: As a Grant and an AccessToken name it.
    key = models.CharField(_("client"), max_length=255, unique=True, editable=False, help_text=CLIENT_HELP)
    #: The whole id with which it comes: of a client that registered itself, the signed registration.
    client_id = models.TextField(_("client id"), editable=False)
    #: What it calls itself. Nobody has verified it.
    name = models.CharField(_("calls itself"), max_length=100, blank=True, editable=False)
    redirect_uris = models.JSONField(_("redirect URIs"), default=list, editable=False)
    registered_by = models.CharField(_("registered by"), max_length=12, choices=RegisteredBy.choices, editable=False)
    created_at = models.DateTimeField(_("first used"), default=timezone.now, editable=False)
    #: Since when it gets no tokens any more.
    blocked_at = models.DateTimeField(_("blocked"), null=True, editable=False)

    class Meta:
        verbose_name = _("OAuth client")
        verbose_name_plural = _("OAuth clients")
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.name or self.key

    def block(self) -> int:
        """Refuse the client from now on, and end its grants. Returns the number of these."""
        self.blocked_at = timezone.now()
        self.save(update_fields=["blocked_at"])
        return sum(grant.end(Grant.Ended.BLOCKED) for grant in Grant.objects.filter(client=self.key, ended_at=None))

    def unblock(self) -> None:
        """Let people connect the client again."""
        self.blocked_at = None
        self.save(update_fields=["blocked_at"])


class AuthorizationCode(models.Model):
    """Lets a client get its first tokens, once and within a minute (RFC 6749 §4.1.2)."""

    hash = models.CharField(max_length=64, unique=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", editable=False)
    client = models.CharField(max_length=255, editable=False)
    client_name = models.CharField(max_length=100, blank=True, editable=False)
    redirect_uri = models.CharField(max_length=2_000, editable=False)
    #: The S256 challenge of RFC 7636 §4.2.
    code_challenge = models.CharField(max_length=43, editable=False)
    resource = models.CharField(max_length=500, editable=False)
    scopes = models.JSONField(default=list, editable=False)
    declined = models.JSONField(default=list, editable=False)
    #: Scopes that the person has given for a while → the end of each, in seconds since 1970.
    lent = models.JSONField(default=dict, editable=False)
    expires_at = models.DateTimeField(db_index=True, editable=False)
    #: Set when the code was used. The row is kept for a while, so that a second use is seen.
    grant = models.ForeignKey(Grant, models.CASCADE, null=True, related_name="+", editable=False)

    class Meta:
        verbose_name = _("authorization code")
        verbose_name_plural = _("authorization codes")

    def __str__(self) -> str:
        return f"code {self.pk}"


class RefreshToken(models.Model):
    """Lets a client get its next tokens. Each use makes another one, which replaces it once that is used itself."""

    hash = models.CharField(max_length=64, unique=True, editable=False)
    grant = models.ForeignKey(Grant, models.CASCADE, related_name="refresh_tokens", editable=False)
    #: The refresh token by which it was made. None: it came with a code.
    replaces = models.ForeignKey("self", models.SET_NULL, null=True, related_name="successors", editable=False)
    #: The primary key of the access token that was issued with it, whose row is deleted earlier.
    access_token = models.BigIntegerField(db_index=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, db_index=True, editable=False)
    #: How many tokens were made by it.
    uses = models.PositiveSmallIntegerField(default=0, editable=False)
    #: When a token that was made by it was used for the first time.
    replaced_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = _("refresh token")
        verbose_name_plural = _("refresh tokens")

    def __str__(self) -> str:
        return f"refresh token {self.pk}"

    def is_worn_out(self, grace: Any, most: int) -> bool:
        """Whether it was replaced longer ago than ``grace``, or has made as many tokens as one may."""
        return self.uses >= most or (self.replaced_at is not None and self.replaced_at + grace < timezone.now())
