"""What the admin shows a user, beside what of it the endpoint shows: each field, inline and action, with the reason.

The admin is asked as its own pages ask it: for its list, and for the change form of an object. That object is an empty
one, so that no database is needed. It is never None, which would mean the form for adding.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.functional import cached_property

from mcp_django.access.permissions import has_scope
from mcp_django.bridge.declared.admin_form import has_form
from mcp_django.bridge.declared.inlines import InlineMCP, inlines_of
from mcp_django.bridge.declared.options import ModelMCP
from mcp_django.bridge.declared.secrets import is_ours, is_secret_name
from mcp_django.bridge.declared.witness import plain_object
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading.list_filters import PREFIX, list_filters
from mcp_django.bridge.resources.reading.schema import record_fields
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.actions import offered_actions
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.object_actions import ObjectActionTool
from mcp_django.core.compat.admin import names_in_fieldsets
from mcp_django.core.hooks import call_hook, hook_of
from mcp_django.protocol.types import JSON

T = TypeVar("T")

#: Words for the kind of reason, and the reason with its cure, which is empty where there is none.
Reason = tuple[str, str]

_NONE: Reason = ("without a reason", "")
_EXCLUDED: Reason = ("excluded", "{owner} excludes it; take it out of exclude there")
_NOT_NAMED: Reason = ("not named", "fields of {owner} do not name it; name it there")
_SECRET: Reason = ("secret", "looks like a secret; name it in fields of a ModelMCP")
_BY_OBJECT: Reason = (
    "by a hook",
    "{hook} decides by the object; decorate it with mcp_django.ignores_object if it answers the same for each, or "
    "where a package wrote it, set object_permissions = False in a ModelMCP of yours",
)
_FILTER: Reason = ("not filtered by", "leads to what may not be read; show that field")
_OWN_FILTER: Reason = ("not filtered by", "{owner} names its fields; name {name} in filter_fields there")
_SEARCH: Reason = ("not searched in", "may not be read or searched; show that field")
_BY_ADMIN: Reason = ("not searched in", 'get_search_results may look into hidden fields; set search = "admin"')
_OF_CLASS: Reason = ("in forms of a class", "is in the form of the class of the object; ask the model of that class")
_PATH: Reason = ("in hidden relations", "leads to a field that is not shown; show that field")
_INPUT: Reason = ("input", "is an input of the form, and no value of a row; name a method in fields of a ModelMCP")
_COMPUTED: Reason = ("computed in forms", "is computed in the form alone; name it in list_display")
_OF_HIDDEN: Reason = ("of hidden models", "{why}; register a ModelMCP for {label}")
_LEFT_OUT: Reason = ("of hidden models", "the model is left out; see there")
_TAKEN: Reason = ("of a taken name", "another tool is named {name}; rename the action")
_SCOPE: Reason = ("without its scope", "the scope {scope} is missing; add it with --scopes")
_REFUSED: Reason = ("refused", "the user may not run it, or it is off; an administrator switches it on, at Tools")
_LATER: Reason = ("not found yet", "get_actions offers it to this user alone; let a client of the user list its tools")


@dataclass
class Comparison:
    """The admin of a site beside what a principal reaches."""

    rights: Rights
    #: The models that are left out as a whole, each with the reason.
    left_out: Mapping[str, str]
    #: The fields of a model that are hidden, each with the reason.
    hidden_of: Callable[[ModelRights], Mapping[str, Reason]]
    #: The tools that the principal may call.
    tools: Iterable[BaseTool]

    def as_json(self) -> JSON:
        """``{"fields", "fields_here", "uses", "uses_here", "actions", "actions_here", "hidden", "missing"}``.

        The first six are numbers; ``uses`` are filters and searches of lists.

        ``hidden``: the number of missing fields for each kind of reason; ``missing``: label of a model → name → the
        reason, empty where there is none. Models that are left out are no part of it.
        """
        missing: JSON = {}
        for (label, name), reason in [*self.fields.items(), *self.uses.items(), *self.actions.items()]:
            if reason is not None and label not in self.left_out:
                missing.setdefault(label, {})[name] = reason[1]
        return {
            "fields": len(self.fields),
            "fields_here": sum(reason is None for reason in self.fields.values()),
            "uses": len(self.uses),
            "uses_here": sum(reason is None for reason in self.uses.values()),
            "actions": len(self.actions),
            "actions_here": sum(reason is None for reason in self.actions.values()),
            "hidden": Counter(reason[0] for reason in self.fields.values() if reason is not None),
            "missing": missing,
        }

    @cached_property
    def admins(self) -> list[ModelAdmin[Any]]:
        """The ModelAdmins whose pages the user may see, without our own, which show nothing of the project."""
        found = [admin for admin in self.rights.site.model_admins.values() if not is_ours(admin.model)]
        return [admin for admin in found if _ask(admin, "has_view_permission", partial(self._may_see, admin), False)]

    def _may_see(self, admin: ModelAdmin[Any]) -> bool:
        request = self.rights.request
        return admin.admin_site.has_permission(request) and admin.has_view_or_change_permission(request)

    @cached_property
    def fields(self) -> dict[tuple[str, str], Reason | None]:
        """Each field that the admin shows, by label and name, with the reason why it is missing; None if it is here."""
        found: dict[tuple[str, str], Reason | None] = {}
        for admin in self.admins:
            label = Rights.label_of(admin.model)
            rights = self.rights.of_label(label)
            for name in _names(admin, self.rights.request):
                found[label, name] = self._why_model(label) if rights is None else self._why_field(admin, rights, name)
            for inline, name in _inline_names(admin, self.rights.request):
                path = f"inline {Rights.label_of(inline.model)}.{name}"
                found[label, path] = (
                    self._why_model(label) if rights is None else self._why_inline(rights, inline, name)
                )
        return found

    @cached_property
    def uses(self) -> dict[tuple[str, str], Reason | None]:
        """As ``fields``, each field that the admin's list of a model that is here is filtered by, or searched in."""
        found: dict[tuple[str, str], Reason | None] = {}
        for admin in self.admins:
            rights = self.rights.of_model(admin.model)
            for use, why in self._uses_of(admin, rights) if rights is not None else ():
                found[Rights.label_of(admin.model), use] = why
        return found

    def _uses_of(self, admin: ModelAdmin[Any], rights: ModelRights) -> Iterator[tuple[str, Reason | None]]:
        request = self.rights.request
        nothing: list[Any] = []
        filters = _ask(admin, "get_list_filter", lambda: list(admin.get_list_filter(request)), nothing)
        for item in [*filters, *filter(None, [admin.date_hierarchy])]:
            if isinstance(item, type):
                yield from _own_filter(admin, rights, item)
            elif isinstance(path := item[0] if isinstance(item, list | tuple) else item, str):
                yield f"filter {path}", None if rights.knows(path) else self._why_path(admin, rights, path, _FILTER)
        sought = {field.declared for field in rights.searchable} if rights.can_search else set()
        for declared in _ask(admin, "get_search_fields", lambda: list(admin.get_search_fields(request)), nothing):
            why = _BY_ADMIN if rights.searched_by == "nothing" else _SEARCH
            is_here = declared in sought
            path = declared.lstrip("^=@")
            yield f"search in {declared}", None if is_here else self._why_path(admin, rights, path, why)

    def _why_path(self, admin: ModelAdmin[Any], rights: ModelRights, path: str, otherwise: Reason) -> Reason:
        why = self._why_field(admin, rights, path.partition("__")[0])
        return why if why is not None and why[1] else otherwise

    @cached_property
    def actions(self) -> dict[tuple[str, str], Reason | None]:
        """As ``fields``, each action that the admin offers for rows of a model that is here."""
        here = {tool.name for tool in self.tools if isinstance(tool, ActingTool)}
        found: dict[tuple[str, str], Reason | None] = {}
        for admin in self.admins:
            rights = self.rights.of_model(admin.model)
            for name, tool in self._offered(rights) if rights is not None else ():
                found[tool.model_mcp.label, name] = None if tool.name in here else self._why_action(tool)
        return found

    def _offered(self, rights: ModelRights) -> Iterator[tuple[str, ActingTool]]:
        request = self.rights.request
        for tool in offered_actions(rights.model_mcp, request):
            yield f"action {tool.action_name}", tool
        for one in self.rights.site.actions_on(rights.model):
            if isinstance(one, ObjectActionTool) and one.is_available(request):
                yield f"action of a row {one.action_name}", one

    def _why_model(self, label: str) -> Reason:
        return _LEFT_OUT if label in self.left_out else _NONE

    def _why_field(self, admin: Any, rights: ModelRights, name: str) -> Reason | None:
        model_mcp = rights.model_mcp
        if _shows(rights, name):
            return None
        if (hidden := self.hidden_of(rights).get(name, _NONE)) != _NONE:
            return hidden
        if name in rights.excluded:
            return _written(_EXCLUDED, owner=type(model_mcp).__name__)
        own = model_mcp.fields is not None or hook_of(model_mcp, "get_fields") is not ModelMCP.get_fields
        if own and not isinstance(model_mcp, InlineMCP):
            return _written(_NOT_NAMED, owner=type(model_mcp).__name__)
        is_field = name in {field.name for field in rights.model._meta.get_fields()}
        if not is_field and is_secret_name(name):
            return _SECRET
        if model_mcp.model_admin is not None and not has_form(model_mcp.model_admin):
            return _OF_CLASS
        if rights.object_hooks:
            return _written(_BY_OBJECT, hook=rights.object_hooks[0])
        if "__" in name.strip("_"):
            return _PATH
        if is_field:
            return _NONE
        return _COMPUTED if hasattr(admin, name) or hasattr(rights.model, name) else _INPUT

    def _why_inline(self, rights: ModelRights, inline: Any, name: str) -> Reason | None:
        """A field of an inline is here in a relation, or in a model of its own."""
        own = self.rights.of_model(inline.model)
        found = [relation.related for relation in rights.relations.values() if relation.related.model is inline.model]
        found += [own] if own is not None else []
        reasons = [self._why_field(inline, one, name) for one in found]
        if None in reasons:
            return None
        if inline.model in {relation.between for relation in rights.relations.values()}:
            return None
        why = next(
            (why for one, why in inlines_of(rights.model_mcp, rights.rights.request) if type(one) is type(inline)), ""
        )
        if not found and why:
            return _written(_OF_HIDDEN, why=why, label=Rights.label_of(inline.model))
        return next((reason for reason in reasons if reason is not None and reason[1]), _NONE)

    def _why_action(self, tool: ActingTool) -> Reason:
        known = self.rights.site.tools.get(tool.name)
        if known is None:
            return _LATER
        if not isinstance(known, ActingTool) or known.action_name != tool.action_name:
            return _written(_TAKEN, name=tool.name)
        if not has_scope(self.rights.request, known.scope):
            return _written(_SCOPE, scope=known.scope)
        return _REFUSED


