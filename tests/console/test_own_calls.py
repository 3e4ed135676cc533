"""The last calls on *My agent*: those of the viewer's own agents, in words, and without what they were called with."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from mcp_django.audit.recorder import recorder
from mcp_django.console.pages import own_calls
from mcp_django.models import Call, Tool
from mcp_django.models.reasons import REASONS
from tests.console.visiting import client_of, text_of
from tests.support.asking import DirectPeer
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peers

pytestmark = pytest.mark.django_db

URL = "/mcp/connected"
HIDDEN = "Fog over Newark"


def calls_on(page: str) -> list[str]:
    """The lines of the list, without their times."""
    rows = re.findall(r"<li>(.*?)</li>", page[page.index("Last calls") :], re.DOTALL)
    return [text_of(re.sub(r"<time.*?</time>", "", row)) for row in rows]


def calls_of(user: User) -> list[str]:
    recorder.flush()
    return calls_on(client_of(user).get(URL).content.decode())


def make_call(user: User, **values: Any) -> Call:
    about = {"kind": Call.Kind.CALL, "outcome": Call.Outcome.DONE, "name": "find_records", **values}
    return Call.objects.create(at=timezone.now(), user_id=str(user.pk), user_name=user.username, **about)


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_people_see_what_their_agents_did_with_the_outcome_and_the_reason(
    users: Users, flights: Any, trail: None, peers: Peers
) -> None:
    mine, other = peers(token_of(users.viewer, "read", name="laptop")), peers(token_of(users.admin))
    mine.call("find_records", model="flights.flight", filter={"notes": HIDDEN})
    mine.request(MODERN, "tools/call", {"name": "find_records", "arguments": []})
    other.call("find_records", model="flights.airport")

    lines = calls_of(users.viewer)

    assert lines == ["find_records refused The request itself was malformed. · tests", "find_records done · tests"]
    assert HIDDEN not in client_of(users.viewer).get(URL).content.decode()


def test_finding_out_which_tools_there_are_by_what_is_said_of_calls_that_were_refused(
    users: Users, flights: Any, trail: None, declared: Declared
) -> None:
    """One that is off, for another group, beyond the permission or the scope reads as one that is not there."""

    def secret(request: Any) -> str:
        """Not for everybody."""
        return ""

    declared.tool(secret, permission="flights.no_such", read_only=True)
    group = Group.objects.create(name="others")
    row = Tool.objects.get_or_create(site="mcp", name="get_record")[0]
    row.groups.set([group])
    Tool.objects.update_or_create(site="mcp", name="aggregate_records", defaults={"enabled": False})
    agent = DirectPeer(users.viewer, "read")
    tried = ["secret", "get_record", "aggregate_records", "flights_flight_mark_cancelled", "no_such_tool"]
    for name in tried:
        agent.request(MODERN, "tools/call", {"name": name, "arguments": {}})
    for model in ("auth.user", "no.such"):
        agent.request(MODERN, "resources/read", {"uri": f"db://{model}"})

    absent, hidden, *lines = calls_of(users.viewer)

    why = "refused There is no such thing, or this agent may not use it."
    assert lines == [f"{name} {why}" for name in reversed(tried)]
    assert absent == hidden and absent.endswith(why)
    reasons = set(Call.objects.values_list("reason", flat=True))
    assert {"NO_PERMISSION", "NO_GROUP", "SWITCHED_OFF", "NO_SCOPE", "TOOL_NOT_FOUND"} <= reasons


def test_seeing_calls_that_are_none_of_ones_own(users: Users, trail: None) -> None:
    """By a name that another user has too, a key that begins alike, or what people did in the admin."""
    for number, values in enumerate([
        {"user_id": str(users.admin.pk)}, {"user_id": f"{users.viewer.pk}0"}, {"user_id": ""},
        {"kind": Call.Kind.TOKEN}, {"kind": Call.Kind.SWITCH}, {"kind": Call.Kind.DECISION},
        {"transport": "admin", "client_name": "console of admin"},
    ]):  # fmt: skip
        call = make_call(users.viewer, name=f"tool{number}")
        Call.objects.filter(pk=call.pk).update(**values)
    make_call(users.viewer, name="own")
    # A change that its user has agreed to is the agent's.
    make_call(users.viewer, name="agreed", transport="admin", client_name="claude")

    assert calls_of(users.viewer) == ["agreed done · claude", "own done"]


def test_no_value_and_no_markup_of_a_line_is_shown(users: Users, trail: None) -> None:
    make_call(users.viewer, name="<b>x</b>", arguments='["filter"]', values=f'{{"note": "{HIDDEN}"}}', keys=" 17 ",
              client_name="<script>", token_name="<i>", address="203.0.113.9")  # fmt: skip

    page = client_of(users.viewer).get(URL).content.decode()

    assert calls_on(page) == ["<b>x</b> done · <script>"]
    assert not [text for text in (HIDDEN, "<b>x", "<script>x", "filter", " 17 ", "203.0.113.9") if text in page]


def test_fifty_are_shown_the_latest_first(users: Users, trail: None) -> None:
    for number in range(55):
        make_call(users.viewer, name=f"tool{number}")

    lines = calls_of(users.viewer)

    assert [line.split()[0] for line in lines] == [f"tool{number}" for number in range(54, 4, -1)]


def test_where_nothing_is_written_down_the_page_says_so(users: Users, trail: None, settings: Any) -> None:
    client = client_of(users.viewer)
    empty = text_of(client.get(URL).content.decode())
    settings.MCP = {**settings.MCP, "AUDIT": "off"}

    off = text_of(client.get(URL).content.decode())

    assert "No agent of yours has called yet." in empty and "does not write down" not in empty
    assert "This site does not write down what agents do." in off and "has called yet" not in off


def test_what_hides_something_is_a_reason_of_the_trail() -> None:
    """A reason that has another name by now would tell what is there."""
    assert own_calls.HIDDEN - set(REASONS) == set()


def test_a_reason_of_the_project_is_readable(users: Users, trail: None) -> None:
    make_call(users.viewer, name="a", outcome=Call.Outcome.FAILED, reason="OUT_OF_STOCK", detail=HIDDEN)

    assert calls_of(users.viewer) == ["a failed Out of stock"]
