"""Templates as trees."""

from __future__ import annotations

import pytest
from django.template import Context, TemplateSyntaxError

from mcp_django.core.compat.templates import (
    CommentNode,
    IfNode,
    TextNode,
    VariableNode,
    expressions_in,
    make_engine,
    names_in,
    variables_in,
)

_ENGINE = make_engine(["if", "comment"], ["default", "upper", "cut"])


def test_make_engine_knows_only_the_given_tags_and_filters() -> None:
    template = _ENGINE.from_string("{% if a %}{{ a|upper }}{% else %}{{ b|default:'none' }}{% endif %} & {{ a }}")

    assert template.render(Context({"a": "<x>"}, autoescape=False)) == "<X> & <x>"
    assert template.render(Context({})) == "none & "
    for text in ("{% for a in b %}{% endfor %}", "{% include 'a' %}", "{% load i18n %}", "{{ a|lower }}"):
        with pytest.raises(TemplateSyntaxError):
            _ENGINE.from_string(text)


def test_the_nodes_of_a_template() -> None:
    nodes = _ENGINE.from_string("text{{ a }}{% if b %}c{% endif %}{% comment %}d{% endcomment %}").nodelist

    text, variable, condition, comment = nodes
    assert isinstance(text, TextNode)
    assert text.s == "text"
    assert isinstance(variable, VariableNode)
    assert variable.filter_expression.resolve(Context({"a": 1})) == 1
    assert isinstance(condition, IfNode)
    [(asked, inner)] = condition.conditions_nodelists
    assert asked.eval(Context({"b": 1}))
    assert [type(node) for node in inner] == [TextNode]
    assert isinstance(comment, CommentNode)


def test_expressions_in_variables_in_and_names_in_a_condition() -> None:
    [node] = _ENGINE.from_string("{% if not a.b and c|default:d == 'text' or 1 in e %}{% endif %}").nodelist
    assert isinstance(node, IfNode)
    [(condition, _)] = node.conditions_nodelists

    expressions = list(expressions_in(condition))

    assert [str(expression) for expression in expressions] == ["a.b", "c|default:d", "'text'", "1", "e"]
    names = [[list(names_in(variable)) for variable in variables_in(expression)] for expression in expressions]
    assert names == [[["a", "b"]], [["c"], ["d"]], [], [[]], [["e"]]]


def test_variables_in_have_the_expressions_own_first() -> None:
    [node] = _ENGINE.from_string("{{ a|cut:b|default:'c' }}").nodelist
    assert isinstance(node, VariableNode)

    own, given = variables_in(node.filter_expression)

    assert own is node.filter_expression.var
    assert [*names_in(own), *names_in(given)] == ["a", "b"]
    assert len(node.filter_expression.filters) == 2
