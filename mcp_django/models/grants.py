"""Grants: what a person let an OAuth client do, by which it gets access tokens again and again."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models, router, transaction
from django.dispatch import Signal
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

#: Sent once a grant was ended, in the transaction that ends it, with the arguments ``grant`` and ``using``.
grant_ended = Signal()

#: How a client is named in the database.
CLIENT_HELP = _("The URL of the document that describes the client, or the hash of its registration.")

#: A grant ends if its client does not refresh for IDLE, and in any case after LIFETIME.
IDLE = timedelta(days=30)
LIFETIME = timedelta(days=180)


class GrantManager(models.Manager["Grant"]):
    def current(self) -> models.QuerySet[Grant]:
        """The grants that were not ended and have not expired."""
        return self.filter(ended_at__isnull=True, expires_at__gt=timezone.now())


class Grant(models.Model):
    """A person's consent that a client acts on their behalf at one resource, within scopes.

    The access tokens of a grant end after an hour. What a client has opened with one, a stream or a socket, goes on
    until the grant ends.
    """

    class Ended(models.TextChoices):
        """Why a grant was ended."""

        REVOKED = "revoked", pgettext_lazy("why it ended", "revoked")
        PASSWORD = "password", _("a new password")
        CODE_REPLAYED = "code replayed", _("its code was used twice")
        REFRESH_REPLAYED = "refresh replayed", _("a replaced refresh token was used")
        BLOCKED = "blocked", _("the client was blocked")
        SURPLUS = "surplus", _("too many grants of one client")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mcp_grants", verbose_name=_("user"), editable=False
    )
    #: The credential line, which all grants of the user to the client for the resource share.
    line = models.UUIDField(default=uuid.uuid4, db_index=True, editable=False)
    client = models.CharField(_("client"), max_length=255, db_index=True, editable=False, help_text=CLIENT_HELP)
    #: What the client calls itself. Nobody has verified it.
    client_name = models.CharField(_("calls itself"), max_length=100, blank=True, editable=False)
    #: The URL of the endpoint that its tokens are for (RFC 8707).
    resource = models.CharField(_("resource"), max_length=500, editable=False)
    scopes = models.JSONField(_("scopes"), default=list, editable=False)
    #: Scopes that it is lent → the end of each, in seconds since 1970: see ``access.lending``.
    lent = models.JSONField(_("lent"), default=dict, editable=False)
    #: Scopes that the client asked for and the person did not give.
    declined = models.JSONField(_("declined"), default=list, editable=False)
    created_at = models.DateTimeField(_("since"), default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    expires_at = models.DateTimeField(_("expires"), editable=False)
    #: When its client was last told to ask for more scopes. Null again once a refresh was taken for the answer to it.
    challenged_at = models.DateTimeField(null=True, editable=False)
    ended_at = models.DateTimeField(_("ended"), null=True, editable=False)
    ended_by = models.CharField(_("why it ended"), max_length=20, choices=Ended.choices, blank=True, editable=False)

    #: As on AccessToken.
    known_permissions: dict[Hashable, Any] | None = None

    objects = GrantManager()

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.client_name or self.client_host or str(_("grant %(id)s") % {"id": self.pk})

    @property
    def client_host(self) -> str:
        """The host that answers for the client's id; empty for a client that registered itself."""
        return urlsplit(self.client).netloc

    def is_current(self) -> bool:
        """Whether it was neither ended nor has expired, as far as this instance knows."""
        return self.ended_at is None and self.expires_at > timezone.now()

    def is_valid(self) -> bool:
        """Whether the grant lets its user in."""
        return self.is_current() and self.user.is_active

    def expiry_after_use(self, now: datetime) -> datetime:
        """When the grant expires if its client uses it now, and never again."""
        return min(self.created_at + LIFETIME, now + IDLE)

    def end(self, why: str) -> bool:
        """End the grant and all of its tokens, for a reason of ``Ended``. Returns False if it had ended already."""
        from mcp_django.models.lendings import Lending
        from mcp_django.models.tokens import AccessToken

        alias, now = router.db_for_write(Grant), timezone.now()
        with transaction.atomic(using=alias):
            # The grant comes first: a refresh that writes the same row waits, and then finds that it has ended.
            mine = Grant.objects.using(alias).filter(pk=self.pk, ended_at__isnull=True)
            if not mine.update(ended_at=now, ended_by=why):
                return False
            AccessToken.objects.using(alias).filter(grant=self.pk, revoked_at__isnull=True).update(revoked_at=now)
            Lending.objects.using(alias).of(self.line, self.pk).end(now, why)
            self.ended_at, self.ended_by = now, why
            grant_ended.send(Grant, grant=self, using=alias)
        return True
