from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_django.console.admin import call_chart


@pytest.fixture(autouse=True)
def _forget_days() -> Iterator[None]:
    """No test sees what another one has counted."""
    call_chart.forget()
    yield
    call_chart.forget()
