"""Ten million lines of the audit trail: what lists, searches and their deletion cost, and which read the whole table.

.venv/bin/python -m bench.large_trail [--lines N] [--check]
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from time import perf_counter, process_time
from typing import Any
from urllib.parse import urlencode

from bench.cluster import cluster
from bench.goals import Goal

LINES = 10_000_000
#: Days over which the lines are spread: a tenth is older than AUDIT_DAYS.
_DAYS = 100
#: The goal for each page and each batch.
_MOST_MS = 200.0
#: How often each is asked, of which the fastest counts: the first time reads from the disk, and imports.
_ROUNDS = 3
#: How many lines a batch of the deletion and a page of the command have: see core.db.clearing and call_queries.
_CLEARED, _PRINTED = 1_000, 2_000
_LIST = "/admin/mcp_django/call/"
#: What a page is called → the parameters of its URL.
_Pages = Mapping[str, Mapping[str, Any]]

# More lines at noon than at night, a few users and tools that most lines are of, and some that hardly any is of.
_FILL = """
INSERT INTO mcp_django_call (at, site, kind, outcome, reason, user_id, user_name, token_id, token_name, client_id,
    client_name, transport, revision, method, name, model, uri, arguments, "values", keys, rows, bytes, ms, queries,
    request_id, trace_id, address, count)
SELECT %(start)s + make_interval(secs => 86400 * (day + hour + 0.9 * sin(2 * pi() * hour) / (2 * pi()))), 'mcp',
    kind, outcome, CASE outcome WHEN 'refused' THEN 'NO_PERMISSION' ELSE '' END,
    who::text, 'user ' || who, 3 * who + g %% 3, 'agent ' || g %% 3, '', 'client ' || floor(12 * c ^ 3), 'http',
    '2026-07-28', CASE kind WHEN 'read' THEN 'resources/read' WHEN 'prompt' THEN 'prompts/get' ELSE 'tools/call' END,
    CASE WHEN kind = 'read' THEN '' WHEN g %% 2000000 = 7 THEN 'rare_tool' ELSE 'tool_' || floor(40 * d ^ 2) END,
    CASE WHEN g %% 2000000 = 9 THEN 'shop.rare' ELSE 'shop.model' || floor(60 * e ^ 2) END,
    CASE kind WHEN 'read' THEN 'db://shop/model/' || g %% 1000 ELSE '' END, '["model", "filter", "limit"]', '',
    CASE WHEN g %% 20 = 0 THEN ' ' || g %% 50000 || ' ' ELSE '' END, floor(20 * c), 400 + floor(4000 * d), 40 * e ^ 2,
    3, md5(g::text), CASE WHEN g %% 3 = 0 THEN md5('t' || g) ELSE '' END, '10.0.' || floor(8 * a) || '.' || who %% 250,
    1
