"""The dictionary MCP, installed packages, and other settings that we depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any

import django
from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.cache import InvalidCacheBackendError
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models
from django.utils.module_loading import import_string

from mcp_django.access.authentication import authenticators
from mcp_django.access.throttling.counters import has_chosen_cache
from mcp_django.bridge.resources.fields.field_kinds import NAMED
from mcp_django.bridge.resources.fields.kinds import KINDS
from mcp_django.bridge.uploads.names import is_media_range
from mcp_django.conf import AUDITS, LANDING_PAGES, OAUTH_APP, Conf, get_conf, unknown_keys
from mcp_django.core.db.bounds import BOUNDS
from mcp_django.core.events.bus import configured_bus
from mcp_django.exchange.addresses import problem_of_grpc
from mcp_django.exchange.rates import failure_rates, problems_of_throttles, throttles
from mcp_django.exchange.scopes import known, parse, problems_of_groups
from mcp_django.protocol.unknown_names import nearest

#: The newest Django that the tests have run with: the last of the classifiers in pyproject.toml.
NEWEST_DJANGO = (6, 1)
#: A right that is lent for longer than a week is none for a while.
_MOST_HOURS = 7 * 24
#: Settings that are gone → the option of MCP["BUS"] that has taken their place.
_GONE = {
    "CHANNEL_LAYER": "alias",
    "PUSH_DATABASE": "database",
    "PUSH_LISTEN_DATABASE": "listen_database",
    "PUSH_CHANNEL": "channel",
}


def check_django(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the tests have run with this Django: the requirements rule out no newer one."""
    if django.VERSION[:2] <= NEWEST_DJANGO:
        return []
    newest = ".".join(map(str, NEWEST_DJANGO))
    return [
        Warning(
            f"Django {django.get_version()} is newer than {newest}, the newest that this mcp_django was tested with.",
            hint="Look for a newer mcp_django. If there is none and your own tests pass, add 'mcp_django.W013' to "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W013",
        )
    ]


