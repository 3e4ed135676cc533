"""How a person pauses agents, and lets them go on: all of them, or those of a user, a token or an app.

It needs the permission to pause agents, and for a token or an app also what it takes to end it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access.trail import acting
from mcp_django.console.admin.base import ButtonsAdmin, PagesAdmin
from mcp_django.core.compat.admin import key_in_url
from mcp_django.models import AccessToken, Restriction

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

PERMISSION = "mcp_django.pause_agents"
Kind = Restriction.Kind
#: How many pauses are read for a page, and how many the first page lists.
_READ, _LISTED = 100, 20


@dataclass(frozen=True)
class Subject:
    """Whom a pause stops."""

    kind: Kind
    name: str
    #: In words, for the middle of a sentence.
    label: Any
    #: The row whose history says what was done; that of the pause itself where all agents are meant.
    about: models.Model | None = None

    @property
    def pause(self) -> Restriction | None:
        return Restriction.objects.filter(site="", kind=self.kind, name=self.name).first()


def everybody() -> Subject:
    return Subject(Kind.ALL, "", _("all agents"))


def of_user(user: Any) -> Subject:
    return Subject(Kind.USER, str(user.pk), gettext("the agents of %(user)s") % {"user": user.get_username()}, user)


def may_pause(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(PERMISSION))


def may_pause_users(request: HttpRequest) -> bool:
    """Whether the person may pause the agents of any user, whose names the pages then tell."""
    opts = get_user_model()._meta
    return may_pause(request) and bool(request.user.has_perm(f"{opts.app_label}.view_{opts.model_name}"))


def banner(admin_site: AdminSite, request: HttpRequest) -> dict[str, Any]:
    """What the banner of each page shows."""
    return {"pause": of_everybody(request), "url": url_of(admin_site) if may_pause(request) else ""}


def card(admin_site: AdminSite, request: HttpRequest) -> dict[str, Any]:
    """What the first page shows: the button for all agents, and the other pauses."""
    shown = banner(admin_site, request)
    return {**shown, "listed": listed(request, shown["url"]), "may_pause_users": may_pause_users(request)}


def url_of(admin_site: AdminSite) -> str:
    """The page on which agents are paused; empty where a ModelAdmin of the project has taken the place of ours."""
    try:
        return reverse("admin:mcp_django_restriction_pause", current_app=admin_site.name)
    except NoReverseMatch:
        return ""


# What the pages show.


@dataclass(frozen=True)
class Listed:
    """A pause, with whom it stops as far as the viewer may know that."""

    pause: Restriction
    label: Any
    #: Where the viewer lets them go on; empty where that is not the viewer's to do.
    url: str = ""


def _pauses(request: HttpRequest) -> list[Restriction]:
    """The pauses that hold, that of all agents first. Each page asks, and the first one twice."""
    known: list[Restriction] | None = request.__dict__.get("_mcp_pauses")
    if known is None:
        rows = Restriction.objects.pauses().order_by("kind", "-at", "-pk")
        # "all" comes before the other kinds.
        known = request.__dict__["_mcp_pauses"] = list(rows[:_READ])
    return known


def of_everybody(request: HttpRequest) -> Restriction | None:
    """The pause of all agents, where there is one."""
    return next((one for one in _pauses(request) if one.kind == Kind.ALL), None)


def listed(request: HttpRequest, url: str) -> list[Listed]:
    """The other pauses. Users are named to people who may view users, and tokens and apps on their own pages alone."""
    found = [one for one in _pauses(request) if one.kind != Kind.ALL][:_LISTED]
    keys = [one.name for one in found if one.kind == Kind.USER]
    names = _names_of(keys) if keys and may_pause_users(request) else {}
    return [
        Listed(one, of_user(user).label, f"{url}?{urlencode({'user': user.get_username()})}")
        if one.kind == Kind.USER and (user := names.get(one.name)) is not None
        else Listed(one, _UNNAMED[Kind(one.kind)])
        for one in found
    ]


_UNNAMED = {Kind.USER: _("the agents of a user"), Kind.TOKEN: _("a token"), Kind.APP: _("an app")}


def _names_of(keys: Iterable[str]) -> dict[str, Any]:
    users, wanted = get_user_model(), []
    for key in keys:
        try:
            wanted.append(users._meta.pk.to_python(key))
        except (ValidationError, TypeError, ValueError):
            continue  # The project has had another user model.
    return {str(user.pk): user for user in users._default_manager.filter(pk__in=wanted)}


# The page, and the click.


def page(shown_by: PagesAdmin, request: HttpRequest, subject: Subject, back: str) -> HttpResponse:
    """Ask for a reason and pause, or say why somebody is paused and let them go on."""
    pause = subject.pause
    if request.method != "POST":
        title = _("Let agents go on") if pause is not None else _("Pause agents")
        about = {"object": subject.about} if isinstance(subject.about, shown_by.model) else {}
        return shown_by.page(request, "pause", title=title, subject=subject, pause=pause, back=back, **about)
    if "_resume" in request.POST:
        said = _resume(shown_by, request, subject, pause)
    else:
        said = _pause(shown_by, request, subject, request.POST.get("reason", ""))
    messages.success(request, said)
    return HttpResponseRedirect(back)


def _pause(shown_by: PagesAdmin, request: HttpRequest, subject: Subject, reason: str) -> str:
    values = {"reason": reason.strip()[:500], "by": request.user.get_username()[:150]}
    with acting(request):
        pause, is_new = Restriction.objects.get_or_create(values, site="", kind=subject.kind, name=subject.name)
    if not is_new:
        return gettext("Paused already: %(whom)s.") % {"whom": subject.label}
    said = gettext("Agents paused: %(reason)s") % {"reason": reason} if reason else gettext("Agents paused.")
    shown_by.log_change(request, subject.about or pause, said)
    return gettext("Paused: %(whom)s.") % {"whom": subject.label}


def _resume(shown_by: PagesAdmin, request: HttpRequest, subject: Subject, pause: Restriction | None) -> str:
    if pause is not None:
        shown_by.log_change(request, subject.about or pause, gettext("Agents let go on."))
        with acting(request):
            pause.delete()
    return gettext("May go on: %(whom)s.") % {"whom": subject.label}


def pause_view(shown_by: PagesAdmin, request: HttpRequest) -> HttpResponse:
    """The page for all agents, or for those of the user who is named in the URL."""
    if not may_pause(request):
        raise PermissionDenied
    back = reverse("admin:app_list", args=["mcp_django"], current_app=shown_by.admin_site.name)
    name = request.GET.get("user")
    if name is None:
        return page(shown_by, request, everybody(), back)
    is_own = name == request.user.get_username()
    if not (is_own or may_pause_users(request)):
        raise PermissionDenied
    users = get_user_model()
    named = users._default_manager.filter(**{users.USERNAME_FIELD: name.strip()})
    user: Any = request.user if is_own else named.first()
    if user is None:
        messages.error(request, gettext("There is no user %(name)s.") % {"name": name})
        return HttpResponseRedirect(back)
    return page(shown_by, request, of_user(user), back)


class PausableAdmin(ButtonsAdmin):
    """Each of its rows can be paused, on a page of its own."""

    def subject_of(self, obj: Any) -> Subject:
        """Whom a pause of the row stops."""
        raise NotImplementedError

    def may_pause(self, request: HttpRequest, obj: Any) -> bool:
        return may_pause(request)

    def is_paused(self, obj: Any) -> bool:
        known: bool | None = getattr(obj, "is_paused", None)
        return self.subject_of(obj).pause is not None if known is None else known

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list, whose rows know whether they are paused: one statement for all."""
        changes = super().get_changelist_instance(request)
        shown: list[Any] = list(changes.result_list)
        paused = set(Restriction.objects.filter(site="").values_list("kind", "name"))
        for obj in shown:
            subject = self.subject_of(obj)
            obj.is_paused = (subject.kind, subject.name) in paused
        changes.result_list = shown
        return changes

    def get_urls(self) -> list[Any]:
        return [self.page_path("<path:object_id>/pause/", self.pause_view, "pause"), *super().get_urls()]

    def pause_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Pause the agents of a row, or let them go on."""
        obj = self.get_object(request, key_in_url(object_id))
        if obj is None:
            raise Http404
        if not self.may_pause(request, obj):
            raise PermissionDenied
        return page(self, request, self.subject_of(obj), self.page_url("change", obj.pk))

    def buttons(self, request: HttpRequest, row: Any) -> Iterator[tuple[str, Any]]:
        yield from super().buttons(request, row)
        if self.may_pause(request, row):
            yield "pause", _("Let its agents go on") if self.is_paused(row) else _("Pause")

    def links(self, request: HttpRequest, row: Any) -> Iterator[tuple[str, Any]]:
        yield from super().links(request, row)
        user, url = getattr(row, "user", None), url_of(self.admin_site)
        if user is not None and url and may_pause_users(request):
            subject = of_user(user)
            text = _("Let %(whom)s go on") if subject.pause is not None else _("Pause %(whom)s")
            yield f"{url}?{urlencode({'user': user.get_username()})}", text % {"whom": subject.label}


def of_token(token: AccessToken) -> Subject:
    return Subject(Kind.TOKEN, str(token.line), gettext("the token %(token)s") % {"token": token}, token)
