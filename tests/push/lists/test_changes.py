"""Clients are notified of a list exactly when it is another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from demo_project.flights.models import Airline, Flight
from mcp_django.bridge.override_rows import make_prompt_rows
from mcp_django.models import AccessToken, Prompt, Tool
from mcp_django.push.listeners import LISTS
from tests.end_to_end.servers import wait_for
from tests.push.conftest import acknowledged, list_changed, listen, switch_a_tool, updated, watch
from tests.push.lists.conftest import (
    EACH_ERA,
    ON_EACH,
    UA,
    Hubs,
    assert_told,
    describe_a_tool,
    make_a_superuser,
    take_a_permission_from_the_group,
    watch_lists,
)
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, Peer, Peers

#: The methods that give each list.
METHODS = {"tools": ["tools/list"], "prompts": ["prompts/list"], "resources": ["resources/list"]}


def listed(peer: Peer, revision: str = MODERN) -> dict[str, Any]:
    """What each list says now."""
    found = {name: [peer.result(revision, method) for method in methods] for name, methods in METHODS.items()}
    found["resources"].append(peer.result(revision, "resources/templates/list"))
    return found


def restrict_a_tool(users: Users) -> None:
    Tool.objects.get(name="delay_statistics").groups.add(Group.objects.create(name="nobody"))


def switch_off(name: str) -> Callable[[Users], None]:
    def change(users: Users) -> None:
        tool = Tool.objects.get(name=name)
        tool.enabled = False
        tool.save()

    return change


def entitle_a_prompt(users: Users) -> None:
    make_prompt_rows("default")
    prompt = Prompt.objects.get(name="punctuality_report")
    prompt.title = "Another title"
    prompt.save()


def write_a_prompt(users: Users) -> None:
    Prompt.objects.create(name="hello", text="Say hello.")


def take_the_group_from_the_user(users: Users) -> None:
    users.viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_airline", "view_flight"]))
    users.viewer.groups.clear()


def narrow_the_token(users: Users) -> None:
    for token in AccessToken.objects.all():
        token.scopes = ["read"]
        token.save()


MODELS_AND_WHAT_NAMES_THEM = {"tools", "resources"}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (take_a_permission_from_the_group, MODELS_AND_WHAT_NAMES_THEM),
        (describe_a_tool, {"tools"}),
        (restrict_a_tool, {"tools"}),
        (switch_off("find_records"), MODELS_AND_WHAT_NAMES_THEM),
        (switch_off("get_record"), MODELS_AND_WHAT_NAMES_THEM),
        (switch_off("aggregate_records"), MODELS_AND_WHAT_NAMES_THEM),
        (switch_off("describe_models"), MODELS_AND_WHAT_NAMES_THEM),
        (entitle_a_prompt, {"prompts"}),
        (write_a_prompt, {"prompts"}),
        (take_the_group_from_the_user, MODELS_AND_WHAT_NAMES_THEM),
        (make_a_superuser, MODELS_AND_WHAT_NAMES_THEM),
    ],
)
def test_exactly_the_lists_that_are_others_now_are_told(
    viewer: Peer, users: Users, flights: Any, change: Callable[[Users], None], names: set[str]
) -> None:
    before = listed(viewer)
    watching = watch_lists(viewer, MODERN, UA)

    change(users)

    assert_told(watching, names, MODERN)
    after = listed(viewer)
    assert {name for name in LISTS if after[name] != before[name]} == names


@ON_EACH
@EACH_ERA
def test_the_list_is_the_new_one_when_its_change_is_told(
    viewer: Peer, users: Users, flights: Any, revision: str
) -> None:
    watching = watch_lists(viewer, revision, UA)
    before = listed(viewer, revision)

    take_a_permission_from_the_group(users)
    told = watching.next()
    after = listed(viewer, revision)

    tag = "sub-1" if revision == MODERN else None
    both = [list_changed("resources", tag), list_changed("tools", tag)]
    assert sorted([told, watching.next()], key=repr) == sorted(both, key=repr)
    assert {name for name in LISTS if after[name] != before[name]} == {"tools", "resources"}
    assert_told(watching, set(), revision)


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi", "websocket"])
@EACH_ERA
def test_the_scopes_of_a_token_change_its_lists(ops: Peer, users: Users, flights: Any, revision: str) -> None:
    watching = watch_lists(ops, revision, UA)
    before = ops.tools(revision)

    narrow_the_token(users)

    assert_told(watching, {"tools"}, revision)
    assert set(before) - set(ops.tools(revision)) == {"flights_flight_mark_cancelled"}


@pytest.mark.parametrize("way", ["the list", "an action"])
def test_what_an_administrator_does_to_many_rows_at_once_is_told(
    viewer: Peer, users: Users, flights: Any, way: str
) -> None:
    watching = watch_lists(viewer, MODERN, UA)
    row = Tool.objects.get(name="delay_statistics")
    browser = Client()
    browser.force_login(users.admin)

    if way == "the list":
        form = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-id": row.pk, "_save": "Save"}
        answer = browser.post("/admin/mcp_django/tool/?q=delay_statistics", form)
    else:
        answer = browser.post("/admin/mcp_django/tool/", {"action": "disable", "_selected_action": [row.pk]})

    assert answer.status_code == 302
    assert_told(watching, {"tools"}, MODERN)
    assert "delay_statistics" not in viewer.tools()


def test_a_title_is_told_to_those_whose_revision_has_titles(peers: Peers, users: Users, flights: Any) -> None:
    token = token_of(users.viewer)
    old, new = (watch_lists(peers(token), revision, UA) for revision in (LEGACY[0], LEGACY[-1]))

    entitle_a_prompt(users)

    assert_told(new, {"prompts"}, LEGACY[-1])
    assert old.next() == updated(UA)


def test_each_list_is_told_to_who_asked_for_it(viewer: Peer, users: Users, flights: Any) -> None:
    watching = listen(
        viewer, {"resourcesListChanged": True, "promptsListChanged": False, "resourceSubscriptions": [UA]}
    )
    assert watching.next() == acknowledged("sub-1", resourcesListChanged=True, resourceSubscriptions=[UA])

    take_a_permission_from_the_group(users)

    assert_told(watching, {"resources"}, MODERN)


def test_who_is_told_of_no_list_costs_nothing(
    viewer: Peer, users: Users, flights: Any, hub: Hubs, looks: list[Any]
) -> None:
    watching = watch(viewer, MODERN, UA)
    other = listen(viewer, {**{f"{name}ListChanged": False for name in LISTS}, "resourceSubscriptions": [UA]}, "other")
    assert other.next() == acknowledged("other", resourceSubscriptions=[UA])

    take_a_permission_from_the_group(users)
    switch_a_tool()

    Airline.objects.get(pk="UA").save()
    assert [watching.next(), other.next()] == [updated(UA, "sub-1"), updated(UA, "other")]
    assert looks == []
    assert hub().lists._audiences == {}


def test_what_leaves_the_lists_as_they_were_is_not_told(viewer: Peer, users: Users, flights: Any) -> None:
    watching = watch_lists(viewer, MODERN, UA)

    users.viewer.save()
    Tool.objects.get(name="delay_statistics").save()
    Group.objects.create(name="of others").permissions.add(*Permission.objects.all()[:3])
    users.viewer.groups.add(Group.objects.create(name="without permissions"))
    Flight.objects.get(pk=1).save()

    assert_told(watching, set(), MODERN)
    describe_a_tool(users)
    assert_told(watching, {"tools"}, MODERN)


def test_new_contents_of_a_resource_do_not_change_the_list(
    viewer: Peer, users: Users, flights: Any, declared: Declared
) -> None:
    declared.model(Flight, fields=["departs_at"], last_modified_field="departs_at")
    before = listed(viewer)
    watching = watch_lists(viewer, MODERN, UA)

    flights[0].departs_at = flights[0].departs_at.replace(year=2014)
    flights[0].save()
    users.viewer.save()

    describe_a_tool(users)
    assert_told(watching, {"tools"}, MODERN)
    assert listed(viewer)["resources"] != before["resources"]


def test_after_a_gap_the_lists_are_compared_and_nothing_is_told_that_did_not_change(
    viewer: Peer, users: Users, flights: Any, hub: Hubs, looks: list[Any]
) -> None:
    watching = watch_lists(viewer, MODERN)
    looks.clear()

    hub().resync()
    wait_for(lambda: len(looks) == 4, "a look at each list", 60)
    Tool.objects.filter(name="delay_statistics").update(enabled=False)
    hub().resync()

    assert watching.next() == list_changed("tools", "sub-1")
    write_a_prompt(users)
    assert watching.next() == list_changed("prompts", "sub-1")
