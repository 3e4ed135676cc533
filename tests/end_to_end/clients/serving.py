"""The desk in server processes of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.servers import GRPCServed, Project, Served

HERE = Path(__file__).parent
MODULE = "tests.end_to_end.clients.desk"


@dataclass(frozen=True)
class Desk:
    """The desk, served to whoever holds the token."""

    project: Project
    near: Served
    grpc: GRPCServed
    #: The process in which what a client watches is changed. None where no push goes from one process to another.
    far: Served | None
    token: str

    @property
    def command(self) -> list[str]:
        """The server on stdio."""
        manage = str(self.project.folder / "manage.py")
        return [sys.executable, manage, "mcp_stdio", "--user", "admin", "--scopes", "read,actions"]


@contextmanager
def serve_desk(folder: Path, *, redis: bool, tickets: int = 1, max_result_bytes: str = "") -> Iterator[Desk]:
    """Serve the desk, with its database in ``folder`` and open tickets from 1 on; with Redis in two processes.

    ``max_result_bytes``: what takes the place of the default.
    """
    limit = {"MAX_RESULT_BYTES": max_result_bytes} if max_result_bytes else {}
    variables = {"DESK_DIR": str(folder), **limit}
    if redis:
        variables |= {"REDIS_URL": "redis://127.0.0.1:6379", "REDIS_PREFIX": f"mcp_django_desk_{os.getpid()}"}
    project = Project(HERE / "desk", MODULE, folder, variables)
    token = project.run(_SET_UP.format(tickets=tickets)).strip()
    with ExitStack() as servers:
        near = servers.enter_context(project.served("uvicorn"))
        grpc = servers.enter_context(project.served("grpc"))
        assert isinstance(grpc, GRPCServed)
        far = servers.enter_context(project.served("daphne")) if redis else None
        yield Desk(project, near, grpc, far, token)


_SET_UP = """
from django.contrib.auth.models import User
from django.core.management import call_command
from mcp_django import site
from mcp_django.models import Tool
from tests.end_to_end.clients.desk.models import Ticket
call_command("migrate", run_syncdb=True, verbosity=0)
User.objects.create_superuser("admin", password="admin")
Ticket.objects.bulk_create(Ticket(title=f"Ticket {{n}}") for n in range(1, {tickets} + 1))
Tool.objects.update_or_create(site=site.name, name="desk_ticket_close", defaults={{"enabled": True}})
call_command("mcp_token", "admin", scopes="read,actions")
"""
