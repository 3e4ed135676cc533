"""What was measured, as tables in Markdown, and the goals."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bench.serving.load import Reading
from bench.serving.measuring import Readings
from bench.serving.tables import PROCESSOR, RATE, Table, Target


@dataclass(frozen=True, slots=True)
class Goal:
    """How many times another server one of ours is, and how many times it should be."""

    what: str
    measured: float
    least: float

    @property
    def holds(self) -> bool:
        return self.measured >= self.least

    def __str__(self) -> str:
        return f"  {'PASS' if self.holds else 'MISS'}  {self.what}: {self.measured:.2f} times (at least {self.least})"


def heading(rounds: int, seconds: int) -> str:
    return (
        f"{date.today():%-d %B %Y}, {_processor()}, Python {platform.python_version()}. Medians of {rounds} rounds of "
        f"{seconds} s. The ratio is that of the rates, and in brackets that of the processor's time a request; "
        "so are the goals."
    )


def table(measured: Table, readings: Readings) -> str:
    titles = ["", *(title for work in measured.works for title in (work, "CPU", "busy", "ratio", "goal"))]
    lines = [f"\n**{measured.title}**\n", _row(titles), _row(["---", *["---:"] * (len(titles) - 1)])]
    for line in measured.lines:
        cells = [line.title]
        for work in measured.works:
            if work not in measured.works_of(line):
                cells += [""] * 5
                continue
            reading = readings[line.title, work]
            by_rate, by_cost = _ratios(reading, readings[measured.bases[line.era], work])
            cells += [
                f"{reading.rate:,.0f}/s",
                f"{reading.cost * 1e6:,.0f} µs",
                f"{reading.share:.0%}",
                f"{by_rate:.2f} ({by_cost:.2f})",
                "; ".join(
                    _beside(target, readings)
                    for target in measured.goals
                    if (target.line, target.work) == (line.title, work)
                ),
            ]
        lines.append(_row(cells))
    return "\n".join(lines)


def goals(measured: Table, readings: Readings) -> Iterator[Goal]:
    eras = {line.title: line.era for line in measured.lines}
    for target in measured.goals:
        base = target.base or measured.bases[eras[target.line]]
        what = f"{measured.title}: {target.work}, {target.line}, to {base}"
        yield Goal(f"{what}{_BY[target.by]}", _measured(target, base, readings), target.least)


_BY = {RATE: "", PROCESSOR: ", by the processor's time"}


def _beside(target: Target, readings: Readings) -> str:
    """The goal as it stands beside its ratio; where it is held against another line, with that ratio."""
    least = f"({target.least})" if target.by == PROCESSOR else f"{target.least}"
    if not target.base:
        return least
    return f"{least}, to {target.base}: {_measured(target, target.base, readings):.2f}"


def _measured(target: Target, base: str, readings: Readings) -> float:
    by_rate, by_cost = _ratios(readings[target.line, target.work], readings[base, target.work])
    return by_cost if target.by == PROCESSOR else by_rate


def _ratios(reading: Reading, base: Reading) -> tuple[float, float]:
    """How many times another one it is: by the rate, and by the processor's time that a request took."""
    return reading.rate / base.rate, base.cost / reading.cost


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _processor() -> str:
    """The processor's name, and how many cores there are."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.machine()}, {len(names)} cores"
