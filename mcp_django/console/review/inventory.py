"""The inventory of what a site exposes, for people to review: to one user now, or as the project declares it.

Without a user, no database is asked. The inventory is then that of a superuser with every scope and with every tool
switched on, so that it is the same on every machine. A hook of the project that fails counts as a refusal, as it does
in a request, and is named.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import Lock, get_ident
from typing import Any, NoReturn

from django.conf import settings
from django.db import connections, models
from django.http import HttpRequest
from django.utils import translation
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access import overrides
from mcp_django.access.permissions import has_scope
from mcp_django.access.read_only import read_only_ignored
from mcp_django.bridge.declared import consent
from mcp_django.bridge.declared.options import row_hook
from mcp_django.bridge.declared.secrets import is_named_as_secret, is_ours, why_hidden
from mcp_django.bridge.prompts import catalog as prompts
from mcp_django.bridge.prompts.catalog import AvailablePrompt
from mcp_django.bridge.resources import catalog as resources
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.field_kinds import look_up
from mcp_django.bridge.resources.function import FunctionResource
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading.schema import record_fields, refused_sources
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools import catalog as tools
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.query import QueryTool
from mcp_django.bridge.tools.saved_queries import SavedQuery
from mcp_django.bridge.writes import exposure
from mcp_django.conf import get_conf
from mcp_django.console.review.admin_comparison import Comparison, Reason
from mcp_django.console.review.unmet_rules import unmet
from mcp_django.core.hooks import hook_of
from mcp_django.core.middleware_policy import runs_below, unknown_middleware
from mcp_django.core.running.in_request import their_language
from mcp_django.exchange.exchange import Exchange, inspection_exchange
from mcp_django.exchange.principals import Principal, Source, Superuser
from mcp_django.exchange.requests import MCPRequest, looking
from mcp_django.exchange.scopes import ANY_MODEL, READ, SCOPES, expand, of_model, parse
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.projection import project
from mcp_django.protocol.types import JSON

logger = logging.getLogger("mcp_django")

#: The members of an inventory that no lock holds: what is not exposed, and hooks that failed.
_NOT_LOCKED = frozenset({"left_out", "admin", "failed", "samples", "below_middleware", "unmet"})
#: Reason code → what the project can do about it.
REMEDIES: Mapping[str, Any] = {
    "secret": _("name it in fields of a ModelMCP"),
    "to hidden models": _("show that model"),
    "of an unknown class": _("name it in extra_fields of a ModelMCP, or its class in MCP['FIELD_KINDS']"),
    "joined in its own way": _("show the model that holds its links"),
    "by a hook": _(
        "decorate that with mcp_django.ignores_object if it answers the same for each, or where a package wrote it, "
        "set object_permissions = False in a ModelMCP of yours"
    ),
}
#: The sections of an inventory, each with the noun for one of its entries.
_SECTIONS: Mapping[str, str] = {
    "models": "model",
    "operations": "operation",
    "tools": "tool",
    "resources": "resource",
    "templates": "resource template",
    "prompts": "prompt",
}


def build(
    site: MCPSite, user: Any = None, scopes: Iterable[str] = SCOPES, *, request: HttpRequest | None = None,
    for_lock: bool = False,
) -> JSON:  # fmt: skip
    """Build the inventory of a site: for a user by the database as it is now, or without a user as it is declared.

    ``{"site", "user", "scopes", "models", "operations", "tools", "resources", "templates", "prompts", "tool_list",
    "left_out", "admin", "failed", "below_middleware", "unmet"}``:

    - ``user`` is a name, or null without a user;
    - ``models``: label → ``{"uri", "declared_by", "rows", "fields", "relations", "computed", "search", "serializer",
      "writes", "written", "not_written", "by_object", "hidden"}``. ``rows`` is the project's ``get_queryset`` that
      gives them, "all", or "groups of 5 alone"; ``fields``: name → ``{"type", "relation"?}``; ``relations``: name →
      label of the model to whose rows it leads; ``search``: the fields that a search looks in, or the admin's own
      search, in words; ``serializer``: ``{"class", "fields"}`` of the class that shapes a record, or null;
      ``by_object``: hooks that may show more of a record; ``hidden``: name of a field that is not exposed, or
      ``Serializer.name`` of one that reads what no serializer may → why; ``writes``: operation → ``{"consent",
      "by"}``, with the permission or the hook that decides; ``written``: name of a field of the form, or
      ``inline.name`` → the class of its form field;
      ``not_written``: why the form cannot be driven, or empty;
    - ``operations``: those of the project's API by name, each as ``declared.entry_of`` has it; for a user those that
      the API lets this user call, as far as it says without an object;
    - ``tools``: name → ``{"kind", "description", "arguments", "scope", "permissions", "read_only", "destructive",
      "idempotent", "open_world", "task", "starts", "bytes"}``, where ``starts`` says whether the tool is on before an
      administrator has decided, and ``bytes`` is its size in the tool list;
    - ``resources`` and ``templates``, by URI, and ``prompts``, by name, are those that the project declares or an
      administrator wrote: ``{"description", "permissions", …}``;
    - ``tool_list``: ``{"tools", "bytes"}``, the number of tools and the bytes of the array that tools/list sends (all
      pages together, in the newest revision);
    - ``left_out``: label → why, for models in the admin or registered ones that do not exist for the principal, and
      for actions of the whole AdminSite;
    - ``admin``: what the admin shows, and why it is not here (see ``Comparison.as_json``);
    - ``failed``: hooks of the project that failed;
    - ``below_middleware``: entries of MIDDLEWARE below which calls run, so that all roads but HTTP are refused;
    - ``unmet``: for a user, the declared approvals that too few people may give now, in words.

    ``request`` is that of a person who looks, whose tenant counts. ``mcp_inventory --sample`` adds ``samples`` (see
    ``samples.take``). ``for_lock``: as it is without READ_ONLY, since a lock is about code.
    """
    ours = request_of(user, scopes, request)
    exchange = inspection_exchange(site, ours, "tools/list")
    # A call context may look up a tenant in the database.
    context = no_database() if user is None else site.call_context(ours)
    # People read the reasons on pages, in their own language.
    language = their_language()
    closed = read_only_ignored() if for_lock else nullcontext()
    with translation.override(settings.LANGUAGE_CODE), failures() as failed, context, closed:
        rights = Rights.of(site, ours)
        all_on = dict.fromkeys(site.tools, overrides.ON) if user is None else None
        listed = _tools(exchange, tools.available(exchange, all_on))
        declared = resources.available(site, ours)
        written = prompts.available(exchange, {} if user is None else None)
        with translation.override(language):
            left_out = _left_out(site, rights)
        built = {
            "site": site.name,
            "user": None if user is None else user.get_username(),
            "scopes": parse(ours.mcp.principal.scopes),
            "models": {model.label: describe_model(model) for model in rights.models()},
            "operations": _operations(site, ours, by_database=user is not None),
            "tools": {tool.name: _tool(tool, described) for tool, described in listed},
            "resources": {one.uri: _resource(one) for one in declared if isinstance(one, FunctionResource)},
            "templates": {one.uri: _resource(one) for one in declared if isinstance(one, FunctionTemplate)},
            "prompts": {entry.prompt.name: _prompt(entry) for entry in written},
            "tool_list": {"tools": len(listed), "bytes": len(encode([described for _, described in listed]))},
            "left_out": left_out,
            "admin": Comparison(rights, left_out, _reasons, [tool for tool, _ in listed]).as_json(),
        }
        lacking = [] if user is None else [str(one) for one in unmet(site)]
    below = unknown_middleware() if runs_below(site.has_call_context) else []
    return {**built, "failed": sorted(failed), "below_middleware": below, "unmet": lacking}


def _operations(site: MCPSite, request: MCPRequest, *, by_database: bool) -> dict[str, JSON]:
    if not site.api_resources:
        return {}
    from mcp_django.bridge.api import calling
    from mcp_django.bridge.api.declared import entry_of

    reached = list(site.api.reached(request).values())
    allowed = calling.allowed(request, reached) if by_database else reached
    return {one.name: entry_of(one) for one in allowed}


def request_of(user: Any, scopes: Iterable[str], request: HttpRequest | None = None) -> MCPRequest:
    """A request of this user, or of a superuser of whom no database knows."""
    principal = Principal(Superuser() if user is None else user, expand(scopes), source=Source.COMMAND)
    return looking(request).for_principal(principal)


def described_tools(site: MCPSite, described: Iterable[tuple[BaseTool, str]]) -> dict[str, JSON]:
    """These tools as ``build`` has them without a user, each with the description that is given for it, if any.

    Without a database, and so without the tools that need one to be described.
    """
    exchange = inspection_exchange(site, request_of(None, SCOPES), "tools/list")
    found: dict[str, JSON] = {}
    with translation.override(settings.LANGUAGE_CODE), no_database():
        Rights.of(site, exchange.request).decided_by(dict.fromkeys(site.tools, overrides.ON))
        for one in (tools.AvailableTool(tool, text) for tool, text in described):
            try:
                [(tool, entry)] = _tools(exchange, [one])
            except Exception:
                # A project may need its database for a schema.
                logger.debug("The tool %s cannot be described", one.tool.name, exc_info=True)
                continue
            found[tool.name] = _tool(tool, entry)
    return found


def lock(inventory: JSON) -> JSON:
    """The part of an inventory that a lock holds: what is exposed, and of the sizes only that of the tool list."""
    locked = {key: value for key, value in inventory.items() if key not in _NOT_LOCKED}
    if not locked["operations"]:
        del locked["operations"]  # A lock of a project without an API is as it was before there were operations.
    locked["models"] = {label: _without(model, "hidden") for label, model in inventory["models"].items()}
    locked["tools"] = {name: _without(tool, "bytes") for name, tool in inventory["tools"].items()}
    return locked


def is_lock(value: Any) -> bool:
    """Whether the value has the form of a lock."""
    if not isinstance(value, dict) or not {"site", "user", "scopes", "tool_list", *_SECTIONS} <= {*value, "operations"}:
        return False
    # A lock of before there were operations has none.
    dictionaries = [value["tool_list"], *(value.get(section, {}) for section in _SECTIONS)]
    if not all(isinstance(one, dict) for one in dictionaries) or not isinstance(value["scopes"], list):
        return False
    if not all(isinstance(scope, str) for scope in value["scopes"]):
        return False
    return all(isinstance(entry, dict) for section in _SECTIONS for entry in value.get(section, {}).values())


def changes(before: JSON, after: JSON) -> list[str]:
    """The differences between two locks of the same principal, one a line: added (+), removed (-) and changed (~)."""
    lines: list[str] = []
    for section, noun in _SECTIONS.items():
        old, new = before.get(section, {}), after.get(section, {})
        for name in sorted({*old, *new}):
            lines += _entry_changes(noun, name, old.get(name), new.get(name))
    was, now = (locked["tool_list"].get("bytes") for locked in (before, after))
    if was != now:
        lines.append(f"~ tool list: {now} bytes, was {was}")
    return lines


def _entry_changes(noun: str, name: str, old: JSON | None, new: JSON | None) -> Iterator[str]:
    if old is None or new is None:
        fields = ((new if old is None else old) or {}).get("fields")
        named = f": {', '.join(fields)}" if isinstance(fields, dict) else ""
        yield f"{'+' if old is None else '-'} {noun} {name}{named}"
        return
    for key in sorted({*old, *new}):
        was, now = old.get(key), new.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            part = key.removesuffix("s")
            for item in sorted({*was, *now}):
                if item not in was or item not in now:
                    yield f"{'+' if item in now else '-'} {part} {name}.{item}"
                elif was[item] != now[item]:
                    yield f"~ {part} {name}.{item}: {_written(now[item])}, was {_written(was[item])}"
        elif was != now:
            yield f"~ {noun} {name}: {key} {_written(now)}, was {_written(was)}"


def _written(value: Any) -> str:
    return encode(value).decode()


def _without(entry: JSON, key: str) -> JSON:
    return {name: value for name, value in entry.items() if name != key}


# Entries.


def describe_model(rights: ModelRights) -> JSON:
    """An entry of ``models``: see ``build``."""
    model_mcp = rights.model_mcp
    fields = {}
    for column in rights.columns.values():
        fields[column.name] = {"type": column.kind.name}
        if column.related is not None:
            fields[column.name]["relation"] = column.related.label
    return {
        "uri": uris.collection_uri(rights.model),
        "declared_by": type(model_mcp.declared_by).__name__,
        "rows": _rows_of(rights),
        "fields": fields,
        "relations": {name: relation.related.label for name, relation in rights.relations.items()},
        "computed": sorted(rights.computed),
        "search": _search(rights),
        "serializer": _serializer(rights),
        **_writes(rights),
        "by_object": list(rights.object_hooks),
        "hidden": {**{name: why for name, _, why in hidden_fields(rights)}, **refused_sources(rights)},
    }


def _rows_of(rights: ModelRights) -> str:
    """The project's ``get_queryset`` that gives the rows, "all", or "groups of 5 alone"."""
    if not rights.has_rows:
        return f"groups of {rights.smallest_group} alone"
    return row_hook(rights.model_mcp) or "all"


