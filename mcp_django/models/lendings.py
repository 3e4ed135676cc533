"""Lendings: who lent scopes to a credential, and until when. The rows of tokens and grants say what that comes to."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.timezone import is_aware, localtime
from django.utils.translation import gettext_lazy as _

from mcp_django.models.changes import Change
from mcp_django.models.grants import Grant

if TYPE_CHECKING:
    from uuid import UUID


class LendingQuerySet(models.QuerySet["Lending"]):
    def of(self, lineage: str | UUID, grant_id: int | None) -> LendingQuerySet:
        """Those to one credential: of a grant, or else of the tokens of a lineage that were made by hand."""
        return self.filter(lineage=lineage, grant_id=grant_id)

    def running(self) -> LendingQuerySet:
        """Those that have not ended."""
        return self.filter(ended_at=None, until__gt=timezone.now())

    def in_use(self) -> LendingQuerySet:
        """Those that have not ended, and whose credential has not either."""
        return self.running().filter(_has_credential())

    def over(self) -> LendingQuerySet:
        """Those whose time is over, or whose credential is, and which nobody has marked yet."""
        return self.filter(Q(until__lte=timezone.now()) | ~_has_credential(), ended_at=None)

    def end(self, now: datetime, by: str) -> int:
        """Mark those that have not ended: by a person's name, or by why their credential has ended."""
        return self.running().update(ended_at=now, ended_by=by)


def _has_credential() -> Q:
    from mcp_django.models.tokens import AccessToken

    tokens = AccessToken.objects.current().filter(line=OuterRef("lineage"), grant=None)
    grants = Grant.objects.current().filter(pk=OuterRef("grant_id"))
    return Q(Exists(grants)) | Q(Exists(tokens), grant_id=None)


class Lending(models.Model):
    """Scopes that a credential has until a moment, beside those that it has for good."""

    #: The credential line, and the grant where an OAuth client has it.
    lineage = models.UUIDField(db_index=True, editable=False)
    #: No foreign key: a lending to a grant is none to other tokens of the line once the grant is gone.
    grant_id = models.BigIntegerField(null=True, db_index=True, editable=False)
    #: The user as whom the credential acts.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", verbose_name=_("user"), editable=False
    )
    scopes = models.JSONField(_("scopes"), editable=False)
    #: Why, in the words of the agent. Nobody has checked them.
    reason = models.CharField(_("reason, in the words of the agent"), max_length=500, blank=True, editable=False)
    #: The names of those who agreed to it.
    agreed_by = models.CharField(_("agreed by"), max_length=300, blank=True, editable=False)
    starts_at = models.DateTimeField(_("since"), editable=False)
    until = models.DateTimeField(_("until"), db_index=True, editable=False)
    ended_at = models.DateTimeField(_("ended"), null=True, editable=False)
    #: Who ended it before its time, by name, or why its credential ended. Empty: its time was over.
    ended_by = models.CharField(_("ended by"), max_length=150, blank=True, editable=False)
    #: The change by which it was asked for, where an agent did.
    change = models.ForeignKey(Change, models.SET_NULL, null=True, related_name="+", editable=False)

    objects = LendingQuerySet.as_manager()

    class Meta:
        verbose_name = _("lending")
        verbose_name_plural = _("lendings")
        default_permissions = ()
        ordering = ["-starts_at", "-pk"]

    def __str__(self) -> str:
        until = date_format(localtime(self.until) if is_aware(self.until) else self.until, "SHORT_DATETIME_FORMAT")
        return str(_("%(scopes)s until %(moment)s") % {"scopes": ", ".join(self.scopes), "moment": until})
