"""``manage.py mcp_token USERNAME``: print a new token, and nothing else, on standard output."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from mcp_django.exchange import scopes
from mcp_django.management.arguments import SCOPES_HELP, find_user, parse_scopes
from mcp_django.models import AccessToken


class Command(BaseCommand):
    help = "Make a token with which an agent may act as a user, and print it. It cannot be shown again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="", help="What the token is for.")
        parser.add_argument("--scopes", default=scopes.READ, help=SCOPES_HELP)
        parser.add_argument("--expires-in-days", type=int, metavar="N", help="Default: never.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = find_user(options["username"])
        wanted = parse_scopes(options["scopes"])
        days = options["expires_in_days"]
        if days is not None and not 0 < days <= 36_500:
            raise CommandError("--expires-in-days: must be between 1 and 36500.")
        expires_at = None if days is None else timezone.now() + timedelta(days=days)
        _, plain = AccessToken.objects.create_token(
            user=user, name=options["name"][:100], scopes=wanted, expires_at=expires_at
        )
        self.stdout.write(plain)
