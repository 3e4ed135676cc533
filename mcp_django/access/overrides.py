"""What administrators decided: about tools and prompts, and which models, fields and callers they closed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db.models import CharField, IntegerField, Q, QuerySet, Value
from django.utils.functional import cached_property

from mcp_django.access.user_permissions import Missing, permissions_of
from mcp_django.conf import get_conf
from mcp_django.core.compat.queries import PreparedQuery
from mcp_django.core.types import AnyField

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site


@dataclass(frozen=True, slots=True)
class Override:
    """What an administrator decided about one tool or prompt."""

    enabled: bool
    title: str = ""
    description: str = ""
    #: The template of a prompt that an administrator wrote.
    text: str = ""
    #: The query of a tool that a person saved: see ``bridge.tools.saved_queries``.
    query: str = ""
    #: Who must agree to what a tool does: see ``bridge.changes.asked``.
    asks: str = ""
    #: Only members of ``groups`` may use it. Nobody may, where all these groups were deleted.
    restricted: bool = False
    groups: frozenset[int] = frozenset()


#: The rows of tools that say more than that the tool is off.
_DECIDED = Q(enabled=True) | Q(restricted=True) | ~Q(description="") | ~Q(query="")

#: What holds where no administrator has decided anything. Each call asks, and making an Override is slow.
ON, OFF = Override(enabled=True), Override(enabled=False)

#: How long a pause may take to be seen, whatever TOKEN_CACHE_SECONDS says.
_PAUSE_SECONDS = 1.0


class Restrictions:
    """What administrators closed on one site, from ``(kind, name, reason)`` of the rows of Restriction."""

    def __init__(self, rows: Iterable[tuple[str, str, str]] = ()) -> None:
        #: The labels of models that are switched off.
        self.models: set[str] = set()
        #: Label of a model → names of its fields that are switched off.
        self.fields: dict[str, set[str]] = defaultdict(set)
        #: Who is paused, by kind and name → the reason.
        self.pauses: dict[tuple[str, str], str] = {}
        for kind, name, reason in rows:
            if kind == "model":
                self.models.add(name)
            elif kind == "field":
                label, _, field = name.rpartition(".")
                self.fields[label].add(field)
            else:
                self.pauses[kind, name] = reason


NO_RESTRICTIONS = Restrictions()


class Decided(dict[str, Override]):
    """The overrides of a site's tools by name, and what is closed beside them: both are read with one statement."""

    def __init__(self, tools: Mapping[str, Override], restrictions: Restrictions) -> None:
        super().__init__(tools)
        self.restrictions = restrictions


def restrictions_in(decided: Mapping[str, Override]) -> Restrictions:
    """What is closed by overrides that were read; nothing by those that are only supposed."""
    return decided.restrictions if isinstance(decided, Decided) else NO_RESTRICTIONS


#: The names of tools that are on in this context, whatever administrators decided.
_switched_on: ContextVar[frozenset[str]] = ContextVar("mcp_django_switched_on", default=frozenset())


@contextmanager
def switching_on(names: Iterable[str]) -> Iterator[None]:
    """Within the block these tools are on, for tests. The groups that they are limited to stay."""
    token = _switched_on.set(frozenset(names))
    try:
        yield
    finally:
        _switched_on.reset(token)


