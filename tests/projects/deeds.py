"""What an agent may do beside reading, held against the admin: delete, run actions, hear of a row that is saved."""

from __future__ import annotations

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
from mcp_django.test import MCPClient
from tests.projects.measure import NOT_MEASURED
from tests.projects.rendered import Browser
from tests.projects.rows import Factory, key_of

#: A notification comes within this time, or it does not.
_SECONDS = 5
#: The tool that deletes, and the action of which it takes the place.
_DELETE, _DELETES = "delete_record", "delete_selected"


@dataclass
class Deed:
    """One kind of deed: how often it was tried, and where the agent's outcome was another one."""

    name: str
    tried: int = 0
    otherwise: list[str] = field(default_factory=list)

    def count(self, where: str, *, is_alike: bool) -> None:
        self.tried += 1
        self.otherwise += [] if is_alike else [where]

    def lines(self) -> Iterator[str]:
        yield f"    {self.name}: {self.tried - len(self.otherwise)} of {self.tried}"
        yield from (f"        {where}" for where in self.otherwise)


def deeds(site: MCPSite, user: Any, factory: Factory) -> Iterator[str]:
    """A line for each kind of deed, with those whose outcome is another one."""
    [admin_site] = site.admin_sites
    browser, agent = Browser(admin_site, user), MCPClient(user, ["read", "write"], site=site, timeout=_SECONDS)
    Tool.objects.update_or_create(site=site.name, name=_DELETE, defaults={"enabled": True})
    deleted, acted, told = Deed("rows that can be deleted or not, as in the admin"), Deed("actions"), Deed("saves told")
    for model, admin in site.model_admins.items():
        rows = factory.rows_of(model)
        if model._meta.app_label in NOT_MEASURED or model._meta.label_lower not in site.models or not rows:
            continue
        label, key = model._meta.label_lower, key_of(rows[0])
        may_delete, refusal = _may_delete(browser, model, key), _refusal(agent, label, key)
        deleted.count(f"{label}: {refusal or 'deleted'}", is_alike=may_delete is not bool(refusal))
        offered = {tool.action_name for tool in site.tools.values()
                   if isinstance(tool, AdminActionTool) and tool.model_mcp.model is model}  # fmt: skip
        for action in _actions(browser, admin):
            acted.count(f"{label}: {action}", is_alike=action in offered)
        if agent.subscribe(uri := f"db://{label.replace('.', '/')}/{quote(key)}") and _saves(rows[0]):
            told.count(label, is_alike=_hears(agent, uri))
    for deed in (deleted, acted, told):
        yield from deed.lines()


def _may_delete(browser: Browser, model: Any, key: str) -> bool:
    try:
        response: Any = browser.client.get(browser.url(model, "delete", key))
    except NoReverseMatch:
        return False
    asked = getattr(response, "context_data", None) or {}
    return response.status_code == HTTPStatus.OK and not (asked.get("protected") or asked.get("perms_lacking"))


def _refusal(agent: MCPClient, label: str, key: str) -> str:
    """Why the agent may not delete a row, which is only previewed; empty where it may."""
    shown = agent.call(_DELETE, raise_on_error=False, model=label, ids=[key])
    why = [shown.text, *(error["message"] for error in shown.errors)] if shown.is_error else []
    return " ".join(why)[:200]


def _actions(browser: Browser, admin: ModelAdmin[Any]) -> list[str]:
    """The actions that the list offers, but for that which deletes."""
    try:
        response: Any = browser.client.get(browser.url(admin.model, "changelist"))
    except NoReverseMatch:
        return []
    form = (getattr(response, "context_data", None) or {}).get("action_form")
    return [] if form is None else [name for name, _ in form.fields["action"].choices if name not in ("", _DELETES)]


def _saves(row: Any) -> bool:
    try:
        with transaction.atomic():
            row.save()
    except Exception:  # noqa: BLE001 - the model asks for more
        return False
    return True


def _hears(agent: MCPClient, uri: str) -> bool:
    try:
        while agent.wait_for_update() != uri:
            pass
    except TimeoutError:
        return False
    finally:
        agent.unsubscribe(uri)
    return True
