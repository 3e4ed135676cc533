"""Lines of the audit trail for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from mcp_django.models import Call

#: A noon in New York, the zone of the tests' project.
NOON = datetime(2026, 11, 22, 17, tzinfo=UTC)

_DEFAULTS: dict[str, Any] = {
    "at": NOON, "site": "mcp", "kind": Call.Kind.CALL, "outcome": Call.Outcome.DONE, "user_id": "3", "user_name": "ada",
    "token_id": 5, "token_name": "laptop", "client_name": "claude-code", "transport": "http", "revision": "2026-07-28",
    "method": "tools/call", "name": "find_records", "model": "flights.flight", "arguments": '["model"]', "rows": 20,
    "bytes": 4_096, "ms": 12.5, "queries": 3, "request_id": "7", "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "address": "192.0.2.1",
}  # fmt: skip


def make_call(**more: Any) -> Call:
    made: Call = Call.objects.create(**{**_DEFAULTS, **more})
    return made


def make_many(count: int) -> None:
    """Calls of many users, tokens, tools and models, 26 seconds apart, the last at noon."""
    first = NOON - timedelta(seconds=26 * (count - 1))
    Call.objects.bulk_create(
        (Call(**{
            **_DEFAULTS, "at": first + timedelta(seconds=26 * number), "user_id": str(number % 50),
            "user_name": f"user {number % 50}", "token_id": number % 70, "token_name": f"token {number % 70}",
            "name": f"tool_{number % 40}", "model": f"shop.model{number % 30}", "request_id": str(number),
            "outcome": "refused" if number % 500 == 0 else "done", "keys": f" {number} " if number % 10 == 0 else "",
        }) for number in range(count)),
        batch_size=1_000,
    )  # fmt: skip


def count_anew() -> None:
    """Let the database count the lines by which it plans."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE mcp_django_call" if connection.vendor == "mysql" else "ANALYZE")


def plan_of(statement: str) -> str:
    """How the database would answer the statement, in its own words."""
    prefix = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    with connection.cursor() as cursor:
        cursor.execute(prefix + statement.replace("%", "%%"))
        return "\n".join(str(row) for row in cursor.fetchall())
