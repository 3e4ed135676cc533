"""On a page that asks for more, a person gives it for an hour, for eight hours, or for good."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from mcp_django.access import lending
from mcp_django.access.authentication import authenticate
from mcp_django.models import AccessToken, Grant, Lending, digest
from mcp_django.oauth import grants
from tests.access.lent import Clock, lent_in, stopped
from tests.access.test_grants import request_to
from tests.oauth.flow import (
    CLAUDE_CODE,
    ISSUER,
    LOCAL_REDIRECT,
    Person,
    Program,
    boxes_in,
    chosen_in,
    code_in,
    error_in,
    hidden_in,
)
from tests.support.data import Users

HOUR = 3_600
ASKED = "read actions"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _origin(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_ORIGIN": ISSUER}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped(monkeypatch)


@pytest.fixture
def program(users: Users) -> Program:
    """A program that reads, and that asks for actions now."""
    made = Program()
    made.log_in(users.ops)
    return made


def scopes_of(tokens: dict[str, Any]) -> set[str]:
    """What the access token may do now."""
    principal = authenticate(request_to(tokens["access_token"], host="testserver"), fresh=True)
    return set(principal.scopes)


def asked_more(program: Program, user: User, lasts: str, *given: str) -> dict[str, Any]:
    person, url = Person(user), program.url(scope=ASKED)
    answer = person.press(url, person.open(url), "allow", *(given or ("read", "actions")), lasts=lasts)
    tokens: dict[str, Any] = program.exchange(code_in(answer)).json()
    return tokens


@pytest.mark.parametrize(("lasts", "hours"), [("1", 1), ("8", 8)])
def test_what_is_added_is_given_for_the_time_that_the_person_chose(
    users: Users, program: Program, clock: Clock, lasts: str, hours: int
) -> None:
    tokens = asked_more(program, users.ops, lasts)

    grant, lent = Grant.objects.latest("pk"), Lending.objects.get()
    assert tokens["scope"] == "read actions"
    assert (grant.scopes, grant.declined) == (["read"], [])
    assert (lent.grant_id, lent.scopes, lent.user, lent.agreed_by, lent.until) == (
        grant.pk, ["actions"], users.ops, "ops", clock.now + timedelta(hours=hours),
    )  # fmt: skip
    found = []
    for seconds in (hours * HOUR - 0.001, 0.001):
        AccessToken.objects.update(expires_at=clock.now + timedelta(days=1))
        clock.move(seconds)
        found.append(scopes_of(tokens))
    assert found == [{"read", "actions"}, {"read"}]


def test_what_is_given_for_good_is_in_the_grant_as_it_always_was(users: Users, program: Program) -> None:
    asked_more(program, users.ops, "good")

    grant = Grant.objects.latest("pk")
    assert (grant.scopes, grant.lent, Lending.objects.count()) == (["read", "actions"], {}, 0)


def test_an_hour_is_chosen_at_first_and_nothing_is_chosen_where_nothing_is_added(
    users: Users, program: Program
) -> None:
    local = Program(CLAUDE_CODE, LOCAL_REDIRECT)

    shown = {
        "more": Person(users.ops).open(program.url(scope=ASKED)),
        "first": Person(users.admin).open(program.url(scope=ASKED)),
        "no more": Person(users.ops).open(program.url(prompt="consent")),
    }

    assert {name: chosen_in(page) for name, page in shown.items()} == {
        "more": {"lasts": "1"}, "first": {}, "no more": {},
    }  # fmt: skip
    # A program on the machine is asked about all it wants, and is given for a while what it did not have.
    local.log_in(users.ops)
    page = Person(users.ops).open(local.url(scope=ASKED))
    assert (boxes_in(page), chosen_in(page)) == ({"read": True, "actions": False}, {"lasts": "1"})


def test_refreshes_have_it_until_the_same_moment_and_not_after_it(users: Users, program: Program, clock: Clock) -> None:
    tokens = asked_more(program, users.ops, "1")
    clock.move(HOUR - 60)

    in_time = program.refresh(tokens["refresh_token"]).json()
    held = scopes_of(in_time)
    clock.move(60)
    late = program.refresh(in_time["refresh_token"], scope="read actions").json()

    assert (in_time["scope"], held) == ("read actions", {"read", "actions"})
    assert (late["scope"], scopes_of(in_time), scopes_of(late)) == ("read", {"read"}, {"read"})


def test_asking_in_a_refresh_for_nothing_but_what_has_ended(users: Users, program: Program, clock: Clock) -> None:
    tokens = asked_more(program, users.ops, "1")
    clock.move(HOUR)

    asked = {scope: program.refresh(tokens["refresh_token"], scope=scope) for scope in ("actions", "read write")}

    assert {scope: error_in(answer) for scope, answer in asked.items()} == dict.fromkeys(
        ("actions", "read write"), (400, "invalid_scope")
    )


def test_a_refresh_that_asks_for_less_has_a_token_without_it(users: Users, program: Program, clock: Clock) -> None:
    tokens = asked_more(program, users.ops, "1")

    narrow = program.refresh(tokens["refresh_token"], scope="read").json()

    assert (narrow["scope"], scopes_of(narrow)) == ("read", {"read"})
    assert scopes_of(program.refresh(narrow["refresh_token"]).json()) == {"read", "actions"}


@override_settings(MCP={"OAUTH_ORIGIN": ISSUER, "OAUTH_SCOPES": ["read", "actions"]})
def test_what_clients_may_get_no_more_is_not_in_a_refresh_either(users: Users, clock: Clock, settings: Any) -> None:
    program = Program()
    program.log_in(users.ops)
    tokens = asked_more(program, users.ops, "1")
    settings.MCP = {**settings.MCP, "OAUTH_SCOPES": ["read"]}

    refreshed = program.refresh(tokens["refresh_token"]).json()

    assert (refreshed["scope"], scopes_of(refreshed)) == ("read", {"read"})


# Attacks.


@pytest.mark.parametrize("lasts", ["1000", "", "0", "-1", "8.5", "1e9", "GOOD", "None"])
def test_posting_another_time_than_the_page_offers(users: Users, program: Program, clock: Clock, lasts: str) -> None:
    person, url = Person(users.ops), program.url(scope=ASKED)
    page = person.open(url)

    answer = person.press(url, page, "allow", "read", "actions", lasts=lasts)

    assert answer.status_code == 200
    assert "Choose for how long it may do what is new." in answer.content.decode()
    assert (Grant.objects.count(), Lending.objects.count()) == (1, 0)


def test_leaving_the_time_out_gives_nothing_for_good(users: Users, program: Program) -> None:
    person, url = Person(users.ops), program.url(scope=ASKED)
    form = {**hidden_in(person.open(url)), "decision": "allow", "scope": ["read", "actions"]}

    answer = person.browser.post(url, form)

    assert answer.status_code == 200
    assert (Grant.objects.count(), Lending.objects.count()) == (1, 0)


def test_sending_the_form_once_more_for_a_longer_time(users: Users, program: Program, clock: Clock) -> None:
    person, url = Person(users.ops), program.url(scope=ASKED)
    page, shown = person.open(url), clock.now

    ends = []
    for _ in range(2):
        clock.move(HOUR / 2 - 1)
        program.exchange(code_in(person.press(url, page, "allow", "read", "actions", lasts="1")))
        ends.append(Lending.objects.latest("pk").until)
    clock.move(2)
    late = person.press(url, page, "allow", "read", "actions", lasts="1")

    assert ends == [shown + timedelta(hours=1)] * 2
    assert late.status_code == 200


def test_choosing_a_time_where_none_is_offered_lends_nothing(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    url = program.url(scope=ASKED)

    program.exchange(code_in(person.press(url, person.open(url), "allow", "read", "actions", lasts="1")))

    assert (Grant.objects.get().scopes, Lending.objects.count()) == (["read", "actions"], 0)


def test_the_form_of_another_person_lends_nothing(users: Users, program: Program) -> None:
    url = program.url(scope=ASKED)
    page = Person(users.admin).open(url)
    person = Person(users.ops)
    own = hidden_in(person.open(url))

    answer = person.press(url, page, "allow", "read", "actions", csrfmiddlewaretoken=own["csrfmiddlewaretoken"])

    assert (answer.status_code, Lending.objects.count()) == (200, 0)


def test_redeeming_a_code_after_the_hour_for_which_it_gives_something(
    users: Users, program: Program, clock: Clock
) -> None:
    """The page was open for an hour all but some seconds."""
    person, url = Person(users.ops), program.url(scope=ASKED)
    page = person.open(url)
    clock.move(HOUR - 5)
    codes = [
        code_in(person.press(url, page, "allow", *given, lasts="1")) for given in (("read", "actions"), ("actions",))
    ]
    clock.move(5)

    whole, alone = (program.exchange(code) for code in codes)

    assert (whole.json()["scope"], scopes_of(whole.json())) == ("read", {"read"})
    assert error_in(alone) == (400, "invalid_grant")
    assert not Lending.objects.exists()


def test_ending_it_while_the_client_refreshes(users: Users, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = asked_more(program, users.ops, "8")
    note = grants._note_use

    def ended_meanwhile(found: Any) -> None:
        note(found)
        lending.end(Lending.objects.get(), "ops")

    # What was read of the grant before its row was locked is out of date by now.
    monkeypatch.setattr(grants, "_note_use", ended_meanwhile)

    refreshed = program.refresh(tokens["refresh_token"]).json()

    assert scopes_of(refreshed) == {"read"}


def test_using_a_code_twice_ends_what_it_lent(users: Users, program: Program) -> None:
    person, url = Person(users.ops), program.url(scope=ASKED)
    code = code_in(person.press(url, person.open(url), "allow", "read", "actions", lasts="8"))
    program.exchange(code)

    program.exchange(code)

    assert (Lending.objects.get().ended_by, Lending.objects.in_use().count()) == (Grant.Ended.CODE_REPLAYED, 0)


def test_ending_it_in_time_leaves_the_app_what_it_had(users: Users, program: Program) -> None:
    tokens = asked_more(program, users.ops, "8")

    lending.end(Lending.objects.get(), "ops")

    token = AccessToken.objects.get(hash=digest(tokens["access_token"]))
    assert (lent_in(token), lent_in(Grant.objects.latest("pk")), scopes_of(tokens)) == ({}, {}, {"read"})
