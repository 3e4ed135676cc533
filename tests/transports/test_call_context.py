"""What a project sets in call_context holds for its own call on every transport, and for no other."""

from __future__ import annotations

from typing import Any

import pytest

from demo_project.flights.models import Airline
from tests.axes import NETWORK, PUSHING
from tests.push.conftest import assert_nothing_but
from tests.shop.models import Tag
from tests.support.data import token_of
from tests.support.peers import MODERN, HTTPPeer, Peer, Peers, SocketPeer

pytestmark = pytest.mark.every_transport


@pytest.fixture(autouse=True)
def one_worker(settings: Any, transactional_db: None) -> None:
    """One thread for all callers, which could carry something from the one to the next; and rows of two tenants."""
    settings.MCP = {**settings.MCP, "THREADS": 1}
    Tag.objects.bulk_create(Tag(name=name) for name in ("a:1", "a:2", "b:1"))


def of_tenant(peers: Peers, token: str, tenant: str | None) -> Peer:
    """A peer whose every request names the tenant."""
    peer = peers(token)
    given = {} if tenant is None else {"X-Tenant": tenant}
    if isinstance(peer, SocketPeer):
        for revision in ("2025-11-25", MODERN):
            peer.connections[revision] = peer.connect(given)
    else:
        assert isinstance(peer, HTTPPeer)
        plain = peer.headers
        peer.headers = lambda more: plain({**given, **(more or {})})  # type: ignore[method-assign]
    return peer


def tags(peer: Peer) -> list[str]:
    found = peer.call("find_records", model="shop.tag")
    return [row[0] for row in found["structuredContent"]["rows"]]


@pytest.mark.parametrize("transport", NETWORK)
def test_each_tenant_gets_its_own_rows_and_never_the_last_callers(users: Any, tenant_peers: Peers) -> None:
    token = token_of(users.admin)
    first, second, nobody = (of_tenant(tenant_peers, token, tenant) for tenant in ("a", "b", None))

    seen = [tags(peer) for peer in (first, second, nobody, first, nobody)]

    assert seen == [["a:1", "a:2"], ["b:1"], [], ["a:1", "a:2"], []]


@pytest.mark.own_form
@pytest.mark.parametrize("transport", [name for name in NETWORK if name in PUSHING])
def test_a_tenant_is_told_of_its_own_rows_only(users: Any, tenant_peers: Peers) -> None:
    token = token_of(users.admin)
    airline = Airline.objects.create(carrier="UA")
    first = of_tenant(tenant_peers, token, "a").watch(MODERN, ["db://shop/tag", "db://flights/airline/UA"])
    second = of_tenant(tenant_peers, token, "b").watch(MODERN, ["db://shop/tag"])

    Tag.objects.create(name="b:2")

    assert second.uris(1) == ["db://shop/tag"]
    assert_nothing_but(first, "db://flights/airline/UA", airline.save)


@pytest.mark.parametrize("transport", PUSHING)
def test_what_a_call_leaves_in_its_context_is_not_seen_by_the_next_user(users: Any, tenant_peers: Peers) -> None:
    admin, viewer = tenant_peers(token_of(users.admin)), tenant_peers(token_of(users.viewer))

    said = [peer.call("visit")["content"][0]["text"] for peer in (admin, viewer, admin)]

    assert said == ["nobody", "nobody", "nobody"]
