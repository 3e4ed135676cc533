"""What administrators decided about tools, models and fields, as a value of JSON that can be kept in a file.

``{"sites": {"mcp": {"tools": {…}, "models": {"shop.refund": false}, "fields": {"shop.customer.email": false}}}}``:

- ``tools``: name → ``{"enabled": true, "asks": "", "description": "", "groups": null}``. ``groups`` are the names of
  the groups whose members may use the tool: null for everybody, and none for nobody. A saved query has its ``query``
  too.
- ``models`` and ``fields``: name → whether agents get it. Those that are off are written.

What is not named is not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import router, transaction
from django.db.models import F

from mcp_django.bridge.override_rows import make_tool_rows
from mcp_django.bridge.sites import MCPSite, superusers_request
from mcp_django.bridge.tools.saved_queries import MAX_CHARS, MAX_SAVED, SavedQuery
from mcp_django.console.review import model_switches
from mcp_django.console.review.model_switches import Switches
from mcp_django.models import Tool
from mcp_django.models.validators import validate_name
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import nearest, unknown_name

#: What a file may say of a site, and of a tool, in the order in which it is written.
SECTIONS = ("tools", *model_switches.SECTIONS)
FIELDS = ("enabled", "asks", "description", "groups", "query")
_SHAPE = '{"sites": {NAME: {"tools": {…}, "models": {…}, "fields": {…}}}}'
_ASKS = [value for value, _ in Tool._meta.get_field("asks").flatchoices]


class BadFile(ValueError):
    """A file of switches that cannot be used: each of its mistakes."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What shall hold."""

    #: What a file says of a tool, by site and name.
    tools: Mapping[tuple[str, str], JSON]
    #: Of models and fields.
    models: Switches


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a file and the database."""

    site: str
    #: "tool", "model" or "field".
    kind: str
    name: str
    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        before, after = (json.dumps(one, ensure_ascii=False) for one in (self.before, self.after))
        return f"{self.site} {self.name} {self.field}: {after}, was {before}"


def read(sites: Iterable[MCPSite]) -> JSON:
    """What holds for each tool now, and which models and fields are off, to be kept in a file."""
    return {"sites": {site.name: _sections(site) for site in sites}}


def parse(text: str, sites: Mapping[str, MCPSite]) -> Wanted:
    """What a file says, which holds for these sites. Raises BadFile."""
    try:
        found = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise BadFile([f"It is no JSON: {error}."]) from None
    if not isinstance(found, dict) or list(found) != ["sites"] or not isinstance(found["sites"], dict):
        raise BadFile([f"It must be {_SHAPE}, as --export writes it."])
    mistakes: list[str] = []
    tools: dict[tuple[str, str], JSON] = {}
    models: dict[tuple[str, str, str], bool] = {}
    for name, sections in found["sites"].items():
        if name not in sites:
            mistakes.append(f"There is no site {name!r}.{nearest(name, sites)}")
        elif wrong := list(_wrong_sections(name, sections)):
            mistakes += wrong
        else:
            tools.update({(name, tool): said for tool, said in sections.get("tools", {}).items()})
            for section, kind in model_switches.SECTIONS.items():
                models.update({(name, kind, one): is_on for one, is_on in sections.get(section, {}).items()})
    wanted = Wanted(tools, models)
    mistakes += _mistakes(wanted, sites)
    if mistakes:
        raise BadFile(mistakes)
    for said in tools.values():
        if said.get("groups"):
            said["groups"] = sorted(set(said["groups"]))
    return wanted


def switches(site: MCPSite, *, on: Iterable[str] = (), off: Iterable[str] = ()) -> Wanted:
    """What switches things of a site on and off: tools, models as ``app.model`` and fields as ``app.model.field``.

    Raises BadFile for unknown names, and for one that is named twice.
    """
    both = sorted(set(on) & set(off))
    if both:
        raise BadFile([f"{name} cannot be both on and off." for name in both])
    switched = dict.fromkeys(on, True) | dict.fromkeys(off, False)
    # No name of a tool has a dot.
    models = {name: is_on for name, is_on in switched.items() if "." in name}
    tools = {(site.name, name): {"enabled": is_on} for name, is_on in switched.items() if name not in models}
    wanted = Wanted(tools, model_switches.of_names(site.name, models))
    if mistakes := list(_mistakes(wanted, {site.name: site})):
        raise BadFile(mistakes)
    return wanted


def differences(wanted: Wanted, sites: Mapping[str, MCPSite]) -> list[Difference]:
    """What would be changed, in the order of the names: tools first."""
    found = []
    for site in (sites[name] for name in dict.fromkeys(site for site, _ in wanted.tools)):
        states = _states(site)
        for name, said in sorted((name, said) for (of, name), said in wanted.tools.items() if of == site.name):
            state = states.get(name, {})
            fields = (field for field in FIELDS if field in said and said[field] != state.get(field))
            found += [Difference(site.name, "tool", name, field, state.get(field), said[field]) for field in fields]
    changed = model_switches.changed(wanted.models).items()
    return found + [Difference(*key, "enabled", before=not is_on, after=is_on) for key, is_on in changed]


def write(wanted: Wanted, sites: Mapping[str, MCPSite]) -> list[Difference]:
    """Make it so, all or nothing. Returns what was changed. Another process's change to something else is kept."""
    using = router.db_for_write(Tool)
    with transaction.atomic(using=using):
        make_tool_rows(using)
        rows: Any = Tool.objects.using(using)
        # Locks the rows on every database, before they are read.
        rows.filter(name__in={name for _, name in wanted.tools}).update(site=F("site"))
        changes = differences(wanted, sites)
        of_tools = [one for one in changes if one.kind == "tool"]
        for key in dict.fromkeys((one.site, one.name) for one in of_tools):
            _write(key, {one.field: one.after for one in of_tools if (one.site, one.name) == key}, using)
        for one in changes:
            if one.kind != "tool":
                model_switches.switch(one.site, one.kind, one.name, is_on=one.after)
    return changes


