"""A project that follows docs/tasks.md, with a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from tests.end_to_end.example_shop import ORDERS, write_shop
from tests.end_to_end.projects import install, replace, set_up, start_project, token_of
from tests.end_to_end.servers import wait_for
from tests.support import forkserver
from tests.support.pages import blocks
from tests.support.peers import MODERN, meta
from tests.support.tasks import TASKS

pytestmark = [pytest.mark.more("sets a project up, with a worker"), pytest.mark.slow]


def test_the_page_sets_a_worker_up(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    project = start_project(folder)
    install(project)
    write_shop(project)
    (project.folder / "shop/mcp.py").write_text("from . import reports\n")
    [text] = [block for block in blocks("docs/tasks.md", "python") if "django_tasks_db" in block]
    settings = project.folder / "project/settings.py"
    replace(settings, "    'shop',\n", "    'shop',\n    'django_tasks_db',\n")
    settings.write_text(settings.read_text() + text)
    project.manage("makemigrations", "shop")
    set_up(project)
    project.run(ORDERS)
    assert "no issues" in project.manage("check")

    command = ["manage.py", "db_worker", "--interval", "0.1", "--no-reload"]
    worker = forkserver.start(command, cwd=project.folder, env=project.environment)
    try:
        with project.served("gunicorn") as served:

            def ask(method: str, params: Any) -> Any:
                params = {**params, "_meta": meta(**{CLIENT_CAPABILITIES_META_KEY: TASKS})}
                headers = {
                    "Authorization": f"Bearer {token_of(project)}",
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": MODERN,
                    "Mcp-Method": method,
                    "Mcp-Name": params.get("name") or params["taskId"],
                }
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = httpx.post(served.url, json=message, headers=headers, timeout=60)
                return json.loads(answer.text)["result"]

            created = ask("tools/call", {"name": "check_totals", "arguments": {}})
            assert created["status"] == "working"

            def done() -> Any:
                found = ask("tasks/get", {"taskId": created["taskId"]})
                return found if found["status"] != "working" else None

            found = wait_for(done, "the result", 60)
    finally:
        worker.terminate()
        worker.wait(60)
    assert found["result"]["content"] == [{"type": "text", "text": "Wrong: none."}]
