"""What could go wrong when a project's own code answers an agent, and does not.

Each test has a control: the defence is taken away, and the fault is there. What answers may be is tested in
``test_odd_answers.py``, who sees what in ``test_who.py``, and changes in ``test_changes.py``.
"""

from __future__ import annotations

import json
import re
import zoneinfo
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.conf import settings as project
from django.contrib.auth.middleware import RemoteUserMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import get_script_prefix, get_urlconf, path, set_script_prefix, set_urlconf
from django.utils import timezone, translation
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_django.bridge.api import identity
from mcp_django.bridge.api.routes import NoPath, Route
from mcp_django.bridge.sites import MCPSite
from mcp_django.core.compat import inner_requests
from mcp_django.core.compat.inner_requests import InnerCall
from tests.api.agents import Agent, exposed
from tests.api.project import middleware
from tests.api.project.models import Order
from tests.api.project.urls import urlpatterns as urls_of_shop
from tests.support.data import token_of
from tests.support.peers import Peers

#: The headers by which a client could say who it is, or what it wants to do.
_FORGED = {
    "Authorization": "Bearer token-of-stella", "Cookie": "sessionid=stella", "X-User-Id": "stella",
    "X-HTTP-Method-Override": "stella", "X-Forwarded-User": "stella", "X-Forwarded-Email": "stella@example.com",
    "Remote-User": "stella",
}  # fmt: skip


class HeadersView(APIView):
    """All that came with the request, for anybody; the user is whom middleware has found."""

    authentication_classes: ClassVar[list[Any]] = []
    permission_classes = [AllowAny]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.seen = str(request.user)
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: Any) -> Response:
        return Response({"user": self.seen, "meta": json.dumps(request.META, default=str)})


class BoundView(APIView):
    """The key of the session."""

    permission_classes = [IsAuthenticated]

    def get(self, request: Any) -> Response:
        return Response({"key": request.session.session_key})


class MeetingView(APIView):
    """The user, once all have come that are awaited."""

    permission_classes = [IsAuthenticated]
    barrier: ClassVar[Barrier]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.barrier.wait(20)
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: Any) -> Response:
        return Response({"user": str(request.user), "context": middleware.tenant.get(), "local": _tenant_of_thread()})


class StaysMiddleware:
    """Leaves the thread as no middleware should leave it."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        translation.activate("de")
        timezone.activate(zoneinfo.ZoneInfo("Asia/Tokyo"))
        set_urlconf("tests.api.project.urls")
        set_script_prefix("/elsewhere/")
        middleware.tenant.set("left behind")
        response: HttpResponse = self.get_response(request)
        return response


class ForwardedUserMiddleware(RemoteUserMiddleware):
    header = "HTTP_X_FORWARDED_USER"


urlpatterns = [
    path("api/headers/", HeadersView.as_view()),
    path("api/bound/", BoundView.as_view()),
    path("api/meeting/", MeetingView.as_view()),
    *urls_of_shop,
]


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of this module beside its own."""
    settings.ROOT_URLCONF = __name__
    return shop


