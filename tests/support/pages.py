"""The documentation as tests read it: its pages, their examples, their tables and their links."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The pages that are no part of the site.
_OUTSIDE = ("README", "CONTRIBUTING", "SECURITY")
#: The pages about the project and its use, by their paths. Measurements are history.
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*(ROOT / f"{name}.md" for name in _OUTSIDE), *sorted(ROOT.glob("docs/**/*.md")))
}

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The examples of a page in one language."""
    return [block for found, block in _BLOCK.findall(PAGES[page]) if found == language]


def files(folder: str) -> dict[str, str]:
    """The Python files below a folder that the pages show whole, by path. Raises ValueError if two pages differ."""
    found: dict[str, str] = {}
    for page in PAGES:
        for block in blocks(page, "python"):
            path = block.partition("\n")[0].removeprefix("# ")
            if not path.startswith(folder):
                continue
            if found.setdefault(path, block) != block:
                raise ValueError(f"{path} is shown in two ways.")
    return found


def additions(path: str) -> dict[str, str]:
    """The additions of each page to a file that another page shows."""
    heading = f"# more for {path}\n"
    found = {page: [block for block in blocks(page, "python") if block.startswith(heading)] for page in PAGES}
    return {page: more.removeprefix(heading) for page, [more] in ((page, more) for page, more in found.items() if more)}


def cells(page: str, heading: str = "") -> list[list[str]]:
    """The rows of the tables under a heading, or on the whole page, without the heads of the tables."""
    section = prose(page).partition(f"\n{heading}\n")[2].partition("\n#")[0] if heading else prose(page)
    tables = re.findall(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)*)", section, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def prose(page: str) -> str:
    """The page without its examples."""
    return _BLOCK.sub("", PAGES[page])


def anchors(page: str) -> set[str]:
    """The anchors of the page's headings, for links."""
    return {
        re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    }


def links(page: str) -> list[str]:
    """Where the page's links lead, but for other sites."""
    return re.findall(r"\]\((?!https?:)([^)]+)\)", prose(page))
