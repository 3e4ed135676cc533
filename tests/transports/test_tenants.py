"""Tenants by middleware, of four kinds: on each road an agent and a person get their own rows, or are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import Client

from mcp_django import site
from mcp_django.bridge.tasks import framework
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.core.middleware_policy import HARMLESS, withheld_of
from mcp_django.models import Change, Tool
from tests.axes import HTTP
from tests.bridge.writes.clicking import Browser, said
from tests.end_to_end.servers import wait_for
from tests.shop.models import Keepsake, Tag
from tests.support.data import Users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, HTTPPeer, Peers, SocketPeer
from tests.transports.gates import ENTER, Gate
from tests.transports.tenancy import CURRENT, ODD, admin_of
from tests.transports.test_overload import begin

KINDS = list(CURRENT)
LIST = {"name": "find_records", "arguments": {"model": "shop.tag", "fields": ["name"], "order_by": ["name"]}}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tenants(kind: str, declared: Declared, settings: Any, transactional_db: None, users: Users) -> Iterator[str]:
    """The project: two rows of each tenant."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"tests.transports.tenancy.{kind}"]
    settings.ALLOWED_HOSTS = ["*"]
    declared.admin(Tag, admin_of(kind))
    Tag.objects.bulk_create(Tag(name=f"{tenant}:{number}") for tenant in "ab" for number in (1, 2))
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    yield kind


def names(answer: Any) -> list[str]:
    return [row[-1] for row in answer["result"]["structuredContent"]["rows"]]


def peer_at(peers: Peers, token: str, tenant: str) -> HTTPPeer:
    peer = peers(token)
    assert isinstance(peer, HTTPPeer)
    plain = peer.headers
    peer.headers = lambda more: plain({"Host": f"{tenant}.example.com", "X-Tenant": tenant, **(more or {})})  # type: ignore[method-assign]
    return peer


@pytest.mark.parametrize("transport", HTTP)
def test_over_http_each_tenant_gets_its_own_rows(tenants: str, peers: Peers, users: Users) -> None:
    token = token_of(users.admin)
    first, second = (peer_at(peers, token, tenant) for tenant in "ab")

    for revision in (MODERN, "2025-06-18"):
        seen = [names(peer.request(revision, "tools/call", LIST)) for peer in (first, second, first)]
        assert seen == [["a:1", "a:2"], ["b:1", "b:2"], ["a:1", "a:2"]]


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
def test_many_calls_of_two_tenants_at_the_same_time_do_not_mix(tenants: str, peers: Peers, users: Users) -> None:
    token = token_of(users.admin)
    both = [peer_at(peers, token, tenant) for tenant in "ab"]
    running = [begin(peer, MODERN, number, "tools/call", LIST) for number in range(12) for peer in both]  # type: ignore[arg-type]

    seen = [names(one.result(60).json) for one in running]

    assert seen == [["a:1", "a:2"], ["b:1", "b:2"]] * 12


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_taking_all_threads_of_django_below_the_middleware(
    tenants: str, peers: Peers, users: Users, gate: Gate, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 1, "QUEUE": 0}
    peer = peer_at(peers, token_of(users.admin, "read", "actions"), "a")
    running = begin(peer, MODERN, 1, "tools/call", ENTER)  # type: ignore[arg-type]
    gate.wait_for_entry()

    refused = begin(peer, MODERN, 2, "tools/call", LIST).result(60)  # type: ignore[arg-type]
    gate.open()

    assert refused.status == 503 and refused.json["error"]["data"]["reason"] == "OVERLOADED"
    assert "through" in json.dumps(running.result(60).json)
    # The place is given back, once the answer is written.
    wait_for(lambda: "result" in peer.request(MODERN, "tools/call", LIST), "a place")


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_is_refused(tenants: str, peers: Peers, users: Users) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, SocketPeer)
    assert not peer.connect().accepted


@pytest.mark.parametrize("command", ["mcp_stdio", "mcp_grpc"])
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_commands_are_refused_with_the_middleware_and_the_cure(tenants: str, command: str) -> None:
    arguments = {"user": "admin"} if command == "mcp_stdio" else {}

    with pytest.raises(CommandError, match=r"does not pass tests\.transports\.tenancy\.by_thread.*call_context"):
        call_command(command, **arguments)


