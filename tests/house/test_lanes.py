"""Which cases of a test each lane runs, and that no lane passes by running less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import axes, lanes, mutations, slow
from tests.support import schemas

pytest_plugins = ["pytester"]

_FILE = """
import pytest

def test_plain(): pass

@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("letter", ["a", "b"])
def test_axes(letter, number): pass

@pytest.mark.parametrize("transport", ["stdio", "websocket"])
@pytest.mark.parametrize("number", [1, 2])
def test_carried(transport, number): pass

@pytest.mark.every_case
@pytest.mark.parametrize("number", [1, 2])
def test_whole(number): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.more("a client")
@pytest.mark.parametrize("number", [1, 2])
def test_more(number): pass

@pytest.mark.release("takes an hour")
@pytest.mark.parametrize("number", [1, 2])
def test_release(number): pass
"""

_CASES = {
    "check": ["plain", "axes[a-1]", "carried[1-websocket]", "whole[1]", "whole[2]"],
    "test": [
        "plain", "axes[a-1]", "carried[1-stdio]", "carried[1-websocket]", "whole[1]", "whole[2]", "slow",
    ],
    "more": ["axes[b-2]", "axes[a-3]", "carried[2-websocket]", "more[1]", "more[2]"],
    "release": [
        "plain",
        *(f"axes[{letter}-{number}]" for number in (1, 2, 3) for letter in "ab"),
        *(f"carried[{number}-{transport}]" for number in (1, 2) for transport in ("stdio", "websocket")),
        "whole[1]", "whole[2]", "slow", "more[1]", "more[2]", "release[1]", "release[2]",
    ],
}  # fmt: skip


class Collected:
    """Which cases were collected."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.name.removeprefix("test_") for item in session.items]


@pytest.mark.every_case
@pytest.mark.parametrize("lane", axes.LANES)
def test_a_lane_runs_these_cases(lane: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_FILE)
    collected = Collected()

    pytester.inline_run("--collect-only", "-p", "no:django", "--lane", lane, plugins=[axes, slow, collected])

    assert sorted(collected.names) == sorted(_CASES[lane])


def test_two_lanes_together_have_each_point_of_each_axis() -> None:
    assert set(axes.LANES) == set(lanes.LANES) == set(_CASES)
    assert not set(_CASES["test"]) & set(_CASES["more"])
    assert all(any(f"[{letter}-" in case for case in _CASES["test"] + _CASES["more"]) for letter in "ab")


@pytest.mark.parametrize("marker", ["more", "release"])
def test_a_test_that_make_test_leaves_out_says_why(marker: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it(): pass\n")

    ended = pytester.inline_run("--collect-only", "-p", "no:django", plugins=[axes, slow])

    assert ended.ret == pytest.ExitCode.INTERRUPTED


def test_each_line_of_the_long_tests_names_a_test() -> None:
    gone = [
        name
        for name in slow.long_tests()
        if f"def {name.rpartition('::')[2]}(" not in (lanes.ROOT / name.partition("::")[0]).read_text()
    ]

    assert not gone


def outcome(*, ran: int, missing: int = 0, code: int = 0, written: bool = True) -> lanes.Outcome:
    step = lanes.Step("SQLite", ("-m", "pytest"), 100)
    failed = ["tests/test_it.py::test_it: AssertionError"] if code else []
    report = {"ran": ran, "failed": failed, "missing": {"npm is missing": missing} if missing else {}, "held": "held"}
    return lanes.Outcome(step, code, 1.0, report if written else None)


def test_a_step_fails_that_ran_fewer_than_95_of_a_hundred_of_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    shown = {
        "all": outcome(ran=100).verdict,
        "enough": outcome(ran=95).verdict,
        "too few": outcome(ran=94).verdict,
        "skipped with a line": outcome(ran=50, missing=50).verdict,
        "no server": outcome(ran=0, written=False).verdict,
        "failed": outcome(ran=100, code=1).verdict,
    }

    assert shown == {
        "all": "", "enough": "", "too few": "FAILED: too few", "skipped with a line": "",
        "no server": "not run", "failed": "FAILED (1)",
    }  # fmt: skip
    monkeypatch.setenv("CI", "true")
    assert outcome(ran=0, written=False).verdict == "FAILED: too few"


def test_the_table_says_what_ran_what_is_missing_what_failed_and_on_which_machine() -> None:
    said = lanes.table("test", [outcome(ran=98, missing=2, code=1)], 61.4, 0.5).splitlines()

    assert said[1].split() == ["make", "test", "ran", "kept", "skipped", "seconds"]
    assert said[2].split() == ["SQLite", "98", "100", "2", "1", "FAILED", "(1)"]
    assert said[3:6] == [
        "skipped 2: npm is missing",
        "failed in SQLite: tests/test_it.py::test_it: AssertionError",
        "held",
    ]
    assert said[6].startswith(f"61 s without what was installed, on {lanes.CORES} cores (")


def test_schemas_that_are_named_and_missing_are_a_failure_and_others_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "FOLDER", tmp_path / "nothing")
    monkeypatch.delenv("MCP_SCHEMAS", raising=False)
    assert schemas.said().startswith("skipped: messages were not held against the published schemas")

    monkeypatch.setenv("MCP_SCHEMAS", str(tmp_path / "nothing"))
    with pytest.raises(NotADirectoryError, match="MCP_SCHEMAS names"):
        schemas.are_here()


def test_each_kept_mutation_can_be_made() -> None:
    kept = [mutations.Mutation(**one) for one in json.loads(mutations.KEPT.read_text())]

    gone = [one for one in kept if (lanes.ROOT / one.file).read_text().count(one.before) != 1]

    assert len(kept) == 120
    assert not gone
