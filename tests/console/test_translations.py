"""Whatever a person reads on a page of ours can be translated, unless data or a program says it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core import mail
from django.utils import timezone, translation
from django.utils.text import capfirst

import mcp_django
from demo_project.flights.models import Flight
from mcp_django import oauth, site
from mcp_django.bridge.declared.secrets import is_ours
from mcp_django.bridge.resources.fields.kinds import KINDS
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.console.pages.connecting import client_setups
from mcp_django.console.review import inventory
from mcp_django.core.compat.admin import model_admins
from mcp_django.exchange.scopes import SCOPES
from mcp_django.models import AccessToken, Call, Prompt, Tool
from mcp_django.protocol.revisions import REVISIONS
from mcp_django.server import due, ending_tokens
from tests.console import walking, walking_console
from tests.console.test_rights import MARK, things  # noqa: F401 - a fixture
from tests.console.walking import Walk
from tests.support import pseudo_locale
from tests.support.data import Users
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")

#: What is named as it is everywhere: files, programs, and values of the test.
NAMED = [
    "~/.cursor/mcp.json", "~/.codeium/windsurf/mcp_config.json", "~/.config/goose/config.yaml",
    ".vscode/mcp.json", "curl", "JSON", "MCP", "True", "False", "None", "csv", "json",
    "EWR", "JFK", "LGA", "IAH", "UA", "AA", "United", "American", "fog", "ice", "FlightAdmin.get_queryset",
    "aaaaaaaaaaaaaaaaaaaaaa", "mcp", "old-client", "recount", f"{MARK}.it", f"{MARK.title()} query", "Saved",
    *REVISIONS, "django", "claude.ai", "console of", "testserver", "count", "Demo project", "nightly",
    *walking_console.SCOPES, *(why for _, why in walking_console.QUESTIONS),
    *(str(kind.name) for kind in KINDS.values()),
]  # fmt: skip
#: What agents are told, which pages repeat as it was said.
QUOTED = [
    "Mail, what triggers did, times that saving sets, and keys of rows that are made again are not undone.",
    "changed since", "there is no such record", "the form has no such field", "no field", "Allowed",
]  # fmt: skip
#: What Django's own templates leave unmarked.
OF_DJANGO = ["Search"]
#: Moments as agents and logs have them, the ends of tokens, and the numbers of changes.
_OF_PROGRAMS = re.compile(
    r"https?://\S+|\d{4}-\d\d-\d\d[T ][\d:]+[\d.]*[+-]\d\d:\d\d|…[\w-]{4}|\b[0-9a-f]{22}\b|\b[0-9a-f-]{36}\b"
)


STEPS = (
    walking_console.lists_and_forms, walking_console.read_only, walking_console.pauses, walking_console.tokens,
    walking_console.tools_and_models, walking_console.activity, walking_console.changes, walking.own_pages,
    walking.logging_in,
)  # fmt: skip
#: What programs ask beside the endpoint.
FOR_PROGRAMS = {
    "live", "oauth-keys", "oauth-openid", "oauth-register", "oauth-resource", "oauth-resource-root", "oauth-revoke",
    "oauth-server", "oauth-token", "ready", "sse", "sse-messages", "ticket", "upload", "uploads",
}  # fmt: skip


@pytest.fixture
def walk(
    request: pytest.FixtureRequest, users: Users, flights: list[Flight], declared: Declared,
    monkeypatch: pytest.MonkeyPatch, settings: Any,
) -> Iterator[Walk]:  # fmt: skip
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read"], "TRY_AS": True, "BASE_URL": "http://testserver"}
    made = Walk(monkeypatch, users, request.getfixturevalue("things"))
    walking.set_up(made, declared)
    # Numbers and moments are written as in a language that writes them unlike programs do.
    with translation.override("de"):
        yield made
    made.close()


def test_every_text_that_people_read_can_be_translated(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    data = said_by_programs()
    pseudo_locale.speak(monkeypatch)
    for step in STEPS:
        step(walk)

    # The walk misses no page.
    assert templates() - walk.templates == set()
    assert url_names() - walk.url_names - FOR_PROGRAMS == set()

    read = {_OF_PROGRAMS.sub(" ", text): what for text, what in walk.texts().items()}
    assert {text: read[text] for text in pseudo_locale.unmarked(read, data | said_by_programs())} == {}


def test_every_text_of_a_mail_can_be_translated(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    soon, used = timezone.now() + timedelta(days=1), timezone.now()
    ending = {"expires_at": soon, "last_used_at": used, "created_at": soon - timedelta(days=60)}
    for user in User.objects.filter(username__in=["admin", "bob"]):
        AccessToken.objects.filter(pk=AccessToken.objects.create_token(user=user, name=MARK)[0].pk).update(**ending)
    pseudo_locale.speak(monkeypatch)
    due.write_to_people()
    assert ending_tokens.write_to_users() == 2

    read = [line for sent in mail.outbox for line in (sent.subject, *sent.body.splitlines())]
    assert len({tuple(sent.to) for sent in mail.outbox}) == 2
    assert pseudo_locale.unmarked([_OF_PROGRAMS.sub(" ", line) for line in read], said_by_programs()) == set()


def templates() -> set[str]:
    """The pages of our templates, and the parts of which they are made."""
    folders = [Path(mcp_django.__file__).parent / "templates", Path(oauth.__file__).parent / "templates"]
    return {str(file.relative_to(folder)) for folder in folders for file in folder.rglob("*.html")}


def url_names() -> set[str]:
    """The names of the URLs of our models in the admin, and of those beside the endpoint."""
    found = {str(one.name) for one in site.urls[0]}
    for model, model_admin in model_admins(admin.site).items():
        if is_ours(model):
            found |= {str(one.name) for one in model_admin.get_urls() if one.name}
    return found


def described(declared: Any) -> Iterator[str]:
    """What agents read of a tool, a prompt or a resource, and the names of its arguments."""
    if isinstance(declared, BaseTool):
        yield from (declared.get_title(), declared.get_description(None))
        schema = declared.get_input_schema(inventory.request_of(None, SCOPES))
        for name, argument in schema.get("properties", {}).items():
            yield from (name, str(argument.get("description", "")))
        return
    yield declared.title
    yield declared.get_description() if hasattr(declared, "get_description") else declared.description
    for one in getattr(declared, "arguments", ()):
        yield from (one.name, one.description)


def said_by_programs() -> set[str]:
    """Names, values, and what agents read."""
    found = {MARK, *NAMED, *QUOTED, *OF_DJANGO, *SCOPES}
    found |= {one.title for one in client_setups("http://testserver/mcp", "x", logs_in=True)}
    found |= {*User.objects.values_list("username", flat=True), *Group.objects.values_list("name", flat=True)}
    found |= {*AccessToken.objects.values_list("name", flat=True), *Tool.objects.values_list("name", flat=True)}
    found |= {*Call.objects.values_list("reason", flat=True), *Prompt.objects.values_list("name", flat=True)}
    for model in apps.get_models():
        meta = model._meta
        # Projects need not mark the names of their models.
        named = [meta.label_lower, meta.verbose_name, meta.verbose_name_plural, meta.app_config.verbose_name]
        for name in map(str, [*named, *(one.name for one in meta.get_fields())]):
            found |= {name, capfirst(name)}
    for row in Flight.objects.all():
        found |= {str(row), row.notes, row.status, str(row.get_status_display())}
    for declared in [*site.tools.values(), *site.prompts.values(), *site.resources.values()]:
        found |= {text for text in described(declared) if text}
    return found
