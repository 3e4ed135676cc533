"""``manage.py mcp_connect [CLIENT]``: the lines that connect a client, as the page at the endpoint shows them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.urls import NoReverseMatch, reverse

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import OAUTH_APP, URL_LINE, get_conf
from mcp_django.console.pages.connecting import TOKEN_VARIABLE, ClientSetup, client_setups
from mcp_django.console.pages.project_name import server_name
from mcp_django.management.arguments import find_site
from mcp_django.protocol.names import printable
from mcp_django.protocol.unknown_names import nearest

#: Where ``runserver`` serves.
_RUNSERVER = "http://127.0.0.1:8000"


class Command(BaseCommand):
    help = "Print how each client is connected, or only what is pasted for one of them."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("client", nargs="?", metavar="CLIENT", help="The client, such as claude-code.")
        parser.add_argument(
            "--url",
            metavar="URL",
            help=f"The endpoint as the client reaches it. Default: that of BASE_URL, or of runserver ({_RUNSERVER}).",
        )
        parser.add_argument("--site", metavar="NAME", help="The site, where there are several.")

    def handle(self, *args: Any, **options: Any) -> None:
        site = find_site(options["site"])
        endpoint = _endpoint(site) if options["url"] is None else _checked(options["url"])
        setups = client_setups(endpoint, server_name(site), logs_in=apps.is_installed(OAUTH_APP))
        if options["client"] is not None:
            setup = _named(options["client"], setups)
            self._tell(setup.where)
            self.stdout.write(setup.plain_text())
        else:
            for setup in setups:
                self.stdout.write(f"{setup.title}. {str(setup.where).rstrip('.')}:\n\n{setup.plain_text()}\n\n")
        if any(TOKEN_VARIABLE in setup.plain_text() for setup in setups):
            self._tell(f"A token for {TOKEN_VARIABLE}, or instead of YOUR_TOKEN: manage.py mcp_token USERNAME")

    def _tell(self, text: Any) -> None:
        """Tell the person, beside what is pasted."""
        self.stderr.write(str(text), lambda line: line)


def _endpoint(site: MCPSite) -> str:
    """The URL of the endpoint by the settings. Raises CommandError."""
    conf = get_conf()
    base = conf.OAUTH_ORIGIN or conf.BASE_URL or _RUNSERVER
    try:
        path = reverse("mcp_django:endpoint", current_app=site.name)
    except NoReverseMatch:
        raise CommandError(f"The URLconf has no endpoint: add {URL_LINE} to it.") from None
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}{path}"


def _checked(url: str) -> str:
    """The URL of an endpoint that somebody has named. Raises CommandError."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and printable(url) == url
    except ValueError:
        is_url = False
    if not is_url:
        raise CommandError(f"--url: {url!r} is no URL of an endpoint, as https://example.com/mcp.")
    return url


def _named(name: str, setups: Sequence[ClientSetup]) -> ClientSetup:
    """The setup of the client of that key or title. Raises CommandError."""
    known = {one: setup for setup in setups for one in (setup.key, setup.title)}
    found = {one.lower(): setup for one, setup in known.items()}.get(name.lower())
    if found is None:
        keys = ", ".join(setup.key for setup in setups)
        raise CommandError(f"There is no client {name!r} for this endpoint.{nearest(name, known)} There are: {keys}.")
    return found
