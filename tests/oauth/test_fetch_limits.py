"""How long the document of a client may take, and how long it may be."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_django.oauth import fetching
from mcp_django.oauth.fetching import FetchError, fetch
from tests.oauth.test_clients import URL, answer, resolver


def test_a_document_has_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch, ["8.8.8.8"])
    monkeypatch.setattr(fetching.time, "monotonic", lambda: 1_000.0)
    seconds: list[float] = []

    def connect(address: Any, timeout: float) -> Any:
        seconds.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(fetching.socket, "create_connection", connect)

    with pytest.raises(FetchError):
        fetch(URL)

    assert seconds == [5.0]


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """``send(body)``: what the host of the client answers with."""
    resolver(monkeypatch, ["8.8.8.8"])
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(fetching._Connection, "connect", lambda connection: setattr(connection, "sock", ours))
    yield lambda body: theirs.sendall(answer(body))
    ours.close()
    theirs.close()


def test_a_document_of_sixteen_kilobytes_is_read(send: Callable[[bytes], None]) -> None:
    send(b" " * 16_384)

    assert len(fetch(URL).body) == 16_384


def test_a_document_that_is_longer_is_not(send: Callable[[bytes], None]) -> None:
    send(b" " * 16_385)

    with pytest.raises(FetchError, match="more than 16384 bytes"):
        fetch(URL)
