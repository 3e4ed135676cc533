"""What somebody tried who did not write the bridge: each of these told or did more than HTTP does."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler

from mcp_django import expose_form
from mcp_django.access import overrides
from mcp_django.access.authentication import principals
from mcp_django.bridge.sites import MCPSite
from mcp_django.models import AccessToken, Change, Tool
from mcp_django.test import CallRefused, MCPClient
from tests.api import attacked
from tests.api.agents import Agent, exposed
from tests.api.attacked import ACCESS_WORDS, GUARDED, HARMLESS, OTHER_WORDS, TEXTS, ValuesFilter, tenants
from tests.api.project.models import Event, Order
from tests.bridge.writes.clicking import Browser
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.pausing import pause
from tests.support.peers import Peers


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of this module beside its own."""
    settings.ROOT_URLCONF = attacked.__name__
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{attacked.__name__}.ViewGuardMiddleware"]
    return shop


def browser_of(user: Any) -> Client:
    browser = Client(SERVER_NAME="localhost", raise_request_exception=False)
    browser.force_login(user)
    return browser


# What is around the view.


@pytest.mark.every_case
@pytest.mark.parametrize("resource", GUARDED)
def test_a_record_that_http_refuses_is_not_watched(resource: str, own: SimpleNamespace, transactional_db: None) -> None:
    key = own.otto_order.pk
    assert browser_of(own.anna).get(f"/api/{resource}/{key}/").status_code == 403

    with MCPClient(own.anna, ["read"], site=exposed()) as client:
        watched = client.subscribe(f"api://{resource}/{key}", f"api://everybodys/{key}")

    assert watched == [f"api://everybodys/{key}"]


