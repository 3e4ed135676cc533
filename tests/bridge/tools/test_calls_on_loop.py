"""Calls of asynchronous tools that need no worker: they begin and end in the thread of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group
from django.http import HttpRequest
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer

from demo_project.flights.models import Airport, Flight
from mcp_django import MCPSite, tool
from mcp_django.access import overrides
from mcp_django.access.authentication import OUR_CLASSES
from mcp_django.audit.recorder import recorder
from mcp_django.bridge.tools.function import FunctionTool
from mcp_django.bridge.tools.returns import Returns
from mcp_django.core.running.workers import Workers, close_workers, get_workers
from mcp_django.models import AccessToken, Call, Tool
from tests.axes import PUSHING
from tests.bridge.tools.test_async_tools import Gate, where
from tests.bridge.tools.test_function_calls import text_of
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peer, Peers, meta

ON_LOOP = pytest.mark.parametrize("transport", PUSHING)


@pytest.fixture
def places(peers: Peers, settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where calls of tools begin, and where their results are written."""
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 300}
    found: list[str] = []
    begin, write = FunctionTool.run, Returns.write
    monkeypatch.setattr(FunctionTool, "run", lambda *args: found.append(where(peers)) or begin(*args))
    monkeypatch.setattr(Returns, "write", lambda *args: found.append(where(peers)) or write(*args))
    return found


async def echo(request: HttpRequest, text: str = "a") -> str:
    """Return the text."""
    await asyncio.sleep(0)
    return text


def second(peer: Peer, places: list[str], name: str, revision: str = MODERN, **arguments: Any) -> Any:
    """The answer to the second of two equal calls: what it needs is remembered then."""
    params = {"name": name, "arguments": arguments}
    peer.request(revision, "tools/call", params)
    places.clear()
    return peer.request(revision, "tools/call", params)


@ON_LOOP
def test_it_begins_and_ends_there(admin: Peer, declared: Declared, places: list[str]) -> None:
    declared.tool(echo, read_only=True)

    assert text_of(second(admin, places, "echo", text="here")["result"]) == "here"
    assert places == ["loop", "loop"]


def test_a_first_call_and_one_in_a_session_begin_in_a_worker_and_one_without_a_token_there(
    admin: Peer, peers: Peers, declared: Declared, places: list[str], settings: Any
) -> None:
    declared.tool(echo, read_only=True)

    assert text_of(admin.call("echo")) == "a"
    assert places == ["thread", "thread"]
    assert text_of(second(admin, places, "echo", LEGACY[-1])["result"]) == "a"
    assert places == ["thread", "thread"]
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}
    assert text_of(second(peers(None), places, "echo")["result"]) == "a"
    assert places == ["loop", "loop"]


# What begins in a worker.


class Book(BaseModel):
    pages: int


async def with_model(request: HttpRequest, airport: Airport | None = None) -> str:
    """Take a row."""
    return "a"


async def with_validator(request: HttpRequest, text: Annotated[str, AfterValidator(lambda one: one)] = "a") -> str:
    """Take what the project checks."""
    return "a"


async def with_factory(request: HttpRequest, text: Annotated[str, Field(default_factory=lambda: "a")]) -> str:
    """Take what the project makes."""
    return "a"


async def with_class(request: HttpRequest) -> Book:
    """Return what the project writes."""
    return Book(pages=3)


async def with_serializer(
    request: HttpRequest, arguments: dict[str, Any]
) -> Annotated[dict[str, int], PlainSerializer(dict)]:
    """Return what the project writes."""
    return {}


def synchronous(request: HttpRequest) -> str:
    """Run in a worker."""
    return "a"


