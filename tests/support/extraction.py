"""The texts that ``makemessages`` finds, found without its tools: in Python by the calls, in templates by Django."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.utils.translation import templatize

#: Functions that translate, by the names that ``makemessages`` knows → which of their arguments are texts.
FUNCTIONS = {
    "_": (0,), "gettext": (0,), "gettext_lazy": (0,), "gettext_noop": (0,),
    "ngettext": (0, 1), "ngettext_lazy": (0, 1), "pgettext": (1,), "pgettext_lazy": (1,), "npgettext": (1, 2),
}  # fmt: skip
#: A context, or None, and a text.
Message = tuple[str | None, str]
_IN_TEMPLATE = re.compile(r"\b(?:(?:np|n|p)?gettext|_)\(")


def calls(tree: ast.AST, *, in_f_strings: bool = False) -> Iterator[tuple[ast.Call, str]]:
    """The calls that translate something, each with the name of the function. xgettext looks into no f-string."""
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (id(node) in within) is in_f_strings:
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in FUNCTIONS and (isinstance(node.func, ast.Name) or "translation" in ast.unparse(node.func)):
                yield node, name


def texts_in(call: ast.Call, name: str) -> list[str | None]:
    """The texts of a call; None for one that only a run of the program knows."""
    found = [call.args[place] for place in FUNCTIONS[name] if place < len(call.args)]
    return [one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else None for one in found]


def messages_of(file: Path) -> set[Message]:
    """The texts of a Python file or a template. Raises SyntaxError, as ``makemessages`` fails, for a wrong template."""
    source = file.read_text()
    found = calls(ast.parse(source)) if file.suffix == ".py" else _in_template(templatize(source, origin=str(file)))
    return {(_context(call, name), text) for call, name in found for text in texts_in(call, name) if text is not None}


def _context(call: ast.Call, name: str) -> str | None:
    """The context of the texts; None where the function takes none."""
    return call.args[0].value if 0 not in FUNCTIONS[name] else None  # type: ignore[attr-defined, no-any-return]


def _in_template(code: str) -> Iterator[tuple[ast.Call, str]]:
    """What Django makes of a template for xgettext: calls between text that is crossed out."""
    for begin in _IN_TEMPLATE.finditer(code):
        for end in (place for place, char in enumerate(code[begin.end() :], begin.end()) if char == ")"):
            try:
                call = ast.parse(code[begin.start() : end + 1], mode="eval").body
            except SyntaxError:
                continue
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                yield call, call.func.id
            break
