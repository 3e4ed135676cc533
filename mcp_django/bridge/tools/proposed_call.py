"""A call of a project's function as an agent proposes it, where people must agree before the function runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from django.core.files import File
from django.db import models
from pydantic_core import from_json, to_json

from mcp_django.access.permissions import has_permission
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import ANSWER, Proposed
from mcp_django.bridge.declared.consent import Considered, Needs, needs_of
from mcp_django.bridge.resources.policy import row_values
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.policy.row_values import KeyOf
from mcp_django.bridge.signatures import call_handler
from mcp_django.bridge.tools.results import done_result
from mcp_django.core import failures
from mcp_django.core.db.rolling_back import rolled_back
from mcp_django.exceptions import ToolError
from mcp_django.models import Change
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.tools.function import FunctionTool
    from mcp_django.exchange.exchange import Exchange

logger = logging.getLogger("mcp_django")


@dataclass
class ProposedCall(Proposed):
    """A call with the values that the function gets. Nobody knows what it writes, so it runs in no transaction."""

    kind = Change.Kind.CALL
    counts_writes = False
    operation = label = using = ""

    tool: FunctionTool
    exchange: Exchange
    arguments: JSON
    values: JSON

    @property
    def keys(self) -> Sequence[Any]:
        return ()

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @cached_property
    def declared(self) -> Needs:
        return needs_of(self.tool.consent, "preview", self._considered)

    def _considered(self) -> Iterator[Considered]:
        principal = self.exchange.principal
        yield Considered("call", self.row_count, {}, self.values, principal.user, principal.lineage)

    @cached_property
    def state(self) -> JSON:  # type: ignore[override]
        """What its preview says now: if that differs by the time at which the call is made, nothing is run."""
        key_of = partial(row_values.key_of, Rights.of(self.exchange.site, self.exchange.request))
        if self.tool.preview is None:
            return {name: _plain(value, key_of) for name, value in self.arguments.items()}
        with rolled_back():
            shown = call_handler(
                self.tool.preview, self.exchange.request, self.values, name=self.tool.name, on_loop=False
            )
        if not isinstance(shown, Mapping):
            raise TypeError(f"The preview of the tool {self.tool.name} must return a dict, and not {shown!r:.100}")
        return {str(name): _plain(value, key_of) for name, value in shown.items()}

    @property
    def _rows(self) -> list[models.Model]:
        return [value for value in self.values.values() if isinstance(value, models.Model)]

    @property
    def parts(self) -> Sequence[Effect]:
        rows = (Effect("on", self._label_of(row), str(row.pk)) for row in self._rows)
        return [Effect("run", "", title=self.tool.get_title()), *rows]

    def _label_of(self, row: models.Model) -> str:
        return Rights.label_of(type(row))

    @cached_property
    def effects(self) -> Sequence[Effect]:
        run, *rows = self.parts
        diff = [{"field": name, "after": value} for name, value in self.state.items()]
        return [Effect("run", "", diff=diff, title=run.title), *rows]

    def may_be_done_by(self, rights: Rights) -> bool:
        return has_permission(rights.request, self.tool.permission)

    def preview(self) -> JSON:
        return {"tool": self.tool.name, "would": self.state}

    def summary(self, *, values: bool) -> Sequence[Line]:
        rights = Rights.of(self.exchange.site, self.exchange.request)
        found = self.effects if values else self.parts
        return lines_of((one, rights.of_label(one.model) if one.model else None) for one in found)

    def apply(self, by: str) -> JSON:
        answer = self._answer()
        texts = [block["text"] for block in answer.get("content", ()) if block["type"] == "text"]
        kept = answer.get("structuredContent", "\n".join(texts))
        return {"tool": self.tool.name, "result": kept, ANSWER: answer}

    def _answer(self) -> JSON:
        """The result of the function. One that cannot be shown is no reason to call it again."""
        try:
            return self.tool.call(self.exchange, self.values, on_loop=False)
        except Exception as error:
            if not self.exchange.usage.is_done:
                raise
            if not isinstance(error, ToolError):
                failures.note(error)
            logger.exception("The result of the tool %s cannot be shown", self.tool.name)
            return done_result(error.message if isinstance(error, ToolError) else "The server's log has the details.")


def _plain(value: Any, key_of: KeyOf) -> Any:
    """A value as JSON: that of a preview is for people, so what has no JSON is its text, and a row is its key."""
    if isinstance(value, File):
        return value.name
    return from_json(to_json(value, fallback=partial(row_values.as_text, key_of=key_of)))
