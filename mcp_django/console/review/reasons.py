"""Why a principal may use something or not: the checklist of what decides, in the order in which it is decided.

After the first no only our own data and permissions by name are asked: no hook of the project is, and no row is read.

For administrators, and never for clients: to a client, something refused looks as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import translation
from django.utils.functional import lazy
from django.utils.text import format_lazy, get_text_list
from django.utils.translation import gettext_lazy as _

from mcp_django.access import overrides, pauses
from mcp_django.access.overrides import Override
from mcp_django.access.permissions import ALLOWED, Decision, decide_by_override, has_scope, using_tool
from mcp_django.bridge.declared.options import OPERATIONS, ModelMCP, Operation
from mcp_django.bridge.declared.secrets import why_hidden
from mcp_django.bridge.prompts import catalog as prompts
from mcp_django.bridge.resources import catalog as resources
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.function import FunctionResource
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.resources.policy import visible_rows, ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.policy.ways import Way
from mcp_django.bridge.resources.reading.schema import record_fields, refused_sources
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools import catalog as tools
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.query import QueryTool
from mcp_django.bridge.tools.saved_queries import SavedQuery
from mcp_django.bridge.writes import access
from mcp_django.bridge.writes.tools import OperationTool
from mcp_django.conf import get_conf
from mcp_django.console.review import inventory
from mcp_django.console.review.checklist import Answers, Kind, No, Place, Reasons, Text
from mcp_django.core.hooks import call_hook, hook_of
from mcp_django.core.running.in_request import their_language
from mcp_django.exchange.exchange import Exchange, inspection_exchange
from mcp_django.exchange.principals import Principal, Source, Superuser
from mcp_django.exchange.requests import looking
from mcp_django.exchange.scopes import OF_ANY, READ, SCOPES, WRITE, broader, expand, of_model, of_tool
from mcp_django.models import AccessToken
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.unknown_names import nearest_name

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation as ApiOperation

#: Longer names are not looked for.
MAX_NAME = 500

#: If one of these is the first no, the thing is not the user's, whatever the credential is.
_OF_THE_USER = frozenset({"exposure", "permission", "key", "field", "writing"})
_BY_DECISION: Mapping[Decision, str] = {Decision.SWITCHED_OFF: "switch", Decision.NO_GROUP: "groups"}
_READING: Sequence[Way] = ("collection", "record", "aggregate", "schema")

#: ``known`` for a viewer who may know of everything.
EVERYTHING: Collection[Kind] = ("model", "field", "row", "write", "tool", "operation", "prompt", "resource")


def explain(
    site: MCPSite,
    user: Any,
    scopes: Iterable[str],
    name: str,
    *,
    known: Collection[Kind] = EVERYTHING,
    request: HttpRequest | None = None,
    token: AccessToken | None = None,
) -> Reasons:
    """Why the user may use the thing with these scopes, or why not. Without a user, as the project declares it.

    ``name`` is that of a model (``app.model``), a field (``app.model.field``), a row (``db://app/model/pk``), a way to
    write (``app.model:create``, ``:update`` or ``:delete``), a declared resource (its URI), a tool, an operation of the
    project's API (``order.list``) or a prompt; of a
    tool and a prompt of the same name the tool is meant, unless it is ``prompt:NAME``. ``known`` are
    the kinds of things of which the viewer may know every one: anything else that is not the user's looks as if it did
    not exist. ``token``: that of the user whose agent asks.
    """
    found = _explain(site, user, scopes, name, known=known, request=request)
    if found.kind is None or user is None:
        return found
    agent = Principal(user, frozenset(), token, None if token is None else token.pk)
    paused = pauses.find(agent, overrides.tools.restrictions(site, fresh=True).pauses)
    return found if paused is None else replace(found, answers={**found.answers, "pause": No("pause", paused.said)})


def _explain(
    site: MCPSite, user: Any, scopes: Iterable[str], name: str, *, known: Collection[Kind], request: HttpRequest | None
) -> Reasons:
    """As ``explain``, as if nobody were paused."""
    name = name.strip()[:MAX_NAME]
    found = _Asker(site, user, scopes, request).answer(name)
    if found.kind is None or found.kind in known:
        return found if found.kind is not None else _unknown(site, user, name, known, request)
    at_most = _Asker(site, user, SCOPES, request).answer(name)
    is_own = found.kind in ("model", "field", "row", "write", "operation") or at_most.no is None
    if not is_own or (at_most.no is not None and at_most.no.step in _OF_THE_USER):
        return _unknown(site, user, name, known, request)
    return found


def _unknown(site: MCPSite, user: Any, name: str, known: Collection[Kind], request: HttpRequest | None) -> Reasons:
    names = _Asker(site, user, SCOPES, request).names(name, known)
    unknown = _("There is no such model, field, row, tool, operation, prompt or resource.")
    if meant := nearest_name(name[:100], names):
        unknown = format_lazy(_("{unknown} Did you mean {name}?"), unknown=unknown, name=meant)
    return Reasons(name, unknown=unknown)


class _Asker:
    """Asks what decides, for one principal. Without a user no database is asked, as in ``inventory.build``."""

    def __init__(self, site: MCPSite, user: Any, scopes: Iterable[str], request: HttpRequest | None) -> None:
        self.site = site
        self.by_database = user is not None
        principal = Principal(Superuser() if user is None else user, expand(scopes), source=Source.COMMAND)
        self.request = looking(request).for_principal(principal)
        self.exchange: Exchange = inspection_exchange(site, self.request, "tools/list")
        self.rights = Rights.of(site, self.request)
        self.context = site.call_context(self.request) if self.by_database else inventory.no_database()

    def answer(self, name: str) -> Reasons:
        with self.context:
            self._decide()
            self.site.find_actions(self.request)
            return self._answer(name)

    def _decide(self) -> None:
        all_on = dict.fromkeys(self.site.tools, overrides.ON)
        self.tool_rows = overrides.tools.of(self.exchange) if self.by_database else all_on
        self.prompt_rows = overrides.prompts.of(self.exchange) if self.by_database else {}
        self.rights.decided_by(self.tool_rows)

    @property
    def tools(self) -> Mapping[str, BaseTool]:
        return tools.all_tools(self.site, self.tool_rows)

    def _answer(self, name: str) -> Reasons:
        prefix, _colon, rest = name.partition(":")
        if prefix != "prompt" and (tool := self.tools.get(rest if prefix == "tool" else name)) is not None:
            return Reasons(tool.name, "tool", self._tool(tool))
        prompt = rest if prefix == "prompt" else name
        if (decision := prompts.decision(self.exchange, prompt, self.prompt_rows)) is not None:
            return Reasons(prompt, "prompt", self._prompt(prompt, decision))
        if self.site.api_resources and (called := self.site.api.named(name)) is not None:
            return Reasons(name, "operation", self._operation(called))
        if (resource := self.site.find_resource(name)) is not None:
            return Reasons(name, "resource", self._resource(resource))
        label, _colon, operation = name.partition(":")
        if operation in OPERATIONS and _is_model(label):
            return Reasons(name, "write", self._write(label.lower(), operation))
        return self._of_model(name)

    def names(self, name: str, known: Collection[Kind]) -> Iterator[str]:
        """What may be meant: everything of the kinds that are known, and else what the user may use."""
        with self.context:
            self._decide()
            models = self.rights.models()
            yield from (model.label for model in models)
            if "model" in known:
                yield from (*self.site.models, *inventory.unexposed(self.site))
            yield from (one.tool.name for one in tools.available(self.exchange, self.tool_rows))
            yield from self.tools if "tool" in known else ()
            if self.site.api_resources:
                yield from (one.name for one in self.site.api.all if "operation" in known)
                yield from self.site.api.reached(self.request)
            yield from (one.prompt.name for one in prompts.available(self.exchange, self.prompt_rows))
            yield from (*self.site.prompts, *self.prompt_rows) if "prompt" in known else ()
            yield from (one.uri for one in resources.available(self.site, self.request))
            yield from self.site.resources if "resource" in known else ()
            label = name.rpartition(".")[0].lower()
            yield from (f"{label}.{field}" for model in models if model.label == label for field in _shown(model))

    # Models, fields and rows.

    def _of_model(self, name: str) -> Reasons:
        target = uris.parse(name)
        label, _dot, field = (target.label, "", "") if target is not None else _split(name)
        if not _is_model(label):
            return Reasons(name)
        kind: Kind = "row" if target is not None and target.is_of_record else "field" if field else "model"
        answers = self._model(label) | self._switches(label, ("record", "collection") if kind == "row" else _READING)
        rights = self.rights.of_label(label) if "key" in answers else None
        if kind == "field":
            if not _has_field(label, rights, field):
                return Reasons(name)
            if rights is not None:
                answers["field"] = _field(rights, field)
        elif kind == "row" and target is not None and rights is not None and not any(answers.values()):
            answers["row"] = self._row(rights, target.key)
        return Reasons(name, kind, answers)

    def _model(self, label: str) -> dict[str, No | None]:
        model_mcp = self.site.models.get(label)
        answers: dict[str, No | None] = {
            "exposure": self._exposure(label),
            "scope": self._scope(of_model(label), of_model(label), READ),
        }
        if model_mcp is None:
            return answers
        decision = self.rights.decision(model_mcp)
        if decision is ALLOWED:
            is_keyed = self.rights.of_label(label) is not None
            no_key = No("key", _("Its primary key is hidden, and without it no row can be named."))
            answers |= {"permission": None, "key": None if is_keyed else no_key}
        elif decision is Decision.NO_PERMISSION:
            answers["permission"] = No("permission", self._why_not_viewed(model_mcp), Place("user"))
        elif _asks_permissions_alone(model_mcp):
            may_view = call_hook(
                partial(model_mcp.has_view_permission, self.request), False, model_mcp, "has_view_permission"
            )
            no = No("permission", "" if may_view else self._why_not_viewed(model_mcp), Place("user"))
            answers["permission"] = None if may_view else no
        return answers

    def _exposure(self, label: str) -> No | None:
        if label not in self.site.models:
            return No("exposure", self._why_unexposed(label))
        # As if no code had exposed it.
        is_off = label in self.rights.restrictions.models
        return No("exposure", _("An administrator switched it off.")) if is_off else None

    def _scope(self, scope: str, *names: str) -> No | None:
        if has_scope(self.request, scope):
            return None
        return No("scope", _missing_scope(*names), Place("credential"))

    def _overridden(self, override: Override, name: str, place: Place) -> dict[str, No | None]:
        """What administrators decided: whether it is on, and whether it would be open to the user if it were."""
        on = replace(override, enabled=True)
        found = {_BY_DECISION.get(decide_by_override(self.request, one)) for one in (override, on)}
        nos = {step: No(step, _why_overridden(step, name), place) for step in ("switch", "groups") if step in found}
        return {"switch": nos.get("switch"), "groups": nos.get("groups")}

    def _switches(self, label: str, read: Sequence[Way]) -> dict[str, No | None]:
        """What closes every one of these ways to read a model, if all of them are closed by administrators."""
        model_mcp = self.site.models.get(label)
        names = [ways.TOOLS[way] for way in read if model_mcp is None or ways.has(model_mcp, way)]
        found = [self._overridden(self.tool_rows.get(name, overrides.ON), name, Place("tool", name)) for name in names]
        if not found or any(not any(one.values()) for one in found):
            return {"switch": None, "groups": None}
        return found[0]

    def _why_unexposed(self, label: str) -> Text:
        with translation.override(their_language()):
            why = inventory.unexposed(self.site).get(label) or why_hidden(apps.get_model(label))
        return why or _("It is neither in the admin nor registered; register a ModelMCP for it to show it.")

    def _why_not_viewed(self, model_mcp: ModelMCP) -> Text:
        """The hook that says no, by name, or the permission that is missing."""
        hook = hook_of(model_mcp, "has_view_permission")
        name, opts = f"{type(model_mcp).__name__}.has_view_permission", model_mcp.opts
        try:
            model_mcp.has_view_permission(self.request)
        except Exception as error:  # noqa: BLE001 - it was logged, and is reported here
            return format_lazy(_("{hook} failed with {error}."), hook=name, error=type(error).__name__)
        admin, needed = model_mcp.model_admin, f"{opts.app_label}.view_{opts.model_name}"
        if hook is not ModelMCP.has_view_permission:
            return format_lazy(_("{hook} says no."), hook=name)
        if admin is None:
            return _missing_permission(needed)
        either = _either([needed, f"{opts.app_label}.change_{opts.model_name}"])
        return self._why_not_by_admin(admin, "has_view_permission", either)

    def _why_not_by_admin(self, admin: Any, name: str, needed: Text) -> Text:
        """Why the hook of a ModelAdmin says no: by Django's own, the permission is missing."""
        if not admin.admin_site.has_permission(self.request):
            return _("The user may not enter the admin, which shows the model.")
        hook = hook_of(admin, name)
        if _is_djangos(hook):
            return _missing_permission(needed)
        return format_lazy(_("{hook} says no."), hook=getattr(hook, "__qualname__", name))

    def _write(self, label: str, operation: Operation) -> Answers:
        """What decides about writing rows of the model in this way. They are read by get_record before."""
        answers = self._model(label) | self._switches(label, ("record",))
        answers["read_only"] = _READ_ONLY if get_conf().READ_ONLY else None
        rights = None if any(answers.values()) else self.rights.of_label(label)
        if rights is not None:
            return answers | {"writing": self._writing(rights, operation)}
        return answers if has_scope(self.request, of_model(label, WRITE)) else answers | {"writing": _no_write(label)}

    def _writing(self, rights: ModelRights, operation: Operation) -> No | None:
        """Why rows of a model that the user may read may not be written in this way."""
        declared, admin, opts = rights.model_mcp, rights.model_mcp.model_admin, rights.model_mcp.opts
        match access.decision(rights, operation):
            case Decision.ALLOWED:
                return None
            case Decision.NO_SCOPE:
                return _no_write(rights.label)
            case Decision.NOT_WRITABLE if admin is None:
                return No("writing", _("It is not in the admin, through whose forms agents write."))
            case Decision.NOT_WRITABLE:
                name = type(declared).__name__
                return No("writing", format_lazy(_("{name}.writable does not name {what}."), name=name, what=operation))
            case Decision.SWITCHED_OFF:
                # Its rows are shown in groups alone.
                return No("writing", _("Rows of this model are shown in groups alone."))
        needed = f"{opts.app_label}.{get_permission_codename(access.VERBS[operation], opts)}"
        return No("writing", self._why_not_by_admin(admin, access.HOOKS[operation], needed), Place("user"))

    def _row(self, rights: ModelRights, key: str) -> No | None:
        if not self.by_database:
            return No("row", _("Rows are in the database: name a user."))
        if not rights.has_rows:
            return No("row", _("Rows of this model are shown in groups alone."))
        try:
            seen = bool(visible_rows.visible_keys(rights, [key]))
        except TooSlow:
            return No("row", _("It took too long to find out."))
        # Whether there is such a row is not said, since that is more than the user may know.
        return None if seen else No("row", _("No row of this key is among those that get_queryset gives the user."))

    # Tools and prompts.

    def _tool(self, tool: BaseTool) -> Answers:
        no_tasks = No("tasks", _("It runs only as a task, and this site runs no tasks."))
        override, place = tools.override_of(tool, self.tool_rows), Place("tool", tool.name)
        with using_tool(self.request, tool.name):
            answers: dict[str, No | None] = {
                "read_only": _READ_ONLY if tool.is_closed else None,
                "exposure": None,
                "scope": self._scope(tool.least_scope, of_tool(tool.name), tool.least_scope),
                **self._overridden(override, tool.name, place),
                "tasks": None if tools.is_runnable(tool, self.exchange) else no_tasks,
            }
        decision = tools.decision(self.exchange, tool, self.tool_rows)
        return answers | self._permission(
            decision, getattr(tool, "permission", None), lambda: self._why_not_available(tool)
        )

    def _permission(self, decision: Decision, named: str | None, why: Callable[[], Text]) -> dict[str, No | None]:
        """Whether the permission is there. After another no it is asked only where one is ``named``."""
        if decision is ALLOWED or (decision is not Decision.NO_PERMISSION and named is not None and self._has(named)):
            return {"permission": None}
        if decision is Decision.NO_PERMISSION or named is not None:
            return {"permission": No("permission", why(), Place("user"))}
        return {}

    def _why_not_available(self, tool: BaseTool) -> Text:
        if (permission := getattr(tool, "permission", "")) and not _has(self.request.user, permission):
            return _missing_permission(permission)
        if isinstance(tool, SavedQuery) and not tool.is_available(self.request):
            # Which one is not said: the viewer may not be allowed to read it either.
            return _("The user may not read its model, or one of its fields.")
        if isinstance(tool, OperationTool):
            return _NO_MODEL[tool.operation]
        if isinstance(tool, QueryTool):
            return _("There is no model of which the user may read rows.")
        if not isinstance(tool, ActingTool):
            return format_lazy(_("{hook} says no."), hook=f"{type(tool).__name__}.is_available")
        no = Reasons(tool.name, "model", self._model(tool.model_mcp.label)).no
        if no is not None:
            return format_lazy(_("The model {model} is not visible. {why}"), model=tool.model_mcp.label, why=no.why)
        names = _either(list(tool.permissions))
        return format_lazy(
            _("The admin does not offer the action to the user: it needs the permission {names} on {model}."),
            names=names, model=tool.model_mcp.label,
        )  # fmt: skip

    def _operation(self, operation: ApiOperation) -> Answers:
        from mcp_django.bridge.api import calling

        tool = self.tools["call_api" if operation.is_safe else "change_api"]
        left_out = self.site.api.left_out.get(operation.name)
        override, place = tools.override_of(tool, self.tool_rows), Place("tool", tool.name)
        no = None if left_out is None else No("exposure", left_out or _("The project leaves it out."))
        answers: dict[str, No | None] = {
            "read_only": _READ_ONLY if tool.is_closed else None,
            "exposure": no,
            "scope": self._scope(operation.scope, operation.scope, broader(operation.scope)),
            **self._overridden(override, tool.name, place),
        }
        if not self.by_database or any(answers.values()):
            return answers
        if calling.allowed(self.request, [operation]):
            return answers | {"permission": None}
        return answers | {"permission": No("permission", _why_not_called(operation), Place("user"))}

    def _prompt(self, name: str, decision: Decision) -> Answers:
        override, named = (
            self.prompt_rows.get(name) or overrides.ON,
            getattr(self.site.prompts.get(name), "permission", ""),
        )
        return {
            "exposure": None,
            "scope": self._scope(READ, READ),
            **self._overridden(override, name, Place("prompt", name)),
            **self._permission(decision, named, lambda: _missing_permission(named)),
        }

    def _resource(self, resource: FunctionResource | FunctionTemplate) -> Answers:
        named = getattr(resource, "permission", None)
        hook = f"{type(resource).__name__}.is_available"
        why = _missing_permission(named) if named else format_lazy(_("{hook} says no."), hook=hook)
        decision = resources.decision(resource, self.request)
        return {
            "exposure": None,
            "scope": self._scope(resource.scope, OF_ANY.get(resource.scope, resource.scope)),
            **self._permission(decision, named, lambda: why),
        }  # fmt: skip

    def _has(self, permission: str) -> bool:
        return not permission or _has(self.request.user, permission)


def _why_not_called(operation: ApiOperation) -> Text:
    from mcp_django.bridge.api.declared import entry_of

    names = _either(entry_of(operation)["who"])
    return format_lazy(_("The API does not let the user call it: {names} says no."), names=names)


def _asks_permissions_alone(model_mcp: ModelMCP) -> bool:
    """Whether Django's own code decides who may view the model, by the user's permissions."""
    if hook_of(model_mcp, "has_view_permission") is not ModelMCP.has_view_permission:
        return False
    admin = model_mcp.model_admin
    asked = () if admin is None else ((admin, "has_view_permission"), (admin.admin_site, "has_permission"))
    return all(_is_djangos(hook_of(owner, name)) for owner, name in asked)


def _is_djangos(hook: Any) -> bool:
    return getattr(hook, "__module__", "").startswith("django.contrib.admin")


# Texts.

#: Names with "or" between them.
_either = lazy(get_text_list, str)


def _missing_scope(*names: str) -> Text:
    shown = (OF_ANY.get(name, name) for name in names)
    return format_lazy(_("The scope {names} is missing."), names=_either(list(dict.fromkeys(shown))))


def _missing_permission(names: Text) -> Text:
    return format_lazy(_("The permission {names} is missing."), names=names)


def _why_overridden(step: str, name: str) -> Text:
    if step == "switch":
        return format_lazy(_("{name} is switched off."), name=name)
    return format_lazy(_("{name} is limited to groups, and the user is in none of them."), name=name)


#: Operation of a tool that writes → why it is not there.
_NO_MODEL: Mapping[str, Text] = {
    "create": _("There is no model of which the user may create rows."),
    "update": _("There is no model of which the user may change rows."),
    "delete": _("There is no model of which the user may delete rows."),
}
_READ_ONLY = No("read_only", _('MCP["READ_ONLY"] is True, so agents have no tool that may change data.'))


def _no_write(label: str) -> No:
    return No("writing", _missing_scope(of_model(label, WRITE), WRITE), Place("credential"))


# Names.


def _split(name: str) -> tuple[str, str, str]:
    """The label of a model, and the name of a field behind it."""
    app, _dot, rest = name.partition(".")
    model, dot, field = rest.partition(".")
    return f"{app}.{model}".lower(), dot, field


def _is_model(label: str) -> bool:
    try:
        apps.get_model(label)
    except (LookupError, ValueError):
        return False
    return True


def _shown(rights: ModelRights) -> Collection[str]:
    return {*rights.columns, *rights.relations, *rights.computed, *record_fields(rights)}


def _has_field(label: str, rights: ModelRights | None, name: str) -> bool:
    own = {field.name for field in apps.get_model(label)._meta.get_fields()}
    return name in own or (rights is not None and (name in _shown(rights) or name in refused_sources(rights)))


def _field(rights: ModelRights, name: str) -> No | None:
    if name in _shown(rights):
        return None
    with translation.override(their_language()):
        hidden = {field: (word, why) for field, word, why in inventory.hidden_fields(rights)}
    word, why = hidden.get(name, ("", refused_sources(rights).get(name, "")))
    if name in rights.restrictions:
        return No("field", _("An administrator switched it off."))
    if name in rights.excluded:
        return No("field", _("get_exclude names it."))
    if word == "not shown" or not why:
        declared_by = type(rights.model_mcp.declared_by).__name__
        return No("field", format_lazy(_("It is not among the fields that {name} shows."), name=declared_by))
    remedy = inventory.REMEDIES.get(word)
    with translation.override(their_language()):
        return No("field", inventory.with_remedy(why, remedy))


def _has(user: Any, permission: str) -> bool:
    return bool(call_hook(partial((user or AnonymousUser()).has_perm, permission), False, "has_perm"))
