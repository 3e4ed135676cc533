"""Medians and percentiles, with linear interpolation between the two nearest values.

PostgreSQL has an aggregate for it. The other databases number the values of each group, and the two that stand at the
place of the percentile are added up with weights: see ``ranked``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Aggregate, Count, Func, Sum, Window
from django.db.models.functions import Cast, RowNumber

from mcp_django.core.compat.queries import select_from

if TYPE_CHECKING:
    from mcp_django.bridge.resources.aggregates.measures import Measure


#: Rows, and their groups and measures as expressions over them, by their aliases.
Source = tuple[models.QuerySet[Any], Mapping[str, Any], Mapping[str, Any]]


class Percentile(Aggregate):
    """``percentile_cont`` of PostgreSQL, which takes floats and intervals. Nulls are ignored."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    arity = 1

    def __init__(self, value: Any, percent: int = 50, *, is_duration: bool = False, **extra: Any) -> None:
        field = _field(is_duration)
        extra = {"fraction": percent / 100, "output_field": field, **extra}
        super().__init__(value if is_duration else Cast(value, field), **extra)


class _Weighted(Func):
    """A value at the place of the percentile, or its share if it is next to the place; null for all others.

    Values are numbered from the greatest one on. The place is counted in hundredths, all of them floats.
    """

    arity = 3

    def as_sql(self, compiler: Any, connection: Any, *args: Any, **context: Any) -> tuple[str, Any]:
        value, rank, count = (compiler.compile(item)[0] for item in self.get_source_expressions())
        away = f"ABS(100e0 * ({rank} - 1) - {100 - self.extra['percent']}e0 * ({count} - 1))"
        return f"CASE WHEN {away} < 100 THEN {value} * (100e0 - {away}) / 100e0 END", []


def _field(is_duration: bool) -> models.Field[Any, Any]:
    return models.DurationField() if is_duration else models.FloatField()


def ranked(queryset: models.QuerySet[Any], groups: Mapping[str, Any], measures: Mapping[str, Measure]) -> Source:
    """Rows with the groups and values of each row, and the groups and measures as expressions over them.

    Values of percentiles are numbered within their group.
    """
    values = {alias: measure.value() for alias, measure in measures.items()}
    rows, columns = select_from(queryset.annotate(**groups, **values), [*groups, *values])
    partition = [columns[alias] for alias in groups] or None
    numbers: dict[str, Any] = {}
    for alias, measure in measures.items():
        if measure.function.percent:
            value = columns[alias]
            numbers[f"{alias}_rank"] = Window(RowNumber(), partition_by=partition, order_by=value.desc())
            numbers[f"{alias}_count"] = Window(Count(value), partition_by=partition)
    rows, columns = select_from(rows.annotate(**columns, **numbers), [*columns, *numbers])
    return (
        rows,
        {alias: columns[alias] for alias in groups},
        {alias: _aggregate(measure, alias, columns) for alias, measure in measures.items()},
    )


def _aggregate(measure: Measure, alias: str, columns: Mapping[str, Any]) -> Any:
    percent = measure.function.percent
    if not percent:
        return measure.function.of(columns[alias], measure.operand)
    field = columns[alias].output_field
    place = _Weighted(columns[alias], columns[f"{alias}_rank"], columns[f"{alias}_count"], percent=percent)
    return Sum(place, output_field=_field(isinstance(field, models.DurationField)))
