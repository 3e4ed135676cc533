from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_django.console.admin import overview


@pytest.fixture(autouse=True)
def _forget_days() -> Iterator[None]:
    """No test sees the days that another one has counted."""
    overview.forget()
    yield
    overview.forget()
