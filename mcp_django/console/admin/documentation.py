"""Links from our pages to their description in the documentation, if DOCS_URL says where it is."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf

#: The section for pages that a project added.
OTHER_PAGES = "admin/"
#: By the template of a page: the section that describes it.
SECTIONS = {
    "tool/change_list": "admin/#tools",
    "prompt/change_list": "admin/#prompts",
    "restriction/change_list": "admin/#models",
    "restriction/model": "admin/#models",
    "accesstoken/change_list": "admin/#access-tokens",
    "change/change_list": "approving/#the-list",
    "change/several": "approving/#several-changes",
    "change/reject_all": "approving/#the-list",
    "call/change_list": "admin/#activity",
    "client/change_list": "oauth/#who-may-connect-what",
    "grant/change_list": "oauth/#who-may-connect-what",
    "new_token": "admin/#access-tokens",
    "token_made": "admin/#access-tokens",
    "token_test": "admin/#access-tokens",
    "end_lending": "access/#rights-for-a-while",
    "revoke_token": "admin/#access-tokens",
    "pause": "pausing/#in-the-admin",
    "roll_token": "access/#a-new-token-for-an-old-one",
    "accesstoken/sees": "admin/#sees",
    "accesstoken/words": "admin/#access-tokens",
    "tokentemplate/change_list": "admin/#templates",
    "revoke_grant": "oauth/#who-may-connect-what",
    "block_client": "oauth/#who-may-connect-what",
    "tool/try": "admin/#try-it",
    "tool/save": "admin/#saved-queries",
    "prompt/preview": "admin/#prompts",
    "call/connections": "admin/#connections",
    "call/live": "audit/#live",
    "call/totals": "audit/#totals",
    "call/credential": "audit/#what-one-credential-did",
}
#: The titles and sections that the first page links to.
SUBJECTS: tuple[tuple[Promise, str], ...] = (
    (_("Tools"), SECTIONS["tool/change_list"]),
    (_("Models"), SECTIONS["restriction/change_list"]),
    (_("Prompts"), SECTIONS["prompt/change_list"]),
    (_("Access tokens"), SECTIONS["accesstoken/change_list"]),
    (_("Changes by agents"), SECTIONS["change/change_list"]),
    (_("Activity"), SECTIONS["call/change_list"]),
    (_("Connecting a client"), "clients/"),
    (_("Settings"), "settings/"),
)


def url_of(section: str) -> str:
    """The URL of a section, or an empty text without DOCS_URL."""
    base = get_conf().DOCS_URL.rstrip("/")
    return f"{base}/{section}" if base else ""


def page_url(template: str) -> str:
    """The URL that describes the page of a template, or an empty text without DOCS_URL."""
    return url_of(SECTIONS.get(template, OTHER_PAGES))


def subjects() -> list[tuple[Any, str]]:
    """The titles and URLs of what the first page leads to."""
    return [(title, url) for title, section in SUBJECTS if (url := url_of(section))]
