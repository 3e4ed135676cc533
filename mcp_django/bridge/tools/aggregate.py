"""aggregate_records: counts and other measures over many rows, in one small table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_django.bridge.resources import rules
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading.known_values import verified
from mcp_django.bridge.tools.query import (
    CURSOR,
    FILTER,
    FORMAT,
    NAMES,
    SEARCH,
    QueryTool,
    arguments_schema,
    limit_schema,
    table_schema,
)
from mcp_django.bridge.tools.results import table_result
from mcp_django.conf import get_conf
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.schemas import open_object
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


class AggregateRecords(QueryTool):
    name, way = "aggregate_records", "aggregate"
    title = "Aggregate records"
    description = (
        "Count rows of a model and compute over them, in groups. group_by: fields and paths, as carrier__name; parts "
        "of dates, departs_at__month (or year, quarter, week, iso_year, day, hour, date; week_day: 1 is Sunday), "
        "departs_at__trunc_month or trunc_week for those of each year; ranges of numbers, distance__bucket_500. "
        "measures: count; count_distinct, sum, avg, min, max, stddev, median or p90 (p1 to p99) of a field, as "
        "avg:distance, or of a difference, as avg:diff:arrival_delay-departure_delay; with conditions share@late, "
        "count@late, avg@late:distance."
    )

    def arguments(self, model: JSON) -> Schema:
        conf = get_conf()
        properties: JSON = {
            "model": model,
            "group_by": {**NAMES, "maxItems": aggregates.MAX_GROUP_BY, "description": "None: one row of totals."},
            "measures": {
                **NAMES,
                "minItems": 1,
                "maxItems": aggregates.MAX_MEASURES,
                "default": ["count"],
                "description": 'As ["count", "avg:distance"].',
            },
            "conditions": open_object(
                'Named filters, as {"late": {"arrival_delay__gt": 60}}.', maxProperties=aggregates.MAX_CONDITIONS
            ),
            "filter": open_object("As in find_records."),
            "search": SEARCH,
            "having": open_object('Which groups, as {"avg:distance__lt": 500}.', maxProperties=aggregates.MAX_MEASURES),
            "order_by": {**NAMES, "maxItems": aggregates.MAX_GROUP_BY, "description": 'As ["-count"].'},
            "limit": limit_schema(conf.MAX_GROUPS, conf.MAX_GROUPS),
            "cursor": CURSOR,
            "format": FORMAT,
        }
        return arguments_schema(properties, "model")

    def get_input_schema(self, request: MCPRequest) -> JSON:
        schema = super().get_input_schema(request)
        if not self._rights(request).may_use("find_records"):
            schema["properties"]["filter"] |= FILTER
        return schema

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        return table_schema()

    def answer(self, exchange: Exchange, rights: Rights, arguments: JSON) -> JSON:
        model, query = self._model(rights, arguments["model"]), self._query(arguments)
        table = aggregates.aggregate(model, query)
        exchange.usage.read(model.label, len(table.rows))
        extra: JSON = {} if table.next_cursor is None else {"next_cursor": table.next_cursor}
        if notes := [*table.notes, *rules.of_groups(model, query)]:
            extra["notes"] = notes
        return table_result(table.columns, table.rows, extra, arguments.get("format", "json"))

    def check(self, model: ModelRights, arguments: JSON, *, by_database: bool = True) -> None:
        query = self._query(arguments)
        with verified([], asks=by_database and query.cursor is None) as doubts:
            aggregates.check(model, query, doubts)

    def _query(self, arguments: JSON) -> aggregates.AggregateQuery:
        return aggregates.AggregateQuery(
            group_by=arguments.get("group_by", ()),
            measures=arguments.get("measures", ("count",)),
            filter=arguments.get("filter", {}),
            search=arguments.get("search", ""),
            conditions=arguments.get("conditions", {}),
            having=arguments.get("having", {}),
            order_by=arguments.get("order_by", ()),
            limit=int(arguments.get("limit", 0)),
            cursor=arguments.get("cursor"),
        )
