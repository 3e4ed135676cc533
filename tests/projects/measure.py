"""How many of the fields that the change pages of an admin show are in pages of rows, and why the others are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin import ModelAdmin

from mcp_django.bridge.declared.admin_form import has_form
from mcp_django.bridge.sites import MCPSite
from mcp_django.console.review import inventory
from mcp_django.protocol.types import JSON
from mcp_django.test import MCPClient
from tests.projects.cells import Cell, cells
from tests.projects.rendered import Browser
from tests.projects.rows import Factory, key_of

#: How many fields stand beside each reason.
_EXAMPLES = 10
#: What ends a reason.
_ENDS = ("; ", ", so only", ", and is not named")
#: Apps whose models are no part of what is measured: they are in each project.
NOT_MEASURED = frozenset(("admin", "auth", "contenttypes", "mcp_django", "sessions"))


@dataclass
class Measure:
    """What one user sees on a site."""

    #: The fields of the change pages, as ``app.model.field``.
    shown: set[str] = field(default_factory=set)
    #: Those that are in no page of rows, by the reason.
    missing: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: How many cells of lists are answered, and those that are answered otherwise than they are rendered.
    cells: int = 0
    otherwise: list[Cell] = field(default_factory=list)
    #: The models that have a page, and those whose pages fail.
    models: int = 0
    failed: list[str] = field(default_factory=list)

    def lines(self, who: str) -> Iterator[str]:
        """The table as text, the most frequent reason first."""
        missing = sum(map(len, self.missing.values()))
        yield f"{who}: {self.models} models, {len(self.shown)} fields on their change pages, {missing} missing"
        if self.failed:
            yield f"    pages that fail: {', '.join(dict.fromkeys(self.failed))}"
        if self.cells:
            share = 1 - len(self.otherwise) / self.cells
            yield f"    {self.cells} cells of lists, {share:.1%} of them as rendered"
            yield from (f"        {name}: {value!r:.80} for {text!r:.80}" for name, value, text in self.otherwise)
        for reason, names in sorted(self.missing.items(), key=lambda item: (-len(item[1]), item[0])):
            more = ", …" if len(names) > _EXAMPLES else ""
            yield f"    {len(names):4} {reason}: {', '.join(names[:_EXAMPLES])}{more}"


def measure(site: MCPSite, user: Any, factory: Factory) -> Measure:
    """Look at the change page of the rows of each model."""
    [admin_site] = site.admin_sites
    browser, found, here = Browser(admin_site, user), Measure(), inventory.build(site, user)
    agent = MCPClient(user, ["read"], site=site, raise_exceptions=False)
    for model in sorted(site.model_admins, key=lambda model: model._meta.label_lower):
        if model._meta.app_label in NOT_MEASURED:
            continue
        shown = browser.look_at(model, [key_of(row) for row in factory.rows_of(model)])
        names = set().union(*shown.forms.values())
        found.models += bool(shown.forms)
        for cell, is_as_rendered in cells(site.model_admins[model], browser, agent):
            found.cells += 1
            found.otherwise += [] if is_as_rendered else [cell]
        found.failed += [f"{model._meta.label_lower} ({why})" for why in shown.failed]
        for name in sorted(names - {"__str__"}):
            found.shown.add(f"{model._meta.label_lower}.{name}")
            if (why := _why_missing(here, site.model_admins[model], name)) is not None:
                found.missing[why].append(f"{model._meta.label_lower}.{name}")
    return found


def _why_missing(here: Mapping[str, JSON], admin: ModelAdmin[Any], name: str) -> str | None:
    """Why a field is in no page of rows; None where it is in one."""
    label = f"{admin.opts.app_label.lower()}.{admin.opts.model_name}"
    rights = here["models"].get(label)
    if rights is None:
        return f"the model is left out: {_reason(here['left_out'].get(label, ''))}"
    if name in {*rights["fields"], *rights["relations"], *rights["computed"]}:
        return None
    if not has_form(admin):
        return "is in the form of the class of the object"
    why = rights["hidden"].get(name) or here["admin"]["missing"].get(label, {}).get(name)
    if not why and rights["by_object"]:
        why = f"{' and '.join(rights['by_object'])} decides by the object"
    return _reason(why or "")


def _reason(text: str) -> str:
    """The reason without its cure, and without what differs between fields of the database and others."""
    for end in _ENDS:
        text = text.partition(end)[0]
    return text or "without a reason"
