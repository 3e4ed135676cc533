"""What a model makes of the answers that it has read: the arguments of its next call, and its own answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from demo_project.flights.models import Flight
from tests.agents.facts import CHANGED
from tests.agents.steps import Answers

# Arguments.


def from_row(index: int) -> Callable[[Answers], Any]:
    """A value of the first row of the answer before."""
    return lambda answers: answers[-1].rows[0][index]


def keys(answers: Answers) -> list[str]:
    """The primary keys of the rows of the answer before."""
    return [str(row[0]) for row in answers[-1].rows]


def next_cursor(answers: Answers) -> str:
    cursor: str = answers[-1].structured["next_cursor"]
    return cursor


def confirmation(answers: Answers) -> str:
    """The token with which an action is confirmed."""
    found = re.search(r'"confirm": "([^"]+)"', answers[-1].text)
    if found is None:
        raise LookupError(f"no token in {answers[-1].text[:200]}")
    return found[1]


def confirmation_of_change(answers: Answers) -> str:
    """The token with which a change is confirmed."""
    token: str = answers[-1].structured["confirm"]
    return token


# Answers.


def of_preview(answers: Answers) -> Any:
    """Whether a delete is previewed, or refused since other records would have to go first."""
    said = answers[-1]
    return said.structured.get("status") == "preview" or "would have to be deleted first" in said.text


def nested(answers: Answers) -> Any:
    """The rows, with the rows of the small table that is the last value of each."""
    return [[*row[:-1], row[-1]["rows"]] for row in answers[-1].rows]


def exported(answers: Answers) -> Any:
    """The lines of the file that is attached, without the columns that are moments and minutes."""
    resource = json.loads(answers[-1].blocks[-1])["resource"]
    return [line.split(",")[1:7] for line in resource["text"].splitlines()[1:]]


def by_wind(answers: Answers) -> Any:
    """The mean delay for each class of wind, of the two tables that have the hour in common."""
    wind = {hour: int(float(speed)) for hour, speed, _ in answers[0].csv if speed}
    sums: dict[int, list[float]] = {}
    for hour, count, total in answers[1].csv:
        if hour in wind and int(count):
            known = sums.setdefault(wind[hour], [0, 0])
            known[:] = known[0] + float(total), known[1] + int(count)
    return {speed: total / count for speed, (total, count) in sums.items()}


# What others do meanwhile, and what came of an action.


def change_gate() -> None:
    flight = Flight.objects.get(pk=CHANGED)
    flight.notes = "Leaves from gate 7."
    flight.save(update_fields=["notes"])


def status_of(key: int) -> str:
    return str(Flight.objects.get(pk=key).status)
