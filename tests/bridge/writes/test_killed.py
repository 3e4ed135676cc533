"""Servers that are killed in the middle of a change: the client sends its call again, to another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import Change
from tests.bridge.writes.conftest import ALL_SCOPES
from tests.push.processes import ServedPeer, served
from tests.support.data import Users, switch_on, token_of
from tests.support.peers import MODERN, Message

pytestmark = [pytest.mark.slow, pytest.mark.every_database, pytest.mark.usefixtures("transactional_db")]

UPDATE: Message = {"model": "flights.flight", "id": "3", "values": {"notes": "fog"}}
Serve = Callable[[str], ServedPeer]


@pytest.fixture
def serve(users: Users, flights: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Clients of one token, each of a new server that dies where it is told to."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    token = token_of(users.admin, *ALL_SCOPES)
    with ExitStack() as running:

        def serve(dies_in: str) -> ServedPeer:
            monkeypatch.setenv("DIES_IN", dies_in)
            log = tmp_path / f"{dies_in or 'lives'}.log"
            peer = ServedPeer(
                token, running.enter_context(served("uvicorn", "", log, module="tests.bridge.writes.dying"))
            )
            running.callback(peer.close)
            return peer

        yield serve


def previewed(peer: ServedPeer) -> Message:
    return {**UPDATE, "confirm": peer.call("update_record", **UPDATE)["structuredContent"]["confirm"]}


def assert_dies(peer: ServedPeer, confirmed: Message) -> None:
    """The server is gone before it has answered."""
    with pytest.raises(httpx.TransportError):
        peer.send(MODERN, "tools/call", {"name": "update_record", "arguments": confirmed})


def asked(peer: ServedPeer, tool: str, **arguments: Any) -> Message:
    result = peer.call(tool, **arguments)
    assert not result.get("isError"), result
    content: Message = result["structuredContent"]
    return content


def entries() -> int:
    return LogEntry.objects.filter(action_flag=CHANGE).count()


def test_a_server_that_is_killed_after_the_commit_has_made_the_change(serve: Serve) -> None:
    dying, living = serve("on_commit"), serve("")
    confirmed = previewed(dying)
    assert_dies(dying, confirmed)
    left = Change.objects.get()

    again = asked(living, "update_record", **confirmed)

    assert left.state == "applied"
    assert again == {
        "status": "applied", "change": left.pk, "model": "flights.flight", "id": "3",
        "diff": [{"field": "notes", "before": "note 2", "after": "fog"}],
        "messages": ["The flight “flights.flight 3” was changed successfully."],
        "record": "db://flights/flight/3", "replayed": True, "undo_until": left.undo_until.isoformat(),
    }  # fmt: skip
    assert asked(living, "get_change", change=left.pk)["status"] == "applied"
    assert Flight.objects.get(pk=3).notes == "fog"
    assert entries() == 1


def test_a_server_that_is_killed_before_the_commit_has_changed_nothing(serve: Serve) -> None:
    # Both before the change is claimed: a server may take longer to start than a lease lasts.
    dying, living = serve("response_change"), serve("")
    confirmed = previewed(dying)
    assert_dies(dying, confirmed)

    meanwhile = asked(living, "update_record", **confirmed)
    left = (Flight.objects.get(pk=3).notes, entries())
    Change.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    again = asked(living, "update_record", **confirmed)

    assert (meanwhile["status"], left) == ("writing", ("note 2", 0))
    assert again["status"] == "applied"
    assert "replayed" not in again
    assert asked(living, "update_record", **confirmed) == {**again, "replayed": True}
    assert Flight.objects.get(pk=3).notes == "fog"
    assert entries() == 1
