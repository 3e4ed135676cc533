"""The methods of the tasks extension."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_django import __version__
from mcp_django.models import Task
from tests.support import tasks
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peer
from tests.support.tasks import EXTENSION, TASKS, text_of

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


@pytest.mark.http_and_duplex
def test_a_call_is_a_finished_task_where_the_backend_is_an_immediate_one(client: Peer) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    assert created["status"] == "completed"
    assert "result" not in created

    found = tasks.get(client, created)
    assert {name: found[name] for name in found if name not in ("_meta", "resultType", "result")} == {
        name: created[name] for name in created if name not in ("_meta", "resultType")
    }
    assert found["result"] == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "1 + 2 = 3"}],
        "isError": False,
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "django", "version": __version__}},
    }


@pytest.mark.http_and_duplex
def test_a_worker_finishes_a_task(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    assert created["status"] == "working"
    assert (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 1000)
    assert tasks.get(client, created)["status"] == "working"

    tasks.work()

    assert text_of(tasks.get(client, created)) == "1 + 2 = 3"


def test_a_client_that_knows_no_tasks_is_answered_at_once(client: Peer, database: None) -> None:
    client.capabilities = {"elicitation": {}}
    assert client.call("add", a=1, b=2)["content"] == [{"type": "text", "text": "1 + 2 = 3"}]
    error = client.error(MODERN, "tools/call", {"name": "add_in_a_task", "arguments": {"a": 1, "b": 2}})
    assert error["code"] == -32021
    assert error["data"] == {"reason": "MISSING_CLIENT_CAPABILITY", "requiredCapabilities": TASKS}
    assert not Task.objects.exists()


@pytest.mark.parametrize("revision", LEGACY[::-1])
def test_legacy_clients_know_no_tasks(client: Peer, revision: str, database: None) -> None:
    asked = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {"ttl": 60_000}}
    assert client.result(revision, "tools/call", asked)["content"] == [{"type": "text", "text": "1 + 2 = 3"}]
    required = client.call("add_in_a_task", revision, a=1, b=2)
    assert required["isError"] is True
    assert EXTENSION in required["content"][0]["text"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/list", "tasks/result"):
        assert client.error(revision, method, {"taskId": "x"})["code"] == -32601


def test_a_task_param_is_ignored_and_wrong_arguments_fail_at_once(client: Peer, database: None) -> None:
    asked = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {"ttl": 1, "pollInterval": 1}}
    wrong = client.call("add", a="one", b=2)
    assert wrong["isError"] is True
    assert not Task.objects.exists()
    assert client.result(MODERN, "tools/call", asked)["ttlMs"] == 3_600_000
    assert client.result(MODERN, "tools/call", {**asked, "name": "describe_models", "arguments": {}})["content"]


def test_failures_of_a_tool(client: Peer, caplog: pytest.LogCaptureFixture) -> None:
    refused = tasks.get(client, tasks.start(client, "refuse"))
    assert refused["status"] == "completed"
    assert refused["result"]["isError"] is True
    assert refused["result"]["content"] == [{"type": "text", "text": '{"error":"No.","errors":[]}'}]

    broken = tasks.get(client, tasks.start(client, "break_off"))
    assert broken["status"] == "failed"
    assert broken["statusMessage"] == "The line is cut."
    assert broken["error"] == {
        "code": -32603, "message": "The line is cut.", "data": {"reason": "INTERNAL_ERROR", "line": 7},
    }  # fmt: skip

    crashed = tasks.get(client, tasks.start(client, "crash"))
    assert crashed["result"]["isError"] is True
    assert "secret" not in str(crashed)
    assert "secret detail" in caplog.text


def test_a_task_that_does_not_exist(client: Peer) -> None:
    for method in METHODS:
        for key in ("nothing", "", "x" * 5000, "a\x00b", "ключ"):
            error = client.error(MODERN, method, {"taskId": key, "inputResponses": {}})
            assert (error["code"], error["data"]["reason"]) == (-32602, "TASK_NOT_FOUND"), (method, key)


def test_the_capability_is_checked_before_the_task(client: HTTPPeer) -> None:
    client.capabilities = {}
    asked = {"name": "add_in_a_task", "arguments": {"a": 1, "b": 2}}

    for method, params in (("tools/call", asked), *((one, {"taskId": "no", "inputResponses": {}}) for one in METHODS)):
        answer = client.send(MODERN, method, params)
        error = answer.json["error"]
        assert (answer.status, error["code"], error["data"]["requiredCapabilities"]) == (400, -32021, TASKS), method


def test_params_that_are_wrong(client: Peer) -> None:
    wrong: list[tuple[str, Any, str]] = [
        ("tasks/get", {}, "taskId"),
        ("tasks/get", {"taskId": 7}, "taskId"),
        ("tasks/cancel", {"taskId": None}, "taskId"),
        ("tasks/update", {"taskId": "x"}, "inputResponses"),
        ("tasks/update", {"taskId": "x", "inputResponses": []}, "inputResponses"),
    ]

    errors = [client.error(MODERN, method, params) for method, params, _ in wrong]

    assert [(error["code"], error["data"]["errors"][0]["field"]) for error in errors] == [
        (-32602, field) for *_, field in wrong
    ]
    # Methods that the extension does not have.
    for method in ("tasks/list", "tasks/result"):
        assert client.error(MODERN, method, {"taskId": "x"})["code"] == -32601


def test_the_extension_is_declared_where_there_is_a_tool_for_it(client: Peer) -> None:
    assert client.result(MODERN, "server/discover")["capabilities"]["extensions"] == {EXTENSION: {}}


def test_without_a_tool_for_it_there_is_no_extension(admin: Peer) -> None:
    admin.capabilities = TASKS
    assert "extensions" not in admin.result(MODERN, "server/discover")["capabilities"]
    for method in METHODS:
        assert admin.error(MODERN, method, {"taskId": "x", "inputResponses": {}})["code"] == -32601


def test_the_name_header_is_the_id_of_the_task(client: HTTPPeer) -> None:
    task = tasks.start(client, "add", a=1, b=2)
    for method in METHODS:
        params = {"taskId": task["taskId"], "inputResponses": {}, "_meta": client.meta()}
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        headers = client.modern_headers(method, params)
        assert headers["Mcp-Name"] == task["taskId"]
        for wrong in ("another", None):
            answer = client.post(message, {**headers, "Mcp-Name": wrong})  # type: ignore[dict-item]
            assert (answer.status, answer.json["error"]["code"]) == (400, -32020)
        assert client.post(message, headers).status == 200
