"""``manage.py mcp_tools``: list the tools, switch tools, models and fields, and keep the switches in a file."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from mcp_django.access.trail import commanding
from mcp_django.bridge.sites import MCPSite, all_sites
from mcp_django.console.review import model_switches, switches
from mcp_django.console.review.switches import BadFile, Wanted
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.management.arguments import find_site
from mcp_django.management.values import content_of
from mcp_django.protocol.names import printable

#: In the place of a file: standard output, or standard input.
_STANDARD = Path("-")


class Command(DatabaseCommand):
    help = (
        "List the tools with what administrators decided about each, and the models and fields that are off; switch "
        "them on and off, or keep all that in a file. Prompts are not among them."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        for switch in ("on", "off"):
            parser.add_argument(
                f"--{switch}", nargs="+", metavar="NAME", action="extend", default=[],
                help=f"Switch {switch} these tools, models (as app.model) and fields (as app.model.field).",
            )  # fmt: skip
        files = parser.add_mutually_exclusive_group()
        files.add_argument(
            "--export", type=Path, metavar="FILE", help="Write what is decided to FILE, or with - print it."
        )
        files.add_argument(
            "--import",
            type=Path,
            metavar="FILE",
            dest="from_file",
            help="Change what FILE, or with - standard input, says otherwise, and nothing that it does not name.",
        )
        parser.add_argument(
            "--check", action="store_true", help="With --import: change nothing, and fail if there is a difference."
        )
        parser.add_argument("--site", metavar="NAME", help="The site, where there are several.")

    def handle(self, *args: Any, **options: Any) -> None:
        path, source = options["export"], options["from_file"]
        switched = bool(options["on"] or options["off"])
        if options["check"] and source is None:
            raise CommandError("--check: name the file to compare with: --import FILE.")
        if switched and (path or source):
            raise CommandError("--on and --off do not go with a file. Call the command twice.")
        if source is not None and options["site"] is not None:
            raise CommandError("--site does not go with --import: the file names its sites.")
        try:
            if path is not None:
                self._export(path, _sites(options["site"]))
            elif source is not None:
                self._import(source, check=options["check"])
            elif switched:
                site = find_site(options["site"])
                self._make(switches.switches(site, on=options["on"], off=options["off"]), {site.name: site})
            else:
                self.stdout.write("\n".join(line for site in _sites(options["site"]) for line in _lines(site)))
        except BadFile as error:
            named = "" if source is None else f"{source} cannot be used:\n\n"
            raise CommandError(f"{named}{error}\n\nNothing was changed.") from None

    def _export(self, path: Path, sites: Iterable[MCPSite]) -> None:
        text = json.dumps(switches.read(sites), indent=2, ensure_ascii=False) + "\n"
        if path == _STANDARD:
            self.stdout.write(text, ending="")
            return
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
        self.stdout.write(f"{path} holds what was decided about tools, models and fields.")

    def _import(self, path: Path, *, check: bool) -> None:
        sites = {site.name: site for site in all_sites()}
        wanted = switches.parse(sys.stdin.read() if path == _STANDARD else content_of(path), sites)
        if not check:
            self._make(wanted, sites)
        elif changes := switches.differences(wanted, sites):
            lines = "\n".join(map(str, changes))
            accept = f"manage.py mcp_tools --import {shlex.quote(str(path))}"
            raise CommandError(f"{path} differs from what is decided:\n\n{lines}\n\nTo make it so: {accept}")
        else:
            self.stdout.write(f"All is as {path} says.")

    def _make(self, wanted: Wanted, sites: Mapping[str, MCPSite]) -> None:
        with commanding("mcp_tools"):
            changes = switches.write(wanted, sites)
        self.stdout.write("\n".join(map(str, changes)) or "There is nothing to change.")


def _sites(name: str | None) -> list[MCPSite]:
    """The site of this name, or without one those that the URLconf serves."""
    if name is not None:
        return [find_site(name)]
    found = sorted(all_sites(), key=lambda site: site.name)
    return [site for site in found if site.is_served] or found


def _lines(site: MCPSite) -> Iterator[str]:
    """A heading, and a line for each tool: what is on first. Then the models and fields that are off."""
    [decided] = switches.read([site])["sites"].values()
    yield f"Tools of the site {site.name}"
    for name, state in sorted(decided["tools"].items(), key=lambda item: (not item[1]["enabled"], item[0])):
        groups = state["groups"]
        notes = [
            "a saved query" if "query" in state else "",
            f"asks: {state['asks']}" if state["asks"] else "",
            "" if groups is None else f"for {', '.join(groups) or 'nobody: its groups are gone'}",
            "described by an administrator" if state["description"] else "",
            "" if name in site.tools or "query" in state else "not there now",
        ]
        said = "; ".join(filter(None, notes))
        yield printable(f"{'on ' if state['enabled'] else 'off'}  {name}{f'  ({said})' if said else ''}")
    off = [(kind, name) for section, kind in model_switches.SECTIONS.items() for name in decided[section]]
    gone = model_switches.unexposed(site, off) if off else {}
    for kind, name in off:
        yield printable(f"off  {name}  (a {kind}{'; not there now' if (kind, name) in gone else ''})")
