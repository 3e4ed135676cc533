"""What keeps clients and users from what is declared: permissions that nobody has, and URLs that lead elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.core.checks import Warning
from django.http import HttpResponse
from django.test import override_settings
from django.urls import include, path, re_path
from django.views.generic import View

from mcp_django.bridge.sites import all_sites
from tests.checks.conftest import messages, of
from tests.support.declared import Declared

DJANGO, OTHER = "django.contrib.auth.backends.ModelBackend", "tests.checks.test_reach.OwnBackend"


class OwnBackend:
    """Knows permissions that no model declares."""

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None

    def get_user(self, pk: Any) -> None:
        return None


def act(request: Any) -> None:
    """Act."""


def say(request: Any) -> str:
    """Say."""
    return ""


def declare(declared: Declared, permission: str) -> None:
    declared.tool(act, permission=permission)
    declared.prompt(say, permission=permission)
    declared.resource("shop://one", say, permission=permission)
    declared.resource("shop://{number}", lambda request, number: "", name="many", permission=permission)


def test_w032_a_permission_that_no_model_declares(declared: Declared) -> None:
    declare(declared, "flights.chnge_flight")

    with override_settings(MCP={"OAUTH_USERS": "flights.fly"}):
        found = of("W032")

    assert found[0] == Warning(
        "The tool act needs the permission 'flights.chnge_flight', and no model declares it: superusers alone have it.",
        hint="Correct its name, or declare it in Meta.permissions. Did you mean flights.change_flight? If it is made "
        "elsewhere, add 'mcp_django.W032' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W032",
    )
    assert [message.msg.partition(" needs ")[0] for message in found] == [
        "The tool act", "The prompt say", "The resource shop://one", "The resource shop://{number}",
        "Whoever connects a client, by MCP['OAUTH_USERS'],",
    ]  # fmt: skip


def test_w032_is_silent_for_permissions_that_exist(declared: Declared) -> None:
    for permission in ("", "flights.change_flight", "mcp_django.approve_change", "auth.view_user"):
        declare(declared, permission)
        assert messages() == [], permission
        declared.close()


def test_w032_is_silent_where_another_backend_may_know_the_permission(declared: Declared) -> None:
    declare(declared, "store.sell_product")

    with override_settings(AUTHENTICATION_BACKENDS=[DJANGO, OTHER]):
        assert of("W032") == []
    with override_settings(AUTHENTICATION_BACKENDS=[DJANGO]):
        assert len(of("W032")) == 4


OURS = path("", include("mcp_django.urls"))
PAGES = re_path(r"^.*$", View.as_view(), name="pages")


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Serves these patterns in the place of the project's."""
    urls: Any = ModuleType("tests.checks.some_urls")
    monkeypatch.setitem(sys.modules, urls.__name__, urls)

    def serve(*patterns: Any) -> Any:
        urls.urlpatterns = patterns
        return override_settings(ROOT_URLCONF=urls.__name__)

    return serve


def test_w034_a_pattern_before_the_endpoint_that_takes_its_path(serving: Callable[..., Any]) -> None:
    def page(request: Any, name: str) -> HttpResponse:
        return HttpResponse()

    swallowed = {
        "a catch-all": [PAGES, OURS],
        "pages by their names": [path("<slug:name>", page), OURS],
        "below a prefix": [path("api/", include([PAGES])), path("api/", include([OURS]))],
    }
    fine = {
        "behind it": [OURS, PAGES],
        "pages with a slash": [path("<slug:name>/", page), OURS],
        "elsewhere": [path("pages/", include([PAGES])), OURS],
    }
    found = {}
    for name, patterns in (swallowed | fine).items():
        with serving(*patterns):
            found[name] = of("W034")

    assert {name for name, told in found.items() if told} == set(swallowed)
    assert found["a catch-all"] == [
        Warning(
            "Requests to the endpoint /mcp come to the view pages: its pattern '^.*$' stands before the endpoint and "
            "takes its path too.",
            hint='Move path("", include("mcp_django.urls")) before that pattern.',
            id="mcp_django.W034",
        )
    ]
    assert "the endpoint /api/mcp come to the view pages" in found["below a prefix"][0].msg


def test_w033_no_endpoint(serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert of("W033") == []
    # Sites of other tests may have been served.
    for site in all_sites():
        monkeypatch.setattr(site, "_has_urls", False)

    with serving(PAGES):
        [message] = of("W033")

        assert message.msg == "The URLconf has no endpoint, so no client gets an answer over HTTP or WebSocket."
        assert of("W034") == []
