"""Exceptions of a project's own code, for a test that wants to see them: the server answers without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_hear: ContextVar[Callable[[BaseException], None] | None] = ContextVar("mcp_django_failures", default=None)


@contextmanager
def heard_by(hear: Callable[[BaseException], None]) -> Iterator[None]:
    """Within the block, ``hear`` is given each exception that ends a call and whose text no client gets."""
    token = _hear.set(hear)
    try:
        yield
    finally:
        _hear.reset(token)


def note(error: BaseException) -> None:
    """Say that the error has ended a call. It is written to the log elsewhere."""
    hear = _hear.get()
    if hear is not None:
        hear(error)
