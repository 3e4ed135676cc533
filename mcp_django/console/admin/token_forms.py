"""The forms of tokens: what a new one may do, when it ends, and how its successor takes over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from mcp_django.conf import get_conf
from mcp_django.console.credentials.lifetimes import LifetimeForm, OnceForm, after, nearest_to
from mcp_django.console.credentials.limits_field import LimitsField
from mcp_django.console.credentials.scope_choices import ScopeChoices
from mcp_django.console.credentials.scope_field import ScopeField
from mcp_django.exchange import scopes
from mcp_django.exchange.addresses import parse_networks
from mcp_django.models import AccessToken, TokenTemplate
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
            yield _NEVER, pgettext_lazy("lifetime", "never")

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


class RightsForm(forms.ModelForm):  # type: ignore[type-arg]
    """What a token may do: its scopes, and how much of it in a time."""

    scopes = ScopeField(
        label=_("Scopes"),
        help_text=_("The agent may do what both the user and these scopes allow. Actions and writes need read too."),
    )
    limits = LimitsField(
        label=_("Limits"), required=False,
        help_text=_("How much the agent may do in a given time. The settings limit it too, and the lower limit holds."),
    )  # fmt: skip

    #: What the editor may choose from, and where a page says in words what that means.
    offered = ScopeChoices()
    words_url = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A page without the permission to change shows no fields.
        if "scopes" not in self.fields:
            return
        own, field = self.instance, cast("ScopeField", self.fields["scopes"])
        exists = own.pk is not None
        field.offer(self.offered, own.scopes if exists else (), self.words_url)
        cast("LimitsField", self.fields["limits"]).kept = own.limits if exists else {}
        if exists:
            self.initial.update(scopes=own.scopes, limits=own.limits)

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        # They are no fields of the model's own form, which would refuse to keep the name of a group that is gone.
        for name in ("scopes", "limits"):
            if name in data:
                setattr(self.instance, name, data[name])
        return data


#: The fields of RightsForm, which a ModelAdmin must exclude.
OF_RIGHTS = ["scopes", "limits"]


class AccessTokenForm(OnceForm, ExpiryForm, RightsForm):
    addresses = forms.CharField(
        label=_("Addresses"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_("The only addresses and networks that may use it, as 192.0.2.7, 2001:db8::/32. Empty: all."),
    )

    class Meta:
        model = AccessToken
        fields = ["user", "name", "addresses", "expires_at"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = dict(kwargs.pop("initial", None) or {})
        self.template: TokenTemplate | None = given.pop("template", None)
        #: How many of the template's scopes its user may not give.
        self.left_out = 0
        super().__init__(*args, initial=given, **kwargs)
        token = self.instance
        if token.pk is not None:
            del self.fields["nonce"]
            self.initial["addresses"] = ", ".join(token.addresses)
            return
        self.fields["name"].required = True
        if self.template is not None:
            own = [scope for scope in self.template.scopes if scope in self.offered.every_scope]
            self.left_out = len(self.template.scopes) - len(own)
            self.initial.update(scopes=own, limits=self.template.limits)
        else:
            self.initial.setdefault("scopes", [scopes.READ])

    def _first_lifetime(self) -> str:
        """For a token that exists, the end that it has; for a new one, that of its template."""
        if self.instance.pk is not None:
            return _NEVER if self.instance.expires_at is None else _DATE
        template = self.template
        return super()._first_lifetime() if template is None or template.days is None else nearest_to(template.days)

    def clean_addresses(self) -> list[str]:
        typed, wrong = self.cleaned_data["addresses"].split(","), []
        for one in typed:
            try:
                parse_networks([one])
            except ValueError as error:
                wrong.append(str(error))
        if wrong:
            raise ValidationError(wrong)
        return parse_networks(typed)

    def _sets_expiry(self) -> bool:
        if self.instance.pk is None or "lifetime" in self.changed_data:
            return True
        return self.cleaned_data.get("lifetime") == _DATE and "expires_at" in self.changed_data

    def _created_at(self) -> datetime:
        return cast("datetime", self.instance.created_at)