@pytest.fixture
def unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: middleware is made as Django makes it."""
    monkeypatch.setattr(inner_requests, "_made", lambda middleware, get_response: middleware(get_response))
    monkeypatch.setattr(inner_requests, "_handler_of", lambda middleware: inner_requests._InnerHandler())


def _tenant_of_thread() -> str:
    return getattr(middleware.local, "tenant", "")


# Caches.


@pytest.mark.parametrize("operation", ["tokens.get", "cookies.get"])
def test_the_page_of_one_user_is_not_found_in_the_cache_by_another(
    operation: str, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = exposed(include=["*", "tokens.get"])

    def users() -> list[str]:
        cache.clear()
        return [Agent(site, user).get(operation)["result"]["user"] for user in (shop.anna, shop.otto)]

    assert users() == ["anna", "otto"]

    # Control.
    monkeypatch.setattr(identity, "names_for_caches", lambda principal: {})
    assert users() == ["anna", "anna"]


@pytest.fixture
def cached_site(own: SimpleNamespace, settings: Any) -> None:
    """A project that keeps each page for all who send the same headers."""
    first, last = "UpdateCacheMiddleware", "FetchFromCacheMiddleware"
    settings.MIDDLEWARE = [f"django.middleware.cache.{first}", *project.MIDDLEWARE, f"django.middleware.cache.{last}"]


def test_a_description_leaves_no_empty_page_in_the_cache_of_the_site(cached_site: None, own: SimpleNamespace) -> None:
    site = exposed()

    answers_of_agent = [Agent(site, own.anna).get("health.get") for _ in range(2)]
    page = Client(SERVER_NAME="localhost").get("/api/health/").content

    assert (answers_of_agent, page) == ([{"result": {"ok": True}}] * 2, b'{"ok":true}')


def test_the_cache_of_the_site_gives_no_user_the_page_of_another(cached_site: None, own: SimpleNamespace) -> None:
    site, browser = exposed(), Client(SERVER_NAME="localhost")
    url = "/api/answers/envelope/"  # With one renderer, so that it does not vary by Accept either.

    def orders_in(answer: Any) -> list[str]:
        return sorted(set(re.findall("[AOS]-001", str(answer))))

    agents = [orders_in(Agent(site, user).get("envelope.list")) for user in (own.anna, own.otto)]
    nobody = browser.get(url).status_code
    browser.force_login(own.otto)
    logged_in = orders_in(browser.get(url).content)

    assert (agents, nobody, logged_in) == ([["A-001"], ["O-001"]], 403, ["O-001"])

    # Control: the cache does keep pages.
    Order.objects.filter(owner=own.otto).delete()
    assert orders_in(browser.get(url).content) == ["O-001"]


# Keys.


def test_a_key_that_is_a_path_runs_no_other_view(
    api: MCPSite, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = shop.anna_order.pk
    keys = [
        f"{key}/note", f"{key}/cancel", f"{key}/pay", "../admin", "..", ".", "%2e%2e", "%2E%2E%2Fadmin",
        f"{key}%2Fnote", f"{key}/../{key}/note", f"{key}?format=csv", f"{key}#note", f"{key};note", f"/{key}",
        "//evil.example/", f"{key}\x00", "\x00", "x" * 5_000, "\ud800", "summary", "summary/",
        f"{key}\r\nX-User: root", " ", "{pk}", "%s",
    ]  # fmt: skip
    ran: list[str] = []
    initial = APIView.initial
    monkeypatch.setattr(
        APIView, "initial", lambda view, *args, **kwargs: ran.append(view.action) or initial(view, *args, **kwargs)
    )
    agent = Agent(api, shop.anna)

    refused = [agent.told("order.retrieve", params={"pk": one}) for one in keys]
    refused += [agent.told("order.update", tool="change_api", params={"pk": one}, body={}) for one in keys]

    assert {said.partition(" ")[0] for said in refused} <= {"order.retrieve", "order.update", "Invalid"}
    assert set(ran) <= {"retrieve", "update"}

    # Control.
    monkeypatch.setattr(Route, "check", lambda *args: None)
    assert agent.get("order.retrieve", params={"pk": f"{key}/note"})["result"] == {"note": "by express"}


@pytest.mark.parametrize("value", [["3"], {"pk": 3}, True, "", None])
def test_a_key_is_a_text_or_a_number(value: Any, api: MCPSite, shop: SimpleNamespace) -> None:
    assert "params.pk" in Agent(api, shop.anna).told("order.retrieve", params={"pk": value})


def test_a_key_that_is_half_a_character_makes_no_path(api: MCPSite, shop: SimpleNamespace) -> None:
    with pytest.raises(NoPath, match="is no text"):
        api.api.operations["order.retrieve"].route.path({"pk": "\ud800"})


def test_a_key_of_another_parent_finds_nothing(api: MCPSite, shop: SimpleNamespace) -> None:
    agent, line = Agent(api, shop.anna), shop.anna_line
    others = [(shop.anna_order, shop.otto_line), (shop.otto_order, shop.otto_line), (shop.anna_orders[1], line)]

    told = {agent.told("order-line.retrieve", params={"order_pk": order.pk, "pk": other.pk}) for order, other in others}

    assert told == {"order-line.retrieve finds nothing there, or nothing that you may see."}

    # Control.
    assert (
        agent.get("order-line.retrieve", params={"order_pk": line.order_id, "pk": line.pk})["result"]["id"] == line.pk
    )


# Headers.


def test_forged_headers_do_not_arrive(own: SimpleNamespace) -> None:
    found = Agent(exposed(), own.anna, headers=_FORGED).get("headers.get")["result"]

    assert "stella" not in str(found)

    # Control. Authorization and Cookie are kept by the request itself, which nobody else reads.
    found = Agent(exposed(headers=list(_FORGED)), own.anna, headers=_FORGED).get("headers.get")["result"]
    assert found["meta"].count("stella") == len(_FORGED) - 2


def test_a_forwarded_user_logs_nobody_in(own: SimpleNamespace, settings: Any, request: pytest.FixtureRequest) -> None:
    settings.MIDDLEWARE = [*project.MIDDLEWARE, f"{__name__}.ForwardedUserMiddleware"]
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.RemoteUserBackend"]
    agent = Agent(exposed(headers=["X-Forwarded-User"]), own.anna, headers={"X-Forwarded-User": "stella"})

    assert agent.get("headers.get")["result"]["user"] == "AnonymousUser"

    # Control.
    request.getfixturevalue("unmade")
    assert agent.get("headers.get")["result"]["user"] == "stella"


def test_a_forbidden_host_is_refused(api: MCPSite, shop: SimpleNamespace) -> None:
    assert "status 400" in Agent(api, shop.anna, headers={"Host": "evil.example"}).told("tenant.get")

    # Control.
    found = Agent(api, shop.anna, headers={"Host": "localhost"}).get("tenant.get")
    assert found["result"]["context"] == "anna@localhost"


def test_the_address_is_that_of_the_client(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)
    agent.client._request.META["REMOTE_ADDR"] = "203.0.113.9"
    told = agent.told("inside.get")
    agent.client._request.META["REMOTE_ADDR"] = "127.0.0.1"

    assert "Only from inside" in told
    assert agent.get("inside.get")["result"] == {"inside": True}


def test_an_authorization_that_middleware_cannot_read_is_not_sent(api: MCPSite, shop: SimpleNamespace) -> None:
    assert Agent(api, shop.anna).get("seen-user.get")["result"]["user"] == "anna"

    # Control: what tells users apart in caches is given to middleware as well.
    site = exposed(include=["*", "token-only.get"], credentials=lambda request: {"Authorization": "MCP 123"})
    assert "Only bearer tokens can be read" in Agent(site, shop.anna).told("token-only.get")


# Sessions and signals.


def test_a_session_ends_with_the_call_and_is_not_stored(
    api: MCPSite, shop: SimpleNamespace, request: pytest.FixtureRequest
) -> None:
    agent = Agent(api, shop.anna)

    assert [agent.get("visits.get")["result"]["visits"] for _ in range(2)] == [1, 1]
    assert not Session.objects.exists()

    # Control.
    request.getfixturevalue("unmade")
    agent.get("visits.get")
    assert Session.objects.exists()


def test_what_a_view_binds_to_the_key_of_a_session_is_found_again_by_the_same_user_alone(own: SimpleNamespace) -> None:
    site = exposed()

    anna, again, otto = (Agent(site, user).get("bound.get")["result"] for user in (own.anna, own.anna, own.otto))

    assert anna == again != otto
    assert len(anna["key"]) == 32
    # Nobody gets in by it.
    browser = Client(SERVER_NAME="localhost")
    browser.cookies["sessionid"] = anna["key"]
    assert browser.get("/api/bound/").status_code == 403


def test_no_signal_tells_that_a_request_began_or_ended(
    api: MCPSite, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    def hear(signal: Any, **more: Any) -> None:
        sent.append(signal)

    for signal in (request_started, request_finished):
        signal.connect(hear)
    try:
        for operation in ("health.get", "stream.get", "nothing.get"):
            Agent(api, shop.anna).get(operation)
        heard = list(sent)
        monkeypatch.setattr(inner_requests, "close_resources", lambda response: response.close())
        Agent(api, shop.anna).get("health.get")
    finally:
        for signal in (request_started, request_finished):
            signal.disconnect(hear)

    assert heard == []
    # Control.
    assert request_finished in sent


# The thread.


def _state() -> tuple[Any, ...]:
    zone = timezone.get_current_timezone_name()
    return translation.get_language(), zone, get_urlconf(), get_script_prefix(), middleware.tenant.get()


def test_the_thread_is_as_before(own: SimpleNamespace, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MIDDLEWARE = [f"{__name__}.StaysMiddleware", *project.MIDDLEWARE]
    call = InnerCall(
        "GET", "/api/tenant/", "", "http", {"HTTP_HOST": "localhost"}, (), {},
        who=lambda request: inner_requests.Who(AnonymousUser(), {}, {}), check=lambda match: None,
    )  # fmt: skip
    before = _state()

    answer = call.run(lambda request, response: json.loads(response.content))

    assert answer == {"context": "public@localhost", "thread": "public@localhost"}
    assert _state() == before
    assert _tenant_of_thread() == ""

    # Control, in a context that ends here.
    def without() -> Any:
        monkeypatch.setattr(inner_requests, "copy_context", lambda: SimpleNamespace(run=lambda run, *args: run(*args)))
        call.run(lambda request, response: None)
        return _state()

    assert [one == other for one, other in zip(copy_context().run(without), before, strict=True)] == [False] * 5


@pytest.mark.parametrize("number", [4, 50])
def test_users_whose_calls_are_answered_at_the_same_time_never_mix(
    number: int, own: SimpleNamespace, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, users = exposed(), [own.anna, own.otto] * (number // 2)
    agents = [Agent(site, user) for user in users]
    for agent in agents[:2]:
        agent.client.call("describe_api", operation="meeting.get")

    def ask(agent: Agent) -> set[str]:
        try:
            found = agent.get("meeting.get")["result"]
            return {found["user"], found["context"].partition("@")[0], found["local"].partition("@")[0]}
        finally:
            connections.close_all()

    def users_of_all() -> list[set[str]]:
        MeetingView.barrier = Barrier(number)
        with ThreadPoolExecutor(number) as pool:
            return list(pool.map(ask, agents))

    assert users_of_all() == [{user.username} for user in users]

    # Control: the user is set where all requests find it.
    def let_pass(request: Any, who: inner_requests.Who) -> None:
        monkeypatch.setattr(inner_requests._InnerRequest, "_force_auth_user", who.user, raising=False)

    monkeypatch.setattr(inner_requests, "_let_pass", let_pass)
    assert users_of_all() != [{user.username} for user in users]


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi", "websocket"])
def test_middleware_that_keeps_a_tenant_for_the_thread_does_its_work_by_each_transport(
    shop: SimpleNamespace, transactional_db: None, declared_api: None, peers: Peers, transport: str, settings: Any
) -> None:
    before = middleware.tenant.get()

    for user in ("anna", "otto"):
        peer = peers(token_of(getattr(shop, user), "read"))
        found = peer.call("call_api", operation="tenant.get")["structuredContent"]["result"]

        assert [name.partition("@")[0] for name in found.values()] == [user, user]
    assert (_tenant_of_thread(), middleware.tenant.get()) == ("", before)
