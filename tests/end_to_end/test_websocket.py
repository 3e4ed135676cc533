"""A WebSocket client against the served demo: both eras, the ways to authenticate, and push."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.end_to_end.servers import Person, Served
from tests.support import schemas
from tests.support.base import offered
from tests.support.peers import MODERN, Message, meta

pytestmark = pytest.mark.more("each server; `make test` has one")

LEGACY = "2025-11-25"
ERAS = (MODERN, LEGACY)


class Line:
    """A WebSocket with a client of one revision at its end; what comes is held against the revision's schema."""

    def __init__(self, socket: ClientConnection, revision: str) -> None:
        self.socket = socket
        self.revision = revision
        self.ids = itertools.count(1)
        self.notifications: list[Message] = []

    def send(self, message: Message) -> None:
        self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    def receive(self) -> Message:
        message: Message = json.loads(self.socket.recv(timeout=60))
        return message

    def request(self, method: str, params: Message | None = None) -> Message:
        """The answer to a request; notifications that come before it are kept."""
        request_id = next(self.ids)
        envelope = {"_meta": meta()} if self.revision == MODERN else {}
        self.send({"id": request_id, "method": method, "params": {**(params or {}), **envelope}})
        while "method" in (message := self.receive()):
            self.notifications.append(message)
        assert message["id"] == request_id
        schemas.check(message, self.revision, method)
        return message

    def result(self, method: str, params: Message | None = None) -> Any:
        answer = self.request(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def watch(self, uri: str) -> None:
        if self.revision != MODERN:
            self.result("resources/subscribe", {"uri": uri})
            return
        params = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": meta()}
        self.send({"id": "listen", "method": "subscriptions/listen", "params": params})
        assert self.next_notification()["params"]["notifications"] == {"resourceSubscriptions": [uri]}

    def next_notification(self) -> Message:
        message = self.notifications.pop(0) if self.notifications else self.receive()
        schemas.check(message, self.revision)
        return message


@pytest.fixture
def dial(served: Served, token: str) -> Iterator[Callable[[str], Line]]:
    """``dial(revision)``: a line that is ready, with its session in a legacy revision."""
    sockets = ExitStack()

    def open_line(revision: str) -> Line:
        headers = {"Authorization": f"Bearer {token}"}
        socket = connect(served.socket_url, open_timeout=60, subprotocols=["mcp"], additional_headers=headers)
        line = Line(sockets.enter_context(socket), revision)
        if revision != MODERN:
            client = {"name": "tests", "version": "1"}
            line.result("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": client})
            line.send({"method": "notifications/initialized"})
        return line

    with sockets:
        yield open_line


def test_the_subprotocol_is_chosen_and_the_server_introduces_itself(dial: Callable[[str], Line]) -> None:
    line = dial(MODERN)

    discovered = line.result("server/discover")

    assert line.socket.subprotocol == "mcp"
    assert discovered["supportedVersions"] == [MODERN]
    assert discovered["capabilities"] == offered("2026-07-28", push=True)


@pytest.mark.parametrize("revision", ERAS)
def test_lists_reads_questions_and_actions_work_on_one_socket(dial: Callable[[str], Line], revision: str) -> None:
    line = dial(revision)
    key = 40 + ERAS.index(revision)

    tools = line.result("tools/list")["tools"]
    [contents] = line.result("resources/read", {"uri": "db://flights/airline/UA"})["contents"]
    arguments = {"model": "flights.flight", "filter": {"id": key}, "fields": ["status"]}
    line.result("tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [key]}})
    found = line.result("tools/call", {"name": "find_records", "arguments": arguments})

    assert "find_records" in [tool["name"] for tool in tools]
    assert json.loads(contents["text"]) == {"carrier": "UA", "name": "United Air Lines Inc."}
    assert found["structuredContent"] == {"columns": ["id", "status"], "rows": [[key, "cancelled"]]}


@pytest.mark.parametrize("revision", ERAS)
def test_a_change_in_the_admin_is_pushed(served: Served, dial: Callable[[str], Line], revision: str) -> None:
    person = Person(served, "admin", "admin")
    line = dial(revision)
    line.watch("db://flights/airline/UA")

    person.post("/admin/flights/airline/UA/change/", carrier="UA", name="United Air Lines Inc.")
    told = line.next_notification()
    person.close()

    tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": "listen"}} if revision == MODERN else {}
    assert told == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "db://flights/airline/UA", **tag},
    }


@pytest.mark.parametrize("revision", ERAS)
def test_an_action_of_another_client_is_pushed(dial: Callable[[str], Line], revision: str) -> None:
    key = 50 + ERAS.index(revision)
    line, other = dial(revision), dial(MODERN)
    line.watch(f"db://flights/flight/{key}")

    other.result("tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [key]}})

    assert line.next_notification()["params"]["uri"] == f"db://flights/flight/{key}"


def test_a_client_that_can_set_no_header_sends_its_token_as_the_password_of_the_url(served: Served, token: str) -> None:
    url = served.socket_url.replace("ws://", f"ws://agent:{token}@")

    with connect(url, open_timeout=60, subprotocols=["mcp"]) as socket:
        tools = Line(socket, MODERN).result("tools/list")["tools"]

    assert tools


def test_a_page_of_the_site_connects_with_the_login_of_its_user(served: Served) -> None:
    person = Person(served, "viewer", "viewer")
    cookie = f"sessionid={person.client.cookies['sessionid']}"
    person.close()

    with connect(
        served.socket_url, open_timeout=60, origin=Origin(served.origin), additional_headers={"Cookie": cookie}
    ) as socket:
        resources = Line(socket, MODERN).result("resources/list")["resources"]

    assert [resource["uri"] for resource in resources if resource["uri"].startswith("db:")] == [
        "db://flights/airline",
        "db://flights/airport",
        "db://flights/flight",
    ]


def test_cross_site_websocket_hijacking_a_login_from_a_foreign_page_is_refused(served: Served) -> None:
    person = Person(served, "admin", "admin")
    cookie = f"sessionid={person.client.cookies['sessionid']}"
    person.close()

    with pytest.raises(InvalidStatus) as refusal:
        connect(
            served.socket_url,
            open_timeout=60,
            origin=Origin("https://evil.example"),
            additional_headers={"Cookie": cookie},
        )

    assert refusal.value.response.status_code == 403


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer mcp_guessed"}], ids=["no token", "guessed token"])
def test_a_socket_without_a_valid_token_is_refused(served: Served, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        connect(served.socket_url, open_timeout=60, additional_headers=headers)

    assert refusal.value.response.status_code in (401, 403)