FROM (
    SELECT g, a, c, d, e, floor(2000 * b ^ 3)::int AS who, floor(%(days)s * (g - 1.0) / %(lines)s) AS day,
        (%(days)s * (g - 1.0) / %(lines)s) %% 1 AS hour,
        CASE WHEN a < 0.7 THEN 'call' WHEN a < 0.95 THEN 'read' ELSE 'prompt' END AS kind,
        CASE WHEN g %% 1000000 = 5 THEN 'unknown' WHEN f < 0.92 THEN 'done' WHEN f < 0.97 THEN 'refused' ELSE 'failed'
        END AS outcome
    FROM (
        SELECT g, random() AS a, random() AS b, random() AS c, random() AS d, random() AS e, random() AS f
        FROM generate_series(1, %(lines)s) AS g
    ) AS drawn
) AS lines
"""


@dataclass(frozen=True)
class Cost:
    """What one piece of work took: the processor of this process, the time, and whether a table was read whole."""

    title: str
    processor_ms: float
    ms: float
    statements: int
    reads_all: bool
    #: Whether no index has what it looks for.
    may_read_all: bool


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.large_trail", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, default=LINES, help=f"lines of the audit trail ({LINES:,})")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    goals: list[Goal] = []
    with cluster(bus=False):
        begun = perf_counter()
        newest = _fill(options.lines)
        print(f"\n## {options.lines:,} lines, written in {perf_counter() - begun:.0f} s\n")
        print("| what | processor | time | statements | reads all lines |\n|---|---:|---:|---:|---|")
        for cost in _costs(newest):
            reads = "yes" if cost.reads_all else ""
            times = f"{cost.processor_ms:,.0f} ms | {cost.ms:,.0f} ms"
            print(f"| {cost.title} | {times} | {cost.statements} | {reads} |", flush=True)
            goals.append(Goal(cost.title, cost.processor_ms, _MOST_MS, "ms"))
            if not cost.may_read_all:
                goals.append(Goal(f"{cost.title}: reads all lines", cost.reads_all, 0, "times"))
    missed = [goal for goal in goals if not goal.holds]
    print("\nGoals", *map(str, missed), f"  {len(goals) - len(missed)} of {len(goals)} hold", sep="\n")
    return 1 if options.check and missed else 0


def _fill(lines: int) -> datetime:
    """Write the lines; returns the time of the newest."""
    from django.db import connection
    from django.utils import timezone

    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(_FILL, {"start": now - timedelta(days=_DAYS), "days": _DAYS, "lines": lines})
        cursor.execute("VACUUM ANALYZE mcp_django_call")
    return now


def _costs(newest: datetime) -> Iterator[Cost]:
    from django.contrib.auth.models import User
    from django.test import Client

    from mcp_django.models import Call

    browser = Client()
    browser.force_login(User.objects.filter(is_superuser=True)[0])
    one = Call.objects.exclude(trace_id="").order_by("-at")[5_000]
    changed = Call.objects.exclude(keys="").order_by("-at")[5_000]
    old = (newest - timedelta(days=60)).date().isoformat()
    by_index: _Pages = {
        "the list": {},
        "its second page": {"p": 2},
        "its last page": {"p": 100},
        "today": {"day": "today"},
        "the past 7 days": {"day": "week"},
        "a day of two months ago": {"day": old},
        "that day, a user": {"day": old, "user": "3"},
        "that day, a tool": {"day": old, "tool": "tool_30"},
        "that day, a request id": {"day": old, "q": one.request_id},
        "a user of many calls": {"user": "0"},
        "a user of few calls": {"user": "1999"},
    }
    without: _Pages = {
        "outcome: failed": {"outcome": "failed"},
        "outcome: unknown, 10 lines": {"outcome": "unknown"},
        "kind: prompt": {"kind": "prompt"},
        "a user by the name": {"user": "user 1999"},
        "a token": {"token": str(one.token_id)},
        "a client": {"client": "client 3"},
        "a tool of many calls": {"tool": "tool_0"},
        "a tool of 5 calls": {"tool": "rare_tool"},
        "a model": {"model": "shop.model3"},
        "a model of 5 calls": {"model": "shop.rare"},
        "search: a changed record": {"q": f"{changed.model} {changed.keys.strip()}"},
        "search: a request id": {"q": one.request_id},
        "search: a trace id": {"q": one.trace_id},
        "search: an address": {"q": one.address},
    }
    for pages, may_read_all in ((by_index, False), (without, True)):
        for title, query in pages.items():
            yield _cost(title, partial(_open, browser, f"{_LIST}?{urlencode(query)}"), may_read_all=may_read_all)
    yield _cost("a line", partial(_open, browser, f"{_LIST}{one.pk}/change/"))
    yield _cost("the first page of the console", partial(_open, browser, "/admin/mcp_django/"))
    yield _cost("the same in a new process, which counts 14 days", partial(_open_anew, browser, "/admin/mcp_django/"))
    yield _batches("mcp_audit, for 2,000 lines", _PRINTED, "--since", "2h")
    yield _batches("mcp_audit of a user, for 2,000 lines", _PRINTED, "--since", "2d", "--user", "3")
    yield _cost("mcp_audit of a tool of no call, a day", lambda: _command("--tool", "no_tool"))
    yield _batches("mcp_audit --clear, for 1,000 lines", _CLEARED, "--clear")
    yield _cost("mcp_audit --clear, nothing left", lambda: _command("--clear"))


def _open(browser: Any, url: str) -> None:
    """Open a page. Raises ValueError where it is none."""
    answer = browser.get(url, SERVER_NAME="localhost")
    if answer.status_code != HTTPStatus.OK:
        raise ValueError(f"{url}: {answer.status_code}")


def _open_anew(browser: Any, url: str) -> None:
    """Open a page as a process that has counted no day yet."""
    from mcp_django.console.admin import call_chart

    call_chart.forget()
    _open(browser, url)


def _command(*arguments: str) -> str:
    from django.core.management import call_command

    output = io.StringIO()
    call_command("mcp_audit", *arguments, stdout=output, stderr=io.StringIO())
    return output.getvalue()


def _cost(title: str, work: Callable[[], object], *, may_read_all: bool = False) -> Cost:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    taken = []
    for _ in range(_ROUNDS):
        begun, processor = perf_counter(), process_time()
        work()
        taken.append(((process_time() - processor) * 1_000, (perf_counter() - begun) * 1_000))
    with CaptureQueriesContext(connection) as asked:
        work()
    reads_all = any(_reads_all(query["sql"]) for query in asked.captured_queries)
    return Cost(title, min(one for one, _ in taken), min(one for _, one in taken), len(asked), reads_all, may_read_all)


def _batches(title: str, size: int, *arguments: str) -> Cost:
    """What the command costs for so many lines, when it is run once."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from mcp_django.models import Call

    before, begun, processor = Call.objects.count(), perf_counter(), process_time()
    with CaptureQueriesContext(connection) as asked:
        output = _command(*arguments)
    spent = (process_time() - processor) * 1_000, (perf_counter() - begun) * 1_000
    lines = before - Call.objects.count() or output.count("\n")
    batches = max(1.0, lines / size)
    print(f"{title}: {lines:,} lines in {spent[1] / 1_000:,.1f} s", file=sys.stderr)
    reads_all = any(_reads_all(query["sql"]) for query in asked.captured_queries[:5])
    return Cost(title, spent[0] / batches, spent[1] / batches, round(len(asked) / batches), reads_all, False)


def _reads_all(sql: str) -> bool:
    """Whether PostgreSQL plans to read the table of calls from its beginning to its end."""
    from django.db import connection

    if not sql.startswith("SELECT"):
        return False
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return any("Seq Scan on mcp_django_call" in row[0] for row in cursor.fetchall())


if __name__ == "__main__":
    sys.exit(main())
