"""A language that does not exist: each translated text is between « and », so that a page shows which ones are not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from html.parser import HTMLParser

import pytest
from django.utils import translation

_OPENS, _CLOSES = "«", "»"
#: What is read to people beside what stands between tags.
_ATTRIBUTES = ("title", "aria-label", "aria-description", "placeholder", "alt", "label", "data-copied")
#: What programs, other people and the person wrote; and what nobody reads.
_WRITTEN_BY_OTHERS = frozenset({"bdi", "code", "pre", "script", "style", "textarea"})
_BUTTONS = frozenset({"button", "reset", "submit"})
#: Elements that are a part of the text around them.
_PARTS = frozenset({"a", "b", "bdi", "br", "code", "em", "i", "small", "span", "strong"})
_EMPTY = frozenset({"br", "img", "input", "link", "meta", "hr"})
_WORD = re.compile(r"[^\W\d_]{2,}")
#: Moments and numbers as a program writes them. Pages write them as the language does.
_OF_PROGRAMS = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d [ap]\.m\.|\d,\d{3}")


def speak(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Mark each text that is translated from now on. Returns the texts that pages ask for, as they are in the code."""
    asked: set[str] = set()

    def marked(text: str) -> str:
        asked.add(str(text))
        return f"{_OPENS}{text}{_CLOSES}"

    functions = {
        "gettext": marked,
        "pgettext": lambda _context, text: marked(text),
        "ngettext": lambda one, many, count: marked(one if count == 1 else many),
        "npgettext": lambda _context, one, many, count: marked(one if count == 1 else many),
    }
    for name, function in functions.items():
        monkeypatch.setattr(translation._trans, name, function)  # type: ignore[attr-defined]
    return asked


class Page(HTMLParser):
    """What a person reads on a page, a text for each element that stands by itself, and for each attribute."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._texts = [""]
        self.attributes: list[str] = []
        #: The element whose texts are left out, and how many of its kind are open within it.
        self._left_out, self._depth = "", 0
        self.feed(page)

    @property
    def texts(self) -> Iterator[str]:
        for text in (*self._texts, *self.attributes):
            if found := " ".join(text.split()):
                yield found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if self._left_out:
            self._depth += tag == self._left_out
            return
        self.attributes += [value for name in _ATTRIBUTES if (value := values.get(name))]
        if tag == "input" and values.get("type") in _BUTTONS:
            self.attributes.append(values.get("value") or "")
        is_of_another_language = tag != "html" and "lang" in values
        if (tag in _WRITTEN_BY_OTHERS or is_of_another_language) and tag not in _EMPTY:
            self._left_out, self._depth = tag, 1
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._left_out:
            self._depth -= 1
            self._left_out = self._left_out if self._depth else ""
        self._part(tag)

    def _part(self, tag: str) -> None:
        if tag in _PARTS:
            self._texts[-1] += " "
        else:
            self._texts.append("")

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._texts[-1] += data


def unmarked(texts: Iterable[str], data: Collection[str]) -> set[str]:
    """The texts that no translation reaches, or only in part, beside names and values, which are ``data``."""
    names = "|".join(re.escape(" ".join(one.split())) for one in sorted(filter(None, data), key=len, reverse=True))
    of_data = re.compile(rf"(?<!\w)(?:{names})(?!\w)")
    return {
        text
        for text in texts
        if _WORD.search(of_data.sub(" ", _outside(text))) or _OF_PROGRAMS.search(of_data.sub(" ", text))
    }


def _outside(text: str) -> str:
    """What stands outside of the marks, which may be one within the other. A text may be cut before its last mark."""
    found, depth = [], 0
    for char in text:
        depth += char == _OPENS
        if not depth:
            found.append(char)
        depth -= char == _CLOSES and depth > 0
    return "".join(found)
