"""Uploads in the trail: that bytes were stored, and how many, without the name of the file."""

from __future__ import annotations

from typing import Any

from tests.audit.conftest import Rows
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import Peers
from tests.uploads.conftest import Uploader, read_file


def test_each_body_of_an_upload_has_a_line(
    users: Any, peers: Peers, declared: Declared, rows: Rows, settings: Any, tmp_path: Any
) -> None:
    settings.MEDIA_ROOT = tmp_path
    declared.tool(read_file, read_only=True)
    client = Uploader(peers(token_of(users.admin, "read", name="agent")))

    uri = client.part(b"abc", 0, 5).json["uri"]
    client.part(b"zz", 0, 5, uri)
    client.part(b"de", 3, 5, uri)

    line = {"kind": "request", "method": "upload", "outcome": "done", "user_name": "admin", "token_name": "agent"}
    assert rows(*line, "bytes", "uri", "name") == [
        {**line, "bytes": 3, "uri": "", "name": ""},
        {**line, "bytes": 2, "uri": "", "name": ""},
    ]