def _own_filter(admin: ModelAdmin[Any], rights: ModelRights, cls: type[Any]) -> Iterator[tuple[str, Reason | None]]:
    """A filter that the project has written, if it offers the user a choice."""
    made = _ask(admin, "get_list_filter", lambda: cls(rights.rights.request, {}, rights.model, admin), None)
    if made is not None and made.has_output() and issubclass(cls, SimpleListFilter):
        name, owner = f"{PREFIX}{cls.parameter_name}", type(rights.model_mcp).__name__
        is_here = name in list_filters(rights)
        yield f"filter {name}", None if is_here else _written(_OWN_FILTER, owner=owner, name=name)


def _written(reason: Reason, **named: str) -> Reason:
    word, why = reason
    return word, why.format(**named)


def _shows(rights: ModelRights, name: str) -> bool:
    """Whether the principal may read what the admin gives this name, even if only in get_record."""
    of_row = rights.of_row(plain_object(rights.model)) if rights.shows_by_object else rights
    return name in rights.computed or of_row.knows(name) or name in record_fields(rights)


# What the admin shows.


def _ask(admin: ModelAdmin[Any], hook: str, ask: Callable[[], T], default: T) -> T:
    return call_hook(ask, default, f"<{type(admin).__name__} {Rights.label_of(admin.model)}>", hook)


