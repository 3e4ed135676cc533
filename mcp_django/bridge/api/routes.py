"""The URLs of the project: what each of them leads to, and the path for given values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import Http404
from django.urls import LocalePrefixPattern, ResolverMatch, URLPattern, URLResolver, get_resolver
from django.utils.regex_helper import normalize

#: The longest value within a path.
_MAX_CHARS = 1_000


class NoPath(ValueError):
    """No path of the URL has these values. ``name`` is that of the wrong one."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True, eq=False)
class Route:
    """A URL pattern with those that include it."""

    #: The pattern objects, from the outermost.
    parts: Sequence[Any]
    pattern: URLPattern
    namespaces: Sequence[str]
    #: The converters of its variables.
    converters: Mapping[str, Any]

    @property
    def callback(self) -> Any:
        return self.pattern.callback

    @property
    def url_name(self) -> str:
        return self.pattern.name or ""

    @property
    def full_name(self) -> str:
        """The name by which ``reverse`` knows it."""
        return ":".join([*self.namespaces, self.url_name])

    @cached_property
    def text(self) -> str:
        """The path as people read it: ``/api/orders/{pk}/``."""
        template, names = self._templates[-1]
        return f"/{template}" % {name: f"{{{name}}}" for name in names}

    @property
    def names(self) -> Sequence[str]:
        """The names of its variables."""
        return self._templates[-1][1]

    @property
    def optional_names(self) -> Collection[str]:
        """Those that the path may be without."""
        return {name for _, names in self._templates for name in self.names if name not in names}

    @cached_property
    def regex(self) -> str:
        """The whole pattern of the path, which tells URLs apart."""
        return self._regex()

    def _regex(self) -> str:
        return "".join(part.regex.pattern.removeprefix("^") for part in self.parts)

    @property
    def _templates(self) -> Sequence[tuple[str, Sequence[str]]]:
        """The forms of the path, as texts with ``%(name)s``, each with its names; the longest last."""
        if any(isinstance(part, LocalePrefixPattern) for part in self.parts):
            return self._normalized()  # The language of the thread is in it.
        return self._fixed

    @cached_property
    def _fixed(self) -> Sequence[tuple[str, Sequence[str]]]:
        return self._normalized()

    def _normalized(self) -> Sequence[tuple[str, Sequence[str]]]:
        return sorted(((template, names) for template, names in normalize(self._regex())), key=lambda one: len(one[1]))

    def path(self, values: Mapping[str, Any]) -> str:
        """The path with the values, each a text or a number. It may lead elsewhere: see ``check``. Raises NoPath."""
        missing = [name for name in self.names if name not in values]
        template, names = next(
            ((one, names) for one, names in self._templates if set(names) == values.keys()), self._templates[-1]
        )
        if missing and set(names) != values.keys():
            raise NoPath(missing[0], "is missing.")
        texts = {name: self._text(name, values[name]) for name in names}
        path = f"/{template}" % texts
        try:
            path.encode()
        except UnicodeEncodeError:
            raise NoPath(names[0], "is no text.") from None
        return path

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise NoPath(name, "must be a text or a number.")
        if len(str(value)) > _MAX_CHARS:
            raise NoPath(name, f"is longer than {_MAX_CHARS} characters.")
        text = str(value)
        if name in self.converters:
            converter = self.converters[name]
            if not re.fullmatch(converter.regex, text):
                raise NoPath(name, "does not have the form that the path wants.")
        return text

    def check(self, match: ResolverMatch, values: Mapping[str, Any]) -> None:
        """Raises Http404 unless the path with the values leads to this very view, with these very values."""
        fixed: Mapping[str, Any] = match.extra_kwargs or {}  # type: ignore[attr-defined]
        found = {name: value for name, value in match.kwargs.items() if name in values or name not in fixed}
        # Groups without names, which ``normalize`` calls so.
        found |= {f"_{number}": value for number, value in enumerate(match.args)}
        expected = {name: self._value(name, str(value)) for name, value in values.items()}
        if match.func is not self.callback or found != expected:
            raise Http404("The path leads to another view.")

    def _value(self, name: str, text: str) -> Any:
        return self.converters[name].to_python(text) if name in self.converters else text


def served_routes() -> Iterator[Route]:
    """Every URL of ROOT_URLCONF, in the order in which they are tried."""
    return _routes(get_resolver().url_patterns, (), (), {})


def _routes(
    patterns: Iterable[Any], parts: Sequence[Any], namespaces: Sequence[str], converters: Mapping[str, Any]
) -> Iterator[Route]:
    for one in patterns:
        inner = {**converters, **getattr(one.pattern, "converters", {})}
        if isinstance(one, URLPattern):
            yield Route((*parts, one.pattern), one, namespaces, inner)
        elif isinstance(one, URLResolver):
            spaces = (*namespaces, one.namespace) if one.namespace else namespaces
            yield from _routes(one.url_patterns, (*parts, one.pattern), spaces, inner)
