from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_django.admin import overview
from mcp_django.audit.recorder import recorder


@pytest.fixture(autouse=True)
def _forget_days() -> Iterator[None]:
    """No test sees the days that another one has counted."""
    overview.forget()
    yield
    overview.forget()


@pytest.fixture
def trail(settings: Any) -> Iterator[None]:
    """Calls are written down."""
    recorder._reset()
    settings.MCP = {**settings.MCP, "AUDIT": "on"}
    yield
    recorder._reset()
