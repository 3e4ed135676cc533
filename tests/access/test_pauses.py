"""What a paused agent may try: another way in, something that was begun before, and what waits for people."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.core.asgi import get_asgi_application as get_django_application
from django.core.management import call_command
from django.db import DatabaseError
from django.db.models import F
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.access import pauses, tickets
from mcp_django.access.changing_calls import calls
from mcp_django.access.held import is_held
from mcp_django.access.overrides import Restrictions
from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.uploads import upload_rows
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.exchange.principals import Principal
from mcp_django.models import AccessToken, Change, Decision, Restriction, Task, Tool, Upload, digest
from mcp_django.routing import get_asgi_application
from tests.bridge.writes.approving import propose, staff
from tests.bridge.writes.clicking import Browser, approve, proposed, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.end_to_end.servers import wait_for
from tests.oauth.flow import Program
from tests.support import tasks
from tests.support.data import make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.pausing import WHY, line_of, pause, resume
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peer, Peers
from tests.support.sockets import Socket
from tests.support.tasks import TASKS
from tests.transports.calling import Gate
from tests.transports.test_cancellation import SlowTool

CALL = {"name": "find_records", "arguments": {"model": "flights.flight"}}
WAITS = f"The agent is paused ({WHY}), so its changes wait. Nothing is lost: agree once it may go on, or reject it now."


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Requests are answered in other threads."""


def is_refused(peer: Peer, revision: str = MODERN) -> bool:
    result = peer.result(revision, "tools/call", CALL)
    return bool(result.get("isError")) and " paused: " in result["content"][0]["text"]


# Other ways in.


def test_a_paused_agent_uses_a_second_token_of_its_user(peers: Peers, users: Any, flights: Any) -> None:
    pause("user", users.ops.pk)

    assert is_refused(peers(token_of(users.ops)))
    assert not is_refused(peers(token_of(users.admin)))


def test_a_paused_token_is_rolled(peers: Peers, users: Any, flights: Any) -> None:
    plain = token_of(users.ops)
    pause("token", line_of(plain))

    _, rolled = AccessToken.objects.get(hash=digest(plain)).roll()

    assert is_refused(peers(rolled))
    assert not is_refused(peers(token_of(users.ops)))


@pytest.mark.parametrize("kind", ["app", "token"])
def test_a_paused_app_refreshes_its_grant_and_is_let_in_anew(users: Any, kind: str) -> None:
    program = Program()
    first = program.log_in(users.ops)
    token = AccessToken.objects.get(hash=digest(first["access_token"]))

    pause(kind, token.client if kind == "app" else token.line)

    refreshed = program.refresh(first["refresh_token"])
    tokens = [first, refreshed.json(), program.log_in(users.ops)]
    assert [is_paused_app(one["access_token"]) for one in tokens] == [True, True, True]
    assert is_paused_app(program.log_in(users.admin)["access_token"]) == (kind == "app")
    resume()
    assert not is_paused_app(tokens[-1]["access_token"])


def is_paused_app(token: str) -> bool:
    """At the host that the tokens of a grant are for."""
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    answer = Client().post("/mcp", message, content_type="application/json", headers=headers).json()
    return bool(answer.get("error", {}).get("data", {}).get("reason") == "PAUSED")


def test_a_token_of_a_paused_user_acts_as_another_one(users: Any) -> None:
    """As an authentication class of the project may let it."""
    token = AccessToken.objects.get(hash=digest(token_of(users.ops)))
    acting = Principal(users.admin, frozenset(["read"]), token, token.pk)
    named = {"user": str(users.ops.pk), "token": str(token.line)}

    found = {kind: pauses.find(acting, Restrictions([(kind, name, WHY)]).pauses) for kind, name in named.items()}

    assert all(found.values()), found
    assert pauses.find(acting, Restrictions([("user", str(users.viewer.pk), WHY)]).pauses) is None


