"""Resource templates that a project declares as functions, with ``@resource("scheme://…/{variable}")``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist, PermissionDenied
from django.http import Http404
from django.utils.functional import cached_property

from mcp_django.bridge.completion import CompletionFunction
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.function import DeclaredByFunction, Shown, contents
from mcp_django.content import write_annotations
from mcp_django.core.running.suspension import finishing
from mcp_django.exchange.functions import call_function
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


#: The simple expansion of RFC 6570 §3.2.2: a name in braces, without operators.
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Characters that an expansion always encodes (RFC 3986 §2.2).
_RESERVED = frozenset(":/?#[]@!$&'()*+,;=")
#: Characters that a value must encode, whatever the template.
_ALWAYS_ENCODED = frozenset("/?#{}")


@dataclass(frozen=True)
class FunctionTemplate(DeclaredByFunction):
    """A resource template. A function of the request and the variables returns the contents: ``f(request, id)``.

    A value is decoded once. It is never ``.``, ``..`` or empty, and holds no null characters. In a ``file:`` URI it
    holds no slashes either. Raises ImproperlyConfigured for a template that cannot be matched, or does not fit the
    function.
    """

    complete: Mapping[str, CompletionFunction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scheme = _SCHEME.match(self.uri)
        if scheme is None:
            raise ImproperlyConfigured(f"{self.uri}: a resource template begins with a scheme, which has no variables.")
        for name in self.variables:
            if not _NAME.fullmatch(name):
                raise ImproperlyConfigured(
                    f"{self.uri}: {{{name}}} is no variable. Write names alone, as {{id}}, without operators."
                )
        if len(set(self.variables)) < len(self.variables) or "{" in "".join(self._literals):
            raise ImproperlyConfigured(f"{self.uri}: each variable stands once, in braces of its own.")
        for literal in self._literals[1:-1]:
            if not _RESERVED & set(literal):
                raise ImproperlyConfigured(
                    f"{self.uri}: two variables need a character between them that no value holds, as / or a comma."
                )
        super().__post_init__()
        self._check_function()

    def _check_function(self) -> None:
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        names = {parameter.name for parameter in parameters}
        needed = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        if not takes_any and (set(self.variables) - names or needed - set(self.variables)):
            taken = ", ".join(["the request", *self.variables])
            raise ImproperlyConfigured(f"{self.uri}: the function {self.function.__name__} must take {taken}.")
        unknown = sorted(set(self.complete) - set(self.variables))
        if unknown:
            raise ImproperlyConfigured(f"{self.uri}: complete= names {unknown[0]!r}, which is not a variable of it.")

    @cached_property
    def variables(self) -> list[str]:
        return _VARIABLE.findall(self.uri)

    @cached_property
    def _literals(self) -> list[str]:
        """The texts around the variables: one more than there are variables."""
        return _VARIABLE.split(self.uri)[::2]

    @cached_property
    def _excluded(self) -> frozenset[str]:
        """Characters that a value of this template must encode, so that its end can be found."""
        after_scheme = "".join(self._literals).partition(":")[2].removeprefix("//")
        return _ALWAYS_ENCODED | (_RESERVED & set(after_scheme))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        value = f"([^{re.escape(''.join(sorted(self._excluded)))}]+)"
        return re.compile(value.join(re.escape(uris.decoded(literal)) for literal in self._literals))

    def match(self, uri: str) -> dict[str, str] | None:
        """The decoded values of the variables, or None if the URI does not match the template."""
        found = self._pattern.fullmatch(uris.decoded(uri))
        if found is None:
            return None
        try:
            values = [unquote(value, errors="strict") for value in found.groups()]
        except UnicodeDecodeError:
            return None
        if any(value in ("", ".", "..") or "\x00" in value for value in values):
            return None
        if self.uri.lower().startswith("file:") and any("/" in value or "\\" in value for value in values):
            return None
        return dict(zip(self.variables, values, strict=True))

    def spelled(self, uri: str) -> str:
        values = self.match(uri) or {}
        return _VARIABLE.sub(lambda found: quote(values.get(found[1], ""), safe=""), self.uri)

    def has_the_uris_of(self, other: FunctionTemplate) -> bool:
        """Whether both match the same URIs: they differ in the names of their variables alone."""
        return self._literals == other._literals

    def describe(self) -> JSON:
        described = self.describe_as("uriTemplate")
        if self.annotations:
            described["annotations"] = write_annotations(**self.annotations)
        return described

    def read(self, request: MCPRequest, uri: str, shown: Shown) -> JSON | None:
        """The contents of one of its URIs; None if the function finds none."""
        values = self.match(uri)
        if values is None:
            return None
        call = partial(call_function, self.function, request, values, name=f"resource {self.uri}")
        return finishing(partial(self._contents, uri, shown), call)

    def _contents(self, uri: str, shown: Shown, run: Callable[[], Any]) -> JSON | None:
        try:
            value = shown(run())
        except (ObjectDoesNotExist, Http404, PermissionDenied):
            return None
        return None if value is None else contents(uri, self.mime_type, value)
