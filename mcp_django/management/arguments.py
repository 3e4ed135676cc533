"""Arguments that several commands share: the user, the scopes and the site."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from mcp_django.bridge.sites import MCPSite, all_sites, names_nothing
from mcp_django.core.events.bus import LocalBus, get_bus
from mcp_django.exchange import scopes
from mcp_django.protocol.unknown_names import nearest

logger = logging.getLogger("mcp_django")


def find_user(username: str) -> Any:
    """The active user of that name. Raises CommandError."""
    user = find_person(username)
    if not user.is_active:
        raise CommandError(f"The user {username!r} is inactive, so an agent would be refused.")
    return user


def find_person(username: str) -> Any:
    """The user of that name, active or not. Raises CommandError."""
    user_model = get_user_model()
    try:
        return user_model._default_manager.get_by_natural_key(username)
    except user_model.DoesNotExist:
        raise CommandError(f"There is no user {username!r}. Make one with: manage.py createsuperuser") from None


def parse_scopes(names: str) -> list[str]:
    """The scopes that the option ``--scopes`` names, separated by commas. Raises CommandError."""
    try:
        wanted = scopes.parse(names.split(","))
    except ValueError as error:
        raise CommandError(f"--scopes: {error}.") from None
    if not wanted:
        raise CommandError(f"--scopes: name at least one of {scopes.GRAMMAR}.")
    for scope in wanted:
        if problem := names_nothing(scope):
            raise CommandError(f"--scopes: {problem}")
    return wanted


def find_site(name: str | None) -> MCPSite:
    """The site of that name; without a name, the one that the URLconf serves. Raises CommandError."""
    sites = {site.name: site for site in all_sites()}
    if name is not None:
        if name not in sites:
            raise CommandError(f"--site: there is no site {name!r}.{nearest(name, sites)}")
        return sites[name]
    served = [site for site in sites.values() if site.is_served] or list(sites.values())
    if len(served) > 1:
        raise CommandError(f"--site: name one of {', '.join(sorted(site.name for site in served))}.")
    return served[0]


def warn_of_a_local_bus() -> None:
    """Warn if changes of other processes do not reach this one, which serves on its own."""
    if isinstance(get_bus(), LocalBus):
        logger.warning("Neither CHANNEL_LAYERS nor MCP['BUS'] reaches other processes: their changes are not pushed.")


SCOPES_HELP = f"Scopes, separated by commas: {scopes.GRAMMAR}. Default: {scopes.READ}."
