"""An action of the admin on rows, as an agent proposes it: with rows that were shown first, or that people agree to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db import router

from mcp_django.bridge.changes import row_names
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import ANSWER, Proposed
from mcp_django.bridge.declared.consent import Considered, Level, Needs, needs_of
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools.action_rows import preview
from mcp_django.models import Change
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.bridge.tools.actions import AdminActionTool
    from mcp_django.exchange.exchange import Exchange


@dataclass
class ProposedAction(Proposed):
    """The rows on which the action would run, and what named them."""

    kind = Change.Kind.ACTION
    counts_writes = False
    operation = ""

    tool: AdminActionTool
    exchange: Exchange
    chosen: ChosenRows
    #: ``{"ids": [..]}`` in the order of texts, or ``{"filter": {..}}``.
    arguments: JSON

    def __post_init__(self) -> None:
        self.label = self.tool.model_mcp.label
        self.using = router.db_for_write(self.tool.model_mcp.model)

    @property
    def changed(self) -> str:  # type: ignore[override]
        return f"The rows have changed since: {self.row_count} match now."

    @property
    def keys(self) -> Sequence[Any]:
        return self.chosen.keys

    @property
    def row_count(self) -> int:
        return len(self.chosen.keys)

    @property
    def _rights(self) -> ModelRights | None:
        return Rights(self.exchange.site, self.exchange.request, from_primary=True).of_label(self.label)

    @cached_property
    def declared(self) -> Needs:
        return needs_of(self.tool.consent, "preview", self._considered)

    def _considered(self) -> Iterator[Considered]:
        rights, principal = self._rights, self.exchange.principal
        columns = {} if rights is None else {name: one.attname for name, one in rights.columns.items()}
        for row in self.chosen.stored(self.using):
            before = {name: getattr(row, attname) for name, attname in columns.items() if hasattr(row, attname)}
            yield Considered("action", self.row_count, before, {}, principal.user, principal.lineage)

    @cached_property
    def state(self) -> JSON:  # type: ignore[override]
        """The rows; with the names that people were shown, where people must agree."""
        keys = sorted(map(str, self.keys))
        rights = self._rights
        if rights is None or self.needs.level is Level.PREVIEW:
            return {"keys": keys}
        return {"keys": keys, "names": row_names.names_of(rights, self.keys)}

    @property
    def parts(self) -> Sequence[Effect]:
        rows = (Effect("on", self.label, key) for key in sorted(map(str, self.keys)))
        return [Effect("run", "", title=self.tool.get_title()), *rows]

    @property
    def effects(self) -> Sequence[Effect]:
        return self.parts

    def may_be_done_by(self, rights: Rights) -> bool:
        return self.tool.is_available(rights.request)

    def preview(self) -> JSON:
        """How many rows there are, some of them, and what is there now, in lines. Raises TooSlow."""
        conditions = self.arguments.get("filter", {})
        request, chosen = self.exchange.request, self.chosen
        lines = preview(self.tool.model_mcp, request, conditions, chosen, self.tool.changes)
        return {"count": self.row_count, "lines": lines}

    def summary(self, *, values: bool) -> Sequence[Line]:
        rights = self._rights
        return lines_of((one, rights if one.model else None) for one in self.parts)

    def apply(self, by: str) -> JSON:
        answer = self.tool.act(self.exchange, self.chosen, by)
        said = [block["text"] for block in answer["content"] if block["type"] == "text"]
        return {"tool": self.tool.name, "model": self.label, "said": "\n".join(said), ANSWER: answer}
