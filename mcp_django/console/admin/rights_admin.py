"""What the ModelAdmins of tokens and of their templates share: the form in which somebody gives rights."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from mcp_django.console.admin.base import ActingAdmin
from mcp_django.console.admin.token_forms import OF_RIGHTS
from mcp_django.console.credentials.scope_choices import ScopeChoices, offered_to
from mcp_django.models import Tool


class RightsAdmin(ActingAdmin):
    """Its form offers the scopes that name nothing its editor may not know of."""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.offered = self.offered(request)
        form.words_url = self.words_url(obj)
        return form

    def offered(self, request: HttpRequest) -> ScopeChoices:
        """What the viewer may know of, and so may give."""
        return offered_to(request, sees_tools=self._sees_tools(request))

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [*OF_RIGHTS]

    def words_url(self, obj: Any) -> str:
        """The page that says in words what is chosen; empty without one."""
        return ""

    def _sees_tools(self, request: HttpRequest) -> bool:
        """Whether the viewer may know of every tool, as whoever may view the list of tools."""
        site = self.admin_site
        return site.is_registered(Tool) and site.get_model_admin(Tool).has_view_permission(request)
