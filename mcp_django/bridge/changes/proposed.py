"""A change as an agent proposes it, of whatever kind, and the tool that proposes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mcp_django.bridge.declared.consent import Needs
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import WRITE, of_model
from mcp_django.models import Change

if TYPE_CHECKING:
    from mcp_django.access.throttling.throttles import NewValues
    from mcp_django.bridge.changes.confirmations import Confirmation
    from mcp_django.bridge.changes.effects import Effect
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.resources.policy.policy import Rights
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.protocol.types import JSON


#: The arguments that say how a tool is called, and not what it does.
CONFIRM, REASON = "confirm", "reason"
#: In the arguments of a person who undoes what an agent did: the lineage of the agent. No agent can give it.
LINEAGE = "_lineage"
#: In what comes of a change: until when it can be undone.
UNDO_UNTIL = "undo_until"
#: More rows than these always need the consent of their user, who sees them on a page.
FEW = 20
#: In what comes of a change: the result for the caller itself, which is not kept.
ANSWER = "_answer"


class NotMade(ToolError):
    """The project has refused the change when it was made, so its token can be used again."""


class EndUnknown(ToolError):
    """The change has failed when it was made, and nobody knows what was done of it."""


class Kept(Protocol):
    """What a change has done to one record."""

    @property
    def model(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def operation(self) -> str: ...

    @property
    def text(self) -> str:
        """What differs, as JSON."""


class Proposed(ABC):
    """A change that was read and allowed. Nothing of it is written before ``apply``."""

    kind: ClassVar[Change.Kind]
    #: What it does to rows, if that is one thing: "create", "update" or "delete". Otherwise empty.
    operation: str
    #: The model of its rows, as ``app_label.model_name``. Empty where it has none.
    label: str = ""
    #: The database of its rows, in which it is written in one transaction. Empty where nobody knows what it writes.
    using: str = ""
    #: What is proposed, whichever way it was spelled.
    arguments: JSON
    #: What it was proposed for: the rows as they are.
    state: JSON | None
    #: Whether the client may ask its user, who otherwise agrees on the page.
    asks_client = True
    #: The change that makes it, and who else has agreed to that, while it is applied.
    change: Change | None = None
    agreed_by: str = ""
    #: Who does it, as the history says; empty for an agent.
    by: str = ""
    #: What is said where it is not as it was shown any more.
    changed = "What is there has changed since."
    #: How to get another token, as a sentence.
    again = "Call again without confirm for another one."
    #: Whether its rows count against the budget for writing.
    counts_writes = True
    #: What administrators decided that its tool needs, whatever the project declares.
    least: Needs = Needs()

    @property
    def needed_scope(self) -> str:
        """The scope that it needs, beside the one of its tool; empty where that is enough."""
        return of_model(self.label, WRITE) if self.label else ""

    @property
    @abstractmethod
    def keys(self) -> Sequence[Any]:
        """The primary keys of the rows."""

    @property
    @abstractmethod
    def declared(self) -> Needs:
        """What it needs beside a confirmed preview, by the rules of the project."""

    @property
    def needs(self) -> Needs:
        return self.declared | self.least

    @property
    @abstractmethod
    def row_count(self) -> int:
        """How many rows are written, with those of inlines."""

    @property
    @abstractmethod
    def effects(self) -> Sequence[Effect]:
        """What it does, as it is told to people. Of several, the first one is about the whole."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[Effect]:
        """The rows that are written, without values."""

    @abstractmethod
    def may_be_done_by(self, rights: Rights) -> bool:
        """Whether a person with these rights may do the same: otherwise that person may not approve it either."""

    def is_shown_to(self, rights: Rights) -> bool:
        """Whether a person with these rights may see values of it. Rows are shown by the rights on their models."""
        return True

    @property
    def bound(self) -> JSON:
        """The arguments for which its token was given."""
        return self.arguments

    def check(self, confirmation: Confirmation) -> None:
        """Raises ToolError if it is not as it was shown with the token."""
        confirmation.check(self.state, self.changed)

    def new_values(self) -> Iterable[NewValues]:
        """Its new values for what must be unique among rows that the agent does not all see."""
        return ()

    @abstractmethod
    def preview(self) -> JSON:
        """What it would do, for the agent."""

    @abstractmethod
    def summary(self, *, values: bool) -> Sequence[Line]:
        """What it does in words, for the user of its agent. Without ``values``, the rows alone."""

    @property
    def undone(self) -> Sequence[str]:
        """The keys of the changes that it undoes."""
        return ()

    @property
    def kept(self) -> Sequence[Kept]:
        """What it has done to each record, once it is applied, as it is kept for undoing it. Empty: it cannot be."""
        return ()

    @abstractmethod
    def apply(self, by: str) -> JSON:
        """Do it. ``by`` says in the history who did. Returns what came of it, and ANSWER if there is another one.

        Raises ToolError with what is wrong.
        """


#: Is called with what is proposed. Raises Throttled where its new values are too many.
Admit = Callable[[Proposed], object]


class ChangingTool(Protocol):
    """A tool whose calls are changes."""

    name: str
    #: The names of tools whose work it does too.
    covers: Collection[str]

    @property
    def scope(self) -> str:
        """The scope that a token needs for the tool."""

    @property
    def about_call(self) -> Collection[str]:
        """Those of CONFIRM and REASON that are not arguments of its own."""

    def propose(self, exchange: Exchange, arguments: JSON, admit: Admit | None = None) -> Proposed:
        """Read the arguments of a call. Raises InvalidQuery and ToolError.

        For a preview, ``admit`` counts the new values. It is called before a form says that one of them is taken.
        """
