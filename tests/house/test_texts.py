"""Texts for people are marked for translation, so that each can be extracted, and in the language of who reads."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.core.management import call_command

import mcp_django
from tests.support import extraction

ROOT = Path(mcp_django.__file__).parent
#: Rooms whose texts people read, and not agents or the readers of a terminal.
ROOMS = ("console", "models", "oauth", "core/prompt_templates.py")
#: What is called with a text for a person → the place of the text.
SAID = {
    "ValidationError": 0, "add_error": 1, "message_user": 1, "add_message": 2, "log_change": 2, "log_addition": 2,
    "debug": 1, "info": 1, "success": 1, "warning": 1, "error": 1, "HttpResponseBadRequest": 0, "UnusableRequest": 0,
}  # fmt: skip
#: Arguments and attributes that people read.
NAMED = {
    "description", "empty_value_display", "help_text", "label", "search_help_text", "short_description", "title",
    "verbose_name", "verbose_name_plural",
}  # fmt: skip
#: Texts for programs and their developers beside those for people, in the rooms above.
FOR_PROGRAMS = {"oauth/client_metadata.py", "oauth/documents.py", "oauth/registration.py", "oauth/fetching.py"}
#: What looks like a label and is the name of a column or an app.
NAMES = {"mcp_django_oauth", "client_name", "name", "model"}
#: A number in a text that is the same for each number: of which one, how many there are, a rate or a unit.
ONE_FORM = re.compile(
    r"^Rows: |^Page |^%\(count\)d (h|min|s)$| an? (second|minute|hour|day)$|, limit %|^%\(number\)s m?s$"
)
_WORDS = re.compile(r"[a-z]{2}")
#: ``most`` is a limit, and ``id`` a key.
_NUMBER = re.compile(r"%\((?!most\)|id\))\w+\)d|%\((?:count|number)\)s|\{(?:count|number)\}")
_BLOCK = re.compile(r"{% blocktranslate(?! count)[^%]*%}(.*?){% endblocktranslate %}", re.DOTALL)


@cache
def sources() -> dict[str, ast.Module]:
    """The modules, without what Django made."""
    files = [file for file in ROOT.rglob("*.py") if "migrations" not in file.parts]
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files}


def templates() -> Iterator[Path]:
    return ROOT.rglob("templates/**/*.html")


def is_text(node: ast.AST | None) -> bool:
    """Whether it is words in the code: a text, or one that is put together."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
        return is_text(node.left)
    if isinstance(node, ast.IfExp | ast.BoolOp):
        return any(is_text(one) for one in ast.iter_child_nodes(node))
    if isinstance(node, ast.JoinedStr):
        return any(is_text(one) for one in node.values)
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and bool(_WORDS.search(text)) and text not in NAMES


def said(node: ast.AST) -> Iterator[ast.AST]:
    """What a node says to people."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        is_logged = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "logger"
        if name in SAID and not is_logged:
            yield from node.args[SAID[name] : SAID[name] + 1]
        yield from (one.value for one in node.keywords if one.arg in NAMED)
    elif isinstance(node, ast.Assign):
        yield from (node.value for target in node.targets if getattr(target, "id", "") in NAMED)


def test_no_text_for_people_is_without_a_mark() -> None:
    found = [
        (name, one.lineno, ast.unparse(one))  # type: ignore[attr-defined]
        for name, tree in sources().items()
        if name.startswith(ROOMS) and name not in FOR_PROGRAMS
        for node in ast.walk(tree)
        for one in said(node)
        if is_text(one)
    ]

    assert found == []


def test_each_marked_text_can_be_extracted() -> None:
    """A text that is put together before it is translated is in no catalogue."""
    found = [
        (name, call.lineno, ast.unparse(call))
        for name, tree in sources().items()
        for call, function in extraction.calls(tree)
        if None in extraction.texts_in(call, function)
    ]
    found += [
        (name, call.lineno, ast.unparse(call))
        for name, tree in sources().items()
        for call, _ in extraction.calls(tree, in_f_strings=True)
    ]

    assert found == []


def test_no_text_is_translated_when_its_module_is_loaded() -> None:
    """It would be in the language of the process, whoever reads it."""
    found = [
        (name, call.lineno, ast.unparse(call))
        for name, tree in sources().items()
        for call in _at_import(tree)
        if _is_eager(call, tree)
    ]

    assert found == []


def _at_import(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that translate, outside of functions, and in what functions have by default."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *(one for one in node.args.kw_defaults if one)]
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting += ast.iter_child_nodes(node)


def _is_eager(call: ast.Call, tree: ast.Module) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return any(
        (one.asname or one.name) == name and one.name in ("gettext", "ngettext", "pgettext")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for one in node.names
    )


def test_a_text_with_a_number_has_a_form_for_each_number() -> None:
    found = [
        (name, text)
        for name, tree in sources().items()
        for call, function in extraction.calls(tree)
        if not function.startswith("n")
        for text in extraction.texts_in(call, function)
        if text is not None and (_NUMBER.search(text) or "(s)" in text) and not ONE_FORM.search(text)
    ]
    for file in templates():
        numbers = re.compile(r"{{ (count|counter|number)\b")
        blocks = _BLOCK.findall(file.read_text())
        found += [(file.name, text) for text in blocks if numbers.search(text) and not ONE_FORM.search(text)]

    assert found == []


def test_makemessages_finds_the_same_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tools are not on every machine: the other tests need none."""
    if not shutil.which("xgettext"):
        pytest.skip("gettext is missing, without which makemessages does not run")
    package = tmp_path / "mcp_django"
    shutil.copytree(ROOT, package, ignore=shutil.ignore_patterns("migrations", "__pycache__", "static", "locale"))
    (package / "locale").mkdir()
    monkeypatch.chdir(package)

    call_command("makemessages", locale=["xx"], verbosity=0, no_location=True, no_wrap=True)

    written = (package / "locale/xx/LC_MESSAGES/django.po").read_text()
    found = {
        ast.literal_eval(text)
        for text in re.findall(r'^msgid(?:_plural)? (".*")$', re.sub(r'"\n"', "", written), re.MULTILINE)
    } - {""}
    assert found == {text for _, text in messages()}


@cache
def messages() -> set[extraction.Message]:
    """Each text of the package that is marked, with its context."""
    files = [ROOT / name for name in sources()]
    return set().union(*map(extraction.messages_of, [*files, *templates()]))


def test_no_text_of_a_page_is_in_a_script() -> None:
    """Scripts take their words from the page, where templates mark them."""
    for file in ROOT.rglob("static/**/*.js"):
        code = re.sub(r"^\s*//.*$|/\*.*?\*/", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)
        found = [text.group()[1:-1] for text in re.finditer(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`", code)]
        words = [text for text in found if re.search(r"[A-Za-z]{2,} [a-z]{2,}", text) and "[" not in text]
        assert words == ["use strict"], file.name
