"""What a token may do with what its form says, in words, before anything is saved."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.sites import all_sites
from mcp_django.console.admin.rights_admin import RightsAdmin
from mcp_django.console.credentials.scopes import opened_by
from mcp_django.core.compat.admin import key_in_url
from mcp_django.exchange.scopes import expand


class WordsAdmin(RightsAdmin):
    """Users who are not superusers ask this for their own tokens alone, as everything else."""

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("words/", self.words_view, "words"),
            self.page_path("<path:object_id>/words/", self.words_view, "words_of"),
            *super().get_urls(),
        ]

    def words_url(self, obj: Any) -> str:
        return self.page_url("words") if obj is None else self.page_url("words_of", obj.pk)

    def words_view(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        """What a token may do with what is filled in, in words. Nothing is saved."""
        token = None if object_id is None else self.get_object(request, key_in_url(object_id))
        if not (self.has_add_permission(request) if object_id is None else self._may_change(request, token)):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        form = self.get_form(request, token, change=token is not None)(request.POST, instance=token)
        form.is_valid()
        chosen = form.cleaned_data.get("user") if request.user.is_superuser else request.user
        user = chosen if token is None else token.user
        held = form.cleaned_data.get("scopes", ())
        said = [] if user is None else [(one, opened_by(one, request, expand(held), user)) for one in all_sites()]
        title = _("What it may do")
        return self.page(request, "accesstoken/words", title=title, object=token, user_of_token=user, said=said)

    def _may_change(self, request: HttpRequest, token: Any) -> bool:
        return token is not None and self.has_change_permission(request, token)
