"""A record of the API is watched: its changes are told to whoever the API shows it to."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from django.urls import path
from rest_framework.generics import RetrieveAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.test import APIClient
from rest_framework.throttling import UserRateThrottle

from mcp_django import expose
from mcp_django.bridge.api.versions import asked_for
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import MCPClient, ProtocolError
from tests.api.agents import exposed
from tests.api.comparing import operation_of, over_http
from tests.api.project import requests as of_shop
from tests.api.project.models import Order
from tests.api.project.serializers import OrderSerializer


class RareThrottle(UserRateThrottle):
    rate = "2/min"


class RareView(RetrieveAPIView[Order]):
    serializer_class = OrderSerializer
    permission_classes = [IsAuthenticated]
    throttle_classes = [RareThrottle]

    def get_queryset(self) -> Any:
        return Order.objects.filter(owner=self.request.user)


urlpatterns = [path("api/rare/<int:pk>/", RareView.as_view(), name="rare")]


@pytest.fixture
def watched(shop: SimpleNamespace, transactional_db: None) -> Iterator[MCPSite]:
    yield exposed()


def client_of(site: MCPSite, user: Any, *scopes: str) -> MCPClient:
    return MCPClient(user, scopes or ["read"], site=site)


@pytest.mark.parametrize(
    ("uri", "row"),
    [
        ("api://order/{anna_order.pk}", "anna_order"),
        ("api://product/{product.slug}", "product"),
        ("api://order-by-number/{anna_order.number}", "anna_order"),
        ("api://ticket/{anna_ticket.pk}", "anna_ticket"),
    ],
)
def test_a_record_is_read_and_its_changes_are_told(uri: str, row: str, watched: MCPSite, shop: SimpleNamespace) -> None:
    uri = uri.format(**vars(shop))
    with client_of(watched, shop.anna) as client:
        assert client.read(uri).json()

        client.subscribe(uri)
        getattr(shop, row).save()

        assert client.wait_for_update() == uri


def test_nobody_watches_what_the_api_does_not_show(watched: MCPSite, shop: SimpleNamespace) -> None:
    with client_of(watched, shop.anna) as client:
        for uri in (
            f"api://order/{shop.otto_order.pk}", "api://order/999999", "api://order/3%2Fcancel", f"api://group/{shop.group.pk}",
            "api://nothing/1", "api://password/1",
        ):  # fmt: skip
            assert client.subscribe(uri) == []
            with pytest.raises(ProtocolError):
                client.read(uri)


def test_a_record_that_is_taken_away_is_told_once_and_then_no_more(watched: MCPSite, shop: SimpleNamespace) -> None:
    uri, order = f"api://order/{shop.anna_order.pk}", shop.anna_order
    with client_of(watched, shop.anna) as client, client_of(watched, shop.stella) as other:
        client.subscribe(uri)
        other.subscribe(uri)

        order.owner = shop.otto
        order.save()

        assert client.wait_for_update() == other.wait_for_update() == uri

        order.note = "of otto"
        order.save()

        assert other.wait_for_update() == uri
        assert client.updates() == []


def test_the_changes_of_other_rows_are_not_told(watched: MCPSite, shop: SimpleNamespace) -> None:
    first, second = Order.objects.filter(owner=shop.anna).order_by("pk")[:2]
    with client_of(watched, shop.anna) as client:
        client.subscribe(f"api://order/{first.pk}", f"api://order/{second.pk}")

        second.save()

        assert client.wait_for_update() == f"api://order/{second.pk}"
        assert client.updates() == []


def test_a_scope_for_another_resource_watches_nothing(watched: MCPSite, shop: SimpleNamespace) -> None:
    with client_of(watched, shop.anna, "api:ticket:read") as client:
        uris = f"api://ticket/{shop.anna_ticket.pk}", f"api://order/{shop.anna_order.pk}"

        assert client.subscribe(*uris) == [uris[0]]


@pytest.mark.parametrize("caller", ["anna", "otto", "stella"])
def test_a_record_may_be_watched_by_whom_http_shows_it_to(caller: str, watched: MCPSite, shop: SimpleNamespace) -> None:
    user, compared = getattr(shop, caller), 0
    with client_of(watched, user) as client:
        for case in of_shop.CASES:
            url = case.path(shop)
            target = operation_of(watched, url, "GET")
            if case.method != "GET" or target is None or target[0] not in watched.api.records.values():
                continue
            [key] = [target[1][name] for name in asked_for(target[0])]
            uri = f"api://{target[0].resource}/{quote(key, safe='')}"

            status, _ = over_http(user, lambda http, url=url: http.get(quote(url)))

            assert client.subscribe(uri) == ([uri] if status == 200 else []), (uri, status)
            client.unsubscribe(uri)
            compared += 1
    assert compared > 20


def test_what_is_asked_before_a_change_is_told_counts_for_no_throttle(
    shop: SimpleNamespace, transactional_db: None, settings: Any
) -> None:
    settings.ROOT_URLCONF = __name__
    uri, browser = f"api://rare/{shop.anna_order.pk}", APIClient(SERVER_NAME="localhost")
    browser.force_login(shop.anna)
    with client_of(exposed(), shop.anna) as client:
        client.subscribe(uri)
        for _ in range(5):
            shop.anna_order.save()
            assert client.wait_for_update() == uri

    # Control: over HTTP the third is refused.
    assert [browser.get(f"/api/rare/{shop.anna_order.pk}/").status_code for _ in range(3)] == [200, 200, 429]


def test_a_site_without_an_api_has_no_such_template(shop: SimpleNamespace) -> None:
    site = MCPSite("without")
    with client_of(site, shop.anna) as client:
        assert "api" not in [one["name"] for one in client.list_resource_templates()]

    expose("api/", site=site)
    with client_of(site, shop.anna) as client:
        assert "api" in [one["name"] for one in client.list_resource_templates()]
