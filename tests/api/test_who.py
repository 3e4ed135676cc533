"""Who calls an operation, and which operations there are for whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.urls import path
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_django.access.authentication import principals
from mcp_django.bridge.api import answers, calling, identity
from mcp_django.bridge.api.identity import Identity
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import ProtocolError
from mcp_django.transports.in_process import Ended
from tests.api.agents import Agent, exposed
from tests.api.project import middleware
from tests.api.project.authentication import BearerAuthentication, ServiceAuth
from tests.api.project.urls import urlpatterns as urls_of_shop
from tests.support.data import token_of
from tests.support.peers import Peers


class CodeView(APIView):
    """A machine reads the code of the shop, and nobody else may."""

    permission_classes = [IsAuthenticated]

    def get(self, request: Any) -> Response:
        return Response({"user": str(request.user), "code": "1234"})

    def post(self, request: Any) -> Response:
        return Response({"user": str(request.user)})


class MachineReadsView(CodeView):
    """Its authentication depends on the request, if there is one."""

    def get_authenticators(self) -> list[Any]:
        request = getattr(self, "request", None)
        return [ServiceAuth()] if request is not None and request.method == "GET" else [SessionAuthentication()]


class UsersReadView(CodeView):
    """It takes for granted that there is a request."""

    def get_authenticators(self) -> list[Any]:
        return [SessionAuthentication()] if self.request.method == "GET" else [ServiceAuth()]


class TenantOfTokensView(APIView):
    """The tenant that middleware has chosen, by the user whom it saw."""

    authentication_classes = [BearerAuthentication]
    permission_classes = [IsAuthenticated]

    def get(self, request: Any) -> Response:
        return Response({"user": str(request.user), "tenant": middleware.tenant.get()})


urlpatterns = [
    path("api/tenant-of-tokens/", TenantOfTokensView.as_view()),
    path("api/machine-reads/", MachineReadsView.as_view()),
    path("api/users-read/", UsersReadView.as_view()),
    *urls_of_shop,
]


# Authentication.


def test_a_forced_user_does_not_come_to_a_view_for_machines(api: MCPSite, shop: SimpleNamespace) -> None:
    told = [Agent(site, shop.anna).told("machine.get") for site in (api, exposed(include=["*", "machine.get"]))]

    assert all(said.startswith("No such operation.") for said in told), told

    # Control.
    assert Agent(exposed(authentication="replace"), shop.anna).get("machine.get")["result"] == {"user": "anna"}


def test_a_forced_user_does_not_come_to_a_view_that_takes_machines_for_this_method(
    shop: SimpleNamespace, settings: Any
) -> None:
    settings.ROOT_URLCONF = __name__
    agent = Agent(exposed(), shop.anna)

    assert "1234" not in agent.told("machine-reads.get")


def test_a_user_comes_to_a_view_that_takes_users_for_this_method(shop: SimpleNamespace, settings: Any) -> None:
    settings.ROOT_URLCONF = __name__

    assert Agent(exposed(), shop.anna).get("users-read.get")["result"] == {"user": "anna", "code": "1234"}


def test_a_view_without_authentication_sees_nobody(
    api: MCPSite, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Agent(api, shop.anna).get("nobody.get")["result"] == {"user": "AnonymousUser"}

    # Control.
    monkeypatch.setattr(identity, "identity_of", lambda operation, request=None: Identity.LOGIN)
    assert Agent(api, shop.anna).get("nobody.get")["result"] == {"user": "anna"}


def test_middleware_sees_nobody_where_a_view_takes_tokens_alone(shop: SimpleNamespace, settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    names = ["*", "tenant-of-tokens.get", "scoped.get"]
    agent = Agent(exposed(include=names, authentication="replace"), shop.anna)

    found = agent.get("tenant-of-tokens.get")["result"]

    assert Agent(exposed(include=names), shop.anna).told("tenant-of-tokens.get").startswith("No such operation.")
    assert found == {"user": "anna", "tenant": "public@localhost"}
    # It has no token of the project's, and so no scope of one.
    assert "You may not make this call of scoped.get" in agent.told("scoped.get")

    # Control: a login is seen.
    assert agent.get("tenant.get")["result"]["context"] == "anna@localhost"


def test_the_credentials_of_the_project_are_checked_by_the_project(shop: SimpleNamespace) -> None:
    def of(request: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer token-of-{request.user.username}"}

    site = exposed(include=["*", "token-only.get", "scoped.get"], credentials=of)

    assert Agent(site, shop.stella).get("scoped.get")["result"] == {"scopes": ["orders", "reports"]}
    assert "You may not make this call" in Agent(site, shop.anna).told("scoped.get")

    # Control: who has no token does not come in, whoever it is.
    site = exposed(include=["*", "token-only.get"], credentials=lambda request: {"Authorization": "Bearer forged"})
    assert "needs a login" in Agent(site, shop.stella).told("token-only.get")


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_an_inactive_user_gets_no_answer(declared_api: None, shop: SimpleNamespace, peers: Peers) -> None:
    peer = peers(token_of(shop.anna, "read"))
    peer.call("call_api", operation="nobody.get")
    User.objects.filter(pk=shop.anna.pk).update(is_active=False)
    principals.clear()

    with pytest.raises(AssertionError, match="UNAUTHENTICATED"):
        peer.call("call_api", operation="nobody.get")


# Scopes.


def test_without_scopes_nobody_finds_the_tools(api: MCPSite, shop: SimpleNamespace, settings: Any) -> None:
    found = {}
    for scopes in ([], ["read"], ["read", "write"]):
        settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": scopes}
        agent = Agent(api, None)
        try:
            found[len(scopes)] = [one["name"] for one in agent.client.list_tools()]
        except Ended:
            found[0] = None

    assert found == {0: None, 1: ["call_api", "describe_api"], 2: ["call_api", "change_api", "describe_api"]}


def test_a_scope_of_one_resource_shows_no_other(api: MCPSite, shop: SimpleNamespace) -> None:
    reader, writer = Agent(api, shop.anna, "api:order:read"), Agent(api, shop.anna, "api:order:write")
    key = {"pk": shop.anna_order.pk}

    described = str(reader.client.call("describe_api").structured)
    told = [reader.told("customer.list"), reader.told("order.cancel", params=key), reader.told("order-line.list")]

    assert [one["name"] for one in reader.client.list_tools()] == ["call_api", "describe_api"]
    assert ("order" in described, "customer" in described, "cancel" in described) == (True, False, False)
    assert [one.startswith("No such operation.") for one in told] == [True] * 3
    assert not any("customer.list" in one.partition("operation: ")[2].partition("Allowed")[2] for one in told)
    assert reader.get("order.retrieve", params=key)["result"]["number"] == "A-001"

    # Who may write alone is not shown what is there.
    plan = writer.plan("order.partial_update", params=key, body={"note": "call first"})
    assert plan["diff"] == [{"field": "note", "after": "call first"}]
    assert "call_api" not in [one["name"] for one in writer.client.list_tools()]

    # Control.
    assert "customer" in str(Agent(api, shop.anna, "read").client.call("describe_api").structured)


def test_scopes_of_models_reach_no_operation(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.stella, "model:api_project.order:read", "model:api_project.order:write", "actions")

    assert agent.client.list_tools() == []
    with pytest.raises(ProtocolError):
        agent.get("order.list")


# Budgets of the project.


def test_throttles_of_the_project_count_calls_and_no_descriptions(api: MCPSite, shop: SimpleNamespace) -> None:
    anna, browser = Agent(api, shop.anna), Client(SERVER_NAME="localhost")
    browser.force_login(shop.anna)
    for _ in range(2):
        calling.descriptions.clear()
        anna.client.call("describe_api", operation="throttled.get")

    passed = [anna.get("throttled.get")["result"]["user"] for _ in range(3)]
    told = anna.told("throttled.get")

    assert passed == ["anna"] * 3
    assert told.startswith("throttled.get was called too often. Call it again in ")
    assert browser.get("/api/throttled/").status_code == 429

    # Control: another user's calls are counted by themselves, and so are those of another time.
    assert Agent(api, shop.otto).get("throttled.get")["result"] == {"user": "otto"}
    cache.clear()
    assert browser.get("/api/throttled/").status_code == 200


# Secrets.


def test_what_is_named_like_a_secret_is_not_shown(shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"pk": shop.anna_order.pk}
    shown = exposed(show_secrets=["api_key"])

    found = [Agent(site, shop.anna).get("credentials.retrieve", params=key)["result"] for site in (exposed(), shown)]

    assert [sorted(one) for one in found] == [["number", "status"], ["api_key", "number", "status"]]

    # Control.
    monkeypatch.setattr(answers, "without_secrets", lambda value, shown: value)
    assert "api_key" in Agent(exposed(), shop.anna).get("credentials.retrieve", params=key)["result"]


def test_the_rows_of_another_user_are_not_found(api: MCPSite, shop: SimpleNamespace) -> None:
    anna, key = Agent(api, shop.anna), {"pk": shop.otto_order.pk}

    told = {
        anna.told("order.retrieve", params=key),
        anna.told("order.partial_update", tool="change_api", params=key, body={"note": "mine"}),
        anna.told("order.cancel", tool="change_api", params=key),
        anna.told("order.destroy", tool="change_api", params=key),
        anna.told("customer.partial_update", tool="change_api", params={"pk": shop.otto_customer.pk}, body={}),
    }

    nothing = "finds nothing there, or nothing that you may see."
    assert told == {f"order.{name} {nothing}" for name in ("retrieve", "partial_update", "cancel", "destroy")} | {
        "You may not make this call of customer.partial_update. It says: This belongs to somebody else."
    }

    # Control.
    assert Agent(api, shop.otto).get("order.retrieve", params=key)["result"]["number"] == "O-001"
