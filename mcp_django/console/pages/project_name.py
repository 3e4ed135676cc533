"""What a project is called: on pages outside of the admin, and where a client names the server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.text import capfirst, slugify
from django.utils.translation import gettext as _

from mcp_django.conf import Conf, get_conf

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite

#: The longest name of a server: clients put it before the name of each tool, and models take 64 characters of both.
_MAX_NAME = 24
#: The name of the site that each project has.
_DEFAULT_SITE = "mcp"
#: How packages and folders are called that say nothing of their project.
_SAYS_NOTHING = frozenset({
    "", "__main__", "app", "apps", "backend", "base", "code", "conf", "config", "configuration", "core", "django",
    "django_project", "home", "main", "opt", "project", "root", "server", "settings", "site", "src", "srv", "urls",
    "usr", "var", "web", "website", "workspace", "www",
})  # fmt: skip


def title_of(site: MCPSite) -> str:
    """What people read: the declared title of the site or of the admin, else SERVER_NAME, else the project's name.

    A second site of a project has its own name beside that.
    """
    title = str(site.implementation().get("title") or _set_name() or _of_project() or _("This site"))
    return title if _is_alone(site) else f"{title} {site.name}"


def server_name(site: MCPSite) -> str:
    """What a client calls the server: letters, digits and hyphens, which every client accepts, and not many of them."""
    named = (_set_name(), str(site.implementation().get("title", "")), _of_project(), Conf.SERVER_NAME)
    name = next(plain for one in named if (plain := _plain(one)))
    return name if _is_alone(site) else _plain(f"{name}-{site.name}")


def _is_alone(site: MCPSite) -> bool:
    """Whether nothing else is called like the site."""
    return bool(site.title) or site.name == _DEFAULT_SITE


def _set_name() -> str:
    name = get_conf().SERVER_NAME
    return "" if name == Conf.SERVER_NAME else name


def _plain(name: str) -> str:
    """In the letters of ASCII, and cut at the end of a word where there is one."""
    plain = re.sub(r"[-_]+", "-", slugify(name.replace(".", "-"))).strip("-")
    if len(plain) <= _MAX_NAME:
        return plain
    return plain[: _MAX_NAME + 1].rpartition("-")[0] or plain[:_MAX_NAME]


def _of_project() -> str:
    """The first of its packages whose name says something, or else its folder. Empty where none does."""
    *packages, module = settings.ROOT_URLCONF.split(".")
    of_settings = os.environ.get("DJANGO_SETTINGS_MODULE", "").partition(".")[0]
    folder = Path(settings.BASE_DIR).resolve().name if getattr(settings, "BASE_DIR", "") else ""
    names = [*packages, module, of_settings, folder]
    named = next((name for name in names if name.lower() not in _SAYS_NOTHING), "")
    return str(capfirst(re.sub(r"[\W_]+", " ", named).strip()))
