"""Writes for language models what the site has: ``python -m tests.documentation.llms site``, after it was built.

``llms.txt`` (llmstxt.org) names every page with a line on each, ``llms-full.txt`` has them all, and beside the HTML of
each page lies its Markdown. So does AGENTS.md, for coding agents.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.pages import PAGES

_DOCS = "docs/"
_FIRST = PAGES["docs/README.md"]


def write(site: Path) -> None:
    """Write the files into the folder of a site."""
    pages = {page.removeprefix(_DOCS): text for page, text in PAGES.items() if page.startswith(_DOCS)}
    for page, text in pages.items():
        (site / page).parent.mkdir(parents=True, exist_ok=True)
        (site / page).write_text(text)
    (site / "llms.txt").write_text("\n".join(_lines()))
    listed = ["README.md", *(link for _, link in _links())]
    (site / "llms-full.txt").write_text("\n\n".join(f"<!-- {page} -->\n\n{pages[page]}" for page in listed))


def _lines() -> Iterator[str]:
    introduction = _FIRST.partition("\n\n")[2].partition("\n\n")[0]
    yield f"# mcp_django\n\n> {' '.join(introduction.split())}\n"
    section = ""
    for heading, row in _rows():
        if heading != section:
            section = heading
            yield f"\n## {heading}\n"
        title, link, what = row
        yield f"- [{title}]({link}): {what}"
    yield ""


def _links() -> Iterator[tuple[str, str]]:
    return ((heading, row[1]) for heading, row in _rows())


def _rows() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Each page that the first one lists, below its heading: title, link, and what one gets of it."""
    for section in re.split(r"^## ", _FIRST, flags=re.MULTILINE)[1:]:
        for title, link, what in re.findall(r"^\| \[(.+?)\]\((.+?)\) \| (.+) \|$", section, re.MULTILINE):
            yield section.partition("\n")[0], (title, link, what)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
