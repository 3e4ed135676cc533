"""The rows that a fault is tried on, by what happens to them, and who may see them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FLIGHTS, PLANES = "db://flights/flight", "db://flights/plane"
#: What everybody may see; its change is told after everything that was told before.
MARKER = f"{PLANES}/MARKER"

#: Who listens: staff who see every flight, staff who see those from JFK, and staff who see planes alone.
EVERYTHING, JFK, NO_FLIGHTS = "everything", "jfk", "no_flights"
VIEWS = (EVERYTHING, JFK, NO_FLIGHTS)


@dataclass
class Rows:
    """URIs of rows. Each pair of flights is one from JFK and one from elsewhere, unless it says otherwise."""

    #: Changed before the fault, while it lasts, and after it.
    early: list[str] = field(default_factory=list)
    during: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    #: Changed once while the fault lasts, by a process that ends right after it.
    brief: list[str] = field(default_factory=list)
    #: Changed in transactions and savepoints alone that are rolled back.
    phantom: list[str] = field(default_factory=list)
    #: From JFK: they leave for elsewhere before the fault or while it lasts, or are deleted while it lasts.
    left: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    #: Planes, which everybody sees.
    planes: list[str] = field(default_factory=list)
    #: All flights that are from JFK at the beginning.
    from_jfk: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        return [
            *self.early, *self.during, *self.late, *self.brief, *self.phantom, *self.left, *self.leaving, *self.gone,
            *self.planes,
        ]  # fmt: skip

    def is_visible(self, uri: str, view: str) -> bool:
        """Whether the row may be seen in the view at the beginning."""
        return uri.startswith(PLANES) or view == EVERYTHING or (view == JFK and uri in self.from_jfk)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def key_of(uri: str) -> str:
    return uri.rpartition("/")[2]
