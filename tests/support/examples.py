"""How many examples a property is tried with: all of them in the lane ``release``, a quarter in the others."""

from __future__ import annotations

from hypothesis import settings

#: What Hypothesis tries where a test says nothing, and what it tries of that before a release.
FEW, ALL = 25, 100


def examples(number: int) -> int:
    """So many of ``number`` examples as the lane tries. ``tests/conftest.py`` chooses the profile."""
    return max(1, number * settings.default.max_examples // ALL)
