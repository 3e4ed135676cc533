"""The checklist of what decides about one thing: what is asked, in which order, and each answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from django.utils.translation import gettext_lazy as _

Kind = Literal["model", "field", "row", "write", "tool", "operation", "prompt", "resource"]
#: What was asked → its no, or None for a yes. What is not there was not asked.
Answers = Mapping[str, "No | None"]
#: A text for people, which is translated where it is shown.
Text = Any

#: What is asked → its question.
QUESTIONS: Mapping[str, Text] = {
    "pause": _("May agents work at present?"),
    "read_only": _("May agents change data on this server?"),
    "exposure": _("Is it exposed?"),
    "scope": _("Do the scopes allow it?"),
    "switch": _("Is it switched on?"),
    "groups": _("Is it open to a group of the user?"),
    "permission": _("Does the user have the permission?"),
    "key": _("Can its primary key be read?"),
    "field": _("Is the field shown?"),
    "row": _("Is the row among those that the user sees?"),
    "writing": _("May the user write it so?"),
    "tasks": _("Can it be run here?"),
}
#: These are listed only where they say no: they are about the agent and the server, and not about the thing.
_RARE = ("pause", "read_only")
_MODEL = ("exposure", "scope", "permission", "key")
#: Kind of thing → what is asked of it, in the order in which it is asked.
_ASKED: Mapping[Kind, Sequence[str]] = {
    "model": (*_MODEL, "switch", "groups"),
    "field": (*_MODEL, "field", "switch", "groups"),
    "row": (*_MODEL, "switch", "groups", "row"),
    "write": (*_MODEL, "switch", "groups", "writing"),
    "tool": ("exposure", "scope", "switch", "groups", "permission", "tasks"),
    "operation": ("exposure", "scope", "switch", "groups", "permission"),
    "prompt": ("exposure", "scope", "switch", "groups", "permission"),
    "resource": ("exposure", "scope", "permission"),
}


class Verdict(Enum):
    YES = "yes"
    NO = "no"
    #: Something before it said no, and to ask it would run code of the project, or needs what was refused.
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an administrator changes it: the page of a tool, of a prompt, of the credential or of the user."""

    kind: Literal["tool", "prompt", "credential", "user"]
    name: str = ""


@dataclass(frozen=True, slots=True)
class No:
    """What says no, and why."""

    step: str
    why: Text
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Step:
    question: Text
    verdict: Verdict
    why: Text = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Reasons:
    """The checklist for one thing. ``unknown`` says that there is no such thing, and then nothing was asked."""

    name: str
    kind: Kind | None = None
    answers: Answers = field(default_factory=dict)
    unknown: Text = ""

    @property
    def no(self) -> No | None:
        """The first no."""
        asked = () if self.kind is None else (*_ASKED[self.kind], *_RARE)
        return next((no for name in asked if (no := self.answers.get(name)) is not None), None)

    @property
    def allowed(self) -> bool:
        return self.kind is not None and self.no is None

    @property
    def why(self) -> str:
        """What says no first, or that there is no such thing; empty where it is allowed."""
        return str(self.unknown if self.no is None else self.no.why)

    @property
    def steps(self) -> Iterator[Step]:
        rare = [name for name in _RARE if self.answers.get(name) is not None]
        for name in () if self.kind is None else (*_ASKED[self.kind], *rare):
            no = self.answers.get(name)
            if no is not None:
                yield Step(QUESTIONS[name], Verdict.NO, no.why, no.place)
            else:
                yield Step(QUESTIONS[name], Verdict.YES if name in self.answers else Verdict.NOT_ASKED)
