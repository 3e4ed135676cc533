"""What the number of related rows costs, beside the table of groups that says the same.

.venv/bin/python -m bench.counts [--flights N] [--rounds N] [--keep] [--check]

It needs PostgreSQL where the tests find it, and a database of its own, which it drops at the end: that many flights are
shared out among the 16 airlines of the demo, and made within the database. ``--keep``: use that database again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

FLIGHTS, ROUNDS = 10_000_000, 15
#: How much longer a page with numbers may take than the table of groups.
MOST = 1.3

#: Each has another instant, since no two flights of an airline may have the same number and instant.
_FLIGHTS = """
INSERT INTO flights_flight
       (id, carrier_id, number, tailnum, origin_id, destination_id, departs_at, distance, status, notes)
SELECT number, carriers[1 + number %% array_length(carriers, 1)], number %% 5000, '', origins[1 + number %% 3], 'IAH',
       timestamptz '2013-01-01 00:00Z' + number * interval '3 seconds', 500 + number %% 2000, 'on_time', ''
FROM generate_series(1, %s) AS number,
     (SELECT array_agg(carrier ORDER BY carrier) AS carriers FROM flights_airline) AS airlines,
     (SELECT ARRAY['EWR', 'JFK', 'LGA'] AS origins) AS airports
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.counts", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flights", type=int, default=FLIGHTS, help=f"how many are counted ({FLIGHTS:,})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is asked ({ROUNDS})")
    parser.add_argument("--keep", action="store_true", help="leave the database for the next run")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "bench.settings", "BENCH_DATABASE": "postgresql", "BENCH_ROWS": "counts",
    }  # fmt: skip

    import django

    django.setup()

    with _database(options.flights, keep=options.keep):
        goals = _measure(options.rounds)
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


@contextmanager
def _database(flights: int, *, keep: bool) -> Iterator[None]:
    """The database with so many flights."""
    from django.db import connection

    from bench.project import set_up
    from demo_project.flights.models import Flight

    set_up("1")
    try:
        if Flight.objects.count() != flights:
            _make_flights(flights)
        yield
    finally:
        if not keep:
            connection.close()
            with connection._nodb_cursor() as cursor:
                cursor.execute(f"DROP DATABASE {connection.ops.quote_name(connection.settings_dict['NAME'])}")


def _make_flights(flights: int) -> None:
    from django.db import connection, transaction

    from demo_project.flights.models import Flight

    # An index is made faster than it is kept up to date, and no key needs to be checked.
    with transaction.atomic(), connection.schema_editor() as editor, connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("TRUNCATE flights_flight CASCADE")
        for index in Flight._meta.indexes:
            editor.remove_index(Flight, index)
        cursor.execute(_FLIGHTS, [flights])
        for index in Flight._meta.indexes:
            editor.add_index(Flight, index)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE flights_flight")


def _measure(rounds: int) -> list[Any]:
    from tqdm import tqdm

    from bench.contestants import tool
    from bench.goals import Goal
    from bench.project import caller
    from bench.rounds import run

    page = {"model": "flights.airline", "fields": ["flights__count"]}
    groups = {"model": "flights.flight", "group_by": ["carrier"], "measures": ["count"]}
    pairs = {
        username: (tool(who, "find_records", page), tool(who, "aggregate_records", groups))
        for username, who in [("admin", caller("admin")), ("ops", caller("ops"))]
    }
    for counted, grouped in pairs.values():
        numbers = [row["flights__count"] for row in counted.once().rows]
        if numbers != [row["count"] for row in grouped.once().rows]:
            raise SystemExit("both must count the same")
    for _ in tqdm(run([one for pair in pairs.values() for one in pair], rounds, 2), total=rounds, disable=None):
        pass
    print(f"{'':<12}{'flights__count':>16}{'aggregate':>12}{'to it':>8}")
    for username, (counted, grouped) in pairs.items():
        times = f"{counted.median * 1e3:>13,.0f} ms{grouped.median * 1e3:>9,.0f} ms"
        print(f"{username:<12}{times}{counted.median / grouped.median:>8.2f}")
    return [
        Goal(f"{username}: flights__count, to aggregate_records", counted.median / grouped.median, MOST)
        for username, (counted, grouped) in pairs.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
