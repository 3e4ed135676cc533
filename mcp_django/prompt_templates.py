"""Prompts that administrators write: templates of a few tags and filters, with nothing in reach but the arguments.

Django's template engine reads them but does not render them: what is written is counted while it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.template import Context, Engine, Library, TemplateSyntaxError, defaultfilters, defaulttags
from django.template.base import FilterExpression, Node, TextNode, Variable, VariableNode
from django.template.defaulttags import CommentNode, IfNode

from mcp_django.conf import get_conf
from mcp_django.exceptions import ToolError
from mcp_django.protocol.errors import LimitExceeded
from mcp_django.protocol.names import NAME
from mcp_django.types import JSON


@dataclass(frozen=True, slots=True)
class Argument:
    """What a client asks for before it gets the prompt. Its value is a text, whatever becomes of it."""

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


_TAGS = {"if": defaulttags.do_if, "comment": defaulttags.comment}
#: None makes much out of little (center, join, addslashes again and again), reads attributes (dictsort), depends on
#: anything but its input (random, date), or is slow on text that was made for it (urlize, striptags).
_FILTERS = (
    "capfirst", "cut", "default", "length", "lower", "pluralize", "slice", "slugify", "title", "truncatechars",
    "truncatewords", "upper", "urlencode", "wordcount", "wordwrap",
)  # fmt: skip
#: A few of them in a row still make much out of little.
_MAX_FILTERS = 5
_MAX_DEPTH = 20
#: What the engine itself knows by name.
_CONSTANTS = frozenset({"True", "False", "None"})


class _Engine(Engine):
    default_builtins: ClassVar[list[str]] = []


def _make_engine() -> Engine:
    library = Library()
    library.tags.update(_TAGS)
    library.filters.update({name: defaultfilters.register.filters[name] for name in _FILTERS})
    engine = _Engine(loaders=[], autoescape=False)
    engine.template_builtins = [library]
    return engine


_engine = _make_engine()


class CompiledTemplate:
    """A template with its arguments, in the order in which they are first named."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Raises ValidationError for what the engine takes and we do not."""
        self._nodes = list(nodes)
        #: Name → whether it must be given.
        self._required: dict[str, bool] = {}
        self._read(self._nodes, frozenset(), 0)
        self.arguments = [Argument(name, required) for name, required in self._required.items()]

    def _read(self, nodes: Iterable[Node], tested: frozenset[str], depth: int) -> None:
        """Note the arguments of nodes that stand inside of ifs which name those that are ``tested``."""
        if depth > _MAX_DEPTH:
            raise ValidationError(f"Tags may be nested {_MAX_DEPTH} deep.")
        for node in nodes:
            if isinstance(node, VariableNode):
                self._note(node.filter_expression, tested)
            elif isinstance(node, IfNode):
                conditions = [condition for condition, _ in node.conditions_nodelists if condition is not None]
                named = {
                    name
                    for condition in conditions
                    for expression in _expressions(condition)
                    for name in self._note(expression, None)
                }
                for _, inner in node.conditions_nodelists:
                    self._read(inner, tested | named, depth + 1)

    def _note(self, expression: FilterExpression, tested: frozenset[str] | None) -> list[str]:
        """Note the names in an expression; None for ``tested``: they are but asked about."""
        if len(expression.filters) > _MAX_FILTERS:
            raise ValidationError(f"A value may pass {_MAX_FILTERS} filters, not more.")
        has_default = any(function is defaultfilters.default for function, _ in expression.filters)
        names = []
        for variable in _variables(expression):
            for name in _names_of(variable):
                names.append(name)
                is_filled = has_default and variable is expression.var
                is_optional = tested is None or name in tested or is_filled
                self._required[name] = self._required.get(name, False) or not is_optional
        return names

    def render(self, arguments: Mapping[str, str]) -> str:
        """The text. Raises LimitExceeded, and ToolError for values that a filter cannot take."""
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
    """What the nodes write, piece by piece."""
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


def _expressions(condition: Any) -> Iterator[FilterExpression]:
    """The expressions that the condition of an if is made of."""
    if isinstance(getattr(condition, "value", None), FilterExpression):
        yield condition.value
    for operand in (condition.first, condition.second):
        if operand is not None:
            yield from _expressions(operand)


def _variables(expression: FilterExpression) -> Iterator[Variable]:
    """The expression's own variable first, if it is one, then those that its filters are given."""
    if isinstance(expression.var, Variable):
        yield expression.var
    for _, arguments in expression.filters:
        for is_variable, argument in arguments:
            if is_variable:
                yield argument


def _names_of(variable: Variable) -> Iterator[str]:
    """The name of the argument that a variable is; none for a number. Raises ValidationError."""
    if variable.lookups is None:
        return
    if len(variable.lookups) > 1:
        raise ValidationError(f"“{variable.var}”: an argument is a text, and has nothing after a dot.")
    [name] = variable.lookups
    if name in _CONSTANTS:
        return
    if not NAME.fullmatch(name):
        raise ValidationError(f"“{name}”: the name of an argument is 1 to 64 letters, digits and _.")
    yield name


@lru_cache(maxsize=256)
def compile_template(text: str) -> CompiledTemplate:
    """The template that an administrator wrote. Raises ValidationError that says what is wrong with it."""
    try:
        return CompiledTemplate(_engine.from_string(text).nodelist)
    except TemplateSyntaxError as error:
        message = str(error)
        if message.startswith("Invalid block tag"):
            # The engine goes on to ask for a tag to be loaded, which cannot be done here.
            message = f"{message.partition('. ')[0]}. There are if, elif, else and comment."
        elif message.startswith("Invalid filter"):
            message = f"{message}. There are {', '.join(_FILTERS)}."
        raise ValidationError(message) from None
    except RecursionError:
        raise ValidationError(f"Tags may be nested {_MAX_DEPTH} deep.") from None
