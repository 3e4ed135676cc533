"""Who makes a token: whoever holds its plain text, and so stands behind what is done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext

from mcp_django.bridge.changes import change_rows
from mcp_django.models import AccessToken

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


def maker_of(site: MCPSite, request: HttpRequest, owner: Any) -> str:
    """The key of the owner; or of somebody else who makes a token for the owner, or acts as the owner."""
    return min(site.persons_of(request) - {str(owner.pk)}, default=str(owner.pk))


def maker_in_words(token: AccessToken) -> str:
    """Who made a token, or that nobody knows."""
    if not token.made_by:
        return gettext("not recorded, so it counts as made by its user")
    people: Any = get_user_model()._default_manager
    try:
        maker = people.filter(pk=token.made_by).first()
    except (ValidationError, ValueError):
        maker = None
    return gettext("a user who was deleted") if maker is None else str(maker)


def record_maker(token: AccessToken, maker: Any) -> int:
    """Record who made a token, and those of its credential line, where that is not known. Returns how many they are.

    A maker that is recorded stays, since nobody talks himself out of what he stands behind. Changes that the line has
    proposed already and that wait have the maker behind them too.
    """
    key = str(maker.pk)
    with transaction.atomic(using=AccessToken.objects.db):
        unknown = list(AccessToken.objects.select_for_update().filter(line=token.line, made_by="").order_by("pk"))
        for one in unknown:
            one.made_by = key
            one.save(update_fields=["made_by"])
    if unknown:
        change_rows.add_person(str(token.line), key)
    return len(unknown)
