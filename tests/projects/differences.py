"""The file of a project's differences: one a line, in order, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

_REASON = " -- "


def read(path: Path) -> dict[str, str]:
    """The differences in the file, each with its reason. Raises ValueError for a line that has none."""
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        if not line or line.startswith("#"):
            continue
        difference, _, reason = line.partition(_REASON)
        if not reason.strip():
            raise ValueError(f"{path.name}:{number}: a reason is missing behind '{_REASON.strip()}'.")
        found[difference] = reason.strip()
    return found


def write(path: Path, found: Iterable[str], known: Mapping[str, str]) -> None:
    """Write the differences with the reasons that are known. A person writes the others."""
    path.write_text("".join(f"{one}{_REASON}{known.get(one, '')}\n" for one in sorted(found)))


def compare(known: Iterable[str], found: Iterable[str]) -> list[str]:
    """The lines by which the file is out of date: those that are new (+), and those that are gone (-)."""
    before, after = set(known), set(found)
    return [f"{'+' if one in after else '-'} {one}" for one in sorted(before ^ after)]