@pytest.mark.parametrize("when", ["before the pause", "in the pause"])
def test_a_paused_agent_uses_a_ticket(users: Any, peers: Peers, serving_loop: Any, when: str) -> None:
    token = AccessToken.objects.get(hash=digest(token_of(users.ops)))
    principal = Principal(users.ops, frozenset(token.scopes), token, token.pk)
    ticket = tickets.issue(principal).reveal() if when == "before the pause" else ""
    pause("user", users.ops.pk)
    ticket = ticket or tickets.issue(principal).reveal()

    socket = Socket(serving_loop, get_asgi_application(get_django_application()), {}, query=f"ticket={ticket}")

    assert not socket.accepted and socket.refused[0]["status"] == 503
    assert not socket.refused[1:2] or json.loads(socket.refused[1]["body"])["error"]["data"]["reason"] == "PAUSED"
    peer = peers(token_of(users.ops))
    assert isinstance(peer, HTTPPeer)
    peer.path = "/mcp/ticket"
    assert (peer.http("POST").status, peer.http("POST").json["error"]["data"]["reason"]) == (503, "PAUSED")


def test_a_paused_agent_continues_a_session_polls_it_and_uploads_a_file(admin: Peer, declared: Declared) -> None:
    assert isinstance(admin, HTTPPeer)
    session = {"Mcp-Session-Id": admin.session(LEGACY[-1]), "MCP-Protocol-Version": LEGACY[-1]}
    pause()

    stream = admin.http("GET", headers={**session, "Accept": "text/event-stream"})
    poll = admin.http("GET", headers={**session, "Accept": "application/json", "Prefer": "wait=0"})
    call = admin.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, session)
    batch = admin.post([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], {"MCP-Protocol-Version": LEGACY[1]})
    admin.path, admin.query = "/mcp/upload", "name=a.txt"
    upload = admin.http("POST", b"text", {"Content-Length": "4", "Content-Type": None})  # type: ignore[dict-item]

    answers = [stream, poll, call, batch, upload]
    assert [one.status for one in answers] == [503, 503, 200, 200, 503]
    bodies = [one.json[0] if isinstance(one.json, list) else one.json for one in answers]
    assert {one["error"]["data"]["reason"] for one in bodies} == {"PAUSED"}
    admin.path, admin.query = "/mcp", ""
    assert admin.http("DELETE", headers=session).status == 204  # It may end the session.


def test_an_answer_that_counts_once_is_not_used_up_by_a_request_in_the_pause(admin: Peer, declared: Declared) -> None:
    def ask(request: HttpRequest) -> str:
        """Ask."""
        answer = request.mcp.elicit("Sure?", {"type": "object", "properties": {}}, single_use=True)  # type: ignore[attr-defined]
        return "yes" if answer.accepted else "no"

    declared.tool(ask, read_only=True)
    admin.capabilities = {"elicitation": {}}
    params = {"name": "ask", "arguments": {}}
    asked = admin.result(MODERN, "tools/call", params)
    [key] = asked["inputRequests"]
    answered = {
        **params, "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {}}},
    }  # fmt: skip
    pause()
    assert admin.result(MODERN, "tools/call", answered)["isError"]

    resume()

    assert admin.result(MODERN, "tools/call", answered)["content"][0]["text"] == "yes"


# Tasks.


@pytest.fixture
def worker(settings: Any, declared: Declared, users: Any, peers: Peers) -> Peer:
    """A client that knows tasks, whose tasks wait in the database for a worker."""
    settings.MCP = {**settings.MCP, "TASK_BACKEND": "database"}

    def count(request: HttpRequest) -> str:
        """Count its runs."""
        runs.append(request.user)
        return "counted"

    runs: list[Any] = []
    declared.tool(count, task=True)
    switch_on("count")
    peer = peers(token_of(users.admin))
    peer.capabilities, peer.runs = TASKS, runs  # type: ignore[attr-defined]
    return peer


def test_a_paused_agent_starts_no_task_and_one_that_was_queued_waits_and_is_run_after_the_pause(worker: Any) -> None:
    created = tasks.start(worker, "count")
    pause()

    tasks.work()

    task = Task.objects.get()
    assert (task.state, worker.runs) == (Task.State.QUEUED, [])
    assert task.message == f"All agents are paused: {WHY}"
    assert worker.error(MODERN, "tasks/get", {"taskId": created["taskId"]})["data"]["reason"] == "PAUSED"
    assert worker.result(MODERN, "tools/call", {"name": "count", "arguments": {}})["isError"]
    assert Task.objects.count() == 1
    resume()  # It gives the task to a worker again.
    tasks.work()
    assert tasks.get(worker, created)["status"] == "completed"
    assert len(worker.runs) == 1


