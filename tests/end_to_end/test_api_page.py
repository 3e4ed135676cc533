"""docs/api.md is true: its files are a project without the admin, whose agent gets what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.end_to_end.projects import replace, start_project
from tests.support.pages import PAGES

PAGE = PAGES["docs/api.md"]
#: Each block of the page, by its language, in the order in which the reader meets them.
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
_CALLS = """
import json, sys
from django.contrib.auth.models import User
from django.core.management import call_command
from mcp_django.test import MCPClient
from orders.models import Order

call_command("check", fail_level="WARNING")
call_command("migrate", run_syncdb=True, verbosity=0)
anna, otto = User.objects.create_user("anna"), User.objects.create_user("otto")
for number, owner in enumerate([anna, anna, anna, otto], 1):
    Order.objects.create(owner=owner, number=f"A{number}", total=10 * number)
for command in COMMANDS:
    call_command(*command)
with MCPClient(anna, ["read", "write"]) as client:
    found = {"tools": [one["name"] for one in client.list_tools()], "answers": []}
    for name, arguments in CALLS:
        result = client.call(name, raise_on_error=False, **arguments)
        found["answers"].append(result.structured or json.loads(result.content[0]["text"]))
    confirm = {"confirm": found["answers"][PLAN]["confirm"]}
    found["applied"] = client.call("change_api", **CALLS[PLAN][1], **confirm).structured["status"]
    found["operations"] = client.call("describe_api", resource="order").structured["operations"]
print(json.dumps({**found, "notes": list(Order.objects.values_list("note", flat=True))}))
"""


def _tool(answer: dict[str, Any]) -> str:
    if "call_with" in answer:
        return "describe_api"
    return "change_api" if "confirm" in answer else "call_api"


def test_the_page_is_true_in_a_project_without_the_admin(tmp_path: Path) -> None:
    project = start_project(tmp_path)
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/__init__.py").touch()
    for text in [text for language, text in BLOCKS if language == "python"]:
        (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text)
    settings = tmp_path / "project/settings.py"
    replace(settings, "    'django.contrib.admin',\n", "    'mcp_django',\n    'orders',\n")
    said = [json.loads(text) for language, text in BLOCKS if language == "json"]
    asked, expected = said[::2], said[1::2]
    calls = [(_tool(answer), arguments) for arguments, answer in zip(asked, expected, strict=True)]
    plan = next(number for number, (name, _) in enumerate(calls) if name == "change_api")
    [shell] = [text for language, text in BLOCKS if language == "sh"]
    commands = [line.split()[2:] for line in shell.replace('"Anna\'s agent"', "agent").splitlines()]
    named = {"CALLS": calls, "PLAN": plan, "COMMANDS": commands}

    printed = project.run("\n".join(f"{name} = {value!r}" for name, value in named.items()) + _CALLS)
    found = json.loads(printed.splitlines()[-1])

    found["answers"][plan]["confirm"] = "…"
    assert found["answers"] == expected
    assert {"describe_api", "call_api", "change_api"} <= set(found["tools"])
    assert (found["applied"], found["notes"]) == ("applied", ["call first", "", "", ""])
    assert found["operations"].keys() == {
        "list", "create", "retrieve", "update", "partial_update", "destroy", "pay",
    }  # fmt: skip
