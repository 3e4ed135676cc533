"""docs/cookbook.md and AGENTS.md are true: they make projects, whose own tests pass and get the answers of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import pytest

from tests.end_to_end.projects import install, replace, start_project
from tests.end_to_end.servers import Project
from tests.support import forkserver
from tests.support.pages import PAGES

PAGE, FOR_AGENTS = PAGES["docs/cookbook.md"], PAGES["docs/AGENTS.md"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Recipes by the headings that may share a project. The first has all that are named nowhere else.
_OTHERS = (
    ("A custom user model", "A custom AdminSite"),
    ("Several databases and replicas",),
    ("Tenants",),
    ("An API without the admin",),
)
#: What stands in the place of a value that differs from run to run, alone or at the end of a text.
ANYTHING = "…"
#: A test runner that keeps each request of a client with its answer, and each line of the audit trail.
_RUNNER = """
import json
from pathlib import Path
from django.test import Client
from django.test.runner import DiscoverRunner
from mcp_django.audit.logs import JSONFormatter
from mcp_django.test import MCPClient, ProtocolError
ask, post, format_line = MCPClient._ask, Client.post, JSONFormatter.format
def keep(given, answer):
    with Path(__file__).with_name("kept.jsonl").open("a") as file:
        file.write(json.dumps([given, answer]) + "\\n")
def keeping_ask(client, method, params):
    given = json.loads(json.dumps(params))
    try:
        answer = ask(client, method, params)
    except ProtocolError as error:
        keep(given, {"error": {"code": error.code, "message": error.message}})
        raise
    keep(given, answer)
    return answer
def keeping_post(client, path, data, **options):
    response = post(client, path, data, **options)
    answer = response.json()
    keep(data["params"], answer.get("result") or {"error": answer["error"]})
    return response
def keeping_format(formatter, record):
    line = format_line(formatter, record)
    keep(None, json.loads(line))
    return line
class Runner(DiscoverRunner):
    def setup_test_environment(self, **kwargs):
        super().setup_test_environment(**kwargs)
        MCPClient._ask, Client.post, JSONFormatter.format = keeping_ask, keeping_post, keeping_format
"""

#: Tables are made without their migrations, which other tests run.
_SETTINGS = """
TEST_RUNNER = "keeping.Runner"
MIGRATION_MODULES = dict.fromkeys(["admin", "auth", "contenttypes", "sessions", "mcp_django"])
_MCP = {}
"""


class Recipe(NamedTuple):
    title: str
    #: The Python of each file, by its path.
    files: list[tuple[str, str]]
    #: A call and its answer, each.
    said: list[tuple[Any, Any]]

    @property
    def test(self) -> str:
        [path] = [path for path, _ in self.files if Path(path).name.startswith("test_")]
        return path.removesuffix(".py").replace("/", ".")


def _recipe(title: str, text: str) -> Recipe:
    found = _BLOCK.findall(text)
    python = [text for language, text in found if language == "python"]
    said = [json.loads(text) for language, text in found if language == "json"]
    files = [(text.partition("\n")[0].removeprefix("# "), text) for text in python]
    return Recipe(title, [one for one in files if "/" in one[0]], list(zip(said[::2], said[1::2], strict=True)))


_INTRODUCTION, *_SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
COMMON = _recipe("", _INTRODUCTION)
RECIPES = [_recipe(text.partition("\n")[0], text) for text in _SECTIONS]
_ELSEWHERE = [title for group in _OTHERS for title in group]
GROUPS = {group[0]: [one for one in RECIPES if one.title in group] for group in _OTHERS}
GROUPS["Any project"] = [one for one in RECIPES if one.title not in _ELSEWHERE]
GROUPS["AGENTS.md"] = [_recipe("AGENTS.md", FOR_AGENTS)]


def test_the_page_has_sixteen_recipes_each_with_a_test_and_an_answer() -> None:
    assert len(RECIPES) == 16
    assert [one.title for one in RECIPES if not one.said or not one.test] == []
    in_groups = [one.title for group in GROUPS.values() for one in group]
    assert sorted(in_groups) == sorted([*(one.title for one in RECIPES), "AGENTS.md"])


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the four lines, to copy."""
    project = start_project(tmp_path_factory.mktemp("fresh"))
    install(project)
    return project.folder


