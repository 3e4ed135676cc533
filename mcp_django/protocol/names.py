"""Names that every client accepts, and titles that people can tell apart."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from functools import lru_cache

from mcp_django.protocol.types import JSON

#: Every client accepts such a name for a tool and for a prompt.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
#: What a client or a user chose is cut to so many characters where others read it.
MAX_QUOTED = 64
#: How the admin is called where a person stands for the client, before the name of that person.
CONSOLE = "console of"
#: What stands before the name of a client that is named like it.
_CLAIM = "calls itself "
_NO_LETTERS = re.compile(r"[\W\d_]+")
_LETTERS_OF_CONSOLE = _NO_LETTERS.sub("", CONSOLE)


def ascii_name(name: str) -> str:
    """A name in letters that every client and provider accepts. One of whose letters some are lost ends in a hash."""
    decomposed = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    whole = "".join(char for char in decomposed if not unicodedata.combining(char))
    plain = "".join(char for char in whole if char.isascii())
    return plain if plain == whole else f"{plain or 'name'}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def quoted(name: str) -> str:
    """A name that somebody chose, in quotes that it cannot close: cut, and without characters that show as others."""
    return f'"{escaped(name)}"'


def escaped(text: str) -> str:
    """A text that somebody chose, in at most ``MAX_QUOTED`` characters, each of which shows as what it is."""
    shown = printable(text[:MAX_QUOTED].replace("\\", "\\\\").replace('"', '\\"'))
    return shown if len(shown) <= MAX_QUOTED else f"{shown[: MAX_QUOTED - 1]}…"


@lru_cache(maxsize=256)
def client_name(name: str) -> str:
    """What a client calls itself, as others read it. No client is called like the console of a person."""
    return escaped(f"{_CLAIM}{name}" if _is_like_console(name) else name)


def _is_like_console(name: str) -> bool:
    """Whether people may take the name for that of the console: letters beyond ASCII may look like any other."""
    letters = _NO_LETTERS.sub("", unicodedata.normalize("NFKC", name).casefold())[: len(_LETTERS_OF_CONSOLE)]
    alike = [char == letter for char, letter in zip(letters, _LETTERS_OF_CONSOLE, strict=False) if char.isascii()]
    return len(letters) == len(_LETTERS_OF_CONSOLE) and any(alike) and all(alike)


#: Letters and signs of which nothing is seen: fillers of Hangul, vowels of Khmer, a joiner, the empty Braille cell, and
#: what chooses a variant of the letter before it.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def printable(text: str) -> str:
    """The text with an escape for every control character, lone surrogate and other character that cannot be seen."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char.isprintable() and not _BLANK.match(char) else char.encode("unicode_escape").decode()
        for char in text
    )


def distinct_titles(described: list[JSON]) -> list[JSON]:
    """The items of a list, with the name behind each title that stands there more than once."""
    titles = [item.get("title", item["name"]) for item in described]
    counts = Counter(titles)
    return [
        item if counts[title] == 1 else {**item, "title": f"{title} ({item['name']})"}
        for item, title in zip(described, titles, strict=True)
    ]


def title_of(name: str, title: str) -> dict[str, str]:
    """``{"title": title}``; empty where the title only repeats the name."""
    return {"title": title} if title and title.lower().replace(" ", "_") != name.lower() else {}
