"""MCP["READ_ONLY"]: whether agents have no tool that may change data, and what asks what they have without it."""

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
    """Within it, the tools that READ_ONLY closes are found: only to look at, since whatever writes must be refused."""
    token = _is_ignored.set(True)
    try:
        yield
    finally:
        _is_ignored.reset(token)
