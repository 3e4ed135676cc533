"""Regular expressions of agents: only what PostgreSQL, MariaDB and Python all take, and take for the same.

No back references, no look-around and no flags: without them PostgreSQL needs no backtracking, and no pattern is an
error of the database.
"""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError

_MAX_CHARS = 200
#: What the counts of a pattern make when they are multiplied: a database writes repetitions out.
_MAX_REPEATS = 1_000
#: The highest count that PostgreSQL takes.
_MAX_COUNT = 255

_ESCAPED = r"\\[!-/:-@\[-^`{-~]"
_IN_CLASS = rf"(?:[^\\\[\]\-]|{_ESCAPED})"
_TOKEN = re.compile(
    rf"""
      \\[dDwWsS] | {_ESCAPED}
    | \[\^? -? (?: {_IN_CLASS}-{_IN_CLASS} | {_IN_CLASS} | \\[dws] )+ -? \]
    | \((?!\?) | \(\?: | \) | \|
    | (?: [*+?] | \{{(?P<low>\d{{1,3}})(?:,(?P<high>\d{{0,3}}))?\}} ) \?? (?![*+?{{])
    | [.^$]
    | [^\\\[\](){{}}*+?|.^$]
    """,
    re.VERBOSE | re.ASCII,
)


def read_pattern(text: str) -> str:
    """The pattern, if every database takes it. Raises ValidationError."""
    if not 0 < len(text) <= _MAX_CHARS:
        raise ValidationError(f"must have 1 to {_MAX_CHARS} characters")
    at, repeats = 0, 1
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValidationError(
                f"cannot be read from {text[at : at + 10]!r} on. There are characters, classes, groups (..) and "
                r"(?:..), |, ., ^, $, \d, \w, \s and counts; put a backslash before any other punctuation"
            )
        counts = [int(count) for count in token.groups() if count]
        repeats *= max(1, *counts, 1)
        if repeats > _MAX_REPEATS or any(count > _MAX_COUNT for count in counts):
            raise ValidationError(f"repeats too much: a count is at most {_MAX_COUNT}, all together {_MAX_REPEATS}")
        at = token.end()
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValidationError(f"is no regular expression: {error}") from None
    return text
