"""HTML that the admin shows in a cell, as one line of text: what a person reads, and where links and pictures lead."""

from __future__ import annotations

from html.parser import HTMLParser

#: Elements between which a browser leaves a gap.
_APART = frozenset(
    """address article aside blockquote br dd div dl dt footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol
    option p pre section summary table td th tr ul""".split()  # noqa: SIM905 - a list of so many strings is a page long
)
#: Elements whose contents nobody reads.
_UNREAD = frozenset({"script", "style", "template"})
#: Schemes of URLs that lead nowhere by themselves.
_LEADING_NOWHERE = ("javascript:", "data:", "#")


def text_of(markup: str) -> str:
    """The text, with the URL of a link or a picture behind what is shown of it: ``pay (https://example.com/pay)``."""
    found = _Text()
    found.feed(markup)
    found.close()
    return " ".join("".join(found.parts).split())


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        #: The links that are open: the URL, and where its text begins.
        self._links: list[tuple[str, int]] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _UNREAD:
            self._unread += 1
        elif tag == "a":
            self._links.append((given.get("href", ""), len(self.parts)))
        elif tag == "img":
            self._add(_with_url(given.get("alt", "") or given.get("title", ""), given.get("src", "")))
        elif tag in _APART:
            self._add(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _UNREAD and tag != "a":
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNREAD:
            self._unread = max(0, self._unread - 1)
        elif tag == "a" and self._links:
            url, begun = self._links.pop()
            shown = "".join(self.parts[begun:])
            self.parts[begun:] = [_with_url(shown, url)]
        elif tag in _APART:
            self._add(" ")

    def handle_data(self, data: str) -> None:
        self._add(data)

    def _add(self, text: str) -> None:
        if not self._unread:
            self.parts.append(text)


def _with_url(shown: str, url: str) -> str:
    url = url.strip()
    if not url or url.lower().startswith(_LEADING_NOWHERE) or url in shown:
        return shown
    return f"{shown} ({url})" if shown.strip() else url
