"""The pages on which a person tries a tool, and makes a tool of a call that was tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from mcp_django.access.trail import acting
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.query import QueryTool
from mcp_django.bridge.tools.saved_queries import SAVABLE, SavedQuery
from mcp_django.console.admin import examples, trying
from mcp_django.console.admin.argument_form import ArgumentForm, suggestions
from mcp_django.console.admin.overrides import OverrideAdmin, site_of, tool_of
from mcp_django.console.admin.saving import MAX_VALUES, SaveForm, viewers_request, why_not
from mcp_django.console.pages.connecting import curl
from mcp_django.core.compat.admin import key_in_url
from mcp_django.models import Tool
from mcp_django.protocol.types import JSON

#: The parameter of *Try it* that fills in the form: with the run of this number, or with an example.
_FILL, _EXAMPLE = "fill", "example"


class TryAdmin(OverrideAdmin):
    """Has the pages beside those of tools themselves."""

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("<path:object_id>/try/", self.try_view, "try", atomic=False),
            self.page_path("<path:object_id>/save/", self.save_view, "save", atomic=False),
            *super().get_urls(),
        ]

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A form of the tool's arguments, and what an agent of the viewer would be answered."""
        row = self.get_object(request, key_in_url(object_id))
        site, tool = (None, None) if row is None else (site_of(row.site), tool_of(row))
        if row is None or site is None or tool is None:
            raise Http404
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if isinstance(tool, SavedQuery) and not may_ask(request, tool):
            if request.method == "POST":
                raise PermissionDenied
            said = _("An agent of yours may not read what this query reads, so you cannot try it.")
            self.message_user(request, said, messages.WARNING)
            return HttpResponseRedirect(self.page_url("change", row.pk))
        if tool.is_closed:
            return self.page(request, "tool/try", title=_("Try it"), object=row, is_closed=True)
        schema = tool.get_input_schema(viewers_request(request))
        may_choose_user = trying.may_try_as_others(request.user)
        posted = request.POST if request.method == "POST" else None
        suggest, runs = partial(trying.suggest_for_tool, request, site, tool), examples.runs_of(request, row)
        typed = None if posted is not None else _typed(request.GET.get(_FILL, ""), tool, schema, runs, suggest)
        form = ArgumentForm(tool, schema, posted, typed, may_choose_user=may_choose_user)
        if "suggest" in request.POST:
            return suggestions(form, suggest)
        answer = None
        if form.is_valid():
            answer = trying.call(request, site, tool, form.cleaned_data.get("user") or request.user, form.given)
            examples.keep_run(request, row, schema, form.typed)
            runs = examples.runs_of(request, row)
        endpoint = request.build_absolute_uri(reverse("mcp_django:endpoint", current_app=site.name))
        return self.page(
            request, "tool/try", title=_("Try it"), object=row, form=form, answer=answer, tool_is_off=not row.enabled,
            runs=list(enumerate(", ".join(f"{name}: {text}" for name, text in run.items()) for run in runs)),
            fill=f"?{_FILL}=", example=f"?{_FILL}={_EXAMPLE}" if schema.get("properties") else "",
            curl=None if answer is None else curl(endpoint, answer.call),
            may_save=tool.name in SAVABLE and self._may_save(request),
            call="" if answer is None else json.dumps(answer.call["params"]["arguments"], ensure_ascii=False),
        )  # fmt: skip

    def save_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Makes a tool of a call that was tried: ``save-call`` has its arguments."""
        row = self.get_object(request, key_in_url(object_id))
        site = None if row is None else site_of(row.site)
        if row is None or site is None or row.name not in SAVABLE or not isinstance(tool_of(row), QueryTool):
            raise Http404
        if not (self._may_save(request) and self.has_view_permission(request, row)):
            raise PermissionDenied
        posted = request.POST if "save" in request.POST else None
        form = SaveForm(request, site, row.name, posted, call=request.POST.get("save-call", ""))
        if not form.is_of_a_call:
            if request.POST.get("save-call"):
                said = _("This call cannot be saved: it is too long, or has more than %(most)d values.")
                self.message_user(request, said % {"most": MAX_VALUES}, messages.ERROR)
            return HttpResponseRedirect(self.page_url("try", row.pk))
        if form.is_valid() and (saved := self._save(request, site, form)) is not None:
            self.message_user(
                request, _("The tool is saved and switched on. Agents that may read its model and fields can call it.")
            )
            return HttpResponseRedirect(self.page_url("change", saved.pk))
        main = [form[name] for name in ("name", "description")]
        return self.page(request, "tool/save", title=_("Save as a tool"), object=row, form=form, main=main)

    def _may_save(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request)

    def _save(self, request: HttpRequest, site: MCPSite, form: SaveForm) -> Tool | None:
        """The new row; None where somebody else has just taken its name."""
        given = form.cleaned_data
        values = {"enabled": True, "description": given["description"], "query": form.query}
        with acting(request):
            row, is_new = Tool.objects.get_or_create(site=site.name, name=given["name"], defaults=values)
        if not is_new:
            form.add_error("name", _("There is already a tool with this name. Choose another."))
            return None
        self.log_addition(request, row, [{"added": {}}])
        return row


def may_ask(request: HttpRequest, tool: BaseTool | None) -> bool:
    """Whether an agent of the viewer could call a saved query."""
    return isinstance(tool, SavedQuery) and why_not(request, tool) is None


def _typed(
    fill: str, tool: BaseTool, schema: JSON, runs: Sequence[examples.Typed], suggest: examples.Suggest
) -> examples.Typed:
    """What stands in the form at first: nothing, an example, or what was typed in one of the last runs."""
    if fill == _EXAMPLE:
        # What may change data is not led to the first row that there is.
        return examples.example_of(schema, (lambda name, typed: ()) if tool.may_change else suggest)
    return {str(number): run for number, run in enumerate(runs)}.get(fill, {})