def check_distributions(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the distribution mcp-django, which has the same import name, is not installed."""
    try:
        distribution("mcp-django")
    except PackageNotFoundError:
        return []
    return [
        Error(
            "The distribution mcp-django is installed too. Its import name is mcp_django as well, so the files of both "
            "overwrite each other.",
            hint="Uninstall both, and install the one that you want: "
            "python -m pip uninstall mcp-django django-admin-mcp-server",
            id="mcp_django.E030",
        )
    ]


def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the dictionary MCP, and other settings that we depend on."""
    found: list[CheckMessage] = []
    known = [field.name for field in fields(Conf)]
    unknown = unknown_keys(getattr(settings, "MCP", {}))
    if unknown:
        # No other setting can be read then.
        hints = {key: f"The option {option!r} of MCP['BUS'] has taken its place." for key, option in _GONE.items()}
        return [
            Error(
                f"MCP has no key {key!r}.",
                hint=hints.get(key) or nearest(key, known).strip() or None,
                id="mcp_django.E001",
            )
            for key in unknown
        ]
    if (problem := problem_of_admin_site()) is not None:
        found.append(Error(f"MCP['ADMIN_SITE'] {problem}.", id="mcp_django.E013"))
    found += [*_check_scopes(), *_check_lendable(), *_check_field_kinds()]
    try:
        configured_bus()
    except ImproperlyConfigured as error:
        found.append(Error(str(error), id="mcp_django.E012"))
    try:
        authenticators(get_conf().AUTHENTICATION_CLASSES)
    except (ImproperlyConfigured, ImportError) as error:
        found.append(Error(f"No call can be answered: {error}", id="mcp_django.E008"))
    for alias, database in settings.DATABASES.items():
        if database.get("AUTOCOMMIT") is False:
            found.append(
                Warning(
                    f"Changes on the database {alias!r} are pushed only where they happen in atomic: "
                    "with AUTOCOMMIT off, Django does not report any other commit.",
                    hint="Leave AUTOCOMMIT on, or write within transaction.atomic().",
                    id="mcp_django.W001",
                )
            )
    found += [
        *_check_logins(),
        *_check_token_days(),
        *_check_try_as(),
        *_check_landing_page(),
        *_check_docs_url(),
        *_check_audit(),
        *_check_throttles(),
        *_check_uploads(),
    ]
    return [*found, *_check_bounds()]


def _check_logins() -> Iterator[CheckMessage]:
    if not (apps.is_installed(OAUTH_APP) or get_conf().SELF_SERVICE):
        return
    for middleware in ("SessionMiddleware", "AuthenticationMiddleware"):
        # A project may have one of its own, by another name.
        if not any(middleware.removesuffix("Middleware") in entry for entry in settings.MIDDLEWARE):
            yield Error(
                f"Nobody can log in: MIDDLEWARE has no {middleware}.",
                hint="Add it, or do without the app mcp_django.oauth and MCP['SELF_SERVICE'].",
                id="mcp_django.E023",
            )


def _check_try_as() -> Iterator[CheckMessage]:
    if get_conf().TRY_AS and get_conf().AUDIT == "off":
        yield Warning(
            "MCP['TRY_AS'] does nothing: MCP['AUDIT'] is off, and nobody acts as another user without a trace.",
            hint='Set AUDIT to "on", or take TRY_AS out.',
            id="mcp_django.W027",
        )


def _check_token_days() -> Iterator[CheckMessage]:
    for name in ("TOKEN_DAYS", "TOKEN_MAX_DAYS"):
        days = getattr(get_conf(), name)
        if days is not None and days < 1:
            hint = "A token lives for a day at least."
            yield Error(f"MCP[{name!r}] is {days}.", hint=hint, id="mcp_django.E028")


def _check_uploads() -> Iterator[CheckMessage]:
    types: Any = get_conf().UPLOAD_TYPES
    wrong = [types] if isinstance(types, str) else [one for one in types if not is_media_range(one)]
    if wrong:
        hint = 'Write media types, as ["image/*", "text/csv"].'
        yield Error(f"MCP['UPLOAD_TYPES'] has {wrong[0]!r}.", hint=hint, id="mcp_django.E029")


def _check_landing_page() -> Iterator[CheckMessage]:
    page = get_conf().LANDING_PAGE
    if page not in LANDING_PAGES:
        hint = f"Choose one of {', '.join(map(repr, LANDING_PAGES))}."
        yield Error(f"MCP['LANDING_PAGE'] is {page!r}.", hint=hint, id="mcp_django.E027")


def _check_docs_url() -> Iterator[CheckMessage]:
    url: Any = get_conf().DOCS_URL
    if not isinstance(url, str) or (url and not url.startswith(("https://", "http://", "/"))):
        hint = 'Write a URL, as "https://docs.example.com/mcp", a path of this site, as "/docs", or "" for no links.'
        yield Error(f"MCP['DOCS_URL'] is {url!r}.", hint=hint, id="mcp_django.E031")


def _check_audit() -> Iterator[CheckMessage]:
    conf = get_conf()
    if conf.AUDIT not in AUDITS:
        hint = f"Choose one of {', '.join(AUDITS)}."
        yield Error(f"MCP['AUDIT'] is {conf.AUDIT!r}.", hint=hint, id="mcp_django.E017")
    if conf.AUDIT_DAYS is not None and conf.AUDIT_DAYS < 0:
        yield Error("MCP['AUDIT_DAYS'] is negative.", hint="0 or None keeps all lines.", id="mcp_django.E017")


def _check_throttles() -> Iterator[CheckMessage]:
    problems = list(problems_of_throttles(get_conf().THROTTLES))
    for problem in problems:
        yield Error(f"MCP['THROTTLES'] {problem}", id="mcp_django.E020")
    if not problems:
        yield from _check_addresses()
    try:
        is_used = has_chosen_cache()
    except InvalidCacheBackendError as error:
        yield Error(f"MCP['THROTTLE_CACHE']: {error}", hint="Name an alias of CACHES, or None.", id="mcp_django.E021")
        return
    if not is_used:
        yield Warning(
            f"MCP['THROTTLE_CACHE'] names the cache {get_conf().THROTTLE_CACHE!r}, which does not count for all "
            "processes at once. The database counts.",
            hint="Name a cache in Redis or Memcached, or None.",
            id="mcp_django.W020",
        )


def _check_addresses() -> Iterator[CheckMessage]:
    """Check for a proxy that other settings know of: without TRUSTED_PROXIES all callers have the proxy's address."""
    proxied = [name for name in ("SECURE_PROXY_SSL_HEADER", "USE_X_FORWARDED_HOST") if getattr(settings, name)]
    if proxied and not get_conf().TRUSTED_PROXIES and (failure_rates() or "address" in throttles()):
        yield Warning(
            f"{proxied[0]} says that there is a proxy in front of the server, and MCP['TRUSTED_PROXIES'] is 0. So all "
            "callers have the proxy's address, and one of them can use up its limits for all.",
            hint="Set TRUSTED_PROXIES to the number of proxies, or the limits of 'address' in THROTTLES to None.",
            id="mcp_django.W021",
        )
    unknown = problem_of_grpc() if find_spec("grpc") is not None else None
    if unknown is not None:
        yield Warning(
            unknown,
            hint="Set GRPC_TRUSTED_PROXIES to the number of proxies before mcp_grpc; 0 where there is none.",
            id="mcp_django.W028",
        )


def _check_scopes() -> Iterator[CheckMessage]:
    for _, problem in problems_of_groups(get_conf().SCOPE_GROUPS):
        yield Error(
            f"MCP['SCOPE_GROUPS']: {problem}",
            hint='Write it as {"sales": ["model:shop.order:read", "tool:refund_order"]}. As it is, it grants nothing.',
            id="mcp_django.E016",
        )
    for name in ("DEFAULT_SCOPES", "ANONYMOUS_SCOPES", "SELF_SERVICE"):
        try:
            parse(getattr(get_conf(), name))
        except ValueError as error:
            hint = "Correct it or leave it out: a name that is no scope grants nothing."
            yield Error(f"MCP[{name!r}]: {error}.", hint=hint, id="mcp_django.E016")


def _check_lendable() -> Iterator[CheckMessage]:
    lendable: Any = get_conf().LENDABLE
    problem = ""
    if not isinstance(lendable, Mapping):
        problem, lendable = "is no dictionary", {}
    for name, hours in lendable.items():
        is_number = isinstance(hours, (int, float)) and not isinstance(hours, bool)
        if not isinstance(name, str) or name not in known([name]):
            problem = f"names {name!r}, which is no scope"
        elif not is_number or not 0 < hours <= _MOST_HOURS:
            problem = f"gives {name!r} {hours!r} hours"
    if problem:
        hint = f'Write it as {{"write": 8}}: scopes, each with the most hours, {_MOST_HOURS} at most.'
        yield Error(f"MCP['LENDABLE'] {problem}.", hint=hint, id="mcp_django.E033")


def _check_field_kinds() -> Iterator[CheckMessage]:
    for path, kind in get_conf().FIELD_KINDS.items():
        problem, hint = "", None
        try:
            cls = import_string(path)
        except ImportError as error:
            problem = f"names {path!r}, which cannot be imported: {error}"
        else:
            if not isinstance(cls, type) or not issubclass(cls, models.Field):
                problem = f"names {path!r}, which is no class of fields"
            elif issubclass(cls, models.ForeignKey):
                problem = f"names {path!r}, which is a relation: its values are of the kind of the field it points to"
            elif cls in KINDS:
                problem = f"names {path!r}, whose kind is {KINDS[cls].name!r} in any case"
            elif kind not in NAMED:
                problem = f"gives {path!r} the kind {kind!r}, which does not exist"
                hint = nearest(kind, NAMED).strip() or f"Kinds: {', '.join(NAMED)}."
            elif NAMED[kind].linked and not issubclass(cls, models.FileField):
                problem = f"gives {path!r} the kind {kind!r}, but it is not a FileField"
        if problem:
            yield Error(f"MCP['FIELD_KINDS'] {problem}.", hint=hint, id="mcp_django.E014")


def _check_bounds() -> Iterator[CheckMessage]:
    """Check for databases that cannot enforce STATEMENT_SECONDS and READ_ONLY_TRANSACTIONS."""
    conf = get_conf()
    wanted = [name for name in ("STATEMENT_SECONDS", "READ_ONLY_TRANSACTIONS") if getattr(conf, name)]
    for alias in settings.DATABASES if wanted else ():
        connection = connections[alias]
        if connection.vendor not in BOUNDS:
            yield Warning(
                f"{' and '.join(wanted)} cannot be enforced on the database {alias!r}, "
                f"which is {connection.display_name}.",
                hint="Limit its user in the database itself, or expose no model that is stored there.",
                id="mcp_django.W008",
            )


def problem_of_admin_site() -> str | None:
    path = get_conf().ADMIN_SITE
    if not path:
        return None
    try:
        named = import_string(path)
    except ImportError as error:
        return f"cannot be imported: {error}"
    return None if isinstance(named, AdminSite) else f"names {named!r}, which is no AdminSite"