def _write(key: tuple[str, str], values: JSON, using: str) -> None:
    site, name = key
    rows: Any = Tool.objects.using(using)
    fields = {field: _stored(field, value) for field, value in values.items() if field != "groups"}
    row = rows.filter(site=site, name=name).first()
    if row is None:
        row = Tool(site=site, name=name, **fields)
        row.save(using=using)
    elif fields:
        for field, value in fields.items():
            setattr(row, field, value)
        row.save(using=using, update_fields=list(fields))
    if "groups" in values:
        names: list[str] | None = values["groups"]
        row.groups.set(Group.objects.using(using).filter(name__in=names or ()))
        # Without groups, its tool would be open to everybody.
        rows.filter(pk=row.pk).update(restricted=names is not None)


def _stored(field: str, value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if field == "query" else value


# What holds.


def _sections(site: MCPSite) -> JSON:
    off = model_switches.switched_off(site.name)
    switched = {
        section: dict.fromkeys(sorted(name for of, name in off if of == kind), False)
        for section, kind in model_switches.SECTIONS.items()
    }
    return {"tools": dict(sorted(_states(site).items())), **switched}


def _states(site: MCPSite) -> dict[str, JSON]:
    """What holds for each tool of the site that there is, or that somebody decided about."""
    using = router.db_for_write(Tool)
    rows = {row.name: row for row in Tool.objects.using(using).filter(site=site.name).prefetch_related("groups")}
    states: dict[str, JSON] = {
        name: {"enabled": tool.enabled_by_default, "asks": "", "description": "", "groups": None}
        for name, tool in site.tools.items()
    }
    for name, row in rows.items():
        state = {"enabled": row.enabled, "asks": row.asks, "description": row.description, "groups": _groups(row)}
        if row.query:
            # A query that was saved under the name of a tool decides nothing about the tool.
            states.setdefault(name, {**state, "query": _query(row.query)})
        elif name in states or state != _OFF:
            states[name] = state
    return states


#: What the row of a tool says that is gone, and about which nobody has decided anything.
_OFF: JSON = {"enabled": False, "asks": "", "description": "", "groups": None}


def _groups(row: Tool) -> list[str] | None:
    return sorted(group.name for group in row.groups.all()) if row.restricted else None


def _query(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# Mistakes.


def _without_doubles(pairs: list[tuple[str, Any]]) -> JSON:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _wrong_sections(site: str, sections: Any) -> Iterator[str]:
    if not isinstance(sections, dict):
        yield f"{site} must be an object of {', '.join(SECTIONS)}."
        return
    for section, said in sections.items():
        if section not in SECTIONS:
            yield f"{site}: {unknown_name('section', section, SECTIONS)}"
        elif not isinstance(said, dict):
            yield f"{site} {section} must be an object of names."
        elif section != "tools" and not all(isinstance(is_on, bool) for is_on in said.values()):
            yield f"{site} {section} must say true or false of each name."


def _mistakes(wanted: Wanted, sites: Mapping[str, MCPSite]) -> Iterator[str]:
    yield from _wrong_tools(wanted.tools, sites)
    yield from model_switches.mistakes(wanted.models, sites)


def _wrong_tools(wanted: Mapping[tuple[str, str], JSON], sites: Mapping[str, MCPSite]) -> Iterator[str]:
    groups = set(Group.objects.values_list("name", flat=True))
    states = {name: _states(sites[name]) for name in dict.fromkeys(site for site, _ in wanted)}
    rows = set(Tool.objects.values_list("site", "name"))
    for (site, name), said in wanted.items():
        where = f"{site} {name}"
        if not isinstance(said, dict):
            yield f'{where} must be an object, as {{"enabled": true}}.'
            continue
        yield from (f"{where}: {text}" for text in _wrong_fields(said, groups))
        if said.get("asks") and (tool := sites[site].tools.get(name)) is not None and not tool.may_change:
            yield f"{where}: asks does not go with a tool that only reads."
        if "query" in said:
            yield from (f"{where}: {text}" for text in _wrong_query(sites[site], name, said["query"]))
        elif name not in states[site] and (site, name) not in rows and not _is_found(sites[site], name):
            yield f"{where}: there is no such tool.{nearest(name, states[site])}"
    for site, known in states.items():
        said_here = {name: said for (of, name), said in wanted.items() if of == site and isinstance(said, dict)}
        saved = {name for of in (known, said_here) for name, one in of.items() if "query" in one}
        if len(saved) > MAX_SAVED:
            yield f"{site}: there would be {len(saved)} saved queries, and there may be {MAX_SAVED}."


def _is_found(site: MCPSite, name: str) -> bool:
    """Whether it is an action that the project offers for some requests alone."""
    request = superusers_request()
    with site.in_context(request):
        site.find_actions(request)
    return name in site.tools


def _wrong_fields(said: JSON, groups: set[str]) -> Iterator[str]:
    for field, value in said.items():
        if field not in FIELDS:
            yield unknown_name("field", field, FIELDS)
        elif field == "enabled" and not isinstance(value, bool):
            yield "enabled must be true or false."
        elif field == "description" and not isinstance(value, str):
            yield "description must be a text."
        elif field == "asks" and value not in _ASKS:
            yield f"asks must be one of {', '.join(map(json.dumps, _ASKS))}."
        elif field == "groups" and value is not None:
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                yield "groups must be null, for everybody, or a list of names."
                continue
            yield from (f"there is no group {one!r}.{nearest(one, groups)}" for one in value if one not in groups)


def _wrong_query(site: MCPSite, name: str, query: Any) -> Iterator[str]:
    """What is wrong with a saved query, beside what its caller may read."""
    if name in site.tools:
        yield "query: the project has a tool of this name."
        return
    text = json.dumps(query, ensure_ascii=False)
    try:
        validate_name(name)
        if len(text) > MAX_CHARS:
            raise ValueError(f"it is longer than {MAX_CHARS} characters")
        saved = SavedQuery(site, name, text)
        errors = [f"{one['field']}: {one['message']}" for one in saved.tool.errors_in(saved.arguments)]
    except (ValueError, TypeError, LookupError, AttributeError, ValidationError) as error:
        yield f"query: {'; '.join(error.messages) if isinstance(error, ValidationError) else error}."
        return
    yield from (f"query: {one}" for one in errors)
    request = superusers_request()
    with site.in_context(request):
        why = saved.why_not(request)
    if why:
        yield f"query: {why}"
