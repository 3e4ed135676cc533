from __future__ import annotations

from typing import Any

import pytest

from mcp_django import __version__
from tests.support.base import offered
from tests.support.peers import LEGACY, MODERN, REVISIONS, Peer

pytestmark = pytest.mark.every_transport


def test_discover_has_the_capabilities_of_the_transport(admin: Peer) -> None:
    result = admin.result(MODERN, "server/discover")

    assert result == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": offered(MODERN, push=admin.push),
        "instructions": result["instructions"],
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "django", "version": __version__}},
    }


@pytest.mark.parametrize("revision", LEGACY)
def test_ping_is_answered_in_every_legacy_revision(admin: Peer, revision: str) -> None:
    assert admin.result(revision, "ping") == {}


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_list_is_valid_in_every_revision(admin: Peer, revision: str, flights: Any) -> None:
    tools = admin.result(revision, "tools/list")["tools"]
    resources = admin.result(revision, "resources/list")["resources"]
    templates = admin.result(revision, "resources/templates/list")["resourceTemplates"]

    assert "find_records" in [tool["name"] for tool in tools]
    assert "db://flights/flight" in [resource["uri"] for resource in resources]
    assert "db://flights/flight/{id}" in [template["uriTemplate"] for template in templates]
