"""``manage.py mcp_inventory``: what agents can reach, for people to review and to lock against changes."""

from __future__ import annotations

import json
import shlex
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import Error

from mcp_django.access import overrides
from mcp_django.access.overrides import NO_RESTRICTIONS, Restrictions
from mcp_django.bridge.sites import MCPSite
from mcp_django.console.review import inventory, reasons, samples
from mcp_django.console.review.checklist import Reasons
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.exchange import scopes
from mcp_django.management.arguments import find_site, find_user, parse_scopes
from mcp_django.management.progress import show_progress
from mcp_django.models import Tool
from mcp_django.protocol.types import JSON

_WIDTH = 110


class Command(DatabaseCommand):
    help = (
        "Print the models, fields, tools and actions that agents can reach, and the size of the list of tools. Without "
        "--user, print what a superuser reaches with every tool switched on, without asking a database. Only --sample "
        "reads rows."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", metavar="NAME", help="Print what this user reaches now, by the database.")
        parser.add_argument(
            "--scopes",
            help=f"Scopes, separated by commas: {scopes.GRAMMAR}. Default: {scopes.READ} for a user, else all.",
        )
        parser.add_argument("--site", metavar="NAME", help="The site to look at, where there are several.")
        output = parser.add_mutually_exclusive_group()
        output.add_argument(
            "--json", action="store_true", help="Print it as JSON (see mcp_django.console.review.inventory.build)."
        )
        output.add_argument(
            "--compare-admin",
            action="store_true",
            help="Print what the admin shows and agents cannot reach. Fail if something is missing without a reason.",
        )
        output.add_argument(
            "--why",
            metavar="NAME",
            help="Print why the user reaches this or not: a model as app.model, a field as app.model.field, a row as "
            "db://app/model/pk, a way to write as app.model:update, a resource by its URI, a tool or a prompt.",
        )
        output.add_argument("--lock", metavar="FILE", type=Path, help="Write what is exposed to FILE.")
        parser.add_argument("--check", action="store_true", help="Fail if what is exposed differs from --lock FILE.")
        parser.add_argument(
            "--sample",
            action="store_true",
            help=f"Also read up to {samples.ROWS} rows of each exposed model, and name the columns whose texts look "
            "like keys, tokens or passwords. No value is printed.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path | None = options["lock"]
        if options["check"] and path is None:
            raise CommandError("--check: name the file to compare with: --lock FILE.")
        if options["sample"]:
            for name in ("why", "lock", "compare_admin"):
                if options[name]:
                    raise CommandError(f"--sample does not go with --{name.replace('_', '-')}.")
        site = find_site(options["site"])
        user = None if options["user"] is None else find_user(options["user"])
        default = ",".join(scopes.SCOPES) if user is None else scopes.READ
        wanted = parse_scopes(default if options["scopes"] is None else options["scopes"])
        if options["why"] is not None:
            self.stdout.write("\n".join(_why_lines(reasons.explain(site, user, wanted, options["why"]))))
            return
        built = inventory.build(site, user, wanted, for_lock=path is not None)
        if options["sample"]:
            progress = partial(show_progress, self)
            built["samples"] = samples.take(site, user, wanted, show_progress=progress)
        if options["json"]:
            self.stdout.write(_dump(built), ending="")
        elif options["compare_admin"]:
            self._compare_admin(built["admin"], len(built["models"]))
        elif path is None:
            decided = (_overrides(site), _restrictions(site)) if user is None else ({}, NO_RESTRICTIONS)
            self.stdout.write("\n".join(_lines(built, *decided)))
        elif options["check"]:
            self._check(path, built)
        else:
            try:
                path.write_text(_dump(inventory.lock(built)), encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
            self.stdout.write(f"{path} holds what {_whom(built)} reaches.")

    def _compare_admin(self, compared: JSON, models: int) -> None:
        """Raise CommandError for what is missing without a reason."""
        self.stdout.write("\n".join(_admin_lines(compared, models)).lstrip("\n"))
        unexplained = [
            f"{label} {name}"
            for label, missing in compared["missing"].items()
            for name, why in missing.items()
            if not why
        ]
        if unexplained:
            listed = "\n".join(unexplained)
            raise CommandError(f"The admin shows this, agents cannot reach it, and there is no reason:\n\n{listed}")

    def _check(self, path: Path, built: JSON) -> None:
        """Raise CommandError with the changes, and with the command that accepts them."""
        accept = f"manage.py mcp_inventory {_options(built)} --lock {shlex.quote(str(path))}"
        before, after = _read(path, accept), inventory.lock(built)
        if _options(before) != _options(after):
            raise CommandError(f"{path} holds what {_whom(before)} reaches: check it with {_options(before)}.")
        if before == after:
            self.stdout.write(f"{path} is up to date.")
            return
        lines = inventory.changes(before, after) or ["~ the file: written by another version of mcp_django"]
        changed = "\n".join(lines)
        raise CommandError(
            f"{path} is out of date. What {_whom(after)} can reach has changed:\n\n{changed}\n\n"
            f"If all of it is meant, accept it and commit the file:\n{accept}"
        )


def _why_lines(found: Reasons) -> Iterator[str]:
    """The checklist. Raises CommandError for an unknown name."""
    if found.kind is None:
        raise CommandError(str(found.unknown))
    yield f"{found.name} is {'reached' if found.allowed else 'not reached'}."
    for step in found.steps:
        line = f"{step.question} {step.verdict.value}{'.' if not step.why else f'. {step.why}'}"
        yield from _wrapped(line, "  ", "      ")


def _dump(value: JSON) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _read(path: Path, accept: str) -> JSON:
    """The lock in the file. Raises CommandError."""
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(f"There is no {path}. Write it with:\n{accept}") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        lock = None
    if not inventory.is_lock(lock):
        raise CommandError(f"{path} is no lock of mcp_inventory. Write it anew with:\n{accept}")
    return dict(lock)


def _whom(built: JSON) -> str:
    user = "a superuser" if built["user"] is None else f"the user {built['user']}"
    return f"{user} with the scopes {', '.join(built['scopes'])}"


def _options(built: JSON) -> str:
    """The options of the command that gives an inventory of the same principal and site."""
    user = [] if built["user"] is None else ["--user", str(built["user"])]
    return shlex.join(["--site", str(built["site"]), *user, "--scopes", ",".join(built["scopes"])])


def _overrides(site: MCPSite) -> Mapping[str, str]:
    """What administrators decided about each tool, in words. Empty if the database cannot be asked."""
    rows = Tool.objects.filter(site=site.name).values_list("name", "enabled", "restricted")
    try:
        return {
            name: f"switched {'on' if enabled else 'off'} now{' for some groups' if enabled and restricted else ''}"
            for name, enabled, restricted in rows
        }
    except (Error, ImproperlyConfigured):
        return {}


def _restrictions(site: MCPSite) -> Restrictions:
    """The models and fields that administrators switched off. None if the database cannot be asked."""
    try:
        return overrides.tools.restrictions(site, fresh=True)
    except (Error, ImproperlyConfigured):
        return NO_RESTRICTIONS


# For people.


def _lines(built: JSON, decided: Mapping[str, str], closed: Restrictions) -> Iterator[str]:
    yield f"What {_whom(built)} reaches on the site {built['site']}."
    if built["user"] is None:
        yield "The project declares this, whatever the database holds. --user NAME prints what that user reaches now."
    models = built["models"].items()
    yield from _section("Models", (_model_lines(label, model, closed) for label, model in models))
    yield from _section("Operations of the API", (_operation_lines(*one) for one in built["operations"].items()))
    if built["below_middleware"]:
        named = ", ".join(built["below_middleware"])
        yield f"Calls run below {named}, and so over HTTP alone: WebSocket, gRPC, stdio, push and tasks are refused."
        if built["operations"]:
            yield "Operations of the API are called over each of them: the API's own middleware has its say then."
    cost = f", {built['tool_list']['bytes']:,} bytes in each list of tools"
    tools = built["tools"].items()
    yield from _section("Tools", ([_tool_line(name, tool, built["user"], decided)] for name, tool in tools), cost)
    for title in ("resources", "templates", "prompts"):
        named = {"templates": "Resource templates"}.get(title, title.capitalize())
        yield from _section(named, ([f"{name}{_needs(one)}"] for name, one in built[title].items()))
    yield from _section("Left out", ([f"{label}: {why}"] for label, why in sorted(built["left_out"].items())))
    yield from _section("Approvals that too few people may give", ([line] for line in built["unmet"]))
    yield from _section("Failed when asked", ([line] for line in built["failed"]))
    yield from _admin_lines(built["admin"], len(built["models"]))
    if "samples" in built:
        yield from _sample_lines(built["samples"])


def _sample_lines(taken: JSON) -> Iterator[str]:
    """The columns whose texts look like secrets, with what hides them."""
    yield from _section("Stored texts that look like secrets", starmap(_sampled_lines, taken["models"].items()))
    if not taken["models"]:
        yield f"\nNo stored text looks like a secret. Up to {taken['rows']} rows of each model were read."
    unread = ([f"{label}: {error}"] for label, error in taken["unread"].items())
    yield from _section("Rows that could not be read", unread)


def _sampled_lines(label: str, found: JSON) -> Iterator[str]:
    yield label
    for name, column in found["columns"].items():
        alike = f"{column['alike']} of {_number(column['texts'], 'text')}"
        yield f"{name}: {alike} may be {' or '.join(column['kinds'])}"
    if found["exclude"]:
        yield f"to hide: exclude = {json.dumps(found['exclude'])} in a ModelMCP"
    if found["primary_key"]:
        yield f"{found['primary_key']} is the primary key: has_view_permission of a ModelMCP hides the model"


def _admin_lines(compared: JSON, models: int) -> Iterator[str]:
    """What the admin shows and agents cannot reach, and a summary."""
    missing = compared["missing"].items()
    yield from _section("Shown by your admin and not here", ([label, *_without(names)] for label, names in missing))
    yield ""
    yield from _wrapped(_summary(compared, models), "", "")


def _summary(compared: JSON, models: int) -> str:
    parts = [
        _number(models, "model"),
        f"{_number(compared['fields'], 'field')} that your admin shows, {compared['fields_here']} of them here",
    ]
    if compared["actions"]:
        parts.append(f"{_number(compared['actions'], 'action')}, {compared['actions_here']} of them here")
    if compared["hidden"]:
        words = sorted(compared["hidden"].items(), key=lambda item: (-item[1], item[0]))
        parts.append(f"hidden: {', '.join(f'{count} {word}' for word, count in words)}")
    return "; ".join(parts)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _section(title: str, entries: Iterable[Iterable[str]], more: str = "") -> Iterator[str]:
    found = [list(entry) for entry in entries]
    if found:
        yield f"\n{title} ({len(found)}{more})"
        for first, *rest in found:
            yield from _wrapped(first, "  ", "      ")
            for line in rest:
                yield from _wrapped(line, "      ", "        ")


def _wrapped(line: str, indent: str, further: str) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, initial_indent=indent, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def _model_lines(label: str, model: JSON, closed: Restrictions) -> Iterator[str]:
    rows = "all rows" if model["rows"] == "all" else f"the rows of {model['rows']}"
    yield f"{label} by {model['declared_by']}: {rows}{', switched off now' if label in closed.models else ''}"
    if off := closed.fields.get(label):
        yield f"switched off now: {', '.join(sorted(off))}"
    related = {name: field["relation"] for name, field in model["fields"].items() if "relation" in field}
    yield f"fields: {', '.join(_pointing(name, related) for name in model['fields'])}"
    if model["computed"]:
        yield f"computed: {', '.join(model['computed'])}"
    if model["relations"]:
        yield f"relations: {', '.join(_pointing(name, model['relations']) for name in model['relations'])}"
    if model["search"]:
        yield f"search: {model['search']}"
    if model["serializer"]:
        yield f"a record by {model['serializer']['class']}: {', '.join(model['serializer']['fields'])}"
    if model["writes"]:
        written = (f"{what} ({one['consent']}) by {one['by']}" for what, one in model["writes"].items())
        yield f"writes: {', '.join(written)}"
        yield f"written: {model['not_written'] or ', '.join(model['written']) or 'nothing'}"
    yield from _without(model["hidden"])


def _operation_lines(name: str, operation: JSON) -> Iterator[str]:
    yield ", ".join(filter(None, [f"{name}: {operation['request']}", operation.get("consent")]))
    if operation["who"]:
        yield f"who: {', '.join(operation['who'])}"
    if operation["filters"]:
        yield f"filters: {', '.join(operation['filters'])}"
    if operation["fields"]:
        yield f"{operation['serializer']}: {', '.join(operation['fields'])}"


def _without(hidden: Mapping[str, str]) -> Iterator[str]:
    """A line for each reason, with the names that have it."""
    reasons: dict[str, list[str]] = {}
    for name, why in hidden.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        yield f"without {', '.join(names)}: {why or 'no reason is known'}"


def _pointing(name: str, related: Mapping[str, str]) -> str:
    return f"{name} -> {related[name]}" if name in related else name


def _tool_line(name: str, tool: JSON, user: str | None, decided: Mapping[str, str]) -> str:
    does = "reads" if tool["read_only"] else "may destroy data" if tool["destructive"] else "changes data"
    line = f"{name}: {tool['kind']}, {does}, {tool['bytes']:,} bytes{_needs(tool)}"
    if user is not None:
        return line
    return ", ".join([f"{line}; starts {tool['starts']}", *([decided[name]] if name in decided else [])])


def _needs(entry: JSON) -> str:
    return f", needs {' or '.join(entry['permissions'])}" if entry["permissions"] else ""