def test_a_tool_of_another_kind_begins_in_a_worker(
    admin: Peer, declared: Declared, places: list[str], flights: Any
) -> None:
    kinds: dict[str, tuple[Any, Any]] = {
        "permission": (echo, {"permission": "flights.view_flight"}),
        "writes": (echo, {"read_only": False}),
        "kept": (echo, {"on_loop": False}),
        "task": (echo, {"task": True}),
        "model": (with_model, {}),
        "validator": (with_validator, {}),
        "factory": (with_factory, {}),
        "class": (with_class, {}),
        "serializer": (with_serializer, {"input_schema": {"type": "object"}}),
        "synchronous": (synchronous, {}),
    }
    found = {}
    for name, (function, options) in kinds.items():
        declared.tool(function, name=name, **{"read_only": True, **options})
        assert second(admin, places, name)["result"]["isError"] is False
        found[name] = list(places)

    assert found == {name: ["thread", "thread"] for name in kinds}


def test_a_tool_that_reads_and_one_with_a_schema_of_its_own_begin_on_the_loop(
    admin: Peer, declared: Declared, places: list[str]
) -> None:
    async def plain(
        request: HttpRequest,
        number: Annotated[int, Field(ge=1)] = 1,
        names: list[str] | None = None,
        values: dict[str, float] | None = None,
    ) -> dict[str, list[int]]:
        """Return a dictionary."""
        return {"numbers": [number]}

    async def raw(request: HttpRequest, arguments: dict[str, Any]) -> str:
        """Take arguments as they came."""
        return str(arguments["a"])

    declared.tool(plain, read_only=True)
    declared.tool(raw, read_only=True, input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})

    answer = second(admin, places, "plain", number=7)
    assert answer["result"]["structuredContent"] == {"numbers": [7]} and places == ["loop", "loop"]
    assert text_of(second(admin, places, "raw", a=3)["result"]) == "3" and places == ["loop", "loop"]


def test_with_these_settings_it_begins_in_a_worker(
    users: Users, peers: Peers, declared: Declared, places: list[str], settings: Any
) -> None:
    before, found = settings.MCP, {}
    values: dict[str, Any] = {
        "TOKEN_CACHE_SECONDS": 0,
        "AUTHENTICATION_CLASSES": [OUR_CLASSES[0], "rest_framework.authentication.BasicAuthentication"],
        "THROTTLES": {"user": {"calls": "100/minute"}},
    }
    declared.tool(echo, read_only=True)
    for name, value in values.items():
        settings.MCP = {**before, name: value}
        assert text_of(second(peers(token_of(users.admin)), places, "echo")["result"]) == "a"
        found[name] = list(places)

    assert found == {name: ["thread", "thread"] for name in values}


def test_a_token_with_limits_of_its_own_is_counted_in_a_worker(
    users: Users, peers: Peers, declared: Declared, places: list[str]
) -> None:
    declared.tool(echo, read_only=True)
    token = token_of(users.admin)
    AccessToken.objects.update(limits={"calls": "2/day"})
    peer = peers(token)

    assert text_of(second(peer, places, "echo")["result"]) == "a"
    assert places == ["thread", "thread"]
    assert peer.error(MODERN, "tools/call", {"name": "echo"})["data"]["reason"] == "THROTTLED"


class _Entering(MCPSite):
    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        Flight.objects.exists()
        yield


class _Remembering(MCPSite):
    def remember_key(self, request: HttpRequest) -> str:
        return str(Flight.objects.exists())


def test_where_the_project_has_a_say_in_each_call_it_begins_in_a_worker(
    peers: Peers, users: Users, places: list[str]
) -> None:
    for site_class, user in ((_Entering, users.admin), (_Remembering, users.ops)):
        peers.site = site_class(site_class.__name__.strip("_").lower())
        tool(read_only=True, site=peers.site)(echo)

        assert text_of(second(peers(token_of(user)), places, "echo")["result"]) == "a"
        assert "loop" not in places


def test_large_arguments_are_checked_in_a_worker(admin: Peer, declared: Declared, places: list[str]) -> None:
    async def take(request: HttpRequest, numbers: list[int] | None = None, text: str = "") -> str:
        """Take much."""
        return "a"

    declared.tool(take, read_only=True)

    for arguments in ({"numbers": [1] * 300}, {"text": "a" * 30_000}):
        assert text_of(second(admin, places, "take", **arguments)["result"]) == "a"
        assert places == ["thread", "thread"]


