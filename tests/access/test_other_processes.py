"""Rights that one process takes away end in another: what may write at once, what reads within TOKEN_CACHE_SECONDS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection

from mcp_django.models import AccessToken, Tool
from tests.end_to_end.servers import wait_for
from tests.push.processes import POSTGRESQL, ServedPeer, bus, run_python, served

pytestmark = [pytest.mark.every_database, pytest.mark.slow]

#: What a server hears of the others by; under WSGI it hears nothing.
BUSES = ["redis", "nats", "no broker", "wsgi", *(["postgresql"] if connection.vendor == "postgresql" else [])]
CHANGES = {
    "a token is revoked": "token.revoke()",
    "a user is deactivated": "user.is_active = False; user.save()",
    "a permission is taken away": "user.user_permissions.clear()",
    "a user leaves a group": "user.groups.set([])",
    "a group loses a permission": "user.groups.get().permissions.clear()",
    # The last one: a server that remembers does not hear that the next test switches them on.
    "the tools are switched off": "[(setattr(tool, 'enabled', False), tool.save()) for tool in Tool.objects.all()]",
}
#: No signal tells of it: whoever remembers the user learns of it when the time is over.
SILENTLY = {"a user is deactivated by update()": "User.objects.filter(pk=user.pk).update(is_active=False)"}


class Deployed(NamedTuple):
    origin: str
    prefix: str
    layer: str


@pytest.fixture(scope="module", params=BUSES)
def deployed(
    request: pytest.FixtureRequest, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """A server. With a broker it would remember for an hour, so that only the news of a change can end that."""
    is_wsgi = request.param == "wsgi"
    prefix, layer = bus("no broker" if is_wsgi else request.param)
    log: Path = tmp_path_factory.mktemp("deployed") / "log"
    with pytest.MonkeyPatch.context() as patched:
        if prefix or layer == POSTGRESQL:
            patched.setenv("TEST_TOKEN_CACHE_SECONDS", "3600")
        server = "gunicorn" if is_wsgi else "uvicorn"
        with served(server, prefix, log, layer, module="tests.access.two_tools") as origin:
            yield Deployed(origin, prefix, layer)


@pytest.fixture
def peer(deployed: Deployed, transactional_db: None) -> Iterator[ServedPeer]:
    user = User.objects.create_user("ada")
    group = Group.objects.create(name="viewers")
    for name in ("look", "book"):
        Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True})
    token = AccessToken.objects.create_token(user=user, scopes=["read", "actions"])[1]
    made = ServedPeer(token, deployed.origin)
    made.user, made.group = user, group  # type: ignore[attr-defined]
    yield made
    made.close()


def grant(peer: Any, *, by_group: bool) -> None:
    permission = Permission.objects.get(codename="view_flight")
    if by_group:
        peer.group.permissions.add(permission)
        peer.user.groups.add(peer.group)
    else:
        peer.user.user_permissions.add(permission)


def may(peer: ServedPeer, tool: str) -> bool:
    """Whether the server lets the client call the tool."""
    params = {"name": tool, "arguments": {}, "_meta": peer.meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = peer.post(message, peer.modern_headers("tools/call", params))
    refused = answer.status == 401 or answer.json.get("error", {}).get("data", {}).get("reason") == "TOOL_NOT_FOUND"
    assert refused or "result" in answer.json, answer
    return not refused and not answer.json["result"].get("isError")


def change(deployed: Deployed, code: str) -> None:
    run_python(
        f"""
from django.contrib.auth.models import User
from mcp_django.models import AccessToken, Restriction, Tool
user, token = User.objects.get(username="ada"), AccessToken.objects.get()
{code}
""",
        deployed.prefix,
        layer=deployed.layer,
    )


@pytest.mark.parametrize("code", SILENTLY.values(), ids=SILENTLY)
def test_a_right_that_is_taken_away_without_a_signal(deployed: Deployed, peer: ServedPeer, code: str) -> None:
    grant(peer, by_group=False)
    assert may(peer, "look") and may(peer, "book")

    change(deployed, code)

    assert not may(peer, "book")
    if not deployed.prefix and deployed.layer != POSTGRESQL:
        wait_for(lambda: not may(peer, "look"), "the end of the right to read")


def test_agents_that_another_process_pauses_and_lets_go_on(deployed: Deployed, peer: ServedPeer) -> None:
    """What may write reads the pause at once, and what is trusted for an hour ends within a second."""
    grant(peer, by_group=False)
    assert may(peer, "look") and may(peer, "book")

    change(deployed, "Restriction.objects.create(kind='user', name=str(user.pk), reason='An incident')")

    assert not may(peer, "book")
    wait_for(lambda: not may(peer, "look"), "the pause")
    change(deployed, "Restriction.objects.all().delete()")
    assert may(peer, "book")
    wait_for(lambda: may(peer, "look"), "the end of the pause")


@pytest.mark.parametrize("code", CHANGES.values(), ids=CHANGES)
def test_a_right_that_another_process_takes_away(deployed: Deployed, peer: ServedPeer, code: str) -> None:
    grant(peer, by_group="group" in code)
    assert may(peer, "look") and may(peer, "book")

    change(deployed, code)

    assert not may(peer, "book")
    wait_for(lambda: not may(peer, "look"), "the end of the right to read")
