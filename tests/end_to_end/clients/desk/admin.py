from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tests.end_to_end.clients.desk.models import Ticket


@admin.register(Ticket)
class TicketAdmin(admin.ModelAdmin):
    list_display = ["title", "status"]
    list_filter = ["status"]
    search_fields = ["title"]
    ordering = ["id"]
    actions = ["close"]

    @admin.action(description="Close the selected tickets", permissions=["change"])
    def close(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for ticket in queryset:
            ticket.status = "closed"
            ticket.save()
        self.message_user(request, f"{len(queryset)} closed.")
