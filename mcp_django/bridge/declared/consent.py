"""What a change needs beside a confirmed preview: nothing, its user's consent, or the approval of other people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from mcp_django.models import Change


class Level(IntEnum):
    """How much a change needs. The strictest of all that take part counts."""

    PREVIEW = 0
    #: The user of the agent is asked.
    ASK = 1
    #: Other people than that user must approve.
    APPROVE = 2

    @classmethod
    def named(cls, name: Any) -> Level:
        """The level of this name. One that is not known is the strictest."""
        return cls.__members__.get(str(name).upper(), cls.APPROVE)


#: The key of the change that is being made: its transaction begins by marking it as applied.
being_made: ContextVar[str] = ContextVar("mcp_django.being_made", default="")


@dataclass(frozen=True, slots=True)
class Considered:
    """A change of one row, as a rule sees it. Values are those of all columns that the agent may read, by name."""

    operation: str
    #: How many rows the whole change writes, with those of inlines.
    rows: int
    #: Empty for a new row.
    before: Mapping[str, Any]
    #: Empty for a row that is deleted.
    after: Mapping[str, Any]
    #: The user of the agent.
    user: Any
    #: Identifies the credential, and those that replaced it.
    lineage: str

    def recent(self, hours: float) -> int:
        """How many other changes of any model this credential has made in so many hours."""
        from django.utils import timezone

        from mcp_django.models import Change

        since = timezone.now() - timedelta(hours=hours)
        made = Change.objects.filter(line=self.lineage, state=Change.State.APPLIED, decided_at__gt=since)
        return made.exclude(pk=being_made.get()).count()


#: Before the name of a group.
GROUP = "group:"
#: A permission such as ``shop.approve_order``, ``group:NAME``, or a function of a user and the change.
By = str | Callable[[Any, "Change"], bool]


@dataclass(frozen=True, slots=True)
class Approval:
    """Other people than the user of the agent must approve: ``consent = {"update": Approval(count=2)}``.

    ``when`` says for which changes, and otherwise the operation needs what it needs without a declaration. If it fails,
    the change needs the approval. ``by`` says who may approve, beside all that everybody needs who approves; ``count``
    how many must; ``expires`` for how long the change waits.
    """

    when: Callable[[Considered], bool] | None = None
    by: By = ""
    count: int = 1
    expires: timedelta | None = None


Consent = Literal["preview", "ask", "approve"] | Approval
#: Its values, in words.
CONSENTS = '"preview", "ask", "approve" or an Approval'


def is_consent(value: Any) -> bool:
    """Whether a value that a project declares is one of consent."""
    if not isinstance(value, Approval):
        return str(value).upper() in Level.__members__
    by: Any = value.by
    named = by.removeprefix(GROUP).strip() if isinstance(by, str) else ""
    is_named = callable(by) or by == "" or bool(named and (named != by or "." in by))
    is_counted = isinstance(value.count, int) and value.count >= 1
    is_timed = value.expires is None or (isinstance(value.expires, timedelta) and value.expires > timedelta())
    return is_named and is_counted and is_timed and (value.when is None or callable(value.when))


def described(consent: Consent) -> str:
    """A declared consent in words, for people who review it."""
    if not isinstance(consent, Approval):
        return str(consent)
    by = consent.by if isinstance(consent.by, str) else name_of(consent.by)
    parts = [f"by {by}" if by else "", f"{consent.count} people" if consent.count > 1 else ""]
    rule = f"when {name_of(consent.when)}" if consent.when is not None else ""
    return ", ".join(filter(None, [f"approve {parts[0]}".strip(), parts[1], rule]))


@dataclass(frozen=True, slots=True)
class Needs:
    """What one change needs."""

    level: Level = Level.PREVIEW
    #: How many people must approve.
    count: int = 0
    #: Each of them must be named by all of these.
    by: tuple[By, ...] = ()
    #: The names of the rules that say so.
    rules: tuple[str, ...] = ()
    expires: timedelta | None = None
    #: The functions that any of the declared approvals names, also where its rule says no.
    functions: tuple[By, ...] = ()

    def __or__(self, other: Needs) -> Needs:
        """What both need: the stricter of each."""
        ends = [one.expires for one in (self, other) if one.expires is not None]
        return Needs(
            max(self.level, other.level),
            max(self.count, other.count),
            tuple(dict.fromkeys([*self.by, *other.by])),
            tuple(dict.fromkeys([*self.rules, *other.rules])),
            min(ends, default=None),
            tuple(dict.fromkeys([*self.functions, *other.functions])),
        )


#: What a change needs that other people must approve, where nothing more is declared.
APPROVED = Needs(Level.APPROVE, 1)


def needs_of(consent: Any, otherwise: Any, considered: Callable[[], Iterable[Considered]]) -> Needs:
    """What is needed by a declared consent. ``otherwise`` holds where its rule says no.

    ``considered``: the change of each row, which only a rule asks for.
    """
    if not isinstance(consent, Approval):
        level = Level.named(consent)
        return APPROVED if level is Level.APPROVE else Needs(level)
    by: tuple[By, ...] = (consent.by,) if consent.by else ()
    functions = tuple(one for one in by if callable(one))
    if consent.when is not None and not _applies(consent.when, considered):
        return needs_of(otherwise, otherwise, considered) | Needs(functions=functions)
    rules = () if consent.when is None else (name_of(consent.when),)
    return Needs(Level.APPROVE, max(1, consent.count), by, rules, consent.expires, functions)


def _applies(when: Callable[[Considered], bool], considered: Callable[[], Iterable[Considered]]) -> bool:
    # What fails refuses, as other hooks do: here the change needs the approval.
    return call_hook(lambda: any(when(one) for one in considered()), True, name_of(when))


def name_of(function: Callable[..., Any]) -> str:
    """What a rule is called on pages, and in inventories."""
    return str(getattr(function, "__name__", type(function).__name__))
