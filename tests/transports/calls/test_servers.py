"""How open calls end with their server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.end_to_end.servers import ROOT, Project
from tests.push.processes import ServedPeer
from tests.push.test_two_servers import Stream
from tests.push.test_two_servers import begin as begin_served
from tests.support import schemas
from tests.support.data import switch_on, token_of

END_SECONDS = 60


def _project(folder: Path) -> Project:
    folder.mkdir()
    variables = {
        "DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_DATABASE_NAME": str(connection.settings_dict["NAME"]),
        "TEST_MODULE": "tests.push.asking_tools", "DEMO_DIR": str(folder),
    }  # fmt: skip
    return Project(ROOT, "tests", folder, variables)


def _client(token: str, origin: str) -> ServedPeer:
    peer = ServedPeer(token, origin)
    peer.capabilities = {"elicitation": {}}
    return peer


@pytest.mark.more("servers that end")
@pytest.mark.slow
@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
def test_open_questions_end_with_the_server(server: str, users: Any, tmp_path: Path) -> None:
    """A server waits for open streams, and a question is open for as long as its user likes."""
    switch_on("greet")
    with _project(tmp_path / "one").served(server) as served:
        peer = _client(token_of(users.admin), served.origin)
        stream = begin_served(peer, "2025-11-25", "greet")
        question = stream.next()
        assert question is not None

        served.process.terminate()
        cancelled, end = stream.next(), stream.next()

        for told in (cancelled, end):
            assert told is not None
            schemas.check(told, "2025-11-25", "tools/call")
        assert cancelled["params"]["requestId"] == question["id"]
        assert end["error"]["data"] == {"reason": "OVERLOADED"}
        assert stream.next() is None
        assert served.process.wait(END_SECONDS) is not None
        peer.client.close()


@pytest.mark.more("servers that end")
@pytest.mark.slow
@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
def test_resumed_streams_end_with_the_server_and_go_on_at_another(server: str, users: Any, tmp_path: Path) -> None:
    switch_on("greet")
    with _project(tmp_path / "one").served("uvicorn") as one, _project(tmp_path / "other").served(server) as other:
        here, there = (_client(token_of(users.admin), served.origin) for served in (one, other))
        there.token, there.sessions = here.token, here.sessions
        stream = begin_served(here, "2025-11-25", "greet")
        question = stream.next()
        assert question is not None
        first = {"Last-Event-ID": f"{stream.last_id.rpartition('-')[0]}-0"}
        rest = Stream(there, "2025-11-25", "GET", first)
        assert rest.next() == question

        other.process.terminate()
        assert rest.next() is None
        assert other.process.wait(END_SECONDS) is not None

        again = Stream(here, "2025-11-25", "GET", first)
        assert again.next() == question
        for peer in (here, there):
            peer.client.close()
