"""What a change costs on its way to those who watch: fan-out, latency between processes, saving, and many filters.

.venv/bin/python -m bench.push [--only fanout|latency|saving|filters] [--sockets 1000 5000] [--rounds N]
    [--saves N] [--rows all|january] [--bus redis|postgresql] [--check]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

PARTS = ("fanout", "latency", "saving", "filters")
SOCKETS = (1_000, 5_000)
ROUNDS = 15
SAVES = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.push", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part alone; may be given again")
    parser.add_argument("--sockets", type=int, nargs="+", default=SOCKETS, help="how many sockets listen")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is measured ({ROUNDS})")
    parser.add_argument("--saves", type=int, default=SAVES, help=f"how many saves are timed together ({SAVES})")
    parser.add_argument("--rows", default="january", help="which flights the database holds (january)")
    parser.add_argument("--bus", choices=["redis", "postgresql"], default="redis", help="carries changes (redis)")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    # Latency and saving cross processes as they would where it matters: on PostgreSQL, through Redis or PostgreSQL.
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "BENCH_DATABASE": "postgresql",
        "BENCH_ROWS": options.rows,
        "BENCH_BUS": options.bus,
        "REDIS_URL": "redis://127.0.0.1:6379",
    }

    import django

    django.setup()

    from bench import fanout, filters, latency, saving
    from bench.principals import Principals
    from bench.project import set_up

    set_up(options.rows)
    principals = Principals.made(max(options.sockets))
    goals = []
    for name in options.only or PARTS:
        if name == "fanout":
            goals += fanout.measure(principals, options.sockets, options.rounds)
        elif name == "latency":
            goals += latency.measure(principals, options.sockets[0], options.rounds)
        elif name == "filters":
            goals += filters.measure(principals, options.rounds)
        else:
            goals += saving.measure(options.rounds, options.saves)
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
