"""MCP["READ_ONLY"]: whether it holds, and how to look at what it closes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mcp_django.conf import get_conf

_is_ignored = ContextVar("mcp_django_read_only_is_ignored", default=False)


def is_read_only() -> bool:
    return get_conf().READ_ONLY and not _is_ignored.get()


@contextmanager
def read_only_ignored() -> Iterator[None]:
    """Find the tools that READ_ONLY closes, to look at them. Whoever uses it must refuse whatever writes."""
    token = _is_ignored.set(True)
    try:
        yield
    finally:
        _is_ignored.reset(token)