@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_no_call_becomes_a_task_whose_worker_has_no_tenant(tenants: str) -> None:
    problem = framework.problem(site)

    assert problem is not None and "A task does not pass tests.transports.tenancy.by_thread" in problem


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_nothing_is_pushed_that_a_sweep_without_a_tenant_would_check(tenants: str, peers: Peers, users: Users) -> None:
    peer = peer_at(peers, token_of(users.admin), "a")
    wanted = {"notifications": {"resourceSubscriptions": ["db://shop/tag"]}}

    assert "error" in peer.send(MODERN, "subscriptions/listen", wanted).json
    assert "error" in peer.request("2025-06-18", "resources/subscribe", {"uri": "db://shop/tag"})


@pytest.mark.parametrize("transport", HTTP)
def test_the_queries_of_an_asynchronous_function_are_in_the_thread_of_the_request(
    tenants: str, peers: Peers, users: Users, declared: Declared
) -> None:
    async def look(request: Any) -> str:
        """Looks."""
        return await sync_to_async(CURRENT[tenants])(request)

    declared.tool(look, read_only=True)

    answer = peer_at(peers, token_of(users.admin), "a").request(MODERN, "tools/call", {"name": "look", "arguments": {}})

    assert answer["result"]["content"][0]["text"] == "a"


