"""What stands in the audit trail after a request."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpRequest

from demo_project.flights.models import Flight
from mcp_django import ModelMCP, tool
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import AccessToken, Call, Tool
from tests.audit.conftest import Rows
from tests.axes import DUPLEX
from tests.bridge.uploads.conftest import Uploader, read_file
from tests.bridge.writes.conftest import Writer
from tests.end_to_end.servers import wait_for
from tests.shop.models import Tag
from tests.support.base import LEGACY, MODERN, wanted_of
from tests.support.data import Users, make_flights, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import ASGIPeer, DuplexPeer, Peer, Peers, meta

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.own_form
@pytest.mark.every_transport
def test_a_call_is_written_down_with_who_what_and_what_came_of_it(
    peers: Peers, users: Any, flights: Any, rows: Rows, transport: str
) -> None:
    peer = peers(token_of(users.ops, name="laptop"))

    answer = peer.result(
        MODERN,
        "tools/call",
        {
            "name": "find_records",
            "arguments": {"model": "flights.flight", "limit": 3},
            "_meta": peer.meta(traceparent=f"00-{TRACE}-b7ad6b7169203331-01"),
        },
    )

    [row] = rows()
    token = AccessToken.objects.filter(user=users.ops).latest("pk")
    assert len(answer["structuredContent"]["rows"]) == 3
    assert row.pop("ms") > 0 and row.pop("queries") > 0 and row.pop("bytes") > 300 and row.pop("at") and row.pop("id")
    address = "" if transport == "stdio" else "127.0.0.1"
    by_token = {"token_id": token.pk, "token_name": "laptop"} if transport != "stdio" else {}
    assert row.pop("address") in (address, "")
    assert row.pop("request_id")
    assert {name: row[name] for name in ("token_id", "token_name") if by_token} == by_token
    expected = {
        "site": "mcp", "kind": "call", "outcome": "done", "reason": "", "user_id": str(users.ops.pk),
        "user_name": "ops", "client_id": "", "client_name": "tests", "revision": MODERN, "method": "tools/call",
        "name": "find_records", "model": "flights.flight", "uri": "", "arguments": '["model","limit"]', "values": "",
        "keys": "", "rows": 3, "trace_id": TRACE, "count": 1, "transport": transport.partition("-")[0],
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_reads_prompts_and_subscriptions_are_written_down(
    peers: Peers, users: Any, flights: Any, rows: Rows, revision: str
) -> None:
    peer = peers(token_of(users.admin))

    peer.result(revision, "resources/read", {"uri": "db://flights/flight?origin=JFK&limit=2"})
    peer.result(revision, "resources/read", {"uri": "db://flights/flight/3"})
    peer.watch(revision, ["db://flights/flight/4"])

    found = rows("kind", "method", "uri", "model", "rows", "outcome", "arguments")
    read = {"kind": "read", "method": "resources/read", "model": "flights.flight", "outcome": "done", "arguments": ""}
    assert found[0] == {**read, "uri": "db://flights/flight", "rows": 2}
    assert found[1] == {**read, "uri": "db://flights/flight/3", "rows": 1}
    assert (found[2]["kind"], found[2]["outcome"]) == ("subscription", "done")
    assert "db://flights/flight/4" in (found[2]["uri"], *json.loads(found[2]["arguments"] or "[]"))


def test_lists_are_not_written_down_and_completion_where_the_project_wants_it(
    ops: Peer, audited: Callable[..., None], rows: Rows, flights: Any
) -> None:
    reference = {"type": "ref/resource", "uri": "db://flights/flight/{id}"}
    ops.result(MODERN, "tools/list")
    ops.result(MODERN, "resources/list")
    ops.result(MODERN, "server/discover")

    for is_on, written in ((False, []), (True, [{"kind": "completion"}])):
        audited(AUDIT_COMPLETION=is_on)
        ops.result(MODERN, "completion/complete", {"ref": reference, "argument": {"name": "id", "value": "1"}})
        assert rows("kind") == written


def test_off_writes_nothing(peers: Peers, users: Any, audited: Callable[..., None], rows: Rows, flights: Any) -> None:
    audited(AUDIT="off")

    peers(token_of(users.ops)).call("find_records", model="flights.flight")

    assert rows() == []


@pytest.mark.every_database
def test_the_keys_of_changed_rows_are_written_down(peers: Peers, users: Any, flights: Any, rows: Rows) -> None:
    switch_on("flights_flight_mark_cancelled")
    peer = peers(token_of(users.admin))

    peer.call("flights_flight_mark_cancelled", ids=["3", "1"])

    [row] = rows("name", "model", "keys", "outcome", "arguments")
    assert row == {
        "name": "flights_flight_mark_cancelled",
        "model": "flights.flight",
        "keys": " 3 1 ",
        "outcome": "done",
        "arguments": '["ids"]',
    }
    assert Call.objects.filter(keys__contains=" 1 ").exists()


def test_a_tool_that_says_that_it_failed_has_failed(peers: Peers, users: Any, rows: Rows, declared: Any) -> None:
    def broken(request: Any) -> str:
        """Fails."""
        raise ValueError("secret text")

    declared.tool(broken)

    peers(token_of(users.ops)).call("broken")

    assert rows("name", "outcome") == [{"name": "broken", "outcome": "failed"}]


def test_a_question_is_a_row_and_the_run_with_the_answer_another(
    peers: Peers, users: Any, rows: Rows, declared: Any
) -> None:
    def careful(request: Any) -> str:
        """Asks first."""
        return str(request.mcp.elicit("Sure?", {"type": "object", "properties": {}}).action)

    declared.tool(careful)
    peer = peers(token_of(users.ops))
    peer.capabilities = {"elicitation": {}}

    asked = peer.result(MODERN, "tools/call", {"name": "careful", "arguments": {}})
    [key] = asked["inputRequests"]
    answers = {"inputResponses": {key: {"action": "accept", "content": {}}}, "requestState": asked["requestState"]}
    peer.result(MODERN, "tools/call", {"name": "careful", "arguments": {}, **answers})

    assert [row["outcome"] for row in rows("outcome")] == ["asked", "done"]


def test_rows_outlive_the_user_the_token_and_the_tool(peers: Peers, users: Any, flights: Any, rows: Rows) -> None:
    user = User.objects.create_superuser("leaving")
    peers(token_of(user, name="old")).call("find_records", model="flights.flight")
    recorded = rows("user_name", "token_name", "name")

    user.delete()
    Tool.objects.all().delete()

    assert rows("user_name", "token_name", "name")[: len(recorded)] == recorded
    assert recorded[-1] == {"user_name": "leaving", "token_name": "old", "name": "find_records"}


def test_a_listen_names_what_it_watches(peers: Peers, users: Any, flights: Any, rows: Rows) -> None:
    peer = peers(token_of(users.ops))

    peer.watch(MODERN, ["db://flights/flight?origin=JFK", "db://flights/flight/2", "somewhere://secret"])

    [row] = rows("method", "arguments")
    assert row["method"] == "subscriptions/listen"
    assert json.loads(row["arguments"]) == ["db://flights/flight", "db://flights/flight/2", "*"]
    assert wanted_of([])


@pytest.mark.usefixtures("one_minute")
def test_a_caller_without_a_user_is_counted_and_not_listed(
    peers: Peers, flights: Any, audited: Callable[..., None], rows: Rows
) -> None:
    audited(ANONYMOUS_SCOPES=["read"])
    peer = peers(None)

    for _ in range(3):
        peer.request(MODERN, "tools/call", {"name": "find_records", "arguments": {"model": "flights.flight"}})

    assert rows("kind", "user_id", "name", "count") == [{"kind": "call", "user_id": "", "name": "", "count": 3}]


# Values: those that the project allows by name, and no other.


class Audited(ModelMCP):
    fields = ["number", "distance", "status"]
    audit_fields = ["number", "status", "notes"]


def test_the_values_of_allowed_fields_in_filters_and_of_none_that_the_policy_hides(
    peers: Peers, users: Any, flights: Any, rows: Rows, declared: Any
) -> None:
    declared.model(Flight, Audited)
    peer = peers(token_of(users.admin))

    either = [{"status": "on_time"}, {"not": {"number__gte": 9}}]
    filters = {"number__in": [1001, 1002], "distance__gt": 5, "any": either}
    peer.call("find_records", model="flights.flight", filter=filters)
    peer.read("db://flights/flight?number=1003&distance=1")
    hidden = {"model": "flights.flight", "filter": {"notes": "x"}}
    peer.request(MODERN, "tools/call", {"name": "find_records", "arguments": hidden})

    *found, last = (row["values"] for row in rows("values"))
    assert [json.loads(values) for values in found] == [
        {"number__in": [1001, 1002], "status": "on_time", "number__gte": 9}, {"number": "1003"},
    ]  # fmt: skip
    assert last == ""


def test_the_values_of_allowed_arguments(peers: Peers, users: Any, rows: Rows, declared: Any) -> None:
    def move(request: Any, reason: str, note: str, seats: list[int]) -> str:
        """Moves."""
        return "Done"

    declared.tool(move, audit=["reason", "seats"])

    peers(token_of(users.ops)).call("move", reason="r" * 500, note="private", seats=[1, 2])

    [row] = rows("values", "arguments")
    assert json.loads(row["values"]) == {"reason": "r" * 100 + "…", "seats": [1, 2]}
    assert json.loads(row["arguments"]) == ["reason", "note", "seats"]


def test_an_argument_that_is_unknown_or_a_secret_cannot_be_named() -> None:
    def enter(request: Any, password: str) -> str:
        """Enters."""
        return ""

    for name, said in (("other", "other"), ("password", "secret")):
        with pytest.raises(ImproperlyConfigured, match=said):
            tool(audit=[name])(enter)


# Writing through the forms of the admin, and uploads.


@pytest.mark.usefixtures("transactional_db")
def test_a_change_names_its_model_its_rows_and_no_values(users: Users, rows: Rows) -> None:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    flight = make_flights(3)[0]
    agent = Writer(users.admin)

    agent.confirmed("update_record", model="flights.flight", id=str(flight.pk), values={"notes": "a secret"})
    agent.refused("update_record", model="flights.flight", id=str(flight.pk), values={"distance": -1})
    agent.confirmed("create_record", model="flights.airline", values={"carrier": "ZZ", "name": "Zed"})

    shown = {"name": "update_record", "model": "flights.flight", "keys": "", "outcome": "previewed", "values": ""}
    # A key that is a text may say whose the row is.
    create = {"name": "create_record", "model": "flights.airline", "keys": "", "outcome": "previewed", "values": ""}
    assert rows(*shown) == [
        shown, {**shown, "keys": f" {flight.pk} ", "outcome": "done"}, {**shown, "outcome": "failed"},
        create, {**create, "outcome": "done"},
    ]  # fmt: skip
    assert rows("arguments")[1] == {"arguments": '["model","id","values","confirm"]'}


def test_each_body_of_an_upload_has_a_line(
    users: Any, peers: Peers, declared: Declared, rows: Rows, settings: Any, tmp_path: Any
) -> None:
    settings.MEDIA_ROOT = tmp_path
    declared.tool(read_file, read_only=True)
    client = Uploader(peers(token_of(users.admin, "read", name="agent")))

    uri = client.part(b"abc", 0, 5).json["uri"]
    client.part(b"zz", 0, 5, uri)
    client.part(b"de", 3, 5, uri)

    line = {"kind": "request", "method": "upload", "outcome": "done", "user_name": "admin", "token_name": "agent"}
    assert rows(*line, "bytes", "uri", "name") == [
        {**line, "bytes": 3, "uri": "", "name": ""},
        {**line, "bytes": 2, "uri": "", "name": ""},
    ]


# Calls whose bodies ran on the event loop.


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
@pytest.mark.parametrize("mode", ["strict", "on"])
def test_each_call_has_one_line_with_its_outcome_and_its_queries(
    admin: Peer, declared: Declared, rows: Rows, audited: Any, flights: Any, mode: str
) -> None:
    async def count(request: HttpRequest, fail: bool = False) -> str:
        """Count the flights, or fail."""
        await Flight.objects.acount()
        await Flight.objects.acount()
        if fail:
            raise ValueError
        return "counted"

    async def greet(request: HttpRequest) -> str:
        """Greet."""
        await asyncio.sleep(0)
        return "hello"

    declared.tool(count)
    declared.tool(greet)
    audited(AUDIT=mode)

    before = admin.call("greet")
    admin.call("count")
    admin.call("count", fail=True)

    assert before["content"][0]["text"] == "hello"
    found = rows("name", "outcome", "queries", "bytes")
    assert [(line["name"], line["outcome"]) for line in found] == [
        ("greet", "done"),
        ("count", "done"),
        ("count", "failed"),
    ]
    # Those of the body are counted too.
    assert all(line["queries"] - found[0]["queries"] == 2 for line in found[1:])
    assert all(line["bytes"] > 0 for line in found)


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_cancelled_call_has_a_line(peers: Peers, users: Any, declared: Declared, rows: Rows) -> None:
    begun = threading.Event()

    async def wait(request: HttpRequest) -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    declared.tool(wait, read_only=True)
    peer = peers(token_of(users.admin))
    assert isinstance(peer, DuplexPeer)
    opened = peer.connection(MODERN)
    params = {"name": "wait", "arguments": {}, "_meta": meta()}
    opened.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
    assert begun.wait(60)

    opened.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})

    wait_for(lambda: rows("name", "outcome") == [{"name": "wait", "outcome": "cancelled"}], "the line")


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("kind", ["function", "action", "write"])
@pytest.mark.django_db(transaction=True)
def test_the_line_of_a_call_whose_client_has_left_says_whether_it_was_done(
    peers: Peers, users: Users, declared: Declared, rows: Rows, kind: str, is_committed: bool
) -> None:
    reached, left = threading.Event(), threading.Event()

    def change(save: Callable[[], Any]) -> None:
        def meet() -> None:
            reached.set()
            assert left.wait(60)

        with transaction.atomic():
            if not (is_committed or left.is_set()):
                meet()
                # The database takes no statement any more, once the server has noticed.
                wait_for(Tag.objects.filter(name="made").exists, "the end")
            save()
            transaction.on_commit(meet)

    def make(request: HttpRequest) -> str:
        """Make a tag."""
        change(lambda: Tag.objects.create(name="made"))
        return "made"

    class TagAdmin(ModelAdmin):  # type: ignore[type-arg]
        actions = ("make",)

        @django_admin.action
        def make(self, request: HttpRequest, queryset: Any) -> None:
            change(lambda: Tag.objects.create(name="made"))

        def save_model(self, request: HttpRequest, obj: Any, *args: Any) -> None:
            change(obj.save)

    Tag.objects.create(name="one")
    declared.tool(make, destructive=False)
    declared.admin(Tag, TagAdmin)
    switch_on("shop_tag_make", *(tool.name for tool in WRITE_TOOLS))
    peer = peers(token_of(users.admin, "read", "actions", "write"))
    assert isinstance(peer, ASGIPeer)
    values: dict[str, Any] = {"model": "shop.tag", "values": {"name": "made"}}
    if kind == "write":
        shown = peer.result(MODERN, "tools/call", {"name": "create_record", "arguments": values})
        values["confirm"] = shown["structuredContent"]["confirm"]
    called = {
        "function": ("make", {}),
        "action": ("shop_tag_make", {"ids": ["one"]}),
        "write": ("create_record", values),
    }
    name, arguments = called[kind]

    call = peer.begin("tools/call", {"name": name, "arguments": arguments})
    assert reached.wait(60)
    peer.loop.run(call.disconnect("http.disconnect"))
    left.set()

    previews = [{"name": name, "outcome": "previewed"}] if kind == "write" else []
    expected = [*previews, {"name": name, "outcome": "done" if is_committed else "cancelled"}]
    wait_for(lambda: rows("name", "outcome") == expected, "the line")
    assert Tag.objects.filter(name="made").exists() is is_committed
    if kind == "write":
        again = peer.result(MODERN, "tools/call", {"name": "create_record", "arguments": values})
        assert again["structuredContent"].get("replayed", False) is is_committed
