"""Credentials: access tokens, tickets that stand for them, and used nonces."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_django.models.validators import default_scopes, validate_limits, validate_scopes

#: ``last_used_at`` is written at most this often, so that not every read becomes a write.
_LAST_USED_EVERY = timedelta(minutes=1)


def digest(token: str) -> str:
    """The SHA-256 of a token as 64 hex digits, which is what the database stores."""
    return hashlib.sha256(token.encode()).hexdigest()


class AccessTokenManager(models.Manager["AccessToken"]):
    def create_token(
        self,
        *,
        user: Any,
        name: str = "",
        scopes: Iterable[str] = ("read",),
        expires_at: datetime | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> tuple[AccessToken, str]:
        """A new token and its plain text, which is not stored and cannot be shown again. Raises ValidationError.

        ``limits`` are such as ``{"calls": "60/min"}``.
        """
        own = dict(limits or {})
        validate_limits(own)
        plain = f"mcp_{secrets.token_urlsafe(32)}"
        token = self.create(
            user=user, name=name, scopes=list(scopes), hash=digest(plain), expires_at=expires_at, limits=own
        )
        return token, plain

    def current(self) -> models.QuerySet[AccessToken]:
        """The tokens that are neither revoked nor expired."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()), revoked_at__isnull=True)


class AccessToken(models.Model):
    """Lets an agent act as its user, within its scopes."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mcp_tokens", verbose_name=_("user"),
        help_text=_("The agent may do what this user may do, within the scopes. It cannot be changed later."),
    )  # fmt: skip
    name = models.CharField(
        _("name"), max_length=100, blank=True, help_text=_("What the token is for, such as “Claude on my laptop”.")
    )
    scopes = models.JSONField(_("scopes"), default=default_scopes, validators=[validate_scopes])
    limits = models.JSONField(
        _("limits"), default=dict, blank=True, validators=[validate_limits],
        help_text=_(
            'What the agent may do in a time, as {"calls": "60/min", "rows": "10000/day"}. It can be limited further '
            "than by the settings, and never less."
        ),
    )  # fmt: skip
    hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True, help_text=_("If empty: never."))
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)

    objects = AccessTokenManager()

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name or f"token {self.pk}"

    def is_current(self) -> bool:
        """Whether it is neither revoked nor expired, as far as this instance knows."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())

    def is_valid(self) -> bool:
        """Whether the token lets its user in."""
        return self.is_current() and self.user.is_active

    def revoke(self) -> None:
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])

    @classmethod
    def touch(cls, *tokens: AccessToken) -> None:
        """Record that the tokens were used: at most one conditional UPDATE a minute for each, without signals."""
        now = timezone.now()
        due = [one for one in tokens if one.last_used_at is None or one.last_used_at <= now - _LAST_USED_EVERY]
        if not due:
            return
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - _LAST_USED_EVERY)
        cls.objects.filter(stale, pk__in=[token.pk for token in due]).update(last_used_at=now)
        for token in due:
            token.last_used_at = now


class Ticket(models.Model):
    """Stands for an access token in the URL of one socket (see ``access.tickets``)."""

    hash = models.CharField(max_length=64, unique=True, editable=False)
    token = models.ForeignKey(AccessToken, models.CASCADE, related_name="tickets", verbose_name=_("token"))
    expires_at = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("ticket")
        verbose_name_plural = _("tickets")

    def __str__(self) -> str:
        return f"ticket {self.pk}"


class UsedNonce(models.Model):
    """A value that may be used once, and was (see ``access.nonces``)."""

    nonce = models.CharField(max_length=64, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("used nonce")
        verbose_name_plural = _("used nonces")

    def __str__(self) -> str:
        return self.nonce
