"""What a line of the audit trail costs the thread of the call, and the thread that writes.

.venv/bin/python -m bench.trail [--calls N] [--check]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

#: Calls that are timed together; fewer than the lines that may wait.
_AT_ONCE = 1_000
_GOAL = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.trail", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=50_000, help="how many lines are written (50000)")
    parser.add_argument("--check", action="store_true", help="fail where the goal is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "bench.settings", "DEMO_DIR": folder}
        calling = _measure(max(1, options.calls // _AT_ONCE))
    return 1 if options.check and calling > _GOAL else 0


def _measure(rounds: int) -> float:
    """Print both figures, and return that of the calling thread: µs of the processor's time for each call."""
    import django

    django.setup()

    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import override_settings

    from bench.contestants import MODEL, exchange_of
    from bench.project import caller
    from mcp_django.audit.recorder import recorder
    from mcp_django.models import Call
    from mcp_django.server import trail

    call_command("migrate", verbosity=0)
    User.objects.create_user("admin")
    arguments = {"model": MODEL, "order_by": ["departs_at", "id"], "limit": 20}
    exchanges = [exchange_of(caller("admin"), "find_records", arguments)] * _AT_ONCE

    def once(audit: str) -> tuple[float, float]:
        """µs of this thread and of all others for each call, until all lines are written."""
        with override_settings(MCP={"AUDIT": audit}):
            process, thread = time.process_time(), time.thread_time()
            for exchange in exchanges:
                with trail.recorded(exchange):
                    pass
            thread = time.thread_time() - thread
            while recorder.has_waiting:
                time.sleep(0.01)
            others = time.process_time() - process - thread
        return thread / _AT_ONCE * 1e6, others / _AT_ONCE * 1e6

    once("on")
    written, plain = [once("on") for _ in range(rounds)], [once("off") for _ in range(rounds)]
    calling = median(here for here, _ in written) - median(here for here, _ in plain)
    writing = median(there for _, there in written) - median(there for _, there in plain)
    assert Call.objects.filter(kind=Call.Kind.CALL).count() == (rounds + 1) * _AT_ONCE
    print(f"A line costs the thread of the call {calling:.1f} µs of the processor's time (goal {_GOAL:.0f}), ", end="")
    print(f"and the thread that writes {writing:.0f} µs.")
    return calling


if __name__ == "__main__":
    sys.exit(main())
