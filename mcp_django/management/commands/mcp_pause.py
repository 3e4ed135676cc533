"""``manage.py mcp_pause``: stop all agents, or those of one user, from a terminal, and end the pause."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.management.arguments import find_person


class Command(DatabaseCommand):
    help = "Stop all agents, or those of one user, until the pause is ended. Nothing is revoked."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", metavar="NAME", help="Only the agents of this user.")
        parser.add_argument("--reason", default="", metavar="TEXT", help="Why, for the agents to read.")
        parser.add_argument("--resume", action="store_true", help="End the pause.")

    def handle(self, *args: Any, **options: Any) -> None:
        from mcp_django.access.trail import commanding
        from mcp_django.models import Restriction

        user = None if options["user"] is None else find_person(options["user"])
        whom = "all agents" if user is None else f"the agents of {user.get_username()}"
        kind, name = (Restriction.Kind.ALL, "") if user is None else (Restriction.Kind.USER, str(user.pk))
        paused: Any = Restriction.objects.filter(site="", kind=kind, name=name)
        with commanding("mcp_pause"):
            if options["resume"]:
                is_changed = bool(paused.delete()[0])
                said = "May go on" if is_changed else "Not paused"
            else:
                reason = options["reason"].strip()[:500]
                _, is_changed = Restriction.objects.get_or_create({"reason": reason}, site="", kind=kind, name=name)
                said = "Paused" if is_changed else "Paused already"
        self.stdout.write(f"{said}: {whom}.")
