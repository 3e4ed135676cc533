"""What a token or a grant is lent, on its page, with a way to end it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access.trail import acting
from mcp_django.console.admin.base import ActingAdmin
from mcp_django.console.credentials.lendings import ShownLending, end
from mcp_django.core.compat.admin import key_in_url
from mcp_django.models import AccessToken, Grant, Lending


class LentAdmin(ActingAdmin):
    """The rows are tokens or grants, which have scopes for a while beside those that they have for good."""

    def may_end(self, request: HttpRequest, row: Any) -> bool:
        """Whether the viewer may end the row, and what it is lent."""
        return self.has_change_permission(request, row)

    @admin.display(description=_("for a while"))
    def for_a_while(self, row: Any) -> str:
        shown = [ShownLending.of(one) for one in _lendings_of(row)]
        links = [(one.text, self.page_url("end_lending", row.pk, one.key), _("End now")) for one in shown]
        return format_html_join("; ", '{} · <a href="{}">{}</a>', links) or "-"

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("<path:object_id>/lent/<int:key>/end/", self.end_lending_view, "end_lending"),
            *super().get_urls(),
        ]

    def end_lending_view(self, request: HttpRequest, object_id: str, key: int) -> HttpResponse:
        """Ask once, and end what the row was lent."""
        row: Any = self.get_object(request, key_in_url(object_id))
        if row is None or not self.may_end(request, row):
            raise PermissionDenied
        lending, back = _lendings_of(row).filter(pk=key).first(), self.page_url("change", row.pk)
        if lending is None:
            self.message_user(request, _("This right had ended already."), messages.WARNING)
            return HttpResponseRedirect(back)
        if request.method != "POST":
            said = ShownLending.of(lending).text
            return self.page(request, "end_lending", title=_("End a right"), object=row, said=said, back=back)
        with acting(request):
            end(request.user, lending)
        self.log_change(request, row, gettext("Ended: %(scopes)s.") % {"scopes": ", ".join(lending.scopes)})
        self.message_user(request, _("This right has ended."))
        return HttpResponseRedirect(back)


def _lendings_of(row: AccessToken | Grant) -> models.QuerySet[Lending]:
    return Lending.objects.in_use().of(row.line, row.pk if isinstance(row, Grant) else None)
