"""The view classes that a URLconf serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def views_below(resolver: Any) -> Iterator[Any]:
    """The classes of Django REST framework, each as often as it is served."""
    for one in resolver.url_patterns:
        if hasattr(one, "url_patterns"):
            yield from views_below(one)
        elif (cls := getattr(one.callback, "cls", None)) is not None and cls.__module__.startswith("tests."):
            yield cls
