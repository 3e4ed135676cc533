"""What administrators decided about tools and prompts: on or off, described otherwise, for members of some groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db.models import CharField, IntegerField, Q, QuerySet, Value
from django.utils.functional import cached_property

from mcp_django.access.user_permissions import Missing, permissions_of
from mcp_django.conf import get_conf
from mcp_django.core.compat.queries import PreparedQuery

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
        seconds = get_conf().TOKEN_CACHE_SECONDS
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
            rows = self._rows(names)
            query = PreparedQuery(lambda site: rows.filter(site=site), self._model._meta.get_field("site"))
            kept = self._queries[site.name] = (names, query)
        return kept[1]

    def _rows(self, names: Sequence[str] | None, *before: Any) -> QuerySet[Any, Any]:
        """The rows of overrides, with more columns ``before`` their own."""
        decided = Q() if names is None else _DECIDED | Q(name__in=names)
        rows: QuerySet[Any, Any] = self._model.objects.filter(decided).order_by()
        return rows.values_list(*before, "groups", *self._fields)

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


def _override(values: dict[str, Any], groups: set[int]) -> Override:
    return Override(**values, groups=frozenset(groups))


class ToolOverrides(Overrides):
    """The rows of tools. Most are of actions of the admin, which are off where no administrator decided otherwise.

    With hundreds of models there are thousands of these, and each call reads the rows: those are left to the database.
    """

    def __init__(self, model_name: str, *more_fields: str) -> None:
        super().__init__(model_name, *more_fields)
        #: By site and user model: the names, and the query for the overrides and the permissions of a user.
        self._queries_of_calls: dict[tuple[str, Any], tuple[Sequence[str] | None, PreparedQuery]] = {}

    def of_call(self, exchange: Exchange, *, fresh: bool = False) -> Mapping[str, Override]:
        """As ``of``. Where both must be read, the permissions of the request's user come with the same statement."""
        fresh = fresh or exchange.connection.reads_anew
        return self.of_site(exchange.site, fresh=fresh, request=exchange.request)

    def _names_read(self, site: Site) -> Sequence[str] | None:
        return site.tools_on

    def _fetch(self, site: Site, request: MCPRequest | None) -> list[tuple[Any, ...]]:
        using = self._model.objects.db
        missing = None if request is None else Missing.of(request)
        if request is None or missing is None or missing.alias != using:
            return super()._fetch(site, request)
        found = self._query_of_call(site).fetch(using, site.name, request.user.pk)
        width = len(_OF_PERMISSION)
        missing.put(row for row in found if row[0] is not None)
        return [row[width:] for row in found if row[0] is None]

    def _query_of_call(self, site: Site) -> PreparedQuery:
        names, user_model = self._names_read(site), get_user_model()
        kept = self._queries_of_calls.get((site.name, user_model))
        if kept is None or kept[0] != names:
            fields = [self._model._meta.get_field(name) for name in self._fields]
            # Each column has the values of one of the two, so that no two collations of a database meet in it.
            nothing = [Value(None, output_field=field) for field in (IntegerField(), *fields)]

            def make(site: Any, user: Any) -> QuerySet[Any, Any]:
                rows = self._rows(names, *_OF_PERMISSION).filter(site=site)
                return rows.union(*permissions_of(user, *nothing), all=True).order_by()

            query = PreparedQuery(make, self._model._meta.get_field("site"), user_model._meta.pk)
            kept = self._queries_of_calls[site.name, user_model] = (names, query)
        return kept[1]


#: In a row of an override, the columns of a permission: the mark, the label of its app, and its codename.
_OF_PERMISSION = [Value(None, output_field=field) for field in (IntegerField(), CharField(), CharField())]

tools = ToolOverrides("Tool", "query", "asks")
prompts = Overrides("Prompt", "title", "text")


def forget() -> None:
    """Drop all overrides that this process remembers."""
    tools.clear()
    prompts.clear()
