"""Known differences of an API: patterns, each with its reason in a file. ``*`` stands for any text."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: How a line begins that says of an answer which HTTP forbids. No reason is good enough for it.
LEAK = "LEAK: "


def wrong_lines(known: Iterable[str], found: Iterable[str], *, is_whole: bool) -> list[str]:
    """What differs by no known pattern (+), and the patterns that nothing differs by any more (-).

    The latter only where the whole API was compared.
    """
    patterns = {one: _compiled(one) for one in known}
    used: set[str] = set()
    wrong = []
    for line in found:
        fitting = {pattern for pattern, compiled in patterns.items() if compiled.fullmatch(line)}
        used |= fitting
        if not fitting or LEAK in line:
            wrong.append(f"+ {line}")
    return [*wrong, *(f"- {one}" for one in patterns if is_whole and one not in used)]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
