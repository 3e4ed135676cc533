"""What was measured, as a table, and how it compares with the goals."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import django
from django.db import connection

from bench.goals import Goal
from bench.questions import Question
from demo_project.flights.models import Flight

FLOOR, TOOL, REQUEST, DRF, DRF_REQUEST = "floor", "tool", "request", "DRF", "DRF with the token"

_COLUMNS = "{:<24}{:>10}{:>12}{:>10}{:>12}{:>10}"


def heading(rounds: int) -> str:
    version = ".".join(map(str, connection.get_database_version()))
    return (
        f"{connection.display_name} {version}, {Flight.objects.count():,} flights. Medians of {rounds} rounds in one "
        f"process, Python {platform.python_version()}, Django {django.__version__}.\n\n"
        + _COLUMNS.format("", "time", "rows/s", "bytes", "to floor", "to DRF")
    )


def table(question: Question) -> str:
    """A line for each contestant. A request with its token is held against DRF with the same token."""
    lines = [f"\n{question}"]
    measured = {contestant.name: contestant.median for contestant in question.contestants}
    for name, seconds in measured.items():
        other = DRF_REQUEST if name in (REQUEST, DRF_REQUEST) else DRF
        reading = question.readings[name]
        lines.append(
            _COLUMNS.format(
                f"  {name}",
                f"{seconds * 1e6:,.0f} µs",
                f"{len(reading.rows) / seconds:,.0f}",
                f"{reading.bytes:,}",
                f"{seconds / measured[FLOOR]:.2f}",
                f"{seconds / measured[other]:.2f}" if other in measured else "",
            ).rstrip()
        )
    return "\n".join(lines)


def goals(question: Question) -> Iterator[Goal]:
    yield Goal(f"{question}, to the floor", question.seconds(TOOL) / question.seconds(FLOOR), 1.5)
    if question.asked_of_drf:
        yield Goal(f"{question}, to DRF", question.seconds(TOOL) / question.seconds(DRF), 0.5)


def last_against_first(first: Question, last: Question) -> Goal:
    return Goal(f"{last}, to the first", last.seconds(TOOL) / first.seconds(TOOL), 1.3)
