"""The parts of the documentation that are made from the code, each between two marks on its page."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.management import BaseCommand, load_command_class

from mcp_django.conf import Conf
from mcp_django.protocol.revisions import LEGACY_REVISIONS, REVISIONS
from mcp_django.server.methods import METHODS, SESSION_METHODS

#: The commands of each app, in the order in which a project meets them.
COMMANDS = {
    "mcp_django": (
        "startmcp", "mcp_connect", "mcp_token", "mcp_inventory", "mcp_tools", "mcp_call", "mcp_audit", "mcp_stdio",
        "mcp_grpc", "mcp_due", "mcp_pause", "mcp_triggers",
    ),
    "mcp_django.oauth": ("mcp_oauth",),
}  # fmt: skip


# Settings.


def settings() -> str:
    """A table of each group of settings, in the order of ``Conf``."""
    return "\n".join(_settings_lines())


def _settings_lines() -> Iterator[str]:
    comment: list[str] = []
    for line in inspect.getsource(Conf).splitlines():
        match line.strip().split(maxsplit=1):
            case ["#", text] if text.startswith("= "):
                yield f"## {text.removeprefix('= ')}"
            case ["#", text]:
                yield f"### {text.removesuffix('.')}\n"
                yield "| Key | Default | What it says |\n|---|---|---|"
            case ["#:", text]:
                comment.append(text)
            case []:
                yield ""
            case [str(name), *_] if comment:
                key = name.removesuffix(":")
                yield f"| `{key}` | `{_value(getattr(Conf(), key))}` | {' '.join(comment)} |"
                comment = []


def _value(value: Any) -> str:
    """A default as a settings file would write it."""
    match value:
        case bool() | None:
            return repr(value)
        case int():
            return f"{value:_}" if value >= 1000 else str(value)
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return json.dumps(value)
        case str():
            return json.dumps(value)
    return repr(value)


# Commands.


def commands() -> str:
    """What each command does, and its arguments, as ``--help`` says it."""
    return "\n".join(_command(app, name) for app, names in COMMANDS.items() for name in names)


def _command(app: str, name: str) -> str:
    command = load_command_class(app, name)
    parser = command.create_parser("manage.py", name)
    of_django = {action.dest for action in BaseCommand().create_parser("", "")._actions}
    own = [action for action in parser._actions if action.dest not in of_django]
    lines = [f"## {name}", "", _sentence(command.help), ""]
    if own:
        lines += ["| Argument | What it does |", "|---|---|"]
        lines += [f"| `{_argument(action)}` | {_sentence(action.help or '')}{_choices(action)} |" for action in own]
        lines.append("")
    return "\n".join(lines)


def _argument(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    return " ".join([*action.option_strings[-1:], *filter(None, [value])]).replace("|", "\\|")


def _choices(action: argparse.Action) -> str:
    return f" One of {', '.join(f'`{choice}`' for choice in action.choices)}." if action.choices else ""


def _sentence(text: str) -> str:
    return " ".join(text.replace("%%", "%").split())


# Methods of the protocol.


@dataclass(frozen=True, slots=True)
class Transport:
    letter: str
    name: str
    #: Whether it can deliver messages that no request asked for.
    push: bool = True
    revisions: tuple[str, ...] = REVISIONS


TRANSPORTS = (
    Transport("W", "HTTP under WSGI", push=False),
    Transport("A", "HTTP under ASGI, by the view and by the ASGI application"),
    Transport("S", "WebSocket"),
    Transport("I", "stdio"),
    Transport("G", "gRPC, in a session"),
    Transport("E", "HTTP+SSE of 2024-11-05, where it is switched on", revisions=LEGACY_REVISIONS),
)


def letters(method: str, revision: str) -> str:
    """The letters of the transports over which a method is served in a revision."""
    entry = METHODS[method]
    if revision not in entry.revisions:
        return ""
    served = (t for t in TRANSPORTS if revision in t.revisions and (t.push or not entry.needs_push))
    return "".join(transport.letter for transport in served)


def methods() -> str:
    """The methods, with the revisions and transports that serve each, and the meaning of the letters and stars."""
    lines = [f"| Method | {' | '.join(REVISIONS)} |", "|---" * (len(REVISIONS) + 1) + "|"]
    for method in METHODS:
        star = "\\*" if method in SESSION_METHODS else ""
        cells = (letters(method, revision) or "-" for revision in REVISIONS)
        lines.append(f"| `{method}`{star} | {' | '.join(cells)} |")
    named = "; ".join(f"**{transport.letter}** {transport.name}" for transport in TRANSPORTS)
    return "\n".join([*lines, "", f"{named}. \\* Needs a session: over HTTP that of `Mcp-Session-Id`."])


# Pages.

#: By the name in the marks: what stands between them.
PARTS: dict[str, Callable[[], str]] = {"settings": settings, "commands": commands, "methods": methods}

_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def generate(page: str) -> str:
    """The text of a page with its generated parts as the code is now."""
    return _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]().strip()}\n\n{part[3]}", page)