LONG_AGO = timedelta(days=5)


def began(ago: timedelta = LONG_AGO) -> None:
    """Let the pauses have begun some time ago, and what has waited since then have expired in the meantime."""
    Restriction.objects.update(at=timezone.now() - ago)
    for model in (Task, Change, Upload):
        model.objects.update(expires_at=F("expires_at") - ago)


@pytest.mark.every_database
@pytest.mark.parametrize("is_looked_at", [False, True], ids=["no worker has looked at it", "a worker has put it back"])
def test_a_task_that_is_queued_outlasts_a_pause_that_is_longer_than_tasks_are_kept(
    worker: Any, is_looked_at: bool, users: Any, peers: Peers
) -> None:
    created = tasks.start(worker, "count")
    pause("user", users.admin.pk)
    if is_looked_at:
        tasks.work()
    began()
    other = peers(token_of(users.ops))
    other.capabilities = TASKS

    tasks.start(other, "count")  # It clears expired tasks away.

    tasks.work()
    assert len(worker.runs) == 1
    resume()
    tasks.work()
    assert tasks.get(worker, created)["status"] == "completed"


@pytest.mark.every_database
def test_a_task_that_waits_for_an_answer_outlasts_a_long_pause(worker: Any, declared: Declared) -> None:
    def ask(request: HttpRequest) -> str:
        """Ask."""
        answer = request.mcp.elicit("Sure?", {"type": "object", "properties": {}})  # type: ignore[attr-defined]
        return "yes" if answer.accepted else "no"

    declared.tool(ask, task=True)
    switch_on("ask")
    worker.capabilities = {**TASKS, "elicitation": {}}
    created = tasks.start(worker, "ask")
    tasks.work()
    pause()
    began()

    resume()

    asked = tasks.get(worker, created)
    tasks.update(worker, created, **{key: {"action": "accept", "content": {}} for key in asked["inputRequests"]})
    tasks.work()
    assert tasks.text_of(tasks.get(worker, created)) == "yes"


@pytest.mark.parametrize("whom", ["nobody", "another user", "another token"])
def test_the_tasks_of_agents_who_are_not_paused_expire(worker: Any, users: Any, peers: Peers, whom: str) -> None:
    created = tasks.start(worker, "count")
    if whom != "nobody":
        other = token_of(users.ops)
        pause(*(("user", users.ops.pk) if whom == "another user" else ("token", line_of(other))))
    began()

    tasks.start(worker, "count")

    assert not Task.objects.filter(pk=created["taskId"]).exists()


@pytest.fixture
def task_of_app(worker: Any, users: Any) -> Task:
    """A task that an app has begun, and which has not run yet."""
    program = Program()
    token = AccessToken.objects.get(hash=digest(program.log_in(users.ops)["access_token"]))
    tasks.start(worker, "count")
    Task.objects.update(user=users.ops, principal_key=f"user:{users.ops.pk}", line=str(token.line), grant=token.grant)
    return Task.objects.get()


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["all", "user", "token", "app"])
def test_each_kind_of_pause_holds_what_its_agents_have_begun_and_gives_its_time_back(
    task_of_app: Task, users: Any, kind: str
) -> None:
    token = AccessToken.objects.get(grant=task_of_app.grant)
    pause(kind, {"all": "", "user": users.ops.pk, "token": token.line, "app": token.client}[kind])
    pause("user", users.viewer.pk)
    began()
    task = Task.objects.get()
    assert task.expires_at < timezone.now() and is_held(task)

    Restriction.objects.get(kind=kind, **({"name": users.ops.pk} if kind == "user" else {})).delete()

    assert timedelta() <= Task.objects.get().expires_at - task_of_app.expires_at < timedelta(minutes=5)
    assert not is_held(task)
    resume()  # The other pause gives it nothing.
    assert Task.objects.get().expires_at - task_of_app.expires_at < timedelta(minutes=5)


def test_a_pause_of_one_site_holds_nothing_of_another(worker: Any) -> None:
    tasks.start(worker, "count")

    Restriction.objects.create(kind="all", site="elsewhere")

    assert not is_held(Task.objects.get())
    Restriction.objects.update(site="mcp")
    assert is_held(Task.objects.get())


# Tasks that run.


