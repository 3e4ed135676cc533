"""The MCP Inspector's command line, which opens a connection for each call."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import node
from tests.conformance.node import INSPECTOR
from tests.conftest import need
from tests.end_to_end.clients.clients import CLIENTS, prepared
from tests.end_to_end.clients.serving import Desk

SECONDS = 300
#: The Inspector gives up after 15 seconds by itself, in which a busy machine starts no server over stdio.
CONNECT_MS = "240000"
#: Tickets that no conversation of the other clients touches.
FIRST_FREE = 2 * len(CLIENTS) + 1

#: A transport and an era.
WAYS = ("http-legacy", "http-modern", "stdio-legacy", "stdio-modern", "sse-legacy")
ERAS = ("http-legacy", "http-modern")
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "desk", "version": "1.0"}}

pytestmark = [pytest.mark.more("one more client"), pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Seen:
    """What a call ended with, wrote, and complained of."""

    code: int
    result: Any
    complaint: Any


Inspect = Callable[..., Seen]


@pytest.fixture
def inspect(desk: Desk, way: str, tmp_path: Path) -> Inspect:
    """``inspect(method, *options)``: one run of the Inspector's command line, against the desk."""
    try:
        suite: node.Suite = prepared(node.install)
    except node.NPMMissing:
        need(False, "npm")
        raise
    script = suite.folder / INSPECTOR
    transport, era = way.split("-")
    if transport == "stdio":
        own = {name: desk.project.environment[name] for name in ("PYTHONPATH", *desk.project.variables)}
        server = [*desk.command, *(part for name, value in own.items() for part in ("-e", f"{name}={value}"))]
    else:
        url = desk.near.url if transport == "http" else f"{desk.near.origin}/sse"
        server = [url, "--transport", transport, "--header", f"Authorization: Bearer {desk.token}"]

    def run(method: str, *options: str) -> Seen:
        command = [str(suite.node), str(script), "--cli", *server, "--protocol-era", era, "--method", method]
        done = subprocess.run(
            [*command, *options, "--format", "json", "--connect-timeout", CONNECT_MS],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        # A stdio server's log is passed on.
        complaints = [line for line in done.stderr.splitlines() if line.startswith('{"error"')]
        assert "Traceback" not in done.stderr, done.stderr
        return Seen(
            done.returncode,
            json.loads(done.stdout)["result"] if done.stdout else None,
            json.loads(complaints[0])["error"] if complaints else None,
        )

    return run


def enveloped(way: str, result: Any) -> Any:
    """A result as the Inspector shows it in the era."""
    return {"_meta": SERVER, **result} if way.endswith("modern") else result


@pytest.mark.parametrize("way", WAYS)
def test_the_tools_are_listed_and_their_schemas_pass_its_strict_examination(inspect: Inspect, way: str) -> None:
    seen = inspect("tools/list", "--strict")

    assert (seen.code, seen.complaint) == (0, None)
    assert [tool["name"] for tool in seen.result["tools"]] == [
        "aggregate_records",
        "count",
        "describe_models",
        "desk_ticket_close",
        "file_away",
        "find_records",
        "folders",
        "get_record",
        "greet",
        "ledger",
        "letter",
        "translate",
    ]


@pytest.mark.parametrize("way", ERAS)
def test_a_record_is_read(inspect: Inspect, way: str) -> None:
    seen = inspect("resources/read", "--uri", f"db://desk/ticket/{FIRST_FREE}")

    text = f'{{"id":{FIRST_FREE},"title":"Ticket {FIRST_FREE}","status":"open"}}'
    contents = [{"uri": f"db://desk/ticket/{FIRST_FREE}", "mimeType": "application/json", "text": text}]
    hints = {"ttlMs": 0, "cacheScope": "private"} if way.endswith("modern") else {}
    assert seen == Seen(0, enveloped(way, {"contents": contents, **hints}), None)


@pytest.mark.parametrize("way", WAYS)
def test_an_action_acts(inspect: Inspect, way: str) -> None:
    ticket = FIRST_FREE + 1 + WAYS.index(way)

    seen = inspect("tools/call", "--tool-name", "desk_ticket_close", "--tool-args-json", f'{{"ids": [{ticket}]}}')

    result = {"content": [{"type": "text", "text": "1 closed."}], "isError": False}
    assert seen == Seen(0, enveloped(way, result), None)


@pytest.mark.parametrize("way", ERAS)
def test_an_error_of_a_tool_is_shown_with_what_is_right(inspect: Inspect, way: str) -> None:
    seen = inspect("tools/call", "--tool-name", "find_records", "--tool-arg", "model=desk.tickte")

    assert seen.code == 5
    assert seen.result["isError"] is True
    [error] = json.loads(seen.result["content"][0]["text"])["errors"]
    assert error["message"] == ("no model 'desk.tickte'. Did you mean desk.ticket? Allowed: desk.ticket.")
    assert seen.complaint == {"code": "tool_is_error", "message": "Tool 'find_records' returned isError:true."}


@pytest.mark.parametrize("way", ERAS)
def test_a_prompt_is_got_with_its_arguments(inspect: Inspect, way: str) -> None:
    seen = inspect("prompts/get", "--prompt-name", "reply", "--prompt-args", f"ticket={FIRST_FREE}", "tone=long")

    text = f"Write a long answer to: Ticket {FIRST_FREE}"
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    result = {"description": "Answer whoever opened a ticket.", "messages": messages}
    assert seen == Seen(0, enveloped(way, result), None)
