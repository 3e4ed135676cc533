"""What a token sees, or a user with some scopes, and why not more: a page of the access tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.sites import MCPSite, all_sites
from mcp_django.console.admin import trying
from mcp_django.console.admin.links import object_link
from mcp_django.console.admin.rights_admin import RightsAdmin
from mcp_django.console.calls import Answer
from mcp_django.console.credentials.scope_choices import ScopeChoices
from mcp_django.console.credentials.scope_field import ScopeField
from mcp_django.console.review import inventory, reasons
from mcp_django.console.review.checklist import Kind, Place, Step
from mcp_django.core.compat.admin import key_in_url
from mcp_django.core.db.bounds import bounded
from mcp_django.core.running.in_request import as_in_a_call
from mcp_django.exchange.principals import Principal, Source, in_force
from mcp_django.exchange.requests import from_view
from mcp_django.exchange.scopes import READ, expand, known
from mcp_django.models import AccessToken, Prompt, Tool
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.types import JSON

#: Rows of a sample.
_SAMPLE = 5
#: Rows are counted up to this number, and no longer than these seconds.
_MOST_COUNTED, _COUNT_SECONDS = 10_000, 0.5
#: Bytes of text that make a token of a language model, as a rule of thumb.
_BYTES_PER_TOKEN = 4
#: What a tool is, as an inventory says it → as it is shown.
_KINDS: Mapping[str, Any] = {"query": _("query"), "saved query": _("saved query"), "function": _("function")}


@dataclass(frozen=True)
class Subject:
    """Whose view is shown: a user with scopes, by a token where there is one."""

    user: Any
    scopes: Sequence[str]
    token: AccessToken | None = None


@dataclass(frozen=True)
class Sample:
    """Rows of one model, and how many there are, in words."""

    label: str
    answer: Answer
    count: Any


class SeesForm(forms.Form):
    """What is chosen: the site and, without a token, the user and the scopes; and the thing that is asked about."""

    site = forms.ChoiceField(label=_("Site"), required=False)
    user = forms.CharField(label=_("User"), required=False, max_length=254)
    scopes = ScopeField(label=_("Scopes"), required=False, help_text=_("Where none is chosen: read."))
    why = forms.CharField(
        label=_("Why not?"), required=False, max_length=reasons.MAX_NAME,
        help_text=_("A model as app.model, a field as app.model.field, a row as db://app/model/pk, a way to write as "
                    "app.model:update, a resource by its URI, a tool, an operation of the API or a prompt."),
    )  # fmt: skip

    def __init__(self, data: QueryDict, viewer: Any, offered: ScopeChoices | None = None) -> None:
        """Offer these scopes, and to superusers every user; without them, as for a token, neither is chosen."""
        chosen = data.copy()
        chosen.setdefault("scopes", READ)
        super().__init__(chosen)
        self._viewer = viewer
        names = [site.name for site in all_sites()]
        self.fields["site"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        if len(names) < 2:
            del self.fields["site"]
        if offered is None:
            del self.fields["user"], self.fields["scopes"]
            return
        cast("ScopeField", self.fields["scopes"]).offer(offered)
        if not viewer.is_superuser:
            del self.fields["user"]

    def clean_user(self) -> Any:
        name = self.cleaned_data["user"]
        users = get_user_model()
        found = users._default_manager.filter(**{users.USERNAME_FIELD: name}, is_active=True).first() if name else None
        if name and found is None:
            raise ValidationError(_("There is no active user with this username."))
        return found or self._viewer

    @property
    def chosen_site(self) -> MCPSite:
        name = self.cleaned_data.get("site")
        return next((site for site in all_sites() if site.name == name), all_sites()[0])


def _kind(tool: JSON) -> Any:
    """The kind of a tool, translated: an inventory has it in English."""
    kind, _of, label = tool["kind"].partition(" of ")
    return format_lazy(_("action of {label}"), label=label) if label else _KINDS[kind]


class SeesAdmin(RightsAdmin):
    """Shows what tokens see. Users who are not superusers see this only for their own tokens and for themselves."""

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("sees/", self.user_sees_view, "sees_user", atomic=False),
            self.page_path("<path:object_id>/sees/", self.sees_view, "sees", atomic=False),
            *super().get_urls(),
        ]

    def list_links(self, request: HttpRequest) -> list[tuple[str, Any]]:
        return [(self.page_url("sees_user"), _("What a user sees")), *super().list_links(request)]

    def sees_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What a token sees."""
        token: AccessToken | None = self.get_object(request, key_in_url(object_id))
        if token is None:
            raise Http404
        if not self.has_view_permission(request, token):
            raise PermissionDenied
        held = sorted(known({*token.scopes, *in_force(token.lent.items())}))
        return self._sees(request, SeesForm(request.GET, request.user), Subject(token.user, held, token))

    def user_sees_view(self, request: HttpRequest) -> HttpResponse:
        """What a user sees with some scopes."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if not request.user.is_superuser and request.GET.get("user", request.user.get_username()) != (
            request.user.get_username()
        ):
            # The answer does not say whether there is such a user.
            raise PermissionDenied
        form = SeesForm(request.GET, request.user, self.offered(request))
        if not form.is_valid():
            return self._page(request, form, None)
        given = form.cleaned_data
        return self._sees(request, form, Subject(given.get("user") or request.user, given["scopes"]))

    def _sees(self, request: HttpRequest, form: SeesForm, subject: Subject) -> HttpResponse:
        if not form.is_valid():
            return self._page(request, form, subject)
        site, label, why = form.chosen_site, request.GET.get("model", ""), form.cleaned_data["why"]
        built = as_in_a_call(lambda: inventory.build(site, subject.user, subject.scopes, request=request))
        sample = self._sample(request, site, subject, built, label) if label else None
        checklist = None
        if why:
            known = self._known_kinds(request)
            ask = partial(reasons.explain, site, subject.user, subject.scopes, why)
            checklist = as_in_a_call(lambda: ask(known=known, request=request, token=subject.token))
        return self._page(
            request, form, subject, site=site, built=built, sample=sample, checklist=checklist,
            models=[{"label": name, **model} for name, model in built["models"].items()],
            tools=[{**tool, "name": name, "kind": _kind(tool)} for name, tool in built["tools"].items()],
            estimate=built["tool_list"]["bytes"] // _BYTES_PER_TOKEN,
            steps=None if checklist is None else list(self._linked(request, site, subject, checklist.steps)),
            may_sample=_may_sample(request, subject),
        )  # fmt: skip

    def _page(self, request: HttpRequest, form: SeesForm, subject: Subject | None, **context: Any) -> HttpResponse:
        token, user = (None, None) if subject is None else (subject.token, subject.user)
        return self.page(
            request, "accesstoken/sees", title=_("What an agent sees"), form=form, subject=subject, object=token,
            about=None if user is None or token is not None else user.get_username(), **context,
        )  # fmt: skip

    # Rows.

    def _sample(self, request: HttpRequest, site: MCPSite, subject: Subject, built: JSON, label: str) -> Sample:
        """The first rows of a model and their number. The activity has a line of it, which names both users."""
        if label not in built["models"]:
            raise Http404
        if not _may_sample(request, subject):
            raise PermissionDenied
        arguments = {"model": label, "limit": _SAMPLE}
        answer = trying.call(request, site, site.tools["find_records"], subject.user, arguments, scopes=subject.scopes)
        count = None if answer.is_error else as_in_a_call(lambda: _count(request, site, subject, label))
        return Sample(label, answer, count)

    # Why not?

    def _known_kinds(self, request: HttpRequest) -> Collection[Kind]:
        """The kinds of things that the viewer may know of: those whose own pages the viewer may see."""
        if request.user.is_superuser:
            return reasons.EVERYTHING
        pages: Iterable[tuple[Kind, Any]] = (("tool", Tool), ("prompt", Prompt))
        return [kind for kind, model in pages if self._shows(request, model)]

    def _shows(self, request: HttpRequest, model: Any) -> bool:
        site = self.admin_site
        return site.is_registered(model) and site.get_model_admin(model).has_view_permission(request)

    def _linked(
        self, request: HttpRequest, site: MCPSite, subject: Subject, steps: Iterable[Step]
    ) -> Iterable[tuple[Step, str | None]]:
        for step in steps:
            yield step, None if step.place is None else self._link(request, site, subject, step.place)

    def _link(self, request: HttpRequest, site: MCPSite, subject: Subject, place: Place) -> str | None:
        """The page where it is changed; None where the viewer may not see it."""
        match place.kind:
            case "credential":
                token = subject.token
                return (
                    None if token is None else object_link(self.admin_site, request, AccessToken, token.pk, str(token))
                )
            case "user":
                user = subject.user
                return object_link(self.admin_site, request, type(user), user.pk, user.get_username())
            case kind:
                model = Tool if kind == "tool" else Prompt
                row = model._default_manager.filter(site=site.name, name=place.name).first()
                return None if row is None else object_link(self.admin_site, request, model, row.pk, place.name)


def _may_sample(request: HttpRequest, subject: Subject) -> bool:
    """Whether the viewer may see rows with the subject's rights: for themselves, or where superusers act as others."""
    if subject.token is not None and not subject.token.is_valid():
        return False
    return subject.user.pk == request.user.pk or trying.may_try_as_others(request.user)


def _count(request: HttpRequest, site: MCPSite, subject: Subject, label: str) -> Any:
    """How many rows the subject sees; None where that cannot be found out soon."""
    principal = Principal(subject.user, expand(subject.scopes), source=Source.COMMAND)
    mcp_request = from_view(request).for_principal(principal)
    with site.in_context(mcp_request):
        model = Rights.of(site, mcp_request).of_label(label)
        if model is None or not model.has_rows or model.checks_objects:
            return None
        rows = model.rows()
        try:
            with bounded(rows.db, _COUNT_SECONDS):
                found = rows.values("pk")[: _MOST_COUNTED + 1].count()
        except TooSlow:
            return None
    return found if found <= _MOST_COUNTED else _("over 10,000")
