"""What is left to do before the first agent of a project works, and who may do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.sites import all_sites
from mcp_django.conf import OAUTH_APP, URL_LINE
from mcp_django.console.admin import examples
from mcp_django.console.admin.overrides import tool_of
from mcp_django.models import AccessToken, Call, Tool
from mcp_django.protocol.names import CONSOLE

#: So long after the first call of an agent, nobody is getting started any more.
_STARTING = timedelta(days=14)
#: What the client of a call is named on our own pages.
_BY_PEOPLE = f"{CONSOLE} "


@dataclass(frozen=True)
class Step:
    title: Any
    text: Any
    #: Where it is done; empty for a viewer who may not do it.
    url: str = ""
    #: None where the viewer may not know.
    is_done: bool | None = None
    #: What is shown as code behind the text.
    code: str = ""
    #: The permission of whoever may do it, where the viewer may not.
    asks: str = ""


class GettingStarted:
    """The card, for one viewer of an AdminSite."""

    def __init__(self, admin_site: AdminSite, request: HttpRequest) -> None:
        self._site, self._request = admin_site, request

    @property
    def is_fresh(self) -> bool:
        """Whether no agent has called yet, so that there is nothing to count."""
        return self._first_call is None

    @cached_property
    def is_shown(self) -> bool:
        """Whether something is left to do that this viewer may do, and agents have not called for long."""
        first = self._first_call
        is_started = first is not None and first < timezone.now() - _STARTING
        return not is_started and any(step.is_done is False for step in self.steps)

    @cached_property
    def _first_call(self) -> datetime | None:
        found: datetime | None = _calls().order_by("at").values_list("at", flat=True).first()
        return found

    @cached_property
    def steps(self) -> Sequence[Step]:
        return [self._endpoint(), self._token(), self._connect(), self._switch_on(), self._try()]

    def _endpoint(self) -> Step:
        url = self._endpoint_url
        text = _("Clients connect to this URL:") if url else _("Add this line to the URLs of the project:")
        return Step(_("Serve the endpoint"), text, url, bool(url), url or URL_LINE)

    def _token(self) -> Step:
        text = (
            _("With most clients you log in. For the others, make an access token, which is shown once.")
            if apps.is_installed(OAUTH_APP)
            else _("An agent acts as the user of its access token, which is shown once.")
        )
        return self._step(_("Make a token"), text, AccessToken, "add", AccessToken.objects.exists)

    def _connect(self) -> Step:
        """A token that was used, or a call that was made elsewhere than on our pages."""
        used = AccessToken.objects.filter(last_used_at__isnull=False)
        elsewhere = _calls().exclude(client_name__startswith=_BY_PEOPLE)
        may_know = self._may(AccessToken, "view") or self._may(Call, "view")
        is_done = used.exists() or elsewhere.exists() if may_know else None
        text = _("The page of the endpoint says how each client is connected.")
        return Step(_("Connect a client"), text, self._endpoint_url, is_done)

    def _switch_on(self) -> Step:
        text = _("Queries and functions start switched on. Actions, and what writes, start switched off.")
        return self._step(_("Switch on a tool"), text, Tool, "change", _is_switched_on)

    def _try(self) -> Step:
        mine = _calls().filter(user_id=str(self._request.user.pk), client_name__startswith=_BY_PEOPLE)
        text = _("Try it, on the page of a tool, shows what an agent of yours is answered.")
        return self._step(
            _("Try a tool"), text, Tool, "view", lambda: examples.has_tried(self._request) or mine.exists()
        )  # fmt: skip

    def _step(self, title: Any, text: Any, model: type[Model], need: str, ask: Callable[[], bool]) -> Step:
        """A step on the pages of a model, for viewers with one permission. Others are not told whether it is done."""
        if not self._may(model, need):
            return Step(title, text, asks=f"{model._meta.app_label}.{need}_{model._meta.model_name}")
        page = "add" if need == "add" else "changelist"
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        return Step(title, text, reverse(name, current_app=self._site.name), ask())

    def _may(self, model: type[Model], need: str) -> bool:
        if not self._site.is_registered(model):
            return False
        may: bool = getattr(self._site.get_model_admin(model), f"has_{need}_permission")(self._request)
        return may

    @cached_property
    def _endpoint_url(self) -> str:
        """Where MCP is served; empty where the URLs of the project lack it."""
        served = next((site for site in all_sites() if site.is_served), None)
        try:
            path = reverse("mcp_django:endpoint", current_app=None if served is None else served.name)
        except NoReverseMatch:
            return ""
        return self._request.build_absolute_uri(path)


def _calls() -> Any:
    """What agents asked. Whoever was not let in is none: clients try without a token first, and so do strangers."""
    return Call.objects.order_by().filter(kind__in=Call.BY_AGENTS).exclude(user_id="", outcome=Call.Outcome.REFUSED)


def _is_switched_on() -> bool:
    """Whether a tool is on that starts switched off."""
    on = (tool_of(row) for row in Tool.objects.filter(enabled=True))
    return any(tool is not None and not tool.enabled_by_default for tool in on)
