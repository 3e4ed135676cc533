"""Texts for unknown names, with the name that the reader may have meant. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

#: From this similarity on, a name may have been meant.
_SIMILAR = 0.6
_MAX_SHOWN = 100


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` Did you mean x?``, or an empty text if no other allowed name is similar.

    The parts behind the last dot are compared first: ``flight`` is meant for ``flights.flight``, and not for
    ``flights.plane``.
    """
    scores = {other: _similarity(name, other) for other in allowed if other != name}
    similar = [other for other, score in scores.items() if max(score) >= _SIMILAR]
    return f" Did you mean {max(similar, key=scores.__getitem__)}?" if similar else ""


def _similarity(name: str, other: str) -> tuple[float, float]:
    """How similar the parts behind the last dot are, from 0 to 1, and the names as a whole."""
    name, other = name.lower(), other.lower()
    return _ratio(name.rpartition(".")[2], other.rpartition(".")[2]), _ratio(name, other)


def _ratio(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other)
    # The second is costly, and never more than the first.
    return matcher.ratio() if matcher.quick_ratio() >= _SIMILAR else 0.0


def unknown_name(what: str, name: str, allowed: Sequence[str]) -> str:
    """The text for an unknown name, with the nearest allowed name and the allowed names, up to 100 of them."""
    shown = [*allowed[:_MAX_SHOWN], *([f"and {len(allowed) - _MAX_SHOWN} more"] if len(allowed) > _MAX_SHOWN else [])]
    return f"no {what} {name[:100]!r}.{nearest(name[:100], allowed)} Allowed: {', '.join(shown) or 'none'}."