@pytest.fixture
def slow(worker: Any, declared: Declared) -> SlowTool:
    """Two tools whose query takes a minute, as tasks: one may change something."""
    slow_tool = SlowTool()

    def change_slowly(request: HttpRequest) -> str:
        """Take a minute."""
        slow_tool.run()
        return "done"

    declared.tool(change_slowly, task=True)
    switch_on("change_slowly")
    return slow_tool


@pytest.mark.every_database
def test_a_task_that_runs_is_stopped_in_the_database_and_its_client_reads_why_after_the_pause(
    worker: Any, slow: SlowTool
) -> None:
    created = tasks.start(worker, "change_slowly")
    with tasks.working():
        assert slow.started.wait(60)
        pause()
        assert slow.ended.wait(30)

    assert isinstance(slow.error, DatabaseError)
    assert Task.objects.get().state == Task.State.FAILED
    assert worker.error(MODERN, "tasks/get", {"taskId": created["taskId"]})["data"]["reason"] == "PAUSED"
    resume()
    tasks.work()
    found = tasks.get(worker, created)
    assert found["status"] == "failed"
    assert found["error"]["data"]["reason"] == "PAUSED"
    assert found["error"]["message"].startswith(f"All agents are paused: {WHY}")
    assert "stopped halfway" in found["error"]["message"]


def test_a_task_that_only_reads_may_end_and_its_client_reads_the_result_after_the_pause(
    worker: Any, declared: Declared
) -> None:
    gate = Gate()

    def read(request: HttpRequest) -> str:
        """Wait at a gate."""
        gate.wait(request)
        return "read"

    declared.tool(read, task=True, read_only=True)
    created = tasks.start(worker, "read")
    with tasks.working():
        assert gate.reached.wait(60)
        pause()
        calls.look()
        gate.opened.set()
        wait_for(lambda: Task.objects.get().state == Task.State.COMPLETED, "the end")

    assert not gate.cancelled
    began()
    resume()
    assert tasks.text_of(tasks.get(worker, created)) == "read"


# Changes that wait for people.


@pytest.fixture
def clerk(users: Any, flights: Any) -> Any:
    return make_staff("clerk", "flights.view_flight", "flights.change_flight", "flights.delete_flight",
                      "flights.view_disruption", "flights.delete_disruption", "mcp_django.view_change")  # fmt: skip


