"""Why a principal may use something or not: the checklist of what decides, in the order in which it is decided.

For administrators, and never for clients: to a client, something refused looks as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.access import overrides
from mcp_django.access.permissions import ALLOWED, Decision, decide_by_override
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
from mcp_django.bridge.tools.saved_queries import SavedQuery
from mcp_django.bridge.writes import access
from mcp_django.bridge.writes.tools import OperationTool
from mcp_django.console.review import inventory
from mcp_django.core.hooks import hook_of
from mcp_django.exchange.exchange import Exchange, inspection_exchange
from mcp_django.exchange.principals import Principal, Source, Superuser
from mcp_django.exchange.requests import looking
from mcp_django.exchange.scopes import ANY_MODEL, ANY_WRITABLE, READ, SCOPES, WRITE, broader, expand, of_model, of_tool
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.unknown_names import nearest

Kind = Literal["model", "field", "row", "write", "tool", "prompt", "resource"]
#: A text for people, which is translated where it is shown.
Text = Any

#: Longer names are not looked for.
MAX_NAME = 500

#: What is asked → its question.
QUESTIONS: Mapping[str, Text] = {
    "exposure": _("Is it exposed?"),
    "scope": _("Do the scopes allow it?"),
    "switch": _("Is it switched on?"),
    "groups": _("Is it open to a group of the user?"),
    "permission": _("Does the user have the permission?"),
    "key": _("Can its primary key be read?"),
    "field": _("Is the field shown?"),
    "row": _("Is the row among those that the user sees?"),
    "writing": _("May the user write it so?"),
    "tasks": _("Can it be run here?"),
}
_MODEL = ("exposure", "scope", "permission", "key")
#: Kind of thing → what is asked of it, in the order in which it is asked.
_ASKED: Mapping[Kind, Sequence[str]] = {
    "model": (*_MODEL, "switch", "groups"),
    "field": (*_MODEL, "field", "switch", "groups"),
    "row": (*_MODEL, "switch", "groups", "row"),
    "write": (*_MODEL, "switch", "groups", "writing"),
    "tool": ("exposure", "scope", "switch", "groups", "permission", "tasks"),
    "prompt": ("exposure", "scope", "switch", "groups", "permission"),
    "resource": ("exposure", "scope", "permission"),
}
#: If one of these is the first no, the thing is not the user's, whatever the credential is.
_OF_THE_USER = frozenset({"exposure", "permission", "key", "field", "writing"})
_BY_DECISION: Mapping[Decision, str] = {
    Decision.NO_SCOPE: "scope",
    Decision.SWITCHED_OFF: "switch",
    Decision.NO_GROUP: "groups",
    Decision.NO_PERMISSION: "permission",
}
_READING: Sequence[Way] = ("collection", "record", "aggregate", "schema")


class Verdict(Enum):
    YES = "yes"
    NO = "no"
    #: Something before it said no.
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an administrator changes it: the page of a tool, of a prompt, of the credential or of the user."""

    kind: Literal["tool", "prompt", "credential", "user"]
    name: str = ""


@dataclass(frozen=True, slots=True)
class No:
    """What says no, and why."""

    step: str
    why: Text
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Step:
    question: Text
    verdict: Verdict
    why: Text = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Reasons:
    """The checklist for one thing. ``unknown`` says that there is no such thing, and then nothing was asked."""

    name: str
    kind: Kind | None = None
    no: No | None = None
    unknown: Text = ""

    @property
    def allowed(self) -> bool:
        return self.kind is not None and self.no is None

    @property
    def why(self) -> str:
        """What says no, or that there is no such thing; empty where it is allowed."""
        return str(self.unknown if self.no is None else self.no.why)

    @property
    def steps(self) -> Iterator[Step]:
        asked = () if self.kind is None else _ASKED[self.kind]
        verdict = Verdict.YES
        for name in asked:
            if self.no is not None and name == self.no.step:
                yield Step(QUESTIONS[name], Verdict.NO, self.no.why, self.no.place)
                verdict = Verdict.NOT_ASKED
            else:
                yield Step(QUESTIONS[name], verdict)


#: ``known`` for a viewer who may know of everything.
EVERYTHING: Collection[Kind] = ("model", "field", "row", "write", "tool", "prompt", "resource")


