"""``manage.py mcp_grpc --port 50051``: MCP over gRPC, beside the processes that serve HTTP."""

from __future__ import annotations

import asyncio
import signal
from argparse import ArgumentParser
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from django.core.exceptions import DisallowedHost
from django.core.management.base import CommandError
from django.db import connections
from django.http import HttpRequest

from mcp_django.conf import get_conf
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.core.middleware_policy import socket_problem
from mcp_django.core.running.workers import close_workers
from mcp_django.exchange.addresses import problem_of_grpc
from mcp_django.exchange.requests import from_settings
from mcp_django.management.arguments import find_site, warn_of_a_local_bus

_PORT = 50_051


class Command(DatabaseCommand):
    help = "Serve MCP over gRPC, until a signal ends the process. The schema is mcp_django/protocol/mcp.proto."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="The address to listen at (127.0.0.1).")
        parser.add_argument(
            "--port", type=int, default=_PORT, help=f"The port to listen at ({_PORT}); 0: any free one."
        )
        parser.add_argument("--site", metavar="NAME", help="The site to serve, where there are several.")
        parser.add_argument("--cert", type=Path, metavar="FILE", help="The server's certificate chain, as PEM.")
        parser.add_argument("--key", type=Path, metavar="FILE", help="The key of the certificate, as PEM.")
        parser.add_argument(
            "--client-ca", type=Path, metavar="FILE", help="Let in only clients with a certificate of this authority."
        )
        parser.add_argument(
            "--plaintext", action="store_true", help="Listen without TLS beyond loopback, behind a proxy."
        )
        parser.add_argument(
            "--reuse-port", action="store_true", help="Share the port with other processes of this command."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            from mcp_django.transports.grpc.server import GRPCServer
        except ImportError as error:
            raise CommandError(
                "gRPC needs more packages: python -m pip install 'django-admin-mcp-server[grpc]'"
            ) from error
        site, host = find_site(options["site"]), options["host"]
        problem = socket_problem(site.has_call_context, "gRPC")
        if problem is not None and not site.exposes_api:
            raise CommandError(f"{problem[0].upper()}{problem[1:]}")
        _check_base_url()
        tls = self._tls(options)
        if tls is None and not options["plaintext"] and not _is_loopback(host):
            raise CommandError(
                f"Tokens would go to {host} in clear text: give --cert and --key, or --plaintext behind a proxy."
            )
        warn_of_a_local_bus()
        unknown = problem_of_grpc()
        if unknown is not None:
            self.stderr.write(unknown)

        async def serve() -> None:
            address = f"[{host}]:{options['port']}" if ":" in host else f"{host}:{options['port']}"
            try:
                server = GRPCServer(site, address, tls, shares_port=options["reuse_port"])
            except RuntimeError as error:
                raise CommandError(f"{address} cannot be bound: is another process there? (--reuse-port)") from error
            loop, ending = asyncio.get_running_loop(), asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, ending.set)
            await server.start()
            self.stdout.write(f"Serving gRPC at {host}:{server.port}.")
            self.stdout.flush()
            await ending.wait()
            await server.stop()

        # From now on, the loop's thread does not use the database.
        connections.close_all()
        asyncio.run(serve())
        close_workers()

    def _tls(self, options: dict[str, Any]) -> Any:
        from mcp_django.transports.grpc.server import TLS

        certificate, key, client_ca = options["cert"], options["key"], options["client_ca"]
        if certificate is None and key is None and client_ca is None:
            return None
        if certificate is None or key is None:
            raise CommandError("TLS needs both --cert and --key.")
        try:
            return TLS(
                certificate.read_bytes(), key.read_bytes(), None if client_ca is None else client_ca.read_bytes()
            )
        except OSError as error:
            raise CommandError(f"{error.filename} cannot be read: {error.strerror}") from error


def _check_base_url() -> None:
    """Any host of ALLOWED_HOSTS may be that of a tenant, so none is chosen for clients from elsewhere."""
    request = from_settings()
    if not get_conf().BASE_URL and request.META["SERVER_NAME"] != "localhost":
        raise CommandError(
            "Requests over gRPC name no host, and MCP['BASE_URL'] names none: set BASE_URL to the URL of your site."
        )
    try:
        HttpRequest.get_host(request)
    except DisallowedHost as error:
        raise CommandError(
            f"Requests over gRPC name no host. They get that of MCP['BASE_URL'], {get_conf().BASE_URL}, which is not "
            "in ALLOWED_HOSTS: set BASE_URL to the URL of your site."
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