@pytest.mark.parametrize("group", GROUPS)
def test_the_tests_of_the_recipes_pass_and_the_answers_are_those_of_the_page(
    group: str, fresh: Path, tmp_path: Path
) -> None:
    recipes = GROUPS[group]
    project = Project(copytree(fresh, tmp_path, dirs_exist_ok=True), "project", tmp_path)
    settings = tmp_path / "project/settings.py"
    has_admin = group != "An API without the admin"
    if not has_admin:
        replace(settings, "    'django.contrib.admin',\n", "")
        replace(settings, "                'django.contrib.auth.context_processors.auth',\n", "")
        (tmp_path / "project/urls.py").unlink()
    shared = [one for one in COMMON.files if has_admin or not one[0].endswith("admin.py")]
    _write(tmp_path, shared + [one for recipe in recipes for one in recipe.files])
    (tmp_path / "keeping.py").write_text(_RUNNER)

    command = ["manage.py", "test", "-v0", *(recipe.test for recipe in recipes)]
    done = forkserver.run(command, cwd=tmp_path, env=project.environment)

    assert done.returncode == 0, done.stdout + done.stderr
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    for recipe in recipes:
        for call, answer in recipe.said:
            is_line = "logger" in answer
            found = [result for given, result in kept if (given is None) == is_line]
            if not is_line:
                found = [_visible(result) for given, result in kept if given and _is_like(call, _asked(given))]
            assert any(_is_like(answer, one) for one in found), json.dumps([recipe.title, call, found], indent=1)


def _write(folder: Path, files: list[tuple[str, str]]) -> None:
    """Each file, below what another recipe has put there; the settings at the end of those of the project."""
    settings = [_SETTINGS]
    apps = sorted({path.partition("/")[0] for path, _ in files} - {"project"})
    for path, text in files:
        if path == "project/settings.py":
            settings.append(f"MCP = {{}}\n{text}_MCP |= MCP\n")
            continue
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).parent.joinpath("__init__.py").touch()
        if path == "project/urls.py":
            (folder / path).write_text(text)
            continue
        with (folder / path).open("a") as file:
            file.write(f"{text}\n\n")
    with (folder / "project/settings.py").open("a") as file:
        file.write(f"{''.join(settings)}MCP = _MCP\nINSTALLED_APPS += {apps!r}\n")


def _asked(params: dict[str, Any]) -> dict[str, Any]:
    """What a client asks, without what it says of itself."""
    return {name: value for name, value in params.items() if name in ("name", "arguments", "uri")}


def _visible(result: dict[str, Any]) -> Any:
    """What an agent reads of a result: its structured content, or else its blocks, its messages or its contents."""
    if "structuredContent" in result:
        return result["structuredContent"]
    match result:
        case {"content": [{"text": text}]} | {"contents": [{"text": text}]} if text.startswith("{"):
            return json.loads(text)
        case {"logger": _}:
            return result
    return {name: value for name, value in result.items() if name in ("error", "content", "contents", "messages")}


def _is_like(shown: Any, found: Any) -> bool:
    """Whether the page shows what was found, but for what differs from run to run."""
    match shown:
        case str() if shown.endswith(ANYTHING):
            return shown == ANYTHING or (isinstance(found, str) and found.startswith(shown.removesuffix(ANYTHING)))
        case dict():
            return (
                isinstance(found, dict)
                and shown.keys() == found.keys()
                and all(_is_like(value, found[name]) for name, value in shown.items())
            )
        case list():
            return (
                isinstance(found, list)
                and len(shown) == len(found)
                and all(_is_like(one, other) for one, other in zip(shown, found, strict=True))
            )
        case _:
            return bool(shown == found)
