"""How lists are filtered."""

from datetime import date, datetime, timedelta

import django_filters
from django.utils import timezone
from rest_framework.filters import BaseFilterBackend

from tests.api.project.models import Order


def start_of(day: date) -> datetime:
    """The first moment of a day in the current time zone, which needs no time zones of the database."""
    return timezone.make_aware(datetime(day.year, day.month, day.day))


def on_day(orders, day: date):
    """The orders that were placed on a day."""
    return orders.filter(placed_at__gte=start_of(day), placed_at__lt=start_of(day + timedelta(days=1)))


class NumberInFilter(django_filters.BaseInFilter, django_filters.CharFilter):
    """Several numbers, divided by commas."""


class OrderFilter(django_filters.FilterSet):
    """The filters of a list of orders."""

    number__in = NumberInFilter(field_name="number", lookup_expr="in")
    status = django_filters.MultipleChoiceFilter(choices=Order.Status.choices)
    total = django_filters.RangeFilter()
    placed_after = django_filters.DateFilter(method="filter_placed_after", label="Placed on this day or later")

    class Meta:
        model = Order
        fields = {"number": ["exact"], "customer": ["exact"], "note": ["icontains"]}

    def filter_placed_after(self, queryset, name, value):
        return queryset.filter(placed_at__gte=start_of(value))


class ClosedFilterBackend(BaseFilterBackend):
    """Shows closed rows only where ``closed`` is "yes" or "all"."""

    def filter_queryset(self, request, queryset, view):
        wanted = request.query_params.get("closed", "all")
        return queryset if wanted == "all" else queryset.filter(closed=wanted == "yes")

    def get_schema_operation_parameters(self, view):
        return [
            {
                "name": "closed",
                "required": False,
                "in": "query",
                "description": "Whether closed rows are shown.",
                "schema": {"type": "string", "enum": ["yes", "no", "all"]},
            }
        ]
