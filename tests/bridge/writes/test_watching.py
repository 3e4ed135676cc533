"""``mcp-change://NUMBER``: what became of a change, for the agent that proposed it and for nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from demo_project.flights.models import Flight
from mcp_django.bridge.changes.change_rows import URI
from mcp_django.models import Tool
from tests.bridge.writes.clicking import Browser, proposed
from tests.bridge.writes.conftest import ALL_SCOPES
from tests.support.data import Users, make_staff, token_of
from tests.support.peers import MODERN, Message, Peer, Peers

#: Those in which resources are watched in different ways.
WATCHING = ("2025-06-18", "2025-11-25", MODERN)


def deleting(peer: Peer, key: str = "3") -> Message:
    """A delete that waits for its user."""
    return proposed(peer, "delete_record", model="flights.flight", ids=[key])


def templates(peer: Peer) -> list[str]:
    listed = peer.result(MODERN, "resources/templates/list")["resourceTemplates"]
    return [template["uriTemplate"] for template in listed]


def assert_not_found(peer: Peer, uri: str, revision: str = MODERN) -> None:
    error = peer.error(revision, "resources/read", {"uri": uri})
    assert error["data"]["reason"] == "RESOURCE_NOT_FOUND"


def test_an_agent_reads_what_became_of_its_change(mute: Peer, flights: Any) -> None:
    waits = deleting(mute)

    assert mute.read(waits["resource"]) == waits
    assert mute.call("get_change", change=waits["change"])["structuredContent"] == waits


def test_another_user_and_another_token_find_no_change_as_if_there_was_none(
    mute: Peer, users: Users, peers: Peers, flights: Any
) -> None:
    clerk = make_staff("clerk", "flights.delete_flight", "flights.view_flight")
    waits = deleting(mute)

    for other in (peers(token_of(clerk, *ALL_SCOPES)), peers(token_of(users.admin, *ALL_SCOPES))):
        told = [other.call("get_change", change=key)["content"][0]["text"] for key in (waits["change"], "0" * 22)]

        assert URI in templates(other)
        assert_not_found(other, waits["resource"])
        assert told[0] == told[1].replace("0" * 22, waits["change"]) and "There is no such change." in told[0]


def test_the_template_is_listed_where_tools_that_write_can_be_used(mute: Peer, users: Users, peers: Peers) -> None:
    reader, viewer = peers(token_of(users.admin, "read", "actions")), peers(token_of(users.viewer, *ALL_SCOPES))

    assert URI in templates(mute)
    assert URI not in templates(reader)
    assert URI not in templates(viewer)


def test_the_template_goes_with_the_last_tool_that_writes(mute: Peer, flights: Any) -> None:
    waits = deleting(mute)

    Tool.objects.filter(name__regex="^(create|update)_record").update(enabled=False)
    with_one = URI in templates(mute)
    Tool.objects.filter(name="delete_record").update(enabled=False)

    assert with_one
    assert URI not in templates(mute)
    assert_not_found(mute, waits["resource"])


@pytest.mark.parametrize("revision", WATCHING)
def test_a_click_in_the_admin_is_told_to_whoever_watches(mute: Peer, users: Users, flights: Any, revision: str) -> None:
    waits = deleting(mute)
    watching = mute.watch(revision, [waits["resource"]])

    Browser(users.admin).apply(waits["change"])

    assert watching.uris(1) == [waits["resource"]]
    assert mute.read(waits["resource"])["status"] == "applied"
    assert not Flight.objects.filter(pk=3).exists()


def test_a_rejection_is_told_to_whoever_watches_and_that_of_another_change_is_not(
    mute: Peer, users: Users, flights: Any
) -> None:
    waits, other = deleting(mute), deleting(mute, "4")
    watching = mute.watch(MODERN, [waits["resource"]])

    Browser(users.admin).reject(other["change"])
    Browser(users.admin).reject(waits["change"], "It did leave, an hour late.")

    assert watching.uris(1) == [waits["resource"]]
    watching.assert_nothing_waits()
    read = mute.read(waits["resource"])
    assert (read["status"], read["notes"]) == ("rejected", ["It did leave, an hour late."])
    assert Flight.objects.filter(pk=3).exists()
