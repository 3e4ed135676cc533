"""Prompts in the admin: declared ones are switched and described, others are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.override_rows import make_prompt_rows
from mcp_django.bridge.sites import all_sites
from mcp_django.console.admin import trying
from mcp_django.console.admin.argument_form import SuggestingForm, suggestions
from mcp_django.console.admin.overrides import OverrideAdmin, site_of
from mcp_django.core.compat.admin import key_in_url
from mcp_django.core.prompt_templates import compile_template
from mcp_django.models import Prompt

if TYPE_CHECKING:
    from mcp_django.bridge.prompts.base import BasePrompt
    from mcp_django.core.prompt_templates import Argument


class PromptForm(forms.ModelForm):  # type: ignore[type-arg]
    site = forms.ChoiceField(label=_("site"))

    class Meta:
        model = Prompt
        fields = ["site", "name", "enabled", "title", "description", "text", "groups"]
        widgets = {
            "description": AdminTextareaWidget(attrs={"rows": 3}),
            "text": AdminTextareaWidget(attrs={"rows": 16}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "site" in self.fields:
            names = sorted(site.name for site in all_sites() if site.is_served) or ["mcp"]
            field = cast("forms.ChoiceField", self.fields["site"])
            field.choices = [(name, name) for name in names]
            field.initial = names[0]
            if len(names) == 1:
                field.widget = field.hidden_widget()
        if "text" in self.fields:
            self.fields["text"].required = True

    def clean_text(self) -> str:
        # Browsers send CRLF, and agents should read plain line ends.
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any] | None:
        site, name = self.cleaned_data.get("site", self.instance.site), self.cleaned_data.get("name")
        if name is None:
            return super().clean()
        others = Prompt.objects.filter(site=site, name=name).exclude(pk=self.instance.pk)
        if others.exists() or _declared_prompt(site, name) is not None:
            self.add_error("name", _("There is already a prompt with this name. Choose another."))
        return super().clean()


class PreviewForm(SuggestingForm):
    """The arguments of a prompt."""

    def __init__(self, arguments: Sequence[Argument], data: Any) -> None:
        super().__init__(data)
        for one in arguments:
            kept: dict[str, Any] = {"label": one.name, "required": one.required, "help_text": one.description}
            self.add_argument(one.name, forms.CharField(strip=False, **kept))


class PromptAdmin(OverrideAdmin):
    """Overrides of declared prompts, and prompts that administrators write."""

    form = PromptForm
    list_display = ["name", "enabled", "origin", "summary", "group_names"]
    list_filter = ["enabled", "site"]
    search_fields = ["name", "title", "description", "text"]
    make_rows = staticmethod(make_prompt_rows)

    def get_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[Any]:
        words, activity = ["title", "description"], self.activity_fields(request)
        if obj is None:
            return ["site", "name", "enabled", *words, "text", "groups"]
        if _is_written(obj):
            return ["name", "site", "enabled", *words, "text", "argument_names", "groups", *activity]
        declared = ["origin", "argument_names", "declared_description"]
        return ["name", "site", "enabled", *declared, *words, "groups", *activity]

    def get_readonly_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[str]:
        computed = ["origin", "argument_names", "declared_description", "activity"]
        if obj is None:
            return computed
        # The row of a declared prompt is found by its name.
        return [*computed, "site", *([] if _is_written(obj) else ["name"])]

    def has_delete_permission(self, request: HttpRequest, obj: Prompt | None = None) -> bool:
        # The row of a declared prompt would be made again, switched on.
        declared = obj is not None and _declared_prompt(obj.site, obj.name) is not None
        return super().has_delete_permission(request, obj) and not declared

    # Its preview.

    def buttons(self, request: HttpRequest, row: Prompt) -> Iterator[tuple[str, Any]]:
        if row.enabled:
            yield "preview", _("Preview")
        yield from super().buttons(request, row)

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("<path:object_id>/preview/", self.preview_view, "preview", atomic=False),
            *super().get_urls(),
        ]

    def preview_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The messages that an agent of the viewer would get, with the values that are filled in."""
        row = self.get_object(request, key_in_url(object_id))
        site = None if row is None else site_of(row.site)
        if row is None or site is None:
            raise Http404
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        form = PreviewForm(_arguments_of(row), request.POST if request.method == "POST" else None)
        if "suggest" in request.POST:
            return suggestions(form, partial(trying.suggest_for_prompt, request, site, row.name))
        answer = None
        if form.is_valid():
            params = {"name": row.name, "arguments": {name: text for name, text in form.typed.items() if text}}
            answer = trying.send(request, site, request.user, "prompts/get", params)
        return self.page(request, "prompt/preview", title=_("Preview"), object=row, form=form, answer=answer)

    @admin.display(description=_("from"))
    def origin(self, row: Prompt) -> str:
        if _declared_prompt(row.site, row.name) is not None:
            return str(_("declared by the project"))
        return str(_("written here") if row.text else _("no longer exists"))

    @admin.display(description=_("arguments"))
    def argument_names(self, row: Prompt) -> str:
        names = [
            argument.name if argument.required else _("%(name)s (optional)") % {"name": argument.name}
            for argument in _arguments_of(row)
        ]
        return ", ".join(names) or "-"

    @admin.display(description=_("declared description"))
    def declared_description(self, row: Prompt) -> str:
        prompt = _declared_prompt(row.site, row.name)
        return prompt.get_description() if prompt is not None else ""

    @admin.display(description=_("description"))
    def summary(self, row: Prompt) -> str:
        return Truncator(row.description or self.declared_description(row) or row.title).chars(90)


def _declared_prompt(site_name: str, name: str) -> BasePrompt | None:
    site = site_of(site_name)
    return site.prompts.get(name) if site is not None else None


def _is_written(row: Prompt) -> bool:
    return bool(row.text) and _declared_prompt(row.site, row.name) is None


def _arguments_of(row: Prompt) -> Sequence[Argument]:
    declared = _declared_prompt(row.site, row.name)
    if declared is not None:
        return declared.arguments
    try:
        return compile_template(row.text).arguments
    except ValidationError:
        return []
