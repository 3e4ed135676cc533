from __future__ import annotations

import pytest


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Requests are answered in other threads."""
