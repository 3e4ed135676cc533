"""Answers that are no plain JSON, pages, versions and names: what an agent is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from django.urls import path
from rest_framework.generics import ListAPIView
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response
from rest_framework.versioning import QueryParameterVersioning
from rest_framework.views import APIView

from mcp_django.bridge.api import answers
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import CallRefused
from tests.api.agents import Agent, exposed
from tests.api.project.models import Event
from tests.api.project.paginations import Pages
from tests.api.project.serializers import EventSerializer
from tests.api.project.urls import urlpatterns as urls_of_shop


class CrashView(APIView):
    """Fails with a text that nobody may read."""

    permission_classes = [AllowAny]

    def get(self, request: Any) -> Response:
        raise ValueError("the password of the database")


class Exiting(AllowAny):
    def has_permission(self, request: Any, view: Any) -> bool:
        raise SystemExit(3)


class ExitingView(CrashView):
    permission_classes = [Exiting]


class TicksView(APIView):
    """So many ticks that nobody waits for all of them; those of an asynchronous view at first go to a list."""

    permission_classes = [AllowAny]
    made: ClassVar[list[int]] = []

    def get(self, request: Any) -> StreamingHttpResponse:
        return StreamingHttpResponse(self._ticks(), content_type="text/plain")

    async def _ticks(self) -> Any:
        for number in range(20_000):
            self.made.append(number)
            yield "tick\n"


class TickingRenderer(BaseRenderer):
    """Writes for ever, a piece at a time."""

    media_type, format = "text/plain", "txt"
    pieces = 100_000

    def render(self, data: Any, *args: Any) -> Iterator[str]:
        for _ in range(self.pieces):
            TicksView.made.append(1)
            yield data


class RenderedView(APIView):
    permission_classes = [IsAuthenticated]
    renderer_classes = [TickingRenderer]

    def get(self, request: Any) -> Response:
        return Response("tick\n")


class LinkedPages(Pages):
    """The next page is said to be at another host, and its number has another name."""

    page_query_param = "p"

    def get_next_link(self) -> str | None:
        link = super().get_next_link()
        return link and f"http://evil.example/api/orders/?{link.partition('?')[2]}"


class LinkedView(ListAPIView):
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]
    pagination_class = LinkedPages

    def get_queryset(self) -> Any:
        return Event.objects.filter(owner=self.request.user)[:12]


class VersionedView(LinkedView):
    """Pages of which each link names the version."""

    versioning_class = type("Versions", (QueryParameterVersioning,), {"allowed_versions": ["v1", "v2"]})


urlpatterns = [
    path("api/crash/", CrashView.as_view()),
    path("api/exiting/", ExitingView.as_view()),
    path("api/ticks/", TicksView.as_view()),
    path("api/rendered/", RenderedView.as_view()),
    path("api/linked/", LinkedView.as_view()),
    path("api/versioned/", VersionedView.as_view()),
    *urls_of_shop,
]


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of this module beside its own."""
    settings.ROOT_URLCONF = __name__
    return shop


def _browser(user: Any) -> Client:
    browser = Client(SERVER_NAME="localhost")
    browser.force_login(user)
    return browser


# Answers.


@pytest.mark.parametrize("operation", ["crash.get", "order.retrieve"])
def test_pages_of_debug_tell_nothing(operation: str, own: SimpleNamespace, settings: Any) -> None:
    settings.DEBUG = True
    params = {"order.retrieve": {"pk": "999"}}.get(operation, {})

    told = Agent(exposed(), own.anna).told(operation, params=params)

    assert told in (
        "crash.get failed (status 500). The server's log has the details.",
        "order.retrieve finds nothing there, or nothing that you may see.",
    )

    # Control.
    browser = Client(SERVER_NAME="localhost", raise_request_exception=False)
    assert b"the password of the database" in browser.get("/api/crash/").content


def test_what_is_no_data_is_not_shown(shop: SimpleNamespace) -> None:
    agent = Agent(exposed(include=["*", "page.get"]), shop.anna)

    told = {one: agent.told(one) for one in ("page.get", "imprint.get", "moved.get")}

    page = "cannot be shown. It answers with a page for people, which is not shown."
    assert told == {
        "page.get": f"page.get {page}",
        "imprint.get": f"imprint.get {page}",
        "moved.get": "moved.get refuses this (status 302). It answers with a redirect, which is not followed.",
    }
    # Control: a browser shows the pages, and follows the redirect.
    browser = _browser(shop.anna)
    assert "text/html" in browser.get("/api/answers/page/")["Content-Type"]
    assert browser.get("/api/answers/moved/", follow=True).redirect_chain


