"""The forms of tokens: what a new one may do, when it ends, and how its successor takes over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, AdminTextareaWidget, AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.sites import names_nothing
from mcp_django.conf import get_conf
from mcp_django.console.credentials.lifetimes import LifetimeForm, OnceForm, after
from mcp_django.exchange import scopes
from mcp_django.exchange.addresses import parse_networks
from mcp_django.models import AccessToken
from mcp_django.models.tokens import NEVER, Expiry, check_expiry, default_expiry

_DATE, _NEVER = "date", "never"
#: Nobody means a later moment, and the last ones of the calendar cannot be converted to UTC.
_FARTHEST = timedelta(days=36_525)


class _MomentWidget(AdminSplitDateTime):
    """The admin's widget, with a label for each of its two inputs."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        for part, label in zip(self.widgets, (_("Date"), _("Time")), strict=True):
            part.attrs["aria-label"] = label


class ExpiryForm(LifetimeForm):
    """When a token ends: after some days, at a moment, or never, which must be chosen."""

    lifetime = forms.ChoiceField(
        label=_("Ends"),
        help_text=_("Prefer a token that ends, and roll it before it does. One without an end must be revoked."),
    )
    expires_at = forms.SplitDateTimeField(
        label=_("Date"), required=False, widget=_MomentWidget, help_text=_("Only where “on a date” is chosen.")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.initial["lifetime"] == _DATE:
            self.initial.setdefault("expires_at", default_expiry(timezone.now()))

    def _lifetimes(self) -> Iterator[tuple[str, str | Promise]]:
        yield from super()._lifetimes()
        yield _DATE, _("on a date")
        if get_conf().TOKEN_MAX_DAYS is None or self._first_lifetime() == _NEVER:
            yield _NEVER, _("never")

    def clean_expires_at(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["expires_at"]
        if moment is not None and moment > timezone.now() + _FARTHEST:
            raise ValidationError(_("Name a date within 100 years, or choose never."))
        return moment

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        self._read_expiry(data)
        if self._sets_expiry() and not {"lifetime", "expires_at"} & self.errors.keys():
            try:
                check_expiry(data["expires_at"], self._created_at())
            except ValidationError as error:
                self.add_error("expires_at" if data["lifetime"] == _DATE else "lifetime", error)
        return data

    def _read_expiry(self, data: dict[str, Any]) -> None:
        """Put the moment that was chosen into ``expires_at``. Its own input counts only for a date."""
        lifetime: str | None = data.get("lifetime")
        if lifetime == _DATE:
            if data.get("expires_at") is None and "expires_at" not in self.errors:
                self.add_error("expires_at", _("Name a date and a time."))
            return
        self.errors.pop("expires_at", None)
        data["expires_at"] = None if lifetime is None or lifetime == _NEVER else after(lifetime)

    def _sets_expiry(self) -> bool:
        return True

    def _created_at(self) -> datetime:
        return timezone.now()

    @property
    def expiry(self) -> Expiry:
        """As ``create_token`` takes it."""
        return cast("datetime | None", self.cleaned_data["expires_at"]) or NEVER


class RollForm(OnceForm, ExpiryForm):
    """How a token is replaced by its successor."""

    grace = forms.TypedChoiceField(
        label=_("The old token ends"),
        coerce=int,
        choices=[(0, _("at once")), (3_600, _("in an hour")), (86_400, _("in a day")), (604_800, _("in a week"))],
        help_text=_("Until then both tokens are valid, so that the agent can be given the new one without a break."),
    )
    field_order = ["grace", "lifetime", "expires_at"]


class AccessTokenForm(OnceForm, ExpiryForm, forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=list(scopes.SCOPES.items()),
        required=False,
        # The admin's style sheet gives labels of such a list their full width.
        widget=forms.CheckboxSelectMultiple(attrs={"class": "radiolist"}),
        initial=[scopes.READ],
        help_text=_("The agent may do what both the user and these scopes allow. Actions and writes need read too."),
    )
    single_scopes = forms.CharField(
        label=_("Single models and tools"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_(
            "Separated by commas. model:app.model:read reads one model, model:app.model:write writes it, tool:NAME "
            "calls one tool. They allow only that, so leave the boxes above empty for an agent that must do nothing "
            "else."
        ),
    )
    addresses = forms.CharField(
        label=_("Addresses"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_("The only addresses and networks that may use it, as 192.0.2.7, 2001:db8::/32. Empty: all."),
    )

    class Meta:
        model = AccessToken
        fields = ["user", "name", "scopes", "addresses", "limits", "expires_at"]
        widgets = {"limits": AdminTextareaWidget(attrs={"rows": 2})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        token = self.instance
        if token.pk is None:
            self.fields["name"].required = True
            return
        del self.fields["nonce"]
        self.initial["scopes"] = [scope for scope in token.scopes if scope in scopes.SCOPES]
        self.initial["single_scopes"] = ", ".join(scope for scope in token.scopes if scope not in scopes.SCOPES)
        self.initial["addresses"] = ", ".join(token.addresses)

    def _first_lifetime(self) -> str:
        """For a token that exists, the end that it has."""
        if self.instance.pk is None:
            return super()._first_lifetime()
        return _NEVER if self.instance.expires_at is None else _DATE

    def clean_addresses(self) -> list[str]:
        try:
            return parse_networks(self.cleaned_data["addresses"].split(","))
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean_single_scopes(self) -> list[str]:
        try:
            named = scopes.parse(self.cleaned_data["single_scopes"].split(","))
        except ValueError as error:
            raise ValidationError(str(error)) from None
        # What an old token names may no longer exist.
        kept = [] if self.instance.pk is None else list(self.instance.scopes)
        new = [scope for scope in named if scope not in kept]
        if problems := [problem for scope in new if (problem := names_nothing(scope))]:
            raise ValidationError(problems)
        return named

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        if "single_scopes" in data:
            data["scopes"] = scopes.parse([*data.get("scopes", []), *data["single_scopes"]])
            if not data["scopes"] and "scopes" not in self.errors:
                self.add_error("scopes", _("Choose at least one scope, or name a model or a tool."))
        return data

    def _sets_expiry(self) -> bool:
        if self.instance.pk is None or "lifetime" in self.changed_data:
            return True
        return self.cleaned_data.get("lifetime") == _DATE and "expires_at" in self.changed_data

    def _created_at(self) -> datetime:
        return cast("datetime", self.instance.created_at)

    def clean_limits(self) -> dict[str, Any]:
        return self.cleaned_data["limits"] or {}
