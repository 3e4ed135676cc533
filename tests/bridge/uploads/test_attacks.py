"""Who may upload, and who may take what was uploaded. What is refused looks as if it did not exist."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from mcp_django.models import AccessToken, Grant, Tool, Upload
from tests.axes import HTTP
from tests.bridge.uploads.conftest import Uploader, assert_nothing_is_left, path_of, read_file, stored
from tests.support.asking import text_of
from tests.support.data import Users, token_of
from tests.support.declared import Declared

over_http = pytest.mark.parametrize("transport", HTTP)

Make = Callable[[str | None], Uploader]
GUESSED = "upload://" + "A" * 43


@pytest.fixture
def client(users: Users, uploader: Make) -> Uploader:
    return uploader(token_of(users.admin))


def granted(user: User, *scopes: str, resource: str = "http://localhost/mcp") -> str:
    """A token of an OAuth client."""
    end = timezone.now() + timedelta(hours=1)
    grant = Grant.objects.create(
        user=user, client="https://client.example/id", client_name="A client", resource=resource, scopes=list(scopes),
        expires_at=end,
    )  # fmt: skip
    return AccessToken.objects.create_token(user=user, scopes=scopes, grant=grant, expires_at=end)[1]


# Who may name an upload.


def test_uploads_of_others_are_as_if_they_did_not_exist(users: Users, uploader: Make, client: Uploader) -> None:
    mine, begun = client.upload(b"secret"), client.part(b"a", 0, 9).json["uri"]
    guessed = client.call("read_file", file=GUESSED)
    unknown = client.part(b"", 0, 9, GUESSED)

    for token in (token_of(users.ops), token_of(users.admin)):
        other = uploader(token)
        for uri in (mine, begun):
            result = other.call("read_file", file=uri)
            told = result["content"][0]["text"].replace(uri, GUESSED)
            assert result["isError"] and told == guessed["content"][0]["text"]
            for answer in (other.part(b"", 0, 6, uri), other.part(b"x", 1, 9, uri), other.delete(uri)):
                assert (answer.status, answer.json) == (404, unknown.json)
    assert client.call("read_file", file=mine)["structuredContent"]["text"] == "secret"


def test_a_token_that_replaces_another_takes_its_uploads(users: Users, uploader: Make) -> None:
    token, plain = AccessToken.objects.create_token(user=users.admin, scopes=["read"])
    uri = uploader(plain).upload(b"abc")

    rolled = AccessToken.objects.create_token(user=users.admin, scopes=["read"], line=token.line)[1]

    assert not uploader(rolled).call("read_file", file=uri).get("isError")


def test_a_token_for_another_endpoint_uploads_nothing(users: Users, uploader: Make, folder: Path) -> None:
    here = uploader(granted(users.admin, "read"))
    elsewhere = uploader(granted(users.admin, "read", resource="http://localhost/other/mcp"))
    uri = here.part(b"a", 0, 2).json["uri"]

    assert here.part(b"b", 1, 2, uri).status == 201
    assert elsewhere.send(b"abc").status == 401
    assert elsewhere.part(b"", 0, 2, uri).status == 401


def test_what_is_no_upload_is_refused(client: Uploader) -> None:
    uris: list[Any] = [
        "upload://../../etc/passwd", "upload://", "upload:///etc/passwd", "upload://" + "a" * 10_000, "upload://%00",
        "upload://a\x00b", "file:///etc/passwd", "mcp_uploads/a", "UPLOAD://" + "A" * 43, "upload://" + "\u202e" * 43,
        GUESSED + "/", GUESSED + "\n", "", "a.txt", "http://a.example/b", 1, None, {"uri": "upload://a"}, ["upload://a"],
    ]  # fmt: skip

    assert [uri for uri in uris if not client.call("read_file", file=uri)["isError"]] == []


@over_http
def test_paths_that_name_no_upload(client: Uploader) -> None:
    keys = ["..", "../..", "%2e%2e%2f", "A" * 43, "A" * 5_000, "a%00b", "*"]

    statuses = {
        key: client.send(b"x", method="PUT", path=f"/mcp/upload/{key}", Content_Range="bytes 0-0/2").status
        for key in keys
    }

    assert statuses == dict.fromkeys(keys, 404)


def test_an_expired_upload_is_gone(client: Uploader, folder: Path) -> None:
    mine, begun = client.upload(b"secret"), client.part(b"a", 0, 9).json["uri"]
    Upload.objects.update(expires_at=timezone.now())

    assert client.call("read_file", file=mine)["isError"]
    assert client.part(b"b", 1, 9, begun).status == 404
    client.upload(b"next")
    [left] = stored(folder)
    assert left.read_bytes() == b"next" and Upload.objects.count() == 1


# Who may upload.


@over_http
def test_nobody_uploads_without_a_token(users: Users, uploader: Make, folder: Path) -> None:
    for headers in ({}, {"Authorization": "Bearer mcp_unknown"}, {"Authorization": "Basic YTpi"}):
        answer = uploader(None).send(b"abc", **headers)

        assert answer.status == 401 and answer.headers["www-authenticate"].startswith("Bearer"), headers
    assert_nothing_is_left(folder)


def test_a_caller_without_a_user_uploads_nothing(uploader: Make, folder: Path, settings: Any, users: Users) -> None:
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}

    assert uploader(None).send(b"abc").status == 401
    assert uploader(None).call("read_file", file=GUESSED)["isError"]
    assert_nothing_is_left(folder)


@over_http
def test_a_login_cookie_uploads_nothing(users: Users, uploader: Make, folder: Path, settings: Any) -> None:
    from django.test import Client

    browser = Client()
    browser.force_login(users.admin)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"

    assert uploader(None).send(b"abc", Cookie=cookie).status == 401
    assert_nothing_is_left(folder)


def test_a_page_of_another_origin_uploads_nothing(client: Uploader, folder: Path) -> None:
    answer = client.send(b"abc", Origin="https://evil.example", Content_Type="text/plain")

    assert answer.status == 403
    assert_nothing_is_left(folder)


def test_a_page_of_an_allowed_origin_may_upload(client: Uploader, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": ["https://app.example"]}

    asked = client.send(b"", method="OPTIONS", Origin="https://app.example", path=path_of(GUESSED))
    answer = client.send(b"abc", Origin="https://app.example")

    assert asked.headers["access-control-allow-methods"] == "PUT, DELETE"
    assert "Content-Range" in asked.headers["access-control-allow-headers"]
    assert answer.status == 201
    assert answer.headers["access-control-expose-headers"].endswith("Location, Range")


def test_where_nothing_takes_a_file_nothing_is_uploaded(users: Users, uploader: Make, folder: Path) -> None:
    """Whoever may call no tool that takes one, and write no model that has one, is told that there is nothing."""
    reader, client = uploader(token_of(users.viewer, "model:flights.flight:read")), uploader(token_of(users.admin))

    answer = reader.send(b"abc")
    Tool.objects.update_or_create(site="mcp", name="read_file", defaults={"enabled": False})

    assert (answer.status, answer.json["error"]["data"]["reason"]) == (404, "NOT_FOUND")
    assert client.send(b"abc").status == 404
    assert_nothing_is_left(folder)


def test_an_oauth_client_is_told_which_scope_it_lacks(users: Users, uploader: Make, declared: Declared) -> None:
    declared.close()
    declared.tool(read_file)  # No tool that only reads takes a file.

    answer = uploader(granted(users.admin, "read")).send(b"abc")
    by_hand = uploader(token_of(users.admin, "read")).send(b"abc")

    assert answer.status == 403, answer.json
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert 'scope="read actions"' in answer.headers["www-authenticate"]
    assert by_hand.status == 404


def test_a_token_for_one_tool_may_upload_for_it(users: Users, uploader: Make) -> None:
    client = uploader(token_of(users.viewer, "tool:read_file"))

    assert not client.call("read_file", file=client.upload(b"abc")).get("isError")


@over_http
def test_uploads_are_switched_off(client: Uploader, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_UPLOAD_BYTES": 0}

    assert client.send(b"abc").status == 404
    assert client.send(b"abc", method="PUT", path=path_of(GUESSED)).status == 404


# How much.


@over_http
def test_a_file_that_is_too_long_is_refused_before_it_is_read(client: Uploader, folder: Path, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_UPLOAD_BYTES": 10}

    assert client.send(b"x" * 10).status == 201
    assert client.send(b"x" * 11).status == 413
    assert client.part(b"x", 0, 11).status == 413
    assert client.part(b"", 0, 11).status == 413
    assert len(stored(folder)) == 1 == Upload.objects.count()


@pytest.mark.parametrize("transport", ["http-view-asgi"])
def test_a_body_that_says_no_length_is_cut_off(client: Uploader, folder: Path, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_UPLOAD_BYTES": 100_000}

    assert client.send(b"x" * 100_001, Content_Length=None).status == 413  # type: ignore[arg-type]
    assert_nothing_is_left(folder)


def test_a_body_of_another_length_than_it_says_is_refused(client: Uploader, folder: Path) -> None:
    assert [client.send(b"abc", Content_Length=length).status for length in ("2", "4")] == [400, 400]
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_a_body_without_a_length_is_refused_under_wsgi(client: Uploader, folder: Path) -> None:
    answer = client.send(b"", Transfer_Encoding="chunked")

    assert answer.status == 411
    assert_nothing_is_left(folder)


@pytest.mark.every_database
def test_the_number_of_uploads_of_a_user_is_bounded(users: Users, uploader: Make, folder: Path, settings: Any) -> None:
    """Other tokens of the user give no more room, and other users have their own."""
    settings.MCP = {**settings.MCP, "MAX_UPLOADS": 3}
    client, second = uploader(token_of(users.admin)), uploader(token_of(users.admin))
    first = client.upload(b"1")
    client.part(b"2", 0, 9)
    second.upload(b"3")

    for one in (client, second):
        answer = one.send(b"4")
        assert (answer.status, 3_000 < int(answer.headers["retry-after"]) <= 3_601) == (429, True)
    assert Upload.objects.count() == 3 == len(stored(folder))
    assert uploader(token_of(users.ops)).send(b"x").status == 201
    assert client.delete(first).status == 204
    assert client.send(b"4").status == 201


def test_uploads_count_as_calls(client: Uploader, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"calls": "2/hour"}}}
    client.upload(b"a")
    client.upload(b"b")

    answer = client.send(b"c")

    assert answer.status == 429 and int(answer.headers["retry-after"]) > 0


def test_the_number_of_parts_is_bounded(client: Uploader, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("mcp_django.bridge.uploads.upload_rows.MAX_PARTS", 2)
    uri = client.part(b"a", 0, 9).json["uri"]
    client.part(b"b", 1, 9, uri)

    assert client.part(b"c", 2, 9, uri).status == 400
    assert len(stored(folder)) == 2


# What it is.


#: What is sent, and what the file is called.
NAMES = {
    "name=../../etc/passwd": "passwd", "name=C:%5CWindows%5Cwin.ini": "win.ini", "name=a%00b.txt": "ab.txt",
    "name=%E2%80%AEfdp.exe": "fdp.exe", "name=.htaccess": "htaccess", "name=..": "upload.txt",
    "name=%20.%20": "upload.txt", "name=/": "upload.txt", "": "upload.txt", "name=": "upload.txt",
    "name=" + "a" * 300 + ".txt": "a" * 96 + ".txt", "name=%C3%A4%E2%82%AC.txt": "ä€.txt",
    "name=a.txt%0D%0AX:%20y": "a.txtX: y", "name=%FF.txt": "\ufffd.txt", "name=%2F%2e%2e%2Fa": "a",
    "&".join(f"x{number}=1" for number in range(1_000)): "upload.txt", "name=a.txt&name=b.txt": "a.txt",
    "name=…": "upload.txt", "name=x." + "%F0%9F%98%80" * 90: "x." + "\U0001f600" * 24,
    "name=" + "%F0%9F%98%80" * 90 + ".txt": "\U0001f600" * 24 + ".txt",
}  # fmt: skip


def test_the_name_of_a_file_is_harmless(client: Uploader, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_UPLOADS": len(NAMES)}

    names = {query: client.send(b"abc", query=query, Content_Type="text/plain").json.get("name") for query in NAMES}

    assert names == NAMES


def test_files_are_stored_under_names_that_say_nothing(client: Uploader, folder: Path) -> None:
    uri = client.upload(b"<script>", "a.html", Content_Type="text/html")

    [path] = stored(folder)
    assert path.parent == folder / "mcp_uploads" and path.suffix == ""
    assert len(path.name) == 64 and path.name not in uri and "html" not in path.name


#: By the name and the type that a client says.
TYPES = {
    ("a.png", "image/png"): 201, ("a.csv", "text/csv"): 201, ("a", "image/gif"): 201, ("a.png", None): 201,
    ("a.html", "image/png"): 415, ("a.png", "text/html"): 415, ("a", None): 415, ("a.svg", "image/svg+xml"): 201,
    ("a.txt", "text/plain"): 415, ("a.png", "image"): 201, ("a.exe", "image"): 415, ("a.csv", "TEXT/CSV; a=b"): 201,
    # What a FileField makes of these names is that of a page.
    ("evil.ht(ml", "image/png"): 415, ("evil.h~tml", "image/png"): 415, ("data:,evil.html", "text/csv"): 415,
}  # fmt: skip


def test_files_of_other_types_are_refused(client: Uploader, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "UPLOAD_TYPES": ["image/*", "text/csv"]}

    statuses = {
        (name, media_type): client.send(b"abc", query=f"name={name}", Content_Type=media_type).status  # type: ignore[arg-type]
        for name, media_type in TYPES
    }

    assert statuses == TYPES


# Failures.


class Broken:
    """A storage that fails."""

    def save(self, name: str, content: Any) -> str:
        raise OSError("the bucket secret-bucket is away")

    def delete(self, name: str) -> None:
        raise OSError("the bucket secret-bucket is away")


def test_a_storage_that_fails_says_nothing_of_itself(
    client: Uploader, folder: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
        patched.setattr("mcp_django.bridge.uploads.upload_rows.storage", Broken)
        answer = client.send(b"abc")

    assert (answer.status, answer.json["error"]["data"]) == (503, {"reason": "STORAGE_FAILED"})
    assert b"bucket" not in answer.body
    client.upload(b"next")
    assert Upload.objects.count() == 1, "the other one is tried again, and deleted"


def test_a_stored_file_that_is_gone(client: Uploader, folder: Path) -> None:
    uri = client.upload(b"abc")
    stored(folder)[0].unlink()

    result = client.call("read_file", file=uri)

    assert text_of(result) == f"The file of {uri} is gone. Upload it again."


@over_http
def test_a_token_that_ends_while_the_body_comes_stores_nothing(
    client: Uploader, folder: Path, monkeypatch: Any
) -> None:
    from mcp_django.transports.http.receiving import Reception

    write = Reception.write

    def revoke(self: Reception, chunk: bytes) -> None:
        write(self, chunk)
        AccessToken.objects.all().delete()
        if threading.current_thread().name.startswith("asyncio"):
            connection.close()  # Nothing else in this thread asks the database.

    monkeypatch.setattr(Reception, "write", revoke)

    assert client.send(b"abc").status == 401
    assert_nothing_is_left(folder)
