"""``manage.py mcp_token USERNAME``: print a new token, and nothing else, on standard output.

``--roll ID`` prints the successor of a token instead, ``--token ID --made-by NAME`` records who made one, and ``--clear
DAYS`` deletes tokens that ended long ago.
"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils import timezone

from mcp_django.console.credentials.makers import record_maker
from mcp_django.core.db.clearing import clear_away
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.core.secret import Secret
from mcp_django.exchange import scopes
from mcp_django.exchange.addresses import parse_networks
from mcp_django.management.arguments import SCOPES_HELP, find_person, find_user, parse_scopes
from mcp_django.management.moments import parse_duration
from mcp_django.models import AccessToken
from mcp_django.models.tokens import NEVER, Expiry

_MAX_DAYS = 36_500


class Command(DatabaseCommand):
    help = "Make a token with which an agent may act as a user, and print it. It cannot be shown again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("username", nargs="?", help="Make a token of this user.")
        what.add_argument("--roll", type=int, metavar="ID", help="Make the successor of this token, by its number.")
        what.add_argument(
            "--clear",
            type=int,
            metavar="DAYS",
            help="Delete the tokens that expired or were revoked at least this many days ago.",
        )
        what.add_argument(
            "--token", type=int, metavar="ID", help="With --made-by: record who made this token, by its number."
        )
        parser.add_argument(
            "--made-by",
            metavar="NAME",
            help="The user who makes the token and may hold it, if that is not its user: nobody approves what an agent "
            "does with it who made it.",
        )
        parser.add_argument("--name", default="", help="What the token is for.")
        parser.add_argument("--scopes", default=scopes.READ, help=SCOPES_HELP)
        parser.add_argument(
            "--addresses",
            default="",
            help="Addresses and networks, separated by commas. From elsewhere the token is invalid.",
        )
        parser.add_argument(
            "--grace", default="0s", metavar="TIME", help="With --roll: how long the old token stays valid, such as 1h."
        )
        ends = parser.add_mutually_exclusive_group()
        ends.add_argument(
            "--expires-in-days", type=int, metavar="N", help="Days until the token expires. Default: TOKEN_DAYS."
        )
        ends.add_argument("--never", action="store_true", help="The token does not expire.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["clear"] is not None:
            if options["made_by"] is not None:
                raise CommandError("--made-by does not go with --clear.")
            self._clear(options["clear"])
            return
        if options["token"] is not None:
            self._record(options)
            return
        make = self._make if options["roll"] is None else self._roll
        try:
            plain = make(options, _expiry(options))
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stdout.write(plain.reveal())

    def _make(self, options: dict[str, Any], expires_at: Expiry) -> Secret:
        user, wanted = find_user(options["username"]), parse_scopes(options["scopes"])
        try:
            addresses = parse_networks(options["addresses"].split(","))
        except ValueError as error:
            raise CommandError(f"--addresses: {error}.") from None
        made = AccessToken.objects.create_token(
            user=user, name=options["name"][:100], scopes=wanted, addresses=addresses, expires_at=expires_at,
            made_by=_maker(options),
        )  # fmt: skip
        return Secret(made[1])

    def _roll(self, options: dict[str, Any], expires_at: Expiry) -> Secret:
        grace = parse_duration("--grace", options["grace"])
        token = _token("--roll", options["roll"])
        return Secret(token.roll(grace=grace, expires_at=expires_at, made_by=_maker(options))[1])

    def _record(self, options: dict[str, Any]) -> None:
        maker = _maker(options)
        if maker is None:
            raise CommandError("--token: say who made it, with --made-by.")
        token = _token("--token", options["token"])
        if not record_maker(token, maker):
            raise CommandError(f"--made-by: it is recorded already who made the token {token.pk}.")
        self.stderr.write(f"{maker} is recorded as the maker of the token {token.pk}.")

    def _clear(self, days: int) -> None:
        if not 0 <= days <= _MAX_DAYS:
            raise CommandError(f"--clear: must be between 0 and {_MAX_DAYS}.")
        ended = AccessToken.objects.ended(timezone.now() - timedelta(days=days))
        count = ended.count()
        while ended.exists() and clear_away(ended):
            pass
        self.stderr.write(f"{count - ended.count()} tokens were deleted.")


def _token(option: str, number: int) -> AccessToken:
    token = AccessToken.objects.filter(pk=number).first()
    if token is None:
        raise CommandError(f"{option}: there is no token {number}. Its number is in its URL in the admin.")
    return token


def _maker(options: dict[str, Any]) -> Any:
    """The user whom ``--made-by`` names, who may have left; None without it."""
    return None if options["made_by"] is None else find_person(options["made_by"])


def _expiry(options: dict[str, Any]) -> Expiry:
    days = options["expires_in_days"]
    if options["never"]:
        return NEVER
    if days is not None and not 0 < days <= _MAX_DAYS:
        raise CommandError(f"--expires-in-days: must be between 1 and {_MAX_DAYS}.")
    return None if days is None else timezone.now() + timedelta(days=days)
