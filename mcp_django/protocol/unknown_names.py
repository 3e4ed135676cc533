"""Texts for unknown names and values, with those that the reader may have meant. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice

#: From this similarity on, a name may have been meant.
_SIMILAR = 0.6
_MAX_SHOWN = 100

#: How many letters may be wrong in a name that was misspelt, and in one of so many letters.
_SLIPS, _MANY_SLIPS, _LONG = 1, 2, 8
#: In front of a getter, which makes no name longer.
_GETTER = "get_"

#: Suggested values, all of them almost as near as the first.
_MAX_MEANT = 3
_CLOSE = 0.1
#: What is read of a text, and what is compared letter by letter, which takes up to the cube of the length.
_MAX_TEXT = 100
#: Of more values, the first ones are compared.
_MAX_KNOWN = 2_000
_MAX_COMPARED = 40


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` Did you mean x?``, or an empty text if no other allowed name is similar."""
    return did_you_mean([meant]) if (meant := nearest_name(name, allowed)) else ""


def nearest_name(name: str, allowed: Iterable[str]) -> str:
    """The allowed name that is nearest to another one, or an empty text if none is similar.

    The parts behind the last dot are compared first: ``flight`` is meant for ``flights.flight``, and not for
    ``flights.plane``.
    """
    scores = {other: _similarity(name, other) for other in allowed if other != name}
    similar = [other for other, score in scores.items() if max(score) >= _SIMILAR]
    return max(similar, key=scores.__getitem__, default="")


def _similarity(name: str, other: str) -> tuple[float, float]:
    """How similar the parts behind the last dot are, from 0 to 1, and the names as a whole."""
    name, other = name.lower(), other.lower()
    return _ratio(name.rpartition(".")[2], other.rpartition(".")[2]), _ratio(name, other)


def _ratio(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other)
    # ``ratio`` is costly, and never more than ``quick_ratio``.
    return matcher.ratio() if matcher.quick_ratio() >= _SIMILAR else 0.0


def misspelt(name: str, known: Iterable[str]) -> str:
    """The known name that this one is but for a wrong letter, or two in a long one; empty where it is another name.

    Capitals do not count: ``getQueryset`` is ``get_queryset``.
    """
    for other in known:
        allowed = _SLIPS if len(other.removeprefix(_GETTER)) < _LONG else _MANY_SLIPS
        if abs(len(name) - len(other)) <= allowed and _slips(name.lower(), other) <= allowed:
            return other
    return ""


def _slips(one: str, other: str) -> int:
    """How many letters are missing, too many, wrong or in the wrong order, each two of them once."""
    before: list[int] = []
    line = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        earlier, before, line = before, line, [row]
        for column, expected in enumerate(other, 1):
            line.append(min(before[column] + 1, line[-1] + 1, before[column - 1] + (letter != expected)))
            if row > 1 and column > 1 and (letter, expected) == (other[column - 2], one[row - 2]):
                line[-1] = min(line[-1], earlier[column - 2] + 1)
    return line[-1]


def unknown_name(what: str, name: str, allowed: Sequence[str], meant: str = "") -> str:
    """The text for an unknown name, with the nearest allowed name and the allowed names, up to 100 of them.

    ``meant`` is what the name stands for, where that is known better than by its letters.
    """
    hint = did_you_mean([meant]) if meant else nearest(name[:100], allowed)
    return f"no {what} {name[:100]!r}.{hint} {allowed_names(allowed)}"


def allowed_names(allowed: Sequence[str]) -> str:
    """``Allowed: a, b.``, with up to 100 of the names."""
    shown = [*allowed[:_MAX_SHOWN], *([f"and {len(allowed) - _MAX_SHOWN} more"] if len(allowed) > _MAX_SHOWN else [])]
    return f"Allowed: {', '.join(shown) or 'none'}."


def did_you_mean(names: Sequence[str]) -> str:
    """`` Did you mean a or b?``; an empty text without names."""
    return f" Did you mean {' or '.join(names)}?" if names else ""


def nearest_values(value: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """Those of the known values that are nearest to a value, at most three, the nearest first.

    Each is known by texts, as ``{"UA": ["UA", "United Air Lines Inc."]}``. Where another text than the value itself is
    the nearest, it stands beside it: ``UA, United Air Lines Inc.``
    """
    scores: dict[str, float] = {}
    for other, texts in islice(known.items(), _MAX_KNOWN):
        score, text = max(((_likeness(value, text), text) for text in texts), key=lambda pair: pair[0], default=(0, ""))
        if score >= _SIMILAR and other != value:
            scores[other if text == other else f"{other}, {text}"] = score
    best = sorted(scores, key=lambda other: -scores[other])[:_MAX_MEANT]
    return [other for other in best if scores[other] > scores[best[0]] - _CLOSE]


def _likeness(value: str, text: str) -> float:
    """How likely the text is meant by the value, from 0 to 1: as a whole, by its beginning, or by one of its words."""
    value, text = value[:_MAX_TEXT].lower().strip(), text[:_MAX_TEXT].lower().strip()
    if value == text:
        return 1.0
    if len(value) > 1 and text.startswith(value):
        return 0.95
    if len(value) > 2 and f" {value}" in text:
        return 0.9
    if len(text) > 1 and text in value.split():
        return 0.85
    beginning = value[:_MAX_COMPARED]
    words = [] if " " in value else [0.9 * _ratio(beginning, word[:_MAX_COMPARED]) for word in text.split()]
    return max([_ratio(beginning, text[:_MAX_COMPARED]), *words])