class Overrides:
    """The rows of a subclass of AdminOverride, read at most once in TOKEN_CACHE_SECONDS."""

    def __init__(self, model_name: str, *more_fields: str) -> None:
        self._model_name = model_name
        self._fields = ("name", "enabled", "description", "restricted", *more_fields)
        self._read: dict[str, tuple[float, Mapping[str, Override]]] = {}
        #: By site: the rows that were found last, and what they mean. Mostly nothing has changed since.
        self._found: dict[str, tuple[Sequence[tuple[Any, ...]], Mapping[str, Override]]] = {}
        #: By site: the query, and the names that it was made with.
        self._queries: dict[str, tuple[Sequence[str] | None, PreparedQuery]] = {}
        self._lock = Lock()
        #: Counts the clearings, since what was read before one must not be kept after it.
        self._generation = 0

    def of(self, exchange: Exchange, *, fresh: bool = False) -> Mapping[str, Override]:
        """The overrides of the exchange's site by name."""
        return self.of_site(exchange.site, fresh=fresh or exchange.connection.reads_anew)

    def of_request(self, site: Site, request: MCPRequest) -> Mapping[str, Override]:
        """As ``of``, for a request. Before a push a request has no exchange."""
        connection = getattr(request.mcp, "connection", None)
        return self.of_site(site, fresh=connection is not None and connection.reads_anew)

    def of_site(self, site: Site, *, fresh: bool, request: MCPRequest | None = None) -> Mapping[str, Override]:
        """The overrides of a site by name. ``request``: that of a call, for ``ToolOverrides.of_call``."""
        seconds = min(get_conf().TOKEN_CACHE_SECONDS, _PAUSE_SECONDS)
        fresh = fresh or not seconds
        kept = self._read.get(site.name)
        if kept is None or fresh or kept[0] <= time.monotonic():
            generation = self._generation
            kept = (time.monotonic() + seconds, self._load(site, request))
            with self._lock:
                if generation == self._generation:
                    self._read[site.name] = kept
        return kept[1]

    def remembered(self, site: Site) -> Mapping[str, Override] | None:
        """The overrides by name, or None where the database must be asked."""
        kept = self._read.get(site.name)
        if kept is None or kept[0] <= time.monotonic() or not get_conf().TOKEN_CACHE_SECONDS:
            return None
        return kept[1]

    def clear(self) -> None:
        with self._lock:
            self._generation += 1
            self._read.clear()

    def _load(self, site: Site, request: MCPRequest | None = None) -> Mapping[str, Override]:
        found = self._fetch(site, request)
        before = self._found.get(site.name)
        if before is None or before[0] != found:
            before = self._found[site.name] = (found, self._overrides(found))
        return before[1]

    @cached_property
    def _model(self) -> Any:
        return apps.get_model("mcp_django", self._model_name)

    def _fetch(self, site: Site, request: MCPRequest | None) -> list[tuple[Any, ...]]:
        """One row for each group of an override, and one row without a group where it has none."""
        return self._query(site).fetch(self._model.objects.db, site.name)

    def _query(self, site: Site) -> PreparedQuery:
        names = self._names_read(site)
        kept = self._queries.get(site.name)
        if kept is None or kept[0] != names:
            query = PreparedQuery(lambda site: _union(self._parts(names, site)), self._model._meta.get_field("site"))
            kept = self._queries[site.name] = (names, query)
        return kept[1]

    def _parts(self, names: Sequence[str] | None, site: Any, *before: Any) -> list[QuerySet[Any, Any]]:
        """The queries for a site's rows, with more columns ``before`` their own."""
        decided = Q() if names is None else _DECIDED | Q(name__in=names)
        rows = self._model.objects.filter(decided, site=site).order_by()
        return [rows.values_list(*before, "groups", *self._fields)]

    def _names_read(self, site: Site) -> Sequence[str] | None:
        """The names whose rows are read also where these only say "off"; None: those of all names."""
        return None

    def _overrides(self, found: Sequence[tuple[Any, ...]]) -> Mapping[str, Override]:
        values_of: dict[str, dict[str, Any]] = {}
        groups: dict[str, set[int]] = {}
        for group, name, *values in found:
            values_of[name] = dict(zip(self._fields[1:], values, strict=True))
            groups.setdefault(name, set()).update([] if group is None else [group])
        return {name: _override(values, groups[name]) for name, values in values_of.items()}


def _union(parts: Sequence[QuerySet[Any, Any]]) -> QuerySet[Any, Any]:
    first, *rest = parts
    return first.union(*rest, all=True).order_by() if rest else first


def _override(values: dict[str, Any], groups: set[int]) -> Override:
    return Override(**values, groups=frozenset(groups))


