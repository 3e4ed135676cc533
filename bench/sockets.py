"""What an idle socket costs in memory, and whether connections leave any behind.

.venv/bin/python -m bench.sockets [--server NAME] [--sockets N] [--churn N] [--check]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

SOCKETS = 1_000
CHURN = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sockets", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", action="append", help="on this server alone; may be given again")
    parser.add_argument("--sockets", type=int, default=SOCKETS, help=f"how many sockets are open ({SOCKETS:,})")
    parser.add_argument("--churn", type=int, default=CHURN, help=f"connections that come and go ({CHURN:,})")
    parser.add_argument("--check", action="store_true", help="fail where connections leave memory behind")
    options = parser.parse_args(arguments)
    os.environ |= {"DJANGO_SETTINGS_MODULE": "bench.settings", "BENCH_ROWS": "january"}

    import django

    django.setup()

    from bench import asgi_server, memory
    from bench.principals import Principals
    from bench.project import set_up
    from bench.sockets_client import raise_open_files

    servers = options.server or list(memory.SERVERS)
    if unknown := sorted(set(servers) - set(memory.SERVERS)):
        parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(memory.SERVERS)}")
    set_up("january")
    [token] = Principals.made(1).tokens
    raise_open_files()
    asgi_server.pin_load()
    if options.sockets:
        memory.measure(servers, token, options.sockets)
    goals = memory.measure_churn(servers, token, options.churn) if options.churn else []
    if goals:
        print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