def test_a_request_of_a_browser_begins_in_a_worker(
    users: Users, peers: Peers, declared: Declared, places: list[str], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": ["https://shop.example"]}
    declared.tool(echo, read_only=True)
    peer = peers(token_of(users.admin))
    assert isinstance(peer, HTTPPeer)
    peer.call("echo")
    places.clear()
    params = {"name": "echo", "arguments": {}, "_meta": meta()}
    headers = {**peer.modern_headers("tools/call", params), "Origin": "https://shop.example"}

    answer = peer.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)

    assert text_of(answer.json["result"]) == "a"
    assert places == ["thread", "thread"]


# What the body finds.


def test_the_user_has_its_permissions_there(
    users: Users, peers: Peers, declared: Declared, places: list[str], flights: Any
) -> None:
    async def count(request: HttpRequest) -> str:
        """Count what the user sees."""
        from mcp_django import site

        return f"{request.user.has_perm('flights.view_airport')} {await site.get_queryset(Airport, request).acount()}"

    declared.tool(count, read_only=True)
    admins = text_of(second(peers(token_of(users.admin)), places, "count")["result"])
    theirs = text_of(second(peers(token_of(users.ops)), places, "count")["result"])

    assert places == ["loop", "thread"]
    assert admins == theirs == f"True {Airport.objects.count()}"


def test_a_tool_that_is_declared_later_is_looked_up_in_a_worker(
    admin: Peer, declared: Declared, places: list[str]
) -> None:
    declared.tool(echo, read_only=True)
    admin.call("echo")
    declared.tool(with_class, read_only=True)
    places.clear()

    assert text_of(admin.call("echo")) == "a"
    assert places == ["thread", "thread"]


# What administrators decide.


def test_groups_are_looked_up_in_a_worker(
    admin: Peer, ops: Peer, users: Users, declared: Declared, places: list[str]
) -> None:
    declared.tool(echo, read_only=True)
    group = Group.objects.create(name="Readers")
    users.admin.groups.add(group)
    row = Tool.objects.create(name="echo", enabled=True, restricted=True)
    row.groups.add(group)

    assert text_of(second(admin, places, "echo")["result"]) == "a"
    assert places == ["thread", "thread"]
    assert "echo" in second(ops, places, "echo")["error"]["message"]


def test_a_tool_that_is_switched_off_or_beyond_the_scope_does_not_exist_there(
    admin: Peer, users: Users, peers: Peers, declared: Declared, places: list[str]
) -> None:
    declared.tool(echo, read_only=True)

    assert (
        "echo" in second(peers(token_of(users.admin, "model:flights.flight:read")), places, "echo")["error"]["message"]
    )
    assert places == []
    Tool.objects.create(name="echo", enabled=False)
    assert "echo" in second(admin, places, "echo")["error"]["message"]
    assert places == []