@pytest.mark.every_case
@pytest.mark.parametrize("resource", GUARDED)
def test_a_plan_tells_nothing_that_http_refuses(resource: str, own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    told = [
        agent.told(f"{resource}.partial_update", tool="change_api", params={"pk": key}, body={"total": "x"})
        for key in (own.otto_order.pk, 999_999)
    ]

    assert told[0] == told[1]
    assert told[0].startswith(f"You may not make this call of {resource}.partial_update.")
    # Control: it is told where HTTP tells it.
    key = {"pk": 999_999}
    assert "finds nothing" in agent.told("everybodys.partial_update", tool="change_api", params=key, body={"note": "x"})


def test_a_plan_does_not_say_what_exists_where_a_decorator_refuses(own: SimpleNamespace) -> None:
    body = {"number": own.otto_order.number, "total": "1"}

    assert "You may not" in Agent(exposed(), own.anna).told("decorated.create", tool="change_api", body=body)


def test_what_cannot_be_put_around_another_view_is_noted_and_nobody_approves_it(
    own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.bridge.api.changing.until_handler", lambda operation, then: None)

    plan = Agent(exposed(), own.anna).plan("everybodys.partial_update", params={"pk": 999_999}, body={"note": "x"})

    assert "Its view could not be asked whether it takes this." in plan["notes"]


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("operation", ["for-superusers.partial_update", "for-superusers.destroy", "decorated.destroy"])
def test_staff_whom_the_api_refuses_see_no_values_and_approve_nothing(
    operation: str, own: SimpleNamespace, transactional_db: None, declared: Declared, peers: Peers
) -> None:
    declared.expose("api/", consent={operation: "approve"})
    switch_on("change_api")
    Order.objects.filter(pk=own.otto_order.pk).update(note="NOTE-OF-OTTO")
    boss, bob = User.objects.create_superuser("boss"), User.objects.create_user("bob", is_staff=True)
    bob.user_permissions.add(Permission.objects.get(codename="approve_change"))
    User.objects.update(date_joined="2020-01-01T00:00Z")
    call = {"operation": operation, "params": {"pk": own.otto_order.pk}}
    call |= {"body": {"note": "NEW-NOTE"}} if "update" in operation else {}
    peer = peers(token_of(boss, "read", "write"))

    plan = peer.call("change_api", **call)["structuredContent"]
    asked = peer.call("change_api", **call, confirm=plan["confirm"])["structuredContent"]
    page = Browser(bob, host="localhost").page(asked["change"]).content.decode()

    assert 'name="_approve"' not in page
    assert "NOTE-OF-OTTO" not in page and "NEW-NOTE" not in page


def _hiding(error: Exception, context: Any) -> Any:
    return exception_handler(Http404() if isinstance(error, PermissionDenied) else error, context)


def test_a_plan_is_refused_in_the_words_of_the_project(own: SimpleNamespace, settings: Any) -> None:
    settings.REST_FRAMEWORK = {"EXCEPTION_HANDLER": f"{__name__}._hiding"}
    api_settings.reload()
    try:
        told = Agent(exposed(), own.anna).told(
            "by-initial.partial_update", tool="change_api", params={"pk": own.otto_order.pk}, body={"note": "x"}
        )
    finally:
        settings.REST_FRAMEWORK = {}
        api_settings.reload()

    assert "finds nothing there" in told


# What is offered.


def test_views_that_give_access_are_left_out(own: SimpleNamespace) -> None:
    offered = exposed().api.operations

    every = {word: f"x{number}.post" in offered for number, word in enumerate([*ACCESS_WORDS, *OTHER_WORDS])}

    assert every == dict.fromkeys(ACCESS_WORDS, False) | dict.fromkeys(OTHER_WORDS, True)


def test_users_and_logins_are_left_out_whatever_hides_them(own: SimpleNamespace) -> None:
    site = exposed()

    hidden = ("people", "members", "listed-people", "in", "obtain")
    offered = {name for name in site.api.operations if name.partition(".")[0] in hidden}

    assert offered == {"people.retrieve", "members.retrieve", "listed-people.retrieve"}
    assert str(site.api.left_out["members.destroy"]) == "it changes users, groups or permissions"
    assert str(site.api.left_out["obtain.post"]) == "it is a view of rest_framework.authtoken, so it may give access"
    # Control.
    assert {"inside.post", "orders-of-users.destroy"} <= site.api.operations.keys()


def test_guards_hold_for_operations_that_got_another_name(own: SimpleNamespace) -> None:
    site = exposed(consent={"versioned.delete": "approve"})
    names = [name for name in site.api.operations if "versioned" in name]

    needed = {site.api.operations[name].consent for name in names}

    assert len(names) == 2 and "versioned.delete" not in names and needed == {"approve"}
    assert [name for name in exposed(exclude=["versioned.*"]).api.operations if "versioned" in name] == []


def test_a_description_lists_no_values_of_rows_and_leaves_the_filters_as_they_are(own: SimpleNamespace) -> None:
    Order.objects.filter(pk=own.otto_order.pk).update(note="NOTE-OF-OTTO")
    agent, browser, address = (
        Agent(exposed(), own.anna),
        browser_of(own.anna),
        f"/api/filtered/?customer={own.otto_customer.pk}",
    )

    told = agent.client.call("describe_api", operation="filtered.list").structured

    assert "NOTE-OF-OTTO" not in str(told) and "api_key" not in str(told)
    assert {"note", "customer"} <= told["params"].keys()
    assert browser.get(address).status_code == 200
    assert not any("_field" in vars(one) for one in ValuesFilter.base_filters.values())


# Guesses and secrets.


@pytest.mark.parametrize(
    ("operation", "url"),
    [
        ("guessing.create", "guessing/"),
        ("guessing-by-method.create", "guessing-by-method/"),
        ("numbers.numbers", "ninja/numbers"),
    ],
)
def test_values_are_not_guessed_by_plans_where_the_view_counts_tries(
    operation: str, url: str, own: SimpleNamespace
) -> None:
    browser, agent = browser_of(own.anna), Agent(exposed(), own.anna)
    tried = [browser.post(f"/api/{url}", {"number": 1}, format="json").status_code for _ in range(4)]

    plan = agent.plan(operation, body={"number": 1})

    assert tried[:3] in ([400] * 3, [422] * 3) and tried[3] == 429
    assert "throttle of its own" in plan["notes"][0]


def test_rows_are_not_found_by_what_is_named_like_a_secret(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    told = [
        agent.told(f"{operation}.list", params={name: value})
        for operation, name, value in [
            ("filtered", "api_key", "x"),
            ("filtered", "owner__password__startswith", "pbkdf2"),
            ("filtered", "code", "x"),
            ("filtered", "sum_min", "5000"),
            ("searched", "search", "x"),
            ("searched", "ordering", "number,-api_key"),
        ]
    ]

    assert [one.partition(": ")[2] for one in told] == [
        "is named like a secret, which agents do not send.",
        "finds rows by owner__password__startswith, which is named like a secret.",
        "finds rows by api_key, which is named like a secret.",
        "finds rows by account_pin, which is named like a secret.",
        "finds rows by ^api_key, which is named like a secret.",
        "sorts rows by api_key, which is named like a secret.",
    ]
    # Control: what the project shows finds rows.
    assert Agent(exposed(show_secrets=["api_key"]), own.anna).get("searched.list", params={"search": "A-"})["rows"]
    assert not [one for one in Change.objects.values() if "api_key" in str(one)]


@pytest.mark.every_case
@pytest.mark.parametrize("name", list(TEXTS))
def test_texts_show_no_secret(name: str, own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    try:
        shown = json.dumps(agent.get(f"text-{name}.get"))
    except CallRefused as refused:
        shown = str(refused)

    assert "key-of-anna" not in shown
    # Control: the project can show it.
    shown = json.dumps(Agent(exposed(show_secrets=["api_key", "API_KEY"]), own.anna).get(f"text-{name}.get"))
    assert "key-of-anna" in shown


@pytest.mark.parametrize("name", list(HARMLESS))
def test_harmless_texts_are_shown(name: str, own: SimpleNamespace) -> None:
    assert Agent(exposed(), own.anna).get(f"harmless-{name}.get")["text"] == HARMLESS[name][1]


def test_a_cursor_holds_no_secret_of_a_link(own: SimpleNamespace) -> None:
    assert Agent(exposed(), own.anna).get("linking.get")["next_cursor"] == {"page": "2"}


# Changes.


def test_a_run_that_is_rolled_back_belongs_to_the_plan_alone(own: SimpleNamespace) -> None:
    Agent(exposed(preview={"mailing.create": "rollback"}), own.anna).change("mailing.create", body={"text": "x"})

    # One of the plan, and one of the change.
    assert len(mail.outbox) == 2


def test_nobody_knows_the_end_of_a_change_whose_answer_broke_off(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    plan = agent.plan("breaking.post", body={})

    ends = [
        agent.client.call(
            "change_api", raise_on_error=False, operation="breaking.post", body={}, confirm=plan["confirm"]
        )
        for _ in range(2)
    ]

    assert [one.structured["status"] for one in ends] == ["unknown"] * 2
    assert Event.objects.filter(text="streamed").count() == 1


def test_a_token_for_one_tenant_changes_no_other(own: SimpleNamespace) -> None:
    site = exposed(headers=["X-Tenant"])
    one, other = (Agent(site, own.anna, headers={"X-Tenant": name}) for name in ("one", "two"))
    plan = one.plan("of-tenant.post", body={})

    with pytest.raises(CallRefused):
        other.confirm(plan, body={})
    assert one.confirm(plan, body={}).structured["result"] == {"tenant": "one"}


# Forms.


@pytest.fixture
def note_site(own: SimpleNamespace) -> MCPSite:
    site = MCPSite("notes")
    expose_form("note-edit", site=site)
    return site


def test_whoever_may_write_alone_is_not_shown_what_a_form_has(note_site: MCPSite, own: SimpleNamespace) -> None:
    Order.objects.filter(pk=own.anna_order.pk).update(note="MARGIN")
    call: dict[str, Any] = {"params": {"pk": own.anna_order.pk}, "body": {"note": "new"}}

    blind = Agent(note_site, own.anna, "write").plan("note-edit.submit", **call)
    seeing = Agent(note_site, own.anna).plan("note-edit.submit", **call)

    assert "MARGIN" not in str(blind)
    assert seeing["diff"] == [{"field": "note", "before": "MARGIN", "after": "new"}]


def test_a_page_that_fails_is_not_taken_for_one_without_values(own: SimpleNamespace) -> None:
    site = MCPSite("notes")
    expose_form("broken-edit", site=site)

    call: dict[str, Any] = {"params": {"pk": own.anna_order.pk}, "body": {"note": "new"}}

    assert "failed (status 500)" in Agent(site, own.anna).told("broken-edit.submit", tool="change_api", **call)


def test_a_form_is_filled_in_below_the_middleware_and_keeps_moments_that_are_not_named(
    note_site: MCPSite, own: SimpleNamespace, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{attacked.__name__}.BerlinMiddleware"]
    before = Order.objects.get(pk=own.anna_order.pk).placed_at
    tenants.clear()

    Agent(note_site, own.anna).change("note-edit.submit", params={"pk": own.anna_order.pk}, body={"note": "new"})

    after = Order.objects.get(pk=own.anna_order.pk)
    assert after.note == "new" and abs((after.placed_at - before).total_seconds()) < 1
    assert set(tenants) == {"anna@localhost"}


# Between a plan and its confirmation.


def _read_only(settings: Any, token: AccessToken) -> None:
    settings.MCP = {**settings.MCP, "READ_ONLY": True}


def _switched_off(settings: Any, token: AccessToken) -> None:
    Tool.objects.filter(name="change_api").update(enabled=False)


def _without_scope(settings: Any, token: AccessToken) -> None:
    AccessToken.objects.filter(pk=token.pk).update(scopes=["read", "api:ticket:write"])


def _revoked(settings: Any, token: AccessToken) -> None:
    token.revoke()


def _inactive(settings: Any, token: AccessToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


def _paused(settings: Any, token: AccessToken) -> None:
    pause("user", token.user_id)


@pytest.mark.every_case
@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("taken", [_read_only, _switched_off, _without_scope, _revoked, _inactive, _paused])
def test_what_was_taken_away_since_the_plan_counts(
    taken: Any, shop: SimpleNamespace, transactional_db: None, declared_api: None, peers: Peers, settings: Any
) -> None:
    switch_on("change_api")
    token, secret = AccessToken.objects.create_token(user=shop.anna, scopes=["read", "write"])
    peer = peers(secret)
    call = {"operation": "order.partial_update", "params": {"pk": shop.anna_order.pk}, "body": {"note": "new"}}
    plan = peer.call("change_api", **call)["structuredContent"]

    taken(settings, token)
    principals.clear()
    overrides.forget()
    answer = peer.post(
        {
            "jsonrpc": "2.0",
            "id": 9,
            "method": "tools/call",
            "params": {"name": "change_api", "arguments": {**call, "confirm": plan["confirm"]}, "_meta": peer.meta()},
        },
        peer.modern_headers("tools/call", {"name": "change_api", "_meta": peer.meta()}),
    )

    assert Order.objects.get(pk=shop.anna_order.pk).note != "new"
    assert answer.status >= 400 or "error" in answer.json or answer.json["result"]["isError"]