def explain(
    site: MCPSite,
    user: Any,
    scopes: Iterable[str],
    name: str,
    *,
    known: Collection[Kind] = EVERYTHING,
    request: HttpRequest | None = None,
) -> Reasons:
    """Why the user may use the thing with these scopes, or why not. Without a user, as the project declares it.

    ``name`` is that of a model (``app.model``), a field (``app.model.field``), a row (``db://app/model/pk``), a way to
    write (``app.model:create``, ``:update`` or ``:delete``), a declared resource (its URI), a tool or a prompt; of a
    tool and a prompt of the same name the tool is meant, unless it is ``prompt:NAME``. ``known`` are
    the kinds of things of which the viewer may know every one: anything else that is not the user's looks as if it did
    not exist.
    """
    name = name.strip()[:MAX_NAME]
    found = _Asker(site, user, scopes, request).answer(name)
    if found.kind is None or found.kind in known:
        return found if found.kind is not None else _unknown(site, user, name, known, request)
    at_most = _Asker(site, user, SCOPES, request).answer(name)
    is_own = found.kind in ("model", "field", "row", "write") or at_most.no is None
    if not is_own or (at_most.no is not None and at_most.no.step in _OF_THE_USER):
        return _unknown(site, user, name, known, request)
    return found


def _unknown(site: MCPSite, user: Any, name: str, known: Collection[Kind], request: HttpRequest | None) -> Reasons:
    names = _Asker(site, user, SCOPES, request).names(name, known)
    return Reasons(name, unknown=format_lazy("{}{}", _("There is no such model, field, row, tool, prompt or resource."),
                                             nearest(name[:100], names)))  # fmt: skip


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
        no = self._model(label)
        rights = None if no is not None else self.rights.of_label(label)
        if kind == "field" and not _has_field(label, rights, field):
            return Reasons(name)
        if rights is not None and kind == "field":
            no = _field(rights, field) or self._switch(rights, _READING)
        elif rights is not None and target is not None and kind == "row":
            no = self._switch(rights, ("record", "collection")) or self._row(rights, target.key)
        elif rights is not None:
            no = self._switch(rights, _READING)
        return Reasons(name, kind, no)

    def _model(self, label: str) -> No | None:
        model_mcp = self.site.models.get(label)
        if model_mcp is None:
            return No("exposure", self._why_unexposed(label))
        decision = self.rights.decision(model_mcp)
        if decision is Decision.NO_SCOPE:
            return No("scope", _missing_scope(of_model(label), READ), Place("credential"))
        if decision is not ALLOWED:
            return No("permission", self._why_not_viewed(model_mcp), Place("user"))
        if self.rights.of_label(label) is None:
            return No("key", _("Its primary key is hidden, and without it no row can be named."))
        return None

    def _why_unexposed(self, label: str) -> Text:
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
        return self._why_not_by_admin(
            admin, "has_view_permission", f"{needed} or {opts.app_label}.change_{opts.model_name}"
        )

    def _why_not_by_admin(self, admin: Any, name: str, needed: str) -> Text:
        """Why the hook of a ModelAdmin says no: by Django's own, the permission is missing."""
        if not admin.admin_site.has_permission(self.request):
            return _("The user may not enter the admin, which shows the model.")
        hook = hook_of(admin, name)
        if getattr(hook, "__module__", "").startswith("django.contrib.admin"):
            return _missing_permission(needed)
        return format_lazy(_("{hook} says no."), hook=getattr(hook, "__qualname__", name))

    def _write(self, label: str, operation: Operation) -> No | None:
        """Why rows of the model may not be written in this way."""
        rights = None if (no := self._model(label)) is not None else self.rights.of_label(label)
        if rights is None:
            return no
        declared, admin, opts = rights.model_mcp, rights.model_mcp.model_admin, rights.model_mcp.opts
        match access.decision(rights, operation):
            case Decision.ALLOWED:
                return None
            case Decision.SWITCHED_OFF:
                return self._switch(rights, ("record",))
            case Decision.NO_SCOPE:
                return No("writing", _missing_scope(of_model(label, WRITE), WRITE), Place("credential"))
            case Decision.NOT_WRITABLE if admin is None:
                return No("writing", _("It is not in the admin, through whose forms agents write."))
            case Decision.NOT_WRITABLE:
                name = type(declared).__name__
                return No("writing", format_lazy(_("{name}.writable does not name {what}."), name=name, what=operation))
        needed = f"{opts.app_label}.{get_permission_codename(access.VERBS[operation], opts)}"
        return No("writing", self._why_not_by_admin(admin, access.HOOKS[operation], needed), Place("user"))

    def _switch(self, rights: ModelRights, found: Sequence[Way]) -> No | None:
        """What closes every one of the ways to read a model, if all of them are closed by administrators."""
        names = [ways.TOOLS[way] for way in found if ways.has(rights, way)]
        if not names or any(self.rights.may_use(name) for name in names):
            return None
        decision = decide_by_override(self.request, self.tool_rows.get(names[0], overrides.ON))
        return No(_BY_DECISION[decision], _why_overridden(decision, names[0]), Place("tool", names[0]))

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

    def _tool(self, tool: BaseTool) -> No | None:
        decision = tools.decision(self.exchange, tool, self.tool_rows)
        place = Place("tool", tool.name)
        if decision is ALLOWED:
            no_tasks = No("tasks", _("It runs as a task only, and there is nobody to run tasks."))
            return None if tools.is_runnable(tool, self.exchange) else no_tasks
        if decision is Decision.NO_SCOPE:
            return No("scope", _missing_scope(of_tool(tool.name), tool.least_scope), Place("credential"))
        if decision is Decision.NO_PERMISSION:
            return No("permission", self._why_not_available(tool), Place("user"))
        return No(_BY_DECISION[decision], _why_overridden(decision, tool.name), place)

    def _why_not_available(self, tool: BaseTool) -> Text:
        if (permission := getattr(tool, "permission", "")) and not _has(self.request.user, permission):
            return _missing_permission(permission)
        if isinstance(tool, SavedQuery) and not tool.is_available(self.request):
            # Which one is not said: the viewer may not be allowed to read it either.
            return _("The user may not read its model, or one of its fields.")
        if isinstance(tool, OperationTool):
            return format_lazy(_("There is no model of which the user may {what} rows."), what=tool.operation)
        if not isinstance(tool, ActingTool):
            return format_lazy(_("{hook} says no."), hook=f"{type(tool).__name__}.is_available")
        no = self._model(tool.model_mcp.label)
        if no is not None:
            return format_lazy(_("The model {model} is not visible. {why}"), model=tool.model_mcp.label, why=no.why)
        names = " or ".join(tool.permissions)
        return format_lazy(
            _("The admin does not offer the action to the user: it needs the permission to {names} {model}."),
            names=names, model=tool.model_mcp.label,
        )  # fmt: skip

    def _prompt(self, name: str, decision: Decision) -> No | None:
        if decision is ALLOWED:
            return None
        if decision is Decision.NO_SCOPE:
            return No("scope", _missing_scope(READ), Place("credential"))
        if decision is Decision.NO_PERMISSION:
            needed = getattr(self.site.prompts.get(name), "permission", "")
            return No("permission", _missing_permission(needed), Place("user"))
        return No(_BY_DECISION[decision], _why_overridden(decision, name), Place("prompt", name))

    def _resource(self, resource: FunctionResource | FunctionTemplate) -> No | None:
        decision = resources.decision(resource, self.request)
        if decision is ALLOWED:
            return None
        if decision is Decision.NO_SCOPE:
            return No("scope", _missing_scope(READ), Place("credential"))
        permission = getattr(resource, "permission", "")
        hook = f"{type(resource).__name__}.is_available"
        why = _missing_permission(permission) if permission else format_lazy(_("{hook} says no."), hook=hook)
        return No("permission", why, Place("user"))


