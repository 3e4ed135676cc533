"""Attempts to learn of others by listening to lists, and what comparing lists costs."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from demo_project.flights.models import Airline
from mcp_django.models import AccessToken, Tool
from mcp_django.push import list_changes
from mcp_django.push.listeners import LISTS
from tests.end_to_end.servers import wait_for
from tests.push.conftest import list_changed, switch_a_tool, updated
from tests.push.lists.conftest import (
    EACH_ERA,
    ON_ASGI_AND_A_SOCKET,
    UA,
    Hubs,
    assert_told,
    make_a_superuser,
    take_a_permission_from_the_group,
    watch_lists,
)
from tests.support.data import Users, make_staff, token_of
from tests.support.peers import MODERN, Peer, Peers

# Attacks.


@ON_ASGI_AND_A_SOCKET
@EACH_ERA
def test_the_rights_of_others_cannot_be_observed_by_listening(
    peers: Peers, users: Users, flights: Any, revision: str
) -> None:
    spying = watch_lists(peers(token_of(users.ops)), revision, UA)
    watching = watch_lists(peers(token_of(users.viewer)), revision)
    tag = "sub-1" if revision == MODERN else None

    take_a_permission_from_the_group(users)
    told = [watching.next() for _ in range(2)]
    users.viewer.groups.clear()
    told += [watching.next() for _ in range(3)]
    for token in AccessToken.objects.filter(user=users.viewer):
        token.revoke()
    User.objects.filter(pk=users.admin.pk).delete()
    Tool.objects.get(name="delay_statistics").groups.add(Group.objects.get(name="JFK operations"))

    names = ["tools", "resources", "tools", "prompts", "resources"]
    assert told == [list_changed(name, tag) for name in names]
    assert_told(spying, set(), revision)


def test_toggling_a_switch_without_end_makes_no_more_work_than_one_toggle(
    viewer: Peer, users: Users, flights: Any, looks: list[Any], monkeypatch: pytest.MonkeyPatch, peers: Peers
) -> None:
    monkeypatch.setattr(list_changes, "_PAUSE_SECONDS", 3_600.0)
    watching = watch_lists(viewer, MODERN, UA)
    looks.clear()

    for _ in range(101):
        switch_a_tool()
        users.viewer.save()
    wait_for(lambda: ("viewer", "tools/list") in looks, "the first comparison", 60)
    # All of it was heard.
    Airline.objects.get(pk="UA").save()
    while watching.next() != updated(UA, "sub-1"):
        pass
    # Somebody else is not made to wait.
    other = watch_lists(peers(token_of(users.ops)), MODERN, UA, listen_id="other")
    switch_a_tool()

    assert other.next() == list_changed("tools", "other")
    assert [method for name, method in looks if name == "viewer"].count("tools/list") == 1


def test_the_last_toggle_of_a_flood_is_told(viewer: Peer, users: Users, flights: Any) -> None:
    watching = watch_lists(viewer, MODERN)
    known = set(viewer.tools())

    for _ in range(51):
        switch_a_tool()

    assert watching.next() == list_changed("tools", "sub-1")
    # Told as often as it takes to know the end, and no more often.
    while set(viewer.tools()) == known:
        assert watching.next() == list_changed("tools", "sub-1")
    assert known - set(viewer.tools()) == {"delay_statistics"}


def test_the_many_connections_of_one_principal_do_not_hold_up_others() -> None:
    flood = [list_changes.Audience("user:1") for _ in range(1_000)]
    victims = [list_changes.Audience("user:2"), list_changes.Audience("user:3")]

    assert list_changes.in_turns([*flood, *victims])[:3] == [flood[0], *victims]


def test_nothing_that_a_list_says_stays_in_memory(viewer: Peer, users: Users, flights: Any, hub: Hubs) -> None:
    watching = watch_lists(viewer, MODERN)

    [group] = hub().lists._audiences.values()
    kept = dict(group.digests)
    watching.close()
    viewer.close()

    assert {name: (type(digest), len(digest)) for name, digest in kept.items()} == dict.fromkeys(LISTS, (bytes, 32))
    assert (hub().lists._audiences, dict(hub().lists._of_principal)) == ({}, {})


# At what cost.


def test_listeners_of_equal_rights_are_looked_at_once_and_others_not_at_all(
    peers: Peers, users: Users, flights: Any, looks: list[Any]
) -> None:
    watch_lists(peers(token_of(users.ops)), MODERN, listen_id="other")
    looks.clear()
    token = token_of(users.viewer)
    watched = [watch_lists(peers(token), MODERN, listen_id=f"sub-{number}") for number in range(5)]
    every = [
        ("viewer", method) for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    ]
    first = sorted(looks)
    looks.clear()

    make_a_superuser(users)

    for number, watching in enumerate(watched):
        told = sorted([watching.next(), watching.next()], key=repr)
        tag = f"sub-{number}"
        assert told == sorted([list_changed("tools", tag), list_changed("resources", tag)], key=repr)
    assert (first, sorted(looks)) == (sorted(every), sorted(every))


def test_all_members_of_a_group_are_told(peers: Peers, users: Users, flights: Any) -> None:
    group = Group.objects.get(name="Flight viewers")
    members = [make_staff(f"member {number}") for number in range(25)]
    group.user_set.add(*members)
    watched = [watch_lists(peers(token_of(member)), MODERN) for member in members]

    take_a_permission_from_the_group(users)

    both = sorted([list_changed("tools", "sub-1"), list_changed("resources", "sub-1")], key=repr)
    assert [sorted([watching.next(), watching.next()], key=repr) for watching in watched] == [both] * 25
