"""Bodies that come slowly, in pieces, at the same time, or not to their end: nothing of them is held or left."""

from __future__ import annotations

import io
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from mcp_django import site
from mcp_django.bridge.uploads import upload_rows
from mcp_django.exchange.principals import Principal
from mcp_django.models import Upload, UploadPart
from mcp_django.protocol.errors import Throttled
from mcp_django.push import sweep
from mcp_django.transports.http import receiving
from tests.bridge.uploads.conftest import Uploader, assert_nothing_is_left, stored
from tests.end_to_end import servers
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import ASGICall, ASGIPeer, decode_headers

# An upload is no message, so its body has no form of a wire.
pytestmark = pytest.mark.own_form

Make = Callable[[str | None], Uploader]
CHUNK = b"x" * 65_536


def wait_for(condition: Callable[[], object], what: str) -> None:
    servers.wait_for(condition, what, seconds=60)


class Sending:
    """A request whose body is sent in pieces."""

    def __init__(self, uploader: Uploader, *, method: str = "POST", path: str = "/mcp/upload", **headers: str) -> None:
        peer = uploader.peer
        assert isinstance(peer, ASGIPeer)
        self._loop = peer.loop
        peer.path = path
        scope = peer.scope(method, peer.headers({name.replace("_", "-"): value for name, value in headers.items()}))
        self._call: ASGICall = self._loop.run(self._open(peer.application, scope))

    async def _open(self, application: Any, scope: Any) -> ASGICall:
        return ASGICall(application, scope)

    def send(self, piece: bytes, *, more: bool = True) -> None:
        self._loop.run(self._call.inbox.put({"type": "http.request", "body": piece, "more_body": more}))

    def status(self) -> int:
        status: int = self._loop.run(self._call.receive())["status"]
        return status

    def headers(self) -> dict[str, str]:
        return decode_headers(self._loop.run(self._call.receive())["headers"])

    def leave(self) -> None:
        self._loop.run(self._call.disconnect("http.disconnect"))

    @property
    def all_taken(self) -> bool:
        return self._call.inbox.empty()


@pytest.fixture
def client(users: Users, uploader: Make) -> Uploader:
    return uploader(token_of(users.admin))


@pytest.fixture
def owner(users: Users) -> Principal:
    return Principal(users.admin, frozenset({"read"}))


def begin(owner: Principal, total: int | None = None) -> Upload:
    return upload_rows.begin(site, owner, "a.txt", "text/plain", total)


# As it comes.


def test_a_body_is_written_to_the_disk_as_it_comes(client: Uploader, folder: Path) -> None:
    sending = Sending(client)
    tracemalloc.start()
    try:
        for _ in range(200):
            sending.send(CHUNK)
            wait_for(lambda: sending.all_taken, "the piece")
        peak = tracemalloc.get_traced_memory()[1]
        sending.send(b"", more=False)
        assert sending.status() == 201
    finally:
        tracemalloc.stop()

    assert Upload.objects.get().size == 200 * len(CHUNK)
    assert peak < 100 * len(CHUNK)


def test_a_body_is_not_read_before_its_caller_is_let_in(users: Users, uploader: Make) -> None:
    sending = Sending(uploader(None))
    sending.send(CHUNK)

    assert sending.status() == 401


def test_a_client_that_leaves_leaves_nothing(client: Uploader, folder: Path) -> None:
    sending = Sending(client, Content_Length="1000000")
    sending.send(CHUNK)
    wait_for(Upload.objects.exists, "the upload")

    sending.leave()

    wait_for(lambda: not Upload.objects.exists(), "the end of the upload")
    assert_nothing_is_left(folder)
    assert receiving._being_read.total == 0


def test_a_client_that_leaves_a_part_goes_on_with_it(client: Uploader, folder: Path) -> None:
    uri = client.part(b"abc", 0, 9).json["uri"]
    path = f"/mcp/upload/{uri.removeprefix('upload://')}"
    sending = Sending(client, method="PUT", path=path, Content_Range="bytes 3-8/9", Content_Length="6")
    sending.send(b"d")
    wait_for(lambda: sending.all_taken, "the piece")

    sending.leave()
    wait_for(lambda: receiving._being_read.total == 0, "the end of the request")

    assert client.part(b"", 0, 9, uri).headers["range"] == "bytes=0-2"
    assert client.part(b"defghi", 3, 9, uri).status == 201
    assert len(stored(folder)) == 2


def test_a_client_that_sends_nothing_is_not_waited_for(client: Uploader, folder: Path, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.2}
    sending = Sending(client)
    sending.send(b"a")

    assert sending.status() == 408
    assert_nothing_is_left(folder)


def test_a_client_that_sends_a_byte_now_and_then_is_not_waited_for(
    client: Uploader, folder: Path, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.5}
    sending = Sending(client)
    has_answer = threading.Event()

    def send() -> None:
        while not has_answer.wait(0.05):
            sending.send(b"x")

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send)
        try:
            assert sending.status() == 408
        finally:
            has_answer.set()
            sent.result(60)
    assert_nothing_is_left(folder)


