"""Clients that watch lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission

from demo_project.flights.models import Airline
from mcp_django.models import Tool
from mcp_django.push import list_changes
from mcp_django.push.hub import Hub
from mcp_django.push.listeners import LISTS
from tests.axes import PUSHING
from tests.push.conftest import acknowledged, list_changed, listen, updated
from tests.support.data import Users
from tests.support.peers import LEGACY, MODERN, Peer, Watching

ON_EACH = pytest.mark.parametrize("transport", PUSHING)

ON_ASGI_AND_A_SOCKET = pytest.mark.parametrize("transport", ["http-asgi", "websocket"])

EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

UA = "db://flights/airline/UA"

ALL = {f"{name}ListChanged": True for name in LISTS}

Hubs = Callable[[], Hub]


@pytest.fixture(autouse=True)
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep finds by itself what these tests want told."""
    monkeypatch.setattr(list_changes, "_SWEPT_SECONDS", 3_600.0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Each list that was looked at from now on: for whom, and which."""
    looked: list[tuple[str, str]] = []
    written = list_changes._written

    def noted(page: Any, exchange: Any, revision: str) -> bytes:
        looked.append((exchange.request.user.username, page.method))
        return written(page, exchange, revision)

    monkeypatch.setattr(list_changes, "_written", noted)
    return looked


def watch_lists(peer: Peer, revision: str, *uris: str, listen_id: str = "sub-1") -> Watching:
    """Be told of all lists, and of some resources, in the way of the revision."""
    if revision != MODERN:
        return peer.watch(revision, list(uris))
    subscribed = {"resourceSubscriptions": list(uris)} if uris else {}
    watching = listen(peer, {**ALL, **subscribed}, listen_id)
    assert watching.next() == acknowledged(listen_id, **ALL, **subscribed)
    return watching


def assert_told(watching: Watching, names: set[str], revision: str, listen_id: str = "sub-1") -> None:
    """A notification of each of these lists comes, and then of the airline: nothing else was told before."""
    tag = listen_id if revision == MODERN else None
    told = [watching.next() for _ in names]
    assert sorted(told, key=repr) == sorted((list_changed(name, tag) for name in names), key=repr)
    Airline.objects.get(pk="UA").save()
    assert watching.next() == updated(UA, tag)


def describe_a_tool(users: Users) -> None:
    tool = Tool.objects.get(name="delay_statistics")
    tool.description = "Another description."
    tool.save()


def take_a_permission_from_the_group(users: Users) -> None:
    Group.objects.get(name="Flight viewers").permissions.remove(Permission.objects.get(codename="view_airport"))


def make_a_superuser(users: Users) -> None:
    users.viewer.is_superuser = True
    users.viewer.save()
