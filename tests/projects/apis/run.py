"""Compares the API of a project: ``python -m tests.projects.apis.run NAME [WORD ...]``, in its environment.

What differs must fit a pattern in ``NAME.differences.txt`` of this folder, which has its reason. An answer that HTTP
forbids fails, whatever the file says. With words, the operations whose names hold one of them are compared alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.projects.run import _tables

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--callers", nargs="+", metavar="CALLER", help="compare for these alone")
    parser.add_argument("--keep", action="store_true", help="keep the database, with its rows, for the next run")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Those of the packages.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROJECT_FOLDER"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = f"tests.projects.{options.name}.settings"
        import django

        django.setup()
        with _kept() if options.keep else _tables():
            return _run(options.name, options.words, options.callers)


@contextmanager
def _kept() -> Iterator[None]:
    """The tables of a database on a server that stays after the run."""
    from django.db import connection

    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False, keepdb=True)
    yield


def _run(name: str, words: list[str], callers: list[str] | None) -> int:
    from tests.projects import differences
    from tests.projects.apis import known
    from tests.projects.apis.comparison import OF_ALL, Comparison

    begun = time.monotonic()
    project: Any = import_module(f"tests.projects.{name}.api")
    _leave_logins_alone()
    people = project.people() or (project.fill(), project.people())[1]
    site = exposed(project.PREFIX)
    every = list(site.api.operations.values())
    chosen = [one for one in every if not words or any(word in one.name for word in words)]
    print(f"{name}: {len(every)} operations, {len(site.api.left_out)} left out, after {_since(begun)}", flush=True)
    comparison = Comparison(site, people, project.PATH, frozenset(project.VOLATILE), getattr(project, "FULL", None))
    if comparison.full is not None:
        count = sum(comparison.is_full(one) for one in chosen)
        print(f"{name}: all cases of {count} of {len(chosen)} operations, one of each other for {' and '.join(OF_ALL)}")
    found = []
    for one in comparison.lines(chosen, callers or list(people)):
        print(one, flush=True)
        found.append(one)
    wrong = known.wrong_lines(
        differences.read(HERE / f"{name}.differences.txt"), found, is_whole=not (words or callers)
    )
    _print_beside(comparison)
    print("\n".join(wrong))
    cases = comparison.cases
    print("| Project | Operations | Cases | Equal | Else |")
    print(f"| {name} | {len(chosen)} | {cases['all']} | {cases['equal']} | {cases['else']} |")
    print(f"{name}: {len(wrong)} that are wrong, {len(comparison.skipped)} without a path, after {_since(begun)}")
    return 1 if wrong or not cases["equal"] else 0


def _print_beside(comparison: Any) -> None:
    """What is no difference: operations that are not called, and how HTTP itself answers."""
    for one in comparison.skipped:
        print(f"skipped: {one}")
    for why, calls in comparison.failures.items():
        print(f"HTTP fails {len(calls)} times: {why}: {', '.join(calls[:3])}")
    print(f"statuses of HTTP: {dict(sorted(comparison.statuses.items()))}")
    print(f"seconds: { ({key: round(value, 1) for key, value in comparison.seconds.items()}) }")


def exposed(prefix: str) -> Any:
    """A site that exposes all of the API, also what the defaults leave out."""
    from mcp_django import expose
    from mcp_django.bridge.sites import MCPSite

    looked = MCPSite("looked")
    expose(prefix, site=looked)
    site = MCPSite("apis")
    names = [one.name for one in looked.api.all]
    expose(prefix, include=["*", *names], consent={"*": "preview"}, site=site)
    return site


def _leave_logins_alone() -> None:
    """A login of the client of HTTP writes when it was, which agents' calls do not."""
    from django.contrib.auth.models import update_last_login
    from django.contrib.auth.signals import user_logged_in

    user_logged_in.disconnect(update_last_login, dispatch_uid="update_last_login")


def _since(begun: float) -> str:
    return f"{time.monotonic() - begun:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
