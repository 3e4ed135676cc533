"""The API by each transport below middleware of which it is not known what it does: the API alone, and all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from tests.api.agents import Agent, exposed
from tests.support.data import switch_on, token_of
from tests.support.peers import MODERN, Peers

OF_API = ["call_api", "change_api", "describe_api"]


class PaidMiddleware:
    """Lets nobody but anna in."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/") and request.user.get_username() != "anna":
            return HttpResponse("Pay first.", status=402, content_type="text/plain")
        response: HttpResponse = self.get_response(request)
        return response


@pytest.mark.every_case
@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi", "websocket", "stdio", "grpc"])
def test_each_transport_gives_what_the_middleware_lets_through(
    shop: SimpleNamespace, transactional_db: None, declared_api: None, peers: Peers, transport: str, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.PaidMiddleware"]
    switch_on("change_api")
    is_below = transport.startswith("http")
    anna, stella = (peers(token_of(user, "read", "write")) for user in (shop.anna, shop.stella))

    tools = stella.tools()
    order = {"operation": "order.retrieve", "params": {"pk": shop.anna_order.pk}}
    told = [one.call("call_api", **order) for one in (anna, stella)]

    assert set(OF_API) <= set(tools) and ("find_records" in tools) is is_below
    assert told[0]["structuredContent"]["result"]["number"] == "A-001"
    assert told[1]["isError"] and "status 402" in told[1]["content"][0]["text"]
    if not is_below:
        # What is no operation of the API is not there.
        call = {"name": "find_records", "arguments": {"model": "flights.flight"}}
        assert "find_records" in stella.error(MODERN, "tools/call", call)["message"]


@pytest.mark.parametrize("own", [
    {"ALLOWED_HOSTS": ["shop.example.com"]}, {"ALLOWED_HOSTS": [".example.com", "shop.example.org"]},
    {"ALLOWED_HOSTS": ["testserver"]}, {"ALLOWED_HOSTS": ["*"]}, {"ALLOWED_HOSTS": ["[::1]"]},
    {"SECURE_SSL_REDIRECT": True}, {"ALLOWED_HOSTS": [], "DEBUG": True},
])  # fmt: skip
def test_in_process_a_client_comes_from_a_host_and_by_a_scheme_that_the_site_lets_in(
    own: dict[str, Any], shop: SimpleNamespace, settings: Any
) -> None:
    for name, value in own.items():
        setattr(settings, name, value)
    settings.MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", *settings.MIDDLEWARE]

    assert Agent(exposed(), shop.anna).get("order.list")["total"] == 7


def test_a_base_url_that_the_site_does_not_let_in_stays_refused(shop: SimpleNamespace, settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.MCP = ["shop.example.com"], {**settings.MCP, "BASE_URL": "http://localhost"}

    assert "status 400" in Agent(exposed(), shop.anna).told("order.list")


def test_in_process_a_client_passes_the_middleware_too(shop: SimpleNamespace, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.PaidMiddleware"]

    assert Agent(exposed(), shop.anna).get("order.list")["total"] == 7
    assert "status 402" in Agent(exposed(), shop.otto).told("order.list")
