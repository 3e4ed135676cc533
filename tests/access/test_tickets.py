"""Tickets: given to a token over HTTP, good for one socket, and for nothing else."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application as get_django_application
from django.db import connection
from django.test import Client
from django.utils import timezone

from mcp_django.access import tickets
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken, Ticket, digest
from mcp_django.protocol.errors import Unauthenticated
from mcp_django.routing import get_asgi_application
from tests.axes import HTTP
from tests.support.asking import request_of
from tests.support.challenges import own_part
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import Answered, HTTPPeer, Message, Peers, Socket, meta
from tests.support.raw import error

over_http = pytest.mark.parametrize("transport", HTTP)

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
REFUSED = error(-32600, "UNAUTHENTICATED", "The ticket is unknown, used or expired.")
CHALLENGE = 'Bearer realm="mcp", error="invalid_token"'


def desk(peers: Peers, token: str | None) -> HTTPPeer:
    """A client that asks for tickets."""
    peer = peers(token)
    assert isinstance(peer, HTTPPeer)
    peer.path = "/mcp/ticket"
    return peer


def ask(peer: HTTPPeer, **headers: str) -> Answered:
    return peer.http("POST", b"", headers)


def ticket_of(user: User, *scopes: str) -> str:
    """A ticket, without the way to it."""
    token = AccessToken.objects.get(hash=digest(token_of(user, *scopes)))
    return tickets.issue(Principal(user, frozenset(token.scopes), token, token.pk)).reveal()


@pytest.fixture
def open_socket(serving_loop: LoopThread, transactional_db: None) -> Any:
    """``open_socket(query, **headers)``: a socket, or its refusal."""
    application = get_asgi_application(get_django_application())
    opened: list[Socket] = []

    def open_socket(query: str, **headers: str) -> Socket:
        opened.append(Socket(serving_loop, application, headers, query=query))
        return opened[-1]

    yield open_socket
    for socket in opened:
        socket.close()


def assert_serves(socket: Socket) -> Message:
    assert socket.accepted, socket.refused
    answer: Message = socket.ask(LIST)
    assert "find_records" in [tool["name"] for tool in answer["result"]["tools"]]
    return answer


def refusal(socket: Socket) -> tuple[int, str | None, Any]:
    assert not socket.accepted
    start, body = socket.refused
    challenge = dict(start["headers"]).get(b"www-authenticate")
    return start["status"], None if challenge is None else own_part(challenge.decode()), json.loads(body["body"])


# The desk.


@over_http
def test_a_token_gets_a_ticket_that_opens_a_socket(users: Users, peers: Peers, open_socket: Any) -> None:
    answer = ask(desk(peers, token_of(users.admin)))

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json) == {"ticket", "expires_in"}
    assert answer.json["expires_in"] == 30
    assert_serves(open_socket(f"ticket={answer.json['ticket']}"))


def test_another_method_is_answered_in_json(users: Users, peers: Peers) -> None:
    peer = desk(peers, token_of(users.admin))

    for path, method in product(["/mcp/ticket", "/mcp/ticket/"], ["GET", "PUT", "DELETE", "PATCH"]):
        peer.path = path
        answer = peer.http(method)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert answer.json == error(-32600, "METHOD_NOT_ALLOWED", "Use POST.")
    assert not Ticket.objects.exists()


@over_http
def test_nobody_gets_no_ticket(users: Users, peers: Peers) -> None:
    browser = Client()
    browser.force_login(users.admin)
    cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}

    for answer in (ask(desk(peers, "mcp_unknown")), ask(desk(peers, None)), ask(desk(peers, None), **cookie)):
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith('Bearer realm="mcp"')
        assert answer.json["error"]["data"]["reason"] == "UNAUTHENTICATED"
    assert not Ticket.objects.exists()


def test_who_has_no_token_gets_no_ticket_where_the_project_lets_others_in(
    users: Users, peers: Peers, settings: Any
) -> None:
    own = ["tests.access.test_authentication.ProjectAuthentication"]
    before, needed = settings.MCP, "A ticket needs a token: send Authorization: Bearer <token>."
    other = "Only an access token of this site can get a ticket, and these credentials are another kind."

    settings.MCP = {**before, "ANONYMOUS_SCOPES": ["read"]}
    nobody = ask(desk(peers, None))
    settings.MCP = {**before, "AUTHENTICATION_CLASSES": own}
    by_project = ask(desk(peers, None), Authorization="Project admin")

    assert (nobody.status, nobody.json) == (401, error(-32600, "UNAUTHENTICATED", needed))
    assert (by_project.status, by_project.json) == (403, error(-32600, "FORBIDDEN", other))


def test_a_page_of_an_allowed_origin_may_read_its_ticket_and_one_of_another_gets_none(
    users: Users, peers: Peers, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": ["https://app.example.com"]}
    peer = desk(peers, token_of(users.admin))

    preflight = peer.http("OPTIONS", headers={"Origin": "https://app.example.com"})
    refused = ask(peer, Origin="https://evil.example")
    before = Ticket.objects.count()
    answer = ask(peer, Origin="https://app.example.com")

    assert (refused.status, refused.json["error"]["data"]["reason"], before) == (403, "FORBIDDEN", 0)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-methods"] == "POST"
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "access-control-allow-credentials" not in answer.headers


# The socket.


def test_a_used_an_expired_or_a_guessed_ticket_opens_no_socket(users: Users, open_socket: Any) -> None:
    used, expired = ticket_of(users.admin), ticket_of(users.admin)
    assert_serves(open_socket(f"ticket={used}"))
    Ticket.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    ticket_of(users.viewer)

    for query in (
        f"ticket={used}", f"ticket={expired}", "ticket=", "ticket=guessed", "ticket", "a=b&ticket=guessed",
        "%74icket=guessed",
    ):  # fmt: skip
        assert refusal(open_socket(query)) == (401, CHALLENGE, REFUSED), query


def test_neither_two_tickets_nor_an_access_token_in_a_url_open_a_socket(users: Users, open_socket: Any) -> None:
    first, second, token = ticket_of(users.admin), ticket_of(users.admin), token_of(users.admin)
    named = [f"{parameter}={token}" for parameter in ("ticket", "token", "access_token", "authorization")]

    for query in (f"ticket={first}&ticket={second}", *named):
        assert refusal(open_socket(query))[0] == 401, query


def test_neither_a_ticket_nor_a_token_in_a_url_opens_the_endpoint(users: Users, peers: Peers) -> None:
    peer, token = peers(None), token_of(users.admin)
    assert isinstance(peer, HTTPPeer)

    for query in (f"ticket={ticket_of(users.admin)}", f"token={token}", f"access_token={token}"):
        peer.query = query
        assert peer.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 401, query


def test_a_ticket_beside_a_token_is_refused(users: Users, open_socket: Any) -> None:
    socket = open_socket(f"ticket={ticket_of(users.viewer)}", Authorization=f"Bearer {token_of(users.admin)}")

    message = "Send a ticket or the header Authorization, not both."
    assert refusal(socket) == (400, None, error(-32600, "INVALID_REQUEST", message))


def test_a_ticket_of_a_token_that_no_longer_holds_opens_no_socket(users: Users, open_socket: Any) -> None:
    for end in (
        lambda: AccessToken.objects.update(revoked_at=timezone.now()),
        lambda: AccessToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1)),
        lambda: User.objects.filter(pk=users.viewer.pk).update(is_active=False),
    ):
        ticket = ticket_of(users.viewer)
        end()
        assert refusal(open_socket(f"ticket={ticket}"))[0] == 401
        assert not Ticket.objects.exists()


def test_a_ticket_of_a_request_that_is_refused_for_its_origin_or_its_token_is_burnt(
    users: Users, open_socket: Any
) -> None:
    for headers, status in (({"Origin": "https://evil.example"}, 403), ({"Authorization": "Bearer mcp_unknown"}, 400)):
        ticket = ticket_of(users.admin)
        assert refusal(open_socket(f"ticket={ticket}", **headers))[0] == status

        assert refusal(open_socket(f"ticket={ticket}")) == (401, CHALLENGE, REFUSED)
        assert not Ticket.objects.exists()


def test_a_ticket_queues_as_its_user(users: Users, open_socket: Any) -> None:
    ticket = ticket_of(users.admin)
    request = request_of(users.admin)

    assert tickets.queue_key(ticket, request) == f"user:{users.admin.pk}"
    assert tickets.queue_key("guessed", request).startswith("address:")


def test_a_page_of_an_allowed_origin_may_use_a_ticket_whoever_is_logged_in(
    users: Users, open_socket: Any, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": ["https://app.example.com"]}

    socket = open_socket(
        f"ticket={ticket_of(users.admin)}", Origin="https://app.example.com", Cookie="sessionid=somebody"
    )

    assert_serves(socket)


def test_a_ticket_gives_what_its_token_gives_and_no_more(users: Users, flights: Any, open_socket: Any) -> None:
    cancel = "flights_flight_mark_cancelled"
    reading = open_socket(f"ticket={ticket_of(users.admin, 'read')}")
    acting = open_socket(f"ticket={ticket_of(users.admin, 'read', 'actions')}")
    params = {"name": cancel, "arguments": {"ids": [flights[0].pk]}, "_meta": meta()}

    tools = [{tool["name"] for tool in assert_serves(socket)["result"]["tools"]} for socket in (reading, acting)]
    answer = acting.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    assert cancel in tools[1] - tools[0]
    assert answer["result"]["isError"] is False
    flights[0].refresh_from_db()
    assert flights[0].status == "cancelled"


@pytest.mark.parametrize("idle", [True, False])
def test_a_revoked_token_ends_what_its_ticket_opened(users: Users, open_socket: Any, settings: Any, idle: bool) -> None:
    if not idle:
        settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 60, "TOKEN_CACHE_SECONDS": 60}
    socket = open_socket(f"ticket={ticket_of(users.admin)}")
    assert_serves(socket)

    AccessToken.objects.get().revoke()
    if not idle:
        socket.send(LIST)

    assert socket.wait_closed() == 1008
    assert socket.answers.empty()


def test_no_hook_and_no_log_learns_the_ticket(
    users: Users, open_socket: Any, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    def look(request: Any) -> str:
        """What a tool sees of the request."""
        return f"{request.META} {request.GET} {request.get_full_path()} {vars(request)}"

    declared.tool(look, read_only=True)
    caplog.set_level("DEBUG")
    ticket = ticket_of(users.admin)
    socket = open_socket(f"tenant=a&ticket={ticket}&x=1")
    open_socket(f"ticket={ticket}")

    call = {"name": "look", "arguments": {}, "_meta": meta()}
    answer = socket.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})

    assert "tenant=a&x=1" in answer["result"]["content"][0]["text"]
    assert ticket not in answer["result"]["content"][0]["text"]
    assert ticket not in caplog.text


# What is kept of them.


@pytest.mark.every_database
def test_only_the_hash_of_a_ticket_is_stored_and_expired_ones_are_cleared_when_the_next_one_is_given(
    users: Users,
) -> None:
    ticket_of(users.admin)
    Ticket.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    kept = ticket_of(users.viewer)

    assert [stored.hash for stored in Ticket.objects.all()] == [digest(kept)]


@pytest.mark.every_database
def test_one_token_cannot_fill_the_table(users: Users) -> None:
    token = AccessToken.objects.get(hash=digest(token_of(users.admin)))
    principal = Principal(users.admin, frozenset({"read"}), token, token.pk)

    given = [tickets.issue(principal) for _ in range(103)]

    assert Ticket.objects.count() == 100
    assert tickets.redeem(given[-1], from_settings()).user == users.admin
    with pytest.raises(Unauthenticated):
        tickets.redeem(given[0], from_settings())


@pytest.mark.every_database
def test_two_sockets_that_race_for_a_ticket_are_one(transactional_db: None, users: Users) -> None:
    ticket = ticket_of(users.admin)
    start = threading.Barrier(8)

    def redeem() -> Source | None:
        start.wait(60)
        try:
            return tickets.redeem(ticket, from_settings()).source
        except Unauthenticated:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        redeemed = [future.result(60) for future in [pool.submit(redeem) for _ in range(8)]]

    assert [source for source in redeemed if source is not None] == [Source.TICKET]
