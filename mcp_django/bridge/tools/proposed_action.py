"""An action of the admin on rows, as an agent proposes it: with rows that were shown first, or that people agree to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db import router, transaction

from mcp_django.bridge.changes import row_names
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import ANSWER, Proposed
from mcp_django.bridge.declared.consent import Considered, Level, Needs, needs_of
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools.action_pages import AGAIN, FormShown
from mcp_django.bridge.tools.action_rows import preview
from mcp_django.exceptions import ToolError
from mcp_django.models import Change
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.changes.confirmations import Confirmation
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.tools.acting import ActingTool
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.exchange.exchange import Exchange


class _NoPage(Exception):
    """Rolls back a run that was to show a page."""


@dataclass
class ProposedAction(Proposed):
    """The rows on which the action would run, and what named them."""

    kind = Change.Kind.ACTION
    counts_writes = False
    operation = ""

    tool: ActingTool
    exchange: Exchange
    chosen: ChosenRows
    #: ``{"ids": [..]}`` in the order of texts, or ``{"filter": {..}}``.
    named: JSON
    #: The answers to its pages.
    pages: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        self.arguments = {**self.named, "pages": list(self.pages)} if self.pages else self.named
        self._confirmation: Confirmation | None = None
        #: Whether it is run for its page alone, and rolled back; and what is to be sent of that page, if that is known.
        self.is_trial = False
        self.next_answer: Mapping[str, Any] | None = None
        self.label = self.tool.model_mcp.label
        self.using = router.db_for_write(self.tool.model_mcp.model)

    @property
    def changed(self) -> str:  # type: ignore[override]
        return (
            "The rows or the page have changed since."
            if self.pages
            else (f"The rows have changed since: {self.row_count} match now.")
        )

    @property
    def again(self) -> str:  # type: ignore[override]
        return AGAIN if self.pages else "Call again without confirm, and then with the token of that answer."

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
        """The rows, with the names that people were shown, where people must agree; and the last page."""
        return self.state_with(self.page_after(self.pages[:-1], self.pages[-1])) if self.pages else self._rows

    def state_with(self, page: JSON) -> JSON:
        return {**self._rows, "page": page}

    @cached_property
    def _rows(self) -> JSON:
        keys = sorted(map(str, self.keys))
        rights = self._rights
        if rights is None or self.needs.level is Level.PREVIEW:
            return {"keys": keys}
        return {"keys": keys, "names": row_names.names_of(rights, self.keys)}

    # Pages.

    @property
    def bound(self) -> JSON:
        """What its token was given for: all answers but the last one, which is to the page that came with the token."""
        return {**self.named, "pages": list(self.pages[:-1])} if len(self.pages) > 1 else self.named

    def check(self, confirmation: Confirmation) -> None:
        if self.pages and self.needs.level is Level.PREVIEW:
            # The run comes to the page in any case, and each time that it is shown, it may send mails.
            self._confirmation = confirmation
        else:
            super().check(confirmation)

    def check_page(self, description: JSON) -> None:
        """Called by the run before the last answer is sent. Raises ToolError if rows or page are other ones by now."""
        if self._confirmation is not None:
            self._confirmation.check(self.state_with(description), self.changed)

    def page_after(self, pages: Sequence[Mapping[str, Any]], answer: Mapping[str, Any] | None = None) -> JSON:
        """The page that comes after these answers, from a run that is rolled back.

        Raises ToolError if none comes, and where the page cannot take the next ``answer``: nobody is asked in vain.
        """
        trial = ProposedAction(self.tool, self.exchange, self.chosen, self.named, pages)
        trial.is_trial, trial.next_answer = True, answer
        trial.least = self.least
        try:
            with transaction.atomic(using=self.using):
                self.tool.act(self.exchange, trial, "")
                raise _NoPage
        except FormShown as shown:
            return shown.description
        except _NoPage:
            raise ToolError(
                "The action acts where a page was expected. All was rolled back; what it sent elsewhere, such as mail, "
                "was not taken back. Declare how many pages it shows: @mcp_django.action(shows_page=…)."
            ) from None
        finally:
            self.exchange.usage.is_done = False

    @property
    def parts(self) -> Sequence[Effect]:
        rows = (Effect("on", self.label, key) for key in sorted(map(str, self.keys)))
        return [Effect("run", "", title=self.tool.get_title()), *rows]

    @property
    def effects(self) -> Sequence[Effect]:
        run, *rows = self.parts
        return [replace(run, diff=list(self._answers())), *rows]

    def _answers(self) -> Iterator[JSON]:
        """What is given for its pages."""
        for number, page in enumerate(self.pages, 1):
            of_page = f" (page {number})" if len(self.pages) > 1 else ""
            yield from ({"field": f"{name}{of_page}", "after": value} for name, value in page.get("values", {}).items())
            if page.get("button"):
                yield {"field": f"button{of_page}", "after": page["button"]}

    def may_be_done_by(self, rights: Rights) -> bool:
        return self.tool.is_available(rights.request) and self.tool.start(rights.request, self.chosen) is not None

    def preview(self) -> JSON:
        """How many rows there are, some of them, and what is there now, in lines. Raises TooSlow."""
        conditions = self.arguments.get("filter", {})
        request, chosen = self.exchange.request, self.chosen
        lines = preview(self.tool.model_mcp, request, conditions, chosen, self.tool.changes)
        return {"count": self.row_count, "lines": lines}

    def summary(self, *, values: bool) -> Sequence[Line]:
        rights = self._rights
        told = self.effects if values else self.parts
        return lines_of((one, rights if one.model else None) for one in told)

    def apply(self, by: str) -> JSON:
        answer = self.tool.act(self.exchange, self, by)
        said = [block["text"] for block in answer["content"] if block["type"] == "text"]
        return {"tool": self.tool.name, "model": self.label, "said": "\n".join(said), ANSWER: answer}
