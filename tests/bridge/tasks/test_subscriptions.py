"""notifications/tasks on a listen that names tasks, which the official suite does not test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from pydantic_core import to_json

from demo_project.flights.models import Airline
from mcp_django import site
from mcp_django.bridge.tasks import task_rows
from mcp_django.models import AccessToken, Task, Throttle
from mcp_django.push import task_watch
from mcp_django.push.listeners import Listener
from tests.axes import PUSHING
from tests.bridge.tasks.conftest import Configure
from tests.bridge.tasks.test_running import age
from tests.support import tasks
from tests.support.asking import request_of
from tests.support.base import Watching
from tests.support.data import token_of
from tests.support.peers import MODERN, Message, Peer, Peers
from tests.support.tasks import TASKS, text_of

AIRLINE = "db://flights/airline/UA"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def test_a_database_that_is_away_for_one_principal_silences_no_other(
    users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = {user: request_of(user) for user in (users.ops, users.viewer)}
    listeners = [Listener(site=site, principal=one.mcp.principal, request=one) for one in requests.values()]

    def request_now(listener: Listener) -> Any:
        if listener.principal.user == users.ops:
            raise OperationalError("away")
        return listener.request

    monkeypatch.setattr(task_watch, "current_request", request_now)

    assert task_watch._principals(listeners) == {listeners[1]: requests[users.viewer].mcp.principal}


def told(watching: Watching) -> Message:
    message = watching.next(60)
    assert message["method"] == "notifications/tasks"
    return dict(message["params"])


def told_until(watching: Watching, status: str) -> Message:
    while True:
        params = told(watching)
        if params["status"] == status:
            return params


def assert_nothing_more(watching: Watching, swept: Callable[[], None]) -> None:
    """No task is told of any more, not even by a sweep: it would come before the change of the airline."""
    swept()
    Airline.objects.get(pk="UA").save()
    assert watching.next()["params"]["uri"] == AIRLINE


def tell_all(watching: Watching, swept: Callable[[], None]) -> None:
    """Read what was told until now: a sweep that began as the watch was opened may tell of the task once more."""
    swept()
    Airline.objects.get(pk="UA").save()
    while "uri" not in watching.next()["params"]:
        pass


def plain(task: Message) -> Message:
    return {name: value for name, value in task.items() if name not in ("_meta", "resultType")}


@pytest.mark.parametrize("transport", PUSHING)
def test_a_notification_has_the_task_that_get_returns(client: Peer, database: None) -> None:
    created = tasks.start(client, "delete", filename="a")
    watching = tasks.watch(client, [created["taskId"]])
    assert watching.honoured == {"taskIds": [created["taskId"]]}
    first = told(watching)
    assert plain(first) == plain(tasks.get(client, created))

    with tasks.working():
        asked = told_until(watching, "input_required")
        assert plain(asked) == plain(tasks.get(client, created))
        tasks.update(client, created, sure={"action": "accept", "content": {"confirm": True}})
        done = told_until(watching, "completed")

    assert plain(done) == plain(tasks.get(client, created))
    assert text_of(done) == "deleted a"
    assert list(done["_meta"]) == [SUBSCRIPTION]
    assert done["_meta"] == first["_meta"] == asked["_meta"]


def test_progress_is_notified(client: Peer, database: None, flights: Any, swept: Callable[[], None]) -> None:
    created = tasks.start(client, "slow", seconds=60)
    watching = tasks.watch(client, [created["taskId"]], resourceSubscriptions=[AIRLINE])
    with tasks.working():
        while told(watching).get("statusMessage") != "well under way":
            pass
        tasks.cancel(client, created)
        assert told_until(watching, "cancelled")["statusMessage"] == "Cancelled by the client."
    assert_nothing_more(watching, swept)


def test_a_finished_task_is_notified_once(client: Peer, flights: Any, swept: Callable[[], None]) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    watching = tasks.watch(client, [created["taskId"]], resourceSubscriptions=[AIRLINE])
    assert text_of(told(watching)) == "1 + 2 = 3"
    assert_nothing_more(watching, swept)


@pytest.mark.parametrize("transport", PUSHING)
def test_each_listen_has_its_own_copy(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    listens = [tasks.watch(client, [created["taskId"]]) for _ in range(2)]
    tasks.work()
    # One connection may carry both.
    ids = {told_until(watching, "completed")["_meta"][SUBSCRIPTION] for watching in listens}
    assert len(ids) == 2


def test_one_answer_of_two_is_notified(client: Peer) -> None:
    created = tasks.start(client, "two")
    watching = tasks.watch(client, [created["taskId"]])
    assert set(told(watching)["inputRequests"]) == {"first", "second"}
    tasks.update(client, created, first={"action": "accept", "content": {"name": "Ada"}})
    # The state before may be told twice: when the client begins to watch, and when the task has asked.
    while "first" in (asked := set(told(watching)["inputRequests"])):
        pass
    assert asked == {"second"}


def test_the_capability_is_needed(client: Peer) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    client.capabilities = {}
    error = client.error(MODERN, "subscriptions/listen", {"notifications": {"taskIds": [created["taskId"]]}})
    assert error["code"] == -32021
    assert error["data"]["requiredCapabilities"] == TASKS


def test_ids_that_name_nothing_are_not_acknowledged(client: Peer) -> None:
    watching = tasks.watch(client, ["nothing", "x" * 500, "a\x00b"], toolsListChanged=True)
    assert watching.honoured == {"toolsListChanged": True}
    assert tasks.watch(client, []).honoured == {}


def test_ids_are_a_list_of_strings_and_bounded(client: Peer, configure: Configure) -> None:
    configure(MAX_SUBSCRIPTIONS=3)
    wrong: list[Any] = [["a", "b", "c", "d"], 7, "abc", [7], [None], {"a": 1}]

    many, *others = [client.error(MODERN, "subscriptions/listen", {"notifications": {"taskIds": ids}}) for ids in wrong]

    assert many["code"] == -32602 and "MAX_SUBSCRIPTIONS" in many["message"]
    assert [(error["code"], error["data"]["errors"][0]["field"]) for error in others] == [
        (-32602, "notifications.taskIds")
    ] * 5


def test_a_site_without_tasks_ignores_them(admin: Peer) -> None:
    admin.capabilities = {}
    watching = tasks.watch(admin, ["a"])
    assert watching.honoured == {}


def test_the_database_tells_where_no_bus_does(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    watching = tasks.watch(client, [created["taskId"]])
    assert told(watching)["status"] == "working"
    # A process without a bus would make the change in this way.
    claimed = task_rows.claim(created["taskId"])
    assert claimed is not None
    from django.utils import timezone

    outcome = '{"content": [{"type": "text", "text": "far away"}], "isError": false, "resultType": "complete"}'
    Task.objects.update(state=Task.State.COMPLETED, outcome=outcome, updated_at=timezone.now())
    assert text_of(told_until(watching, "completed")) == "far away"


def test_the_death_of_a_worker_is_notified(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    watching = tasks.watch(client, [created["taskId"]])
    task_rows.claim(created["taskId"])
    age(created, lease_until=1)
    assert told_until(watching, "failed")["error"]["data"] == {"reason": "WORKER_LOST"}


def test_an_expired_task_is_notified_no_more(
    client: Peer, database: None, flights: Any, swept: Callable[[], None]
) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    watching = tasks.watch(client, [created["taskId"]], resourceSubscriptions=[AIRLINE])
    assert told(watching)["status"] == "working"
    tell_all(watching, swept)
    age(created, expires_at=1)
    assert_nothing_more(watching, swept)


def test_watching_the_task_of_somebody_else(
    client: Peer, users: Any, peers: Peers, database: None, flights: Any, swept: Callable[[], None]
) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    other = peers(token_of(users.ops))
    other.capabilities = TASKS
    watching = tasks.watch(other, [created["taskId"]], resourceSubscriptions=[AIRLINE])
    assert watching.honoured == {"resourceSubscriptions": [AIRLINE]}
    tasks.work()
    assert_nothing_more(watching, swept)


def test_watching_on_after_the_token_lost_a_scope(
    client: Peer, database: None, flights: Any, swept: Callable[[], None]
) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    watching = tasks.watch(client, [created["taskId"]], resourceSubscriptions=[AIRLINE])
    assert told(watching)["status"] == "working"
    token = AccessToken.objects.latest("pk")
    token.scopes = ["read"]
    token.save()
    tasks.work()
    assert_nothing_more(watching, swept)


def test_watching_on_after_the_token_was_revoked(client: Peer, database: None) -> None:
    created = tasks.start(client, "add", a=1, b=2)
    watching = tasks.watch(client, [created["taskId"]])
    assert told(watching)["status"] == "working"
    AccessToken.objects.latest("pk").revoke()
    Task.objects.update(message="secret")
    while True:
        # The stream ends with the result of the listen.
        message = watching.next()
        # What was on its way before may come still.
        assert "secret" not in str(message)
        if "result" in message:
            return


def test_reading_results_beside_the_budget_by_watching_tasks(
    client: Peer, database: None, configure: Configure
) -> None:
    """A notification carries the result, as tasks/get does."""
    configure(THROTTLES={"user": {"bytes": "1000000/day"}})
    created = tasks.start(client, "slow", seconds=0)
    watching = tasks.watch(client, [created["taskId"]])
    before = Throttle.objects.get().count

    with tasks.working():
        done = told_until(watching, "completed")

    assert Throttle.objects.get().count - before >= len(to_json(done["result"]))
