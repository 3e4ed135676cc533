"""Uploads to real servers, by the command that a tool's schema gives to agents with a shell."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.end_to_end.servers import Served, demo, wait_for
from tests.end_to_end.test_servers import BEHIND_DJANGO
from tests.support.peers import Message

pytestmark = pytest.mark.more("each server; `make test` has one")

#: The server, and whether Django's own handler is in front of our application.
SERVERS = [("uvicorn", False), ("uvicorn", True), ("daphne", False), ("hypercorn", False), ("granian", False),
           ("gunicorn", False)]  # fmt: skip
SETTINGS = """
INSTALLED_APPS = [*INSTALLED_APPS, "file_tools"]
MCP = {"MAX_UPLOADS": 2}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "mcp_uploads": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": __import__("os").environ["DEMO_DIR"] + "/stored"},
    },
}
"""
TOOL = '''
import hashlib

from django.core.files.uploadedfile import UploadedFile

from mcp_django import tool


@tool(read_only=True)
def digest(request, file: UploadedFile) -> str:
    """The SHA-256 of a file."""
    return hashlib.file_digest(file.file, "sha256").hexdigest()
'''
CONTENT = b"0123456789abcdef" * 2_000_000


@pytest.fixture(scope="module", params=SERVERS, ids=str)
def served(request: pytest.FixtureRequest, demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    name, is_behind_django = request.param
    folder = tmp_path_factory.mktemp(f"uploads_{name}_{is_behind_django}")
    shutil.copytree(demo_data, folder, dirs_exist_ok=True)
    (folder / "file_tools").mkdir()
    (folder / "file_tools" / "__init__.py").touch()
    (folder / "file_tools" / "mcp.py").write_text(TOOL)
    with demo(folder, SETTINGS + (BEHIND_DJANGO if is_behind_django else "")).served(name) as server:
        yield server, (folder / "token").read_text().strip(), folder


def call(server: Served, token: str, uri: str) -> str:
    answer = server.ask(token, "tools/call", {"name": "digest", "arguments": {"file": uri}}).json()
    text: str = answer["result"]["content"][0]["text"]
    return text


def command_of(server: Served, token: str) -> str:
    """The command for a shell that stands in the schema of the tool."""
    tools = server.ask(token, "tools/list", {}).json()["result"]["tools"]
    [found] = [tool for tool in tools if tool["name"] == "digest"]
    described: str = found["inputSchema"]["properties"]["file"]["description"]
    return described.partition("the answer to: ")[2]


def delete(server: Served, token: str, uri: str) -> None:
    url = f"{server.url}/upload/{uri.removeprefix('upload://')}"
    assert httpx.delete(url, headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code == 204


def test_the_command_of_the_schema_uploads_a_large_file(served: tuple[Served, str, Path], tmp_path: Path) -> None:
    server, token, folder = served
    (tmp_path / "large.bin").write_bytes(CONTENT)
    command = command_of(server, token).replace("TOKEN", token).replace("TYPE", "application/x-test")

    done = subprocess.run(
        [*shlex.split(command.replace("FILE", "large.bin")), "-sS"], cwd=tmp_path, check=False, capture_output=True,
        timeout=120,
    )  # fmt: skip
    answer: Message = json.loads(done.stdout)

    assert (answer["name"], answer["mimeType"], answer["size"]) == ("large.bin", "application/x-test", len(CONTENT))
    assert call(server, token, answer["uri"]) == hashlib.sha256(CONTENT).hexdigest()
    delete(server, token, answer["uri"])
    assert not [path for path in (folder / "stored").rglob("*") if path.is_file()]


def test_a_file_comes_in_parts(served: tuple[Served, str, Path]) -> None:
    server, token, _ = served
    total, half, url = len(CONTENT), len(CONTENT) // 2, f"{server.url}/upload"
    headers = {"Authorization": f"Bearer {token}"}

    with httpx.Client(headers=headers, timeout=120) as client:
        first = client.post(url, content=CONTENT[:half], headers={"Content-Range": f"bytes 0-{half - 1}/{total}"})
        where = httpx.URL(url).join(first.headers["location"])
        told = client.put(where, headers={"Content-Range": f"bytes */{total}"})
        wrong = client.put(where, content=b"x", headers={"Content-Range": f"bytes 0-0/{total}"})
        rest = {"Content-Range": f"bytes {half}-{total - 1}/{total}"}
        last = client.put(where, content=CONTENT[half:], headers=rest)

    assert [one.status_code for one in (first, told, wrong, last)] == [202, 202, 416, 201]
    assert first.headers["range"] == told.headers["range"] == wrong.headers["range"] == f"bytes=0-{half - 1}"
    uri = last.json()["uri"]
    assert call(server, token, uri) == hashlib.sha256(CONTENT).hexdigest()
    delete(server, token, uri)


def test_bodies_come_in_chunks(served: tuple[Served, str, Path]) -> None:
    server, token, _ = served
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()

    with httpx.Client(headers=headers, timeout=120) as client:
        answer = client.post(server.url, content=iter([message[:10], message[10:], b" " * 20_000]))
        file = client.post(f"{server.url}/upload", content=iter([CONTENT[:1_000], CONTENT[1_000:]]))

    assert answer.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert call(server, token, file.json()["uri"]) == hashlib.sha256(CONTENT).hexdigest()
    delete(server, token, file.json()["uri"])


def test_clients_that_leave_leave_nothing(served: tuple[Served, str, Path]) -> None:
    server, token, folder = served
    address = urlsplit(server.url)
    head = (
        f"POST /mcp/upload HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n"
    )

    for _ in range(3):
        with socket.create_connection((address.hostname, address.port), 30) as client:
            client.sendall(head.encode() + b"x" * 100_000)

    def upload() -> str:
        """The URI of a file. There is room for two, and three have begun."""
        answer = httpx.post(
            f"{server.url}/upload", content=b"abc", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        return str(answer.json()["uri"]) if answer.status_code == 201 else ""

    uris = [wait_for(upload, "room"), wait_for(upload, "room")]
    assert upload() == ""
    for uri in uris:
        delete(server, token, uri)
    assert not [path for path in (folder / "stored").rglob("*") if path.is_file()]


def test_a_body_of_nobody_is_refused(served: tuple[Served, str, Path]) -> None:
    server, _, folder = served

    answer = httpx.post(f"{server.url}/upload", content=b"x" * 100_000, timeout=60)

    assert answer.status_code == 401
    assert not [path for path in (folder / "stored").rglob("*") if path.is_file()]
