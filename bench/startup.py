"""What a start costs: the processor's seconds, modules and memory of Django, and what each server adds to them.

.venv/bin/python -m bench.startup [--python PATH] [--rounds N] [--only SHAPE] [--check]

Each line is the smallest project with an admin, in processes of its own that take turns, with byte code and without it.
Django and ours have an environment with the wheel's hard dependencies alone, or the one that the shape names.
``--python``: that of another environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.serving.environments import python_of
from tests.support.started import OURS, OURS_WITH_TOOL, SHELL, Started, started

ROUNDS = 7
DJANGO, MCPZ, SDK, FAST = "", "django-mcpz", "official SDK", "FastMCP"
#: The environment of each of them.
ENVIRONMENTS = {MCPZ: "mcpz", SDK: "official", FAST: "fast"}


@dataclass(frozen=True)
class Shape:
    command: Sequence[str]
    #: Those that have it: the official SDK and FastMCP serve ASGI alone, and add nothing to a command of Django's.
    servers: Sequence[str]
    apps: Sequence[str] = ()
    #: What is installed beside Django and ours.
    environment: str = "wheel"
    #: The most that ours may add: seconds, modules and megabytes.
    most: tuple[float | None, float | None, float | None] = (None, None, None)


SHAPES: Mapping[str, Shape] = {
    "a command that serves nothing": Shape(SHELL, (DJANGO, MCPZ, OURS), most=(0.15, 180, 12)),
    "the same, beside psycopg, gevent, yaml, markdown and pygments": Shape(
        SHELL, (DJANGO, OURS), environment="beside", most=(0.15, 180, 12)
    ),
    "check": Shape(("check",), (DJANGO, MCPZ, OURS), most=(0.25, None, None)),
    "a WSGI process after its first call": Shape(("wsgi",), (DJANGO, MCPZ, OURS, OURS_WITH_TOOL), most=(0.4, None, 25)),
    "an ASGI process after its first call": Shape(("asgi",), (DJANGO, SDK, FAST, OURS, OURS_WITH_TOOL)),
    "check, with daphne": Shape(("check",), (DJANGO, OURS), ("daphne",)),
}
_UNITS = ("seconds", "modules", "MB")


@dataclass(frozen=True)
class Cost:
    """The fastest start and the least memory of several."""

    seconds: float
    modules: int
    megabytes: float

    @classmethod
    def of(cls, starts: Iterable[Started]) -> Cost:
        found = list(starts)
        return cls(min(one.seconds for one in found), len(found[0].modules), min(one.bytes for one in found) / 1e6)

    def beyond(self, other: Cost) -> tuple[float, int, float]:
        return self.seconds - other.seconds, self.modules - other.modules, self.megabytes - other.megabytes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", help="of the environment in which Django and ours are measured")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each line is started ({ROUNDS})")
    parser.add_argument("--only", choices=SHAPES, help="measure this shape alone")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    missed = []
    with TemporaryDirectory() as folder:
        database = Path(folder) / "db.sqlite3"
        for name, shape in SHAPES.items():
            if options.only in (None, name):
                python = options.python or str(python_of(shape.environment))
                if not database.exists():
                    started("migrate", "--verbosity=0", server=OURS, database=database, python=python)
                missed += _print_table(name, shape, options.rounds, python, database)
    print(*(missed or ["All goals are met."]), sep="\n")
    return 1 if missed and options.check else 0


def _print_table(name: str, shape: Shape, rounds: int, python: str, database: Path) -> list[str]:
    """Print what each server costs beyond Django, and say which goals are missed."""
    print(f"| {name} | seconds | modules | MB | seconds without byte code | MB without byte code |")
    print("|---|---|---|---|---|---|", flush=True)
    measured = _costs(shape, rounds, python, database)
    django, without_code = measured[DJANGO]
    print(f"| Django with its admin | {django.seconds:.2f} | {django.modules} | {django.megabytes:.1f} "
          f"| {without_code.seconds:.2f} | {without_code.megabytes:.1f} |")  # fmt: skip
    missed = []
    for server in shape.servers[1:]:
        compiled, compiling = measured[server]
        seconds, modules, megabytes = compiled.beyond(django)
        slow, _, large = compiling.beyond(without_code)
        print(f"| {server} | {seconds:+.2f} | {modules:+} | {megabytes:+.1f} | {slow:+.2f} | {large:+.1f} |")
        if server == OURS:
            missed += [f"MISS  {name}: {found:.2f} {unit} (at most {most})"
                       for found, most, unit in zip((seconds, modules, megabytes), shape.most, _UNITS, strict=True)
                       if most is not None and found > most]  # fmt: skip
    print(flush=True)
    return missed


def _costs(shape: Shape, rounds: int, python: str, database: Path) -> Mapping[str, tuple[Cost, Cost]]:
    """What each server costs in all, with byte code and without it."""

    def start(server: str, environment: Mapping[str, str]) -> Started:
        own = python_of(ENVIRONMENTS[server]) if server in ENVIRONMENTS else python
        return started(*shape.command, server=server, apps=shape.apps, database=database, python=own,
                       environment=environment)  # fmt: skip

    with _no_byte_code() as without:
        # The first start of each writes the byte code.
        turns = [{server: start(server, {}) for server in shape.servers} for _ in range(rounds + 1)][1:]
        slow_turns = [{server: start(server, without) for server in shape.servers} for _ in range(max(rounds // 3, 1))]
    return {
        server: (Cost.of(turn[server] for turn in turns), Cost.of(turn[server] for turn in slow_turns))
        for server in shape.servers
    }


@contextmanager
def _no_byte_code() -> Iterator[Mapping[str, str]]:
    """The environment of a process that finds no byte code, and leaves none."""
    with TemporaryDirectory() as folder:
        yield {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": "1"}


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
