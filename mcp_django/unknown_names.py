"""Texts for unknown names, with the name that the reader may have meant. Imports nothing of ours."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` Did you mean x?``, or an empty text if no allowed name is similar."""
    matches = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]}?" if matches else ""


def unknown_name(what: str, name: str, allowed: Sequence[str]) -> str:
    """The text for an unknown name, with the nearest allowed name and all allowed names."""
    return f"no {what} {name[:100]!r}.{nearest(name[:100], allowed)} Allowed: {', '.join(allowed) or 'none'}."
