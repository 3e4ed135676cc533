"""Running tasks: progress, cancellation, limits, and workers that die."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone, translation
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from demo_project.flights.models import Airport
from mcp_django import site
from mcp_django.bridge.tasks import task_rows
from mcp_django.bridge.tasks.shapes import task_json
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.exchange import Exchange
from mcp_django.models import Task
from mcp_django.protocol.envelope import Client
from mcp_django.server import background
from mcp_django.server.dispatch import respond
from tests.bridge.tasks.conftest import Configure
from tests.end_to_end.servers import wait_for
from tests.support import tasks
from tests.support.asgi import ASGICall
from tests.support.asking import request_of, words_of
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, ASGIPeer, HTTPPeer, Peer, Peers, meta
from tests.support.tasks import TASKS, text_of
from tests.transports.tenants import make_site, tenant
from tests.transports.test_cancellation import SlowTool, slow

__all__ = ["slow"]


def age(task: Any, **fields: Any) -> None:
    """Move a time of the task some seconds into the past."""
    moments = {name: timezone.now() - timedelta(seconds=seconds) for name, seconds in fields.items()}
    assert Task.objects.filter(pk=task["taskId"]).update(**moments)


def test_progress_is_the_status_message(client: Peer, database: None) -> None:
    created = tasks.start(client, "slow", seconds=60)
    with tasks.working():
        told = tasks.until(client, created, lambda found: found.get("statusMessage") == "well under way")
        assert told["status"] == "working"
        assert told["lastUpdatedAt"] > created["lastUpdatedAt"]
        tasks.cancel(client, created)


def test_a_call_tells_its_progress_and_a_task_does_not(client: Peer) -> None:
    params = {"name": "slow", "arguments": {"seconds": 0.05}, "_meta": {"progressToken": "t"}}
    if isinstance(client, HTTPPeer):
        # A stream would have carried more than the one message.
        assert client.send(MODERN, "tools/call", params).json["result"]["resultType"] == "task"
    else:
        assert client.result(MODERN, "tools/call", params)["resultType"] == "task"


def test_a_tool_that_yields_has_its_whole_result_in_a_task(client: Peer, declared: Declared, database: None) -> None:
    def poem(request: Any) -> Iterator[str]:
        """Say it piece by piece."""
        yield from ("roses ", "are ", "red")

    declared.tool(poem, read_only=True, task=True)
    params = {"name": "poem", "_stream": True, "_meta": {"progressToken": 7}}

    created = client.result(MODERN, "tools/call", params)
    with tasks.working():
        done = tasks.until(client, created, lambda found: found["status"] == "completed")

    assert text_of(done) == "roses are red"


def test_a_tool_that_returns_rows_has_them_in_a_task(
    client: Peer, declared: Declared, database: None, flights: Any
) -> None:
    def airports(request: Any) -> QuerySet[Airport]:
        """List."""
        return Airport.objects.order_by("faa")

    declared.tool(airports, read_only=True, task=True)

    created = client.result(MODERN, "tools/call", {"name": "airports"})
    with tasks.working():
        done = tasks.until(client, created, lambda found: found["status"] == "completed")

    assert [row[0] for row in json.loads(text_of(done))["rows"]] == ["EWR", "IAH", "JFK", "LGA"]


def test_cancelling_stops_the_worker(client: Peer, database: None) -> None:
    created = tasks.start(client, "slow", seconds=60)
    with tasks.working():  # The block ends only if the worker is free.
        tasks.until(client, created, lambda found: "statusMessage" in found)
        tasks.cancel(client, created)
        found = tasks.get(client, created)
        assert (found["status"], found["statusMessage"]) == ("cancelled", "Cancelled by the client.")
        tasks.cancel(client, created)
    assert tasks.get(client, created)["status"] == "cancelled"


def test_cancelling_at_the_first_moment(client: Peer, add: Any, database: None) -> None:
    begun, ended = threading.Event(), threading.Event()

    def patient(request: Any) -> str:
        """Waits for its end."""
        begun.set()
        wait_for(lambda: request.mcp.cancelled, "the end")
        ended.set()
        return "given up"

    add(patient)
    tasks.start(client, "patient")
    with tasks.working():
        assert begun.wait(60)
        # No hub gets the control, as in another process.
        Task.objects.update(state=Task.State.CANCELLED)
        assert ended.wait(60)


def test_cancelling_before_it_runs_and_while_it_asks(client: Peer, database: None, configure: Configure) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    tasks.cancel(client, created)
    tasks.work()
    assert tasks.get(client, created)["status"] == "cancelled"

    configure(TASK_BACKEND="default")
    created = tasks.start(client, "two")
    tasks.cancel(client, created)
    tasks.update(client, created, first={"action": "accept", "content": {"name": "late"}})
    found = tasks.get(client, created)
    assert found["status"] == "cancelled"
    assert "inputRequests" not in found


def test_a_task_that_has_ended_cannot_be_cancelled(client: Peer) -> None:
    for tool, status in (("refuse", "completed"), ("break_off", "failed")):
        created = tasks.start(client, tool)
        before = tasks.get(client, created)
        tasks.cancel(client, created)
        assert tasks.get(client, created) == before
        assert before["status"] == status


def test_cancelling_stops_the_query(client: Peer, add: Any, database: None, slow: SlowTool) -> None:
    def slow_task(request: Any) -> str:
        """Takes a minute."""
        slow.run()
        return "done"

    add(slow_task, read_only=True)
    created = tasks.start(client, "slow_task")
    with tasks.working():
        assert slow.started.wait(60)
        tasks.cancel(client, created)
        assert slow.ended.wait(60)
    assert slow.error is not None
    assert tasks.get(client, created)["status"] == "cancelled"


def test_a_task_that_takes_too_long(client: Peer, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = background.RunMonitor.__init__

    def begun_a_minute_ago(self: Any, *args: Any) -> None:
        begin(self, *args)
        self._end_at -= 60

    monkeypatch.setattr(background.RunMonitor, "__init__", begun_a_minute_ago)
    configure(TASK_BACKEND="database", TASK_SECONDS=60)
    created = tasks.start(client, "slow", seconds=60)
    with tasks.working():
        failed = tasks.wait(client, created, "failed", seconds=60)
    assert failed["error"]["data"]["reason"] == "TASK_TIMED_OUT"
    assert "TASK_SECONDS" in failed["statusMessage"]


def test_a_result_is_kept_from_the_end_of_the_task_on(client: Peer, configure: Configure) -> None:
    configure(TASK_BACKEND="database", TASK_SECONDS=100)
    created = tasks.start(client, "add", a=1, b=2)
    assert created["ttlMs"] == 100_000
    age(created, created_at=90)
    tasks.work()
    # From the beginning on it would be 100 seconds; the task itself takes a moment.
    assert 189_000 <= tasks.get(client, created)["ttlMs"] <= 250_000


def test_a_task_ends_with_its_time(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    age(created, expires_at=1)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        params = {"taskId": created["taskId"], "inputResponses": {}}
        assert client.error(MODERN, method, params)["data"]["reason"] == "TASK_NOT_FOUND"
    tasks.work()
    assert Task.objects.get().state == Task.State.QUEUED
    # The next task deletes it.
    other = tasks.start(client, "add", a=1, b=2)
    assert list(Task.objects.values_list("pk", flat=True)) == [other["taskId"]]


def test_a_run_shows_that_it_lives(
    client: Peer, add: Any, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patient(request: Any) -> str:
        """Waits until its lease was renewed."""
        before = Task.objects.get().lease_until
        wait_for(lambda: Task.objects.get().lease_until > before, "another lease", 60)
        return "done"

    configure(TASK_BACKEND="database", TASK_LEASE_SECONDS=60)
    renewal: Any = background.RunMonitor._renewal
    assert renewal.fget(None) == 20
    monkeypatch.setattr(background.RunMonitor, "_renewal", 0.05)
    add(patient)
    created = tasks.start(client, "patient")
    with tasks.working():
        assert text_of(tasks.wait(client, created, "completed", "failed", seconds=60)) == "done"


def test_a_run_that_has_lost_its_task_stops(client: Peer, database: None, caplog: pytest.LogCaptureFixture) -> None:
    created = tasks.start(client, "slow", seconds=60)
    with tasks.working():
        tasks.until(client, created, lambda found: "statusMessage" in found)
        Task.objects.all().delete()
    assert "Traceback" not in caplog.text


def test_a_task_is_run_once_and_shown_as_lost_with_its_worker(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    claimed, *others = [task_rows.claim(created["taskId"]) for _ in range(3)]
    assert claimed is not None and others == [None, None]
    assert tasks.get(client, created)["status"] == "working"

    age(created, lease_until=1)

    failed = tasks.get(client, created)
    assert failed["status"] == "failed"
    assert failed["error"]["data"] == {"reason": "WORKER_LOST"}
    # The lost worker is alive after all, and its writes are ignored.
    task_rows.complete(claimed.key, claimed.run, {"content": []})
    task_rows.set_message(claimed.key, claimed.run, "well under way")
    assert tasks.get(client, created) == failed


def test_a_task_that_the_queue_has_lost_or_never_had_is_given_to_it_again(
    client: Peer, database: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from django_tasks_db.backend import DatabaseBackend
    from django_tasks_db.models import DBTaskResult

    def away(*_: Any) -> None:
        raise ConnectionError("nobody there")

    created = tasks.start(client, "add", a=1, b=2)
    DBTaskResult.objects.all().delete()
    tasks.get(client, created)
    assert DBTaskResult.objects.count() == 0
    for _ in range(2):
        age(created, queued_at=31)
        tasks.get(client, created)
        tasks.get(client, created)
        assert DBTaskResult.objects.count() == 1
    with monkeypatch.context() as patch:
        patch.setattr(DatabaseBackend, "enqueue", away)
        other = tasks.start(client, "add", a=2, b=2)
    assert "could not enqueue a task" in caplog.text
    age(other, queued_at=31)
    tasks.get(client, other)
    tasks.work()
    assert [text_of(tasks.get(client, task)) for task in (created, other)] == ["1 + 2 = 3", "2 + 2 = 4"]


def test_unfinished_tasks_are_counted(client: Peer, configure: Configure) -> None:
    configure(TASK_BACKEND="database", MAX_OPEN_TASKS=2)
    first = tasks.start(client, "add", a=1, b=2)
    tasks.start(client, "add", a=1, b=2)
    error = client.error(MODERN, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert error["data"]["reason"] == "LIMIT_EXCEEDED"
    assert "MAX_OPEN_TASKS" in error["message"]
    tasks.cancel(client, first)
    tasks.start(client, "add", a=1, b=2)


def test_the_oldest_finished_tasks_give_way(client: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.bridge.tasks.task_rows._MAX_FINISHED", 3)
    created = [tasks.start(client, "add", a=number, b=0) for number in range(6)]
    kept = list(Task.objects.order_by("created_at").values_list("pk", flat=True))
    assert kept == [task["taskId"] for task in created[-4:]]


def test_a_task_that_has_changed_something_is_done_though_its_result_is_too_large(
    client: Peer, add: Any, configure: Configure
) -> None:
    def huge(request: Any) -> str:
        """Much."""
        return "x" * 2_000_000

    add(huge)
    configure(MAX_RESULT_BYTES=8_000_000)
    done = tasks.get(client, tasks.start(client, "huge"))

    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert words_of(done["result"]["content"][0]["text"]) == (
        "The tool has done its work. Do not repeat the call. Its result is not shown. The result of the task would be "
        "larger than 900000 bytes (MAX_RESULT_BYTES, and at most 900000 in a task). To see what it did, read the "
        "records that it was about."
    )


def test_a_result_that_is_too_large_fails_the_task(client: Peer, add: Any, configure: Configure) -> None:
    def huge(request: Any, size: int) -> str:
        """Much."""
        return "x" * size

    add(huge, read_only=True)
    configure(MAX_RESULT_BYTES=20_000)
    fits, just, refused = (
        tasks.get(client, tasks.start(client, "huge", size=size)) for size in (5_000, 19_000, 21_000)
    )
    configure(MAX_RESULT_BYTES=8_000_000)
    beyond_a_stream = tasks.get(client, tasks.start(client, "huge", size=2_000_000))

    assert (fits["status"], just["status"], refused["result"]["isError"]) == ("completed", "failed", True)
    assert "MAX_RESULT_BYTES" in just["statusMessage"]
    assert beyond_a_stream["status"] == "failed"
    assert beyond_a_stream["statusMessage"] == (
        "The result of the task would be larger than 900000 bytes (MAX_RESULT_BYTES, and at most 900000 in a task). "
        "Ask for less."
    )


def test_a_tool_that_ends_its_worker_and_an_asynchronous_one(client: Peer, add: Any, database: None) -> None:
    def leave(request: Any) -> str:
        """Interrupts."""
        raise KeyboardInterrupt

    async def count(request: Any) -> str:
        """Counts tasks."""
        request.mcp.progress(1)
        return str(await Task.objects.acount())

    add(leave)
    add(count)
    interrupted, counted = tasks.start(client, "leave"), tasks.start(client, "count")
    tasks.work()
    assert tasks.get(client, interrupted)["status"] == "failed"
    assert text_of(tasks.get(client, counted)) == "2"


def test_a_tool_runs_for_its_principal_as_it_would_have_run_in_the_call(
    client: ASGIPeer, add: Any, database: None
) -> None:
    def who(request: Any) -> str:
        """Says who asks."""
        token = getattr(request.auth, "pk", None)
        return " ".join([
            str(request.user), str(token == client_token), *sorted(request.mcp.principal.scopes),
            request.path, request.scheme, request.META["HTTP_X_REGION"],
            str("HTTP_AUTHORIZATION" in request.META), translation.get_language(),
            str(request.mcp.revision), str(request.mcp.client.info),
        ])  # fmt: skip

    from mcp_django.models import AccessToken

    client_token = AccessToken.objects.latest("pk").pk
    add(who)
    params = {"name": "who", "arguments": {}, "_meta": client.meta()}
    headers = {
        **client.modern_headers("tools/call", params),
        "X-Region": "north",
        "X-Api-Key": "k",
        "X-Auth": "a",
        "Cookie": "c=d",
    }
    created = client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers).json["result"]
    with translation.override("de"):
        tasks.work()
    assert text_of(tasks.get(client, created)) == (
        "admin True actions read /mcp http north False en-us 2026-07-28 {'name': 'tests', 'version': '1'}"
    )
    kept = Task.objects.get().origin
    assert "X_REGION" in kept
    assert not any(secret in kept for secret in ("AUTH", "COOKIE", "API_KEY", str(client.token)))


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_the_call_context_is_entered_in_the_worker(users: Any, peers: Peers, database: None) -> None:
    site = make_site()

    def here(request: Any) -> str:
        """Says which tenant it serves."""
        return f"{tenant.get()!r} of {request.META.get('HTTP_X_TENANT')!r}"

    from mcp_django import tool

    tool(task=True, read_only=True, site=site)(here)
    peers.site = site
    peer = peers(token_of(users.admin))
    peer.capabilities = TASKS
    if isinstance(peer, HTTPPeer):
        params = {"name": "here", "arguments": {}, "_meta": peer.meta()}
        headers = {**peer.modern_headers("tools/call", params), "X-Tenant": "blue"}
        created = peer.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers).json[
            "result"
        ]
        expected = "'blue' of 'blue'"
    else:
        created, expected = tasks.start(peer, "here"), "'' of None"
    tasks.work()
    assert text_of(tasks.get(peer, created)) == expected


def test_a_client_that_goes_away_takes_its_immediate_task_with_it(client: ASGIPeer, add: Any) -> None:
    begun, ended = threading.Event(), threading.Event()

    def patient(request: Any) -> str:
        """Waits until nobody waits for it."""
        begun.set()
        wait_for(lambda: request.mcp.cancelled, "the end")
        ended.set()
        return "given up"

    add(patient)
    params = {"name": "patient", "arguments": {}, "_meta": client.meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    async def leave() -> None:
        scope = client.scope("POST", client.headers(client.modern_headers("tools/call", params)))
        call = ASGICall(client.application, scope)
        await call.inbox.put({"type": "http.request", "body": json.dumps(message).encode(), "more_body": False})
        await asyncio.to_thread(begun.wait, 60)
        await call.disconnect("http.disconnect")

    client.loop.run(leave())
    assert ended.wait(60)
    wait_for(lambda: Task.objects.get().state == Task.State.CANCELLED, "its end")


@pytest.mark.django_db(transaction=True)
def test_nothing_is_queued_before_the_commit(users: Any, tools: Declared, database: None) -> None:
    from django_tasks_db.models import DBTaskResult

    request = request_of(users.admin)
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta(**{CLIENT_CAPABILITIES_META_KEY: TASKS})}
    exchange = Exchange(
        site=site, principal=request.mcp.principal, revision=MODERN, method="tools/call", params=params, request_id=1,
        client=Client({}, TASKS), connection=NoConnection(), request=request,
    )  # fmt: skip
    with transaction.atomic():
        assert b'"resultType":"task"' in respond(exchange).body
        assert DBTaskResult.objects.count() == 0
    assert DBTaskResult.objects.count() == 1


def test_open_tasks_hold_no_thread(client: Peer, database: None, configure: Configure) -> None:
    configure(TASK_BACKEND="database", THREADS=1)
    created = [tasks.start(client, "slow") for _ in range(3)]
    assert text_of(tasks.get(client, _finished(client))) == "1 + 2 = 3"
    for task in created:
        tasks.cancel(client, task)


def _finished(client: Peer) -> Any:
    created = tasks.start(client, "add", a=1, b=2)
    background.run(created["taskId"])
    return created


def test_times_are_in_utc_in_every_project() -> None:
    for moment in (datetime(2026, 1, 1, 7, 0, 0, 5000), datetime(2026, 1, 1, 12, 0, 0, 5999, UTC)):
        times = {"created_at": moment, "updated_at": moment, "expires_at": moment + timedelta(seconds=1)}
        task = Task(key="k", state=Task.State.QUEUED, **times)
        assert task_json(task)["createdAt"] == "2026-01-01T12:00:00.005Z"
