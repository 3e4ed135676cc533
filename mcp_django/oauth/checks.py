"""The system checks of logging in: settings, templates, and what a deployment would hide from clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.http.request import validate_host
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.urls import Resolver404, resolve

from mcp_django.conf import get_conf, unknown_keys
from mcp_django.exchange.audience import ENDPOINT, normal_origin
from mcp_django.exchange.scopes import parse
from mcp_django.oauth import paths

#: The values of OAUTH_REGISTRATION.
MODES = ("off", "known", "open")
LINE = 'path("", include("mcp_django.oauth.well_known"))'


@register("mcp_django")
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the settings of logging in can be used, and the pages shown."""
    if unknown_keys(getattr(settings, "MCP", {})):
        return []  # Another check reports them, and no setting can be read.
    return [*_settings(), *_pages(), *_routes()]


@register("mcp_django", Tags.security, deploy=True)
def check_deployment(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Whether a deployment would keep clients from logging in, or let too many in."""
    if unknown_keys(getattr(settings, "MCP", {})):
        return []
    return [
        Warning(problem, hint=f"{hint} Or add 'mcp_django.W023' to SILENCED_SYSTEM_CHECKS.", id="mcp_django.W023")
        for problem, hint in deployment_problems()
    ]


def _settings() -> Iterator[CheckMessage]:
    for problem, hint in setting_problems():
        yield Error(problem, hint=hint, id="mcp_django.E022")


def setting_problems() -> Iterator[tuple[str, str]]:
    """What is wrong with the settings ``OAUTH_…``, each with its remedy."""
    conf = get_conf()
    origin = conf.OAUTH_ORIGIN
    if origin and not _is_origin(origin):
        yield (
            f"MCP['OAUTH_ORIGIN'] is {origin!r}, which is no scheme and host.",
            'Write it as "https://example.com": small letters, no path and no slash at the end.',
        )
    try:
        parse(conf.OAUTH_SCOPES)
    except ValueError as error:
        yield f"MCP['OAUTH_SCOPES'] has an {error}.", "Name scopes of docs/access.md."
    if conf.OAUTH_REGISTRATION not in MODES:
        yield f"MCP['OAUTH_REGISTRATION'] is {conf.OAUTH_REGISTRATION!r}.", f"It is one of {', '.join(MODES)}."
    users = conf.OAUTH_USERS
    if users and not callable(users) and "." not in users:
        yield f"MCP['OAUTH_USERS'] is {users!r}, which is no permission.", 'Write it as "app.codename".'
    if conf.OAUTH_GRACE_SECONDS < 0:
        yield "MCP['OAUTH_GRACE_SECONDS'] is negative.", "0 takes every second use of a refresh token for theft."


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and normal_origin(text) == text
    except ValueError:
        return False


def _pages() -> Iterator[CheckMessage]:
    try:
        get_template("mcp_django/oauth/consent.html")
    except TemplateDoesNotExist:
        yield Error(
            "The page on which people agree cannot be found.",
            hint='Set "APP_DIRS": True in TEMPLATES, or name a loader of the apps\' templates.',
            id="mcp_django.E023",
        )


def _routes() -> Iterator[CheckMessage]:
    for where in paths.endpoints():
        if where == f"/{ENDPOINT}":
            continue
        try:
            resolve(f"/{paths.RESOURCE_METADATA}{where}")
        except Resolver404:
            yield Warning(
                f"The endpoint is at {where}, and clients do not find its documents at the root of the host.",
                hint=f"Add {LINE} to the root URLconf. Below a SCRIPT_NAME, the web server must do it: docs/oauth.md.",
                id="mcp_django.W022",
            )


def deployment_problems() -> Iterator[tuple[str, str]]:
    """What would keep clients of a deployment from logging in, each with its remedy."""
    conf = get_conf()
    parts = urlsplit(conf.OAUTH_ORIGIN)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        yield "MCP['OAUTH_ORIGIN'] is http: clients refuse it, and tokens can be read on the way.", "Serve it by https."
    if parts.hostname and not validate_host(parts.hostname, settings.ALLOWED_HOSTS):
        yield f"ALLOWED_HOSTS lacks the host of MCP['OAUTH_ORIGIN'], {parts.hostname}.", "Add it."
    if "*" in settings.ALLOWED_HOSTS and not conf.OAUTH_ORIGIN:
        yield (
            "ALLOWED_HOSTS admits every host, so documents and tokens name whatever host a request names.",
            "Name your hosts, or set MCP['OAUTH_ORIGIN'].",
        )
    if conf.TRUSTED_PROXIES and not settings.SECURE_PROXY_SSL_HEADER and parts.scheme != "https":
        yield (
            "There is a proxy in front of the server and no SECURE_PROXY_SSL_HEADER, so documents may name http URLs.",
            "Set SECURE_PROXY_SSL_HEADER as your proxy sends it, or MCP['OAUTH_ORIGIN'] to your https origin.",
        )
    if conf.OAUTH_REGISTRATION == "open":
        yield (
            "MCP['OAUTH_REGISTRATION'] is open: any web page may register itself as a client, under any name.",
            '"known" admits the clients that people use.',
        )
    if str(settings.SESSION_COOKIE_SAMESITE).lower() == "strict":
        yield (
            "SESSION_COOKIE_SAMESITE is Strict: a person who comes from a client's page is asked to log in every time.",
            'Set it to "Lax", which is the default.',
        )
