"""The pages of the console, with what people read there after mistakes and clicks."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import override_settings

from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.models import (
    AccessToken,
    Call,
    Change,
    Grant,
    Lending,
    Prompt,
    Restriction,
    TokenTemplate,
    Tool,
)
from mcp_django.models.tokens import NEVER
from mcp_django.oauth.models import Client as OAuthClient
from tests.bridge.writes.approving import FLIGHT
from tests.console.test_connections import named
from tests.console.test_rights import MARK
from tests.console.walking import CALL, CALLS, CHANGES, CONSOLE, OWN, TOKENS, Walk, lend
from tests.support.console import pages
from tests.support.data import make_staff
from tests.support.forms import Form

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
    own, lent = f"{TOKENS}{token.pk}/", Lending.objects.get(grant_id=None)
    good = {"user": admin_user.pk, "name": "x", "scopes": ["read"], "lifetime": "never", "nonce": new_nonce()}
    mistakes: list[dict[str, Any]] = [
        {}, {"name": ""}, {"user": ""}, {"scopes": []}, {"scopes": ["no"]}, {"nonce": "x"}, {"lifetime": "date"},
        {"lifetime": "date", "expires_at_0": "x", "expires_at_1": "x"},
        {"lifetime": "date", "expires_at_0": "2000-01-01", "expires_at_1": "00:00"},
        {"lifetime": "date", "expires_at_0": "9000-01-01", "expires_at_1": "00:00"},
        {"addresses": "no address"}, *({"limits-calls": one, "limits-calls-per": "min"} for one in ("x", "0", "-1")),
        *({"scopes": [one]} for one in SCOPES),
    ]  # fmt: skip
    for mistake in mistakes:
        walk.send(admin_user, f"{TOKENS}add/", {**good, **mistake} if mistake else {})
    for _ in range(2):
        walk.send(admin_user, f"{TOKENS}add/", good)
    for page in ("roll/", "revoke/", "sees/", "change/", "history/", "delete/", f"lent/{lent.pk}/end/"):
        walk.open(admin_user, f"{own}{page}")
    walk.send(admin_user, f"{own}roll/", {"grace": "x", "lifetime": "never"})
    walk.send(admin_user, f"{own}change/", {"name": "y", "scopes": ["read"], "lifetime": "never"})
    for page in (f"{TOKENS}words/", f"{own}words/"):
        walk.send(admin_user, page, {"user": admin_user.pk, "scopes": ["read", "actions", *SCOPES]})
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
        asked = urlencode({"user": "viewer", "scopes": scopes.split(","), "why": why}, doseq=True)
        walk.open(admin_user, f"{TOKENS}sees/?{asked}")
    for name in ("ops", "nobody", "no such user"):
        walk.open(admin_user, f"{TOKENS}sees/?user={name}&scopes=read&why={FLIGHT}")
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


def read_only(walk: Walk) -> None:
    """What is closed while no agent may change data."""
    tool = f"{CONSOLE}tool/{Tool.objects.get(name='update_record').pk}/"
    change = Change.objects.filter(user=walk.users.ops, state="waiting").earliest("pk")
    with override_settings(MCP={**settings.MCP, "READ_ONLY": True}):
        for page in (f"{CONSOLE}tool/", f"{tool}change/", f"{tool}try/", f"{CHANGES}{change.pk}/change/", CONSOLE):
            walk.open(walk.users.admin, page)
        walk.send(walk.users.admin, f"{CHANGES}{change.pk}/decide/", {"_approve": "1", "digest": "old"})


def pauses(walk: Walk) -> None:
    """What is stopped and goes on again, for everybody and for one, and what ends for good."""
    user, (token, app) = walk.users.admin, (walk.things[AccessToken], walk.things[OAuthClient])
    grant = Grant.objects.filter(user=walk.users.ops, client=app.key).latest("pk")
    client_page = f"/admin/mcp_django_oauth/client/{app.pk}/"
    urls = [f"{CONSOLE}restriction/pause/", f"{TOKENS}{token.pk}/pause/", f"{client_page}pause/",
            f"{CONSOLE}grant/{grant.pk}/pause/", f"{CONSOLE}restriction/pause/?user={walk.users.ops.pk}"]  # fmt: skip
    for url in urls:
        walk.open(user, url)
        for form in ({"_pause": "1", "reason": MARK}, {"_pause": "1"}):
            walk.send(user, url, form)
        for page in (CONSOLE, CHANGES, f"{TOKENS}{token.pk}/change/", f"{TOKENS}{token.pk}/history/", url):
            walk.open(user, page)
        walk.open(walk.users.ops, OWN)
        walk.send(user, url, {"_resume": "1"})
        walk.send(user, url, {"_resume": "1"})
    end = f"{CONSOLE}grant/{grant.pk}/lent/{lend(grant).pk}/end/"
    walk.open(user, end)
    for _ in range(2):
        walk.send(user, end)
    for url in (f"{client_page}block/", f"{CONSOLE}grant/{grant.pk}/revoke/"):
        walk.open(user, url)
        for _ in range(2):
            walk.send(user, url)
    clients = "/admin/mcp_django_oauth/client/"
    for url, key, action in [
        (clients, app.pk, "block"), (clients, app.pk, "unblock"), (f"{CONSOLE}grant/", grant.pk, "revoke"),
    ]:  # fmt: skip
        walk.send(user, url, {"action": action, "_selected_action": [key]})
    for url in (client_page, f"{CONSOLE}grant/{grant.pk}/"):
        walk.open(user, f"{url}history/")
        walk.open(user, f"{url}change/")
    templates = f"{CONSOLE}tokentemplate/"
    for form in ({}, {"name": "x", "scopes": ["no"], "days": "-1"}, {"name": "x", "scopes": ["read"], "days": "7"}):
        walk.send(user, f"{templates}add/", form)
    for one in TokenTemplate.objects.all():
        walk.open(user, f"{templates}{one.pk}/change/")
        walk.open(user, f"{TOKENS}add/?template={one.pk}")
    for key in ("analyst", "one-tool", "none"):
        walk.open(user, f"{TOKENS}add/?template={key}")


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
    for query in ("", "?days=1", "?days=7", "?by=agent", "?by=token", "?by=tool", "?period=hours"):
        walk.open(admin_user, f"{CONSOLE}{query}")
        walk.open(admin_user, f"{CALLS}totals/{query}")
        walk.open(admin_user, f"{CALLS}live/{query}")
    token, user = walk.things[AccessToken].pk, admin_user.pk
    walk.open(admin_user, f"{CALLS}live/?kind=call&outcome=refused&token={token}&user={user}&tool=find_records")
    walk.open(admin_user, f"{CALLS}{made.pk}/credential/")
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
    for user, one in ((ops, of_ops[0]), (admin_user, of_admin[0])):
        walk.open(user, f"{OWN}?change={one.pk}")
        walk.send(user, OWN, {"do": "decide", "change": one.pk, "_apply": "1", "digest": "old"})
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
