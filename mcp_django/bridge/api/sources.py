"""Names that a view's own source reads of a query or a body, which no schema of the view has."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from django.contrib.auth import get_user_model

#: Packages whose methods are known: what they read is described otherwise.
_KNOWN = ("rest_framework.", "django.", "django_filters.", "drf_spectacular.", "rest_framework_nested.", "ninja.")
#: The attributes of a request, and what they hold.
_ATTRIBUTES = {"query_params": "query", "GET": "query", "data": "body", "POST": "body", "FILES": "files"}
#: Methods of these that name what they read, and those that read nothing.
_NAMING = frozenset({"get", "getlist", "pop"})
#: What takes a request and is known to read no names of its own.
_HANDING_ON = frozenset({
    "check_object_permissions", "check_permissions", "filter_queryset", "get_paginated_response",
    "paginate_queryset", "get_object", "get_serializer", "get_serializer_context", "initialize_request",
    "perform_create", "perform_update", "reverse", "build_absolute_uri", "get_current_site", "has_permission",
    "has_object_permission", "render",
})  # fmt: skip
#: Methods of these that give the whole once more.
_COPYING = frozenset({"copy", "dict"})
#: What a variable is called that holds the request.
_REQUEST = "request"
#: How deep functions are followed that a view hands its request to.
_DEPTH = 3


@dataclass(slots=True)
class Names:
    """What was found of a query, or of a body."""

    names: set[str] = field(default_factory=set)
    #: Those of them that are files.
    files: set[str] = field(default_factory=set)
    #: Whether it is read as a whole, so that any name may count.
    is_whole: bool = False
    #: The classes of serializers and forms that read it, which are named where they are made.
    readers: set[type] = field(default_factory=set)

    def add(self, other: Names) -> None:
        self.names |= other.names
        self.files |= other.files
        self.is_whole |= other.is_whole
        self.readers |= other.readers


@dataclass(slots=True)
class Found:
    query: Names = field(default_factory=Names)
    body: Names = field(default_factory=Names)
    #: Whether the body is read as a form, which JSON is not.
    is_form: bool = False

    def add(self, other: Found) -> None:
        self.query.add(other.query)
        self.body.add(other.body)
        self.is_form |= other.is_form


def of_view(cls: type, handler: str, others: frozenset[str]) -> Found:
    """What the project's own methods of a view class read, but for the handlers of its ``others`` actions."""
    found = Found()
    for name, method in _own_methods(cls):
        if name == handler or name not in others:
            found.add(of_function(method))
    return found


def of_classes(*classes: Any) -> Found:
    """What the project's own methods of serializers, filters, paginators and the like read."""
    found = Found()
    for cls in classes:
        for _, method in _own_methods(cls) if isinstance(cls, type) else ():
            found.add(of_function(method))
    return found


def _own_methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    seen: set[str] = set()
    for one in cls.__mro__:
        if f"{one.__module__}.".startswith(_KNOWN) or one is object:
            continue
        for name, value in vars(one).items():
            function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            if isinstance(function, FunctionType) and name not in seen:
                seen.add(name)
                yield name, function


def returned_by(function: Any) -> Iterator[Any]:
    """What a function of the project returns, as far as a name says it: ``User`` of ``return User.objects.all()``."""
    tree = None if function is None or _is_known(function) else _tree_of(function)
    nodes = [] if tree is None else list(ast.walk(tree))
    variables = {
        target.id: node.value
        for node in reversed(nodes)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Return):
            for one in [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]:
                name = _root_of(one)
                name = name if name not in variables else _root_of(variables[name])
                found = getattr(function, "__globals__", {}).get(name)
                yield get_user_model() if found is get_user_model else found


