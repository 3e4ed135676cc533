"""Django's templates as trees: their nodes, and the names in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from django.template import Engine, Library, defaultfilters, defaulttags
from django.template.base import FilterExpression, Node, TextNode, Variable, VariableNode
from django.template.defaulttags import CommentNode, IfNode

__all__ = [
    "CommentNode",
    "FilterExpression",
    "IfNode",
    "Node",
    "TextNode",
    "Variable",
    "VariableNode",
    "expressions_in",
    "make_engine",
    "names_in",
    "variables_in",
]


class _Engine(Engine):
    default_builtins: ClassVar[list[str]] = []


def make_engine(tags: Iterable[str], filters: Iterable[str]) -> Engine:
    """An engine with only these tags and filters of Django. It loads no templates and no libraries.

    Private: ``Engine.default_builtins``, ``Engine.template_builtins``, and the dictionaries of a Library. Seen with:
    Django 5.2, 6.0, 6.1. Public way: ``Engine(builtins=…)``, which only adds libraries to Django's own.
    """
    library = Library()
    library.tags.update({name: defaulttags.register.tags[name] for name in tags})
    library.filters.update({name: defaultfilters.register.filters[name] for name in filters})
    engine = _Engine(loaders=[], autoescape=False)
    engine.template_builtins = [library]
    return engine


def expressions_in(condition: Any) -> Iterator[FilterExpression]:
    """The expressions in the condition of an ``if``.

    Private: ``TemplateLiteral.value``, and ``first`` and ``second`` of the operators of ``django.template.smartif``.
    Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    if isinstance(getattr(condition, "value", None), FilterExpression):
        yield condition.value
    for operand in (condition.first, condition.second):
        if operand is not None:
            yield from expressions_in(operand)


def variables_in(expression: FilterExpression) -> Iterator[Variable]:
    """The variables of an expression: its own one first, if it has one, and then those in the arguments of its filters.

    Private: ``FilterExpression.var`` and ``filters``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    if isinstance(expression.var, Variable):
        yield expression.var
    for _, arguments in expression.filters:
        for is_variable, argument in arguments:
            if is_variable:
                yield argument


def names_in(variable: Variable) -> Sequence[str]:
    """The names in a variable between its dots. A number or a text has none.

    Private: ``Variable.lookups``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return variable.lookups or ()
