"""Attempts to reach the tasks of others, and to get more from a task than its principal may."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from mcp_django.models import AccessToken, Task, TaskQuestion, Tool
from tests.bridge.tasks.conftest import CONFIRM, Configure
from tests.support import tasks
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, HTTPPeer, Peer, Peers
from tests.support.tasks import TASKS, text_of

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
YES = {"action": "accept", "content": {"confirm": True}}


def knowing(peer: Peer) -> Peer:
    peer.capabilities = {**TASKS, "elicitation": {}}
    return peer


def assert_hidden(peer: Peer, task: Any) -> None:
    """The answers are the same as for a task that never existed."""
    key, other = task["taskId"], "x" * len(task["taskId"])
    for method in METHODS:
        answers = [peer.error(MODERN, method, {"taskId": one, "inputResponses": {"sure": YES}}) for one in (key, other)]
        assert str(answers[0]).replace(key, other) == str(answers[1])
        assert answers[0]["data"]["reason"] == "TASK_NOT_FOUND"


@pytest.mark.http_and_duplex
def test_the_task_of_another_user(client: Peer, users: Any, peers: Peers) -> None:
    created = tasks.start(client, "delete", filename="a")
    assert_hidden(knowing(peers(token_of(users.ops))), created)
    assert tasks.get(client, created)["status"] == "input_required"


def test_a_task_of_the_same_user_by_another_token_or_one_that_may_less_since(
    client: Peer, users: Any, peers: Peers
) -> None:
    created = tasks.start(client, "delete", filename="a")
    token = AccessToken.objects.latest("pk")

    assert_hidden(knowing(peers(token_of(users.admin, "read"))), created)
    assert_hidden(knowing(peers(token_of(users.admin))), created)
    token.scopes = ["read"]
    token.save()
    assert_hidden(client, created)


def test_the_task_of_a_caller_without_credentials(client: Peer, users: Any, peers: Peers, configure: Configure) -> None:
    configure(ANONYMOUS_SCOPES=("read", "actions"))
    nobody = knowing(peers(None))
    created = tasks.start(nobody, "delete", filename="a")
    assert_hidden(client, created)
    assert_hidden(nobody, tasks.start(client, "delete", filename="a"))
    assert tasks.get(nobody, created)["status"] == "input_required"


def test_ids_cannot_be_guessed_nor_written_in_other_letters(client: Peer) -> None:
    ids = {tasks.start(client, "add", a=1, b=2)["taskId"] for _ in range(5)}

    assert len(ids) == 5 and all(len(key) == 43 for key in ids)
    key = ids.pop()
    for other in (key.swapcase(), f"{key} ", f"{key}\n"):
        assert client.error(MODERN, "tasks/get", {"taskId": other})["data"]["reason"] == "TASK_NOT_FOUND"


def test_neither_credentials_nor_the_rows_of_tasks_are_in_reach(client: HTTPPeer, database: None) -> None:
    tasks.start(client, "delete", filename="a")

    [row] = Task.objects.values()
    assert str(client.token) not in str(row)
    described = str(client.call("describe_models"))
    assert "mcp_django" not in described and "django_tasks_database" not in described


def _lost(client: Peer, created: Any) -> None:
    """Run the task of a principal that lost its right to it. It fails, with a text that reveals nothing."""
    tasks.work()
    task = Task.objects.get(pk=created["taskId"])
    assert task.state == Task.State.FAILED
    assert task.message == "The task was stopped: its user, token or tool no longer exists, or no longer allows it."
    assert "TASK_REFUSED" in task.outcome


@pytest.mark.parametrize("lose", [
    lambda: AccessToken.objects.latest("pk").revoke(),
    lambda: AccessToken.objects.update(expires_at=timezone.now()),
    lambda: AccessToken.objects.update(scopes=["read"]),
    lambda: AccessToken.objects.all().delete(),
    lambda: User.objects.update(is_active=False),
    lambda: Tool.objects.filter(name="add").update(enabled=False),
], ids=["revoked", "expired", "less", "deleted", "locked out", "switched off"])  # fmt: skip
def test_going_on_with_a_token_user_or_tool_that_lost_its_right(client: Peer, database: None, lose: Any) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    lose()
    _lost(client, created)


def test_a_task_goes_on_with_the_successor_of_its_token(client: Peer, peers: Peers, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    _, successor = AccessToken.objects.latest("pk").roll()
    AccessToken.objects.exclude(revoked_at=None).delete()
    tasks.work()

    assert tasks.text_of(tasks.get(knowing(peers(successor)), created)) == "1 + 2 = 3"


def test_a_task_of_a_token_for_its_tool_alone(tools: Declared, users: Any, peers: Peers, database: None) -> None:
    client = knowing(peers(token_of(users.admin, "tool:add")))
    created = tasks.start(client, "add", a=1, b=2)
    tasks.work()

    assert tasks.text_of(tasks.get(client, created)) == "1 + 2 = 3"


def test_going_on_with_a_deleted_user(client: Peer, users: Any, database: None) -> None:
    tasks.start(client, "add", a=1, b=2)
    users.admin.delete()
    tasks.work()
    assert not Task.objects.exists()


def test_going_on_after_the_permission_was_taken(users: Any, peers: Peers, add: Any, database: None) -> None:
    def close(request: Any) -> str:
        """Closes."""
        return "closed"

    add(close, permission="flights.change_flight")
    permission = Permission.objects.get(codename="change_flight")
    users.ops.user_permissions.add(permission)
    ops = knowing(peers(token_of(users.ops)))
    created = tasks.start(ops, "close")
    users.ops.user_permissions.clear()
    users.ops.groups.clear()
    _lost(ops, created)


def test_going_on_where_nobody_may_come_without_credentials_any_more(
    peers: Peers, tools: Declared, configure: Configure
) -> None:
    configure(TASK_BACKEND="database", ANONYMOUS_SCOPES=("read", "actions"))
    nobody = knowing(peers(None))
    created = tasks.start(nobody, "add", a=1, b=2)
    configure(ANONYMOUS_SCOPES=())
    _lost(nobody, created)


def test_the_revocation_of_a_token_between_two_runs(client: Peer, database: None) -> None:
    created = tasks.start(client, "delete", filename="a")
    tasks.work()
    tasks.update(client, created, sure=YES)
    AccessToken.objects.latest("pk").revoke()
    _lost(client, created)


def test_answering_a_question_that_was_not_asked_yet(client: Peer, database: None, configure: Configure) -> None:
    created = tasks.start(client, "delete", filename="a")
    tasks.update(client, created, sure=YES)
    tasks.work()
    assert tasks.get(client, created)["status"] == "input_required"
    # Nor do answers confirm anything that came with the call.
    configure(TASK_BACKEND="default")
    params = {"name": "delete", "arguments": {"filename": "a"}, "inputResponses": {"sure": YES}}
    created = client.result(MODERN, "tools/call", params)
    assert tasks.get(client, created)["status"] == "input_required"


def test_answers_to_an_untrusted_question_may_come_with_the_call(client: Peer, add: Any) -> None:
    def relaxed(request: Any) -> str:
        """Asks, and believes anything."""
        return str(request.mcp.elicit("Sure?", CONFIRM, key="sure", trusted=False).content["confirm"])

    add(relaxed)
    for given, status in ((YES, "completed"), ({"action": "accept", "content": 7}, "input_required")):
        params = {"name": "relaxed", "arguments": {}, "inputResponses": {"sure": given}}
        assert tasks.get(client, client.result(MODERN, "tools/call", params))["status"] == status


def test_changing_an_answer(client: Peer, database: None) -> None:
    created = tasks.start(client, "two")
    tasks.work()
    for name in ("Ada", "Eve"):
        tasks.update(client, created, first={"action": "accept", "content": {"name": name}})
    tasks.update(client, created, first=YES, second={"action": "accept", "content": {"name": "Bo"}})
    tasks.work()
    assert text_of(tasks.get(client, created)) == "Ada and Bo"


def test_answering_twice_runs_once(client: Peer, database: None) -> None:
    from django_tasks_db.models import DBTaskResult

    created = tasks.start(client, "delete", filename="a")
    tasks.work()
    before = DBTaskResult.objects.count()
    for _ in range(3):
        tasks.update(client, created, sure=YES)
    assert DBTaskResult.objects.count() == before + 1


def test_huge_and_odd_input(client: Peer, add: Any) -> None:
    def echo(request: Any, text: str) -> str:
        """Says how long it is."""
        answer = request.mcp.elicit("More?", {"type": "object", "properties": {"t": {"type": "string"}}}, key="m")
        return f"{len(text)} {len(answer.content['t'])} {text[:3]!r}"

    add(echo)
    text = "\x00🛫\\" + "x" * 400_000
    created = tasks.start(client, "echo", text=text)
    tasks.update(client, created, m={"action": "accept", "content": {"t": "\x00" * 1000 + "é" * 50_000}})
    assert text_of(tasks.get(client, created)) == f"{len(text)} 51000 {text[:3]!r}"

    created = tasks.start(client, "echo", text="a")
    tasks.update(client, created, **{f"k{number}" * 50: {"x": [[]] * 50} for number in range(500)})
    assert TaskQuestion.objects.filter(task=created["taskId"], answer=None).count() == 1
