"""A walk past every page of ours, with what people read after mistakes and clicks too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.template import Template
from django.test import Client
from django.test.signals import template_rendered

from demo_project.flights.models import Flight
from mcp_django.access.lending import Borrower, begin
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.models import AccessToken, Call, Change, Lending, Prompt, Restriction, Tool, UsedNonce
from mcp_django.models.tokens import NEVER
from mcp_django.oauth import fetching
from mcp_django.oauth.models import Client as OAuthClient
from mcp_django.protocol.errors import Throttled
from tests.bridge.writes.approving import FLIGHT, LONG_AGO, propose, staff
from tests.bridge.writes.conftest import Writer
from tests.console.test_connections import named
from tests.console.visiting import client_of
from tests.oauth.flow import CLAUDE_CODE, LOCAL_REDIRECT, Person, Program
from tests.support.console import pages
from tests.support.data import Users, make_staff, switch_on
from tests.support.declared import Declared
from tests.support.forms import Form
from tests.support.pseudo_locale import Page

CONSOLE = "/admin/mcp_django/"
TOKENS, CALLS, CHANGES = f"{CONSOLE}accesstoken/", f"{CONSOLE}call/", f"{CONSOLE}change/"
OWN = "/mcp/connected"
CALL = {"model": FLIGHT, "filter": {"origin": "JFK"}, "limit": 2}
#: What somebody may ask why it is not seen, with the scopes with which the question is asked.
QUESTIONS = [
    ("read", "nothing.at.all"), ("read", FLIGHT), ("actions", FLIGHT), ("read", "auth.user"),
    ("read", f"{FLIGHT}.notes"),
    ("read", "db://flights/flight/1"), ("read", "db://flights/flight/1000"), ("read", "create_record"),
    ("read,actions,write", "flights_flight_mark_cancelled"), ("read", "prompt:about"), ("read,actions", "work"),
    ("read", "flights.plane.seats"), ("read", "sessions.session"), ("read", "mcp_django.accesstoken"),
]  # fmt: skip
#: Single scopes that grant nothing.
SCOPES = ["no", "model:no.model:read", "tool:no_tool", "model:flights.flights:read"]
#: Templates that a prompt cannot have.
TEMPLATES = ["{% load x %}", "{{ a.b }}", "{{ a-b }}", "{{ a|upper|lower|title|upper|lower|title }}", "{% if %}", "{{"]


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


def lend(token: AccessToken) -> Lending:
    """What bob agrees to lend to a token."""
    until = token.created_at.replace(year=2100)
    return begin(Borrower(str(token.line), None, token.user), ["actions"], until, agreed_by="bob")


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


def lists_and_forms(walk: Walk) -> None:
    """What the admin has of each model of ours, for a superuser and with nothing found."""
    keys = {model: row.pk for model, row in walk.things.items()}
    for model, url in pages(admin.site, keys):
        walk.open(walk.users.admin, url)
        if url.endswith(f"/{model._meta.model_name if model else None}/"):
            for query in ("?q=nothing", "?o=1", "?e=1"):
                walk.open(walk.users.admin, f"{url}{query}")
    changed = [f"{model._meta.app_label}/{model._meta.model_name}/{key}" for model, key in keys.items()]
    for one in changed:
        walk.open(walk.users.admin, f"/admin/{one}/delete/")
    walk.open(make_staff("nobody"), CHANGES)
    viewer = make_staff("reader", *(f"{one._meta.app_label}.view_{one._meta.model_name}" for one in keys))
    for model, url in pages(admin.site, keys):
        if model is not Change:
            walk.open(viewer, url)


def tokens(walk: Walk) -> None:
    admin_user, token = walk.users.admin, walk.things[AccessToken]
    own, lent = f"{TOKENS}{token.pk}/", Lending.objects.get()
    good = {"user": admin_user.pk, "name": "x", "scopes": ["read"], "lifetime": "never", "nonce": new_nonce()}
    mistakes: list[dict[str, Any]] = [
        {}, {"name": ""}, {"user": ""}, {"scopes": []}, {"scopes": ["no"]}, {"nonce": "x"}, {"lifetime": "date"},
        {"lifetime": "date", "expires_at_0": "x", "expires_at_1": "x"},
        {"lifetime": "date", "expires_at_0": "2000-01-01", "expires_at_1": "00:00"},
        {"lifetime": "date", "expires_at_0": "9000-01-01", "expires_at_1": "00:00"},
        {"addresses": "no address"}, {"limits": "{"}, {"limits": '{"calls": "no"}'}, {"limits": '{"no": "1/min"}'},
        {"limits": '{"calls": "0/min"}'}, {"limits": "[]"},
        *({"single_scopes": one} for one in SCOPES),
    ]  # fmt: skip
    for mistake in mistakes:
        walk.send(admin_user, f"{TOKENS}add/", {**good, **mistake} if mistake else {})
    for _ in range(2):
        walk.send(admin_user, f"{TOKENS}add/", good)
    for page in ("roll/", "revoke/", "sees/", "change/", "history/", "delete/", f"lent/{lent.pk}/end/"):
        walk.open(admin_user, f"{own}{page}")
    walk.send(admin_user, f"{own}roll/", {"grace": "x", "lifetime": "never"})
    walk.send(admin_user, f"{own}change/", {"name": "y", "scopes": ["read"], "lifetime": "never"})
    walk.send(admin_user, f"{TOKENS}test/", {"token": "mcpdj_no"})
    walk.send(admin_user, f"{TOKENS}test/", {"token": AccessToken.objects.create_token(user=admin_user, name="x")[1]})
    for _ in range(2):
        walk.send(admin_user, f"{own}lent/{lent.pk}/end/")
    rolled = AccessToken.objects.create_token(user=admin_user, name="x", expires_at=NEVER)[0]
    walk.send(admin_user, f"{TOKENS}{rolled.pk}/roll/", {"grace": "0", "lifetime": "30", "nonce": new_nonce()})
    for _ in range(2):
        walk.send(admin_user, f"{own}revoke/")
    everything = [*AccessToken.objects.values_list("pk", flat=True)]
    walk.send(admin_user, TOKENS, {"action": "revoke", "_selected_action": everything})
    for page in ("history/", "change/", "sees/"):
        walk.open(admin_user, f"{own}{page}")
    for scopes, why in QUESTIONS:
        for name in ("ops", "viewer", "nobody", "no such user"):
            walk.open(admin_user, f"{TOKENS}sees/?user={name}&scopes={scopes}&why={why}")
    walk.open(admin_user, f"{TOKENS}sees/?user=admin&scopes=read&model=flights.flight")
    walk.open(admin_user, f"{TOKENS}sees/?scopes=no-scope&site=no")


def tools_and_models(walk: Walk) -> None:
    admin_user = walk.users.admin
    rows = {row.name: f"{CONSOLE}tool/{row.pk}/" for row in Tool.objects.all()}
    of_prompt = walk.things[Prompt].pk
    for name in ("find_records", "aggregate_records", "update_record", "flights_flight_mark_cancelled", "get_record"):
        for page in ("change/", "try/", "history/"):
            walk.open(admin_user, f"{rows[name]}{page}")
        for form in ({}, {"try-arg-model": FLIGHT}, {"try-arg-filter": "{", "try-arg-limit": "x"}):
            walk.send(admin_user, f"{rows[name]}try/", form)
    walk.send(admin_user, f"{rows['find_records']}change/", {"enabled": "on", "description": "y"})
    walk.open(admin_user, f"{rows['find_records']}change/")
    walk.send(admin_user, f"{rows['find_records']}change/", {"enabled": "on", "_declared": "1"})
    save = f"{rows['find_records']}save/"
    for call, more in [
        (CALL, {"name": ""}), (CALL, {"name": "find_records"}), (CALL, {"name": "not a name"}),
        (CALL, {"name-0": "cursor"}), (CALL, {"name-0": "a b"}), (CALL, {"name-0": "a", "name-1": "a"}),
        ({"model": FLIGHT}, {"name": "none"}), ({"model": "no.model"}, {}),
        ({"model": FLIGHT, "filter": {"no": 1}}, {}),
        (CALL, {}), ({}, {}), ({"model": FLIGHT, "filter": {"id__in": list(range(300))}}, {}),
    ]:  # fmt: skip
        given = {"call": json.dumps(call), "name": "saved", "description": "y", **more}
        walk.send(admin_user, save, {"save-call": given["call"]})
        walk.send(admin_user, save, {f"save-{name}": value for name, value in given.items()} | {"save": "1"})
    for action in ("disable", "enable"):
        for model, keys in ((Tool, [*Tool.objects.values_list("pk", flat=True)][:3]), (Prompt, [of_prompt])):
            url = f"{CONSOLE}{model._meta.model_name}/"
            walk.send(admin_user, url, {"action": action, "_selected_action": keys[:1]})
            walk.send(admin_user, url, {"action": action, "_selected_action": keys})
            walk.send(admin_user, url, {"action": "", "_selected_action": keys})
    walk.send(admin_user, f"{CONSOLE}prompt/", {"action": "delete_selected", "_selected_action": [of_prompt]})
    for text in TEMPLATES:
        walk.send(admin_user, f"{CONSOLE}prompt/add/", {"site": "mcp", "name": "a b", "text": text})
    walk.send(admin_user, f"{CONSOLE}prompt/add/", {"site": "no", "name": walk.things[Prompt].name, "text": ""})
    walk.send(admin_user, f"{CONSOLE}prompt/add/", {"site": "mcp", "name": "new", "text": "{{ a }}", "enabled": "on"})
    made = Prompt.objects.get(name="new").pk
    for form in ({}, {"try-arg-a": "value"}):
        walk.send(admin_user, f"{CONSOLE}prompt/{made}/preview/", form)
    for one in Prompt.objects.all():
        for page in ("change/", "preview/"):
            walk.open(admin_user, f"{CONSOLE}prompt/{one.pk}/{page}")
    models = f"{CONSOLE}restriction/"
    for url in (f"{models}of/{FLIGHT}/", f"{models}of/flights.weather/", f"{models}?q=flight"):
        walk.open(admin_user, url)
    walk.send(admin_user, models, {"on": []})
    walk.send(admin_user, models, {"on": [FLIGHT], "off": [FLIGHT]})
    walk.send(admin_user, f"{models}of/{FLIGHT}/", {"on": ["number"]})
    for one in Restriction.objects.all():
        walk.open(admin_user, f"{models}{one.pk}/history/")
        walk.open(admin_user, f"{models}{one.pk}/change/")
    Restriction.objects.all().delete()


def activity(walk: Walk) -> None:
    admin_user = walk.users.admin
    for kind in Call.Kind:
        for outcome in Call.Outcome:
            made = Call.objects.create(
                at=walk.things[Call].at, site="mcp", kind=kind, outcome=outcome, name="find_records", count=2,
                token_id=walk.things[AccessToken].pk, user_id=str(admin_user.pk), user_name="admin",
            )  # fmt: skip
        walk.open(admin_user, f"{CALLS}{made.pk}/change/")
    for query in ("", "?day=today", "?day=2020-01-01", "?day=x", "?outcome=refused", "?token=1&user=1&tool=x&model=y"):
        walk.open(admin_user, f"{CALLS}{query}")
    walk.open(admin_user, CONSOLE)
    page = walk.open(admin_user, f"{CALLS}connections/").content.decode()
    for kind, one in zip(("session", "task"), named(page)[-2:], strict=True):
        walk.send(admin_user, f"{CALLS}connections/end/", {"what": kind, "named": one})
    walk.send(admin_user, f"{CALLS}connections/end/", {"what": "task", "named": "no"})


def changes(walk: Walk) -> None:
    admin_user, ops = walk.users.admin, walk.users.ops
    of_ops = list(Change.objects.filter(user=ops, state="waiting").order_by("pk"))
    of_admin = list(Change.objects.filter(user=admin_user, state="waiting").order_by("pk"))
    applied = Change.objects.filter(state="applied", model=FLIGHT)
    for user in (admin_user, ops, User.objects.get(username="bob")):
        for query in ("", "?show=mine", "?show=agents", "?show=decided", f"?alike={of_ops[0].pk}"):
            walk.open(user, f"{CHANGES}{query}")
        for one in Change.objects.all():
            for page in ("change/", "reject-all/", "undo/", "undo/?since=1"):
                walk.open(user, f"{CHANGES}{one.pk}/{page}")
        for action in ("approve_several", "reject_several"):
            for some in (of_ops, of_admin, applied):
                walk.send(user, CHANGES, {"action": action, "_selected_action": [one.pk for one in some]})
    decide = {"apply": of_admin[0], "approve": of_ops[0], "reject": of_admin[1]}
    for decision, one in decide.items():
        url = f"{CHANGES}{one.pk}/decide/"
        walk.send(admin_user, url, {f"_{decision}": "1", "digest": "old"})
        if decision != "reject":
            digest = Form(walk.open(admin_user, f"{CHANGES}{one.pk}/change/").content.decode()).hidden.get("digest", "")
            walk.send(admin_user, url, {f"_{decision}": "1", "digest": digest})
        walk.send(admin_user, url, {f"_{decision}": "1"})
        walk.open(admin_user, f"{CHANGES}{one.pk}/change/")
    for one in applied:
        walk.send(admin_user, f"{CHANGES}{one.pk}/undo/", {"digest": "old"})
    walk.send(ops, f"{CHANGES}{of_ops[1].pk}/decide/", {"_reject": "1"})
    walk.open(ops, f"{CHANGES}{of_ops[1].pk}/change/")
    walk.send(admin_user, f"{CHANGES}{of_ops[1].pk}/reject-all/", {"change": [one.pk for one in of_ops]})


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
    walk._monkeypatch.setattr("mcp_django.oauth.people.admit", Mock(side_effect=throttled))
    walk.keep("throttled", person.open(url))


STEPS = (lists_and_forms, tokens, tools_and_models, activity, changes, own_pages, logging_in)
