"""The switches of models and fields, which ``switches`` keeps in files beside those of the tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from django.db import router
from django.db.models import QuerySet

from mcp_django.access.overrides import NO_RESTRICTIONS
from mcp_django.bridge.sites import MCPSite, all_sites, superusers_request
from mcp_django.console.review.exposed_models import ExposedModel, exposed_models
from mcp_django.models import Restriction
from mcp_django.protocol.unknown_names import nearest

#: The sections of a file → the kind of what each switches. Other kinds are pauses, which no file has.
SECTIONS: Mapping[str, str] = {"models": Restriction.Kind.MODEL.value, "fields": Restriction.Kind.FIELD.value}

#: Models and fields by site, kind and name → whether agents get them.
Switches = Mapping[tuple[str, str, str], bool]


def switched_off(site: str) -> AbstractSet[tuple[str, str]]:
    """What is off on a site, by kind and name."""
    return set(_rows().filter(site__in=(site, ""), kind__in=SECTIONS.values()).values_list("kind", "name"))


def of_names(site: str, names: Mapping[str, bool]) -> Switches:
    """Switches by ``app.model`` and ``app.model.field``."""
    model, field = SECTIONS.values()
    return {(site, model if name.count(".") == 1 else field, name): is_on for name, is_on in names.items()}


def changed(wanted: Switches) -> Switches:
    """Those that are not as wanted."""
    off = {site: switched_off(site) for site in {site for site, _, _ in wanted}}
    found = {}
    for site, name, kind in sorted((site, name, kind) for site, kind, name in wanted):
        is_on = wanted[site, kind, name]
        if is_on == ((kind, name) in off[site]):
            found[site, kind, name] = is_on
    return found


def closing(site: str, kind: str, name: str) -> QuerySet[Restriction]:
    """The rows by which a model or a field is off on a site; that of an empty site holds on each."""
    rows: QuerySet[Restriction] = _rows().filter(site__in=(site, ""), kind=kind, name=name)
    return rows


def switch(site: str, kind: str, name: str, *, is_on: bool) -> Restriction | None:
    """Switch a model or a field of one site alone, with a line in the trail for each row. Returns the row, if new."""
    if not is_on:
        made, is_new = _rows().get_or_create(site=site, kind=kind, name=name)
        return made if is_new else None
    for row in closing(site, kind, name):
        # What was off on each site stays off on the others.
        others = [] if row.site else [one.name for one in all_sites() if one.name != site]
        for other in others:
            switch(other, kind, name, is_on=False)
        row.delete()
    return None


def mistakes(wanted: Switches, sites: Mapping[str, MCPSite]) -> Iterator[str]:
    """What code does not expose, unless it is off: then its row stays from a time when code did."""
    for site in dict.fromkeys(site for site, _, _ in wanted):
        off = switched_off(site)
        missing = unexposed(sites[site], [(kind, name) for of, kind, name in wanted if of == site])
        yield from (f"{site} {key[1]}: {why}" for key, why in missing.items() if key not in off)


def unexposed(site: MCPSite, asked: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """What agents could not get with every switch on, by kind and name, and why there is no switch for it."""
    request = superusers_request()
    with site.in_context(request):
        models = {one.label: one for one in exposed_models(site, NO_RESTRICTIONS, request)}
        return {(kind, name): why for kind, name in asked if (why := _why_not(kind, name, models))}


def _why_not(kind: str, name: str, models: Mapping[str, ExposedModel]) -> str:
    label = name if kind == Restriction.Kind.MODEL else name.rpartition(".")[0]
    if label.count(".") != 1:
        return f"a {kind} is named as {'app.model' if label == name else 'app.model.field'}."
    if label not in models:
        return f"code exposes no model {label}.{nearest(label, models)}"
    if label == name:
        return ""
    fields = {f"{label}.{field.name}": field for field in models[label].fields if not field.hidden}
    if name not in fields:
        return f"code exposes no such field.{nearest(name, fields)}"
    return "" if fields[name].can_switch else "the primary key names the rows, and cannot be switched off."


def _rows() -> Any:
    return Restriction.objects.using(router.db_for_write(Restriction))
