from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import differences


@pytest.mark.parametrize("line", ["mcp shop.order: no total", "mcp shop.order: no total -- "])
def test_a_difference_without_a_reason_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "shop.differences.txt"
    file.write_text(f"{line}\n")

    with pytest.raises(ValueError, match=r"shop\.differences\.txt:1: a reason is missing"):
        differences.read(file)


def test_a_file_that_is_written_anew_keeps_the_reasons_that_it_had(tmp_path: Path) -> None:
    file = tmp_path / "shop.differences.txt"

    differences.write(file, ["b: no y", "a: no x"], {"a: no x": "a secret", "gone": "an older one"})

    assert file.read_text() == "a: no x -- a secret\nb: no y -- \n"
