"""The pool in which handlers run: contexts, connections, bounds."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import AsyncClient

from mcp_django.core.running import workers
from mcp_django.core.running.workers import Workers, close_workers, get_workers
from mcp_django.protocol.errors import Overloaded
from tests.shop.models import Tag
from tests.support.data import token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, meta

word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


@pytest.fixture
def one_worker() -> Iterator[Workers]:
    made = Workers(1)
    yield made
    made.close()


def query() -> Any:
    """Use the database; returns the connection of the thread and what it was connected with."""
    User.objects.exists()
    wrapper = connections["default"]
    return wrapper, wrapper.connection


def test_a_worker_has_the_context_of_its_caller_and_keeps_nothing_of_it(
    one_worker: Workers, serving_loop: LoopThread
) -> None:
    async def call() -> str:
        word.set("said by the caller")
        return await one_worker.run(word.get)

    assert serving_loop.run(call()) == "said by the caller"
    serving_loop.run(one_worker.run(word.set, "left behind"))
    assert serving_loop.run(one_worker.run(word.get)) == "unset"


def test_the_exception_of_a_call_is_its_callers_and_ends_no_process(
    one_worker: Workers, serving_loop: LoopThread
) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ZeroDivisionError):
        serving_loop.run(one_worker.run(lambda: 1 // 0))
    with pytest.raises(RuntimeError, match="SystemExit"):
        serving_loop.run(one_worker.run(leave))

    assert serving_loop.run(one_worker.run(lambda: "next")) == "next"


def test_a_connection_ends_with_its_call_unless_it_may_be_kept(
    transactional_db: None, one_worker: Workers, serving_loop: LoopThread, settings: Any
) -> None:
    assert connection.settings_dict["CONN_MAX_AGE"] == 0

    for more in ({}, {"CONN_MAX_AGE": 0}):
        settings.MCP = {**settings.MCP, **more}
        wrapper, opened = serving_loop.run(one_worker.run(query))

        assert opened is not None
        assert wrapper.connection is None


def test_a_connection_ends_although_its_call_fails(
    transactional_db: None, one_worker: Workers, serving_loop: LoopThread
) -> None:
    kept: list[Any] = []

    def fail() -> None:
        kept.extend(query())
        raise RuntimeError

    with pytest.raises(RuntimeError):
        serving_loop.run(one_worker.run(fail))

    assert kept[0].connection is None


def test_our_own_setting_keeps_connections_for_the_next_call(
    transactional_db: None, one_worker: Workers, serving_loop: LoopThread, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "CONN_MAX_AGE": 60}

    wrapper, first = serving_loop.run(one_worker.run(query))
    _, second = serving_loop.run(one_worker.run(query))

    assert wrapper.connection is first
    assert second is first
    serving_loop.run(one_worker.run(wrapper.close))


def test_a_connection_whose_age_has_come_while_nothing_happened_is_replaced(
    transactional_db: None, one_worker: Workers, serving_loop: LoopThread, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "CONN_MAX_AGE": 60}
    wrapper, first = serving_loop.run(one_worker.run(query))

    def idle() -> None:
        wrapper._mcp_opened = (first, time.monotonic() - 61)

    one_worker._executor.submit(idle).result()
    one_worker._executor.submit(setattr, workers._here, "look_at", 0.0).result()
    _, second = serving_loop.run(one_worker.run(query))

    assert second is not first
    serving_loop.run(one_worker.run(wrapper.close))


def test_a_place_in_the_queue_is_free_again_after_the_call(
    one_worker: Workers, serving_loop: LoopThread, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "QUEUE": 0, "QUEUE_PER_PRINCIPAL": 1}

    answers = [serving_loop.run(one_worker.run(len, (), principal_key="user:1")) for _ in range(5)]

    assert answers == [0] * 5


def test_a_call_whose_caller_has_gone_before_its_turn_is_left_out(
    one_worker: Workers, serving_loop: LoopThread
) -> None:
    gate = threading.Event()
    made: list[str] = []

    async def go() -> None:
        holding = asyncio.ensure_future(one_worker.run(gate.wait, 30, principal_key="user:1"))
        gone = asyncio.ensure_future(one_worker.run(made.append, "of who has gone", principal_key="user:2"))
        stays = asyncio.ensure_future(one_worker.run(made.append, "of who stays", principal_key="user:3"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        gate.set()
        await asyncio.gather(holding, stays)

    serving_loop.run(go())

    assert made == ["of who stays"]


def test_the_servers_own_work_goes_on_while_each_thread_is_taken(one_worker: Workers, serving_loop: LoopThread) -> None:
    gate = threading.Event()

    async def go() -> list[Any]:
        holding = asyncio.ensure_future(one_worker.run(gate.wait, 30, principal_key="user:1"))
        waiting = asyncio.ensure_future(one_worker.run(len, (), principal_key="user:2"))
        await asyncio.sleep(0)
        own = [await one_worker.run(max, number, 0) for number in range(3)]
        assert not waiting.done()
        gate.set()
        return [*own, await holding, await waiting]

    assert serving_loop.run(go()) == [0, 1, 2, True, 0]


def test_changed_settings_make_a_new_pool(settings: Any) -> None:
    before = get_workers()

    settings.MCP = {**settings.MCP, "THREADS": 3}

    assert get_workers() is not before
    assert get_workers()._threads == 3


def test_closing_the_pool_leaves_no_caller_waiting(one_worker: Workers, serving_loop: LoopThread) -> None:
    gate, begun = threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return gate.wait(30)

    async def close() -> list[Any]:
        waiting = [asyncio.ensure_future(one_worker.run(hold, principal_key=key)) for key in ("a", "a", "b")]
        await asyncio.to_thread(begun.wait, 30)
        closing = asyncio.get_running_loop().run_in_executor(None, one_worker.close)
        await asyncio.wait(waiting[1:], timeout=30)
        gate.set()
        await closing
        return await asyncio.gather(*waiting, return_exceptions=True)

    results = serving_loop.run(close())

    assert results[0] is True
    assert [type(result) for result in results[1:]] == [Overloaded] * 2


def test_closing_the_pool_ends_its_threads(serving_loop: LoopThread) -> None:
    thread = serving_loop.run(get_workers().run(threading.current_thread))
    assert thread.is_alive()

    close_workers()

    assert not thread.is_alive()


def test_without_threads_a_handler_sees_the_rows_of_a_test_case(db: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 0}
    user = User.objects.create_superuser("admin", password="admin")
    Tag.objects.create(name="uncommitted")
    arguments = {"name": "find_records", "arguments": {"model": "shop.tag"}, "_meta": meta()}
    headers = {
        "Authorization": f"Bearer {token_of(user)}",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "find_records",
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments})

    response = async_to_sync(AsyncClient().post)("/mcp", body, "application/json", headers=headers)

    assert connection.in_atomic_block
    assert response.json()["result"]["structuredContent"]["rows"] == [["uncommitted"]]
