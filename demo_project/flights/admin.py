import csv
from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.translation import ngettext

import mcp_django

from .models import Airline, Airport, Disruption, Flight, Plane, Weather

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
else:

    class ModelAdmin(admin.ModelAdmin):
        """Takes its model in brackets, as the type stubs have it."""

        def __class_getitem__(cls, model: type[Model]) -> type["ModelAdmin"]:
            return cls


#: Members of this group work with the flights that leave from JFK and see no others.
JFK_OPERATIONS = "JFK operations"


@admin.register(Airline)
class AirlineAdmin(ModelAdmin[Airline]):
    list_display = ["carrier", "name"]
    search_fields = ["carrier", "name"]


@admin.register(Airport)
class AirportAdmin(ModelAdmin[Airport]):
    list_display = ["faa", "name", "latitude", "longitude", "altitude", "time_zone"]
    list_filter = ["time_zone", "daylight_saving"]
    search_fields = ["faa", "name"]


@admin.register(Plane)
class PlaneAdmin(ModelAdmin[Plane]):
    list_display = ["tailnum", "manufacturer", "model", "year", "seats", "engines", "engine"]
    list_filter = ["type", "engine", "engines"]
    search_fields = ["tailnum", "manufacturer", "model"]


@admin.register(Flight)
class FlightAdmin(ModelAdmin[Flight]):
    list_display = [
        "departs_at",
        "carrier",
        "number",
        "origin",
        "destination",
        "status",
        "departure_delay",
        "arrival_delay",
        "tailnum",
    ]
    list_display_links = ["departs_at", "number"]
    list_filter = ["status", ("origin", admin.RelatedOnlyFieldListFilter), "carrier"]
    list_select_related = ["carrier", "origin", "destination"]
    search_fields = ["^tailnum", "number__exact", "carrier__name", "origin__faa", "destination__faa"]
    autocomplete_fields = ["carrier", "plane", "origin", "destination"]
    date_hierarchy = "departs_at"
    ordering = ["departs_at", "id"]
    actions = ["mark_cancelled", "mark_on_time", "export_as_csv"]
    fieldsets = [
        (None, {"fields": ["carrier", "number", "origin", "destination", "departs_at", "status", "notes"]}),
        ("Plane", {"fields": ["tailnum", "plane"]}),
        ("How it went", {"fields": ["departure_delay", "arrival_delay", "air_time", "distance"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Flight]:
        queryset = super().get_queryset(request)
        if request.user.groups.filter(name=JFK_OPERATIONS).exists():
            queryset = queryset.filter(origin_id="JFK")
        return queryset

    @mcp_django.action(changes=["status"])
    @admin.action(description="Mark selected flights as cancelled", permissions=["change"])
    def mark_cancelled(self, request: HttpRequest, queryset: QuerySet[Flight]) -> None:
        changed = self.set_status(queryset, Flight.Status.CANCELLED)
        message = ngettext("%d flight was marked as cancelled.", "%d flights were marked as cancelled.", changed)
        self.message_user(request, message % changed, messages.SUCCESS)

    @mcp_django.action(changes=["status"])
    @admin.action(description="Mark selected flights as on time", permissions=["change"])
    def mark_on_time(self, request: HttpRequest, queryset: QuerySet[Flight]) -> None:
        changed = self.set_status(queryset, Flight.Status.ON_TIME)
        message = ngettext("%d flight was marked as on time.", "%d flights were marked as on time.", changed)
        self.message_user(request, message % changed, messages.SUCCESS)

    @mcp_django.action(read_only=True)
    @admin.action(description="Export selected flights as CSV", permissions=["view"])
    def export_as_csv(self, request: HttpRequest, queryset: QuerySet[Flight]) -> HttpResponse:
        columns = [
            "departs_at",
            "carrier_id",
            "number",
            "origin_id",
            "destination_id",
            "tailnum",
            "status",
            "departure_delay",
            "arrival_delay",
            "air_time",
            "distance",
        ]
        response = HttpResponse(
            content_type="text/csv", headers={"Content-Disposition": 'attachment; filename="flights.csv"'}
        )
        writer = csv.writer(response)
        writer.writerow(column.removesuffix("_id") for column in columns)
        writer.writerows(queryset.values_list(*columns))
        return response

    def set_status(self, queryset: QuerySet[Flight], status: Flight.Status) -> int:
        """Change the flights one by one, since `QuerySet.update` sends no signal and so nobody would be told."""
        with transaction.atomic():
            flights = list(queryset.exclude(status=status))
            for flight in flights:
                flight.status = status
                flight.save(update_fields=["status"])
        return len(flights)


@admin.register(Weather)
class WeatherAdmin(ModelAdmin[Weather]):
    list_display = ["time_hour", "origin", "temperature", "humidity", "wind_speed", "precipitation", "visibility"]
    list_filter = [("origin", admin.RelatedOnlyFieldListFilter)]
    list_select_related = ["origin"]
    search_fields = ["origin__faa", "origin__name"]
    autocomplete_fields = ["origin"]
    date_hierarchy = "time_hour"
    ordering = ["time_hour", "id"]


@admin.register(Disruption)
class DisruptionAdmin(ModelAdmin[Disruption]):
    list_display = ["reported_at", "flight", "kind", "severity", "reported_by", "resolved"]
    list_filter = ["resolved", "severity", "kind"]
    list_select_related = ["flight", "reported_by"]
    search_fields = ["note", "^flight__tailnum", "flight__number__exact"]
    autocomplete_fields = ["flight"]
    readonly_fields = ["reported_by", "reported_at"]
    date_hierarchy = "reported_at"
    ordering = ["-reported_at", "-id"]

    def save_model(self, request: HttpRequest, obj: Disruption, form: "ModelForm[Disruption]", change: bool) -> None:
        if not change and request.user.is_authenticated:
            obj.reported_by = request.user
        super().save_model(request, obj, form, change)
