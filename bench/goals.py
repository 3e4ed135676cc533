"""Goals of the measurements."""

from __future__ import annotations

from dataclasses import dataclass

#: Units of which parts matter.
_FINE = ("times", "ms", "µs", "s", "kB")


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that was measured, and what it may be at most."""

    what: str
    measured: float
    limit: float
    unit: str = "times"

    @property
    def holds(self) -> bool:
        return self.measured <= self.limit

    def __str__(self) -> str:
        number = ".2f" if self.unit in _FINE else ",.0f"
        figures = f"{self.measured:{number}} {self.unit} (at most {self.limit:{number}})"
        return f"  {'PASS' if self.holds else 'MISS'}  {self.what}: {figures}"
