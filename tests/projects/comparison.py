"""Compares what an AdminSite shows users with what the endpoint shows them: models, rows, fields and values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.db import models

from mcp_django.bridge.declared.inlines import is_generic
from mcp_django.bridge.sites import MCPSite
from mcp_django.core.compat.admin import foreign_key_of_inline
from tests.projects.answered import Agent, Answered
from tests.projects.rendered import Browser, Shown
from tests.projects.rows import Factory, key_of

Model = type[models.Model]

#: What begins the lines of what the endpoint shows and the admin does not.
LEAK = "LEAK"


def is_leak(line: str) -> bool:
    return f": {LEAK} " in line


@dataclass
class Comparison:
    """The differences on one site, each with the users that it holds for."""

    site: MCPSite
    users: Mapping[str, Any]
    factory: Factory
    #: Who sees a model, here or there.
    _seers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _found: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def admin_site(self) -> AdminSite:
        [found] = self.site.admin_sites
        return found

    def lines(self) -> list[str]:
        """The differences as text, in order. Those that do not hold for each user who sees the model name the users."""
        for name, user in self.users.items():
            self._compare(name, user)
        lines = []
        for (label, what), users in self._found.items():
            holds_for = "" if users >= self._seers[label] else f" for {', '.join(sorted(users))}"
            lines.append(f"{self.site.name} {label}: {what}{holds_for}")
        return sorted(lines)

    def _compare(self, name: str, user: Any) -> None:
        browser, agent = Browser(self.admin_site, user), Agent(self.site, user)
        registered = list(self.site.model_admins)
        keys = {model: [key_of(row) for row in self.factory.rows_of(model)] for model in registered}
        shown = {model: browser.look_at(model, keys[model]) for model in registered}
        inlines = _inlines(shown, self.site.model_admins)
        listed = agent.models() - {model._meta.label_lower for model in shown}
        others = [model for model in apps.get_models(include_auto_created=True) if model._meta.label_lower in listed]
        answered = {model: agent.look_at(model, keys.get(model, [])) for model in [*registered, *others]}
        for model, answer in answered.items():
            seen = shown.get(model, Shown())
            if answer is not None or seen.has_list or seen.forms:
                self._seers[model._meta.label_lower].add(name)
            for what in [*_missing(seen, answer), *_leaked(model, seen, answer, inlines.get(model, {}))]:
                self._found[model._meta.label_lower, what].add(name)
        for parent, seen in shown.items():
            for model, rows in seen.inlines.items():
                for what in _missing_in_inline(agent, parent, model, rows, answered):
                    self._found[parent._meta.label_lower, what].add(name)
        broken = {model._meta.label_lower for model, seen in shown.items() if seen.failed}
        for where in self._leaked_values(browser, agent):
            if where.rpartition(".")[0] in broken:
                continue
            self._found[where, f"{LEAK} a value is answered that no page shows"].add(name)

    def _leaked_values(self, browser: Browser, agent: Agent) -> Iterator[str]:
        pages, answers = _marks(browser.seen), _marks(agent.seen)
        for mark in answers - pages:
            if mark in self.factory.marks:
                yield self.factory.marks[mark]


#: Amounts of money are written with separators.
_MARK = re.compile(r"qz[0-9a-z]{4}|47[,.]?\d{3}[,.]?\d{3}", re.IGNORECASE)


def _marks(texts: list[str]) -> set[str]:
    return {re.sub("[,.]", "", mark).lower() for text in texts for mark in _MARK.findall(text)}


def _inlines(shown: Mapping[Model, Shown], admins: Mapping[Model, Any]) -> dict[Model, dict[str, set[str]]]:
    """The rows of each model that are in an inline of any other, with the names of what it shows.

    The page of the parent shows of each row to which parent it belongs.
    """
    found: dict[Model, dict[str, set[str]]] = {}
    for parent, seen in shown.items():
        links = _links(admins[parent])
        for model, rows in seen.inlines.items():
            for key, names in rows.items():
                found.setdefault(model, {}).setdefault(key, set()).update(names, links.get(model, ()))
    return found


def _links(admin: Any) -> dict[Model, set[str]]:
    """The fields of each model in an inline that lead back to the parent."""
    found: dict[Model, set[str]] = {}
    for inline_class in admin.inlines:
        inline = inline_class(admin.model, admin.admin_site)
        names = {inline.ct_field, inline.ct_fk_field} if is_generic(inline) else {foreign_key_of_inline(inline).name}
        found.setdefault(inline.model, set()).update(names)
    return found


def _missing(shown: Shown, answer: Answered | None) -> Iterator[str]:
    """What the admin shows of a model, and the endpoint does not."""
    yield from shown.failed
    if answer is None:
        if shown.has_list or shown.forms:
            yield "no such model"
        return
    yield from (f"an answer fails: {failure}" for failure in answer.failed)
    rows = shown.listed | shown.forms.keys()
    if rows - answer.keys:
        yield "rows are missing"
    names = {name for key in rows & answer.keys for name in shown.names_of(key) - answer.names_of(key)}
    # Every record has its key, and says what it is called by its fields.
    yield from (f"no {name}" for name in names - {"pk", "__str__"})


def _leaked(model: Model, shown: Shown, answer: Answered | None, inlined: Mapping[str, set[str]]) -> Iterator[str]:
    """What the endpoint shows of a model, and the admin does not."""
    if answer is None:
        return
    rows = shown.listed | shown.forms.keys() | inlined.keys()
    if not (shown.has_list or rows):
        if shown.failed:
            return
        yield f"{LEAK} the admin does not show this model"
        return
    if (answer.keys | answer.records.keys()) - rows:
        yield f"{LEAK} rows that the admin does not show"
    names: set[str] = set()
    # What a page hides is not known where it fails.
    for key in (rows & (answer.keys | answer.records.keys())) if not shown.failed else ():
        seen = shown.names_of(key) | inlined.get(key, set())
        names |= answer.names_of(key) - seen - _currencies(model, seen)
    yield from (f"{LEAK} {name}" for name in names - {model._meta.pk.name})


def _currencies(model: Model, seen: set[str]) -> set[str]:
    """The currencies of amounts of money that are seen: django-money shows both as one."""
    money = {field.name: getattr(field, "price_field", None) for field in model._meta.concrete_fields}
    return {name for name, amount in money.items() if amount is not None and amount.name in seen}


def _missing_in_inline(
    agent: Agent, parent: Model, model: Model, rows: Mapping[str, set[str]], answered: Mapping[Model, Answered | None]
) -> Iterator[str]:
    """What an inline of the parent shows, and neither a relation of the parent nor the model itself does."""
    answer, own = answered[parent], answered.get(model)
    if answer is None or (own is not None and not rows):
        return
    label = f"{model._meta.app_label.lower()}.{model._meta.model_name}"
    names = set().union(*rows.values())
    missing = set(names)
    for relation in [name for name, related in answer.relations.items() if related == label]:
        missing -= agent.related(parent, relation, sorted(missing))
    if own is not None and rows.keys() <= own.keys:
        missing -= set.intersection(*(own.names_of(key) for key in rows))
    if missing == names:
        yield f"no inline of {label}"
    else:
        yield from (f"no {name} in the inline of {label}" for name in missing)
