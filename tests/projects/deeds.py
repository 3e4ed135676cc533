"""What an agent may do beside reading, held against the admin: delete, run actions, hear of a row that is saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import quote
from django.db import transaction
from django.urls import NoReverseMatch

from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools.actions import AdminActionTool
from mcp_django.models import Tool
from mcp_django.test import MCPClient, ProtocolError
from tests.projects.measure import NOT_MEASURED
from tests.projects.rendered import Browser
from tests.projects.rows import Factory, key_of

#: A notification comes within this time, or it does not.
_SECONDS = 5
#: The tool that deletes, and the action of which it takes the place.
_DELETE, _DELETES = "delete_record", "delete_selected"
_UNCHANGED = ". Nothing was changed."


@dataclass
class Deeds:
    """What one user, and an agent of theirs, may do on a site."""

    site: MCPSite
    user: Any
    factory: Factory
    #: How often each kind of deed was tried.
    tried: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """Where the outcome is another one than in the admin."""
        [admin_site] = self.site.admin_sites
        browser = Browser(admin_site, self.user)
        agent = MCPClient(self.user, ["read", "write"], site=self.site, timeout=_SECONDS, raise_exceptions=False)
        Tool.objects.update_or_create(site=self.site.name, name=_DELETE, defaults={"enabled": True})
        for model, admin in self.site.model_admins.items():
            rows = self.factory.rows_of(model)
            if model._meta.app_label in NOT_MEASURED or model._meta.label_lower not in self.site.models or not rows:
                continue
            where = f"{self.site.name} {model._meta.label_lower}"
            yield from (f"{where}: {what}" for what in self._of_model(admin, rows[0], browser, agent))

    def _of_model(self, admin: ModelAdmin[Any], row: Any, browser: Browser, agent: MCPClient) -> Iterator[str]:
        model, label, key = admin.model, admin.opts.label_lower, key_of(row)
        may_delete, refusal = _may_delete(browser, model, key), _refusal(agent, label, key)
        self.tried["delete"] += 1
        if may_delete is bool(refusal):
            yield f"delete: {refusal or 'made'}, in a browser {'made' if may_delete else 'refused'}"
        tools = (tool for tool in self.site.tools.values() if isinstance(tool, AdminActionTool))
        offered = {tool.action_name for tool in tools if tool.model_mcp.model is model}
        actions = _actions(browser, admin)
        self.tried["action"] += len(actions)
        yield from (f"action: {name} is not offered" for name in actions if name not in offered)
        if agent.subscribe(uri := f"db://{label.replace('.', '/')}/{quote(key)}"):
            self.tried["saved"] += 1
            if why := _saved(row):
                yield f"saved: its own save fails with {why}"
            elif not _hears(agent, uri):
                yield "saved: nobody is told"


def _may_delete(browser: Browser, model: Any, key: str) -> bool:
    try:
        response: Any = browser.client.get(browser.url(model, "delete", key))
    except NoReverseMatch:
        return False
    asked = getattr(response, "context_data", None) or {}
    return response.status_code == HTTPStatus.OK and not (asked.get("protected") or asked.get("perms_lacking"))


def _refusal(agent: MCPClient, label: str, key: str) -> str:
    """Why the agent may not delete a row, which is only previewed; empty where it may."""
    try:
        shown = agent.call(_DELETE, raise_on_error=False, model=label, ids=[key])
    except ProtocolError as error:  # There is no such tool where nothing can be deleted.
        return error.message.partition(".")[0]
    return shown.text.removesuffix(_UNCHANGED) if shown.is_error else ""


def _actions(browser: Browser, admin: ModelAdmin[Any]) -> list[str]:
    """The actions that the list offers, but for that which deletes."""
    try:
        response: Any = browser.client.get(browser.url(admin.model, "changelist"))
    except NoReverseMatch:
        return []
    form = (getattr(response, "context_data", None) or {}).get("action_form")
    return [] if form is None else [name for name, _ in form.fields["action"].choices if name not in ("", _DELETES)]


def _saved(row: Any) -> str:
    """Save the row. Returns why that fails, which is reported."""
    try:
        with transaction.atomic():
            row.save()
    except Exception as error:  # noqa: BLE001 - it is reported
        return type(error).__name__
    return ""


def _hears(agent: MCPClient, uri: str) -> bool:
    try:
        while agent.wait_for_update() != uri:
            pass
    except TimeoutError:
        return False
    finally:
        agent.unsubscribe(uri)
    return True
