"""One run: the project is set up, everything is asked in turn, and what it cost is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tqdm import tqdm

from bench import report, sizes
from bench.goals import Goal
from bench.project import Caller, caller, set_up
from bench.questions import ORDERS, Question, by_month_and_carrier, count, first_page, last_page, walk
from bench.rounds import run as run_rounds


def run(rows: str, rounds: int) -> bool:
    """Print the table and the goals; returns whether all of them hold."""
    set_up(rows)
    callers = [caller("admin"), caller("ops")]
    pages = _pages(callers)
    each_page = [question for pair in pages for question in pair]
    figures = [by_month_and_carrier(who) for who in callers]
    _ask(each_page, rounds, warm_up=3)
    # These go through the whole table, and take as long as a thousand pages.
    _ask(figures, max(3, rounds // 40), warm_up=1)
    questions = [*each_page, *figures]
    print(report.heading(rounds))
    for question in questions:
        print(report.table(question))
    compact, objects = sizes.row_bytes(callers[0])
    goals = [
        *(goal for question in questions for goal in report.goals(question)),
        *(report.last_against_first(first, last) for first, last in pages),
        Goal("20 rows as text, to the same as a JSON list of objects", compact / objects, 0.55),
        Goal("the tool list of 30 models", sizes.tool_list_bytes(callers[0]), 12_000, "bytes"),
    ]
    print("\nGoals", *goals, sep="\n")
    return all(goal.holds for goal in goals)


def _pages(callers: Sequence[Caller]) -> list[tuple[Question, Question]]:
    """The first and the last page of each caller, in each order; the way to the last ones is long."""
    ways = [(who, order) for who in callers for order in ORDERS]
    with _bar("walking to the last pages", sum(count(who) for who, _ in ways), "rows") as advance:
        return [(first_page(who, order), last_page(who, order, walk(who, order, advance))) for who, order in ways]


def _ask(questions: Sequence[Question], rounds: int, warm_up: int) -> None:
    """All questions in every round, since some are held against each other."""
    for question in questions:
        question.check()
    contestants = [contestant for question in questions for contestant in question.contestants]
    with _bar("asking", rounds, "rounds") as advance:
        for _ in run_rounds(contestants, rounds, warm_up):
            advance(1)


@contextmanager
def _bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """A progress bar, where stderr is a terminal."""
    with tqdm(desc=what, total=total, unit=f" {unit}", disable=None) as bar:
        yield bar.update
