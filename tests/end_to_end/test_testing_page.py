"""docs/testing.md is true: its example is run as the tests of a fresh project, whose database is in memory."""

from __future__ import annotations

import re

from tests.end_to_end.servers import ROOT, Project
from tests.end_to_end.test_readme import shop  # noqa: F401 - the fixture

PAGE = (ROOT / "docs/testing.md").read_text()


def test_the_example_passes_in_a_fresh_project(shop: Project) -> None:  # noqa: F811
    [example] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shop.folder / "shop/tests.py").write_text(example)

    shop.manage("test", "shop")
