"""The URLs of health: what a probe is told, and what nobody is told."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client

from mcp_django import site
from mcp_django.routing import MCPApplication
from mcp_django.server import readiness
from mcp_django.server.readiness import Part
from tests.axes import HTTP
from tests.support.http import HTTPPeer
from tests.support.peers import Peers

pytestmark = pytest.mark.django_db

READY = {"database": "ok", "bus": "ok"}


@pytest.fixture(autouse=True)
def _new_look(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(readiness, "_PATIENCE_SECONDS", 60)
    for part in readiness.PARTS:
        part.forget()
    yield
    for part in readiness.PARTS:
        part.forget()


@pytest.fixture
def stranger(peers: Peers) -> HTTPPeer:
    made = peers(None)
    assert isinstance(made, HTTPPeer)
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is looked at, each time."""
    looked: list[str] = []
    for part in readiness.PARTS:
        monkeypatch.setattr(part, "_check", lambda name=part.name: looked.append(name))
    return looked


def ask(peer: HTTPPeer, path: str, method: str = "GET") -> tuple[int, Any]:
    peer.path = path
    answer = peer.http(method)
    assert answer.headers["cache-control"] == "no-store"
    return answer.status, answer.body.decode()


@pytest.mark.parametrize("transport", HTTP)
def test_a_probe_is_told_whether_the_process_lives_and_is_ready(stranger: HTTPPeer, asked: list[str]) -> None:
    for slash in ("", "/"):
        assert ask(stranger, f"/mcp/live{slash}") == (200, '{"process":"ok"}')
        assert ask(stranger, f"/mcp/ready{slash}") == (200, '{"database":"ok","bus":"ok"}')
        assert ask(stranger, f"/mcp/ready{slash}", "HEAD")[0] == 200
        assert ask(stranger, f"/mcp/live{slash}", "POST")[0] == 405

    assert sorted(asked) == ["bus", "database"]  # Once for all of them.


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("name", ["database", "bus"])
def test_a_part_that_is_away_makes_it_not_ready_and_its_reason_is_in_the_log_alone(
    stranger: HTTPPeer, asked: list[str], name: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fail() -> None:
        raise OperationalError("no route to db.internal")

    [part] = [part for part in readiness.PARTS if part.name == name]
    monkeypatch.setattr(part, "_check", fail)
    caplog.set_level(logging.WARNING, "mcp_django")

    status, body = ask(stranger, "/mcp/ready")

    assert status == 503 and f'"{name}":"away"' in body and body.count('"ok"') == 1
    assert f"Not ready: the {name} does not answer (OperationalError: no route to db.internal)" in caplog.messages
    assert ask(stranger, "/mcp/live") == (200, '{"process":"ok"}')


def test_what_was_found_is_kept_for_five_seconds(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(readiness, "monotonic", lambda: now[0])

    readiness.ask_in_thread()
    now[0] += 4.9
    readiness.ask_in_thread()
    assert len(asked) == 2
    now[0] += 0.2
    readiness.ask_in_thread()
    assert len(asked) == 4


def test_a_driver_that_waits_for_ever_holds_one_thread_and_nobody_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, begun = threading.Event(), []

    def wait() -> None:
        begun.append(1)
        answers.wait(60)

    part = Part("database", wait)
    monkeypatch.setattr(readiness, "PARTS", (part,))
    now = [time.monotonic()]
    monkeypatch.setattr(readiness, "monotonic", lambda: now[0])
    monkeypatch.setattr(readiness, "sleep", lambda seconds: now.__setitem__(0, now[0] + 1))

    assert readiness.ask_in_thread() == {"database": "away"}
    now[0] += 60
    assert readiness.ask_in_thread() == asyncio.run(readiness.ask_on_loop()) == {"database": "away"}

    assert begun == [1]
    answers.set()


def test_a_system_without_threads_is_not_ready_until_it_has_some(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    def refuse(target: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(readiness.native_threads, "start_thread", refuse)
        assert readiness.ask_in_thread() == {"database": "away", "bus": "away"}
        assert asked == []

    for part in readiness.PARTS:
        part.forget()
    assert readiness.ask_in_thread() == READY


def test_a_child_that_is_forked_while_a_thread_looks_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, answers = os.getpid(), threading.Event()

    def wait_in_parent() -> None:
        if os.getpid() == parent:
            answers.wait(60)

    monkeypatch.setattr(readiness, "PARTS", (Part("database", wait_in_parent),))
    readiness.PARTS[0].look()

    child = os.fork()
    if not child:
        os._exit(readiness.ask_in_thread() != {"database": "ok"})
    assert os.waitpid(child, 0)[1] == 0
    answers.set()


@pytest.mark.every_database
def test_the_database_is_really_asked(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert readiness.ask_in_thread() == READY
    for part in readiness.PARTS:
        part.forget()

    def refuse(self: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", refuse)

    assert readiness.ask_in_thread() == {**READY, "database": "away"}


def test_a_probe_is_answered_whatever_the_host_the_scheme_and_the_middleware_are(
    settings: Any, asked: list[str]
) -> None:
    """A kubelet asks the address of the pod over HTTP."""
    settings.ALLOWED_HOSTS, settings.SECURE_SSL_REDIRECT = ["example.com"], True
    settings.MIDDLEWARE = ["tests.transports.tenancy.Middleware", *settings.MIDDLEWARE]
    sent: list[Any] = []

    async def ask(path: str) -> None:
        async def receive() -> Any:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"10.1.2.3:8000")]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
        await MCPApplication(_nobody, site)(scope, receive, send)

    asyncio.run(ask("/mcp/live"))
    asyncio.run(ask("/mcp/ready"))

    assert [message.get("status") for message in sent[::2]] == [200, 200]
    assert [message["body"] for message in sent[1::2]] == [b'{"process":"ok"}', b'{"database":"ok","bus":"ok"}']


async def _nobody(*_: Any) -> None:
    raise AssertionError("Django was asked")


def test_under_wsgi_a_probe_needs_no_token_and_writes_nothing_into_the_trail(
    asked: list[str], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        assert Client().get("/mcp/ready", headers={"authorization": "Bearer wrong"}).json() == READY
