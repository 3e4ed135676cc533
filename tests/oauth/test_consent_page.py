"""What a person reads before an app is connected, and where our pages may be shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from mcp_django.models import Grant
from mcp_django.oauth import documents
from tests.console.visiting import READ_ONLY
from tests.oauth.flow import LOCAL_REDIRECT, Person, Program, boxes_in, error_in, params_in
from tests.oauth.test_attacks import registered
from tests.oauth.test_flow import Texts
from tests.support.data import Users

HOSTED = Program(redirect_uri="https://claude.com/api/mcp/auth_callback")


def texts(page: Any) -> list[str]:
    """What a person reads, each text in one line."""
    found = (" ".join(text.split()) for text in Texts(page.content.decode()).found)
    return [text for text in found if text]


def between(first: str, last: str, found: list[str]) -> list[str]:
    return found[found.index(first) + 1 : found.index(last)]


LIMITS = "It never gets more than you may do yourself. You can disconnect it at any time under My agent."


def test_the_page_names_the_client_the_user_and_where_the_answer_goes(users: Users) -> None:
    found = texts(Person(users.ops).open(HOSTED.url()))

    assert between("Connect an app to testserver", "It may", found) == [
        "claude.ai It calls itself “Claude”.", "It wants to act on this site as you, ops.",
    ]  # fmt: skip
    assert between(LIMITS, "Connect", found) == ["You will be sent to claude.com."]


def test_a_program_that_registered_itself_has_no_host_and_goes_on_only_if_its_person_began(users: Users) -> None:
    program = Program(registered(LOCAL_REDIRECT, client_name="My program"), LOCAL_REDIRECT)

    found = texts(Person(users.ops).open(program.url()))

    assert "An app that has registered itself It calls itself “My program”." in found
    assert between(LIMITS, "Connect", found) == [
        "The answer goes to a program on your own device (localhost:51234). Continue only if you have started this "
        "login yourself, a moment ago."
    ]


USES = "Use 2 tools that read; Use 3 resources and prompts"
OTHERS = [
    "Delay statistics", "Export selected flights as CSV", "About this data", "Departures of a day",
    "Report on punctuality",
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), [
    ("ops", [
        f"Read 6 models; {USES}", "Which", "Airlines", "Airports", "Disruptions", "Flights", "Planes",
        "Weather observations", *OTHERS,
        "Run 1 action: Mark selected flights as cancelled", "This can change data.", "Which",
        "Mark selected flights as cancelled",
    ]),
    ("viewer", [
        f"Read 3 models; {USES}", "Which", "Airlines", "Airports", "Flights", *OTHERS,
        "Nothing that you may do at present (actions)", "This can change data.",
    ]),
])  # fmt: skip
def test_each_scope_says_how_many_models_and_actions_of_this_user_it_opens_and_which(
    users: Users, name: str, expected: list[str]
) -> None:
    found = texts(Person(getattr(users, name)).open(HOSTED.url(scope="read actions")))

    assert between("It may", LIMITS, found) == expected


def test_where_no_agent_may_change_data_the_page_says_so_beside_what_it_offers(users: Users) -> None:
    tool, url = "tool:flights_flight_mark_cancelled", HOSTED.url(scope="read tool:flights_flight_mark_cancelled")
    found = []
    for read_only in (False, True):
        with override_settings(MCP={"OAUTH_SCOPES": ["read", "actions", tool], "READ_ONLY": read_only}):
            found.append(between("It may", LIMITS, texts(Person(users.ops).open(url))))

    assert READ_ONLY not in found[0]
    assert found[1][0] == READ_ONLY and f"Nothing that you may do at present ({tool})" in found[1]


def test_getting_a_silent_code_for_a_server_on_the_own_machine(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any program may listen there, whoever has published the document."""
    program = Program("https://client.example/client.json", "https://localhost/cb")
    monkeypatch.setattr(documents, "BUNDLED", {program.client_id: {"redirect_uris": [program.redirect_uri]}})
    program.log_in(users.ops)

    shown, silent = (Person(users.ops).open(program.url(**more)) for more in ({}, {"prompt": "none"}))

    assert "The answer goes to a program on your own device (localhost)." in shown.content.decode()
    assert params_in(silent)["error"] == "consent_required"


@override_settings(MIDDLEWARE=[one for one in settings.MIDDLEWARE if "XFrameOptions" not in one])
@pytest.mark.parametrize(("url", "status"), [
    (HOSTED.url(), 200), ("/mcp/connected", 200), ("/mcp/authorize", 400), (HOSTED.url(prompt="none"), 302),
])  # fmt: skip
def test_showing_a_page_in_a_frame_where_the_project_lets_everybody_frame_its_own(
    users: Users, url: str, status: int
) -> None:
    answer = Person(users.ops).open(url)

    assert (answer.status_code, answer["X-Frame-Options"]) == (status, "DENY")


# The scopes that clients may ask for, and those that they keep.


def boxes(users: Users, scope: str) -> list[str]:
    return list(boxes_in(Person(users.ops).open(Program().url(scope=scope))))


def test_what_can_be_given(users: Users, settings: Any) -> None:
    airports, cancel = "model:flights.airport:read", "tool:flights_flight_mark_cancelled"
    cases: list[tuple[list[str], str, list[str]]] = [  # What is offered, asked for, and shown.
        # Its calls read every model, and not the one that clients may read.
        ([airports, "actions"], "tool:find_records actions", ["actions"]),
        ([], "tool:find_records", ["tool:find_records"]), ([airports], airports, [airports]),
        (["read"], f"read {cancel}", ["read"]), (["read", "actions"], cancel, [cancel]),
        (["read", "actions"], "read tool:no_such_tool model:no.model:read", ["read"]),
    ]  # fmt: skip
    found = []
    for offered, asked, _ in cases:
        settings.MCP = {**settings.MCP, "OAUTH_SCOPES": offered}
        found.append((offered, asked, boxes(users, asked)))

    assert found == cases


def test_writing_to_the_person_in_the_name_of_a_scope(users: Users) -> None:
    for odd in (
        "model:%00a.b:read",
        "model:\x00a.b:read", "model:\u202eabc.de\u2066f:read", 'model:a"b.c:read', "model:中.b:read",
        "model:This-app-is-safe.Click-Connect:read", "model:a.b:read\r\nSet-Cookie", "tool:ä",
    ):  # fmt: skip
        shown = boxes(users, f"read {odd}")
        tokens = Program().log_in(users.ops, asks=f"read {odd}")
        grant = Grant.objects.latest("pk")
        grant.end(Grant.Ended.REVOKED)
        assert (shown, tokens["scope"], grant.declined) == (["read"], "read", []), odd


def test_a_client_keeps_no_more_than_clients_may_have_now(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops, "read", "actions", asks="read actions")

    with override_settings(MCP={"OAUTH_SCOPES": ["read"]}):
        narrowed = program.refresh(tokens["refresh_token"]).json()
    again = program.refresh(narrowed["refresh_token"]).json()

    assert (narrowed["scope"], again["scope"]) == ("read", "read actions")


def test_a_client_of_a_user_who_may_connect_none_any_more_gets_no_token(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops)

    with override_settings(MCP={"OAUTH_USERS": "flights.no_such_permission"}):
        refused = program.refresh(tokens["refresh_token"])

    assert error_in(refused) == (400, "invalid_grant")
    assert program.refresh(tokens["refresh_token"]).status_code == 200
