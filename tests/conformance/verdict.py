"""What a run of the suite showed, read from the checks.json of each scenario.

The suite's own exit code leaves out the scenarios that a revision does not score, and every warning.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JSON = dict[str, Any]

#: Scenarios that the suite itself has no checks for.
MAY_SKIP = frozenset({"tasks-status-notifications"})

_ANNOUNCED = re.compile(r"^=== Running scenario: (\S+) ===$", re.MULTILINE)
#: The folder of a scenario: ``server-<scenario>-2026-11-20T13-23-08-525Z``, or ``authorization-server-<scenario>-…``.
_FOLDER = re.compile(r"(?:authorization-)?server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass(frozen=True)
class Verdict:
    """One run: how many checks ended how, and every reason why it is not good enough."""

    counts: Counter[str]
    scenarios: int
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counted = self.counts
        scenarios = "1 scenario" if self.scenarios == 1 else f"{self.scenarios} scenarios"
        return (
            f"{counted['SUCCESS']} passed, {counted['FAILURE']} failed, {counted['WARNING']} warned, "
            f"{counted['SKIPPED']} skipped in {scenarios}"
        )


def read(results: Path, output: str) -> Verdict:
    """The verdict on a run that left its folders in ``results`` and printed ``output``."""
    checks = dict(_checks(results))
    # A scenario that ran out of time is announced, and leaves no checks.
    names = _ANNOUNCED.findall(output) or list(checks)
    problems = [] if names else [f"no scenario was run:\n{output}"]
    for name in names:
        problems.extend(_problems(name, checks.get(name, [])))
    return Verdict(Counter(check["status"] for found in checks.values() for check in found), len(names), problems)


def _checks(results: Path) -> Iterator[tuple[str, list[JSON]]]:
    for folder in sorted(results.iterdir()):
        match = _FOLDER.fullmatch(folder.name)
        file = folder / "checks.json"
        if match is not None and file.exists():
            yield match[1], json.loads(file.read_text())


def _problems(name: str, checks: list[JSON]) -> Iterator[str]:
    if not any(check["status"] == "SUCCESS" for check in checks) and name not in MAY_SKIP:
        yield f"{name}: nothing was shown"
    for check in checks:
        skipped = check["status"] == "SKIPPED" and name not in MAY_SKIP
        if skipped or check["status"] in ("FAILURE", "WARNING"):
            said = check.get("errorMessage") or check["description"]
            details = f"\n    {json.dumps(check['details'])[:2_000]}" if check.get("details") else ""
            yield f"{check['status']} {name} · {check['id']}: {said}{details}"
