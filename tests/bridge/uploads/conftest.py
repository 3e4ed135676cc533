from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest

from mcp_django import site
from mcp_django.bridge.uploads import upload_rows
from mcp_django.exchange.principals import Principal
from mcp_django.models import Upload
from tests.support.declared import Declared
from tests.support.peers import Answered, HTTPPeer, Peers


class Uploader:
    """A client that uploads files, and calls tools with them."""

    def __init__(self, peer: Any) -> None:
        assert isinstance(peer, HTTPPeer)
        self.peer = peer

    def send(self, body: bytes, *, path: str = "", query: str = "", method: str = "POST", **headers: str) -> Answered:
        """One request with a body. Names of headers have underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.peer.path, self.peer.query = path or "/mcp/upload", query
        try:
            return self.peer.http(method, body, {"Content-Length": str(len(body)), "Content-Type": None, **named})  # type: ignore[dict-item]
        finally:
            self.peer.path, self.peer.query = "/mcp", ""

    def upload(self, body: bytes, name: str = "a.txt", **headers: str) -> str:
        """The URI of a file that is sent whole."""
        answer = self.send(body, query=f"name={name}", **headers)
        assert answer.status == 201, answer.json
        uri: str = answer.json["uri"]
        return uri

    def part(self, body: bytes, start: int, total: int, uri: str = "") -> Answered:
        """A part of a file: the first one, or the next one of an upload."""
        where = f"bytes {start}-{start + len(body) - 1}/{total}" if body else f"bytes */{total}"
        if not uri:
            return self.send(body, query="name=a.txt", Content_Range=where)
        return self.send(body, method="PUT", path=path_of(uri), Content_Range=where)

    def delete(self, uri: str) -> Answered:
        return self.send(b"", method="DELETE", path=path_of(uri))

    def call(self, name: str, **arguments: Any) -> Any:
        return self.peer.call(name, **arguments)


def path_of(uri: str) -> str:
    return f"/mcp/upload/{uri.removeprefix('upload://')}"


def read_file(request: HttpRequest, file: UploadedFile) -> dict[str, Any]:
    """Read a file."""
    content = b"".join(file.chunks())
    return {
        "name": file.name,
        "size": file.size,
        "type": file.content_type,
        "sha256": hashlib.sha256(content).hexdigest(),
        "text": content[:100].decode("latin-1"),
    }


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """The storage of uploads: a folder of its own."""
    place = tmp_path / "uploads"
    backend = "django.core.files.storage.FileSystemStorage"
    settings.STORAGES = {
        **settings.STORAGES,
        "mcp_uploads": {"BACKEND": backend, "OPTIONS": {"location": str(place)}},
    }
    settings.MEDIA_ROOT = tmp_path / "media"
    return place


@pytest.fixture
def uploader(folder: Path, declared: Declared, peers: Peers) -> Callable[[str | None], Uploader]:
    """Clients of a site that has a tool which takes a file."""
    declared.tool(read_file, read_only=True)
    return lambda token: Uploader(peers(token))


def stored(folder: Path) -> list[Path]:
    """The files in the storage."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def assert_nothing_is_left(folder: Path) -> None:
    assert not Upload.objects.exists()
    assert not stored(folder)


def uploaded(user: Any, content: bytes, name: str = "a.txt", media_type: str = "text/plain") -> Upload:
    """A complete upload of a user without a token, in two parts."""
    owner = Principal(user, frozenset({"read"}))
    upload = upload_rows.begin(site, owner, name, media_type, len(content))
    half = len(content) // 2
    assert upload_rows.add(upload, 0, io.BytesIO(content[:half]), half)
    assert upload_rows.add(upload, half, io.BytesIO(content[half:]), len(content) - half)
    return upload
