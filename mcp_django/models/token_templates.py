"""What the form for a new token can begin with."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_django.models.validators import validate_limits, validate_scopes


class TokenTemplate(models.Model):
    """Fills in the form for a new token. The person who makes the token may change whatever it has filled in."""

    name = models.CharField(
        _("name"), max_length=100, unique=True, help_text=_("What such tokens are for, such as “Nightly report”.")
    )
    scopes = models.JSONField(_("scopes"), default=list, blank=True, validators=[validate_scopes])
    days = models.PositiveSmallIntegerField(_("ends"), null=True, blank=True)
    limits = models.JSONField(_("limits"), default=dict, blank=True, validators=[validate_limits])

    class Meta:
        verbose_name = _("token template")
        verbose_name_plural = _("token templates")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
