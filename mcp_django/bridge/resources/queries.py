"""Queries in URIs: for a page of rows, or for a table of groups; and their results as JSON.

A parameter is a condition, unless it is one of ours. A field whose name is one of ours is compared by ``limit__exact``.
Only the tools take conditions that need more than names and texts (``any``, ``not``, a filter of related rows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import models

from mcp_django.bridge.resources import rules, uris
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.fields.columns import Relation
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.paths import steps
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows, templates
from mcp_django.exceptions import FieldError
from mcp_django.protocol.types import JSON

Parameters = Sequence[tuple[str, str]]


#: Parameters that an aggregate does not take, and what to do about each.
_NOT_OF_GROUPS: Mapping[str, str] = {
    "conditions": "cannot be written in a URI: aggregate_records takes them.",
    "fields": "groups have none: leave it out.",
    "having": "Write having.count__gte=10.",
    "total": "groups have none: leave it out.",
}


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query."""

    #: ``{"model": .., "columns": [..], "rows": [[..]], "total"?: ..}``.
    values: JSON
    #: Sentences that say what was cut and how to get the rest.
    notes: list[str]
    #: Where the next page begins, if there is one.
    next_cursor: str | None = None


def answer(model: ModelRights, target: uris.Target, *, watched: bool = False) -> QueryResult:
    """The result of the query of a collection or an aggregate. Raises InvalidQuery and TooSlow.

    ``watched``: it is for subscribers. An unknown value is then no error, and finds nothing yet.
    """
    if target.kind == "aggregate":
        table = aggregates.aggregate(model, aggregate_query(target.query), watched=watched)
        shown = {"model": model.label, "columns": table.columns, "rows": table.rows}
        return QueryResult(shown, table.notes, table.next_cursor)
    page = rows.find(model, record_query(target.query), watched=watched)
    values: JSON = {"model": model.label, "columns": page.columns, "rows": page.rows}
    if page.total is not None:
        values["total"] = page.total
    return QueryResult(values, page.notes, page.next_cursor)


def rule_notes(model: ModelRights, target: uris.Target) -> list[str]:
    """The note of ``rules`` for a valid query. It is not part of the answer, so its changes notify no watchers."""
    if target.kind == "aggregate":
        return rules.of_groups(model, aggregate_query(target.query))
    return rules.of_records(model, record_query(target.query))


def record_query(query: Parameters) -> rows.RecordQuery:
    """The query of a collection's URI, of which all conditions must hold. Raises InvalidQuery."""
    values = _values(query, "find_records")
    total = values.pop("total", "false")
    if total not in ("true", "false"):
        message = "must be true or false. A field of that name is compared by total__exact."
        raise InvalidQuery.one("total", message, total)
    return rows.RecordQuery(
        limit=_limit(values),
        cursor=values.pop("cursor", None),
        total=total == "true",
        order_by=_names(values, "order_by"),
        search=values.pop("search", ""),
        fields=_names(values, "fields"),
        filter=values,
    )


def aggregate_query(query: Parameters) -> aggregates.AggregateQuery:
    """The same for an aggregate, within the limits of aggregate_records. Raises InvalidQuery."""
    values = _values(query, "aggregate_records")
    for name, instead in _NOT_OF_GROUPS.items():
        if name in values:
            message = f"{instead} A field of that name is compared by {name}__exact."
            raise InvalidQuery.one(name, message, values[name])
    conditions = {name: values.pop(name) for name in list(values) if name.startswith(uris.HAVING)}
    asked = aggregates.AggregateQuery(
        group_by=_names(values, "group_by"),
        measures=_names(values, "measures") or ("count",),
        having={name.removeprefix(uris.HAVING): value for name, value in conditions.items()},
        order_by=_names(values, "order_by"),
        search=values.pop("search", ""),
        limit=_limit(values),
        cursor=values.pop("cursor", None),
        filter=values,
    )
    for name, given, most in (
        ("group_by", asked.group_by, aggregates.MAX_GROUP_BY),
        ("measures", asked.measures, aggregates.MAX_MEASURES),
        ("having", asked.having, aggregates.MAX_MEASURES),
        ("order_by", asked.order_by, aggregates.MAX_GROUP_BY),
    ):
        if len(given) > most:
            raise InvalidQuery.one(name, f"at most {most}.", len(given))
    return asked


def in_query(error: InvalidQuery) -> list[FieldError]:
    """What is wrong with the query of a URI, by its parameters."""
    return [{**wrong, "field": wrong["field"].removeprefix("filter.")} for wrong in error.errors]


def followed(model: ModelRights, target: uris.Target) -> Mapping[str, list[type[models.Model]]]:
    """The other models whose rows a query reads, by the parameters that name them.

    Raises InvalidQuery for a query that is not allowed. Does not use the database.
    """
    if target.kind == "aggregate":
        query = aggregate_query(target.query)
        aggregates.check(model, query)
        paths = dict(query.paths)
        search, conditions = query.search, query.filter
    else:
        found = record_query(target.query)
        rows.check(model, found)
        paths = {"fields": list(found.fields), "order_by": list(found.order_by)}
        search, conditions = found.search, found.filter
    paths |= {name: [name] for name in conditions}
    if search:
        paths["search"] = [field.name for field in model.searchable]
    leads = {place: [step for path in named for step in _models(model, path)] for place, named in paths.items()}
    return {place: named for place, named in leads.items() if named}


def _models(model: ModelRights, path: str) -> Iterator[type[models.Model]]:
    """The models whose rows a path reads. A foreign key by itself is a value of its own row."""
    for step in steps(model, path):
        if not step.reads_rows:
            return
        between = step.by.between if isinstance(step.by, Relation) else None
        if between is not None and not between._meta.auto_created:
            yield between
        yield step.rights.model


def _values(query: Parameters, tool: str) -> dict[str, str]:
    """The parameters by name. None may occur twice. ``tool``: the one that takes what no URI can hold."""
    values: dict[str, str] = {}
    for name, value in query:
        if name in values:
            raise InvalidQuery.one(name, "occurs twice in the query; for several values there is __in.", value)
        values[name] = value
    if grouped := sorted(templates.ONLY_IN_FILTERS & values.keys()):
        message = f"cannot be written in a URI: {tool} takes it in its filter."
        raise InvalidQuery.one(grouped[0], message, values[grouped[0]])
    return values


def _limit(values: dict[str, str]) -> int:
    limit = values.pop("limit", "")
    if limit and not (limit.isascii() and limit.isdigit() and int(limit[:9]) > 0):
        raise InvalidQuery.one("limit", "must be a positive integer", limit)
    return int(limit[:9] or 0)


def _names(values: dict[str, str], name: str) -> list[str]:
    return [item for item in values.pop(name, "").split(",") if item]
