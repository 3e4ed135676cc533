"""What the admin shows a user, beside what of it the endpoint shows: each field, inline and action, with the reason.

The admin is asked as its own pages ask it: for its list, and for the change form of an object. That object is an empty
one, so that no database is needed. It is never None, which would mean the form for adding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.contrib.admin import ModelAdmin
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
from mcp_django.bridge.resources.reading.schema import record_fields
from mcp_django.bridge.tools.actions import AdminActionTool, offered_actions
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.core.compat.admin import names_in_fieldsets
from mcp_django.core.hooks import call_hook, hook_of
from mcp_django.types import JSON

T = TypeVar("T")

#: Words for the kind of reason, and the reason with its cure, which is empty where there is none.
Reason = tuple[str, str]

_NONE: Reason = ("without a reason", "")
_EXCLUDED: Reason = ("excluded", "{owner} excludes it; take it out of exclude there")
_NOT_NAMED: Reason = ("not named", "fields of {owner} do not name it; name it there")
_SECRET: Reason = ("secret", "looks like a secret; name it in fields of a ModelMCP")
_BY_OBJECT: Reason = ("by a hook", "{hook} decides by the object; decorate it with mcp_django.ignores_object")
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
        """``{"fields", "fields_here", "actions", "actions_here", "hidden", "missing"}``, the first four as numbers.

        ``hidden``: the number of missing fields for each kind of reason; ``missing``: label of a model → name → the
        reason, empty where there is none. Models that are left out are no part of it.
        """
        missing: JSON = {}
        for (label, name), reason in [*self.fields.items(), *self.actions.items()]:
            if reason is not None and label not in self.left_out:
                missing.setdefault(label, {})[name] = reason[1]
        return {
            "fields": len(self.fields),
            "fields_here": sum(reason is None for reason in self.fields.values()),
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
    def actions(self) -> dict[tuple[str, str], Reason | None]:
        """As ``fields``, each action that the admin offers for rows of a model that is here."""
        here = {(tool.model_mcp.label, tool.action_name) for tool in self.tools if isinstance(tool, AdminActionTool)}
        found: dict[tuple[str, str], Reason | None] = {}
        for admin in self.admins:
            rights = self.rights.of_model(admin.model)
            for tool in offered_actions(rights.model_mcp, self.rights.request) if rights is not None else ():
                is_here = (tool.model_mcp.label, tool.action_name) in here
                found[tool.model_mcp.label, f"action {tool.action_name}"] = None if is_here else self._why_action(tool)
        return found

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

    def _why_action(self, tool: AdminActionTool) -> Reason:
        known = self.rights.site.tools.get(tool.name)
        if known is None:
            return _LATER
        if not isinstance(known, AdminActionTool) or known.action_name != tool.action_name:
            return _written(_TAKEN, name=tool.name)
        if not has_scope(self.rights.request, known.scope):
            return _written(_SCOPE, scope=known.scope)
        return _REFUSED


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
    ask = partial(admin.get_fieldsets, request)
    in_form = _ask(admin, "get_fieldsets", lambda: list(ask(plain_object(admin.model))), nothing)
    names = [item if isinstance(item, str) else getattr(item, "__name__", "") for item in listed]
    names = [_field_name(admin.model, name) for name in [*names, *names_in_fieldsets(in_form)]]
    return [name for name in dict.fromkeys(names) if name != "__str__"]


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
