"""Asks the questions over the year on one database, and prints what they cost: ``python -m tests.agents.run``.

``AGENTS_DATABASE`` is the database (see tests/agents/settings.py). Exits with 1 if an answer or a bound is missed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.agents.asking import Outcome, Part
    from tests.agents.facts import Facts
    from tests.support.peers import Peers

_LINE = "{:80} {:>5} {:>8} {:>6}  {}"
_HEAD = _LINE.format("question", "calls", "bytes", "ms", "ok")


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.agents.settings"
    import django
    import psycopg

    django.setup()
    from tests.agents import asking, year
    from tests.agents.facts import Facts
    from tests.support.loop import LoopThread
    from tests.support.peers import Peers

    try:
        year.set_up()
    except psycopg.OperationalError as error:
        print(f"skipped, since there is no PostgreSQL: {str(error).splitlines()[0]}", flush=True)
        return 1 if os.environ.get("CI") == "true" else 0
    print("Computing the right answers ...", flush=True)
    asking.put_back()
    facts, loop = Facts.of_database(), LoopThread()
    peers = Peers("http-asgi", loop)
    faults = _ask(peers, facts)
    peers.close()
    loop.close()
    print("\n".join([*faults, f"{len(faults)} missed"]), flush=True)
    return 1 if faults else 0


def _ask(peers: Peers, facts: Facts) -> list[str]:
    """Ask everything and print a line for each question, and one for each part. Returns what is wrong."""
    from tests.agents import asking, year

    faults, tokens = [], year.tokens()
    peer_of = cache(lambda user: peers(tokens[user]))
    print(_HEAD)
    for part in asking.PARTS:
        outcomes = []
        for question in part.questions:
            outcome = asking.ask(question, peer_of(question.user), facts)
            print(_line(question.text, [outcome], is_good=not outcome.fault), flush=True)
            outcomes.append(outcome)
        faults_of_part = asking.faults_of(part, outcomes)
        print(_line(_bounds(part), outcomes, is_good=not faults_of_part), end="\n\n", flush=True)
        faults += faults_of_part
    return faults


def _line(text: str, outcomes: Sequence[Outcome], *, is_good: bool) -> str:
    calls, size, ms = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("calls", "bytes", "ms"))
    return _LINE.format(text, calls, f"{size:,}", f"{ms:,.0f}", "ok" if is_good else "NO")


def _bounds(part: Part) -> str:
    return f"{part.name}, at most {part.max_calls} calls and {part.max_bytes:,} bytes".upper()


if __name__ == "__main__":
    sys.exit(main())
