"""When a token that a form makes is to end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcp_django.conf import get_conf
from mcp_django.models.tokens import Expiry

#: The lifetimes that are offered, in days.
_DAYS = (7, 30, 90)


def offered_days() -> list[int]:
    """The lifetimes that TOKEN_MAX_DAYS allows, in days: TOKEN_MAX_DAYS itself where it is less than all of them."""
    most = get_conf().TOKEN_MAX_DAYS
    return [*_DAYS] if most is None else [days for days in _DAYS if days <= most] or [most]


class LifetimeForm(forms.Form):
    """After how many days a token ends."""

    lifetime = forms.ChoiceField(label=_("Ends"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A page without the permission to change the token does not show it.
        if "lifetime" in self.fields:
            cast("forms.ChoiceField", self.fields["lifetime"]).choices = list(self._lifetimes())
        # A link that fills in the form must not choose a lifetime.
        self.initial["lifetime"] = self._first_lifetime()

    def _first_lifetime(self) -> str:
        """The choice that is nearest to TOKEN_DAYS."""
        wanted = get_conf().TOKEN_DAYS
        return str(min(offered_days(), key=lambda days: abs(days - wanted)))

    def _lifetimes(self) -> Iterator[tuple[str, str | Promise]]:
        for days in offered_days():
            yield str(days), ngettext("in %(days)d day", "in %(days)d days", days) % {"days": days}

    @property
    def expiry(self) -> Expiry:
        """As ``create_token`` takes it."""
        return after(self.cleaned_data["lifetime"])


def after(days: str) -> datetime:
    """The moment that a choice of days means now."""
    return timezone.now() + timedelta(days=int(days))
