"""A person logs a program in, from the first 401 to a call, a refresh and the end."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.apps import apps
from django.test import Client
from django.utils import translation
from django.utils.text import capfirst

from mcp_django import site
from mcp_django.models import AccessToken, Call, Grant
from mcp_django.oauth import fetching
from mcp_django.oauth.models import AuthorizationCode, RefreshToken
from tests.oauth.flow import (
    CLAUDE,
    CLAUDE_CODE,
    CLAUDE_REDIRECT,
    ISSUER,
    LOCAL_REDIRECT,
    RESOURCE,
    Person,
    Program,
    boxes_in,
    code_in,
    error_in,
    hidden_in,
    params_in,
    post,
)  # fmt: skip
from tests.support.data import Users, switch_on

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def call(token: str = "", path: str = "/mcp", **headers: str) -> Any:
    headers = {"Accept": "application/json, text/event-stream", **headers}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return Client().post(path, PING, content_type="application/json", headers=headers)


@pytest.mark.every_database
def test_a_person_logs_a_program_in(users: Users) -> None:
    refused = call()
    assert refused.status_code == 401
    assert refused["WWW-Authenticate"] == (
        f'Bearer realm="mcp", resource_metadata="{ISSUER}/.well-known/oauth-protected-resource/mcp", '
        'scope="read actions"'
    )
    resource = Client().get("/.well-known/oauth-protected-resource/mcp").json()
    assert (resource["resource"], resource["authorization_servers"]) == (RESOURCE, [ISSUER])
    server = Client().get("/.well-known/oauth-authorization-server").json()
    assert server["authorization_endpoint"] == f"{ISSUER}/mcp/authorize"

    program, person = Program(), Person(users.ops)
    url = program.url(scope="read actions")
    page = person.open(url)
    assert page.status_code == 200
    assert boxes_in(page) == {"read": True, "actions": False}
    answer = person.press(url, page, "allow", "read")
    params = params_in(answer)
    assert answer["Location"].startswith(CLAUDE_REDIRECT + "?")
    assert (params["state"], params["iss"]) == ("a state", ISSUER)

    tokens = program.exchange(params["code"])

    assert tokens.status_code == 200
    assert tokens["Cache-Control"] == "no-store"
    found = tokens.json()
    assert (found["token_type"], found["expires_in"], found["scope"]) == ("Bearer", 3600, "read")
    assert call(found["access_token"]).status_code != 401
    grant = Grant.objects.get()
    assert (grant.user, grant.client, grant.client_name) == (users.ops, CLAUDE, "Claude")
    assert (grant.scopes, grant.declined, grant.resource) == (["read"], ["actions"], RESOURCE)
    token = AccessToken.objects.get(grant=grant)
    assert (token.resource, token.line, token.client) == (RESOURCE, grant.line, CLAUDE)


def test_nothing_is_stored_that_lets_anybody_in(users: Users) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    tokens = program.exchange(code).json()

    stored = str([
        list(model.objects.values_list()) for model in (AccessToken, RefreshToken, AuthorizationCode, Grant, Call)
    ])  # fmt: skip

    for secret in (code, tokens["access_token"], tokens["refresh_token"], program.verifier):
        assert secret not in stored


def test_a_refresh_gives_new_tokens_of_the_same_grant_and_a_revocation_ends_them_all(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)

    second = program.refresh(first["refresh_token"]).json()
    assert {second["access_token"], second["refresh_token"]}.isdisjoint(first.values())
    # A refresh revokes nothing.
    assert [call(one["access_token"]).status_code for one in (first, second)] == [200, 200]
    assert Grant.objects.count() == 1
    answer = post("/mcp/revoke", {"token": second["access_token"], "client_id": CLAUDE})

    assert (answer.status_code, answer.content) == (200, b"")
    assert [call(one["access_token"]).status_code for one in (first, second)] == [401, 401]
    assert error_in(program.refresh(second["refresh_token"])) == (400, "invalid_grant")
    assert Grant.objects.get().ended_by == "revoked"


def test_the_first_answer_says_how_to_get_in(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Log in as WWW-Authenticate says" in call().json()["error"]["message"]

    monkeypatch.setattr(apps, "is_installed", lambda name: name != "mcp_django.oauth")

    refused = call()
    assert "An administrator makes tokens" in refused.json()["error"]["message"]
    assert refused["WWW-Authenticate"] == 'Bearer realm="mcp"'


class StrictPolicy:
    """Middleware of a project that sets a policy where there is none, as Django's and django-csp do."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", "default-src 'none'; form-action 'self'")
        return response


def test_a_policy_of_the_project_does_not_keep_the_answer_from_the_client(users: Users, settings: Any) -> None:
    settings.MIDDLEWARE = [f"{__name__}.StrictPolicy", *settings.MIDDLEWARE]
    program, person = Program(), Person(users.ops)

    page = person.open(program.url())

    assert "form-action" not in page["Content-Security-Policy"]
    assert "form-action" in person.open("/admin/")["Content-Security-Policy"]


