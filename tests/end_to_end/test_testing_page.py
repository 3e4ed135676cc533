"""docs/testing.md is true: its example passes in a fresh project, whose database is in memory."""

from __future__ import annotations

from tests.end_to_end.servers import Project
from tests.end_to_end.test_readme import shop  # noqa: F401 - the fixture


def test_the_example_passes_in_a_fresh_project(shop: Project) -> None:  # noqa: F811
    assert "class OrderTests" in (shop.folder / "shop/tests.py").read_text()

    shop.manage("test", "shop")
