"""What was measured, as tables in Markdown, and the goals."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bench.serving.measuring import Readings
from bench.serving.tables import Line, Table


@dataclass(frozen=True, slots=True)
class Goal:
    """How many times the rate of another server one of ours has, and how many times it should."""

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
        f"{seconds} s. The ratio is that of the rates, and in brackets that of the processor's time a request."
    )


def table(measured: Table, readings: Readings) -> str:
    titles = ["", *(title for work in measured.works for title in (work, "CPU", "busy", "ratio"))]
    lines = [f"\n**{measured.title}**\n", _row(titles), _row(["---", *["---:"] * (len(titles) - 1)])]
    for line in measured.lines:
        cells = [line.title]
        for work in measured.works:
            reading = readings[line.title, work]
            by_rate, by_cost = ratios(measured, line, work, readings)
            cells += [
                f"{reading.rate:,.0f}/s",
                f"{reading.cost * 1e6:,.0f} µs",
                f"{reading.share:.0%}",
                f"{by_rate:.2f} ({by_cost:.2f})",
            ]
        lines.append(_row(cells))
    return "\n".join(lines)


def ratios(measured: Table, line: Line, work: str, readings: Readings) -> tuple[float, float]:
    """How many times the base of its era a line is: by the rate, and by the processor's time that a request took."""
    reading, base = readings[line.title, work], readings[measured.bases[line.era], work]
    return reading.rate / base.rate, base.cost / reading.cost


def goals(measured: Table, readings: Readings) -> Iterator[Goal]:
    for line in measured.lines:
        for work in measured.works:
            least = measured.goals.get((line.title, work))
            if least is not None:
                by_rate, _ = ratios(measured, line, work, readings)
                what = f"{measured.title}: {work}, {line.title}, to {measured.bases[line.era]}"
                yield Goal(what, by_rate, least)


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
