"""System checks: problems in how the project uses mcp_django, each with its remedy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from sysconfig import get_path
from typing import Any

import django
from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.admin import AdminSite, ModelAdmin
from django.core import mail
from django.core.cache import InvalidCacheBackendError
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import connections, models
from django.db.models.base import ModelBase
from django.utils.module_loading import import_string
from rest_framework.serializers import ModelSerializer, Serializer

from mcp_django.access.authentication import authenticators
from mcp_django.access.counters import has_chosen_cache
from mcp_django.admin_form import is_record_field
from mcp_django.compat.admin import model_admins, served_admin_sites
from mcp_django.conf import AUDITS, LANDING_PAGES, OAUTH_APP, Conf, get_conf, unknown_keys
from mcp_django.content import write_annotations
from mcp_django.db.bounds import BOUNDS
from mcp_django.events.bus import CORE, IN_MEMORY, PUBSUB, layer_config, push_databases
from mcp_django.exchange.rates import failure_rates, problems_of_throttles, throttles
from mcp_django.exchange.scopes import parse, problems_of_groups
from mcp_django.middleware_policy import skips_middleware, unknown_middleware
from mcp_django.options import ModelMCP, row_hook
from mcp_django.resources.field_kinds import NAMED, kind_of
from mcp_django.resources.indexes import index_for, is_indexed, own_columns
from mcp_django.resources.kinds import KINDS
from mcp_django.resources.policy import Rights
from mcp_django.secrets import is_ours, is_secret_field
from mcp_django.sites import MCPSite, all_sites, superusers_request
from mcp_django.tasks import framework
from mcp_django.tools.actions import AdminActionTool, declared_actions
from mcp_django.unknown_names import nearest
from mcp_django.writes.checks import check_model as check_writes

#: The newest Django that the tests have run with: the last of the classifiers in pyproject.toml.
NEWEST_DJANGO = (6, 1)


@register("mcp_django")
def check_django(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the tests have run with this Django: the requirements rule out no newer one."""
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


