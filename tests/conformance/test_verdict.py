"""A run of the suite is good only where every scenario showed something and nothing was held against the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.verdict import Verdict, read


def check(status: str, **fields: Any) -> dict[str, Any]:
    return {"id": "a-check", "description": "what it is about", "status": status, **fields}


def judged(results: Path, prefix: str = "server", /, **scenarios: list[dict[str, Any]] | None) -> Verdict:
    """The verdict on scenarios and their checks; None is a scenario that ran out of time."""
    output = ""
    for name, checks in scenarios.items():
        folder = results / f"{prefix}-{name}-2026-11-20T13-23-08-525Z"
        folder.mkdir()
        if checks is not None:
            (folder / "checks.json").write_text(json.dumps(checks))
        output += f"=== Running scenario: {name} ===\n"
    return read(results, output)


def test_checks_are_counted_and_a_note_is_none(tmp_path: Path) -> None:
    verdict = judged(tmp_path, ping=[check("SUCCESS"), check("INFO")], listing=[check("SUCCESS")])

    assert verdict.problems == []
    assert str(verdict) == "2 passed, 0 failed, 0 warned, 0 skipped in 2 scenarios"


def test_the_scenarios_of_an_authorization_server_are_found(tmp_path: Path) -> None:
    failed = [check("FAILURE", errorMessage="it was wrong")]

    verdict = judged(tmp_path, "authorization-server", **{"authorization-server-metadata-endpoint": failed})

    assert verdict.problems == [
        "authorization-server-metadata-endpoint: nothing was shown",
        "FAILURE authorization-server-metadata-endpoint · a-check: it was wrong",
    ]


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED"])
def test_what_is_held_against_the_server_is_a_problem_with_its_message(tmp_path: Path, status: str) -> None:
    held = check(status, errorMessage="it was wrong", details={"code": 1})

    verdict = judged(tmp_path, ping=[check("SUCCESS"), held])

    assert verdict.problems == [f'{status} ping · a-check: it was wrong\n    {{"code": 1}}']


def test_the_one_scenario_without_checks_of_its_own_may_be_skipped(tmp_path: Path) -> None:
    verdict = judged(tmp_path, **{"tasks-status-notifications": [check("SKIPPED")]})

    assert verdict.problems == []
    assert str(verdict) == "0 passed, 0 failed, 0 warned, 1 skipped in 1 scenario"


@pytest.mark.parametrize("checks", [None, [], [check("INFO")]])
def test_a_scenario_that_showed_nothing_is_a_problem(tmp_path: Path, checks: list[dict[str, Any]] | None) -> None:
    verdict = judged(tmp_path, ping=checks)

    assert verdict.problems == ["ping: nothing was shown"]


def test_a_run_without_scenarios_is_a_problem(tmp_path: Path) -> None:
    verdict = read(tmp_path, "Unknown suite: al")

    assert verdict.problems == ["no scenario was run:\nUnknown suite: al"]
