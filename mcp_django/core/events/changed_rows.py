"""Changes: the keys of the rows that were written and deleted, by database and model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_django.protocol.types import JSON

#: The number of changed rows of a model in one transaction beyond which the change is that of the whole model.
MAX_CHANGED_KEYS = 1_000


@dataclass(slots=True)
class ModelChange:
    """The changed rows of one model, on one database."""

    #: The keys of the rows that were written, as text. None: the model changed, in rows that are unknown or too many.
    written: set[str] | None = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    def merge(self, written: Iterable[str] | None, deleted: Iterable[str]) -> None:
        if written is None or self.written is None:
            self.written = None
        else:
            self.written.update(written)
        self.deleted.update(deleted)
        if self.written is not None and len(self.written) + len(self.deleted) > MAX_CHANGED_KEYS:
            self.written = None
        if self.written is None:
            self.deleted.clear()


class Changes(dict[tuple[str, str], ModelChange]):
    """ModelChange by (database alias, label of the concrete model)."""

    def note(self, alias: str, label: str, written: Iterable[str] | None = (), deleted: Iterable[str] = ()) -> None:
        change = self.get((alias, label))
        if change is None:
            change = self[alias, label] = ModelChange()
        change.merge(written, deleted)

    def absorb(self, other: Changes) -> None:
        for (alias, label), change in other.items():
            self.note(alias, label, change.written, change.deleted)

    def as_json(self) -> list[JSON]:
        """The changes as an event carries them."""
        return [
            {
                "alias": alias,
                "label": label,
                "written": None if change.written is None else sorted(change.written),
                "deleted": sorted(change.deleted),
            }
            for (alias, label), change in self.items()
        ]