def _writes(rights: ModelRights) -> JSON:
    """What may be written through the form of the admin."""
    operations = exposure.operations(rights)
    why = ""
    try:
        fields = exposure.fields(rights) if operations else {}
    except Exception as error:  # noqa: BLE001 - code of the project, and what it raises is shown
        fields, why = {}, f"{type(error).__name__}: {error}"
    return {"writes": operations, "written": fields, "not_written": why}


def _search(rights: ModelRights) -> str:
    """What finds the rows of a search; why the admin's own search does not, with the cure; empty where nothing does."""
    admin = rights.model_mcp.model_admin
    if admin is None or rights.searched_by == "fields":
        return ", ".join(field.name for field in rights.searchable)
    called = str(getattr(hook_of(admin, "get_search_results"), "__qualname__", "get_search_results"))
    if rights.searched_by == "nothing":
        return f'not by {called}, which may look into hidden fields; search = "admin" in a ModelMCP calls it'
    return called if rights.can_search else ""


def _serializer(rights: ModelRights) -> JSON | None:
    """The serializer that shapes a record, where there is one."""
    if rights.serializer_class is None:
        return None
    name = getattr(rights.serializer_class, "__name__", repr(rights.serializer_class))
    return {"class": name, "fields": sorted(record_fields(rights))}