@register("mcp_django")
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the dictionary MCP, and other settings that we depend on."""
    found: list[CheckMessage] = []
    known = [field.name for field in fields(Conf)]
    unknown = unknown_keys(getattr(settings, "MCP", {}))
    if unknown:
        # No other setting can be read then.
        return [
            Error(f"MCP has no key {key!r}.", hint=nearest(key, known).strip() or None, id="mcp_django.E001")
            for key in unknown
        ]
    try:
        layer_config()
    except ImproperlyConfigured as error:
        found.append(Error(str(error), id="mcp_django.E002"))
    if (problem := _problem_of_admin_site()) is not None:
        found.append(Error(f"MCP['ADMIN_SITE'] {problem}.", id="mcp_django.E013"))
    found += [*_check_scopes(), *_check_field_kinds()]
    try:
        push_databases()
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
        *_check_audit(),
        *_check_throttles(),
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


def _check_landing_page() -> Iterator[CheckMessage]:
    page = get_conf().LANDING_PAGE
    if page not in LANDING_PAGES:
        hint = f"Choose one of {', '.join(map(repr, LANDING_PAGES))}."
        yield Error(f"MCP['LANDING_PAGE'] is {page!r}.", hint=hint, id="mcp_django.E027")


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
            f"{proxied[0]} says that a proxy stands before the server, and MCP['TRUSTED_PROXIES'] is 0. So all callers "
            "have the proxy's address, and one of them can use up its limits for all.",
            hint="Set TRUSTED_PROXIES to the number of proxies, or the limits of 'address' in THROTTLES to None.",
            id="mcp_django.W021",
        )


def _check_scopes() -> Iterator[CheckMessage]:
    for _, problem in problems_of_groups(get_conf().SCOPE_GROUPS):
        yield Error(
            f"MCP['SCOPE_GROUPS']: {problem}",
            hint='Write it as {"sales": ["model:shop.order:read", "tool:refund_order"]}. As it is it grants nothing.',
            id="mcp_django.E016",
        )
    for name in ("DEFAULT_SCOPES", "ANONYMOUS_SCOPES", "SELF_SERVICE"):
        try:
            parse(getattr(get_conf(), name))
        except ValueError as error:
            hint = "Correct it or leave it out: what is no scope grants nothing."
            yield Error(f"MCP[{name!r}]: {error}.", hint=hint, id="mcp_django.E016")


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
                problem = f"gives {path!r} the kind {kind!r}, and it is made from no FileField"
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


@register("mcp_django")
def check_bus(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check how changes reach other processes."""
    if unknown_keys(getattr(settings, "MCP", {})):
        return []
    try:
        databases, layer = push_databases(), layer_config()
    except ImproperlyConfigured:
        return []  # check_settings reports it.
    if databases is not None or not any(model.watch for site in all_sites() for model in site.models.values()):
        return []
    if layer is not None and layer["BACKEND"] == CORE:
        return [
            Warning(
                f"Changes go from process to process through {CORE}, which drops messages above its capacity: "
                "subscribers then learn of the change only some time later.",
                hint='Add a layer for these changes: CHANNEL_LAYERS["mcp"] with the same hosts and '
                f"{PUBSUB}, which has no capacity.",
                id="mcp_django.W012",
            )
        ]
    reason = _several_processes() if layer is None or layer["BACKEND"] == IN_MEMORY else None
    if reason is None:
        return []
    return [
        Warning(
            f"Changes are pushed only within one process, and {reason}: a client that listens to one process does not "
            "learn what is saved in another.",
            hint=f"Name Redis in CHANNEL_LAYERS ({PUBSUB}), or a PostgreSQL database in MCP['PUSH_DATABASE']. If one "
            "process serves the site and nothing else saves, add 'mcp_django.W011' to SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W011",
        )
    ]


def _several_processes() -> str | None:
    """Why more than one process probably serves the project and pushes its changes, or None if only one does."""
    if getattr(settings, "ASGI_APPLICATION", None) is None:
        return None  # Under WSGI nothing is pushed.
    workers = os.environ.get("WEB_CONCURRENCY", "")
    if workers.isdigit() and int(workers) > 1:
        return f"WEB_CONCURRENCY is {workers}"
    # In a test run DEBUG is off, whatever the project's settings say.
    return None if settings.DEBUG or hasattr(mail, "outbox") else "DEBUG is off"


