"""What each scope means for the person who gives it, and what the bearer of a token may reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext, ngettext_lazy

from mcp_django.access.authentication import authenticate
from mcp_django.access.permissions import using_tool
from mcp_django.bridge.changes.change_rows import URI as CHANGE_URI
from mcp_django.bridge.declared.options import OPERATIONS, Operation
from mcp_django.bridge.prompts import catalog as prompts
from mcp_django.bridge.resources import catalog as resources
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.query import QueryTool
from mcp_django.bridge.writes.access import writable_models
from mcp_django.bridge.writes.tools import OperationTool, WriteTool
from mcp_django.core.secret import Secret
from mcp_django.exceptions import MCPError
from mcp_django.exchange.exchange import inspection_exchange
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest, from_view
from mcp_django.exchange.scopes import ACTIONS, READ, WRITE, expand, groups, known, of_tool, parse
from mcp_django.exchange.token_format import is_well_formed

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.api.operations import Operation as ApiOperation
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.bridge.tools.base import BaseTool


#: Operation → what it does to records, as a page says it.
_WRITES: Mapping[Operation, Any] = {
    "create": ngettext_lazy("Create records of %d model", "Create records of %d models"),
    "update": ngettext_lazy("Change records of %d model", "Change records of %d models"),
    "delete": ngettext_lazy("Delete records of %d model", "Delete records of %d models"),
}


_VERBS: Mapping[Operation, Any] = {"create": _lazy("create"), "update": _lazy("change"), "delete": _lazy("delete")}


@dataclass(frozen=True, slots=True)
class Opened:
    """What a principal with exactly some scopes may do, as the catalog of tools and the policy decide."""

    #: The models that are read, by label.
    reads: dict[str, type[Model]]
    #: The models whose records are created, changed or deleted, by label.
    writes: dict[Operation, dict[str, type[Model]]]
    #: The tools that are not for models in general: actions, functions and saved queries, by name.
    tools: dict[str, BaseTool]
    #: The titles of the project's own resources and prompts, by URI and by name.
    others: dict[str, str]
    #: The operations of the project's API that read, and those that change data, by name.
    calls: dict[str, ApiOperation]
    changes: dict[str, ApiOperation]

    @property
    def is_empty(self) -> bool:
        found = self.reads, self.tools, self.others, self.calls, self.changes
        return not (any(found) or any(self.writes.values()))

    @property
    def changes_data(self) -> bool:
        writes = any(self.writes.values()) or bool(self.changes)
        return writes or any(tool.may_change for tool in self.tools.values())

    def and_beside(self, both: Opened, other: Opened) -> Opened:
        """What it opens, with what is opened by both and not by the other alone."""
        return Opened(
            self.reads | _without(both.reads, other.reads),
            {one: models | _without(both.writes[one], other.writes[one]) for one, models in self.writes.items()},
            self.tools | _without(both.tools, other.tools),
            self.others | _without(both.others, other.others),
            self.calls | _without(both.calls, other.calls),
            self.changes | _without(both.changes, other.changes),
        )

    def in_words(self) -> list[str]:
        """How much it is of each."""
        runs = sum(tool.may_change for tool in self.tools.values())
        uses, reads, sets = len(self.tools) - runs, len(self.reads), [set(models) for models in self.writes.values()]
        calls, changes = len(self.calls), len(self.changes)
        found = [
            (
                calls,
                ngettext("Call %d operation of the API that reads", "Call %d operations of the API that read", calls),
            ),
            (reads, ngettext("Read %d model", "Read %d models", reads)),
            (uses, ngettext("Use %d tool that reads", "Use %d tools that read", uses)),
            (len(self.others), ngettext("Use %d resource or prompt", "Use %d resources and prompts", len(self.others))),
            (runs, ngettext("Run %d action", "Run %d actions", runs)),
        ]
        if all(one == sets[0] for one in sets):
            text = ngettext(
                "Create, change and delete records of %d model",
                "Create, change and delete records of %d models",
                len(sets[0]),
            )
            found.append((len(sets[0]), text))
        else:
            found += [(len(models), _WRITES[one] % len(models)) for one, models in self.writes.items()]
        text = ngettext(
            "Call %d operation of the API that changes data", "Call %d operations of the API that change data", changes
        )
        found.append((changes, text))
        return [text % number if "%" in text else text for number, text in found if number]

    def titles(self) -> list[str]:
        """The names of all of it."""
        models = dict(self.reads)
        for written in self.writes.values():
            models |= written
        named = [f"{_title(models[label])}{self._verbs(label)}" for label in sorted(models)]
        titles = [*named, *(tool.get_title() for tool in self.tools.values()), *self.others.values()]
        return [*titles, *self.calls, *self.changes]

    def _verbs(self, label: str) -> str:
        """What is done to a model, beside reading it."""
        verbs = [str(_VERBS[one]) for one, models in self.writes.items() if label in models]
        return f" ({', '.join(verbs)})" if verbs else ""


def _without(some: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in some.items() if name not in others}


def opened_by(site: MCPSite, request: HttpRequest, held: Set[str], user: Any = None) -> Opened:
    """What a user may do with exactly these scopes: the person of the request, or an agent of theirs, or ``user``."""
    user = user or request.user
    ours = from_view(request).for_principal(Principal(user, frozenset(held), source=Source.COMMAND), site)
    exchange = inspection_exchange(site, ours, "tools/list")
    reads: dict[str, type[Model]] = {}
    writes: dict[Operation, dict[str, type[Model]]] = {one: {} for one in OPERATIONS}
    tools: dict[str, BaseTool] = {}
    reached: dict[str, ApiOperation] = {}
    with site.in_context(ours):
        available = [one.tool for one in catalog.available(exchange)]
        # By their URIs, models are read without a tool.
        for way in ways.TOOLS:
            reads |= _models(ways.models(Rights.of(site, ours), way))
        for tool in available:
            with using_tool(ours, tool.name):
                rights = Rights.of(site, ours)
                if isinstance(tool, QueryTool):
                    reads |= _models(ways.models(rights, tool.way))
                elif isinstance(tool, OperationTool):
                    writes[tool.operation] = _models(writable_models(rights, tool.operation))
                elif tool.opens is not None:
                    reached |= {name: one for name, one in site.api.reached(ours).items() if one.is_safe in tool.opens}
                elif not isinstance(tool, WriteTool):
                    tools[tool.name] = tool
        others = {one.uri: one.title or one.uri for one in resources.available(site, ours) if one.uri != CHANGE_URI}
        others |= {one.prompt.name: one.title or one.prompt.name for one in prompts.available(exchange)}
        allowed = _allowed(ours, reached)
    calls = {name: one for name, one in allowed.items() if one.is_safe}
    return Opened(reads, writes, tools, others, calls, _without(allowed, calls))


def _allowed(request: MCPRequest, reached: dict[str, ApiOperation]) -> dict[str, ApiOperation]:
    """Those of the operations that the API lets the user call, as far as it says."""
    if not reached:
        return {}
    from mcp_django.bridge.api import calling

    return {one.name: one for one in calling.allowed(request, list(reached.values()))}


def _models(found: Iterable[ModelRights]) -> dict[str, type[Model]]:
    return {one.label: one.model for one in found}


@dataclass(frozen=True, slots=True)
class OfferedScope:
    """A scope as a page offers it."""

    name: str
    #: Such as "Read 6 models".
    label: str
    #: What it opens, beside the others that are offered with it.
    opened: Opened
    #: Whether its box starts ticked.
    is_ticked: bool
    #: Whether it opens what changes data, now or once an administrator has switched that on.
    may_change: bool

    @property
    def items(self) -> Sequence[str]:
        """The titles of the models and tools."""
        return self.opened.titles()

    @property
    def changes_data(self) -> bool:
        """Whether it lets the client change data."""
        return self.opened.changes_data or self.may_change


def describe(
    site: MCPSite, request: HttpRequest, names: Iterable[str], ticked: Iterable[str] = ()
) -> list[OfferedScope]:
    """The scopes as a page offers them together to the person of the request. Those in ``ticked`` start ticked.

    All that they say together is what a principal with all of them may do.
    """
    names, ticked = list(names), frozenset(ticked)
    # Nobody writes or acts on what they may not read, so these scopes count beside each of the others.
    reading = frozenset(one for one in expand(names) if one == READ or one.endswith(f":{READ}"))
    opened = cache(partial(opened_by, site, request))
    found = []
    for name in names:
        held = expand([name])
        own = opened(held).and_beside(opened(held | reading), opened(reading))
        found.append(OfferedScope(name, _label(site, name, own), own, name in ticked, _may_change(site, held)))
    return found


def _may_change(site: MCPSite, held: Set[str]) -> bool:
    changing = {of_tool(name) for name, tool in site.tools.items() if tool.may_change}
    return any(one in (ACTIONS, WRITE) or one.endswith(f":{WRITE}") or one in changing for one in held)


def _title(model: type[Model]) -> str:
    return str(capfirst(model._meta.verbose_name_plural))


def _label(site: MCPSite, name: str, opened: Opened) -> str:
    words, titles = "; ".join(opened.in_words()), opened.titles()
    if not words:
        return _("Nothing that you may do at present (%(name)s)") % {"name": name}
    if name in groups():
        return _("%(label)s: %(text)s") % {"label": capfirst(name), "text": words}
    tool = site.tools.get(name.removeprefix("tool:")) if name.startswith("tool:") else None
    if tool is not None and tool.name not in opened.tools:
        return _("%(label)s: %(text)s") % {"label": tool.get_title(), "text": words}
    return _("%(label)s: %(text)s") % {"label": words, "text": titles[0]} if len(titles) == 1 else words


@dataclass(frozen=True)
class Reach:
    token_id: int
    user: Any
    scopes: Sequence[str]
    tools: int
    models: int
    operations: int


def reach_of(request: HttpRequest, site: MCPSite, token: Secret) -> Reach | None:
    """What the token reaches at the site, from the request's address; None if it is not ours, or lets nobody in."""
    if not is_well_formed(token):
        return None
    asked = from_view(request)
    asked.authorization = Secret("Bearer " + token)
    try:
        principal = authenticate(asked, fresh=True)
    except MCPError:
        return None
    return None if principal.token_id is None else _count(asked.for_principal(principal, site), site, principal)


def _count(request: MCPRequest, site: MCPSite, principal: Principal) -> Reach:
    exchange = inspection_exchange(site, request, "tools/list")
    with site.in_context(request):
        tools, models = len(catalog.available(exchange)), len(Rights.of(site, request).models())
        operations = len(site.api.reached(request)) if site.api_resources else 0
    return Reach(principal.token_id or 0, principal.user, parse(known(principal.scopes)), tools, models, operations)
