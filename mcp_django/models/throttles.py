"""What callers have used of their budgets, where no cache counts it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Throttle(models.Model):
    """The count of one limit in one period (see ``access.throttling.counters``)."""

    key = models.CharField(max_length=100, primary_key=True)
    count = models.BigIntegerField(default=0)
    #: When the period ends, in seconds since 1970, as in caches: projects without USE_TZ have no common clock.
    ends = models.BigIntegerField(db_index=True)

    class Meta:
        verbose_name = _("throttle")
        verbose_name_plural = _("throttles")

    def __str__(self) -> str:
        return self.key
