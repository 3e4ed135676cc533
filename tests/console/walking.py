"""A walk past every page of ours, with what people read after mistakes and clicks too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.template import Template
from django.test import Client
from django.test.signals import template_rendered

from demo_project.flights.models import Flight
from mcp_django.access.lending import Borrower, begin
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.models import (
    AccessToken,
    Grant,
    Lending,
    UsedNonce,
)
from mcp_django.oauth import fetching
from mcp_django.oauth.models import Client as OAuthClient
from mcp_django.protocol.errors import Throttled
from tests.bridge.writes.approving import FLIGHT, LONG_AGO, propose, staff
from tests.bridge.writes.conftest import Writer
from tests.console.visiting import client_of
from tests.oauth.flow import CLAUDE_CODE, LOCAL_REDIRECT, Person, Program
from tests.support.data import Users, switch_on
from tests.support.declared import Declared
from tests.support.pseudo_locale import Page

CONSOLE = "/admin/mcp_django/"
TOKENS, CALLS, CHANGES = f"{CONSOLE}accesstoken/", f"{CONSOLE}call/", f"{CONSOLE}change/"
OWN = "/mcp/connected"
CALL = {"model": FLIGHT, "filter": {"origin": "JFK"}, "limit": 2}


class Walk:
    """Opens pages, and keeps what was shown of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, users: Users, things: Mapping[Any, Any]) -> None:
        self._monkeypatch, self.users, self.things = monkeypatch, users, dict(things)
        #: What was opened, and the page.
        self.shown: list[tuple[str, str]] = []
        #: The templates of which they were made, and the names of their URLs.
        self.templates: set[str] = set()
        self.url_names: set[str] = set()
        self._browsers: dict[Any, Client] = {}
        template_rendered.connect(self._note_template)

    def close(self) -> None:
        template_rendered.disconnect(self._note_template)

    def _note_template(self, template: Template, **_: Any) -> None:
        self.templates.add(str(template.name))

    def _note_url(self, answer: Any) -> None:
        match = answer.wsgi_request.resolver_match
        self.url_names |= {str(match.url_name)} if match else set()

    def keep(self, what: str, answer: Any) -> Any:
        """Keep what was shown, where it is a page."""
        self._note_url(answer)
        while answer.status_code in (301, 302) and answer["Location"].startswith("/"):
            answer = answer.client.get(answer["Location"])
            self._note_url(answer)
        # What Django shows of errors, where a project has no template, has none.
        if answer["Content-Type"].startswith("text/html") and any(one.name for one in answer.templates):
            self.shown.append((what, answer.content.decode()))
        return answer

    def texts(self) -> dict[str, str]:
        """Each text that was read, with the first page that had it."""
        return {text: what for what, page in reversed(self.shown) for text in Page(page).texts}

    def browser(self, user: User) -> Client:
        if user.pk not in self._browsers:
            self._browsers[user.pk] = client_of(user)
        return self._browsers[user.pk]

    def open(self, user: User, url: str) -> Any:
        return self.keep(f"{user} {url}", self.browser(user).get(url))

    def send(self, user: User, url: str, form: Mapping[str, Any] | None = None) -> Any:
        form = form or {}
        return self.keep(f"{user} {url} {form}", self.browser(user).post(url, form))


def lend(holder: AccessToken | Grant) -> Lending:
    """What bob agrees to lend to a token or an app."""
    until, grant = holder.created_at.replace(year=2100), holder.pk if isinstance(holder, Grant) else None
    return begin(Borrower(str(holder.line), grant, holder.user), ["actions"], until, agreed_by="bob")


