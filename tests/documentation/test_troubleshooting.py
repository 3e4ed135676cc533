"""Each symptom on docs/troubleshooting.md is provoked, and what is seen then stands below its heading."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.test import Client, RequestFactory
from django.urls import include, path
from django.utils import timezone

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.sites import all_sites
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import AccessToken, Restriction, digest
from mcp_django.test import MCPClient
from mcp_django.transports.http.routes import not_offered
from tests.api.agents import Agent, exposed
from tests.api.project import settings_extra
from tests.api.project.rows import make_rows
from tests.oauth.flow import Person, Program
from tests.oauth.test_step_up import token_with
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Answered, HTTPPeer, Peers, meta

ROOT = Path(__file__).parents[2]
PAGE = "docs/troubleshooting.md"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ALL_SCOPES = ("read", "actions", "write")
#: A text that has the form of a token, and is nobody's.
NOBODYS = "mcpdj_00000000000000000000000000000000000000000002CZclj"
UNKNOWN_MIDDLEWARE = "tests.transports.tenants.UnknownMiddleware"
URLCONF = "tests.documentation.urls_of_a_test"


# What stands on the page.


@dataclass
class Entry:
    """One heading: whose text it is, and the texts that are quoted below it."""

    heading: str
    owner: str
    quotes: list[str]

    def shows(self, text: str) -> bool:
        """Whether one of the quotes is this text; an ellipsis stands for anything."""
        return any(_pattern(quote).fullmatch(_one_line(text)) for quote in self.quotes)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _pattern(quote: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, _one_line(quote).split("…"))), re.DOTALL)


def entries() -> Iterator[Entry]:
    for section in re.split(r"^(?=### )", (ROOT / PAGE).read_text(), flags=re.MULTILINE)[1:]:
        heading, _, rest = section.partition("\n")
        mark = re.match(r"\s*<!-- (ours|django|theirs|none)(?:: .+?)? -->", rest)
        assert mark, f"no comment below {heading}"
        quotes = re.findall(r"^```text\n(.*?)\n```$", rest, re.MULTILINE | re.DOTALL)
        yield Entry(heading.removeprefix("### "), mark[1], quotes)


ENTRIES = {entry.heading: entry for entry in entries()}


# What is seen.


@dataclass
class Stage:
    """A server, its users, and clients that do something wrong."""

    users: Users
    settings: Any
    declared: Declared
    loop: LoopThread
    monkeypatch: pytest.MonkeyPatch
    caplog: pytest.LogCaptureFixture
    made: list[Peers] = field(default_factory=list)

    def mcp(self, **changes: Any) -> None:
        self.settings.MCP = {**self.settings.MCP, **changes}

    def peer(self, token: str | None = None, transport: str = "http-asgi") -> HTTPPeer:
        peers = Peers(transport, self.loop)
        self.made.append(peers)
        found = peers(token)
        assert isinstance(found, HTTPPeer)
        return found

    @property
    def admin(self) -> HTTPPeer:
        return self.peer(token_of(self.users.admin, *ALL_SCOPES))

    def token(self, **columns: Any) -> str:
        """A token of the administrator whose row has been changed."""
        made = token_of(self.users.admin)
        AccessToken.objects.filter(hash=digest(made)).update(**columns)
        return made

    def client(self, user: Any, *scopes: str, **options: Any) -> MCPClient:
        return MCPClient(user, scopes or ALL_SCOPES, raise_exceptions=False, **options)

    def below_middleware(self) -> None:
        self.settings.MIDDLEWARE = [*self.settings.MIDDLEWARE, UNKNOWN_MIDDLEWARE]

    def urls(self, *patterns: Any) -> None:
        """Another URLconf, which has these patterns."""
        module = ModuleType(URLCONF)
        module.urlpatterns = list(patterns)  # type: ignore[attr-defined]
        self.monkeypatch.setitem(sys.modules, URLCONF, module)
        self.settings.ROOT_URLCONF = URLCONF
        self.declared.forget()


Provoke = Callable[[Stage], str]
SEEN: dict[str, Provoke] = {}


def seen(heading: str) -> Callable[[Provoke], Provoke]:
    def add(function: Provoke) -> Provoke:
        assert heading not in SEEN, heading
        SEEN[heading] = function
        return function

    return add


def told(answer: Answered, status: int) -> str:
    """The message of a JSON-RPC error that came with this status."""
    assert answer.status == status, answer
    message: str = answer.json["error"]["message"]
    return message


def ask(peer: HTTPPeer, method: str, **params: Any) -> Answered:
    return peer.send(MODERN, method, params)


def heading_of(page: Any, status: int) -> str:
    assert page.status_code == status, page
    [found] = re.findall(r"<h1>(.*?)</h1>", page.content.decode(), re.DOTALL)
    return re.sub(r"<[^>]+>", "", found)


def paragraph_of(page: Any, status: int) -> str:
    assert page.status_code == status, page
    return re.sub(r"<[^>]+>", "", re.findall(r"<p\b[^>]*>(.*?)</p>", page.content.decode(), re.DOTALL)[0])


def refused(command: str, *args: str, **options: Any) -> str:
    with pytest.raises(CommandError) as raised:
        call_command(command, *args, **options)
    return str(raised.value)


def checked(number: str) -> str:
    [message] = {one.msg for one in run_checks(databases=[]) if one.id == f"mcp_django.{number}"}
    return message


def errors_of(client: MCPClient, tool: str, **arguments: Any) -> str:
    [error] = client.call(tool, raise_on_error=False, **arguments).errors
    return str(error["message"])


def notes_of(client: MCPClient, tool: str, **arguments: Any) -> list[str]:
    return list((client.call(tool, **arguments).structured or {})["notes"])


def pending_note(client: MCPClient, model: str, key: str, **values: Any) -> str:
    change: dict[str, Any] = {"model": model, "id": key, "values": values}
    confirm = client.call("update_record", **change).structured["confirm"]
    found = client.call("update_record", **change, confirm=confirm, raise_on_error=False)
    if found.is_error:
        return found.text
    assert found.structured["status"] == "pending"
    [note] = found.structured["notes"]
    return str(note)


# HTTP statuses.


@seen("400 Bad Request (400)")
def _(stage: Stage) -> str:
    answer = stage.peer(None, "http-view-wsgi").post(PING, {"Host": "evil.example"})
    assert answer.status == 400
    return re.findall(r"<h1>(.*?)</h1>", answer.body.decode())[0]


@seen("400 The header MCP-Protocol-Version is missing")
def _(stage: Stage) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
    return told(stage.admin.post(message), 400)


@seen("400 MCP-Protocol-Version is not supported")
def _(stage: Stage) -> str:
    return told(stage.admin.post(PING, {"MCP-Protocol-Version": "1999-01-01"}), 400)


@seen("401 Credentials are needed")
def _(stage: Stage) -> str:
    return told(stage.peer().post(PING), 401)


@seen("401 although the client sends a token")
def _(stage: Stage) -> str:
    return told(stage.peer(None, "http-view-wsgi").post(PING), 401)


@seen("401 The token is unknown, expired or revoked")
def _(stage: Stage) -> str:
    return told(stage.peer(NOBODYS).post(PING), 401)


@seen("401 The Authorization header must be")
def _(stage: Stage) -> str:
    return told(stage.peer("a b").post(PING), 401)


@seen("401 This token expired")
def _(stage: Stage) -> str:
    return told(stage.peer(stage.token(expires_at=timezone.now() - timedelta(days=1))).post(PING), 401)


@seen("401 This token was revoked")
def _(stage: Stage) -> str:
    return told(stage.peer(stage.token(revoked_at=timezone.now())).post(PING), 401)


@seen("401 There is no such tool for callers who are not logged in")
def _(stage: Stage) -> str:
    stage.mcp(ANONYMOUS_SCOPES=["read"])
    return told(ask(stage.peer(), "tools/call", name="create_record", arguments={}), 401)


@seen("403 The Host header names a host")
def _(stage: Stage) -> str:
    return told(stage.admin.post(PING, {"Host": "evil.example"}), 403)


@seen("403 Requests from this origin are not allowed")
def _(stage: Stage) -> str:
    return told(stage.admin.post(PING, {"Origin": "https://app.example"}), 403)


@seen("403 insufficient_scope")
def _(stage: Stage) -> str:
    peer = stage.peer(token_with(stage.users.ops, "read"))
    return told(ask(peer, "tools/call", name="flights_flight_mark_cancelled", arguments={"ids": ["1"]}), 403)


@seen("404 Session not found")
def _(stage: Stage) -> str:
    return told(stage.admin.post(PING, {"Mcp-Session-Id": "gone"}), 404)


@seen("404 Page not found")
def _(stage: Stage) -> str:
    stage.settings.DEBUG = True
    return heading_of(Client().get("/nowhere"), 404)


@seen("404 There is no such document")
def _(stage: Stage) -> str:
    # The pattern gives way to that of mcp_django.oauth, which the settings of the tests have.
    answer = not_offered(RequestFactory().get("/"))
    assert answer.status_code == 404
    return str(json.loads(answer.content)["error_description"])


@seen("404 Method not found")
def _(stage: Stage) -> str:
    return told(ask(stage.admin, "tools/lst"), 404)


@seen("405 Use POST")
def _(stage: Stage) -> str:
    return told(stage.admin.http("PUT"), 405)


@seen("405 A stream belongs to a session")
def _(stage: Stage) -> str:
    return told(stage.admin.http("GET"), 405)


@seen("405 This server runs under WSGI")
def _(stage: Stage) -> str:
    peer = stage.peer(token_of(stage.users.admin), "http-view-wsgi")
    why = told(peer.http("GET"), 405)
    assert why in told(ask(peer, "subscriptions/listen", notifications={"toolsListChanged": True}), 404)
    return why


@seen("406 Send Accept")
def _(stage: Stage) -> str:
    return told(stage.admin.post(PING, {"Accept": "text/html"}), 406)


@seen("411 Send Content-Length")
def _(stage: Stage) -> str:
    environ = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": io.BytesIO(b"{}"), "CONTENT_TYPE": "application/json"}
    headers = {"Authorization": f"Bearer {token_of(stage.users.admin)}", "Accept": "application/json"}
    answer: Any = Client(headers=headers).generic("POST", "/mcp", **environ)
    assert answer.status_code == 411
    return str(answer.json()["error"]["message"])


@seen("413 The body is longer than MAX_BODY_BYTES")
def _(stage: Stage) -> str:
    stage.mcp(MAX_BODY_BYTES=1000)
    return told(stage.admin.http("POST", b" " * 1001), 413)


@seen("415 Send Content-Type")
def _(stage: Stage) -> str:
    return told(stage.admin.post(PING, {"Content-Type": "text/plain"}), 415)


@seen("429 Your budget is used up")
def _(stage: Stage) -> str:
    stage.mcp(THROTTLES={"user": {"calls": "1/day"}})
    peer = stage.admin
    ask(peer, "tools/list")
    return told(ask(peer, "tools/list"), 429)


@seen("429 Too many credentials from your network address were wrong")
def _(stage: Stage) -> str:
    answers = [stage.peer(f"mcp_{number:043d}").post(PING) for number in range(62)]  # A minute may end between them.
    return told(next(one for one in answers if one.status == 429), 429)


@seen("Internal error")
def _(stage: Stage) -> str:
    def broken(request: Any) -> str:
        raise RuntimeError("a mistake of the project")

    stage.declared.resource("shop://broken", broken)
    answer = ask(stage.admin, "resources/read", uri="shop://broken")
    return str(answer.json["error"]["message"])


@seen("503 requests waiting")
def _(stage: Stage) -> str:
    stage.mcp(QUEUE_PER_PRINCIPAL=0)
    return told(ask(stage.admin, "tools/call", name="describe_models", arguments={}), 503)


@seen("503 All agents are paused")
def _(stage: Stage) -> str:
    Restriction.objects.create(kind="all", reason="We are looking at the bookings.")
    return told(ask(stage.admin, "tools/list"), 503)


# Tools.


def _unknown(stage: Stage) -> str:
    return told(ask(stage.admin, "tools/call", name="create_record", arguments={}), 200)


SEEN["Unknown tool"] = SEEN["create_record is not there"] = _unknown


@seen("change_api is not among your tools")
def _(stage: Stage) -> str:
    shop = of_shop(stage)
    with MCPClient(shop.anna, ["read", "write"], site=exposed()) as client:
        return notes_of(client, "describe_api", resource="order")[-1]


@seen("Actions exist that are switched off")
def _(stage: Stage) -> str:
    from mcp_django.models import Tool

    Tool.objects.filter(name__startswith="flights_").update(enabled=False)
    return notes_of(stage.client(stage.users.admin), "describe_models", model="flights.flight")[-1]


@seen("The tool failed")
def _(stage: Stage) -> str:
    def broken(request: Any) -> str:
        """Fails."""
        raise RuntimeError("a mistake of the project")

    stage.declared.tool(broken)
    return stage.client(stage.users.admin).call("broken", raise_on_error=False).text


@seen("The tool has done its work")
def _(stage: Stage) -> str:
    def long(request: Any) -> str:
        """Gives more than is shown."""
        return "x" * 2_000_000

    stage.declared.tool(long)
    return stage.client(stage.users.admin).call("long", raise_on_error=False).text


# Models, fields and rows.


@seen("No tools at all")
def _(stage: Stage) -> str:
    client = stage.client(make_staff("bare"), "read")
    assert client.list_tools() == []
    [found] = re.findall(r"You may read [^.]+\.", client.request("server/discover")["instructions"])
    return str(found)


@seen("No model of the admin is exposed")
def _(stage: Stage) -> str:
    stage.urls(path("", include("mcp_django.urls")))
    return checked("W016")


@seen("no model")
def _(stage: Stage) -> str:
    return errors_of(stage.client(stage.users.admin, "read"), "find_records", model="flights.flihgt")


@seen("no field")
def _(stage: Stage) -> str:
    client = stage.client(stage.users.admin, "read")
    return errors_of(client, "find_records", model="flights.flight", fields=["notess"])


@seen("There is no such record")
def _(stage: Stage) -> str:
    found = stage.client(stage.users.admin, "read").call(
        "get_record", raise_on_error=False, model="flights.flight", id="99999"
    )
    return found.text


@seen("No rows, and a rule")
def _(stage: Stage) -> str:
    client = stage.client(stage.users.ops, "read")
    [note] = notes_of(client, "find_records", model="flights.flight", filter={"origin": "EWR"})
    return str(note)


@seen("Resource not found")
def _(stage: Stage) -> str:
    answer = ask(stage.admin, "resources/read", uri="db://flights/flight/99999")
    return str(answer.json["error"]["message"])


# Changes that people agree to.


@seen("The user must agree on this page")
def _(stage: Stage) -> str:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    stage.declared.model(Airport, consent={"update": "ask"})
    return pending_note(stage.client(stage.users.admin), "flights.airport", "JFK", name="Kennedy")


@seen("Other people than the user must approve it")
def _(stage: Stage) -> str:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    stage.declared.model(Flight, consent={"update": "approve"})
    return pending_note(stage.client(stage.users.ops), "flights.flight", "1", notes="fog")


@seen("nobody can")
def _(stage: Stage) -> str:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    stage.declared.model(Flight, consent={"update": "approve"})
    type(stage.users.admin).objects.exclude(pk=stage.users.admin.pk).update(is_active=False)
    return pending_note(stage.client(stage.users.admin), "flights.flight", "1", notes="fog")


# Logging in with OAuth.


@seen("This site does not know the app")
def _(stage: Stage) -> str:
    return paragraph_of(Person(stage.users.admin).open(Program(client_id="nobody").url()), 400)


@seen("an address that is not its own")
def _(stage: Stage) -> str:
    return paragraph_of(Person(stage.users.admin).open(Program(redirect_uri="https://evil.example/").url()), 400)


@seen("You may not connect apps")
def _(stage: Stage) -> str:
    stage.mcp(OAUTH_USERS="flights.nothing")
    return paragraph_of(Person(stage.users.ops).open(Program().url()), 403)


@seen("Please enter the correct username and password for a staff account")
def _(stage: Stage) -> str:
    type(stage.users.ops).objects.create_user("customer", password="customer")
    stage.settings.LOGIN_URL = "/nowhere/"
    browser = Client()
    way = browser.get(Program().url())["Location"]
    assert way.startswith("/admin/login/")
    page = browser.post(way, {"username": "customer", "password": "customer"})
    return re.findall(r'class="errornote">(.*?)</p>', page.content.decode(), re.DOTALL)[0]


@seen("The login begins again and again")
def _(stage: Stage) -> str:
    return told(stage.peer(stage.token(resource="https://other.example/mcp")).post(PING), 401)


@seen("Clients cannot log in")
def _(stage: Stage) -> str:
    from mcp_django.oauth.management.commands import mcp_oauth

    stage.monkeypatch.setattr(mcp_oauth, "_over_network", mcp_oauth._in_process)
    stage.settings.ALLOWED_HOSTS = ["example.com", "other.example"]
    stage.mcp(OAUTH_ORIGIN="https://other.example")
    return refused("mcp_oauth", "check", url="https://example.com/mcp", stdout=io.StringIO(), stderr=io.StringIO())


@seen("invalid_grant")
def _(stage: Stage) -> str:
    answer = Program().refresh("nothing")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    return str(answer.json()["error_description"])


# Push.


@seen("Nothing is pushed")
def _(stage: Stage) -> str:
    stage.settings.CHANNEL_LAYERS = {}
    stage.monkeypatch.setenv("WEB_CONCURRENCY", "4")
    return checked("W011")


@seen("This server answers below the middleware of its project")
def _(stage: Stage) -> str:
    stage.below_middleware()
    return told(ask(stage.admin, "subscriptions/listen", notifications={"toolsListChanged": True}), 404)


@seen("their changes are not pushed")
def _(stage: Stage) -> str:
    from mcp_django.management.arguments import warn_of_a_local_bus

    with stage.caplog.at_level(logging.WARNING, "mcp_django"):
        warn_of_a_local_bus()
    [record] = stage.caplog.records
    return record.getMessage()


# Slow answers and timeouts.


@seen("The request was stopped")
def _(stage: Stage) -> str:
    def slow(request: Any) -> str:
        """Takes longer than a request may."""
        end = time.monotonic() + 30
        while time.monotonic() < end and not request.mcp.cancelled:
            time.sleep(0.01)
        return ""

    stage.declared.tool(slow)
    stage.mcp(REQUEST_SECONDS=0.1)
    return str(ask(stage.admin, "tools/call", name="slow", arguments={}).json["error"]["message"])


@seen("The query was stopped")
def _(stage: Stage) -> str:
    from mcp_django.protocol.errors import TooSlow

    def read(*_: Any, **__: Any) -> Any:
        raise TooSlow(seconds=5.0)

    # A query that really takes so long: tests/bridge/resources/test_rows.py.
    stage.monkeypatch.setattr("mcp_django.bridge.resources.reading.rows.find", read)
    client = stage.client(stage.users.admin, "read")
    return client.call("find_records", raise_on_error=False, model="flights.flight").text


# An API, and programs without a host.


def of_shop(stage: Stage) -> Any:
    """The project with an API, as the fixture ``shop`` of tests/api has it."""
    stage.settings.ROOT_URLCONF, stage.settings.MIDDLEWARE = settings_extra.ROOT_URLCONF, settings_extra.MIDDLEWARE
    return make_rows()


@seen("refuses this (status 400)")
def _(stage: Stage) -> str:
    shop = of_shop(stage)
    stage.settings.ALLOWED_HOSTS = ["shop.example.com"]
    stage.mcp(BASE_URL="http://localhost")
    return Agent(exposed(), shop.anna).told("order.list")


@seen("Requests over gRPC name no host")
def _(stage: Stage) -> str:
    pytest.importorskip("grpc")
    stage.settings.ALLOWED_HOSTS = ["example.com"]
    stage.mcp(BASE_URL="https://other.example.com")
    return refused("mcp_grpc", port=0)


# stdio.


@seen("There is no user")
def _(stage: Stage) -> str:
    return refused("mcp_stdio", user="annie")


@seen("Stdio does not pass")
def _(stage: Stage) -> str:
    stage.below_middleware()
    return refused("mcp_stdio", user="admin")


# Messages of manage.py check.


@seen("The URLconf has no endpoint")
def _(stage: Stage) -> str:
    for site in all_sites():  # Those of other tests may have been served too.
        stage.monkeypatch.setattr(site, "_has_urls", False)
    stage.urls(path("admin/", admin.site.urls))
    return checked("W033")


@seen("MCP has no key")
def _(stage: Stage) -> str:
    stage.settings.MCP = {"SERVER_NAMES": ""}
    return checked("E001")


@seen("may choose a tenant or guard the site")
def _(stage: Stage) -> str:
    stage.below_middleware()
    return checked("W002")


@seen("Nobody can log in")
def _(stage: Stage) -> str:
    stage.settings.MIDDLEWARE = [one for one in stage.settings.MIDDLEWARE if "Session" not in one]
    return checked("E023")


# The tests.


@pytest.fixture
def stage(
    users: Users, flights: Any, settings: Any, declared: Declared, serving_loop: LoopThread, transactional_db: None,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> Iterator[Stage]:  # fmt: skip
    with ExitStack() as ends:
        made = Stage(users, settings, declared, serving_loop, monkeypatch, caplog)
        ends.callback(lambda: [peers.close() for peers in made.made])
        yield made


@pytest.mark.every_case
@pytest.mark.parametrize("heading", SEEN)
def test_what_is_seen_stands_below_its_heading(stage: Stage, heading: str) -> None:
    text = SEEN[heading](stage)

    assert ENTRIES[heading].shows(text), (text, ENTRIES[heading].quotes)


def test_each_text_of_ours_and_of_django_is_provoked() -> None:
    provoked = {heading for heading, entry in ENTRIES.items() if entry.owner in ("ours", "django")}

    assert provoked == set(SEEN)
    assert all(ENTRIES[heading].quotes for heading in provoked)