def hidden_fields(rights: ModelRights) -> Iterator[tuple[str, str, str]]:
    """The fields of the model that are not exposed, each with a word for the kind of reason and the reason."""
    model_mcp = rights.model_mcp
    for field in [*rights.model._meta.concrete_fields, *rights.model._meta.many_to_many]:
        if field.name in rights.columns or field.name in rights.relations:
            continue
        if field.name in rights.restrictions:
            yield field.name, "switched off", gettext("an administrator switched it off")
            continue
        if model_mcp.hides(field):
            is_named = is_named_as_secret(field)
            if is_named:
                why = gettext("looks like a secret, and is not named in fields")
            else:
                why = gettext("is a long unique key, which may let somebody in, and is not named in fields")
            yield field.name, "secret", why
        elif field.many_to_many and not isinstance(field, models.ManyToManyField):
            why = gettext("is a %(name)s, which joins rows in its own way") % {"name": type(field).__name__}
            yield field.name, "joined in its own way", why
        elif not field.many_to_many and (why := look_up(field, named=model_mcp.names(field))[1]):
            yield field.name, "of an unknown class", str(why)
        elif field.name not in rights.shown:
            yield field.name, *_why_not_shown(rights)
        elif field.is_relation:
            why = gettext("points to a model that is not shown, or whose objects are checked one by one")
            yield field.name, "to hidden models", why


