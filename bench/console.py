"""The pages of the console where there are many calls, tokens and saved queries: what each takes and asks the database.

.venv/bin/python -m bench.console [--calls N] [--tokens N] [--rounds N] [--check]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from statistics import median
from time import process_time
from typing import Any

from bench.goals import Goal

CALLS, TOKENS, USERS, MODELS = 100_000, 1_000, 20_000, 300
#: Token templates, each of which the form of a new token names.
_TEMPLATES = 20
#: The goals for each page: milliseconds of processor, and queries, which stay below.
GOAL_MS, GOAL_QUERIES = 200, 20
#: Pages that may take longer, and are kept for a minute.
_LONGER_MS = {"totals": 500, "models": 500}
_BATCH = 5_000
#: Days over which the calls are spread: all of them are within those of the first page.
_DAYS = 14
_ROOT = "/admin/mcp_django"
#: The key of the first call, beyond the lines of what is made before.
_FIRST = 1_000_000
_PAGES: Mapping[str, str] = {
    "the first page": f"{_ROOT}/",
    "the chart of 24 hours": f"{_ROOT}/?period=day",
    "the chart of 30 days": f"{_ROOT}/?period=month",
    "the chart of an agent": f"{_ROOT}/?period=month&agent=%5B%221%22%2C%22client%201%22%5D",
    "tools": f"{_ROOT}/tool/",
    "trying a tool": f"{_ROOT}/tool/1/try/?fill=example",
    "models": f"{_ROOT}/restriction/",
    "a model": f"{_ROOT}/restriction/of/flights.flight/",
    "prompts": f"{_ROOT}/prompt/",
    "tokens": f"{_ROOT}/accesstoken/",
    "a new token": f"{_ROOT}/accesstoken/add/",
    "a token": f"{_ROOT}/accesstoken/1/change/",
    "token templates": f"{_ROOT}/tokentemplate/",
    "a new token template": f"{_ROOT}/tokentemplate/add/",
    "grants": f"{_ROOT}/grant/",
    "OAuth clients": "/admin/mcp_django_oauth/client/",
    "activity": f"{_ROOT}/call/",
    "a call": f"{_ROOT}/call/1/change/",
    "a credential": f"{_ROOT}/call/{_FIRST}/credential/",
    "live": f"{_ROOT}/call/live/",
    "totals": f"{_ROOT}/call/totals/?period=week",
    "connections": f"{_ROOT}/call/connections/",
    "changes": f"{_ROOT}/change/",
    "one's own apps and tokens": "/mcp/connected",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=CALLS, help=f"lines of the audit trail ({CALLS:,})")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"access tokens ({TOKENS:,})")
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is opened (5)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "bench.settings", "DEMO_DIR": folder, "BENCH_ROWS": "console",
            "BENCH_MCP": '{"MAX_BULK_ROWS": 1000}',
        }  # fmt: skip
        took, waiting = _measure(options.calls, options.tokens, options.rounds)
    much = f"{options.calls:,} calls, {options.tokens:,} tokens, {USERS:,} users and {MODELS} models"
    print(f"| with {much} | ms | queries |", "|---|---:|---:|", sep="\n")
    for page, (ms, queries) in took.items():
        print(f"| {page} | {ms:,.0f} | {queries} |")
    missed = [
        page for page, (ms, queries) in took.items() if ms > _LONGER_MS.get(page, GOAL_MS) or queries >= GOAL_QUERIES
    ]
    verdict = f"MISSED by {', '.join(missed)}" if missed else "holds"
    longer = "".join(f", {page} {ms}" for page, ms in _LONGER_MS.items())
    print(f"\nat most {GOAL_MS} ms of processor{longer}, below {GOAL_QUERIES} queries: {verdict}")
    print("\nDeciding about changes, of processor", *waiting, sep="\n")
    return 1 if options.check and (missed or not all(one.holds for one in waiting)) else 0


def _measure(calls: int, tokens: int, rounds: int) -> tuple[Mapping[str, tuple[float, int]], Sequence[Goal]]:
    """Milliseconds of processor, the median of the rounds, and queries of each page; and what deciding takes.

    Each page is opened as by a process that has counted nothing yet.
    """
    import django

    django.setup()

    from django.contrib.auth.models import User
    from django.core.cache import cache
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from bench import waiting_changes
    from mcp_django.console.admin.call_chart import forget

    _expose(MODELS)
    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("admin")
    _fill(user, calls, tokens)
    browser = Client(SERVER_NAME="localhost")
    browser.force_login(user)
    found: dict[str, list[float]] = {page: [] for page in _PAGES}
    for _ in range(rounds):
        for page, url in _PAGES.items():
            cache.clear()
            forget()
            begun = process_time()
            _open(browser, url)
            found[page].append((process_time() - begun) * 1_000)
    queries: dict[str, int] = {}
    for page, url in _PAGES.items():
        cache.clear()
        with CaptureQueriesContext(connection) as asked:
            _open(browser, url)
        queries[page] = len(asked)
    took = {page: (median(times), queries[page]) for page, times in found.items()}
    return took, list(waiting_changes.measure(browser, rounds))


def _expose(number: int) -> None:
    """Put so many models into the admin. They have no tables, since no page of these asks for their rows."""
    from django.contrib import admin
    from django.db import models

    for one in range(number):
        meta = type("Meta", (), {"app_label": "flights", "managed": False, "verbose_name": f"kind {one}"})
        fields = {"name": models.CharField(max_length=50), "Meta": meta, "__module__": "demo_project.flights.models"}
        model: Any = type(f"Kind{one}", (models.Model,), fields)
        admin.site.register(model, type("KindAdmin", (admin.ModelAdmin,), {"list_display": ["name"]}))


def _fill(user: Any, calls: int, tokens: int) -> None:
    from django.utils import timezone

    from mcp_django.audit.recorder import recorder
    from mcp_django.bridge.tools.saved_queries import MAX_SAVED, write
    from mcp_django.models import AccessToken, Call, Grant, TokenTemplate, Tool
    from mcp_django.oauth.models import Client

    choose = random.Random(1)
    for number in range(MAX_SAVED):
        query = write("find_records", {"model": "flights.flight", "filter": {"origin": f"A{number}"}}, [])
        Tool.objects.create(site="mcp", name=f"saved_{number}", query=query, enabled=True)
    now, step = timezone.now(), timedelta(days=_DAYS) / max(calls, 1)
    type(user).objects.bulk_create(type(user)(username=f"user {number}") for number in range(USERS))
    holders = list(type(user).objects.exclude(pk=user.pk)[:tokens])
    scopes = ["read", *(f"model:flights.kind{number}:read" for number in range(20))]
    for number in range(_TEMPLATES):
        TokenTemplate.objects.create(name=f"template {number}", scopes=scopes)
    for number in range(tokens):
        holder, client = holders[number % len(holders)], f"client {number}"
        AccessToken.objects.create_token(user=holder, name=f"agent {number}", scopes=scopes)
        Client.objects.create(key=client, name=client, registered_by="document")
        Grant.objects.create(
            user=holder, client=client, client_name=client, resource="http://localhost/mcp", scopes=scopes,
            expires_at=now + timedelta(days=30),
        )  # fmt: skip
    # Its thread writes the lines of the tokens, and numbers each after the last one.
    recorder.flush()
    for start in range(0, calls, _BATCH):
        Call.objects.bulk_create(
            Call(
                pk=_FIRST + number, at=now - step * number, site="mcp", kind=choose.choice(["call", "read", "prompt"]),
                outcome=choose.choice(["done"] * 8 + ["failed", "refused"]), user_id=str(number % 50),
                user_name=f"user {number % 50}", token_id=number % 1_000, token_name=f"agent {number % 1_000}",
                lineage=f"lineage {number % 1_000}", client_name=f"client {number % 7}",
                reason=choose.choice(["", "INVALID_ARGUMENTS", "NO_RECORD"]), detail=choose.choice(["", "limit"]),
                method="tools/call", name=f"tool_{number % 40}", model="flights.flight", arguments="[]",
                rows=number % 30, bytes=number % 9_000, ms=choose.random() * 100,
            )
            for number in range(start, min(start + _BATCH, calls))
        )  # fmt: skip


def _open(browser: Any, page: str) -> None:
    """Open the page. Raises ValueError where it is none."""
    answer = browser.get(page)
    if answer.status_code != HTTPStatus.OK:
        raise ValueError(f"{page}: {answer.status_code}")


if __name__ == "__main__":
    sys.exit(main())