@pytest.fixture
def waiting(clerk: Any, peers: Peers) -> str:
    """The number of a delete that waits for its user."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    agent = peers(token_of(clerk, *ALL_SCOPES))
    return str(proposed(agent, "delete_record", model="flights.flight", ids=["3"])["change"])


def test_a_click_makes_no_change_of_a_paused_agent_and_makes_it_after_the_pause(waiting: str, clerk: Any) -> None:
    browser = Browser(clerk)
    shown = browser.digest(waiting)
    pause("user", clerk.pk)

    told = browser.apply(waiting)  # Its page shows it as before.

    assert told == [WAITS]
    assert (state_of(waiting), Flight.objects.filter(pk=3).exists()) == ("waiting", True)
    resume()
    assert browser.digest(waiting) == shown
    assert browser.apply(waiting) == ["The change was made."]


def test_a_change_of_a_paused_agent_can_be_rejected(waiting: str, clerk: Any) -> None:
    pause()

    assert Browser(clerk).reject(waiting) == ["The change was rejected. Nothing was changed."]
    assert state_of(waiting) == "rejected"


@pytest.mark.every_database
def test_a_change_outlasts_a_long_pause_in_which_mcp_due_runs_and_has_its_time_to_decide_after_it(
    waiting: str, clerk: Any
) -> None:
    browser = Browser(clerk)
    before = Change.objects.get().expires_at
    pause("user", clerk.pk)
    began()

    call_command("mcp_due", verbosity=0)

    assert change_rows.state_of(Change.objects.get()) == state_of(waiting) == "waiting"
    assert waiting in browser.client.get("/admin/mcp_django/change/").content.decode()
    assert browser.apply(waiting) == [WAITS]
    resume()
    assert timedelta() <= Change.objects.get().expires_at - before < timedelta(minutes=5)
    call_command("mcp_due", verbosity=0)
    assert browser.apply(waiting) == ["The change was made."]


@pytest.mark.parametrize("kind", ["all", "user"])
def test_a_change_that_has_expired_in_a_pause_can_be_rejected_then(waiting: str, clerk: Any, kind: str) -> None:
    pause(kind, clerk.pk if kind == "user" else "")
    began()

    assert Browser(clerk).reject(waiting) == ["The change was rejected. Nothing was changed."]


def test_a_change_that_had_expired_before_the_pause_is_not_brought_back(waiting: str) -> None:
    Change.objects.update(expires_at=timezone.now())
    pause()

    assert change_rows.state_of(Change.objects.get()) == "expired"
    resume()
    call_command("mcp_due", verbosity=0)
    assert state_of(waiting) == "expired"


def test_a_change_of_an_agent_who_is_not_paused_expires_and_the_end_of_a_pause_gives_it_no_time(
    waiting: str, users: Any
) -> None:
    pause("user", users.viewer.pk)
    began()
    resume()

    call_command("mcp_due", verbosity=0)

    assert state_of(waiting) == "expired"


@pytest.mark.every_database
def test_the_files_of_a_change_outlast_a_long_pause(waiting: str, clerk: Any) -> None:
    change, now = Change.objects.get(), timezone.now()
    for key, line in (("of the change", change.line), ("of another", "another")):
        Upload.objects.create(key=key, site=change.site, principal_key=change.principal_key, line=line, name="a.txt",
                              content_type="text/plain", created_at=now, expires_at=change.expires_at)  # fmt: skip
    pause()
    began()

    upload_rows.sweep()
    resume()
    upload_rows.sweep()

    assert [one.key for one in Upload.objects.filter(expires_at__gt=now)] == ["of the change"]


def test_a_click_whose_change_is_being_made_when_the_pause_begins_leaves_it_waiting(
    waiting: str, clerk: Any, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FlightAdmin(ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes"]

        def delete_model(self, request: Any, obj: Any) -> None:
            # On SQLite the change holds the lock that a row needs.
            monkeypatch.setattr(pauses, "stored", lambda: {"": {("all", ""): WHY}})
            calls.look()
            super().delete_model(request, obj)

    declared.admin(Flight, FlightAdmin)

    told = Browser(clerk).apply(waiting)

    assert told == [WAITS]
    assert (state_of(waiting), Flight.objects.filter(pk=3).exists()) == ("waiting", True)


def test_no_vote_for_a_change_of_a_paused_agent_counts_and_a_vote_before_it_is_kept(
    flights: Any, declared: Declared, users: Any, settings: Any
) -> None:
    """Not for mcp_due either, which goes on with what has all its votes."""
    declared.model(Flight, consent={"update": "approve"})
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    bob, key = staff("bob"), propose(Writer(users.ops))
    pause("user", users.ops.pk)

    assert approve(bob, key) == [WAITS]

    assert not Decision.objects.exists()
    resume()
    digest_of = Browser(bob).digest(key)
    approvals.vote(Change.objects.get(), bob, Decision.Verdict.APPROVE, digest_of, "")
    pause()
    call_command("mcp_due", verbosity=0)
    assert state_of(key) == "waiting"
    resume()
    call_command("mcp_due", verbosity=0)
    assert state_of(key) == "applied"


def test_a_person_goes_on_in_the_console_while_all_agents_are_paused(users: Any, flights: Any) -> None:
    """*Try it*, and undoing what an agent has changed."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    made = Writer(users.admin).confirmed("update_record", model="flights.flight", id="3", values={"notes": "fog"})
    browser = Browser(users.admin)
    pause()

    tried_row = Tool.objects.get(site="mcp", name="find_records")
    tried = browser.client.post(
        f"/admin/mcp_django/tool/{tried_row.pk}/try/", {"try-arg-model": "flights.flight"}
    ).content.decode()
    page = browser.client.get(f"/admin/mcp_django/change/{made['change']}/undo/").content.decode()
    undone = browser.client.post(
        f"/admin/mcp_django/change/{made['change']}/undo/", {"digest": digest_in(page), "_undo": "1"}
    )

    assert "JFK" in tried and "paused" not in tried.partition('id="content-main"')[2].partition("mcp-pause")[0]
    assert said(undone) == ["It was undone."]
    assert Flight.objects.get(pk=3).notes == "note 2"


def digest_in(page: str) -> str:
    found = re.search(r'name="digest" value="(\w+)"', page)
    assert found is not None, page
    return found[1]