def _reasons(rights: ModelRights) -> Mapping[str, Reason]:
    """The reasons of what is hidden, with their cures. That something is not shown here is no reason."""
    return {
        name: (word, with_remedy(why, REMEDIES[word])) for name, word, why in hidden_fields(rights) if word in REMEDIES
    }


def with_remedy(why: Any, remedy: Any) -> str:
    """Why something is hidden, with its cure where there is one."""
    return gettext("%(why)s; %(remedy)s") % {"why": why, "remedy": remedy} if remedy else str(why)


def _why_not_shown(rights: ModelRights) -> tuple[str, str]:
    if not rights.object_hooks:
        return "not shown", gettext("is not shown")
    hooks = get_text_list(list(rights.object_hooks), gettext("and"))
    text = ngettext(
        "%(hooks)s decides by the object, so only get_record shows it",
        "%(hooks)s decide by the object, so only get_record shows it", len(rights.object_hooks),
    )  # fmt: skip
    return "by a hook", text % {"hooks": hooks}


def _tools(exchange: Exchange, found: list[tools.AvailableTool]) -> list[tuple[BaseTool, JSON]]:
    """The tools as tools/list has them, in its order."""
    found.sort(key=lambda one: one.tool.name)
    described = [one.describe(exchange.request) for one in found]
    shaped = project("tools/list", {"tools": described}, exchange.revision)["tools"]
    return [(one.tool, written) for one, written in zip(found, shaped, strict=True)]


