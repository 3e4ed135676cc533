"""Projects in which tasks cannot run: the reason is reported, and the tools run as plain calls or are refused."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from mcp_django import site
from mcp_django.bridge.tasks import framework
from mcp_django.models import Task
from tests.support.asking import text_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer

Break = Callable[[pytest.MonkeyPatch], Any]


@contextmanager
def unknown_backend(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with override_settings(MCP={**settings.MCP, "TASK_BACKEND": "nowhere"}):
        yield


@contextmanager
def unknown_queue(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with override_settings(MCP={**settings.MCP, "TASK_QUEUE": "nowhere"}):
        yield


@contextmanager
def no_setting(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with override_settings(MCP=settings.MCP):
        del settings.TASKS
        yield


@contextmanager
def no_package(patch: pytest.MonkeyPatch) -> Iterator[None]:
    import mcp_django.bridge.tasks

    with override_settings(MCP=settings.MCP), patch.context() as patch:
        patch.delitem(sys.modules, "mcp_django.server.jobs", raising=False)
        patch.delattr(mcp_django.bridge.tasks, "jobs", raising=False)
        patch.setitem(sys.modules, "django_tasks", None)
        patch.setitem(sys.modules, "django.tasks", None)
        yield


@contextmanager
def no_app(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with override_settings(MCP={**settings.MCP, "TASK_BACKEND": "database"}), patch.context() as patch:
        patch.setattr(apps, "is_installed", lambda name: name != "django_tasks_db")
        yield


@contextmanager
def middleware(patch: pytest.MonkeyPatch) -> Iterator[None]:
    with override_settings(MCP=settings.MCP, MIDDLEWARE=[*settings.MIDDLEWARE, "project.Tenants"]):
        yield


BROKEN: dict[Break, str] = {
    unknown_backend: "The backend 'nowhere' of TASKS cannot be used",
    unknown_queue: "Queue 'nowhere' is not valid",
    no_setting: "The setting TASKS is missing",
    no_app: "Insert 'django_tasks_db' in INSTALLED_APPS",
    middleware: "A task does not pass project.Tenants",
    no_package: "Install mcp_django with its extra tasks",
}
if find_spec("django.tasks") is not None:
    del BROKEN[no_package]  # This Django has a tasks framework.


@pytest.mark.parametrize("transport", ["stdio"])
def test_without_a_usable_backend_a_check_says_why_and_tools_run_as_calls(
    client: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.tools()
    for broken, said in BROKEN.items():
        caplog.clear()
        with broken(monkeypatch):
            [warning] = _warnings()
            assert warning.msg == (
                "Nothing runs as a task: add is declared with task=, and its callers wait while it runs; "
                "nobody can see or call add_in_a_task."
            )
            assert said in str(warning.hint)

            assert client.call("add", a=1, b=2)["content"] == [{"type": "text", "text": "1 + 2 = 3"}]
            listed = client.tools()
            assert "add" in listed
            assert "add_in_a_task" not in listed
            error = client.error(MODERN, "tools/call", {"name": "add_in_a_task", "arguments": {"a": 1, "b": 2}})
            assert error["data"]["reason"] == "TOOL_NOT_FOUND"
            assert "extensions" not in client.result(MODERN, "server/discover")["capabilities"]
            assert client.error(MODERN, "tasks/get", {"taskId": "x"})["code"] == -32601
            assert not Task.objects.exists()
        warnings = [record for record in caplog.records if record.levelno == logging.WARNING and said in record.message]
        assert len(warnings) == 1, said
        assert "add_in_a_task" in client.tools()


def _warnings() -> list[Any]:
    return [one for one in run_checks(tags=["mcp_django"], databases=[]) if one.id == "mcp_django.W004"]


def test_a_tool_that_must_be_a_task_says_so_itself(client: Peer, add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def must(request: Any) -> str:
        """Is a task or nothing."""
        request.mcp.as_task(required=True)
        return "done"

    add(must, task="later")
    assert client.call("must")["resultType"] == "task"
    with unknown_backend(monkeypatch):
        refused = client.call("must")
    assert refused["isError"] is True
    assert text_of(refused) == "This takes long, and the server cannot run it as a task."


def test_a_complete_project_gets_no_warning(tools: Declared) -> None:
    assert framework.problem(site) is None
    assert _warnings() == []


def test_a_word_that_means_nothing(declared: Declared) -> None:
    def typo(request: Any) -> str:
        """Is declared wrongly."""
        return ""

    with pytest.raises(ImproperlyConfigured, match="task of the tool typo"):
        declared.tool(typo, task="require")


def test_elsewhere_than_in_a_tool_nothing_becomes_a_task(client: Peer, declared: Declared) -> None:
    from mcp_django import resource

    @resource("tests://as-task")
    def text(request: Any) -> str:
        request.mcp.as_task(required=True)
        return "here"

    try:
        contents = client.result(MODERN, "resources/read", {"uri": "tests://as-task"})["contents"]
    finally:
        del site.resources["tests://as-task"]
    assert contents[0]["text"] == "here"
