"""What the app adds to a start of Django with its admin: seconds, modules and memory.

.venv/bin/python -m bench.startup [--python PATH] [--rounds N] [--check]

Each command of the smallest project with an admin is run in a process of its own, with the app and without it in turns.
``--python``: that of another environment, as one with the wheel alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from tests.support.started import COMMANDS, Started, started

ROUNDS = 15
#: The most that the app may add, by the command: seconds, modules and megabytes.
MOST: Mapping[str, tuple[float | None, float | None, float | None]] = {
    "a command that serves nothing": (0.15, 180, 12),
    "`check`": (0.25, None, None),
    "a WSGI process after its first call": (None, None, 25),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="of the environment that is measured")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each command is run ({ROUNDS})")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"

    import django

    django.setup()

    from bench.report import Goal

    goals = []
    print("| command | seconds | modules | MB |\n|---|---|---|---|")
    for what, command in COMMANDS.items():
        turns = [
            [started(command, ours=ours, python=options.python) for ours in (False, True)]
            for _ in range(options.rounds + 1)
        ][1:]  # The first one compiles files.
        added = _added(*zip(*turns, strict=True))
        print(f"| {what} | + {added[0]:.2f} | + {added[1]:.0f} | + {added[2]:.1f} |", flush=True)
        units = ("seconds", "modules", "MB")
        goals += [Goal(what, found, most, unit) for found, most, unit in zip(added, MOST[what], units, strict=True)
                  if most is not None]  # fmt: skip
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


def _added(django: Sequence[Started], ours: Sequence[Started]) -> tuple[float, float, float]:
    """What the app adds to the fastest start and to the least memory."""
    seconds, size = (
        min(getattr(one, name) for one in ours) - min(getattr(one, name) for one in django)
        for name in ("seconds", "bytes")
    )
    return seconds, len(ours[0].modules - django[0].modules), size / 1e6


if __name__ == "__main__":
    sys.exit(main())
