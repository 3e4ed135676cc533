"""Private parts of others are used only in ``mcp_django.core.compat``. Each is described there and tested here."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mcp_django
from mcp_django.core import compat

_PACKAGE = Path(mcp_django.__file__).parent
_TESTS = Path(__file__).parent

#: Names with an underscore that are public all the same: others document them, or Python gives them to every object.
_DOCUMENTED = {
    "_meta": "Django: ref/models/meta",
    "_default_manager": "Django: topics/db/managers",
    "_base_manager": "Django: topics/db/managers",
    "_state": "Django: ref/models/instances",
    "_exit": "Python: os._exit",
}
#: Names without an underscore that are private all the same, because no documentation mentions them.
_UNDOCUMENTED = frozenset(
    {
        # Django: connections.
        "atomic_blocks", "close_at", "errors_occurred", "execute_wrappers", "features", "get_connection_params",
        "get_new_connection", "mysql_is_mariadb", "ops", "queries_log", "run_on_commit", "savepoint_ids",
        "wrap_database_errors",
        # Django: queries and models.
        "alias_map", "alias_refcount", "combinator", "contains_over_clause", "distinct_fields", "fields_orders",
        "get_compiler", "is_sliced", "lazy_sub_objs", "values_select",
        # channels_redis, Twisted, and the frames of coroutines.
        "brpop_timeout", "close_pools", "cr_await", "cr_frame", "dataBuffer", "f_back", "f_locals", "gi_frame",
    }
)  # fmt: skip
_UNDOCUMENTED_MODULES = (
    "channels_redis", "daphne", "django.contrib.admin.utils", "django.core.handlers", "django.db.models.query",
    "django.db.models.sql", "django.forms.utils", "django.template.base", "django.template.defaulttags",
    "django.template.smartif", "django.urls.resolvers", "hypercorn", "multiprocessing.util", "uvicorn",
)  # fmt: skip


def _is_private(name: str) -> bool:
    is_ours = name.startswith("_mcp_")
    return name in _UNDOCUMENTED or (bool(re.match(r"_[^_]", name)) and not is_ours and name not in _DOCUMENTED)


def _defined(tree: ast.AST) -> Iterator[str]:
    """The names that a module defines itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _used(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The names that a node reads from other objects, and whether it reads them from ``self``."""
    if isinstance(node, ast.Attribute):
        yield node.attr, _is_self(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
        if isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value), _is_self(node.args[0])
    elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith(("__", "mcp_django")):
        yield from ((alias.name, False) for alias in node.names)


@cache
def _modules() -> dict[str, ast.Module]:
    """Every module outside of the package, by its name, but those that a compiler has written."""
    found = {path.relative_to(_PACKAGE): path for path in sorted(_PACKAGE.rglob("*.py"))}
    return {
        ".".join(name.with_suffix("").parts): ast.parse(path.read_text())
        for name, path in found.items()
        if name.parts[:2] != ("core", "compat")
        and "migrations" not in name.parts
        and not name.stem.endswith(("_pb2", "_pb2_grpc"))
    }


def _private_uses(tree: ast.Module, everywhere: frozenset[str]) -> set[str]:
    """The private names that a module reads from other objects. Another module of ours may define those of ``self``."""
    own = frozenset(_defined(tree))
    used = {found for node in ast.walk(tree) for found in _used(node)}
    return {name for name, of_self in used if _is_private(name) and name not in (everywhere if of_self else own)}


def _private_imports(tree: ast.Module) -> set[str]:
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in imported if any(f"{name}.".startswith(f"{one}.") for one in _UNDOCUMENTED_MODULES)}


def test_no_other_room_asks_for_private_parts_of_others() -> None:
    everywhere = frozenset(name for tree in _modules().values() for name in _defined(tree))
    everywhere |= {name for item in _parts() for name in vars(item[1]) if isinstance(item[1], type)}

    found = {
        f"{module}: {name}"
        for module, tree in _modules().items()
        for name in _private_uses(tree, everywhere) | _private_imports(tree)
    }

    assert found == set()


def test_a_private_part_or_module_is_noticed() -> None:
    sources: dict[str, set[str]] = {
        "connection._commit()": {"_commit"},
        "getattr(user, '_password', None)": {"_password"},
        "query.alias_map": {"alias_map"},
        "from channels.layers import _close": {"_close"},
        "def f(self): return self._fields": {"_fields"},
        "class A:\n  def f(self): self._own = 1\nx._own": set(),
        "row._meta.label": set(),
        "type(row).__name__": set(),
    }
    found = {}
    for source in sources:
        tree = ast.parse(source)
        found[source] = _private_uses(tree, frozenset(_defined(tree)))

    assert found == sources
    tree = ast.parse("import uvicorn.server\nfrom django.db.models.sql import Query\nfrom django.db import models")
    assert _private_imports(tree) == {"uvicorn.server", "django.db.models.sql"}


def _parts() -> Iterator[tuple[str, object]]:
    """Module and public part of the package."""
    for info in pkgutil.iter_modules(compat.__path__):
        module = importlib.import_module(f"mcp_django.core.compat.{info.name}")
        for name, part in vars(module).items():
            own = getattr(part, "__module__", None) == module.__name__ and inspect.getdoc(part)
            if own and not name.startswith("_"):
                yield info.name, part


def _name(part: object) -> str:
    return str(getattr(part, "__name__", part))


def test_each_part_says_what_is_private_and_is_tested() -> None:
    parts = [(module, part, _name(part)) for module, part in _parts()]
    tests = {module: (_TESTS / f"test_{module}.py").read_text() for module, *_ in parts}
    described = {name: " ".join((inspect.getdoc(part) or "").split()) for _, part, name in parts}

    assert len(parts) > 60
    assert [
        n for n, text in described.items() if not re.search(r"Private: .+ Seen with: .+\d.+ Public way: .+", text)
    ] == []
    # Beside its import.
    assert [name for module, _, name in parts if len(re.findall(rf"\b{name}\b", tests[module])) < 2] == []
