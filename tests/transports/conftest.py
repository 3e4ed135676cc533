from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_django.bridge import sites
from tests.support.peers import Peers
from tests.transports import tenants
from tests.transports.gates import Gate


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Requests are answered in other threads."""


@pytest.fixture
def tenant_peers(peers: Peers, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peers]:
    """Peers of a site that keeps tenants apart."""
    site = tenants.make_site()
    monkeypatch.setitem(sys.modules, tenants.URLCONF, tenants.make_urls(site))
    settings.ROOT_URLCONF = tenants.URLCONF
    peers.site = site
    yield peers
    sites._sites.discard(site)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A tool ``enter`` that waits until the test opens the gate."""
    made = Gate()
    yield made
    made.remove()
