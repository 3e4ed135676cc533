"""What it costs to ask the database through the tools, beside Django REST framework and beside code written by hand.

.venv/bin/python -m bench.data [--database sqlite|postgresql|mariadb] [--rows all|january] [--rounds N]
    [--read-only] [--check]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

ROUNDS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.data", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mariadb"], default="sqlite")
    parser.add_argument("--rows", default="all", help="all flights (the default), january, or how many")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each question is asked ({ROUNDS})")
    parser.add_argument("--read-only", action="store_true", help="set READ_ONLY_TRANSACTIONS, for the floor as well")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "BENCH_DATABASE": options.database,
        "BENCH_ROWS": options.rows,
        **({"BENCH_READ_ONLY": "1"} if options.read_only else {}),
    }

    import django

    django.setup()

    from bench import measurement

    holds = measurement.run(options.rows, options.rounds)
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
