"""Rates: how much a caller may do in a time, in the words of Django REST framework, such as ``600/min``."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import Conf, get_conf, kept_with_settings

#: The seconds of each word for a period. A month has no fixed number of them.
PERIODS: Mapping[str, int] = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3_600),
    **dict.fromkeys(("d", "day"), 86_400),
}
_WORDS: Mapping[int, str] = {1: "s", 60: "min", 3_600: "hour", 86_400: "day"}
_FORM = re.compile(r"([0-9][0-9_]{0,17})/([a-z]+)", re.ASCII)
_NO_RATE = _(
    "{value} is not a rate. Write a number and a period, such as '600/min'. The periods are s, min, hour and day."
)

CALLS, CHANGES, ROWS, BYTES = OF_CALLS = ("calls", "changes", "rows", "bytes")
#: Rows that are written through the admin's forms, attempts to do so that were refused, and new values for what must be
#: unique among rows that the caller does not all see: each of these tells whether it is taken.
WRITES, REFUSALS, UNIQUE = OF_WRITES = ("writes", "refusals", "unique")
KINDS = (*OF_CALLS, *OF_WRITES)
#: Failed authentication, and requests to log in, to register and for a token: neither has a user or a token.
FAILURES, LOGINS = OF_ADDRESSES = ("failures", "logins")
#: Each subject that ``THROTTLES`` may name → what can be limited for it.
SUBJECTS: Mapping[str, tuple[str, ...]] = {"user": KINDS, "token": KINDS, "address": (*KINDS, *OF_ADDRESSES)}


class Rate(NamedTuple):
    """``number`` in each period of ``seconds`` seconds."""

    number: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.number}/{_WORDS[self.seconds]}"


#: The rates of each kind. All of them hold.
Limits = Mapping[str, tuple[Rate, ...]]


def now() -> int:
    """The present second of the machine's clock, since all processes share the counts."""
    return int(time.time())


def parse_rate(value: Any) -> Rate:
    """The rate that a text such as ``600/min`` stands for. Raises ValueError with the remedy."""
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    seconds = PERIODS.get(found[2]) if found else None
    if found is None or seconds is None:
        raise ValueError(format_lazy(_NO_RATE, value=f"{value!r:.60}"))
    number = int(found[1].replace("_", ""))
    if not number:
        text = _("{value} allows nothing. To allow nothing, take the scope or the permission away.")
        raise ValueError(format_lazy(text, value=repr(value)))
    return Rate(number, seconds)


def parse_limits(value: Any, kinds: Collection[str] = KINDS) -> Limits:
    """The limits of a dictionary such as ``{"calls": "600/min"}``. Raises ValueError with the remedy.

    A value is a rate, or a list of rates that all hold.
    """
    if not isinstance(value, Mapping):
        text = _('{value} is not a dictionary such as {{"calls": "600/min"}}.')
        raise ValueError(format_lazy(text, value=f"{value!r:.60}"))
    for kind in value:
        if kind not in kinds:
            text = _("{kind} cannot be limited here. What can be: {kinds}.")
            raise ValueError(format_lazy(text, kind=f"{kind!r:.60}", kinds=", ".join(kinds)))
    return {kind: tuple(map(parse_rate, rates if isinstance(rates, list | tuple) else [rates]))
            for kind, rates in value.items()}  # fmt: skip


@kept_with_settings
def throttles() -> Mapping[str, Limits]:
    """What callers are limited to in any call: the limits of each subject that has any. Raises ImproperlyConfigured.

    Failed authentication and logins are not among them: they have no caller. Writes are counted by their tools.
    """
    return _of(OF_CALLS)


@kept_with_settings
def write_throttles() -> Mapping[str, Limits]:
    """What callers may write, in the same way. Raises ImproperlyConfigured."""
    return _of(OF_WRITES)


def _of(kinds: Collection[str]) -> Mapping[str, Limits]:
    declared = {subject: only(limits, kinds) for subject, limits in _declared().items()}
    return {subject: limits for subject, limits in declared.items() if limits}


def only(limits: Limits, kinds: Collection[str]) -> Limits:
    """The limits of some kinds."""
    return {kind: rates for kind, rates in limits.items() if kind in kinds}


@kept_with_settings
def failure_rates() -> tuple[Rate, ...]:
    """How often authentication may fail from one address. Raises ImproperlyConfigured."""
    return _declared()["address"].get(FAILURES, ())


@kept_with_settings
def login_rates() -> tuple[Rate, ...]:
    """How often one address may ask the authorization server for something. Raises ImproperlyConfigured."""
    return _declared()["address"].get(LOGINS, ())


def _declared() -> Mapping[str, Limits]:
    for problem in problems_of_throttles(get_conf().THROTTLES):
        raise ImproperlyConfigured(f"MCP['THROTTLES'] {problem}")
    return {subject: parse_limits(_of_subject(subject), kinds) for subject, kinds in SUBJECTS.items()}


def problems_of_throttles(given: Any) -> Iterator[str]:
    """What is wrong with the value of THROTTLES, one sentence for each subject."""
    if not isinstance(given, Mapping):
        yield 'must be a dictionary such as {"user": {"calls": "600/min"}}.'
        return
    for subject, limits in given.items():
        if subject not in SUBJECTS:
            yield f"names {subject!r:.60}. It may name {', '.join(SUBJECTS)}."
            continue
        try:
            parse_limits(_without_none(limits), SUBJECTS[subject])
        except ValueError as error:
            yield f"[{subject!r}]: {error}"


def _of_subject(subject: str) -> Any:
    """The limits of a subject. What the project does not name is as in the default; None switches a limit off."""
    return _without_none({**Conf().THROTTLES.get(subject, {}), **get_conf().THROTTLES.get(subject, {})})


def _without_none(limits: Any) -> Any:
    if not isinstance(limits, Mapping):
        return limits
    return {kind: rates for kind, rates in limits.items() if rates is not None}
