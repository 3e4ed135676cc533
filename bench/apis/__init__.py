"""The project of ``tests/api`` as it would be deployed, for our server and for the others: see ``__main__``.

Read from the environment: `BENCH_PEER` (whose server it is; ours where it is empty), `BENCH_DATABASE_FILE` (the SQLite
file), and of ours `BENCH_AUDIT` (AUDIT).
"""

import os

PEER = os.environ.get("BENCH_PEER", "")
