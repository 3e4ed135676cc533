"""The templates of prompts that administrators write: a few tags and filters, which reach nothing but the arguments.

Django's template engine parses them but does not render them, so that the size can be checked while rendering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.core.exceptions import ValidationError
from django.template import Context, TemplateSyntaxError, defaultfilters
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf
from mcp_django.core.compat.templates import (
    CommentNode,
    FilterExpression,
    IfNode,
    Node,
    TextNode,
    Variable,
    VariableNode,
    expressions_in,
    make_engine,
    names_in,
    variables_in,
)
from mcp_django.exceptions import ToolError
from mcp_django.protocol.errors import LimitExceeded
from mcp_django.protocol.names import NAME
from mcp_django.protocol.types import JSON


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that a client asks for before it gets the prompt. Its value is always a text."""

    name: str
    required: bool
    title: str = ""
    description: str = ""

    def to_json(self) -> JSON:
        described: JSON = {"name": self.name, "required": self.required}
        if self.title:
            described["title"] = self.title
        if self.description:
            described["description"] = self.description
        return described


_TAGS = ("if", "comment")
#: Left out are filters that make much output from little input (center, join, repeated addslashes), that read
#: attributes (dictsort), that depend on more than their input (random, date), and that are slow on malicious text
#: (urlize, striptags).
_FILTERS = (
    "capfirst", "cut", "default", "length", "lower", "pluralize", "slice", "slugify", "title", "truncatechars",
    "truncatewords", "upper", "urlencode", "wordcount", "wordwrap",
)  # fmt: skip
#: Even these filters make much output from little input when many stand in a row.
_MAX_FILTERS = 5
_MAX_DEPTH = 20
_TOO_DEEP = _("Tags may be nested %(most)d deep.")
#: Names that the engine itself defines.
_CONSTANTS = frozenset({"True", "False", "None"})


_engine = make_engine(_TAGS, _FILTERS)


class CompiledTemplate:
    """A template with its arguments, in the order in which the template first names them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Raises ValidationError for templates that the engine accepts and we do not."""
        self._nodes = list(nodes)
        #: Name → whether the argument is required.
        self._required: dict[str, bool] = {}
        self._read(self._nodes, frozenset(), 0)
        self.arguments = [Argument(name, required) for name, required in self._required.items()]

    def _read(self, nodes: Iterable[Node], tested: frozenset[str], depth: int) -> None:
        """Collect the arguments of nodes. They stand inside ifs that test the arguments ``tested``."""
        if depth > _MAX_DEPTH:
            raise ValidationError(_TOO_DEEP, params={"most": _MAX_DEPTH})
        for node in nodes:
            if isinstance(node, VariableNode):
                self._note(node.filter_expression, tested)
            elif isinstance(node, IfNode):
                conditions = [condition for condition, _ in node.conditions_nodelists if condition is not None]
                named = {
                    name
                    for condition in conditions
                    for expression in expressions_in(condition)
                    for name in self._note(expression, None)
                }
                for _, inner in node.conditions_nodelists:
                    self._read(inner, tested | named, depth + 1)

    def _note(self, expression: FilterExpression, tested: frozenset[str] | None) -> list[str]:
        """Collect the names in an expression. With None for ``tested``, an if only tests them."""
        if len(expression.filters) > _MAX_FILTERS:
            raise ValidationError(_("A value may pass %(most)d filters, not more."), params={"most": _MAX_FILTERS})
        has_default = any(function is defaultfilters.default for function, _ in expression.filters)
        names = []
        for variable in variables_in(expression):
            for name in _names_of(variable):
                names.append(name)
                is_filled = has_default and variable is expression.var
                is_optional = tested is None or name in tested or is_filled
                self._required[name] = self._required.get(name, False) or not is_optional
        return names

    def render(self, arguments: Mapping[str, str]) -> str:
        """The rendered text. Raises LimitExceeded, and ToolError for values that a filter cannot take."""
        values = {argument.name: arguments.get(argument.name, "") for argument in self.arguments}
        context = Context(values, autoescape=False)
        limit = get_conf().MAX_RESULT_BYTES
        written, size = [], 0
        try:
            for part in _parts(self._nodes, context):
                size += len(part)
                if size > limit:
                    raise LimitExceeded(f"The prompt would be larger than {limit} bytes (MAX_RESULT_BYTES).")
                written.append(part)
        except (ValueError, TypeError, OverflowError):
            raise ToolError("This prompt cannot be written with these values.") from None
        return "".join(written)


def _parts(nodes: Iterable[Node], context: Context) -> Iterator[str]:
    """The output of the nodes, piece by piece."""
    for node in nodes:
        if isinstance(node, TextNode):
            yield node.s
        elif isinstance(node, VariableNode):
            yield str(node.filter_expression.resolve(context, ignore_failures=True))
        elif isinstance(node, IfNode):
            for condition, inner in node.conditions_nodelists:
                if condition is None or condition.eval(context):  # type: ignore[arg-type]
                    yield from _parts(inner, context)
                    break
        elif not isinstance(node, CommentNode):
            raise AssertionError(f"the engine knows no {type(node).__name__}")


def _names_of(variable: Variable) -> Iterator[str]:
    """The name of the argument that a variable stands for, or nothing for a number. Raises ValidationError."""
    names = names_in(variable)
    if len(names) > 1:
        text = _("“%(name)s”: an argument is a text, so nothing may follow a dot.")
        raise ValidationError(text, params={"name": variable.var})
    for name in names:
        if name in _CONSTANTS:
            return
        if not NAME.fullmatch(name):
            text = _("“%(name)s”: the name of an argument is 1 to 64 letters, digits and _.")
            raise ValidationError(text, params={"name": name})
        yield name


@lru_cache(maxsize=256)
def compile_template(text: str) -> CompiledTemplate:
    """Compile the template that an administrator wrote. The ValidationError says what is wrong with it."""
    try:
        return CompiledTemplate(_engine.from_string(text).nodelist)
    except TemplateSyntaxError as error:
        message = str(error)
        if message.startswith("Invalid block tag"):
            # The engine's text goes on to suggest loading the tag, which is impossible here.
            message, there = message.partition(". ")[0], "if, elif, else, comment"
        else:
            there = ", ".join(_FILTERS) if message.startswith("Invalid filter") else ""
        # The engine says it in English.
        said = _("The template is wrong: %(error)s")
        if there:
            said = _("The template is wrong: %(error)s. There are: %(names)s.")
        raise ValidationError(said, params={"error": message, "names": there}) from None
    except RecursionError:
        raise ValidationError(_TOO_DEEP, params={"most": _MAX_DEPTH}) from None