# Texts.


def _missing_scope(*names: str) -> Text:
    shown = (broader(name) if name in (ANY_MODEL, ANY_WRITABLE) else name for name in names)
    return format_lazy(_("The scope {names} is missing."), names=" or ".join(dict.fromkeys(shown)))


def _missing_permission(names: str) -> Text:
    return format_lazy(_("The permission {names} is missing."), names=names)


def _why_overridden(decision: Decision, name: str) -> Text:
    if decision is Decision.SWITCHED_OFF:
        return format_lazy(_("{name} is switched off."), name=name)
    return format_lazy(_("{name} is limited to groups, and the user is in none of them."), name=name)


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
    hidden = {field: (word, why) for field, word, why in inventory.hidden_fields(rights)}
    word, why = hidden.get(name, ("", refused_sources(rights).get(name, "")))
    if name in rights.excluded:
        return No("field", _("get_exclude names it."))
    if word == "not shown" or not why:
        declared_by = type(rights.model_mcp.declared_by).__name__
        return No("field", format_lazy(_("It is not among the fields that {name} shows."), name=declared_by))
    remedy = inventory.REMEDIES.get(word)
    return No("field", f"{why}; {remedy}" if remedy else why)


def _has(user: Any, permission: str) -> bool:
    return bool((user or AnonymousUser()).has_perm(permission))
