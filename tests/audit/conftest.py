"""The audit trail switched on, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_django.audit import anonymous
from mcp_django.audit.recorder import recorder
from mcp_django.models import Call
from tests.support.peers import HTTPPeer, Peer

Rows = Callable[..., list[dict[str, Any]]]


def send_with(peer: Peer, headers: dict[str, str], method: str, **params: Any) -> None:
    """Send a request over HTTP with more headers."""
    assert isinstance(peer, HTTPPeer)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": peer.meta()}}
    peer.post(message, {**peer.modern_headers(method, message["params"]), **headers})


@pytest.fixture
def audited(settings: Any) -> Iterator[Callable[..., None]]:
    """Switches the trail on; calling it changes settings of MCP."""

    def change(**values: Any) -> None:
        settings.MCP = {**settings.MCP, **values}

    recorder._reset()
    change(AUDIT="on")
    yield change
    recorder._reset()


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted by the minute comes in the same one."""
    monkeypatch.setattr(anonymous, "time", SimpleNamespace(time=lambda: 6_000_000.0))


@pytest.fixture
def rows(audited: Callable[..., None]) -> Rows:
    """The rows of requests in their order, each with those columns that are asked for."""

    def read(*columns: str) -> list[dict[str, Any]]:
        recorder.flush()
        # Each test makes its tokens, and switches tools on.
        found = Call.objects.exclude(kind__in=[Call.Kind.TOKEN, Call.Kind.SWITCH])
        return list(found.order_by("pk").values(*columns))

    return read