class ToolOverrides(Overrides):
    """The rows of tools. Most are of actions of the admin, which are off where no administrator decided otherwise.

    With hundreds of models there are thousands of these, and each call reads the rows: those are left to the database.
    The rows of Restriction are read with them, since each call needs both.
    """

    def __init__(self, model_name: str, *more_fields: str) -> None:
        super().__init__(model_name, *more_fields)
        #: By site and user model: the names, and the query for the overrides and the permissions of a user.
        self._queries_of_calls: dict[tuple[str, Any], tuple[Sequence[str] | None, PreparedQuery]] = {}

    def of_call(self, exchange: Exchange, *, fresh: bool = False) -> Mapping[str, Override]:
        """As ``of``. Where both must be read, the permissions of the request's user come with the same statement."""
        fresh = fresh or exchange.connection.reads_anew
        return self.of_site(exchange.site, fresh=fresh, request=exchange.request)

    def restrictions(self, site: Site, *, fresh: bool = False) -> Restrictions:
        """What administrators closed on the site."""
        return restrictions_in(self.of_site(site, fresh=fresh))

    def of_site(self, site: Site, *, fresh: bool, request: MCPRequest | None = None) -> Mapping[str, Override]:
        return _with_switched_on(site, super().of_site(site, fresh=fresh, request=request))

    def remembered(self, site: Site) -> Mapping[str, Override] | None:
        rows = super().remembered(site)
        return None if rows is None else _with_switched_on(site, rows)

    def _names_read(self, site: Site) -> Sequence[str] | None:
        return site.tools_on

    def _fetch(self, site: Site, request: MCPRequest | None) -> list[tuple[Any, ...]]:
        using = self._model.objects.db
        missing = None if request is None else Missing.of(request)
        if request is None or missing is None or missing.alias != using:
            return super()._fetch(site, request)
        found = self._query_of_call(site).fetch(using, site.name, request.user.pk)
        width = len(_OF_PERMISSION)
        missing.put(row for row in found if row[0] != _NO_PERMISSION)
        return [row[width:] for row in found if row[0] == _NO_PERMISSION]

    def _query_of_call(self, site: Site) -> PreparedQuery:
        names, user_model = self._names_read(site), get_user_model()
        kept = self._queries_of_calls.get((site.name, user_model))
        if kept is None or kept[0] != names:

            def make(site: Any, user: Any) -> QuerySet[Any, Any]:
                nothing = _nothing(*_restriction_fields(), IntegerField(), *self._own_fields)
                return _union([*self._parts(names, site, *_OF_PERMISSION), *permissions_of(user, *nothing)])

            query = PreparedQuery(make, self._model._meta.get_field("site"), user_model._meta.pk)
            kept = self._queries_of_calls[site.name, user_model] = (names, query)
        return kept[1]

    def _parts(self, names: Sequence[str] | None, site: Any, *before: Any) -> list[QuerySet[Any, Any]]:
        """The query for the site's overrides, and that for its restrictions. Each has the columns of both."""
        own = super()._parts(names, site, *before, *_nothing(*_restriction_fields()))
        closed = apps.get_model("mcp_django", "Restriction").objects.filter(site__in=[site, ""])
        nothing = _nothing(IntegerField(), *self._own_fields)
        return [*own, closed.values_list(*before, *_OF_RESTRICTION, *nothing)]

    @property
    def _own_fields(self) -> list[Any]:
        return [self._model._meta.get_field(name) for name in self._fields]

    def _overrides(self, found: Sequence[tuple[Any, ...]]) -> Mapping[str, Override]:
        width = len(_OF_RESTRICTION)
        closed = [row[:width] for row in found if row[0] is not None]
        return Decided(super()._overrides([row[width:] for row in found if row[0] is None]), Restrictions(closed))


def _nothing(*fields: AnyField) -> list[Value]:
    """Columns without a value. Each column of a union has the values of one part, so no two collations meet in it."""
    return [Value(None, output_field=field) for field in fields]


#: The mark of a row that is no permission. A number, since PostgreSQL takes what is null in two parts for a text.
_NO_PERMISSION = -1


#: In a row of an override, the columns of a permission: the mark, the label of its app, and its codename.
_OF_PERMISSION = [Value(_NO_PERMISSION, output_field=IntegerField()), *_nothing(CharField(), CharField())]
#: The columns of a restriction.
_OF_RESTRICTION = ("kind", "name", "reason")


def _restriction_fields() -> list[Any]:
    model = apps.get_model("mcp_django", "Restriction")
    return [model._meta.get_field(name) for name in _OF_RESTRICTION]


def _with_switched_on(site: Site, rows: Mapping[str, Override]) -> Mapping[str, Override]:
    names = _switched_on.get()
    if not names:
        return rows
    # A row of a saved query decides nothing about a tool that has its name.
    found = {name: row for name, row in rows.items() if not (row.query and name in site.tools)}
    switched = {name: replace(found.get(name, ON), enabled=True) for name in names}
    return Decided({**rows, **switched}, restrictions_in(rows))


tools = ToolOverrides("Tool", "query", "asks")
prompts = Overrides("Prompt", "title", "text")


def forget() -> None:
    """Drop all overrides that this process remembers."""
    tools.clear()
    prompts.clear()