@register(Tags.database, "mcp_django")
def check_databases(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check what only the database itself knows. ``check --database`` and ``migrate`` run this."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        if connections[alias].vendor != "mysql" or not settings.USE_TZ:
            continue
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT CONVERT_TZ('2013-01-01', 'UTC', %s)", [settings.TIME_ZONE])
            if cursor.fetchone() == (None,):
                found.append(
                    Warning(
                        f"The database {alias!r} has no time zone tables: filters by parts of a datetime find nothing.",
                        hint="Load them: mariadb-tzinfo-to-sql /usr/share/zoneinfo | mariadb mysql",
                        id="mcp_django.W003",
                    )
                )
    return [*found, *_check_triggers(databases or ())]


def _check_triggers(databases: Sequence[str]) -> Iterator[CheckMessage]:
    """Check that the installed triggers report changes of every model that is watched now."""
    try:
        bus = push_databases()
    except ImproperlyConfigured:
        return  # check_settings reports it.
    if bus is None or bus[0] not in databases:
        return
    from mcp_django.push import triggers  # Needs psycopg.

    state = triggers.state(connections[bus[0]])
    if state.is_installed and state.problems:
        yield Warning(
            f"The triggers of the database {bus[0]!r} are out of date. {' '.join(state.problems)}",
            hint="Make them again: manage.py mcp_triggers --install",
            id="mcp_django.W010",
        )


@register("mcp_django")
def check_sites(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check what each site declares. What hooks answer at request time cannot be checked."""
    if unknown_keys(getattr(settings, "MCP", {})) or _problem_of_admin_site() is not None:
        return []
    return [message for site in all_sites() for message in _check_site(site)]


def _problem_of_admin_site() -> str | None:
    path = get_conf().ADMIN_SITE
    if not path:
        return None
    try:
        named = import_string(path)
    except ImportError as error:
        return f"cannot be imported: {error}"
    return None if isinstance(named, AdminSite) else f"names {named!r}, which is no AdminSite"


def _check_site(site: MCPSite) -> Iterator[CheckMessage]:
    yield from _check_admin_sites(site)
    yield from _check_middleware(site)
    yield from _check_tasks(site)
    yield from _check_resources(site)
    names = {name: f"tool {name}" for name, tool in site.tools.items() if not isinstance(tool, AdminActionTool)}
    for model_mcp in site.models.values():
        yield from _check_model(model_mcp)
        for tool in declared_actions(model_mcp):
            declared = f"action {model_mcp.label}.{tool.action_name}"
            if names.setdefault(tool.name, declared) != declared:
                text = f"The {declared} has the same tool name as the {names[tool.name]}: {tool.name}."
                if names[tool.name].startswith("action "):
                    yield Warning(f"{text} It is not offered.", hint="Rename one of them.", id="mcp_django.W015")
                else:
                    yield Error(text, hint="Rename one of them.", id="mcp_django.E003")


def _check_admin_sites(site: MCPSite) -> Iterator[CheckMessage]:
    if not site.is_served:
        return
    exposes = get_conf().EXPOSE_ADMIN
    if exposes and not site.admin_sites:
        yield Warning(
            "The URLconf serves no AdminSite, so agents see no model of the admin.",
            hint="Include the URLs of the admin, name an AdminSite in MCP['ADMIN_SITE'], or set MCP['EXPOSE_ADMIN'] = "
            "False.",
            id="mcp_django.W016",
        )
    withheld = {model_mcp.model for model_mcp in site.withheld_models}
    for model, admin_sites in site.undecided_models.items():
        if model in withheld or (exposes and site.admin_sites):
            names = " and ".join(admin_site.name for admin_site in admin_sites)
            where = f"the AdminSites {names}" if site.admin_sites else f"the AdminSite {names}, which nobody serves"
            yield Warning(
                f"{model._meta.label_lower} is in {where}. Agents do not see it until one is named.",
                hint="Name one in MCP['ADMIN_SITE'], or as MCPSite(admin_site=...). A ModelMCP with use_admin = False "
                "does without.",
                id="mcp_django.W017",
            )
    for admin_site in served_admin_sites() if apps.is_installed("django.contrib.admin") else ():
        if not any(is_ours(model) for model in model_admins(admin_site)):
            yield Warning(
                f"The AdminSite {admin_site.name} has no pages of mcp_django: it is made after the apps are ready.",
                hint="Call mcp_django.admin.register(site) where it is made, or silence this check.",
                id="mcp_django.W026",
            )
    if not exposes:
        return
    for admin_site in site.admin_sites:
        if not _lets_in(admin_site):
            yield Warning(
                f"The AdminSite {admin_site.name} lets no token in, not even a superuser's, so agents see none of its "
                "models.",
                hint="Its has_permission may ask for a second factor, which a token has not. Let it accept requests "
                "with request.mcp, or name another AdminSite in MCP['ADMIN_SITE'].",
                id="mcp_django.W018",
            )


def _lets_in(admin_site: AdminSite) -> bool:
    try:
        return admin_site.has_permission(superusers_request())
    except Exception:  # noqa: BLE001 - in a request this is a refusal, which is logged
        return False


def _check_middleware(site: MCPSite) -> Iterator[CheckMessage]:
    unknown = unknown_middleware()
    if unknown and not skips_middleware() and not site.has_call_context and site.is_served:
        yield Warning(
            f"WebSocket and stdio are refused, and HTTP goes through Django: {', '.join(unknown)} may choose a tenant "
            "or guard the site.",
            hint="Do its work in MCPSite.call_context, or set MCP['BYPASS_MIDDLEWARE'] = True if agents can do without "
            "it.",
            id="mcp_django.W002",
        )


def _check_tasks(site: MCPSite) -> Iterator[CheckMessage]:
    tools = [tool for tool in site.tools.values() if tool.task]
    problem = framework.problem(site) if tools else None
    if problem is None:
        return
    lost = [tool.name for tool in tools if tool.task == "required"]
    yield Warning(
        f"Nothing runs as a task: {tools[0].name} is declared with task=, and its callers wait while it runs"
        + (f"; nobody can see or call {', '.join(lost)}." if lost else "."),
        hint=problem,
        id="mcp_django.W004",
    )


def _check_resources(site: MCPSite) -> Iterator[CheckMessage]:
    for resource in site.resources.values():
        for model in resource.watched_models:
            model_mcp = site.models.get(Rights.label_of(model))
            if model_mcp is None or not model_mcp.watch:
                why = "agents never see" if model_mcp is None else "has watch = False"
                yield Warning(
                    f"The resource {resource.uri} is declared with watch= for {model._meta.label}, which {why}: its "
                    "subscribers are not notified of changes of that model.",
                    hint="Expose and watch the model, or declare watch=True and call mcp_django.updated(uri).",
                    id="mcp_django.W019",
                )


def _check_model(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    if isinstance(model_mcp.opts.pk, models.CompositePrimaryKey):
        text = f"{model_mcp.label} has a composite primary key, which has no URI yet"
        if model_mcp.bridged:
            yield _left_out(text, "There is no cure yet;")
        else:
            yield Error(f"{text}.", hint="Do not register it with mcp_django.", id="mcp_django.E004")
        return
    if not model_mcp.bridged and model_mcp.fields is None and model_mcp.model_admin is None:
        yield Error(
            f"{type(model_mcp).__name__} names no fields, and {model_mcp.label} has no ModelAdmin to take them from.",
            hint='Set fields = [...], or fields = "__all__" for all fields that are not secrets.',
            id="mcp_django.E005",
        )
    primary_key = model_mcp.opts.pk
    if kind_of(primary_key, named=model_mcp.names(primary_key)) is None or model_mcp.hides(primary_key):
        text = f"The primary key of {model_mcp.label} cannot be read"
        if model_mcp.bridged:
            cure = (
                f"Name {primary_key.name} in extra_fields of a ModelMCP, or its class in MCP['FIELD_KINDS'], if agents"
            )
            yield _left_out(text, f"{cure} may read it; otherwise")
        else:
            yield Error(
                f"{text}, so no agent can see the model.",
                hint=f"Name {primary_key.name} in fields if agents may read it; otherwise leave the model out.",
                id="mcp_django.E007",
            )
    yield from _check_record(model_mcp)
    yield from _check_secrets(model_mcp)
    yield from _check_rows(model_mcp)
    yield from _check_ordering(model_mcp)
    yield from check_writes(model_mcp)
    if model_mcp.fields is not None and model_mcp.extra_fields:
        yield Error(
            f"{type(model_mcp).__name__} has fields and extra_fields: the first names all that is shown of "
            f"{model_mcp.label}, the second what is shown beside its ModelAdmin's.",
            hint="Set one of them.",
            id="mcp_django.E015",
        )
    for attribute, is_known in _NAMES:
        declared = getattr(model_mcp, attribute)
        for name in () if declared in (None, "__all__") else declared:
            if not is_known(model_mcp, name):
                allowed = [field.name for field in model_mcp.opts.concrete_fields]
                yield Error(
                    f"{type(model_mcp).__name__}.{attribute} names {name!r}, which is no column of {model_mcp.label}.",
                    hint=nearest(name, allowed).strip() or f"Columns: {', '.join(allowed)}.",
                    id="mcp_django.E006",
                )


def _check_record(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    """Check how one record is described: its serializer, its last change and its annotations."""
    name, cls = type(model_mcp).__name__, model_mcp.serializer_class
    if cls is not None and not _is_serializer_of(model_mcp.model, cls):
        yield Error(
            f"{name}.serializer_class is {cls!r}, which is no serializer of {model_mcp.label}: no record can be read.",
            hint="Name a subclass of rest_framework.serializers.Serializer; a ModelSerializer has the model in Meta.",
            id="mcp_django.E009",
        )
    field = model_mcp.last_modified_field
    if field is not None and not _is_datetime(model_mcp.model, field):
        moments = [item.name for item in model_mcp.opts.concrete_fields if isinstance(item, models.DateTimeField)]
        yield Error(
            f"{name}.last_modified_field names {field!r}, which is no DateTimeField of {model_mcp.label}.",
            hint=f"DateTimeFields: {', '.join(moments) or 'none'}.",
            id="mcp_django.E010",
        )
    elif field is not None and model_mcp.opts.managed and not is_indexed(model_mcp.model, [f"-{field}"]):
        yield Warning(
            f"No index of {model_mcp.label} begins with {field!r}: clients cannot see when the collection last "
            "changed, since finding that out would read the whole table.",
            hint=f'Add models.Index(fields=["{field}"], name=...) to Meta.indexes.',
            id="mcp_django.W009",
        )
    try:
        write_annotations(**model_mcp.annotations, last_modified=None)
    except (TypeError, ValueError) as error:
        yield Error(
            f"{name}.annotations cannot be sent to clients: {error}",
            hint='Only "audience" and "priority" are allowed.',
            id="mcp_django.E011",
        )


def _is_serializer_of(model: type[models.Model], cls: Any) -> bool:
    if not isinstance(cls, type) or not issubclass(cls, Serializer):
        return False
    of = getattr(getattr(cls, "Meta", None), "model", None)
    # A row is also a row of each parent of its model, and of its proxies.
    if not isinstance(of, ModelBase):
        return not issubclass(cls, ModelSerializer)
    return issubclass(model, of._meta.concrete_model)  # type: ignore[attr-defined]


def _is_datetime(model: type[models.Model], name: str) -> bool:
    return _is_concrete(model, name) and isinstance(model._meta.get_field(name), models.DateTimeField)


def _left_out(problem: str, cure: str) -> CheckMessage:
    """The warning of a model of the admin that agents cannot see. It may be that of a package."""
    return Warning(
        f"{problem}, so agents do not see the model, which the admin shows.",
        hint=f"{cure} add 'mcp_django.W014' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W014",
    )


def _check_secrets(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    for field in model_mcp.opts.concrete_fields:
        if is_secret_field(field) and model_mcp.names(field) and field.name not in model_mcp.exclude:
            attribute = "extra_fields" if model_mcp.fields is None else "fields"
            yield Warning(
                f"{type(model_mcp).__name__}.{attribute} names {field.name!r} of {model_mcp.label}, which looks like a "
                "secret: agents may read it.",
                hint="Leave it out. If it is not a secret, add 'mcp_django.W005' to SILENCED_SYSTEM_CHECKS.",
                id="mcp_django.W005",
            )


def _check_rows(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    tenant_fields = get_conf().TENANT_FIELDS
    owners = [field for field in model_mcp.opts.concrete_fields if {field.name, field.attname} & {*tenant_fields}]
    if owners and not row_hook(model_mcp):
        yield Warning(
            f"{model_mcp.label} has the field {owners[0].name!r} of MCP['TENANT_FIELDS'], and every user who may view "
            "the model can read all of its rows.",
            hint="Override get_queryset(request) in its ModelMCP or ModelAdmin. If something else keeps the tenants "
            "apart, add 'mcp_django.W006' to SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W006",
        )


def _check_ordering(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    model = model_mcp.model
    declared = _declared_ordering(model_mcp)
    ordering = own_columns(model, declared)
    # An order through another table has no index, and the indexes of a table that Django does not make are unknown.
    leads_away = any(isinstance(item, str) and "__" in item for item in declared)
    if leads_away or not model_mcp.opts.managed or is_indexed(model, ordering) or _is_of_package(model):
        return
    columns = ", ".join(f'"{name}"' for name in index_for(model, ordering))
    yield Warning(
        f"No index of {model_mcp.label} begins with its order ({', '.join(ordering)}): to find the first rows, the "
        "database sorts the whole table.",
        hint=f"This does not matter for a small table. Otherwise add models.Index(fields=[{columns}], name=...) to "
        "Meta.indexes, or set ordering in a ModelMCP to columns that have one. If all such tables are small, add "
        "'mcp_django.W007' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W007",
    )


def _is_of_package(model: type[models.Model]) -> bool:
    """Whether the model's app is an installed package, whose indexes the project's developer cannot change."""
    folder = Path(model._meta.app_config.path)
    return any(folder.is_relative_to(get_path(name)) for name in ("purelib", "platlib"))


def _declared_ordering(model_mcp: ModelMCP) -> Sequence[Any]:
    """The order of the rows where the agent names none. Empty where a hook decides it for each request."""
    if type(model_mcp).get_ordering is not ModelMCP.get_ordering:
        return ()
    if model_mcp.ordering is not None:
        return model_mcp.ordering
    admin = model_mcp.model_admin
    if admin is not None and type(admin).get_ordering is not ModelAdmin.get_ordering:
        return ()
    return (admin.ordering if admin is not None else None) or model_mcp.opts.ordering or ()


def _can_be_shown(model_mcp: ModelMCP, name: str) -> bool:
    """Whether the name is that of a field, or of a method or property of a row."""
    if _field_of(model_mcp.model, name) is not None:
        return is_record_field(model_mcp.model, name)
    own = hasattr(type(model_mcp), name) and not hasattr(ModelMCP, name)
    return own or any(hasattr(owner, name) for owner in (model_mcp.model, model_mcp.model_admin) if owner is not None)


def _can_be_hidden(model_mcp: ModelMCP, name: str) -> bool:
    """Whether the name is that of something shown, or of a relation that leads to other rows."""
    return _field_of(model_mcp.model, name) is not None or _can_be_shown(model_mcp, name)


def _is_path(model_mcp: ModelMCP, path: str) -> bool:
    """Whether the path leads to a field or a relation."""
    *steps, last = path.split("__")
    model: Any = model_mcp.model
    field: Any = None
    for step in steps:
        field = _field_of(model, step)
        model = getattr(field, "related_model", None)
        if model is None:
            return False
    leads_to_many = field is not None and (field.one_to_many or field.many_to_many)
    return last == "pk" or (leads_to_many and last == "count") or _field_of(model, last) is not None


def _is_own_field(model_mcp: ModelMCP, name: str) -> bool:
    return _is_concrete(model_mcp.model, name)


#: Attributes of a ModelMCP that hold names, and what may be named there.
_NAMES = (
    ("fields", _can_be_shown),
    ("extra_fields", _can_be_shown),
    ("exclude", _can_be_hidden),
    ("filter_fields", _is_path),
    ("audit_fields", _is_own_field),
)


def _field_of(model: type[models.Model], name: str) -> Any:
    """The field or relation of that name, or None."""
    try:
        return model._meta.get_field(name)
    except FieldDoesNotExist:
        return None


def _is_concrete(model: type[models.Model], name: str) -> bool:
    return bool(getattr(_field_of(model, name), "concrete", False))
