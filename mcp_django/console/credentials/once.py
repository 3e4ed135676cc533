"""Forms that make something once: a reload of the answer, or a second click, makes nothing more."""

from __future__ import annotations

import secrets
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, TimestampSigner
from django.utils.translation import gettext_lazy as _

from mcp_django.access import nonces

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

    nonce = forms.CharField(initial=new_nonce, required=False, max_length=200, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        # The error is the form's: nobody sees the hidden field.
        if "nonce" in self.fields and not _is_ours(data.get("nonce", "")):
            raise ValidationError(_("This form has been open for too long. Open the page again, and fill it in."))
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
