"""Arguments of tools that are files: how they are listed, and what the function receives."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.http import HttpRequest
from pydantic import Field

from mcp_django.bridge.prompts.function import FunctionPrompt
from mcp_django.bridge.uploads.files import StoredUpload, how_to_upload
from mcp_django.models import Upload
from tests.bridge.uploads.conftest import Uploader, read_file, uploaded
from tests.support.asking import DirectPeer, listed, request_of, text_of
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers
from tests.support.talking import accept, call

CURL = (
    "upload://…, which is the answer to: curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: TYPE' "
    "--data-binary @FILE 'http://localhost/mcp/upload?name=FILE'"
)


@pytest.fixture
def root(db: None, folder: Path) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


def test_the_schema_says_how_to_upload(root: DirectPeer, declared: Declared) -> None:
    def attach(
        request: HttpRequest, file: Annotated[UploadedFile, Field(description="The bill.")], more: File | None = None
    ) -> str:
        """Attach files."""
        return f"{file.name}, {more}"

    declared.tool(attach)

    schema = listed(root, "attach")["inputSchema"]

    assert schema["required"] == ["file"]
    assert schema["properties"]["file"] == {
        "type": "string", "format": "uri", "pattern": "^upload://", "description": f"The bill. {CURL}"
    }  # fmt: skip
    assert schema["properties"]["more"]["description"] == CURL
    assert text_of(root.call("attach", file=uploaded(root.user, b"ab").uri)) == "a.txt, None"


@pytest.mark.parametrize(
    ("script_name", "conf", "url"),
    [
        ("/app", {}, "http://localhost/app/mcp/upload?name=FILE"),
        ("", {"OAUTH_ORIGIN": "https://example.com"}, "https://example.com/mcp/upload?name=FILE"),
    ],
)
def test_the_command_has_the_url_that_clients_know(
    root: DirectPeer, settings: Any, script_name: str, conf: dict[str, str], url: str
) -> None:
    settings.MCP = {**settings.MCP, **conf}
    request = request_of(root.user)
    request.META["SCRIPT_NAME"] = script_name

    assert how_to_upload(request).endswith(f"'{url}'")


def test_a_caller_without_a_host_uploads_to_base_url_whatever_hosts_are_allowed(
    root: DirectPeer, declared: Declared, settings: Any
) -> None:
    declared.tool(read_file)
    settings.MCP = {**settings.MCP, "BASE_URL": "http://unknown.example"}
    settings.ALLOWED_HOSTS = ["example.com"]

    described = listed(root, "read_file")["inputSchema"]["properties"]["file"]["description"]

    assert described.endswith("'http://unknown.example/mcp/upload?name=FILE'")


def test_a_file_is_read_as_any_other(root: DirectPeer, declared: Declared) -> None:
    seen: list[UploadedFile] = []

    def rows(request: HttpRequest, file: UploadedFile) -> list[list[str]]:
        """Read a table."""
        seen.append(file)
        assert Path(file.temporary_file_path()).read_bytes() == file.read()
        assert file.seek(0) == 0 and file.multiple_chunks(1) and not file.closed
        return list(csv.reader(TextIOWrapper(file.file, "utf-8")))

    declared.tool(rows)

    result = root.call("rows", file=uploaded(root.user, b"a,b\n1,2\n", "t.csv", "text/csv").uri)

    assert result["structuredContent"] == [["a", "b"], ["1", "2"]]
    [file] = seen
    assert file.closed and not Path(file.temporary_file_path()).exists()


def test_a_closed_file_opens_no_other_of_its_name(root: DirectPeer, monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("another")
    monkeypatch.chdir(tmp_path)
    file = StoredUpload(uploaded(root.user, b"abc"))

    with file.open() as opened:
        assert (opened.read(), file.open().read()) == (b"abc", b"abc")
    with pytest.raises(ValueError, match="cannot be reopened"):
        file.open()


def test_a_file_that_nobody_reads_is_not_copied(root: DirectPeer, declared: Declared, monkeypatch: Any) -> None:
    def describe(request: HttpRequest, file: UploadedFile) -> str:
        """Say what is known of a file."""
        return f"{file.name} {file.size} {file.content_type}"

    declared.tool(describe)
    monkeypatch.setattr(
        "mcp_django.bridge.uploads.files.StoredUpload._copied", lambda self: pytest.fail("It is copied.")
    )

    assert text_of(root.call("describe", file=uploaded(root.user, b"abc").uri)) == "a.txt 3 text/plain"


def test_a_file_is_closed_after_a_call_that_fails(root: DirectPeer, declared: Declared) -> None:
    seen: list[UploadedFile] = []

    def fail(request: HttpRequest, file: UploadedFile) -> None:
        """Fail."""
        seen.append(file)
        file.read()
        raise RuntimeError

    declared.tool(fail)

    assert root.call("fail", file=uploaded(root.user, b"abc").uri)["isError"]
    assert seen[0].closed


def test_asynchronous_tools_that_return_and_that_yield_receive_a_file(
    users: Users, peers: Peers, folder: Path, declared: Declared
) -> None:
    async def digest(request: HttpRequest, file: UploadedFile) -> str:
        """Read a file."""
        return file.read().decode()

    async def lines(request: HttpRequest, file: UploadedFile) -> AsyncIterator[str]:
        """Read a file."""
        for line in file:
            yield line.decode()

    declared.tool(digest, read_only=True)
    declared.tool(lines, read_only=True)
    client = Uploader(peers(token_of(users.admin)))
    uri = client.upload(b"a\nb\n")

    texts = [client.call(name, file=uri)["content"][0]["text"] for name in ("digest", "lines")]

    assert texts == ["a\nb\n"] * 2


def test_a_tool_that_asks_its_user_gets_the_file_again(
    users: Users, peers: Peers, folder: Path, declared: Declared
) -> None:
    def confirm(request: Any, file: UploadedFile) -> str:
        """Ask, and read."""
        before = file.read()
        request.mcp.elicit("Sure?", {"type": "object", "properties": {}})
        file.seek(0)
        return (before + file.read()).decode()

    declared.tool(confirm, read_only=True)
    peer = peers(token_of(users.admin))
    peer.capabilities = {"elicitation": {}}
    uri = Uploader(peer).upload(b"abc")

    said = call(peer, "confirm", "2025-11-25", accept(), file=uri)

    assert said.answer["result"]["content"][0]["text"] == "abcabc"


def test_an_annotation_that_cannot_be_served_is_refused(declared: Declared) -> None:
    def attach(request: HttpRequest, file: Any) -> None:
        """Attach a file."""

    for hint in (list[UploadedFile], UploadedFile | str, ContentFile, TemporaryUploadedFile):
        attach.__annotations__["file"] = hint

        with pytest.raises(ImproperlyConfigured, match=r"file|UploadedFile"):
            declared.tool(attach)


def test_prompts_take_no_files() -> None:
    def ask(request: HttpRequest, file: UploadedFile) -> str:
        """Ask about a file."""
        return ""

    with pytest.raises(ImproperlyConfigured, match="Only tools take files"):
        FunctionPrompt(ask)


def test_an_upload_without_all_of_its_bytes_is_refused(root: DirectPeer, declared: Declared, folder: Path) -> None:
    declared.tool(read_file)
    upload = uploaded(root.user, b"abcdef")
    upload.parts.filter(start=3).update(is_there=False)

    assert "is gone. Upload it again." in text_of(root.call("read_file", file=upload.uri))
    assert Upload.objects.get().is_complete
