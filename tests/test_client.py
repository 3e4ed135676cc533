"""mcp_django.test.MCPClient, which the tests of a project ask with."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Permission, User
from django.core.exceptions import SynchronousOnlyOperation
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpRequest
from django.test import TestCase, TransactionTestCase

from demo_project.flights.models import Airline, Flight
from mcp_django import MCPSite, tool
from mcp_django.exceptions import ToolError
from mcp_django.test import MCPClient, ProtocolError
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, REVISIONS

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
every_revision = pytest.mark.parametrize("revision", REVISIONS[::-1])
both_eras = pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def greet(declared: Declared) -> None:
    def greet(request: Any) -> str:
        """Greet whoever is there."""
        answer = request.mcp.elicit("Your name?", NAME)
        return f"Hello, {answer.content['name']}." if answer.accepted else str(answer.action)

    declared.tool(greet, read_only=True)


@every_revision
def test_a_client_lists_calls_and_reads(root: User, revision: str) -> None:
    make_flights(3)

    with MCPClient(root, revision=revision) as client:
        found = client.call("find_records", model="flights.airline", fields=["carrier"])
        record = client.read("db://flights/airline/UA").json()

        assert "find_records" in {tool["name"] for tool in client.list_tools()}
        assert "db://flights/airline" in {resource["uri"] for resource in client.list_resources()}
        assert any("flights/flight" in item["uriTemplate"] for item in client.list_resource_templates())
        if revision != LEGACY[0]:
            assert client.complete("db://flights/airline/{carrier}", "carrier", "U") == ["UA"]
        assert '"UA"' in found.text
        assert record["carrier"] == "UA"


@every_revision
def test_prompts_are_listed_got_and_completed(root: User, declared: Declared, revision: str) -> None:
    def report(request: Any, cheap: bool = False) -> str:
        """Write a report."""
        return f"Write it cheaply: {cheap}."

    declared.prompt(report)

    with MCPClient(root, revision=revision) as client:
        names = [prompt["name"] for prompt in client.list_prompts()]

        assert "report" in names
        assert client.get_prompt("report", cheap="true").text == "Write it cheaply: True."
        if revision != LEGACY[0]:
            assert client.complete("report", "cheap", "t") == ["true"]


def test_a_refused_call_raises_or_is_returned(root: User) -> None:
    with MCPClient(root) as client:
        with pytest.raises(ToolError) as raised:
            client.call("find_records", model="flights.airlin")
        returned = client.call("find_records", raise_on_error=False, model="flights.airlin")

        assert raised.value.errors[0]["field"] == "model"
        assert returned.is_error
        assert returned.errors == raised.value.errors


@both_eras
def test_an_error_of_the_protocol_has_code_message_data_and_reason(root: User, revision: str) -> None:
    with MCPClient(root, revision=revision) as client, pytest.raises(ProtocolError) as raised:
        client.call("no_such_tool")

    assert (raised.value.code, raised.value.reason) == (-32602, "TOOL_NOT_FOUND")
    assert raised.value.data["errors"][0]["field"] == "name"
    assert str(raised.value) == (
        "Unknown tool: no_such_tool. name: not a tool; tools/list names the tools (-32602 TOOL_NOT_FOUND)"
    )


def test_the_user_and_the_scopes_decide_what_there_is(db: None, declared: Declared) -> None:
    def ground(request: Any) -> str:
        """Ground all planes."""
        return "Done."

    declared.tool(ground)
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_airline"))

    with MCPClient(clerk, scopes=["read"]) as reader, MCPClient(clerk) as writer:
        assert [item["uri"] for item in reader.list_resources() if item["uri"].startswith("db://flights/")] == [
            "db://flights/airline"
        ]
        assert "ground" not in {tool["name"] for tool in reader.list_tools()}
        assert writer.call("ground").text == "Done."


def test_nobody_has_the_scopes_of_the_settings_and_what_cannot_be_is_refused(
    db: None, declared: Declared, settings: Any
) -> None:
    def whoami(request: Any) -> str:
        """Say who is there."""
        return f"{request.user} {sorted(request.mcp.principal.scopes)}"

    declared.tool(whoami, read_only=True)
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}

    with MCPClient() as client:
        assert client.call("whoami").text == "AnonymousUser ['read']"
    wrong: dict[str, dict[str, Any]] = {
        "ANONYMOUS_SCOPES": {"scopes": ["read", "actions"]}, "no revision": {"revision": "2020-01-01"},
        "unknown scope": {"user": User.objects.create_user("clerk"), "scopes": ["publish"]},
    }  # fmt: skip
    for message, options in wrong.items():
        with pytest.raises(ValueError, match=message):
            MCPClient(**options)


@both_eras
@pytest.mark.usefixtures("greet")
def test_a_callable_answers_forms(root: User, revision: str) -> None:
    asked: list[Any] = []

    def elicit(params: Any) -> Any:
        asked.append(params["message"])
        return {"name": "Ada"}

    with MCPClient(root, revision=revision, elicit=elicit) as client:
        assert client.call("greet").text == "Hello, Ada."
    with MCPClient(root, revision=revision, elicit=lambda params: "decline") as client:
        assert client.call("greet").text == "decline"
    assert asked == ["Your name?"]


@both_eras
@pytest.mark.usefixtures("greet")
def test_a_client_that_answers_nothing_is_told_what_it_lacks(root: User, revision: str) -> None:
    with MCPClient(root, revision=revision) as client, pytest.raises((ToolError, ProtocolError), match="elicitation"):
        client.call("greet")


@both_eras
def test_the_model_and_the_folders_of_the_client_are_asked_for(root: User, declared: Declared, revision: str) -> None:
    def poem(request: Any) -> str:
        """Write a poem."""
        folders = [root.uri for root in request.mcp.list_roots()]
        return f"{request.mcp.sample('A poem, please.', max_tokens=100).text} {folders}"

    declared.tool(poem, read_only=True)

    with MCPClient(root, revision=revision, sample=lambda params: "Roses.", roots=["file:///poems"]) as client:
        assert client.call("poem").text == "Roses. ['file:///poems']"


@both_eras
def test_progress_and_log_lines_are_kept(root: User, declared: Declared, revision: str) -> None:
    def work(request: Any) -> str:
        """Work."""
        request.mcp.progress(1, 2)
        request.mcp.log("debug", "half")
        return "done"

    declared.tool(work, read_only=True)

    with MCPClient(root, revision=revision, log_level="debug") as client:
        client.call("work")
        assert client.wait_for("notifications/progress")["progress"] == 1
        assert client.wait_for("notifications/message")["data"] == "half"


@pytest.mark.every_case
@both_eras
def test_a_save_in_the_test_reaches_a_subscription(root: User, revision: str) -> None:
    make_flights(1)
    united = Airline.objects.get(carrier="UA")

    with MCPClient(root, revision=revision) as client:
        watched = client.subscribe("db://flights/airline/UA", "db://flights/airline/none", "db://flights/flight")
        silent = client.updates()
        united.save()

        assert watched == ["db://flights/airline/UA", "db://flights/flight"]
        assert silent == []
        assert client.wait_for_update() == "db://flights/airline/UA"
        assert client.updates() == []
        client.unsubscribe("db://flights/airline/UA")
        united.save()
        assert client.updates() == []


def test_what_is_rolled_back_is_not_told_and_what_is_not_committed_waits(root: User) -> None:
    make_flights(1)

    with MCPClient(root) as client:
        client.subscribe("db://flights/airline/UA")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Airline.objects.get(carrier="UA").save()
            raise ZeroDivisionError
        with transaction.atomic():
            Airline.objects.get(carrier="UA").save()
            before = client.updates()
        assert before == []
        assert client.updates() == ["db://flights/airline/UA"]


def test_a_watched_query_is_told_of_when_its_answer_changes(root: User) -> None:
    make_flights(2)

    with MCPClient(root) as client:
        client.subscribe("db://flights/flight?group_by=carrier&measures=count")
        Flight.objects.first().delete()  # type: ignore[union-attr]

        assert client.wait_for_update() == "db://flights/flight?group_by=carrier&measures=count"


@both_eras
def test_a_list_that_changes_is_told_of(db: None, revision: str) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)

    with MCPClient(clerk, revision=revision) as client:
        client.watch_lists()
        before = {item["uri"] for item in client.list_resources()}
        clerk.user_permissions.add(Permission.objects.get(codename="view_airline"))

        assert client.wait_for("notifications/resources/list_changed") is not None
        assert "db://flights/airline" in {item["uri"] for item in client.list_resources()} - before


def test_a_site_of_ones_own_reads_the_headers_of_the_client(db: None) -> None:
    class Tenants(MCPSite):
        @contextmanager
        def call_context(self, request: Any) -> Iterator[None]:
            request.tenant = request.headers["X-Tenant"]
            yield

    tenants = Tenants("tenants of a test")

    @tool(site=tenants, read_only=True)
    def tenant(request: Any) -> list[str]:
        """Name the tenant."""
        return [request.tenant, request.mcp.principal.user.username]

    clerk = User.objects.create_user("clerk")

    with MCPClient(clerk, site=tenants, headers={"X-Tenant": "north"}) as client:
        assert client.call("tenant").structured == ["north", "clerk"]


def test_a_client_that_is_closed_says_so_and_one_that_waits_in_vain_names_what_does_not_come(root: User) -> None:
    with MCPClient(root, timeout=0.01) as client, pytest.raises(TimeoutError, match=r"no .*updated came within 0\.01"):
        client.wait_for_update()

    with pytest.raises(ConnectionError, match="This client is closed"):
        client.list_tools()


def test_a_call_may_go_on_as_a_task(root: User, declared: Declared) -> None:
    def work(request: Any) -> str:
        """Work long."""
        return f"as a task: {request.mcp.knows_tasks}"

    declared.tool(work, read_only=True, task=True)

    with MCPClient(root, tasks=True) as client:
        result = client.call("work")

    assert result.text == "as a task: True"
    assert result.raw["resultType"] == "complete"


def test_a_call_within_a_transaction_leaves_its_callbacks_to_the_commit(root: User, declared: Declared) -> None:
    done: list[str] = []

    def work(request: Any) -> str:
        """Work."""
        transaction.on_commit(lambda: done.append(threading.current_thread().name))
        return "ok"

    declared.tool(work)

    with MCPClient(root) as client:
        client.call("work")

    assert done == [threading.current_thread().name]


def test_an_asynchronous_tool_sees_the_transaction_of_the_test(root: User, declared: Declared) -> None:
    async def count(request: Any) -> int:
        """Count the users."""
        return await User.objects.acount()

    declared.tool(count, read_only=True)

    with MCPClient(root) as client:
        assert client.call("count").text == "1"


def test_an_asynchronous_test_is_told_how_to_ask(root: User) -> None:
    async def ask() -> list[Any]:
        with pytest.raises(SynchronousOnlyOperation, match="sync_to_async"):
            client.list_tools()
        return await sync_to_async(client.list_tools)()

    with MCPClient(root) as client:
        assert async_to_sync(ask)()


def test_a_user_who_is_deleted_ends_the_connection(root: User) -> None:
    with MCPClient(root) as client:
        client.list_tools()
        User.objects.filter(pk=root.pk).delete()

        with pytest.raises(ConnectionError, match="ended the connection"):
            client.list_tools()


def test_a_client_that_nobody_has_any_more_ends_its_thread(root: User) -> None:
    def threads() -> int:
        return sum(thread.name == "mcp_django test" for thread in threading.enumerate())

    before = threads()
    client = MCPClient(root)
    during = threads()
    del client
    gc.collect()

    assert (before, during, threads()) == (0, 1, 0)


def test_no_broker_is_needed_whatever_the_settings_name(root: User, settings: Any) -> None:
    layer = "channels_redis.pubsub.RedisPubSubChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": layer, "CONFIG": {"hosts": ["redis://127.0.0.1:1"]}}}
    make_flights(1)

    with MCPClient(root) as client:
        client.subscribe("db://flights/airline/UA")
        Airline.objects.get(carrier="UA").save()

        assert client.wait_for_update() == "db://flights/airline/UA"


@pytest.mark.django_db  # It begins without the rows of the test before.
class TheClientInATestCase(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        make_flights(1)
        cls.root = User.objects.create_superuser("root")

    def test_an_update_comes_once_the_test_has_saved(self) -> None:
        with MCPClient(self.root) as client:
            client.subscribe("db://flights/airline/UA")
            Airline.objects.get(carrier="UA").save()

            self.assertEqual(client.wait_for_update(), "db://flights/airline/UA")

    def test_the_queries_of_a_call_are_counted(self) -> None:
        with MCPClient(self.root) as client:
            client.call("find_records", model="flights.airline")
            with self.assertNumQueries(1):
                client.call("find_records", model="flights.airline")


@pytest.mark.django_db  # It begins without the rows of the test before.
class TheClientInATransactionTestCase(TransactionTestCase):
    def test_an_update_comes_once_a_transaction_is_committed(self) -> None:
        make_flights(1)

        with MCPClient(User.objects.create_superuser("root")) as client:
            client.subscribe("db://flights/airline/UA")
            with transaction.atomic():
                Airline.objects.get(carrier="UA").save()
                before = client.updates()

            self.assertEqual((before, client.wait_for_update()), ([], "db://flights/airline/UA"))


def test_a_client_uploads_a_file(root: User, declared: Declared, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path

    def describe(request: HttpRequest, file: UploadedFile) -> str:
        """Describe a file."""
        return f"{file.name} {file.content_type} {file.read().decode()}"

    declared.tool(describe)

    with MCPClient(root) as client:
        assert client.call("describe", file=client.upload(b"abc", "a.csv")).text == "a.csv text/csv abc"
    with MCPClient(root, ["read"]) as client, pytest.raises(ProtocolError) as refused:
        client.upload(b"abc")
    assert refused.value.reason == "NOT_FOUND"
