"""The tokens of a person: those that act as that person now, and new ones within SELF_SERVICE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcp_django.access import nonces
from mcp_django.conf import get_conf
from mcp_django.console.credentials.lendings import ShownLending
from mcp_django.console.credentials.lifetimes import LifetimeForm, OnceForm
from mcp_django.console.credentials.makers import maker_of
from mcp_django.console.credentials.scopes import OfferedScope, describe
from mcp_django.core.secret import Secret
from mcp_django.exchange.scopes import READ, known, parse
from mcp_django.models import AccessToken, Lending, sealed

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite

#: A person with this many tokens must revoke one before making another. Forms that are sent at the same time may exceed
#: it by a few.
MOST = 20
#: The page lists the newest tokens.
LISTED = 100


def tokens_of(user: Any) -> models.QuerySet[AccessToken]:
    """The tokens that act as the user now, whoever made them, without those of OAuth clients. The latest first."""
    return AccessToken.objects.current().filter(user=user, grant__isnull=True)


def with_lendings(tokens: Iterable[AccessToken]) -> list[tuple[AccessToken, list[ShownLending]]]:
    """Each of the tokens of a person with what it is lent."""
    lent: dict[UUID, list[ShownLending]] = defaultdict(list)
    shown = list(tokens)
    for one in Lending.objects.in_use().filter(lineage__in={token.line for token in shown}, grant_id=None):
        lent[one.lineage].append(ShownLending.of(one))
    return [(token, lent[token.line]) for token in shown]


class OwnTokenForm(OnceForm, LifetimeForm):
    """A new token of the person of the request."""

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("What the token is for, such as “Claude on my laptop”.")
    )
    scopes = forms.MultipleChoiceField(label=_("It may"), error_messages={"required": _("Choose what it may do.")})

    def __init__(self, request: HttpRequest, site: MCPSite, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self._request, self._site = request, site
        self._user: Any = request.user
        self._scopes = parse(known(get_conf().SELF_SERVICE))
        self.fields["scopes"].choices = [(name, name) for name in self._scopes]  # type: ignore[attr-defined]

    @property
    def offered(self) -> Sequence[OfferedScope]:
        """What may be chosen, in words."""
        ticked = self.data.getlist("scopes") if isinstance(self.data, QueryDict) else [READ]
        return describe(self._site, self._request, self._scopes, ticked)

    def make(self) -> tuple[AccessToken, Secret]:
        """The new token and its plain text. Raises SentBefore, and ValidationError where there may be none."""
        with transaction.atomic(using=nonces.database()):
            self.use_up()
            if tokens_of(self._user).count() >= MOST:
                text = ngettext("You have %(count)d token. Revoke it.",
                                "You have %(count)d tokens. Revoke one that is not used.", MOST)  # fmt: skip
                raise ValidationError(text % {"count": MOST})
            return sealed(
                AccessToken.objects.create_token(
                    user=self._user,
                    name=self.cleaned_data["name"],
                    scopes=self.cleaned_data["scopes"],
                    expires_at=self.expiry,
                    made_by=maker_of(self._site, self._request, self._user),
                )
            )


def revoke(user: Any, key: str) -> AccessToken | None:
    """End the user's token with this key, and return it. None: the user has no such token, or it has ended already."""
    # Compared here: a form may hold texts that a database cannot take.
    token = next((one for one in tokens_of(user) if str(one.pk) == key), None)
    if token is not None:
        token.revoke()
    return token
