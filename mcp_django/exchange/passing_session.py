"""A session for code that cannot do without one: it is empty, stored nowhere, and ends with the block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.contrib.sessions.backends.base import SessionBase

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


@contextmanager
def passing_session(request: MCPRequest) -> Iterator[None]:
    """Within the block, ``request.session`` is a session of its own, which nobody can take up again."""
    request.session = _PassingSession()
    try:
        yield
    finally:
        del request.session


class _PassingSession(SessionBase):
    def load(self) -> dict[str, Any]:
        return {}

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None:
        """Nothing is made."""

    def save(self, must_create: bool = False) -> None:
        """Nothing is stored."""

    def delete(self, session_key: str | None = None) -> None:
        """Nothing is there."""
