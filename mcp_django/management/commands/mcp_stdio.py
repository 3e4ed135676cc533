"""``manage.py mcp_stdio --user NAME``: MCP over standard input and output, for a client that starts the process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import connections

from mcp_django.bridge.sites import MCPSite
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.core.events.publisher import flush
from mcp_django.core.middleware_policy import socket_problem
from mcp_django.core.running.workers import close_workers
from mcp_django.exchange import scopes
from mcp_django.exchange.principals import Principal, Source
from mcp_django.management.arguments import SCOPES_HELP, find_site, find_user, parse_scopes, warn_of_a_local_bus
from mcp_django.transports.stdio.server import StdioServer
from mcp_django.transports.stdio.standard import Standard, claim

#: How long calls may go on after their client has gone, before the process ends without them.
_WORKERS_SECONDS = 0.5


class Command(DatabaseCommand):
    help = "Serve MCP on standard input and output, to one client and as one user. Logs go to standard error."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, metavar="NAME", help="The agent may do what this user may do.")
        parser.add_argument("--scopes", default=scopes.READ, help=SCOPES_HELP)
        parser.add_argument("--site", metavar="NAME", help="The site to serve, where there are several.")

    def handle(self, *args: Any, **options: Any) -> None:
        principal = Principal(
            find_user(options["user"]), scopes.expand(parse_scopes(options["scopes"])), source=Source.COMMAND
        )
        site = find_site(options["site"])
        problem = socket_problem(site.has_call_context, "stdio")
        if problem is not None and not site.exposes_api:
            raise CommandError(f"{problem[0].upper()}{problem[1:]}")
        warn_of_a_local_bus()
        standard = claim()
        # From now on, the loop's thread does not use the database.
        connections.close_all()
        refused = asyncio.run(_serve(site, principal, standard))
        if refused:
            self.stderr.write(f"The user {options['user']!r} was refused: inactive or deleted by now.")
        _end(int(refused))


async def _serve(site: MCPSite, principal: Principal, standard: Standard) -> bool:
    """Serve until the client leaves. Returns whether the principal was refused in the end."""
    loop = asyncio.get_running_loop()
    server = StdioServer(site, principal, *standard)

    def close(number: int, frame: object) -> None:
        # Python may run this late, when the loop has ended because the signal closed something else.
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: server.close(going_away=True))

    # Not by loop.add_signal_handler, which does not work on Windows.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, close)
    await server.serve()
    return server.refused


def _end(code: int) -> None:
    """End the process, even if a call cannot be stopped: Python by itself would wait for the thread of the call."""
    ending = threading.Thread(target=close_workers, daemon=True)
    ending.start()
    ending.join(_WORKERS_SECONDS)
    if not ending.is_alive():
        raise SystemExit(code)
    flush()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