def _names(admin: ModelAdmin[Any], request: Any) -> list[str]:
    """The names in the list and in the change form, without the text of a row, which is no field of it."""
    nothing: list[Any] = []
    listed = _ask(admin, "get_list_display", lambda: list(admin.get_list_display(request)), nothing)
    if any(hook_of(admin, name) is not getattr(ModelAdmin, name) for name in _MAKING_PAGE):
        listed += _ask(admin, "get_changelist", partial(_columns_of_page, admin, request), nothing)
    obj = plain_object(admin.model)
    fieldsets = _ask(admin, "get_fieldsets", lambda: list(admin.get_fieldsets(request, obj)), nothing)
    in_form = names_in_fieldsets(fieldsets)
    in_form = _ask(admin, "get_form", partial(_rendered, admin, request, obj, in_form), in_form)
    names = [item if isinstance(item, str) else getattr(item, "__name__", "") for item in listed]
    names = [_field_name(admin.model, name) for name in [*names, *in_form]]
    return [name for name in dict.fromkeys(names) if name not in ("__str__", "action_checkbox")]


#: Hooks that make the page of the list, and may give it columns that nothing else names.
_MAKING_PAGE = ("get_changelist", "get_changelist_instance")


def _columns_of_page(admin: ModelAdmin[Any], request: Any) -> list[Any]:
    """The columns of the list's page, some of which only its class may add. No row is read for it."""
    own: Any = copy.copy(admin)
    own.get_queryset = lambda request: admin.get_queryset(request).none()
    own.get_list_filter = lambda request: ()
    return list(own.get_changelist_instance(request).list_display)


