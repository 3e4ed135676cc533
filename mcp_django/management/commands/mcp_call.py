"""``manage.py mcp_call TOOL name=value …``: call a tool as an agent of a user would, and print what it is answered."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from mcp_django.bridge.changes.proposed import CONFIRM
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.console import calls
from mcp_django.console.calls import Answer
from mcp_django.console.review.refusals import TrueReason
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.core.middleware_policy import socket_problem
from mcp_django.core.running.workers import close_workers
from mcp_django.exceptions import MCPError
from mcp_django.exchange import scopes
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.requests import from_settings
from mcp_django.management.arguments import SCOPES_HELP, find_site, find_user, parse_scopes
from mcp_django.management.values import arguments_of
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON
from mcp_django.server import uploads


class Command(DatabaseCommand):
    help = (
        "Call a tool as an agent of a user would, and print what the agent is answered. A tool that changes data shows "
        "what it would do, and asks before it does it."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tool", help="The name of the tool.")
        parser.add_argument(
            "arguments",
            nargs="*",
            metavar="NAME=VALUE",
            help="An argument: a text, JSON, or a list with commas. @PATH is the content of a file, or its upload "
            "where the tool takes a file.",
        )
        parser.add_argument("--user", required=True, metavar="NAME", help="The agent may do what this user may do.")
        parser.add_argument("--scopes", default=scopes.READ, help=SCOPES_HELP)
        parser.add_argument("--site", metavar="NAME", help="The site, where there are several.")
        parser.add_argument("--json", action="store_true", help="Print the whole answer as JSON.")
        changing = parser.add_mutually_exclusive_group()
        changing.add_argument("--yes", action="store_true", help="Do it, without a question.")
        changing.add_argument("--dry-run", action="store_true", help="Only show what would be done.")

    def handle(self, *args: Any, **options: Any) -> None:
        site = find_site(options["site"])
        problem = socket_problem(site.has_call_context, "A command")
        if problem is not None and not site.exposes_api:
            raise CommandError(problem)
        caller = _Caller(site, find_user(options["user"]), parse_scopes(options["scopes"]))
        try:
            self._handle(caller, options)
        finally:
            close_workers()

    def _handle(self, caller: _Caller, options: dict[str, Any]) -> None:
        name, is_dry = options["tool"], options["dry_run"]
        tool, arguments, acts = caller.read(name, options["arguments"])
        if tool is not None and acts:
            if is_dry:
                raise CommandError(f"{name} acts at once, so there is nothing to show. Nothing was done.")
            does = "may destroy data" if tool.annotations.destructive else "changes data"
            self._ask(f"{name} {does}, and shows nothing before. {_dump(arguments)}", options)
        answer = caller.call(name, arguments)
        if answer.confirm and not answer.is_error and not acts and not is_dry:
            if not options["yes"]:
                self._say(answer.text)
                self._ask("Nothing was done yet.", options)
            arguments = {**arguments, CONFIRM: answer.confirm}
            answer = caller.call(name, arguments)
        self._print(answer, caller.why(name, arguments) if answer.is_error else "", as_json=options["json"])

    def _ask(self, text: str, options: dict[str, Any]) -> None:
        """Ask the person at the terminal. Raises CommandError where nobody agrees."""
        if options["yes"]:
            return
        self._say(text)
        if not sys.stdin.isatty():
            raise CommandError("Nobody is there to be asked: add --yes to do it. Nothing was done.")
        if input("Do it? [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was done.")

    def _say(self, text: str) -> None:
        """Tell the person, beside what the command prints for programs."""
        self.stderr.write(_shown(text), lambda line: line)

    def _print(self, answer: Answer, why: str, *, as_json: bool) -> None:
        """Print what the agent reads. Raises CommandError for a refusal, and a failure."""
        if as_json:
            self.stdout.write(_dump(answer.message))
        elif not answer.is_error:
            self.stdout.write(_shown(answer.text))
        if answer.is_error:
            said = "The call was refused." if as_json else _shown(answer.text)
            raise CommandError(f"{said}\n\nThe reason, which no agent reads: {why}" if why else said)


class _Caller:
    """An agent of a user."""

    def __init__(self, site: MCPSite, user: Any, wanted: Sequence[str]) -> None:
        self._site, self._user, self._scopes = site, user, wanted

    def read(self, name: str, pairs: Sequence[str]) -> tuple[BaseTool | None, JSON, bool]:
        """The tool, the arguments that were written, and whether a call with them acts at once.

        The tool is None where the agent may not call it. Raises CommandError.
        """
        exchange = self._exchange("tools/list", {})

        def read() -> tuple[BaseTool | None, JSON, bool]:
            with self._site.in_context(exchange.request):
                tool = catalog.find(exchange, name)
                if tool is None:
                    return None, {}, False
                upload = partial(self._upload, exchange)
                schema = tool.get_input_schema(exchange.request)
                arguments = arguments_of(pairs, schema, files=tool.file_arguments, upload=upload)
                return tool, arguments, tool.acts_at_once(exchange.request, arguments)

        return calls.in_time(exchange, read)

    def call(self, name: str, arguments: JSON) -> Answer:
        return calls.answer(self._exchange("tools/call", {"name": name, "arguments": arguments}))

    def why(self, name: str, arguments: JSON) -> str:
        """Why a call was refused, where an agent is not told."""
        exchange = self._exchange("tools/list", {})
        params = {"name": name, "arguments": arguments}
        return TrueReason(self._site, exchange.principal, exchange.request, "tools/call", params)()

    def _upload(self, exchange: Exchange, path: Path) -> str:
        try:
            return uploads.store(self._site, exchange.request, path.read_bytes(), path.name)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
        except MCPError as error:
            raise CommandError(f"{path} cannot be uploaded: {error.message}") from None

    def _exchange(self, method: str, params: JSON) -> Exchange:
        return calls.exchange_for(
            self._site, self._user, self._scopes, method, params,
            request=from_settings().restrict(self._site), transport="command", known_as="manage.py mcp_call",
        )  # fmt: skip


def _dump(value: JSON) -> str:
    return json.dumps(value, indent=2)


def _shown(text: str) -> str:
    """The text for a terminal, to which a row may not write anything but what is seen."""
    return "\n".join(map(printable, text.split("\n")))