def test_a_decision_that_is_forgotten_meanwhile_is_not_read_on_the_loop(
    admin: Peer, declared: Declared, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.tool(echo, read_only=True)
    admin.call("echo")
    remembered = overrides.tools.remembered

    def remembered_once(site: MCPSite) -> Any:
        rows = remembered(site)
        overrides.tools.clear()
        return rows

    monkeypatch.setattr(overrides.tools, "remembered", remembered_once)
    places.clear()

    assert text_of(admin.call("echo")) == "a"
    assert places == ["loop", "loop"]


# How it ends.


def test_what_is_not_plain_is_written_in_a_worker(admin: Peer, declared: Declared, places: list[str]) -> None:
    async def give(request: HttpRequest, which: int):  # type: ignore[no-untyped-def]
        """Return something."""
        return returned[which]

    returned = [{"a": object}, type("Text", (str,), {})("a"), "a" * 30_000, [[1] * 2_000], (1, 2)]
    declared.tool(give, read_only=True)

    for which, value in enumerate(returned):
        second(admin, places, "give", which=which)
        assert places == ["loop", "thread"], value


def test_an_error_is_told_by_a_worker_and_a_call_stands_in_the_audit_trail(
    admin: Peer, declared: Declared, places: list[str], settings: Any
) -> None:
    async def fail(request: HttpRequest) -> str:
        """Fail."""
        raise ValueError("secret")

    settings.MCP = {**settings.MCP, "AUDIT": "on"}
    declared.tool(fail, read_only=True)
    declared.tool(echo, read_only=True)

    result = second(admin, places, "fail")["result"]
    assert result["isError"] is True and "secret" not in str(result)
    assert places == ["loop"]
    second(admin, places, "echo")
    assert places == ["loop", "loop"]

    recorder.flush()
    assert list(Call.objects.filter(name="echo").values_list("outcome", flat=True)) == ["done", "done"]


def test_a_body_that_used_the_database_ends_in_a_worker(
    admin: Peer, declared: Declared, places: list[str], flights: Any
) -> None:
    async def count(request: HttpRequest) -> int:
        """Count."""
        return await Flight.objects.acount()

    declared.tool(count, read_only=True)

    assert second(admin, places, "count")["result"]["structuredContent"] == Flight.objects.count()
    assert places == ["loop", "thread"]


def test_a_crowd_of_calls_that_fail_takes_no_more_places_than_one_caller_has(
    peers: Peers, users: Users, declared: Declared, places: list[str], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "QUEUE_PER_PRINCIPAL": 1, "THREADS": 2, "TOKEN_CACHE_SECONDS": 300}
    holds, go_on = threading.Event(), threading.Event()

    def hold(request: HttpRequest) -> str:
        """Hold the place."""
        holds.set()
        go_on.wait(60)
        return "held"

    declared.tool(echo, read_only=True)
    declared.tool(hold, read_only=True)
    peer, other = peers(token_of(users.admin)), peers(token_of(users.ops))
    peer.call("echo")
    other.call("echo")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(peers(token_of(users.admin)).call, "hold")
        assert holds.wait(60)
        error = peer.error(MODERN, "tools/call", {"name": "echo"})
        assert text_of(other.call("echo")) == "a"
        go_on.set()
        assert text_of(held.result(60)) == "held"

    assert error["data"]["reason"] == "OVERLOADED" and "QUEUE_PER_PRINCIPAL" in error["message"]
    assert text_of(peer.call("echo")) == "a"


@pytest.fixture
def gate(peers: Peers, declared: Declared) -> Gate:
    """A tool ``wait`` that runs until the test lets it go, if it is to take long."""
    made = Gate(peers)

    async def wait(request: HttpRequest, long: bool = False) -> str:
        """Wait."""
        return await made.wait(request) if long else "done"

    declared.tool(wait, read_only=True)
    return made


def test_a_call_beyond_max_async_is_refused_there(
    admin: Peer, places: list[str], settings: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP = {**settings.MCP, "MAX_ASYNC": 10}
    admin.call("wait")
    taken_up: list[Any] = []
    monkeypatch.setattr(Workers, "_take_up", lambda *job: taken_up.append(job))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(admin.call, "wait", long=True)
        assert gate.has_begun()
        error = admin.error(MODERN, "tools/call", {"name": "wait", "arguments": {}})
        gate.open()
        assert text_of(call.result(60)) == "done"

    assert error["data"]["reason"] == "OVERLOADED" and "MAX_ASYNC" in error["message"]
    assert taken_up == []


def test_the_end_of_the_pool_waits_for_such_a_call(admin: Peer, places: list[str], gate: Gate) -> None:
    admin.call("wait")
    with ThreadPoolExecutor(2) as pool:
        call = pool.submit(admin.call, "wait", long=True)
        assert gate.has_begun()
        assert places[-1] == "loop"
        workers = get_workers()
        closing = pool.submit(close_workers)
        assert not closing.done()
        gate.open()

        assert text_of(call.result(60)) == "done"
        closing.result(60)
    assert workers._open == set()
