"""Admin actions as tools. They run through the ModelAdmin, on its queryset, if its permission checks allow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.contrib import admin as contrib_admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.actions import delete_selected
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import cached_property

from mcp_django.bridge.changes import confirmations
from mcp_django.bridge.changes.proposed import CONFIRM
from mcp_django.bridge.declared.consent import CONSENTS, is_consent
from mcp_django.bridge.declared.spelling import refuse_unknown
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.reading import splitting
from mcp_django.bridge.tools import action_pages
from mcp_django.bridge.tools.acting import ActingTool, tool_name
from mcp_django.bridge.tools.action_pages import ListStart
from mcp_django.bridge.tools.action_rows import MAX_ACTION_IDS, finds_rows, of_filter, of_ids
from mcp_django.bridge.tools.base import Annotations
from mcp_django.bridge.tools.proposed_action import ProposedAction
from mcp_django.core.hooks import call_hook, hook_of
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import open_object
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import Admit
    from mcp_django.bridge.declared.consent import Consent
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

# Django 6.1 has actions of its forms beside those of its lists.
_LOCATION: Any = getattr(contrib_admin, "ActionLocation", None)

F = TypeVar("F", bound=Callable[..., Any])

_FILTER = "Instead of ids, as in find_records."
_FIRST_CALL = " Shows the rows first."
#: More ids than these are shown first, as the rows of a filter are.
_MANY = 20
_CONFIRM: JSON = {
    "type": "string",
    "maxLength": confirmations.MAX_CHARS,
    "description": "The token given with these rows.",
}


@refuse_unknown
def action(
    *,
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
    changes: Collection[str] = (),
    consent: Consent = "preview",
    shows_page: bool | int = False,
) -> Callable[[F], F]:
    """Declare what an admin action does to the data. This must be the outermost decorator.

    The function itself does not show it, so an action without this decorator counts as destructive.

    The arguments become ``readOnlyHint``, ``destructiveHint`` and ``idempotentHint`` (2026-07-28
    schema#toolannotations). A ``read_only`` action is never destructive and always idempotent. It needs the scope
    ``read`` instead of ``actions``, runs on the rows of a filter without ``confirm``, and writes no history.

    ``changes`` names the fields that the action changes. Its preview says what is in them now.

    ``consent`` is "preview", "ask", "approve" or an ``Approval``. With more than "preview" the rows are shown first,
    and the user of the agent or other people must agree. Raises ImproperlyConfigured for any other value.

    ``shows_page``: the action answers with a page first, or with so many pages, and acts only after them. Then these
    are shown before anybody agrees, and people agree to the answers. What acts before its page must not say so.
    """
    if not is_consent(consent):
        raise ImproperlyConfigured(f"consent= of an action must be {CONSENTS}, and not {consent!r}.")
    if read_only and consent != "preview":
        raise ImproperlyConfigured("An action that only reads needs no consent=.")

    def decorate(function: F) -> F:
        function.mcp_annotations = Annotations(  # type: ignore[attr-defined]
            read_only=read_only, destructive=destructive and not read_only, idempotent=idempotent or read_only
        )
        function.mcp_changes = tuple(changes)  # type: ignore[attr-defined]
        function.mcp_consent = consent  # type: ignore[attr-defined]
        function.mcp_shows_pages = int(shows_page)  # type: ignore[attr-defined]
        return function

    return decorate


def declared_actions(model_mcp: ModelMCP) -> Iterator[AdminActionTool]:
    """A tool for each action that the ModelAdmin itself declares. Actions of the whole AdminSite are not tools."""
    admin = model_mcp.model_admin
    if admin is None:
        return
    places = _places(hook_of(admin, "get_action"))
    # Django's own check reports what is no list, and what is in it and no action.
    for declared in admin.actions if isinstance(admin.actions, list | tuple) else ():
        if not isinstance(declared, str) and not callable(declared):
            continue
        found = next(filter(None, (admin.get_action(declared, *place) for place in places)), None)
        if found is not None and _can_be_called(_as_tuple(found)[0]):
            yield AdminActionTool(model_mcp, *_as_tuple(found))


def _can_be_called(function: Callable[..., Any]) -> bool:
    """Whether the function takes what the admin gives to an action: the ModelAdmin, the request and the rows."""
    try:
        # A decorator may give what it wraps more than it takes, as the values of a form.
        signature(function, follow_wrapped=False).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:
        return True  # One that is not written in Python does not say.
    return True


def adds_actions(model_mcp: ModelMCP) -> bool:
    """Whether the project's own ``get_actions`` may offer more than the ModelAdmin declares."""
    admin = model_mcp.model_admin
    return admin is not None and hook_of(admin, "get_actions") is not ModelAdmin.get_actions


def offered_actions(model_mcp: ModelMCP, request: MCPRequest) -> Iterator[AdminActionTool]:
    """A tool for each action that the ModelAdmin offers for the request, except those of the whole AdminSite."""
    admin = model_mcp.model_admin
    if admin is None:
        return
    of_site: dict[str, Any] = dict(cast("Any", admin.admin_site.actions))
    nothing: dict[str, Any] = {}
    offered = call_hook(partial(_offered, admin, request), nothing, f"{type(admin).__name__}.get_actions")
    for name, found in offered.items():
        if of_site.get(name) is not _as_tuple(found)[0] and _can_be_called(_as_tuple(found)[0]):
            yield AdminActionTool(model_mcp, *_as_tuple(found))


def _offered(admin: ModelAdmin[Any], request: MCPRequest) -> dict[str, Any]:
    """The actions of the admin's lists and, from Django 6.1 on, of its forms."""
    found: dict[str, Any] = {}
    for place in _places(hook_of(admin, "get_actions")):
        found = {**admin.get_actions(request, *place), **found}
    return found


@lru_cache(maxsize=1_000)
def _places(method: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """The arguments that ask ``get_action`` or ``get_actions`` for each place. A project's own may take no place."""
    if _LOCATION is None or "action_location" not in signature(method).parameters:
        return [()]
    return [(_LOCATION.CHANGE_LIST,), (_LOCATION.CHANGE_FORM,)]


def _as_tuple(found: Any) -> tuple[Callable[..., Any], str, Any]:
    """The function, name and label of an action: a tuple up to Django 6.0, and also later where a project makes it."""
    return found if isinstance(found, tuple) else (found.func, found.name, found.plural_description)


class AdminActionTool(ActingTool):
    """One action of a ModelAdmin. Agents call it with the primary keys of the rows to act on, or with a filter."""

    browser = "mcp_django.bridge.browser.of_list.ListBrowser"

    def __init__(self, model_mcp: ModelMCP, function: Callable[..., Any], action_name: str, description: Any) -> None:
        self.model_mcp = model_mcp
        self.action_name = action_name
        self.name = tool_name(model_mcp.opts.app_label, model_mcp.opts.model_name or "", action_name)
        self.annotations = getattr(function, "mcp_annotations", Annotations())
        self.changes = getattr(function, "mcp_changes", ())
        self.consent = getattr(function, "mcp_consent", "preview")
        self.shows_pages = getattr(function, "mcp_shows_pages", int(function is delete_selected))
        self.permissions = list(getattr(function, "allowed_permissions", (model_mcp.site.action_permission,)))
        self._label = description

    def get_title(self) -> str:
        """The label of the action in the admin, as ``Mark selected flights as cancelled``."""
        names = {
            "verbose_name": self.model_mcp.opts.verbose_name,
            "verbose_name_plural": self.model_mcp.opts.verbose_name_plural,
        }
        try:
            label = str(self._label) % names
        except (ValueError, TypeError, KeyError):
            label = str(self._label)
        return label.rstrip(".")

    def get_description(self, request: MCPRequest | None) -> str:
        return f"{self.get_title()}. Acts on {self.model_mcp.label} rows, by ids{self._or_filter(request)}."

    def _or_filter(self, request: MCPRequest | None) -> str:
        return (
            "" if request is not None and "filter" not in self.get_input_schema(request)["properties"] else " or filter"
        )

    def get_input_schema(self, request: MCPRequest) -> JSON:
        schema = self._schema(request)
        rights = Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label)
        if rights is not None and finds_rows(rights):
            return schema
        return {**schema, "properties": {name: one for name, one in schema["properties"].items() if name != "filter"}}

    @cached_property
    def _input(self) -> Schema:
        label = self.model_mcp.label
        ids = {
            "type": "array",
            # Integers are taken too. One type in each schema, since some model interfaces drop a tool with two.
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_ACTION_IDS,
            "description": f"Primary keys of the {label} rows to act on. All or none are acted on."
            + ("" if self.annotations.read_only else f" More than {_MANY} are shown first."),
        }
        filtered = open_object(_FILTER if self.annotations.read_only else _FILTER + _FIRST_CALL)
        properties: JSON = {"ids": ids, "filter": filtered, "pages": action_pages.SCHEMA}
        if not self.annotations.read_only:
            properties[CONFIRM] = _CONFIRM
        return Schema({"type": "object", "properties": properties, "additionalProperties": False})

    def is_available(self, request: MCPRequest) -> bool:
        """As the changelist offers it. Of an action that names no permission the site says what it needs."""
        admin = self._admin
        if Rights.of(self.model_mcp.site, request).of_label(self.model_mcp.label) is None:
            return False
        function = self._function_for(request)
        if function is None:
            return False
        # Whoever has rights on the model sees its list.
        is_decided = hasattr(function, "allowed_permissions") or self.model_mcp.site.action_permission == "view"
        return is_decided or admin.has_change_permission(request)

    def _function_for(self, request: MCPRequest) -> Callable[..., Any] | None:
        """The action as the changelist would run it for this user, since ``get_actions`` may remove or replace it."""
        actions = _offered(self._admin, request)
        return _as_tuple(actions[self.action_name])[0] if self.action_name in actions else None

    def start(self, request: MCPRequest, chosen: ChosenRows) -> ListStart | None:
        function = self._function_for(request)
        return None if function is None else ListStart(self.action_name, function)

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> ProposedAction:
        """Find the rows of the arguments of a call. Raises ToolError and TooSlow."""
        request, conditions, ids = exchange.request, arguments.get("filter"), arguments.get("ids", [])
        pages = arguments.get("pages", [])
        if not conditions:
            chosen = of_ids(self.model_mcp, self._admin, request, ids)
            return ProposedAction(self, exchange, chosen, {"ids": sorted(map(str, ids))}, pages)
        asked_for = {"model": self.model_mcp.label, "filter": conditions}
        with splitting.explained(Rights.of(self.model_mcp.site, request), asked_for):
            chosen = of_filter(self.model_mcp, self._admin, request, conditions)
        return ProposedAction(self, exchange, chosen, {"filter": conditions}, pages)

    def _is_few(self, arguments: JSON) -> bool:
        return len(arguments.get("ids", ())) in range(1, _MANY + 1)

    def _named_by(self, arguments: JSON) -> str:
        return "filter" if arguments.get("filter") else "ids"

    def _misused(self, arguments: JSON, *, needs_people: bool) -> list[FieldError]:
        if ("ids" in arguments) == bool(arguments.get("filter")):
            return [field_error("ids", "give either ids or a filter that is not empty.")]
        takes_confirm = needs_people or "pages" in arguments
        if not takes_confirm and CONFIRM in arguments and self._is_few(arguments):
            return [field_error(CONFIRM, f"goes with a filter, or with more than {_MANY} ids: fewer need none.")]
        return []
