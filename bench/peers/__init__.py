"""The other servers, each as its documentation has it. Each runs in an environment of its own, with a copy of the data.

All of them have two tools: ``greet(name)``, which answers with a line of text, and ``find_flights(limit)``, which
answers with the first flights by departure, as columns and rows.

Read from the environment: `BENCH_PEER` (which of them it is), `BENCH_TOKENS` (whether callers need a token), and
`BENCH_DATABASE_FILE`, or `BENCH_DATABASE` where the database is one of PostgreSQL.
"""

import os
from typing import Any

PEER = os.environ.get("BENCH_PEER", "")
#: Whether callers need a token, and its user the permission to view flights.
TOKENS = bool(os.environ.get("BENCH_TOKENS"))

#: The database of each environment on PostgreSQL.
DATABASE_NAME = "mcp_django_bench_serving_{}"


def database(default: dict[str, Any]) -> dict[str, Any]:
    """The entry of DATABASES for ``default``, given that of the demo. Connections are kept."""
    if os.environ.get("BENCH_DATABASE") != "postgresql":
        return {**default, "NAME": os.environ["BENCH_DATABASE_FILE"], "CONN_MAX_AGE": 600}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE_NAME.format(PEER or "served"),
        "HOST": "127.0.0.1",
        "USER": os.environ.get("PGUSER", "postgres"),
        "CONN_MAX_AGE": 600,
    }
