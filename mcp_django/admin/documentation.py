"""Links from our pages to their description in the documentation, if DOCS_URL says where it is."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf

#: What describes a page that a project added.
OTHER_PAGES = "admin/"
#: By the template of a page: the section that describes it.
SECTIONS = {
    "new_token": "admin/#access-tokens",
    "token_made": "admin/#access-tokens",
    "token_test": "admin/#access-tokens",
    "revoke_token": "admin/#access-tokens",
    "roll_token": "access/#a-new-token-for-an-old-one",
    "accesstoken/sees": "admin/#sees",
    "tool/try": "admin/#try-it",
    "tool/save": "admin/#saved-queries",
    "prompt/preview": "admin/#prompts",
    "call/connections": "admin/#connections",
}
#: What the first page leads to.
SUBJECTS: tuple[tuple[Promise, str], ...] = (
    (_("Tools"), "admin/#tools"),
    (_("Prompts"), "admin/#prompts"),
    (_("Access tokens"), "admin/#access-tokens"),
    (_("Changes by agents"), "admin/#changes-by-agents"),
    (_("Activity"), "admin/#activity"),
    (_("Connecting a client"), "clients/"),
    (_("Settings"), "settings/"),
)


def url_of(section: str) -> str:
    """Where a section can be read, or an empty text if nobody knows."""
    base = get_conf().DOCS_URL.rstrip("/")
    return f"{base}/{section}" if base else ""


def page_url(template: str) -> str:
    """Where the page of a template is described, or an empty text if nobody knows."""
    return url_of(SECTIONS.get(template, OTHER_PAGES))


def subjects() -> list[tuple[Any, str]]:
    """The titles and URLs of what the first page leads to."""
    return [(title, url) for title, section in SUBJECTS if (url := url_of(section))]
