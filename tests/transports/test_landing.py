"""A person who opens the endpoint gets a page; whatever a client sends is answered as ever."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import path, reverse, set_urlconf
from django.utils import translation

from mcp_django import site
from mcp_django.access import challenges
from mcp_django.core.web_pages import home_url
from tests.axes import HTTP
from tests.checks.conftest import of
from tests.support.data import Users
from tests.support.http import HTTPPeer
from tests.support.peers import Answered, Peers

#: What browsers send when a person opens a URL.
CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

pytestmark = pytest.mark.django_db


@pytest.fixture
def stranger(peers: Peers) -> HTTPPeer:
    made = peers(None)
    assert isinstance(made, HTTPPeer)
    return made


def visit(peer: HTTPPeer, method: str = "GET", **headers: Any) -> Answered:
    return peer.http(method, headers={"Content-Type": None, "Accept": CHROMIUM, **headers})  # type: ignore[dict-item]


@pytest.mark.parametrize("transport", HTTP)
def test_a_person_gets_a_page_that_says_how_to_connect_and_nothing_of_what_there_is(
    stranger: HTTPPeer, users: Users, flights: Any
) -> None:
    answer, head = visit(stranger), visit(stranger, "HEAD")

    page = answer.body.decode()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (head.status, head.body) == (200, b"")
    assert "http://localhost/mcp" in page and "claude mcp add --transport http" in page
    assert {name.strip() for name in answer.headers["vary"].split(",")} >= {"Accept", "Cookie"}
    assert answer.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    names = ["find_records", "flights_flight", "flights.flight", "admin", "ops", "viewer", "mcp_secret"]
    assert [name for name in names if name in page.replace("An administrator", "")] == []
    assert "style=" not in page and "onclick" not in page


@pytest.mark.parametrize("transport", HTTP)
def test_whatever_a_client_sends_is_answered_as_without_the_page(stranger: HTTPPeer, settings: Any) -> None:
    headers: list[dict[str, Any]] = [
        {"Accept": "*/*"}, {"Accept": None}, {"Accept": "text/*"}, {"Accept": "text/html, text/event-stream"},
        {"Authorization": "Bearer x"}, {"Mcp-Session-Id": "x"}, {"MCP-Protocol-Version": "2025-11-25"},
        {"Last-Event-ID": "x"},
    ]  # fmt: skip
    sent = [*(("GET", given) for given in headers), *((method, {}) for method in ("POST", "DELETE", "OPTIONS", "PUT"))]
    challenges._scopes(site)  # Otherwise a worker looks for those that a 401 names while the loop answers.

    with_page = [visit(stranger, method, **given) for method, given in sent]
    settings.MCP = {**settings.MCP, "LANDING_PAGE": False}
    without = [visit(stranger, method, **given) for method, given in sent]
    browser = visit(stranger)

    for told, expected in zip(with_page, without, strict=True):
        assert (told.status, told.body, told.headers) == (expected.status, expected.body, expected.headers)
        assert "text/html" not in told.headers.get("content-type", "")
    assert (browser.status, browser.headers["content-type"]) == (401, "application/json")


@pytest.mark.parametrize("transport", HTTP)
def test_a_page_for_people_who_are_logged_in_sends_others_to_the_login(stranger: HTTPPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "LANDING_PAGE": "login"}

    answer = visit(stranger)

    assert answer.status == 302 and answer.headers["location"].endswith("?next=%2Fmcp")
    assert answer.headers["cache-control"] == "no-store"


def opened(user: User | None) -> str:
    client = Client()
    if user is not None:
        client.force_login(user)
    return client.get("/mcp", headers={"accept": CHROMIUM}).content.decode()


def test_the_page_has_the_name_of_the_project_and_never_that_of_the_host(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_ORIGIN": "https://127.0.0.1:8890"}

    page = opened(None)

    assert "<h1>Demo project</h1>" in page and "<title>Demo project · MCP</title>" in page
    assert "claude mcp add --transport http demo-project https://127.0.0.1:8890/mcp" in page
    assert "127-0-0-1" not in page and "<h1>django</h1>" not in page


def test_clients_that_do_not_reach_this_machine_are_not_offered(settings: Any) -> None:
    ids = {}
    for origin in ("http://127.0.0.1:8890", "https://shop.example.com"):
        settings.MCP = {**settings.MCP, "OAUTH_ORIGIN": origin}
        ids[origin] = {
            key for key in ("claude", "chatgpt", "n8n", "claude-desktop", "zed") if f'id="mcp-{key}"' in opened(None)
        }

    assert [*ids.values()] == [{"claude-desktop", "zed"}, {"claude", "chatgpt", "n8n", "claude-desktop", "zed"}]


@pytest.mark.parametrize("middleware", ["all", "without logins"])
def test_strangers_find_the_way_to_their_own_page_where_there_is_one(
    users: Users, settings: Any, middleware: str
) -> None:
    if middleware == "without logins":
        settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if one.startswith("django.middleware.")]
        assert "/mcp/connected" not in Client().get("/mcp", headers={"accept": CHROMIUM}).content.decode()
        return
    link = '<a href="/mcp/connected">Log in to see your agent</a>'

    assert link in opened(None) and link not in opened(users.viewer)
    login = Client().get("/mcp/connected")
    assert login.status_code == 302 and login["Location"].endswith("?next=%2Fmcp%2Fconnected")


def test_the_page_has_a_way_back_to_the_site() -> None:
    assert '<a href="/">Back to the site</a>' in opened(None)


#: What the URLconf has → where the site begins, for staff and for a stranger.
HOMES: dict[str, tuple[list[Any], str | None, str | None]] = {
    "a first page": ([path("", HttpResponse), path("admin/", admin.site.urls)], "/", "/"),
    "one in each language": (i18n_patterns(path("", HttpResponse)), "/de/", "/de/"),
    "the admin alone, at a place that strangers do not learn": (
        [path("hidden/", admin.site.urls)], "/hidden/", None,
    ),
    "nothing": ([], None, None),
}  # fmt: skip


@pytest.mark.parametrize("home", HOMES)
def test_where_the_way_back_leads(users: Users, home: str) -> None:
    patterns, *expected = HOMES[home]
    found = []
    for user in (users.viewer, AnonymousUser()):
        request = RequestFactory().get("/mcp")
        request.user = user
        set_urlconf(type("urls", (), {"urlpatterns": patterns}))  # type: ignore[arg-type]
        try:
            with translation.override("de"):
                found.append(home_url(request))
        finally:
            set_urlconf(None)

    assert found == expected


def test_whoever_may_make_tokens_finds_the_page_for_it(users: Users) -> None:
    url = reverse("admin:mcp_django_accesstoken_add")

    assert url in opened(users.admin) and "You are logged in as admin" in opened(users.admin)
    assert url not in opened(users.viewer) and "You are logged in as viewer" in opened(users.viewer)
    assert url not in opened(None) and "logged in" not in opened(None)


@pytest.mark.parametrize("page", [True, "private", None])
def test_a_page_for_nobody_knows_whom_is_an_error(settings: Any, page: Any) -> None:
    settings.MCP = {**settings.MCP, "LANDING_PAGE": page}

    [found] = of("E027")
    assert "LANDING_PAGE" in found.msg