@pytest.mark.parametrize("transport", HTTP)
def test_by_the_site_of_the_host_each_tenant_gets_its_own_rows(
    declared: Declared, settings: Any, transactional_db: None, users: Users, peers: Peers, monkeypatch: Any
) -> None:
    """CurrentSiteMiddleware is known, and its work is done ahead of Django too."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.sites.middleware.CurrentSiteMiddleware"]
    settings.ALLOWED_HOSTS = ["*"]
    for place in ("django.contrib.sites.middleware", "mcp_django.exchange.requests"):
        monkeypatch.setattr(f"{place}.get_current_site", lambda request: request.get_host().partition(".")[0])
    declared.admin(Tag, admin_of("by_site"))
    Tag.objects.bulk_create(Tag(name=f"{tenant}:{number}") for tenant in "ab" for number in (1, 2))
    token = token_of(users.admin)

    seen = [names(peer_at(peers, token, tenant).request(MODERN, "tools/call", LIST)) for tenant in "ab"]

    assert seen == [["a:1", "a:2"], ["b:1", "b:2"]]


# The console.


def browser_at(user: Any, tenant: str) -> Client:
    client = Client(headers={"Host": f"{tenant}.example.com"})
    client.force_login(user)
    return client


def test_in_the_console_a_person_sees_the_rows_of_the_tenant(tenants: str, users: Users) -> None:
    browser = browser_at(users.admin, "a")
    row, _ = Tool.objects.get_or_create(site="mcp", name="get_record")
    page = f"/admin/mcp_django/tool/{row.pk}/try/"

    def tried(key: str) -> str:
        posted = {"try-arg-model": "shop.tag", "try-arg-id": key}
        return str(browser.post(page, posted).content.decode())

    suggested = browser.post(page, {"suggest": "try-arg-id", "try-arg-model": "shop.tag", "try-arg-id": ""}).json()
    sees = browser.get("/admin/mcp_django/accesstoken/sees/", {"model": "shop.tag"}).content.decode()
    texts = [
        browser.get("/admin/mcp_django/accesstoken/sees/", {"why": f"db://shop/tag/{key}"}).content.decode()
        for key in ("a:1", "b:1")
    ]

    assert "There is no" not in tried("a:1") and "There is no" in tried("b:1")
    assert suggested["values"] == ["a:1", "a:2"]
    assert "a:1" in sees and "b:1" not in sees
    assert ["No row of this key is among those" in text for text in texts] == [False, True]


# A click on a change that waits.


def waiting(peer: HTTPPeer, tool: str, **arguments: Any) -> str:
    confirm = peer.call(tool, **arguments)["structuredContent"]["confirm"]
    told = peer.call(tool, **arguments, confirm=confirm)["structuredContent"]
    assert told["status"] == "pending", told
    return str(told["change"])


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi"])
def test_a_click_on_the_host_of_another_tenant_changes_the_row_of_the_first(
    tenants: str, peers: Peers, users: Users
) -> None:
    peer = peer_at(peers, token_of(users.admin, "read", "write"), "a")
    own, other = Tag.objects.get(name="a:1"), Tag.objects.get(name="b:1")
    key = waiting(peer, "delete_record", model="shop.tag", ids=[str(own.pk)])
    person = Browser(users.admin, Host="b.example.com")

    assert "a:1" in person.page(key).content.decode()
    assert person.apply(key) == ["The change was made."]
    assert not Tag.objects.filter(pk=own.pk).exists() and Tag.objects.filter(pk=other.pk).exists()
    assert LogEntry.objects.latest("pk").user == users.admin


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("kind", list(ODD), indirect=True)
def test_what_a_call_has_by_its_request_a_click_has_too_or_is_refused(tenants: str, peers: Peers, users: Users) -> None:
    peer, other = (peer_at(peers, token_of(users.admin, "read", "write"), tenant) for tenant in "ab")

    assert [names(one.request(MODERN, "tools/call", LIST)) for one in (peer, other)] == [["a:1", "a:2"], ["b:1", "b:2"]]

    key = waiting(peer, "delete_record", model="shop.tag", ids=["a:1"])
    person = Browser(users.admin, Host="b.example.com")
    page = person.page(key).content.decode()

    if tenants in ("by_header", "by_lazy_header"):
        assert 'name="_apply"' not in page and "looks into X-Tenant of the agent&#x27;s request" in page
    else:
        assert person.apply(key) == ["The change was made."]
        assert sorted(Tag.objects.values_list("name", flat=True)) == ["a:2", "b:1", "b:2"]


@pytest.mark.skipif(settings.DATABASES["default"]["ENGINE"].rpartition(".")[2] != "postgresql", reason="of PostgreSQL")
@pytest.mark.every_database
@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("kind", ["rolling_back"], indirect=True)
def test_a_change_that_middleware_undoes_is_not_told_to_be_made(tenants: str, peers: Peers, users: Users) -> None:
    peer = peer_at(peers, token_of(users.admin, "read", "write"), "a")
    key = waiting(peer, "delete_record", model="shop.tag", ids=["a:1"])

    told = Browser(users.admin).apply(key)

    assert told == ["The project's middleware has undone the change after it was made (status 200)."]
    assert Tag.objects.filter(name="a:1").exists() and Change.objects.get(pk=key).state == "waiting"


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_holding_up_everybody_with_bodies_that_do_not_end(
    tenants: str, peers: Peers, users: Users, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 2}
    peer = peer_at(peers, token_of(users.admin), "a")
    never = [asyncio.run_coroutine_threadsafe(_slow(peer), peer.loop.loop) for _ in range(8)]

    seen = names(peer.request(MODERN, "tools/call", LIST))
    for one in never:
        one.cancel()

    assert seen == ["a:1", "a:2"]


async def _slow(peer: HTTPPeer) -> None:
    sent = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Any:
        if sent:
            return sent.pop()
        return await asyncio.Event().wait()

    async def send(event: Any) -> None: ...

    await peer.application(peer.scope("POST", peer.headers({})), receive, send)  # type: ignore[attr-defined]


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("kind", ["by_session"], indirect=True)
def test_where_the_tenant_hangs_on_a_session_the_change_is_neither_shown_nor_made(
    tenants: str, peers: Peers, users: Users
) -> None:
    peer = peer_at(peers, token_of(users.admin, "read", "write"), "a")
    row = Tag.objects.get(name="a:1")
    key = waiting(peer, "delete_record", model="shop.tag", ids=[str(row.pk)])
    person = Browser(users.admin)

    page = person.page(key).content.decode()
    told = said(person.decide(key, "apply", digest="0" * 64))

    assert 'name="_apply"' not in page and "These are deleted" not in page
    assert "Do the work of that middleware in MCPSite.call_context." in page and "call_context" in told[0]
    assert Tag.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_a_change_that_came_without_http_is_neither_shown_nor_made(tenants: str, peers: Peers, users: Users) -> None:
    peer = peer_at(peers, token_of(users.admin, "read", "write"), "a")
    key = waiting(peer, "delete_record", model="shop.tag", ids=[str(Tag.objects.get(name="a:1").pk)])
    change = Change.objects.get(pk=key)
    change.origin = json.dumps({**json.loads(change.origin), "is_of_http": False, "is_below_middleware": False})
    change.save()

    page = Browser(users.admin, Host="a.example.com").page(key).content.decode()

    assert "proposed beside HTTP, or past MIDDLEWARE, does not pass tests.transports.tenancy.by_thread" in page
    assert "These are deleted" not in page


@pytest.mark.skipif(settings.DATABASES["default"]["ENGINE"].rpartition(".")[2] != "postgresql", reason="of PostgreSQL")
@pytest.mark.every_database
@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi"])
@pytest.mark.parametrize("kind", ["by_schema"], indirect=True)
def test_a_row_with_the_same_key_and_value_in_another_schema_stays(
    kind: str, peers: Peers, users: Users, declared: Declared, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.transports.tenancy.by_schema"]
    settings.ALLOWED_HOSTS = ["*"]
    declared.admin(Tag, admin_of("by_request"))
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    with connection.cursor() as cursor:
        for tenant in "ab":
            cursor.execute(f"DROP SCHEMA IF EXISTS tenant_{tenant} CASCADE")
            cursor.execute(f"CREATE SCHEMA tenant_{tenant}")
            cursor.execute(f"CREATE TABLE tenant_{tenant}.shop_tag (LIKE public.shop_tag INCLUDING ALL)")
            cursor.execute(f"INSERT INTO tenant_{tenant}.shop_tag (name) VALUES ('same')")
        cursor.execute("INSERT INTO public.shop_tag (name) VALUES ('same')")
    try:
        peer = peer_at(peers, token_of(users.admin, "read", "write"), "a")
        key = waiting(peer, "delete_record", model="shop.tag", ids=["same"])
        assert Browser(users.admin, Host="b.example.com").apply(key) == ["The change was made."]
        with connection.cursor() as cursor:
            found = []
            for schema in ("tenant_a", "tenant_b", "public"):
                cursor.execute(f"SELECT count(*) FROM {schema}.shop_tag")
                found.append(cursor.fetchone()[0])
        assert found == [0, 1, 1]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA tenant_a CASCADE; DROP SCHEMA tenant_b CASCADE")


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_under_atomic_requests_and_a_zone_by_the_login_nothing_is_another_row_or_moment(
    tenants: str, peers: Peers, users: Users, declared: Declared, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """A person's zone moved the values of a change by four hours."""
    for alias in connections:
        monkeypatch.setitem(connections.settings[alias], "ATOMIC_REQUESTS", True)
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.transports.tenancy.with_zone"]
    declared.admin(Keepsake, type("A", (ModelAdmin,), {"fields": ["moment"]}))
    declared.model(Keepsake, fields="__all__", consent={"update": "ask"})
    peer = peer_at(peers, token_of(users.admin, "read", "write"), "a")
    row = Keepsake.objects.create(moment="2024-01-01T10:00:00Z")
    values = {"moment": "2024-01-01T12:00:00"}
    key = waiting(peer, "update_record", model="shop.keepsake", id=str(row.pk), values=values)
    deleting = waiting(peer, "delete_record", model="shop.tag", ids=["a:1"])
    person = Browser(users.admin, Host="b.example.com")

    assert person.apply(key) == person.apply(deleting) == ["The change was made."]
    row.refresh_from_db()
    # In the zone in which the agent's call was previewed, and not in that of the person.
    assert row.moment.isoformat() == "2024-01-01T17:00:00+00:00"
    assert sorted(Tag.objects.values_list("name", flat=True)) == ["a:2", "b:1", "b:2"]


# The list of what is harmless, and what of a request is made again.


def test_each_harmless_middleware_says_what_it_is_for() -> None:
    assert all(HARMLESS.values())
    assert set(settings.MIDDLEWARE) <= set(HARMLESS)


def test_what_is_not_sent_again_is_named_without_the_environment_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_X_TENANT", "a header all the same")
    found = withheld_of(
        {
            "HTTP_HOST": "a",
            "HTTP_X_TENANT": "b",
            "REMOTE_USER": "root",
            "QUERY_STRING": "",
            "PATH": "/bin",
            "CONTENT_TYPE": "text/plain",
            "TENANT": "a",
        }
    )

    assert found == ["HTTP_X_TENANT", "REMOTE_USER", "TENANT"]
