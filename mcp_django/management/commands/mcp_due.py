"""``manage.py mcp_due``: do what is due. Run it by cron, or let it go on with ``--loop``."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from threading import Event, current_thread, main_thread
from typing import Any

from django.core.management.base import CommandError
from django.db import close_old_connections

from mcp_django.core.db.commands import DatabaseCommand


class Command(DatabaseCommand):
    help = (
        "Do what is due: write to people about changes that wait for them and tokens that end, give up changes that "
        "waited too long, mark rights that have ended, and continue approved changes after a crash. Run it every "
        "minute by cron."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--loop",
            type=float,
            nargs="?",
            const=60.0,
            metavar="SECONDS",
            help="Repeat until Ctrl-C or SIGTERM, with so many seconds between two runs. Default: 60.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from mcp_django.models import DueRun
        from mcp_django.server import due

        pause = options["loop"]
        if pause is not None and pause <= 0:
            raise CommandError("--loop takes a number of seconds above 0.")
        ended = Event()
        if pause is not None and current_thread() is main_thread():
            # As process 1 of a container nothing else would end it.
            signal.signal(signal.SIGTERM, lambda *_: ended.set())
        # Without the tables, each part would fail and be logged.
        DueRun.objects.exists()
        while True:
            done = due.run()
            told = [f"{name}: {'failed' if count is None else count}" for name, count in done.items()]
            if options["verbosity"] and (pause is None or any(count != 0 for count in done.values())):
                self.stdout.write(", ".join(told))
            if pause is None:
                if None in done.values():
                    raise CommandError("A part failed. The log says why.")
                return
            close_old_connections()
            try:
                if ended.wait(pause):
                    return
            except KeyboardInterrupt:
                return
