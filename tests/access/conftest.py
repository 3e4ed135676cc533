from __future__ import annotations

import pytest

from mcp_django.exchange import rates
from tests.access.throttling import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all limits, which stands still."""
    clock = Clock()
    monkeypatch.setattr(rates, "now", clock)
    return clock