def _tool(tool: BaseTool, described: JSON) -> JSON:
    annotations = tool.annotations
    return {
        "kind": _kind(tool),
        "description": described["description"],
        "arguments": list(described["inputSchema"].get("properties", ())),
        "scope": tool.scope,
        "permissions": _permissions(tool),
        "read_only": annotations.read_only,
        "destructive": annotations.destructive,
        "idempotent": annotations.idempotent,
        "open_world": annotations.open_world,
        "task": tool.task,
        "consent": consent.described(getattr(tool, "consent", "preview")),
        "starts": "on" if tool.enabled_by_default else "off",
        "bytes": len(encode(described)),
    }


def _kind(tool: BaseTool) -> str:
    if isinstance(tool, QueryTool):
        return "query"
    if isinstance(tool, SavedQuery):
        return "saved query"
    return f"action of {tool.model_mcp.label}" if isinstance(tool, ActingTool) else "function"


def _permissions(tool: BaseTool) -> list[str]:
    """The permissions that the user needs: one of those that an action names, or the one of a function."""
    if isinstance(tool, ActingTool):
        return tool.permissions
    return _permission(tool)


def _permission(declared: Any) -> list[str]:
    permission = getattr(declared, "permission", "")
    return [permission] if permission else []


def _resource(resource: FunctionResource | FunctionTemplate) -> JSON:
    return {
        "description": resource.description,
        "mime_type": resource.mime_type,
        "permissions": _permission(resource),
    }


def _prompt(entry: AvailablePrompt) -> JSON:
    prompt = entry.prompt
    return {
        "description": entry.description,
        "arguments": [argument.name for argument in prompt.arguments],
        "permissions": _permission(prompt),
    }


def _left_out(site: MCPSite, rights: Rights) -> JSON:
    """What the admin or a registration has and the principal has not: label of a model, or an action → why."""
    found: JSON = unexposed(site)
    for label in site.models:
        if rights.of_label(label) is None:
            found[label] = _why_not(site, rights.request, label)
    return found


