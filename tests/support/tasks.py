"""Tasks in tests: the schema of each message of the extension, workers, and clients that follow a task."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from tests.support import schemas
from tests.support.base import MODERN, Message, Peer, Watching
from tests.support.duplex import DuplexPeer, DuplexWatching
from tests.support.http import ASGIPeer

EXTENSION = "io.modelcontextprotocol/tasks"
TASKS: Message = {"extensions": {EXTENSION: {}}}

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MAY = {"statusMessage"}
_MUST = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
#: Status → the member that only its tasks have, and the definition of that member.
_OWN = {
    "working": None,
    "cancelled": None,
    "input_required": ("inputRequests", "InputRequests"),
    "completed": ("result", "CallToolResult"),
    "failed": ("error", "Error"),
}


def check_message(message: Message, method: str | None) -> bool:
    """Whether a message is one of the extension; asserts that it is a right one."""
    if message.get("method") == "notifications/tasks":
        params = dict(message["params"])
        assert list(params.pop("_meta")) == ["io.modelcontextprotocol/subscriptionId"]
        _check_task(params, detailed=True)
        return True
    result = dict(message.get("result", {}))
    if result.get("resultType") != "task" and not str(method).startswith("tasks/"):
        return False
    assert list(result.pop("_meta")) == ["io.modelcontextprotocol/serverInfo"]
    assert result.pop("resultType") == ("task" if method == "tools/call" else "complete")
    if method in ("tools/call", "tasks/get"):
        _check_task(result, detailed=method == "tasks/get")
    else:
        assert result == {}
    return True


def _check_task(task: Message, *, detailed: bool) -> None:
    task = dict(task)
    own = _OWN[task["status"]]
    if detailed and own is not None:
        schemas.assert_valid(MODERN, own[1], task.pop(own[0]))
    assert _MUST <= set(task) <= _MUST | _MAY, task
    assert _MOMENT.fullmatch(task["createdAt"])
    assert _MOMENT.fullmatch(task["lastUpdatedAt"])
    assert len(task["taskId"]) >= 40
    assert all(type(task[name]) is int and task[name] > 0 for name in ("ttlMs", "pollIntervalMs"))


# Clients.


def start(peer: Peer, tool: str, /, **arguments: Any) -> Message:
    """The CreateTaskResult of a call."""
    result: Message = peer.call(tool, **arguments)
    assert result["resultType"] == "task", result
    return result


def get(peer: Peer, task: Message | str) -> Message:
    result: Message = peer.result(MODERN, "tasks/get", {"taskId": _id(task)})
    return result


def update(peer: Peer, task: Message | str, **responses: Any) -> None:
    peer.result(MODERN, "tasks/update", {"taskId": _id(task), "inputResponses": responses})


def cancel(peer: Peer, task: Message | str) -> None:
    peer.result(MODERN, "tasks/cancel", {"taskId": _id(task)})


def wait(peer: Peer, task: Message | str, *statuses: str, seconds: float = 60) -> Message:
    """The task, once it has one of these statuses."""
    return until(peer, task, lambda found: found["status"] in statuses, seconds)


def until(peer: Peer, task: Message | str, condition: Callable[[Message], bool], seconds: float = 60) -> Message:
    deadline = time.monotonic() + seconds
    while True:
        found = get(peer, task)
        if condition(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def text_of(task: Message) -> str:
    """The one text of the result of a completed task."""
    assert task["status"] == "completed", task
    [block] = task["result"]["content"]
    return str(block["text"])


def watch(peer: Peer, ids: list[Any], **notifications: Any) -> Watching:
    """A listen for tasks, acknowledged."""
    params = {"notifications": {"taskIds": ids, **notifications}, "_meta": peer.meta()}
    message = {"jsonrpc": "2.0", "id": next(peer.ids), "method": "subscriptions/listen", "params": params}
    watching: Any
    if isinstance(peer, ASGIPeer):
        headers = peer.modern_headers("subscriptions/listen", params)
        watching = peer.stream("POST", MODERN, headers, json.dumps(message).encode())
    else:
        assert isinstance(peer, DuplexPeer)
        connection = peer.connection(MODERN)
        connection.send(message)
        watching = DuplexWatching(connection, MODERN, message["id"])  # type: ignore[arg-type]
    # A notification of another listen on the same connection may come before.
    others = []
    while (opened := watching.next())["method"] != "notifications/subscriptions/acknowledged":
        assert opened["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] != message["id"]
        others.append(opened)
    for other in others:
        watching.connection.notifications.put_nowait(other)
    watching.honoured = opened["params"]["notifications"]
    return watching  # type: ignore[no-any-return]


def _id(task: Message | str) -> str:
    return task if isinstance(task, str) else str(task["taskId"])


# Workers.


def work() -> None:
    """Run the queued tasks in the database, like db_worker, in this thread."""
    from django_tasks_db.management.commands.db_worker import Worker

    Worker(
        queue_names=["default"], interval=0, batch=True, backend_name="database", startup_delay=False, max_tasks=None,
        worker_id="tests", excluded_queue_names=[],
    ).run()  # fmt: skip


@contextmanager
def working() -> Iterator[None]:
    """Run the queued tasks in the database, in another thread, until the block ends."""
    over = threading.Event()
    failures: list[BaseException] = []

    def loop() -> None:
        try:
            while not over.is_set():
                work()
                over.wait(0.05)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=loop, name="tests worker")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
        assert not thread.is_alive()
        assert not failures, failures
