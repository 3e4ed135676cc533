"""Forms that make a token: when the token is to end, and that a reload or a second click makes no second one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.core.signing import BadSignature, TimestampSigner
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcp_django.access import nonces
from mcp_django.conf import get_conf
from mcp_django.models.tokens import Expiry

#: The lifetimes that are offered, in days.
_DAYS = (7, 30, 90)


def offered_days() -> list[int]:
    """The lifetimes that TOKEN_MAX_DAYS allows, in days: TOKEN_MAX_DAYS itself where it is less than all of them."""
    most = get_conf().TOKEN_MAX_DAYS
    return [*_DAYS] if most is None else [days for days in _DAYS if days <= most] or [most]


def nearest_to(days: int) -> str:
    """The lifetime that is offered and nearest to so many days."""
    return str(min(offered_days(), key=lambda offered: abs(offered - days)))


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
        return nearest_to(get_conf().TOKEN_DAYS)

    def _lifetimes(self) -> Iterator[tuple[str, str | Promise]]:
        for days in offered_days():
            yield str(days), in_days(days)

    @property
    def expiry(self) -> Expiry:
        """As ``create_token`` takes it."""
        return after(self.cleaned_data["lifetime"])


def in_days(days: int) -> str:
    """Such as "in 30 days"."""
    return ngettext("in %(days)d day", "in %(days)d days", days) % {"days": days}


def after(days: str) -> datetime:
    """The moment that a choice of days means now."""
    return timezone.now() + timedelta(days=int(days))


#: How long a form may be open before it is sent.
_SECONDS = 24 * 3_600
_SALT = "mcp_django.once"


class SentBefore(Exception):
    """The form was sent before, and what it makes was made then."""


def new_nonce() -> str:
    """A nonce with the time at which it was made, so that an old one need not be remembered."""
    return TimestampSigner(salt=_SALT).sign(secrets.token_urlsafe(16))


class OnceForm(forms.Form):
    """A form with a nonce, which is used up when the form makes something."""

    nonce = forms.CharField(label="", initial=new_nonce, required=False, max_length=200, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        # The error is the form's: nobody sees the hidden field.
        if "nonce" in self.fields and not _is_ours(data.get("nonce", "")):
            self.add_error(None, _("This form has been open for too long. Open the page again, and fill it in."))
        return data

    def use_up(self) -> None:
        """Call it in the transaction that makes something. Raises SentBefore."""
        if not nonces.claim(_random_part(self.cleaned_data["nonce"]), _SECONDS):
            raise SentBefore


def _is_ours(nonce: str) -> bool:
    try:
        TimestampSigner(salt=_SALT).unsign(nonce, max_age=_SECONDS)
    except BadSignature:
        return False
    return True


def _random_part(nonce: str) -> str:
    return f"form:{nonce.partition(':')[0]}"