def test_an_endless_text_is_cut(api: MCPSite, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST_TEXT_BYTES", 12)

    assert Agent(api, shop.anna).get("endless.get") == {"text": "tick\ntick\nti… (cut)"}


@pytest.mark.parametrize("operation", ["ticks.get", "rendered.get"])
def test_an_endless_text_is_cut_that_is_made_asynchronously_or_by_a_renderer(
    operation: str, own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    TicksView.made.clear()

    text = Agent(exposed(), own.anna).get(operation)["text"]

    assert text.endswith("… (cut)")
    assert len(TicksView.made) < 20_000
    # Control: over HTTP the renderer writes to its end.
    TicksView.made.clear()
    monkeypatch.setattr(TickingRenderer, "pieces", 30_000)
    assert len(_browser(own.anna).get("/api/rendered/").content) == 5 * len(TicksView.made) == 150_000


def test_a_view_that_ends_the_process_only_fails(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    told = [agent.told("exit.get", params={"code": 3}), agent.told("exiting.get")]

    assert told == [
        f"{name} failed (status 500). The server's log has the details." for name in ("exit.get", "exiting.get")
    ]
    # Control: the process goes on.
    assert agent.get("exit.get", params={"code": 0})["result"] == {"ended": False}


# Pages.


_PAGED = {"order.list": 7, "product.list": 5, "events.list": 120, "all.list": 120, "linked.list": 12, "numbers.get": 7}


@pytest.mark.parametrize("operation", _PAGED)
def test_pages_that_are_followed_to_the_end_have_every_row_once(
    operation: str, own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(exposed(), own.anna)

    def rows(limit: int | None) -> list[str]:
        given = {} if limit is None else {"limit": limit}
        pages = agent.pages(operation, **given)
        return [str(row) for page in pages for row in page.get("rows", page.get("items"))]

    every = rows(None)

    assert len(every) == len(set(every)) == _PAGED[operation]
    for limit in (4, 50):
        assert rows(limit) == every

    # Control: a cursor of ours counts for nothing, so that pages have no end.
    if operation in ("all.list", "events.list"):
        monkeypatch.setattr(answers, "_number", lambda value: 0)
        with pytest.raises(AssertionError, match="no end"):
            rows(4)


def test_a_link_to_another_host_leads_to_the_same_operation(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    first = agent.get("linked.list", fields=["id"])

    second = agent.get("linked.list", fields=["id"], cursor=first["next_cursor"])

    assert first["next_cursor"] == {"p": "2"}
    # Control: HTTP names that host.
    assert "evil.example" in _browser(own.anna).get("/api/linked/").json()["next"]
    assert [row[0] for row in second["rows"]] == [one.pk for one in own.anna_events[5:10]]


def test_a_next_cursor_of_a_version_in_the_query_is_taken(own: SimpleNamespace) -> None:
    agent = Agent(exposed(version="v2"), own.anna)

    cursor = agent.get("versioned.list")["next_cursor"]

    assert len(agent.get("versioned.list", cursor=cursor)["rows"]) == 5


def test_a_forged_cursor_reaches_nothing_else(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)
    forged: list[Any] = [{"owner": shop.otto.pk}, {"format": "csv"}, {"_skip": 0, "version": "v2"}]
    odd: list[Any] = [{"_skip": -5}, {"_skip": "x"}, {"_skip": None}, {"_skip": [1]}]

    assert {agent.told("order.list", cursor=one) for one in forged} == {
        "Invalid arguments for order.list. cursor: is no next_cursor of this operation. Call again without it."
    }
    assert [len(agent.get("order.list", cursor=one)["rows"]) for one in odd] == [5] * 4
    assert agent.get("order.list", cursor={"_skip": 10**30})["rows"] == []
    assert "finds nothing there" in agent.told("order.list", cursor={"page": {"a": ["../admin"]}})


# Versions.


def test_the_version_is_that_of_the_project_by_url_and_by_header(shop: SimpleNamespace) -> None:
    found = {}
    for version, header in (("v1", ""), ("v2", ""), ("v9", ""), ("", "2.0"), ("", "9.0")):
        agent = Agent(exposed(version=version or header), shop.anna)
        operation = "api-version-greeting.get" if version else "api-greeting.get"
        try:
            found[version or header] = agent.get(operation)["result"]["version"]
        except CallRefused as refused:
            found[version or header] = str(refused).partition(" ")[2][:19]

    assert found == {"v1": "v1", "v2": "v2", "v9": "finds nothing there", "2.0": "2.0", "9.0": "refuses this (statu"}

    # Control: an agent chooses where the project does not.
    agent = Agent(exposed(), shop.anna)
    assert agent.get("api-version-greeting.get", params={"version": "v2"})["result"]["version"] == "v2"
    assert agent.get("api-greeting.get")["result"]["version"] == "1.0"


# Names.


def test_unknown_names_are_refused_with_the_near_one(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)

    told = [
        agent.told("order.lst"), agent.told("order.list", params={"statuss": "paid"}),
        agent.told("order.list", fields=["nmber"]), agent.told("order.cancel", params={"pk": 1}),
    ]  # fmt: skip

    wanted = ["order.list", "Did you mean status?", "Did you mean number?", "order.cancel is called with change_api."]
    assert [one in said for one, said in zip(wanted, told, strict=True)] == [True] * 4, told

    # Control: over HTTP, a mistyped filter counts for nothing.
    browser = Client(SERVER_NAME="localhost")
    browser.force_login(shop.anna)
    assert browser.get("/api/orders/?statuss=paid").json()["count"] == 7
