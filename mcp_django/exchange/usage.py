"""What a request has read and changed: the audit trail and the budgets of its caller count it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_django.exceptions import MCPError


@dataclass(slots=True)
class Usage:
    """What one run of a handler has read and changed so far."""

    #: ``app_label.model_name`` of the model that it was about.
    model: str = ""
    #: Rows of the answer. A group of an aggregate counts as a row.
    rows: int = 0
    #: How many of the rows were counted against budgets already.
    spent_rows: int = 0
    #: The primary keys of the rows that it changed, or may have changed.
    changed: list[Any] = field(default_factory=list)
    #: Whether a tool that may change data has done its work: from then on, nothing may look as if it had not.
    is_done: bool = False
    #: Whether it has, and something else than its result was answered.
    is_result_lost: bool = False
    #: The name of the tool or prompt, once the caller was found to be allowed to use it.
    found: str = ""
    #: The names of the arguments that it declares, where the project does not declare the tool itself.
    declared: Collection[str] = ()
    #: Why the caller may not use what was asked for. The client is not told: to it, a refused tool does not exist.
    refusal: str = ""
    #: Bytes of the answer, and of the chunks of the result that went ahead of it.
    bytes: int = 0
    streamed: int = 0
    #: What came of the run, as ``Call.Outcome`` names it, and the error that ended it, with its reason for the trail.
    outcome: str = "done"
    reason: str = ""
    error: MCPError | None = None
    #: Values of arguments that the project allows in the audit trail.
    values: dict[str, Any] = field(default_factory=dict)
    #: The primary key of the line that was written before the run.
    intent: Any = None
    #: The token that confirms what the run has previewed.
    confirm: str = field(default="", repr=False)

    def read(self, model: str, rows: int) -> None:
        """``rows`` more rows of a model are in the answer."""
        self.model = model
        self.rows += rows

    def change(self, model: str, keys: Iterable[Any]) -> None:
        """The rows of these keys are about to be changed."""
        self.model = model
        self.changed.extend(keys)