def set_up(walk: Walk, declared: Declared) -> None:
    """What agents do before anybody looks at it."""
    switch_on(*(tool.name for tool in WRITE_TOOLS), "flights_flight_mark_cancelled")
    users = walk.users
    User.objects.filter(pk__in=[users.admin.pk, users.ops.pk]).update(date_joined=LONG_AGO, email="a@example.com")
    token = walk.things[AccessToken]
    lend(token)
    consent = {"update": "approve", "delete": "ask", "create": "preview"}
    declared.model(Flight, consent=consent)
    staff("bob", email="bob@example.com")
    root, ops = Writer(users.admin), Writer(users.ops)
    for key in ("1", "4"):
        propose(ops, key=key, notes="fog", status="cancelled")
    root.confirmed("delete_record", model=FLIGHT, ids=["2", "3"])
    root.confirmed("delete_record", model=FLIGHT, ids=["5"])
    consent["update"] = "preview"
    root.confirmed("update_record", model=FLIGHT, id="7", values={"notes": "ice"})
    root.confirmed("update_records", model=FLIGHT, ids=["8", "9"], values={"notes": "ice"})
    Program().log_in(users.ops, asks="read actions")
    walk.things[OAuthClient] = OAuthClient.objects.get()


def own_pages(walk: Walk) -> None:
    """What is there for everybody: the page at the endpoint, and one's own apps and tokens."""
    users = walk.users
    browser = {"Accept": "text/html"}
    for user in (users.admin, users.ops, None):
        client = Client() if user is None else client_of(user)
        walk.keep(f"{user} /mcp", client.get("/mcp", headers=browser))
        walk.keep(f"{user} /mcp/", client.get("/mcp/", headers=browser))
    for user in (users.admin, users.ops, users.viewer):
        walk.open(user, OWN)
    UsedNonce.objects.all().delete()
    good = {"do": "make", "name": "laptop", "scopes": ["read"], "lifetime": "30", "nonce": new_nonce()}
    for mistake in ({"name": ""}, {"scopes": []}, {"scopes": ["no"]}, {"lifetime": "x"}, {"nonce": "x"}, {}, {}):
        walk.send(users.admin, OWN, {**good, **mistake})
    plain = AccessToken.objects.create_token(user=users.ops, name="x")[1]
    app = Program().log_in(users.ops, asks="read")
    token = AccessToken.objects.filter(user=users.ops, grant=None).latest("pk")
    grant = AccessToken.objects.filter(user=users.ops, grant__isnull=False).latest("pk").grant
    lent = lend(token)
    walk.open(users.ops, OWN)
    for form in (
        {"do": "test", "token": plain}, {"do": "test", "token": app["access_token"]},
        {"do": "end_lending", "key": lent.pk}, {"do": "revoke", "key": token.pk},
        {"do": "disconnect", "client": grant.client, "resource": grant.resource},
    ):  # fmt: skip
        for _ in range(2):
            walk.send(users.ops, OWN, form)


def logging_in(walk: Walk) -> None:
    """The pages for clients that log in."""
    person = Person(walk.users.ops)
    walk._monkeypatch.setattr(fetching, "fetch", Mock(side_effect=fetching.FetchError("gone")))
    urls = [
        Program().url(scope="read actions write tool:flights_flight_mark_cancelled"), Program().url(prompt="login"),
        Program(CLAUDE_CODE, LOCAL_REDIRECT).url(), Program("x").url(), Program(redirect_uri="https://evil.example/").url(),
        Program("https://gone.example/c", "https://gone.example/back").url(), "/mcp/authorize",
        Program(CLAUDE_CODE, "http://localhost:1/x").url(response_type="token"), Program().url(response_type="token"),
    ]  # fmt: skip
    for url in urls:
        walk.keep(url, person.browser.get(url, headers={"Sec-Fetch-Site": "same-origin"}))
    for scopes in ("read", "read actions"):
        url = Program().url(scope=scopes)
        walk.keep(f"nothing chosen of {scopes}", person.press(url, person.open(url), "allow"))
    # What it has already is asked for again, with more.
    url = Program().url(scope="read actions", prompt="consent")
    page = person.allow(Program().url(scope="read"), "read") and person.open(url)
    walk.keep("more than before", page)
    walk.keep("for no time", person.press(url, page, "allow", "read", "actions", lasts="no"))
    walk._monkeypatch.setattr("mcp_django.oauth.authorize.may_connect", lambda user: False)
    walk.keep("not allowed", person.open(url))
    throttled = Throttled("Slow down.", 1, "address", "logins")
    walk._monkeypatch.setattr("mcp_django.oauth.authorize.throttling.admit", Mock(side_effect=throttled))
    walk.keep("throttled", person.open(url))