def _rendered(admin: ModelAdmin[Any], request: Any, obj: models.Model, names: list[str]) -> list[str]:
    """The names in the change form, without those of which its page shows nothing."""
    if not admin.has_change_permission(request, obj):
        return names
    form = admin.get_form(request, obj, change=True, fields=names)
    shown = {*form.base_fields, *admin.get_readonly_fields(request, obj)}
    return [name for name in names if name in shown]


def _inline_names(admin: ModelAdmin[Any], request: Any) -> Iterator[tuple[Any, str]]:
    """The names in each inline of the change form, without the key that leads back to the object."""
    parent = partial(plain_object, admin.model)
    nothing: list[Any] = []
    for inline in _ask(admin, "get_inline_instances", lambda: admin.get_inline_instances(request, parent()), nothing):
        in_form = _ask(inline, "get_fieldsets", partial(inline.get_fieldsets, request, parent()), nothing)
        formset = _ask(inline, "get_formset", partial(inline.get_formset, request, parent()), None)
        back = getattr(getattr(formset, "fk", None), "name", "")
        for name in names_in_fieldsets(in_form):
            if name != back:
                yield inline, _field_name(inline.model, name)


def _field_name(model: type[models.Model], name: str) -> str:
    """The name of the field that the admin calls ``pk`` or ``author_id``; any other name as it is."""
    try:
        return str(model._meta.pk.name if name == "pk" else model._meta.get_field(name).name)
    except FieldDoesNotExist:
        return name
