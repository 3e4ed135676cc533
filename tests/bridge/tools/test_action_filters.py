"""Admin actions on the rows that meet a filter: they are shown first, and the token of that answer acts on them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import HttpRequest
from django.utils import timezone

import mcp_django
from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Airport, Flight
from mcp_django import MCPSite, ModelMCP
from mcp_django.bridge.changes import confirmations
from mcp_django.bridge.tools import action_rows
from mcp_django.models import Change, Tool
from mcp_django.protocol.errors import TooSlow
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.data import make_flights, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers

CANCEL = "flights_flight_mark_cancelled"
ON_TIME = "flights_flight_mark_on_time"
EXPORT = "flights_flight_export_as_csv"
FROM_JFK: Any = {"origin": "JFK"}


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    switch_on(CANCEL, ON_TIME, EXPORT)
    return DirectPeer(User.objects.create_superuser("root"))


def cancelled() -> list[int]:
    return list(Flight.objects.filter(status="cancelled").order_by("id").values_list("id", flat=True))


def token_for(peer: Any, conditions: Any = FROM_JFK, tool: str = CANCEL) -> str:
    """The token of a first call."""
    [token] = re.findall(r'"confirm": "([^"]+)"', text_of(peer.call(tool, filter=conditions)))
    return str(token)


def refusal(result: Any) -> str:
    """Why a token or a filter was refused."""
    [error] = errors_of(result)
    assert re.search("Nothing was changed|Invalid|was stopped", text_of(result))
    return f"{error['field']}: {error['message']}"


# The two calls.


def test_the_first_call_shows_the_rows_and_changes_nothing(root: DirectPeer) -> None:
    result = root.call(CANCEL, filter={"id__lte": 6})

    counted, shown, now, how = text_of(result).split("\n")
    assert result["isError"] is False
    assert counted == "6 rows of flights.flight match the filter. Nothing was changed."
    assert shown.startswith('5 of them are: {"columns":["id","status","departs_at","carrier","number"],"rows":[[1,')
    assert now == "Now: status: 5 on_time, 1 cancelled."
    assert how.startswith(f"To act on exactly these rows, call {CANCEL} within 10 minutes with the same filter and ")
    assert cancelled() == [5]


@pytest.mark.every_database
def test_the_second_call_acts_on_these_rows_in_whichever_order_the_filter_comes(root: DirectPeer) -> None:
    done = root.call(CANCEL, filter=FROM_JFK, confirm=token_for(root))
    other = root.call(
        CANCEL, filter={"id__lt": 4, "origin": "EWR"}, confirm=token_for(root, {"origin": "EWR", "id__lt": 4})
    )

    assert text_of(done) == "2 flights were marked as cancelled."
    assert text_of(other) == "1 flight was marked as cancelled."
    assert cancelled() == [1, 2, 4, 5]
    # No row needs no token.
    nothing = root.call(CANCEL, filter={"id": 99})
    assert text_of(nothing) == "0 rows of flights.flight match the filter. Nothing was changed."


def test_a_read_only_action_runs_at_once(root: DirectPeer) -> None:
    result = root.call(EXPORT, filter=FROM_JFK)

    [said, file] = result["content"]
    assert said["text"].startswith("attached: flights.csv, text/csv, 3 lines")
    assert file["resource"]["text"].count("JFK") == 2
    assert text_of(root.call(EXPORT, filter={"id": 99})).startswith("0 rows of flights.flight match the filter.")
    assert list(listed(root, EXPORT)["inputSchema"]["properties"]) == ["ids", "filter", "pages"]


def test_exactly_one_of_ids_and_filter(root: DirectPeer) -> None:
    wrong: list[dict[str, Any]] = [
        {"ids": [1], "filter": {"id": 1}}, {}, {"ids": [], "filter": None}, {"filter": {}}, {"confirm": "x"},
        {"ids": [1], "confirm": "x"}, {"filter": "id=1"}, {"filter": ["id"]},
        {"filter": {"id": 1}, "confirm": "x" * 121},
    ]  # fmt: skip
    for arguments in wrong:
        assert errors_of(root.call(CANCEL, **arguments)), arguments
    assert cancelled() == [5]


def test_what_was_left_out_may_be_null(root: DirectPeer) -> None:
    assert text_of(root.call(CANCEL, ids=[1], filter=None, confirm=None)) == "1 flight was marked as cancelled."
    assert text_of(root.call(CANCEL, ids=[2], filter={}, confirm="")) == "1 flight was marked as cancelled."
    assert root.call(CANCEL, ids=[], filter=FROM_JFK, confirm="")["isError"] is False


def test_more_rows_than_one_call_may_act_on(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_rows, "MAX_ACTION_IDS", 3)

    assert refusal(root.call(CANCEL, filter={"id__lte": 4})).startswith("filter: more than 3 rows match. Narrow")
    assert token_for(root, {"id__lte": 3})


def test_an_action_that_fails_leaves_its_token(root: DirectPeer, declared: Declared) -> None:
    fails = [True]

    class Refusing(FlightAdmin):
        @admin.action(permissions=["change"])
        def mark_cancelled(self, request: HttpRequest, queryset: Any) -> None:
            changed = queryset.update(status="cancelled")
            if fails:
                raise PermissionDenied
            self.message_user(request, f"{changed} cancelled", messages.SUCCESS)

    declared.admin(Flight, Refusing)
    token = token_for(root)

    refused = root.call(CANCEL, filter=FROM_JFK, confirm=token)
    assert refused["isError"] and cancelled() == [5] and not Change.objects.exists()
    fails.clear()
    assert text_of(root.call(CANCEL, filter=FROM_JFK, confirm=token)) == "2 cancelled"


def test_a_value_that_is_none_is_refused_and_among_others_noted(root: DirectPeer) -> None:
    refused = refusal(root.call(CANCEL, filter={"status": "canceled"}))
    shown = text_of(root.call(CANCEL, filter={"origin__in": ["JFK", "QQ"]})).splitlines()

    assert refused.startswith("filter.status: status has no choice 'canceled'. Did you mean cancelled?")
    assert shown[0].startswith("2 rows of flights.flight match")
    assert shown[1] == "origin__in: no visible flights.airport has the key 'QQ'."


def test_a_filter_that_takes_too_long_says_how_to_split_it(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_for(root)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.matching.fetch", Mock(side_effect=TooSlow))

    for confirm in (None, token):
        why = refusal(root.call(CANCEL, filter=FROM_JFK, confirm=confirm))

        assert why.startswith("filter: Split it: departs_at runs from 2013-01-01 to 2013-01-01 and is indexed; ask for")
    assert cancelled() == [5]


def test_the_action_reads_what_the_changelist_would_have_posted(root: DirectPeer, declared: Declared) -> None:
    class Reading(FlightAdmin):
        @mcp_django.action(read_only=True)
        @admin.action(permissions=["view"])
        def export_as_csv(self, request: HttpRequest, queryset: Any) -> None:  # type: ignore[override]
            posted = request.POST
            self.message_user(request, f"{request.method} {posted['action']} {posted.getlist('_selected_action')}")

    declared.admin(Flight, Reading)

    assert text_of(root.call(EXPORT, filter=FROM_JFK)) == "POST export_as_csv ['1', '4']"
    assert text_of(root.call(EXPORT, ids=[1, "2"])) == "POST export_as_csv ['1', '2']"


@pytest.mark.every_database
def test_rows_that_a_join_doubles_are_chosen_once(root: DirectPeer, declared: Declared) -> None:
    class Doubling(FlightAdmin):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(carrier__flights__id__gt=0)

    declared.admin(Flight, Doubling)

    done = root.call(CANCEL, filter=FROM_JFK, confirm=token_for(root))

    assert text_of(done) == "2 flights were marked as cancelled."


# Attacks: other rows than those that were confirmed.


def test_a_set_that_is_confirmed_and_then_changes(root: DirectPeer) -> None:
    changes: dict[str, tuple[dict[int, str], int]] = {
        "as many other rows": ({4: "EWR", 2: "JFK"}, 2), "one more": ({4: "JFK"}, 3),
        "fewer": ({2: "EWR", 4: "EWR"}, 1),
    }  # fmt: skip
    for change, (origins, count) in changes.items():
        token = token_for(root)
        for key, origin in origins.items():
            Flight.objects.filter(id=key).update(origin=origin)

        refused = refusal(root.call(CANCEL, filter=FROM_JFK, confirm=token))

        assert refused.startswith(f"confirm: The rows have changed since: {count} match now."), change
    assert cancelled() == [5]


def test_a_set_that_is_confirmed_and_then_hidden(root: DirectPeer) -> None:
    user = make_staff("ops", "flights.view_flight", "flights.change_flight")
    token = token_for(DirectPeer(user), {"id__lte": 3})
    user.groups.create(name="JFK operations")

    refused = refusal(DirectPeer(User.objects.get(pk=user.pk)).call(CANCEL, filter={"id__lte": 3}, confirm=token))

    assert "1 match now" in refused
    assert cancelled() == [5]


@pytest.mark.every_database
def test_acting_on_hidden_rows_by_a_filter(root: DirectPeer) -> None:
    user = make_staff("ops", "flights.view_flight", "flights.change_flight")
    user.groups.create(name="JFK operations")
    ops = DirectPeer(user)

    shown = text_of(ops.call(CANCEL, filter={"id__lte": 6}))
    done = ops.call(CANCEL, filter={"id__lte": 6}, confirm=token_for(ops, {"id__lte": 6}))

    assert shown.startswith(
        "2 rows of flights.flight match the filter. Nothing was changed.\n"
        "A rule of this project limits which rows of flights.flight you see.\nThese are: "
    )
    assert text_of(done) == "2 flights were marked as cancelled."
    assert text_of(ops.call(CANCEL, filter={"id": 2})).startswith("0 rows")


def test_acting_on_rows_outside_of_the_admins_queryset(root: DirectPeer, declared: Declared) -> None:
    class Narrow(FlightAdmin):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(id__gt=1)

    class Wide(ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            return Flight.objects.all()

    declared.admin(Flight, Narrow)
    declared.model(Flight, Wide)

    shown = text_of(root.call(CANCEL, filter=FROM_JFK))

    assert shown.startswith("1 row of flights.flight matches the filter.")
    root.call(CANCEL, filter=FROM_JFK, confirm=token_for(root))
    assert cancelled() == [4, 5]


# Attacks: the token.


def assert_no_token(peer: DirectPeer, token: str, conditions: Any = FROM_JFK) -> None:
    refused = refusal(peer.call(CANCEL, filter=conditions, confirm=token))
    assert refused.startswith("confirm: This is no token for this"), token
    assert cancelled() == [5]


def test_a_token_of_another_user_tool_filter_or_site(root: DirectPeer) -> None:
    other_site = DirectPeer(root.user, site=MCPSite("other"))
    Tool.objects.create(site="other", name=CANCEL, enabled=True)

    assert_no_token(DirectPeer(User.objects.create_superuser("other")), token_for(root))
    assert_no_token(root, token_for(root, tool=ON_TIME))
    assert_no_token(root, token_for(root), {"origin__in": ["JFK"]})
    assert_no_token(root, token_for(other_site))


def test_a_token_that_another_access_token_of_the_user_was_given(peers: Peers, users: Any, flights: Any) -> None:
    switch_on(CANCEL)
    one, other = peers(token_of(users.admin)), peers(token_of(users.admin))

    refused = other.call(CANCEL, filter=FROM_JFK, confirm=token_for(one))

    assert "no token" in refusal(refused)


def test_a_forged_token(root: DirectPeer) -> None:
    token = token_for(root)
    first, last = ("A" if letter != "A" else "B" for letter in (token[0], token[-1]))

    for forged in (
        token[:-1] + last,
        first + token[1:],
        f"////{token[4:]}",
        f"{token}=",
        f"{token} ",
        f"{token}A",
        "x",
        "::",
        "é:\x00:ü",
    ):
        assert_no_token(root, forged)
    assert text_of(root.call(CANCEL, filter=FROM_JFK, confirm="")).startswith("2 rows")


def test_a_token_that_has_expired(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmations, "SECONDS", -1)
    token = token_for(root)

    assert "has expired" in refusal(root.call(CANCEL, filter=FROM_JFK, confirm=token))
    assert cancelled() == [5]


@pytest.mark.every_database
def test_a_token_that_is_used_twice(root: DirectPeer) -> None:
    token = token_for(root)
    first = root.call(CANCEL, filter=FROM_JFK, confirm=token)
    Flight.objects.update(status="on_time")

    again = root.call(CANCEL, filter=FROM_JFK, confirm=token)["structuredContent"]

    assert again["status"] == "applied" and again["replayed"] and again["said"] == first["content"][0]["text"]
    assert cancelled() == []
    # It is remembered until it has expired.
    assert (Change.objects.get().expires_at - timezone.now()).total_seconds() > confirmations.SECONDS


@pytest.mark.every_database
def test_one_token_in_many_calls_at_once(transactional_db: None, users: Any, flights: Any, declared: Declared) -> None:
    runs: list[str] = []

    class Counting(FlightAdmin):
        @admin.action(permissions=["change"])
        def mark_cancelled(self, request: HttpRequest, queryset: Any) -> None:
            runs.append(f"{queryset.count()} rows")
            self.message_user(request, "ran", messages.SUCCESS)

    declared.admin(Flight, Counting)
    switch_on(CANCEL)
    token, together = token_for(DirectPeer(users.admin)), Barrier(4, timeout=60)

    def confirm(_: int) -> Any:
        try:
            peer = DirectPeer(User.objects.get(pk=users.admin.pk))
            together.wait()
            return peer.call(CANCEL, filter=FROM_JFK, confirm=token)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(confirm, range(4)))

    assert runs == ["4 rows"]
    assert [result["isError"] for result in results] == [False] * 4
    told = [result.get("structuredContent") for result in results]
    assert told.count(None) == 1 and all(one is None or one["status"] in ("applied", "writing") for one in told)


# Attacks: what a filter tells.


def test_a_filter_through_a_hidden_field(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, exclude=["distance"])

    hidden, absent = (
        re.sub(r" Did you mean [^?]*\?", "", refusal(root.call(CANCEL, filter={f"{name}__gt": 0}))).replace(name, "?")
        for name in ("distance", "zzzzzzz")
    )

    assert hidden == absent and hidden.startswith("filter.?__gt: ")
    assert "distance" not in text_of(root.call(CANCEL, filter=FROM_JFK))


def test_counting_rows_that_are_hidden_one_by_one(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden rows count neither in the answer nor against the most rows of a call."""

    class Refusing(FlightAdmin):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk in (2, 6)

    declared.admin(Flight, Refusing)
    monkeypatch.setattr(action_rows, "MAX_ACTION_IDS", 2)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.matching._AT_ONCE", 2)

    shown = text_of(root.call(CANCEL, filter={"id__gt": 0}))
    done = root.call(CANCEL, filter={"id__gt": 0}, confirm=token_for(root, {"id__gt": 0}))

    assert shown.startswith("2 rows of flights.flight match")
    assert '"rows":[[2,' in shown and "[1," not in shown
    assert text_of(done) == "2 flights were marked as cancelled."
    assert cancelled() == [2, 5, 6]


def test_isolating_a_row_below_the_smallest_group(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, min_group_rows=3)

    refused = [refusal(root.call(CANCEL, filter={"id": key})) for key in (1, 99)]

    assert len(set(refused)) == 1 and refused[0].startswith("filter: single rows of flights.flight are not shown")
    assert "single rows" in refusal(root.call(EXPORT, filter={"id": 1}))
    assert text_of(root.call(CANCEL, ids=[1])) == "1 flight was marked as cancelled."
    # More than a few ids need a token.
    assert list(listed(root, CANCEL)["inputSchema"]["properties"]) == ["ids", "pages", "confirm"]


def test_isolating_a_row_of_another_model_by_the_rows_that_point_to_it(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, min_group_rows=3, fields="__all__")

    for conditions in ({"origin__altitude": 10}, {"origin": {"name__startswith": "J"}}):
        assert refusal(root.call(CANCEL, filter=conditions)) == (
            "filter: the filter leads to rows that are shown only in groups. Leave them out, or give ids."
        )


def test_a_filter_that_is_too_deep(root: DirectPeer) -> None:
    conditions: Any = {"id": 1}
    for _ in range(20):
        conditions = {"not": conditions}

    assert "nested more than" in refusal(root.call(CANCEL, filter=conditions))
