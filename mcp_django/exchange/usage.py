"""What a request has read and changed: the audit trail and the budgets of its caller count it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_django.exceptions import MCPError

#: Wrong values that the trail names.
_MOST_WRONG = 20
_MISSING = re.compile(r"'([^']{1,100})' is a required property")


def _place_of(error: Any) -> str:
    """Where the wrong value of a ``field_error`` is. Errors of a project may be anything."""
    if not isinstance(error, Mapping):
        return ""
    place, message = str(error.get("field", "")), str(error.get("message", ""))
    # What is missing is told as an error of the whole.
    return place or (missing[1] if (missing := _MISSING.match(message)) else "")


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
    #: The places of the values that were wrong, as a client is told them, or the class of the exception that a tool
    #: raised. They are not clean: see ``server.trail``.
    wrong: Sequence[str] = ()
    raised: str = ""
    #: Values of arguments that the project allows in the audit trail.
    values: dict[str, Any] = field(default_factory=dict)
    #: The primary key of the line that was written before the run.
    intent: Any = None
    #: The token that confirms what the run has previewed.
    confirm: str = field(default="", repr=False)

    def fail(self, reason: str, errors: Iterable[Any] = (), *, raised: BaseException | None = None) -> None:
        """Note for the trail why it is not done: the wrong values, or what was raised and is not explained."""
        self.reason, self.raised = reason, "" if raised is None else type(raised).__name__
        self.wrong = [place for error in islice(errors, _MOST_WRONG) if (place := _place_of(error))]

    def read(self, model: str, rows: int) -> None:
        """``rows`` more rows of a model are in the answer."""
        self.model = model
        self.rows += rows

    def change(self, model: str, keys: Iterable[Any]) -> None:
        """The rows of these keys are about to be changed."""
        self.model = model
        self.changed.extend(keys)
