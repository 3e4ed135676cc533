"""The documentation is complete: its tables agree with the code, and its links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
import tomllib

from django.apps import apps

from mcp_django import ModelMCP
from mcp_django.conf import Conf
from mcp_django.exchange.scopes import SCOPES, SINGLE_SCOPES
from tests.end_to_end.pictures import THEMES, WIDTHS
from tests.matrix import PAIRS
from tests.support.pages import PAGES, ROOT, anchors, cells, links

PACKAGE = ROOT / "mcp_django"
PICTURES_FOR = ("gh-light-mode-only", "gh-dark-mode-only")
SETTINGS = [field.name for field in dataclasses.fields(Conf)]


def names_in(page: str, heading: str = "") -> list[str]:
    """The names in the first column of a table."""
    return [name for row in cells(page, heading) for name in re.findall(r"`([^`]+)`", row[0])]


def test_every_setting_scope_check_and_option_stands_once_on_its_page() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    options = {name for name in ModelMCP.__annotations__ if not name.startswith("_")}

    assert names_in("docs/settings.md") == SETTINGS
    assert [row[0].strip("`") for row in cells("docs/access.md", "## Scopes")] == [*SCOPES, *SINGLE_SCOPES]
    assert names_in("docs/checks.md") == sorted(set(re.findall(r'"(mcp_django\.[EW]\d{3})"', source)))
    assert sorted(names_in("docs/models.md", "## ModelMCP")) == sorted(options)


def test_no_page_names_a_setting_or_command_that_does_not_exist() -> None:
    commands = {path.stem for path in PACKAGE.glob("**/management/commands/mcp_*.py")}

    for page, text in PAGES.items():
        if page == "docs/changelog.md":  # Names of before.
            continue
        keys = re.findall(r"MCP(?: = \{|\[)\"([A-Z_]+)\"", text)
        assert set(keys) - {"SERVER_NAMES"} <= set(SETTINGS), page  # A misspelt one is among the symptoms.
        assert set(re.findall(r"manage\.py (mcp_\w+)", text)) <= commands, page


def test_the_menu_of_the_site_is_the_table_of_the_first_page() -> None:
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    menu = [
        page for entry in nav for found in entry.values() for page in ([found] if isinstance(found, str) else found)
    ]

    listed = [re.findall(r"\((.+)\)", row[0])[0] for row in cells("docs/README.md")]

    titles = {
        page: re.findall(r"^# (.+)$", PAGES[f"docs/{page}"], re.MULTILINE)[0] for page in listed if page != "AGENTS.md"
    }
    called = {
        link: title for title, link in (re.findall(r"\[(.+)\]\((.+)\)", row[0])[0] for row in cells("docs/README.md"))
    }

    assert [(page, title) for page, title in titles.items() if not title.startswith(called[page])] == []
    assert menu == ["README.md", *listed]
    assert sorted(menu) == sorted(pages)


def test_every_link_leads_somewhere_and_no_page_of_the_site_leads_out_of_it() -> None:
    found = [(page, link) for page in PAGES for link in links(page)]

    for page, link in found:
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        site = ROOT / page.partition("/")[0] if "/" in page else ROOT
        assert target.exists() and target.is_relative_to(site), (page, link)
        # A picture for one look alone says so behind the mark: GitHub shows it there, and so does the site.
        assert not anchor or anchor in PICTURES_FOR or anchor in anchors(str(target.relative_to(ROOT))), (page, link)


def test_links_are_called_after_what_they_lead_to_and_not_after_its_file() -> None:
    files = r"\[`?[\w./-]+\.md`?\]\((?!\S*(?:AGENTS|CONTRIBUTING|SECURITY|README)\.md)"

    assert {page: found for page, text in PAGES.items() if (found := re.findall(files, text))} == {}


def test_each_picture_stands_on_a_page_light_and_dark() -> None:
    taken = {path.name for path in (ROOT / "docs/pictures").iterdir()}
    shown = {name for text in PAGES.values() for name in re.findall(r"pictures/([\w.-]+)", text)}

    assert shown == taken
    assert taken - {"whole.svg"} == {f"{name}-{theme}.png" for name in WIDTHS for theme in THEMES}


def test_the_readme_is_short_and_says_when_others_were_compared() -> None:
    readme = PAGES["README.md"]
    ways = readme.partition("## Three ways in\n")[2].partition("\n## ")[0]
    alone = readme.partition("## What nobody else has\n")[2].partition("\n## ")[0]
    [compared] = re.findall(r"as of (\d+ \w+ \d{4})", PAGES["docs/comparison.md"])

    assert len(readme.splitlines()) <= 150
    assert len(ways.strip().splitlines()) <= 30
    assert len(re.findall(r"^- ", alone, re.MULTILINE)) == 8
    assert f"on {compared}" in alone


def test_the_tables_that_would_stay_are_those_of_the_models() -> None:
    """docs/decide.md lists them, since Django forgets them with the app."""
    text = PAGES["docs/decide.md"].partition("These tables would stay:")[2]

    shown = {name for name in re.findall(r"`(\w+)`", text.partition("After step")[0]) if not name.endswith("_")}

    models = [
        model
        for label in ("mcp_django", "mcp_django_oauth")
        for model in apps.get_app_config(label).get_models(include_auto_created=True)
    ]
    assert shown == {
        model._meta.db_table.removeprefix("mcp_django_oauth_").removeprefix("mcp_django_") for model in models
    }


def test_the_pairs_of_python_and_django_are_those_that_the_tests_run_on() -> None:
    heads = ["Django 5.2", "Django 6.0", "Django 6.1"]
    shown = {
        (row[0].removeprefix("Python "), re.findall(r"\(([\d.]+)\)", cell)[0])
        for row in cells("docs/versions.md", "## Python and Django")
        for _, cell in zip(heads, row[1:], strict=True)
        if cell.startswith("run")
    }

    assert shown == {(pair.python, pair.django) for pair in PAIRS}
