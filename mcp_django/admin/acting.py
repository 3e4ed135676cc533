"""Who changes a token, a tool or a prompt in the admin, for the audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from mcp_django.access.trail import acting

if TYPE_CHECKING:
    AdminBase = admin.ModelAdmin[Any]
else:
    AdminBase = admin.ModelAdmin


class ActingAdmin(AdminBase):
    """Changes that its pages make are the user's."""

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with acting(request):
            return super().changelist_view(request, *args, **kwargs)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with acting(request):
            return super().changeform_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with acting(request):
            return super().delete_view(request, *args, **kwargs)