def _root_of(node: Any) -> str:
    """The name with which an expression begins; empty where it begins with none."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _tree_of(function: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return None


def of_function(function: Any, depth: int = 0) -> Found:
    """What a function reads of the request that it gets. Without its source, anything."""
    return _of_function(inspect.unwrap(function), depth)


@lru_cache(maxsize=5_000)
def _of_function(function: Any, depth: int) -> Found:
    tree = _tree_of(function)
    if tree is None:
        return Found(Names(is_whole=True), Names(is_whole=True))
    reader = _Reader(getattr(function, "__globals__", {}), depth)
    reader.visit(tree)
    return reader.found


class _Reader(ast.NodeVisitor):
    """Notes what is read of ``request.query_params`` and its kin, also of a variable that holds one of them."""

    def __init__(self, names: dict[str, Any], depth: int) -> None:
        self.found = Found()
        self._globals = names
        self._depth = depth
        #: Variables that hold the query, the body, or the request.
        self._held: dict[str, str] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        kind = _REQUEST if self._is_request(node.value) else self._kind(node.value)
        if kind and all(isinstance(target, ast.Name) for target in node.targets):
            self._held.update((target.id, kind) for target in node.targets if isinstance(target, ast.Name))
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute) and (kind := self._kind(function.value)):
            self._add(kind, _named(node.args[:1] if function.attr in _NAMING else ()))
            rest: list[ast.AST] = [*node.args[1:], *node.keywords]
        else:
            if any(self._is_request(one) for one in [*node.args, *(word.value for word in node.keywords)]):
                self._follow(function)
            rest = [function, *node.args, *filter(partial(self._is_unread, function), node.keywords)]
        for one in rest:
            self.visit(one)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if kind := self._kind(node.value):
            if isinstance(node.ctx, ast.Load):  # What is set there is not given.
                self._add(kind, _named([node.slice]))
        else:
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        match node:
            case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[held]) if kind := self._kind(held):
                self._add(kind, _named([name]))
            case _:
                self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if kind := self._kind(node):
            self._names(kind).is_whole = True
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if kind := self._kind(node):
            self._names(kind).is_whole = True

    def _is_unread(self, function: ast.expr, given: ast.keyword) -> bool:
        """Whether what a call gets is still to be looked at: not ``data=request.data`` of a serializer."""
        kind = self._kind(given.value) if given.arg == "data" else ""
        if not kind:
            return True
        name = getattr(function, "attr", getattr(function, "id", ""))
        if name in ("get_serializer", "serializer_class"):
            return False  # The serializer of the view, which is described.
        target = self._target(function)
        if not isinstance(target, type):
            return True
        self._names(kind).readers.add(target)
        return False

    def _target(self, function: ast.expr) -> Any:
        """What a name, or an attribute of a module, stands for."""
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return getattr(self._globals.get(function.value.id), function.attr, None)
        return self._globals.get(function.id) if isinstance(function, ast.Name) else None

    def _kind(self, node: ast.AST) -> str:
        """What of a request it is: "query", "body" or "files", also as a copy."""
        match node:
            case ast.Attribute(attr="query_params"):
                return "query"
            case ast.Attribute(attr=name) if self._is_request(node.value):
                self.found.is_form |= name == "POST"
                return _ATTRIBUTES.get(name, "")
            case ast.Name():
                return self._held.get(node.id, "").replace(_REQUEST, "")
            case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in _COPYING:
                return self._kind(held)
            case ast.Call(func=ast.Name(id="dict"), args=[held]):
                return self._kind(held)
            case ast.Dict(keys=keys, values=values):
                return next(
                    (kind for key, one in zip(keys, values, strict=True) if key is None and (kind := self._kind(one))),
                    "",
                )
        return ""

    def _is_request(self, node: ast.AST) -> bool:
        """Whether it is the request: by its name, or as a serializer has it in its context."""
        match node:
            case ast.Attribute(attr="request" | "_request"):
                return True
            case ast.Name():
                return node.id == "request" or self._held.get(node.id) == _REQUEST
            case ast.Subscript(value=held, slice=ast.Constant(value="request")):
                return not self._kind(held)
            case ast.Call(func=ast.Attribute(value=held, attr="get"), args=[ast.Constant(value="request"), *_]):
                return not self._kind(held)
        return False

    def _names(self, kind: str) -> Names:
        return self.found.query if kind == "query" else self.found.body

    def _add(self, kind: str, named: Names) -> None:
        named.files = named.names if kind == "files" else set()
        self._names(kind).add(named)

    def _follow(self, function: ast.expr) -> None:
        """Look into a function of the project that gets the request."""
        if isinstance(function, ast.Attribute):
            if _is_super(function.value) or function.attr in _HANDING_ON:
                return
            if isinstance(function.value, ast.Name) and function.value.id in ("self", "cls"):
                return  # It is looked at for itself.
        name = function.id if isinstance(function, ast.Name) else ""
        target = self._target(function)
        if name in ("getattr", "hasattr", "isinstance", "print") or _is_known(target):
            return
        if isinstance(target, FunctionType) and self._depth < _DEPTH:
            self.found.add(of_function(target, self._depth + 1))
        elif isinstance(target, type):
            self.found.add(of_classes(target))
        elif name or isinstance(function, ast.Attribute):
            self.found.query.is_whole = self.found.body.is_whole = True


def _named(nodes: Any) -> Names:
    """The names in nodes that are texts; anything, if one is not."""
    if not nodes or not all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in nodes):
        return Names(is_whole=True)
    return Names({one.value for one in nodes})


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_known(target: Any) -> bool:
    return f"{getattr(target, '__module__', '')}.".startswith(_KNOWN)
