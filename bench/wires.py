"""What a call costs in Protobuf beside JSON: the bytes of both directions, and the time of a request under WSGI.

.venv/bin/python -m bench.wires [--calls N] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time

from bench.serving import data
from bench.serving.calls import FIND, GREET, MODERN, OUR_TOOLS, Call, call
from bench.serving.environments import ROOT
from bench.serving.processes import Server

CALLS = 1_000
ROUNDS = 5
FOLDER = ROOT / ".demo" / "bench" / "wires"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.wires", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=CALLS, help=f"how often each is called in a round ({CALLS:,})")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the database and the logs lie")
    options = parser.parse_args(arguments)
    server = Server(data.OURS, "bench.served.asgi:application", "uvicorn")
    token, *_ = data.prepare(options.folder, [server], "january")[data.database_of(server)].split()
    os.environ |= {"DJANGO_SETTINGS_MODULE": "bench.served.settings", **data.variables(options.folder, server)}

    import django

    django.setup()
    print("| call | format | sent | received | time | to JSON |", "|---|---|---:|---:|---:|---:|", sep="\n")
    for title in (GREET, FIND):
        _measure(title, token, options.calls)
    return 0


def _measure(title: str, token: str, calls: int) -> None:
    from bench.in_process import ask_wsgi
    from bench.served.wsgi import application
    from mcp_django.protocol import protobuf
    from mcp_django.transports.http.formats import PROTOBUF_TYPE

    plain = call(OUR_TOOLS[title], MODERN, {"Authorization": f"Bearer {token}"})
    types = {"Content-Type": PROTOBUF_TYPE, "Accept": PROTOBUF_TYPE}
    packed = Call(protobuf.encode(plain.body), {**plain.headers, **types})
    asked = {"JSON": plain, "Protobuf": packed}
    answers = {name: ask_wsgi(application, one) for name, one in asked.items()}
    if protobuf.encode(answers["JSON"]) != answers["Protobuf"]:
        raise SystemExit(f"{title}: the answers differ")
    # Both in each round, so that what else the machine does meets both.
    rounds = [
        {name: _seconds(partial(ask_wsgi, application, one), calls) for name, one in asked.items()}
        for _ in range(ROUNDS)
    ]
    least = {name: min(times[name] for times in rounds) for name in asked}
    for name, one in asked.items():
        figures = f"{len(one.body):,} | {len(answers[name]):,} | {least[name] * 1e6:,.0f} µs"
        print(f"| {title} | {name} | {figures} | {least[name] / least['JSON']:.2f} |")


def _seconds(run: Callable[[], object], calls: int) -> float:
    """The processor's seconds of one call."""
    began = process_time()
    for _ in range(calls):
        run()
    return (process_time() - began) / calls


if __name__ == "__main__":
    sys.exit(main())
