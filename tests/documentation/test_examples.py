"""Each example of the documentation is run or read by a test, or a comment above it says why it cannot be."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import MagicMock

from django.core.management import get_commands, load_command_class

from mcp_django.conf import load
from tests.documentation.client_pages import FOLDER, is_printed, starts_server
from tests.support.pages import PAGES, ROOT

#: The test that runs the examples of a page, by their languages.
RUN = {
    ("README.md", "sh json"): "tests/end_to_end/test_readme.py",
    ("docs/actions.md", "json"): "tests/bridge/tools/test_queries_page.py",
    ("docs/admin.md", "json"): "tests/console/test_mcp_tools.py",
    ("docs/AGENTS.md", "python"): "tests/end_to_end/test_cookbook.py",
    ("docs/aggregates.md", "json"): "tests/bridge/tools/test_queries_page.py",
    ("docs/api.md", "sh python json"): "tests/end_to_end/test_api_page.py",
    ("docs/clients.md", "sh json"): "tests/end_to_end/test_readme.py",
    ("docs/cookbook.md", "python json"): "tests/end_to_end/test_cookbook.py",
    ("docs/deployment.md", "sh"): "tests/end_to_end/test_servers.py",
    ("docs/containers.md", "dockerfile yaml python sh"): "tests/end_to_end/test_containers.py",
    ("docs/proxies.md", "nginx caddyfile apache"): "tests/end_to_end/test_proxies.py",
    ("docs/queries.md", "json"): "tests/bridge/tools/test_queries_page.py",
    ("docs/tutorial.md", "sh python json"): "tests/end_to_end/test_tutorial.py",
    ("docs/writes.md", "json"): "tests/bridge/writes/test_page.py",
}
#: Files of a project that tests write as they stand on the pages: tests/end_to_end/example_shop.py.
_SHOP = re.compile(r"# (?:more for )?shop/")
_SETTINGS = "# project/settings.py\n"
_LANGUAGES = "python|sh|json|js|nginx|caddyfile|apache|dockerfile|yaml|ini|http|console"
_EXAMPLE = re.compile(rf"(?:<!-- not run: (.+?) -->\n)?^```({_LANGUAGES})\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


class Example(NamedTuple):
    page: str
    language: str
    text: str
    #: Why it cannot be run.
    reason: str

    def __str__(self) -> str:
        return f"{self.page} {self.text.splitlines()[0]}"

    @property
    def has_test(self) -> bool:
        return any(self.page == page and self.language in languages.split() for page, languages in RUN)

    @property
    def is_checked(self) -> bool:
        if self.reason:
            return False
        if self.has_test or (self.page.startswith(FOLDER) and (is_printed(self.text) or starts_server(self.text))):
            return True
        if self.language == "python":
            return bool(_SHOP.match(self.text)) or self.text.startswith(_SETTINGS)
        return self.language in ("sh", "console") and len(list(commands(self.text))) == len(lines(self.text))


EXAMPLES = [Example(page, *found[1:], found[0]) for page, text in PAGES.items() for found in _EXAMPLE.findall(text)]


def lines(text: str) -> list[str]:
    """The commands of a shell, without comments and prompts."""
    joined = text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in joined if line.strip() and not line.startswith("Serving ")]


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of ``manage.py`` and of pip, which tests below read as these programs do."""
    for line in lines(text):
        words = shlex.split(line, comments=True) if line.startswith("python ") else []
        is_pip = words[:3] == ["python", "-m", "pip"] and words[3] in ("install", "uninstall")
        if words[:2] == ["python", "manage.py"] or is_pip:
            yield words


def test_an_example_is_checked_or_says_why_not() -> None:
    assert [str(one) for one in EXAMPLES if one.is_checked == bool(one.reason)] == []
    assert [page for (page, _), test in RUN.items() if page not in (ROOT / test).read_text()] == []


def test_settings_that_are_shown_can_be_read() -> None:
    for example in [found for found in EXAMPLES if found.text.startswith(_SETTINGS)]:
        names: dict[str, Any] = {"BASE_DIR": ROOT, "POSTGRESQL": {}, "path": MagicMock(), "include": MagicMock()}
        names |= {"mcp_django": MagicMock(), "__builtins__": {}}

        exec(compile(ast.parse(example.text), example.page, "exec"), names)

        assert load(names.get("MCP", {})), str(example)


def test_commands_that_are_shown_have_these_arguments() -> None:
    known = get_commands()
    shown = [found.text for found in EXAMPLES if found.language in ("sh", "console") and not found.has_test]

    for words in [words for text in shown for words in commands(text)]:
        if words[1] == "-m":
            assert set(re.findall(r"\[(\w+)\]", " ".join(words))) <= set(_EXTRAS), words
            continue
        name, *arguments = words[2:]
        assert name in known
        if name.startswith("mcp_"):
            load_command_class(str(known[name]), name).create_parser("manage.py", name).parse_args(arguments)
