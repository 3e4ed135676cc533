"""Forms: of which a field has 50,000 choices, and of many rows that are changed one after another.

.venv/bin/python -m bench.forms [--choices N] [--rounds N] [--check]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from statistics import median
from time import perf_counter
from typing import Any

from bench.goals import Goal

CHOICES = 50_000
#: The goal for describe_form, in milliseconds.
GOAL_MS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.forms", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--choices", type=int, default=CHOICES, help=f"how many a field has ({CHOICES:,})")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is asked (5)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "bench.settings", "DEMO_DIR": folder, "BENCH_ROWS": "forms"}
        took = _measure(options.choices, options.rounds)
        from bench.form_rows import measure

        goals = [Goal("describe_form", took["describe_form"], GOAL_MS, "ms"), *measure(options.rounds)]
    print(f"\n| with {options.choices:,} choices | ms |", "|---|---:|", sep="\n")
    for what, ms in took.items():
        print(f"| {what} | {ms:,.0f} |")
    print("\nGoals", *goals, sep="\n")
    return 1 if options.check and not all(goal.holds for goal in goals) else 0


def _measure(choices: int, rounds: int) -> Mapping[str, float]:
    """Milliseconds of each, the median of the rounds."""
    import django

    django.setup()

    from django.contrib import admin
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from demo_project.flights.models import Airline, Airport, Flight
    from mcp_django import site
    from mcp_django.models import Tool
    from mcp_django.test import MCPClient

    call_command("migrate", verbosity=0)
    Airline.objects.bulk_create([Airline(carrier=f"{number:x}", name=f"Line {number}") for number in range(choices)])
    for faa in ("JFK", "LAX"):
        Airport.objects.create(faa=faa, name=faa, latitude=0, longitude=0, altitude=0, utc_offset=0)
    flight = Flight.objects.create(
        carrier_id="0", number=1, origin_id="JFK", destination_id="LAX", departs_at="2013-01-01T00:00Z", distance=1
    )
    # A plain select: the demo's own form asks for the airlines that are typed.
    vars(admin.site.get_model_admin(Flight))["autocomplete_fields"] = ()
    user = User.objects.create_superuser("admin")
    for name in ("describe_form", "update_record"):
        Tool.objects.update_or_create(site=site.name, name=name, defaults={"enabled": True})
    browser = Client()
    browser.force_login(user)
    page = f"/admin/flights/flight/{flight.pk}/change/"
    agent = MCPClient(user, scopes=["read", "write"])
    about: dict[str, Any] = {"model": "flights.flight", "id": str(flight.pk)}
    asked: Mapping[str, Callable[[], Any]] = {
        "describe_form": lambda: agent.call("describe_form", **about),
        "update_record, as a preview": lambda: agent.call("update_record", **about, values={"notes": "fog"}),
        "the page of the admin": lambda: _open(browser, page),
    }
    found: dict[str, list[float]] = {what: [] for what in asked}
    for _ in range(rounds):
        for what, ask in asked.items():
            begun = perf_counter()
            ask()
            found[what].append((perf_counter() - begun) * 1_000)
    return {what: median(times) for what, times in found.items()}


def _open(browser: Any, page: str) -> bytes:
    """The page. Raises ValueError where it is none."""
    answer = browser.get(page, SERVER_NAME="localhost")
    if answer.status_code != HTTPStatus.OK:
        raise ValueError(f"{page} gives {answer.status_code}")
    return bytes(answer.content)


if __name__ == "__main__":
    sys.exit(main())
