"""The page of the models: what agents read of each, and the switches that take models and fields away from them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import models, router, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access import overrides
from mcp_django.access.trail import acting
from mcp_django.bridge.sites import MCPSite, all_sites
from mcp_django.console.admin import pausing
from mcp_django.console.admin.base import ActingAdmin
from mcp_django.console.admin.overrides import site_of
from mcp_django.console.admin.seen_calls import seen_calls
from mcp_django.console.review import exposed_models, inventory, model_switches, registering
from mcp_django.console.review.exposed_models import ExposedModel
from mcp_django.core.compat.admin import key_in_url
from mcp_django.core.csv_cells import spreadsheet_safe
from mcp_django.core.running.in_request import as_in_a_call
from mcp_django.models import Call, Restriction

#: Models of a page.
PER_PAGE = 100
#: How far back calls are counted.
_RECENT = timedelta(days=7)
_KINDS = Restriction.Kind


class RestrictionAdmin(ActingAdmin):
    """Shows what code exposes of the models. Its switches only take away: no page opens what code does not."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Restriction | None = None) -> bool:
        return False

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("matrix/", self.matrix_view, "matrix"),
            self.page_path("pause/", partial(pausing.pause_view, self), "pause"),
            self.page_path("of/<str:label>/", self.model_view, "model"),
            *super().get_urls(),
        ]

    # The list.

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """A line for each model that code exposes."""
        site = self._site(request)
        searched = request.GET.get("q", "").strip().lower()
        found = self._exposed(request, site)
        lines = [one for one in found if searched in one.label or searched in one.title.lower()]
        page = Paginator(lines, PER_PAGE).get_page(request.GET.get("p"))
        if request.method == "POST":
            self._switch(request, site, _KINDS.MODEL, {one.label: one.label for one in page})
            return HttpResponseRedirect(request.get_full_path())
        seen = seen_calls(self.admin_site, request)
        calls = None if seen is None else _recent_calls(seen, site, page)
        as_in_a_call(lambda: exposed_models.decide(page))
        return self.page(
            request, "restriction/change_list", title=_("Models"), site=site, sites=all_sites(), page=page,
            searched=searched, lines=[(one, None if calls is None else calls[one.label]) for one in page],
            left_out=sorted(inventory.unexposed(site).items()), may_switch=self.has_change_permission(request),
            total=len(found), shows_groups=self._shows_groups(request),
            lines_for_rights=registering.lines_for_rights(site),
        )  # fmt: skip

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The history of the admin links to a row: that of a model or a field leads to the page of the model."""
        row = self.get_object(request, key_in_url(object_id))
        if row is None or not self.has_view_permission(request):
            raise Http404
        if row.is_pause:
            return HttpResponseRedirect(self.page_url("changelist"))
        label = row.name if row.kind == _KINDS.MODEL else row.name.rpartition(".")[0]
        return HttpResponseRedirect(self.page_url("model", label))

    # One model.

    def model_view(self, request: HttpRequest, label: str) -> HttpResponse:
        """What agents read of one model, what they do not and why, and who may view it."""
        site = self._site(request)
        model = next((one for one in self._exposed(request, site) if one.label == label), None)
        if model is None:
            raise Http404
        if request.method == "POST":
            names = [*(field.name for field in model.fields if field.can_switch), *model.gone]
            self._switch(request, site, _KINDS.FIELD, {name: f"{label}.{name}" for name in names})
            return HttpResponseRedirect(request.get_full_path())
        groups = None
        if self._shows_groups(request):
            held = exposed_models.groups_by_permission(model.view_permissions)
            groups = exposed_models.groups_of(model, held)
        as_in_a_call(lambda: exposed_models.decide([model]))
        fields = list(model.fields)
        return self.page(
            request, "restriction/model", title=model.label, site=site, model=model, groups=groups,
            shown=[field for field in fields if not field.hidden], hidden=[one for one in fields if one.hidden],
            actions=site.actions_on(model.model_mcp.model), may_switch=self.has_change_permission(request),
            cure=registering.cure_of(model.model_mcp),
        )  # fmt: skip

    # The matrix.

    def matrix_view(self, request: HttpRequest) -> HttpResponse:
        """A CSV file: a line for each model and a column for each group that may view one of them."""
        site = self._site(request)
        if not self._shows_groups(request):
            raise PermissionDenied
        found = self._exposed(request, site)
        held = exposed_models.groups_by_permission(name for one in found for name in one.view_permissions)
        groups = {one.label: exposed_models.groups_of(one, held) for one in found}
        columns = sorted({name for names in groups.values() for name in names})
        response = HttpResponse(
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="models.csv"', "Cache-Control": "no-store"},
        )
        # Without this mark, Excel reads the file in another encoding.
        response.write("\ufeff")
        writer = csv.writer(response)
        heading = [gettext("model"), gettext("switched off"), gettext("decided beyond permissions by")]
        writer.writerow([*heading, *map(spreadsheet_safe, columns)])
        for one in found:
            cells = [gettext("view") if name in groups[one.label] else "" for name in columns]
            writer.writerow([one.label, gettext("off") if one.is_off else "", one.view_hook, *cells])
        return response

    # What these share.

    def _site(self, request: HttpRequest) -> MCPSite:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST" and not self.has_change_permission(request):
            raise PermissionDenied
        name = request.GET.get("site")
        site = all_sites()[0] if name is None else site_of(name)
        if site is None:
            raise Http404
        return site

    def _exposed(self, request: HttpRequest, site: MCPSite) -> list[ExposedModel]:
        decided = overrides.tools.restrictions(site, fresh=True)
        return as_in_a_call(lambda: exposed_models.exposed_models(site, decided, request))

    def _shows_groups(self, request: HttpRequest) -> bool:
        """Whether the viewer may see the groups, by their own ModelAdmin where they have one."""
        if self.admin_site.is_registered(Group):
            return bool(self.admin_site.get_model_admin(Group).has_view_permission(request))
        return request.user.has_perm("auth.view_group")

    def _switch(self, request: HttpRequest, site: MCPSite, kind: str, names: Mapping[str, str]) -> None:
        """Make the changes that the viewer has made to the switches, and only these: others may have made some too.

        ``names``: the switches that the page has → the names in the table.
        """
        on, shown_off = set(request.POST.getlist("on")), set(request.POST.getlist("off"))
        changed = {stored: shown not in on for shown, stored in names.items() if (shown in on) == (shown in shown_off)}
        with acting(request), transaction.atomic(router.db_for_write(Restriction)):
            for name, is_off in changed.items():
                if is_off:
                    row = model_switches.switch(site.name, kind, name, is_on=False)
                    if row is not None:
                        self.log_addition(request, row, [{"added": {}}])
                    continue
                self.log_deletions(request, model_switches.closing(site.name, kind, name))
                model_switches.switch(site.name, kind, name, is_on=True)
        text = ngettext("%(count)d switch was changed.", "%(count)d switches were changed.", len(changed))
        self.message_user(request, text % {"count": len(changed)}, messages.SUCCESS if changed else messages.INFO)


def _recent_calls(calls: models.QuerySet[Call], site: MCPSite, models_of_page: Iterable[ExposedModel]) -> Counter[str]:
    """How often each model was asked for lately, by its label."""
    called = calls.filter(
        at__gte=timezone.now() - _RECENT, site=site.name, kind__in=(Call.Kind.CALL, Call.Kind.READ),
        model__in=[one.label for one in models_of_page],
    )  # fmt: skip
    return Counter(dict(called.values_list("model").annotate(calls=models.Sum("count"))))
