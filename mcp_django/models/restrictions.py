"""What administrators have closed to agents beyond what code says: models, fields and, by a pause, callers."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class RestrictionQuerySet(models.QuerySet["Restriction"]):
    def pauses(self) -> RestrictionQuerySet:
        """Those that stop callers, and hide nothing."""
        return self.exclude(kind__in=(Restriction.Kind.MODEL, Restriction.Kind.FIELD))


class Restriction(models.Model):
    """One thing that agents do not get while this row exists. Deleting the row opens it again as far as code does."""

    class Kind(models.TextChoices):
        MODEL = "model", _("model")
        FIELD = "field", _("field")
        #: A pause of every agent; ``name`` is empty.
        ALL = "all", _("all agents")
        #: A pause of the agents of one user, by the user's primary key.
        USER = "user", _("user")
        #: A pause of one token with those that replace it, by its line.
        TOKEN = "token", _("token")
        #: A pause of an OAuth client, by its identifier.
        APP = "app", _("app")

    #: The name of the MCP site. Empty: it holds on each.
    site = models.CharField(_("site"), max_length=50, blank=True)
    kind = models.CharField(_("kind"), max_length=5, choices=Kind)
    #: ``app_label.model_name``, ``app_label.model_name.field``, or whom a pause stops.
    name = models.CharField(_("name"), max_length=255, blank=True)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    #: The name of the person who decided it.
    by = models.CharField(_("by"), max_length=150, blank=True)
    at = models.DateTimeField(_("since"), auto_now_add=True)

    objects = RestrictionQuerySet.as_manager()

    class Meta:
        # People manage the rows on the page of the models, where nobody adds or deletes one by itself.
        verbose_name = _("model")
        verbose_name_plural = _("models")
        default_permissions = ("view", "change")
        permissions = [("pause_agents", _("Can pause agents"))]
        constraints = [
            models.UniqueConstraint(fields=["site", "kind", "name"], name="mcp_django_restriction_name"),
        ]

    def __str__(self) -> str:
        return self.name or self.get_kind_display()

    @property
    def is_pause(self) -> bool:
        """Whether it stops callers, and hides nothing."""
        return self.kind not in (self.Kind.MODEL, self.Kind.FIELD)