def unexposed(site: MCPSite) -> JSON:
    """What the admin has and no principal gets: label of a model, or an action of a whole AdminSite → why."""
    found: JSON = {}
    of_sites: list[Any] = [one.actions for one in site.admin_sites] if get_conf().EXPOSE_ADMIN else []
    for name in {name for actions in of_sites for name, _action in actions}:
        why = gettext("it is one of the whole AdminSite; name it in actions of a ModelAdmin to offer it")
        found[gettext("the action %(name)s") % {"name": name}] = why
    exposed = {model_mcp.model for model_mcp in site.models.values()}
    for model in site.model_admins:
        if model not in exposed:
            label = f"{model._meta.app_label.lower()}.{model._meta.model_name}"
            without_list = _("its ModelAdmin has no list") if get_conf().EXPOSE_ADMIN else _("EXPOSE_ADMIN is off")
            why = str(why_hidden(model) or without_list)
            is_fixed = is_ours(model) or model._meta.swapped
            found[label] = why if is_fixed else gettext("%(why)s; register a ModelMCP for it to show it") % {"why": why}
    if site.api_resources:
        named = gettext("%(name)s of the API")
        found |= {named % {"name": name}: str(why) for name, why in site.api.left_out.items() if why}
    for model, admin_sites in site.undecided_models.items():
        names = get_text_list([one.name for one in admin_sites], gettext("and"))
        if site.admin_sites:
            text = gettext("it is in the AdminSites %(names)s; name one in MCP['ADMIN_SITE']")
        else:
            text = ngettext(
                "no URL serves the AdminSite %(names)s; name one in MCP['ADMIN_SITE']",
                "no URL serves the AdminSites %(names)s; name one in MCP['ADMIN_SITE']",
                len(admin_sites),
            )
        found.setdefault(model._meta.label_lower, text % {"names": names})
    return found


def _why_not(site: MCPSite, request: MCPRequest, label: str) -> str:
    model_mcp = site.models[label]
    scope = of_model(label)
    if label in Rights.of(site, request).restrictions.models:
        return gettext("an administrator switched it off")
    if not has_scope(request, scope):
        # A principal that reads single models is told which one is missing.
        return gettext("the scope %(scope)s is missing") % {"scope": scope if has_scope(request, ANY_MODEL) else READ}
    try:
        allowed = model_mcp.has_view_permission(request)
    except Exception as error:  # noqa: BLE001 - it was logged, and is reported here
        return gettext("has_view_permission failed with %(error)s") % {"error": type(error).__name__}
    return gettext("its primary key cannot be read") if allowed else gettext("has_view_permission says no")


# Building the inventory.


@contextmanager
def no_database() -> Iterator[None]:
    """Any code that asks a database meanwhile gets an error, whether or not that database exists."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("The inventory of what is declared may not ask a database. Name a user.")

    with ExitStack() as stack:
        for connection in connections.all():
            for name in ("connect", "cursor", "chunked_cursor"):
                vars(connection)[name] = refuse
                stack.callback(vars(connection).pop, name)
        yield


@contextmanager
def failures() -> Iterator[set[str]]:
    """Collect what would be logged about hooks that fail."""
    found: set[str] = set()
    thread = get_ident()

    def collect(record: logging.LogRecord) -> bool:
        # The lines of other threads go on to the log: a page of the admin builds inventories beside requests.
        if record.thread != thread:
            return True
        if record.levelno >= logging.ERROR:
            error = record.exc_info[0] if record.exc_info else None
            found.add(f"{record.getMessage()}{f' ({error.__name__})' if error else ''}")
        return False

    with _hearing_errors:
        logger.addFilter(collect)
        try:
            yield found
        finally:
            logger.removeFilter(collect)


class _HearingErrors(AbstractContextManager[None]):
    """Within the block our logger records errors, whatever the project has set. Several threads may be in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._within = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._before = logger.disabled, logger.level
                logger.disabled = False
                if not logger.isEnabledFor(logging.ERROR):
                    logger.setLevel(logging.ERROR)
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                logger.disabled, level = self._before
                logger.setLevel(level)


_hearing_errors = _HearingErrors()
