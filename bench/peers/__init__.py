"""The other servers, each as its documentation has it. Each runs in an environment of its own, with a copy of the data.

All of them have two tools: ``greet(name)``, which answers with a line of text, and ``find_flights(limit)``, which
answers with the first flights by departure, as columns and rows.

Read from the environment: `BENCH_PEER` (which of them it is), and `BENCH_TOKENS` (whether callers need a token).
"""

import os

PEER = os.environ.get("BENCH_PEER", "")
#: Whether callers need a token, and its user the permission to view flights.
TOKENS = bool(os.environ.get("BENCH_TOKENS"))