def test_the_template_of_the_project_gives_the_pages_its_look(users: Users, settings: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mcp_django" / "oauth"
    folder.mkdir(parents=True)
    (folder / "base.html").write_text("<header>Our shop</header>{% block content %}{% endblock %}")
    [engine] = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [tmp_path]}]

    page = Person(users.ops).open(Program().url()).content.decode()

    assert page.startswith("<header>Our shop</header>")
    assert "claude.ai" in page


def test_the_pages_are_translated(users: Users, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]

    # The middleware leaves its language behind in this thread.
    with translation.override("en-us"):
        page = Person(users.ops).browser.get(Program().url(), headers={"Accept-Language": "ar"}).content.decode()

    assert '<html lang="ar" dir="rtl">' in page


class Texts(HTMLParser):
    """What a person reads on a page, a text for each element that stands by itself. Other languages are left out."""

    _PARTS = ("a", "b", "bdi", "small", "span", "strong", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found = [""]
        self._other = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._PARTS:
            self.found.append("")
        if tag != "html" and "lang" in dict(attrs):
            self._other = tag

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._PARTS:
            self.found.append("")
        if tag == self._other:
            self._other = ""

    def handle_data(self, data: str) -> None:
        if not self._other:
            self.found[-1] += data


@pytest.mark.every_case
@pytest.mark.parametrize("url", [
    Program().url(scope="read actions"), Program(CLAUDE_CODE, LOCAL_REDIRECT).url(),
    Program("x").url(), Program(redirect_uri="https://evil.example/").url(), "/mcp/authorize",
    Program("https://gone.example/c", "https://gone.example/back").url(),
], ids=["consent", "local", "unknown", "elsewhere", "nobody", "gone"])  # fmt: skip
def test_whatever_a_person_reads_can_be_translated(users: Users, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    Program().log_in(users.ops, asks="read actions")
    monkeypatch.setattr(fetching, "fetch", Mock(side_effect=fetching.FetchError("gone")))
    real = translation._trans.gettext  # type: ignore[attr-defined]
    monkeypatch.setattr(translation._trans, "gettext", lambda text: f"«{real(text)}»")  # type: ignore[attr-defined]
    plural = translation._trans.ngettext  # type: ignore[attr-defined]
    monkeypatch.setattr(  # type: ignore[attr-defined]
        translation._trans, "ngettext", lambda one, many, count: f"«{plural(one, many, count)}»"
    )

    page = Person(users.ops).browser.get(url, headers={"Sec-Fetch-Site": "same-origin"}).content.decode()

    names = {str(capfirst(one.opts.verbose_name_plural)) for one in site.models.values()}
    names |= {tool.get_title() for tool in site.tools.values()}
    names |= {one.title for one in [*site.resources.values(), *site.prompts.values()]}
    read = {text.strip() for text in Texts(page).found}
    assert not {text for text in read if "«" not in text} - {"", "claude.ai", *names}


def test_connected_apps_are_listed_and_disconnected(users: Users) -> None:
    tokens = Program().log_in(users.ops)
    Program(CLAUDE_CODE, LOCAL_REDIRECT).log_in(users.ops)
    Program().log_in(users.admin)
    person = Person(users.ops)

    page = person.open("/mcp/connected")
    assert page.content.decode().count('name="resource"') == 2
    theirs = person.browser.post("/mcp/connected", {**hidden_in(page), "client": CLAUDE, "resource": RESOURCE})

    assert theirs.status_code == 302
    assert call(tokens["access_token"]).status_code == 401
    assert person.open("/mcp/connected").content.decode().count('name="resource"') == 1
    assert Grant.objects.get(user=users.admin).is_current()
    assert Person().open("/mcp/connected")["Location"] == "/admin/login/?next=%2Fmcp%2Fconnected"
    forged = person.browser.post("/mcp/connected", {"client": CLAUDE_CODE, "resource": RESOURCE})
    assert forged.status_code == 403, "without its token"


def test_a_scope_that_is_none_any_more_is_not_described(users: Users) -> None:
    Program().log_in(users.ops)
    Grant.objects.update(scopes=["gone", "read"])

    page = Person(users.ops).open("/mcp/connected").content.decode()

    words = r"<li>Read \d models; Use 2 tools that read; Use 3 resources and prompts</li>"
    assert "gone" not in page and re.search(words, page)


def test_a_scope_is_said_in_words_with_numbers(users: Users) -> None:
    switch_on("update_record")
    expected = {
        "read actions": ["Read 6 models", "Run 1 action"],
        "model:flights.flight:read": ["Read 1 model: Flights"],
        "tool:flights_flight_mark_cancelled": ["Run 1 action: Mark selected flights as cancelled"],
        "read write": ["Read 6 models", "Change records of 2 models"],
        # What may not be read is not written either.
        "model:flights.flight:write": ["Nothing that you may do at present (model:flights.flight:write)"],
        "model:flights.flight:read model:flights.flight:write": [
            "Read 1 model: Flights",
            "Change records of 1 model: Flights",
        ],
        "tool:update_record": ["Update a record: Change records of 2 models"],
        "tool:find_records": ["Find records: Read 6 models"],
    }

    pages = {asked: Person(users.ops).open(Program().url(scope=asked)).content.decode() for asked in expected}

    assert {asked: [label for label in expected[asked] if label in page] for asked, page in pages.items()} == expected