@pytest.mark.parametrize(("error", "status"), [(OSError(28, "No space left on device"), 503), (ValueError(), 500)])
def test_a_body_that_cannot_be_written_leaves_nothing(
    client: Uploader, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    """A disk that is full is said, and an error of ours is none of the client."""

    def fail(self: Any, chunk: bytes) -> None:
        raise error

    monkeypatch.setattr(receiving.Reception, "write", fail)

    answer = client.send(b"abc")

    assert answer.status == status
    assert status == 500 or answer.json["error"]["data"]["reason"] == "STORAGE_FAILED"
    assert_nothing_is_left(folder)


def test_an_upload_that_is_deleted_while_its_part_comes_is_gone(
    client: Uploader, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = client.part(b"abc", 0, 6).json["uri"]
    finish = receiving.Reception.finish

    def delete_and_finish(reception: receiving.Reception) -> None:
        upload_rows.delete(Upload.objects.get())
        finish(reception)

    monkeypatch.setattr(receiving.Reception, "finish", delete_and_finish)

    assert client.part(b"def", 3, 6, uri).status == 404
    assert_nothing_is_left(folder)


def test_an_endless_body_is_cut_off(client: Uploader, folder: Path, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_UPLOAD_BYTES": 100_000}
    sending = Sending(client)
    for _ in range(20):
        sending.send(CHUNK)

    assert sending.status() == 413
    assert_nothing_is_left(folder)


def test_bodies_of_one_caller_at_the_same_time_are_bounded(
    users: Users, client: Uploader, uploader: Make, folder: Path
) -> None:
    open_ones = [Sending(client) for _ in range(4)]
    wait_for(lambda: receiving._being_read.total == 4, "the bodies")

    refused, other = Sending(client), Sending(uploader(token_of(users.ops)))
    other.send(b"abc", more=False)

    assert refused.status() == 503
    assert other.status() == 201
    for one in open_ones:
        one.send(b"abc", more=False)
        assert one.status() == 201
    assert Upload.objects.count() == 5


# At the same time.


@pytest.mark.every_database
def test_of_two_requests_with_the_same_bytes_one_counts(
    transactional_db: None, users: Users, owner: Principal, folder: Path
) -> None:
    upload, barrier = begin(owner, 9), threading.Barrier(4, timeout=60)

    def add(number: int) -> bool:
        try:
            barrier.wait()
            return upload_rows.add(Upload.objects.get(), 0, io.BytesIO(b"%d" % number * 3), 3)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(add, range(4)))

    assert sorted(added) == [False, False, False, True]
    upload.refresh_from_db()
    assert upload.size == 3
    [file] = stored(folder)
    assert file.read_bytes() == b"%d" % added.index(True) * 3
    assert UploadPart.objects.count() == 1


@pytest.mark.every_database
def test_uploads_that_begin_at_the_same_time_do_not_exceed_the_number(
    transactional_db: None, users: Users, owner: Principal, folder: Path, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "MAX_UPLOADS": 3}
    barrier = threading.Barrier(6, timeout=60)

    def begin_one(_: int) -> bool:
        try:
            barrier.wait()
            begin(owner)
        except Throttled:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(6) as pool:
        begun = sum(pool.map(begin_one, range(6)))

    assert begun == Upload.objects.count() <= 3


# What is left is swept away.


@pytest.mark.every_database
def test_expired_uploads_are_swept_with_their_files(db: None, users: Users, owner: Principal, folder: Path) -> None:
    old, new = begin(owner), begin(owner)
    upload_rows.add(old, 0, io.BytesIO(b"old"), 3)
    upload_rows.add(new, 0, io.BytesIO(b"new"), 3)
    Upload.objects.filter(pk=old.pk).update(expires_at=timezone.now())

    upload_rows.sweep()

    assert list(Upload.objects.all()) == [new]
    assert [path.read_bytes() for path in stored(folder)] == [b"new"]


def test_a_process_that_ended_while_it_stored_leaves_a_file_that_is_swept(
    db: None, users: Users, owner: Principal, folder: Path
) -> None:
    upload = begin(owner)
    stored_name = upload_rows.storage().save("mcp_uploads/half", io.BytesIO(b"half"))
    upload.parts.create(start=0, size=4, stored=stored_name)
    Upload.objects.update(expires_at=timezone.now())

    upload_rows.sweep()

    assert_nothing_is_left(folder)


def test_bytes_that_come_after_the_upload_has_expired_are_not_kept(
    db: None, users: Users, owner: Principal, folder: Path
) -> None:
    upload = begin(owner, 3)
    Upload.objects.update(expires_at=timezone.now())

    assert not upload_rows.add(upload, 0, io.BytesIO(b"abc"), 3)
    assert not stored(folder)


@pytest.mark.every_database
def test_each_part_gives_an_upload_another_hour(db: None, users: Users, owner: Principal, folder: Path) -> None:
    upload = begin(owner, 9)
    soon = timezone.now() + timedelta(seconds=60)
    Upload.objects.update(expires_at=soon)

    upload_rows.add(upload, 0, io.BytesIO(b"abc"), 3)

    upload.refresh_from_db()
    assert upload.expires_at > soon + timedelta(seconds=3_000)


def test_an_asgi_process_sweeps_now_and_then(
    transactional_db: None, users: Users, owner: Principal, folder: Path, serving_loop: LoopThread, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 1.0}
    begin(owner)
    Upload.objects.update(expires_at=timezone.now())

    serving_loop.run(sweep.clear_uploads(299))
    kept = Upload.objects.count()
    serving_loop.run(sweep.clear_uploads(300))

    assert (kept, Upload.objects.count()) == (1, 0)
