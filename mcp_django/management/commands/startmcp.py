"""``manage.py startmcp APP``: write an ``mcp.py`` for an app from its admin, with comments."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import BaseCommand, CommandError

from mcp_django.management.arguments import find_site
from mcp_django.management.starting import write
from mcp_django.protocol.unknown_names import nearest

#: Folders of packages that somebody else wrote, which the next installation overwrites.
_INSTALLED = ("site-packages", "dist-packages")


class Command(BaseCommand):
    help = (
        "Write an mcp.py for an app from its admin, with comments. It changes nothing of what agents see before it is "
        "edited."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("app", help="The app, by its label or its path, as shop or project.shop.")
        parser.add_argument(
            "--print", action="store_true", help="Print the file, for a module of another app, and write nothing."
        )
        parser.add_argument("--site", metavar="NAME", help="The site, where there are several.")

    def handle(self, *args: Any, **options: Any) -> None:
        app, site = _find_app(options["app"]), find_site(options["site"])
        if app.name == "mcp_django" or app.name.startswith("mcp_django."):
            raise CommandError("The models of mcp_django are never exposed.")
        if options["print"]:
            self.stdout.write(write(app, site, is_inside=False), ending="")
            return
        folder = Path(app.path)
        if set(_INSTALLED) & set(folder.parts):
            raise CommandError(
                f"{app.label} is an installed package. Print the file, and put it into an app of yours: "
                f"manage.py startmcp {app.label} --print"
            )
        file = folder / "mcp.py"
        if (folder / "mcp").exists():
            raise CommandError(f"{folder / 'mcp'} exists already. Print the file instead: --print.")
        if file.exists():
            raise CommandError(f"{file} exists already, and is left as it is. Print the file instead: --print.")
        text = write(app, site)
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.") from None
        self.stdout.write(f"{file} is written. It changes nothing before you edit it.")


def _find_app(name: str) -> AppConfig:
    """The app of that label, or of the path of its package or its AppConfig. Raises CommandError."""
    found: dict[str, AppConfig] = {}
    for app in apps.get_app_configs():
        cls = type(app)
        found |= {app.name: app, f"{cls.__module__}.{cls.__qualname__}": app}
    found |= {app.label: app for app in apps.get_app_configs()}
    if name not in found:
        known = [one for app in apps.get_app_configs() for one in (app.label, app.name)]
        raise CommandError(f"There is no installed app {name!r}.{nearest(name, known)}")
    return found[name]
