"""``manage.py mcp_audit``: print the audit trail, follow it, or delete its old lines."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Q
from django.utils import timezone

from mcp_django.conf import get_conf
from mcp_django.core.db.clearing import clear_in_batches
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.management.audit_follower import Follower
from mcp_django.management.audit_lines import as_columns, as_json, heading
from mcp_django.management.moments import MOMENT_HELP, parse_moment
from mcp_django.management.progress import show_progress
from mcp_django.models import Call, Change, ChangedRow
from mcp_django.models.call_queries import FILTERS
from mcp_django.protocol.jsonrpc import encode

#: The pause between two looks of ``--follow``.
_FOLLOW_SECONDS = 1.0
#: What is printed without ``--since``.
_SINCE = {False: "1d", True: "1m"}
_NARROWING = ("user", "token", "tool", "model", "kind", "outcome")


class Command(DatabaseCommand):
    help = "Print what agents did, the oldest line first. Follow it with --follow; delete old lines with --clear."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--since", metavar="MOMENT", help=f"Calls since {MOMENT_HELP}. Default: 1d; with --follow, 1m."
        )
        parser.add_argument("--until", metavar="MOMENT", help="Calls until such a moment. A day is included.")
        parser.add_argument("--user", metavar="ID|NAME", help="Calls of this user, who may have been deleted.")
        parser.add_argument("--token", metavar="ID|NAME", help="Calls with this token.")
        parser.add_argument("--tool", metavar="NAME", help="Calls of this tool or prompt.")
        parser.add_argument("--model", metavar="APP.MODEL", help="Calls about this model.")
        parser.add_argument("--kind", choices=Call.Kind.values, help="Lines of this kind.")
        parser.add_argument("--outcome", choices=Call.Outcome.values, help="Calls with this outcome.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object a line.")
        ways = parser.add_mutually_exclusive_group()
        ways.add_argument("--follow", action="store_true", help="Also print lines as they are written, until Ctrl-C.")
        ways.add_argument(
            "--clear",
            action="store_true",
            help='Delete the lines, and the changes by agents, that are older than MCP["AUDIT_DAYS"].',
        )
        ways.add_argument(
            "--forget", metavar="APP.MODEL:KEY", help="Delete what is kept of one record so that changes can be undone."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["clear"]:
                self._clear(options)
            elif options["forget"]:
                self._forget(options["forget"])
            elif options["follow"]:
                self._follow(options)
            else:
                self._list(options)
        except KeyboardInterrupt:
            # Only whole lines were printed, and only whole batches deleted.
            pass
        except BrokenPipeError:
            # The reader, such as head, has seen enough. At its end, Python would try again to write the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _list(self, options: dict[str, Any]) -> None:
        calls = _since(_narrowed(options), options)
        if options["until"] is not None:
            calls = calls.filter(at__lt=parse_moment("--until", options["until"], end_of_day=True))
        self._print_heading(options)
        if not sum(self._print(page, options) for page in calls.pages()):
            self.stderr.write("No line of the audit trail matches.")

    def _forget(self, named: str) -> None:
        model, separator, key = named.partition(":")
        if not separator:
            raise CommandError("--forget takes a record as app.model:key.")
        rows = ChangedRow.objects.filter(model=model.lower(), key=key)
        # What was changed in a record cannot be undone without what was kept of it.
        Change.objects.filter(changed_rows__in=rows).update(undo_until=None)
        # The calls that have ended, and their answers, hold values too, whether or not they could be undone.
        ended = Change.objects.exclude(state__in=(Change.State.WAITING, Change.State.WRITING))
        ended = ended.filter(Q(changed_rows__in=rows) | Q(model=model.lower(), keys__contains=encode(key).decode()))
        Change.objects.filter(pk__in=list(ended.values_list("pk", flat=True))).update(arguments="", result="")
        count, _ = rows.delete()
        self.stdout.write(f"{count} kept {'change' if count == 1 else 'changes'} of {named} deleted.")

    def _follow(self, options: dict[str, Any]) -> None:
        if options["until"] is not None:
            raise CommandError("--follow runs until Ctrl-C: leave out --until.")
        calls = _narrowed(options)
        follower = Follower(calls)
        self._print_heading(options)
        self._print(follower.present(_since(calls, options)), options)
        while True:
            self._wait()
            self._print(follower.new(), options)

    def _wait(self) -> None:
        time.sleep(_FOLLOW_SECONDS)

    def _print_heading(self, options: dict[str, Any]) -> None:
        if not options["json"]:
            self.stdout.write(heading())

    def _print(self, calls: Iterable[Call], options: dict[str, Any]) -> int:
        line, count = as_json if options["json"] else as_columns, 0
        for call in calls:
            self.stdout.write(line(call))
            count += 1
        # With --follow, a line is seen at once, also through a pipe.
        self.stdout.flush()
        return count

    def _clear(self, options: dict[str, Any]) -> None:
        given = [f"--{name}" for name in ("since", "until", *_NARROWING, "json") if options[name]]
        if given:
            raise CommandError(f"--clear deletes all lines that are older than AUDIT_DAYS: leave out {given[0]}.")
        days = get_conf().AUDIT_DAYS
        if not days or days < 0:
            self.stdout.write("AUDIT_DAYS keeps all lines. Nothing was deleted.")
            return
        end = timezone.now() - timedelta(days=days)
        changes = sum(clear_in_batches(Change.objects.filter(created_at__lt=end)))
        old = Call.objects.filter(at__lt=end).order_by("at")
        total, deleted = old.count(), 0
        for count in clear_in_batches(old):
            deleted += count
            show_progress(self, f"{deleted:,} of {max(total, deleted):,} lines are deleted.")
        show_progress(self, "")
        self.stdout.write(f"Older than {days} days, and deleted: lines: {deleted:,}, changes by agents: {changes:,}.")


def _narrowed(options: dict[str, Any]) -> Any:
    calls = Call.objects.all()
    for name in _NARROWING:
        if options[name] is not None:
            calls = FILTERS[name](calls, options[name])
    return calls


def _since(calls: Any, options: dict[str, Any]) -> Any:
    return calls.filter(at__gte=parse_moment("--since", options["since"] or _SINCE[options["follow"]]))
