"""What administrators say of tools and prompts: on or off, described otherwise, for the members of some groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import connections

from mcp_django.conf import get_conf

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.sites import MCPSite


@dataclass(frozen=True, slots=True)
class Switch:
    """What an administrator said of one tool or prompt."""

    enabled: bool
    title: str = ""
    description: str = ""
    #: The template that a prompt is, where an administrator wrote it.
    text: str = ""
    #: Only members of ``groups`` may use it; nobody, where they are all gone.
    restricted: bool = False
    groups: frozenset[int] = frozenset()

    def is_for(self, request: MCPRequest) -> bool:
        """Whether it is on, and for the request's user."""
        if not self.enabled or not self.restricted:
            return self.enabled
        memberships = getattr(request.user, "groups", None)
        return memberships is not None and memberships.filter(pk__in=self.groups).exists()


class Switches:
    """The rows of a model of switches, read at most once in TOKEN_CACHE_SECONDS."""

    def __init__(self, model_name: str, *more_fields: str) -> None:
        self._model_name = model_name
        self._fields = ("name", "enabled", "description", "restricted", *more_fields)
        self._read: dict[str, tuple[float, Mapping[str, Switch]]] = {}
        #: By database and site: a WSGI process asks at every request, and writing SQL costs more than what it asks.
        self._statements: dict[tuple[str, str], tuple[str, tuple[Any, ...]]] = {}
        #: By site: the rows that were found last, and what they say, which is mostly the same as before.
        self._found: dict[str, tuple[Sequence[tuple[Any, ...]], Mapping[str, Switch]]] = {}
        self._lock = Lock()
        #: Counts what was cleared: what was read before is not kept after.
        self._generation = 0

    def of(self, exchange: Exchange, *, fresh: bool = False) -> Mapping[str, Switch]:
        """The switches of the exchange's site by name.

        Without push this is a process that nobody tells of what others changed: it always reads the database.
        """
        site, seconds = exchange.site, get_conf().TOKEN_CACHE_SECONDS
        fresh = fresh or not seconds or not exchange.connection.push
        kept = self._read.get(site.name)
        if kept is None or fresh or kept[0] <= time.monotonic():
            generation = self._generation
            kept = (time.monotonic() + seconds, self._load(site))
            with self._lock:
                if generation == self._generation:
                    self._read[site.name] = kept
        return kept[1]

    def clear(self) -> None:
        with self._lock:
            self._generation += 1
            self._read.clear()

    def _load(self, site: MCPSite) -> Mapping[str, Switch]:
        model: Any = apps.get_model("mcp_django", self._model_name)
        using = model.objects.db
        statement = self._statements.get((using, site.name))
        if statement is None:
            # A row for each group of a switch, and one without for those that have none.
            rows = model.objects.filter(site=site.name).order_by().values_list("groups", *self._fields)
            statement = self._statements[using, site.name] = rows.query.get_compiler(using).as_sql()
        with connections[using].cursor() as cursor:
            cursor.execute(*statement)
            found = cursor.fetchall()
        before = self._found.get(site.name)
        if before is None or before[0] != found:
            before = self._found[site.name] = (found, self._switches(found))
        return before[1]

    def _switches(self, found: Sequence[tuple[Any, ...]]) -> Mapping[str, Switch]:
        said: dict[str, dict[str, Any]] = {}
        groups: dict[str, set[int]] = {}
        for group, name, *values in found:
            said[name] = dict(zip(self._fields[1:], values, strict=True))
            groups.setdefault(name, set()).update([] if group is None else [group])
        return {name: _switch(values, groups[name]) for name, values in said.items()}


def _switch(values: dict[str, Any], groups: set[int]) -> Switch:
    # Some databases have numbers for true and false.
    flags = {name: bool(values[name]) for name in ("enabled", "restricted")}
    return Switch(**{**values, **flags, "groups": frozenset(groups)})


tools = Switches("Tool")
prompts = Switches("Prompt", "title", "text")


def forget() -> None:
    """Drop what this process remembers of all switches."""
    tools.clear()
    prompts.clear()
