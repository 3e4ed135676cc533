"""Files and bytes: rows hold their links, resources/read gives them, to whoever may see their row and their field."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connection
from django.db.models.fields.files import FieldFile
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from mcp_django import ModelMCP
from mcp_django.protocol.jsonrpc import encode
from tests.shop.models import Document, Parcel, Person
from tests.support.asking import DirectPeer, errors_of, keys
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer

pytestmark = pytest.mark.every_database

FIELDS = ["name", "upload", "scan", "owner"]
PDF = b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n"


@pytest.fixture(autouse=True)
def media(tmp_path: Path) -> Iterator[Path]:
    with override_settings(MEDIA_ROOT=str(tmp_path)):
        yield tmp_path


@pytest.fixture
def documents(declared: Declared) -> None:
    declared.model(Document, fields=FIELDS)


@pytest.fixture
def root(db: None, documents: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


def store(key: str, name: str = "a.pdf", content: bytes = PDF) -> Document:
    document = Document(name=key)
    document.upload.save(name, ContentFile(content))
    return document


def contents_of(peer: DirectPeer, uri: str) -> Any:
    [contents] = peer.result(MODERN, "resources/read", {"uri": uri})["contents"]
    return contents


def reason_of(peer: DirectPeer, uri: str) -> str:
    reason: str = peer.error(MODERN, "resources/read", {"uri": uri})["data"]["reason"]
    return reason


KEYS = {
    "lease": "db://shop/document/lease/upload",
    "a/b": "db://shop/document/a%2Fb/upload",
    "..": "db://shop/document?pk=..&field=upload",
    "": "db://shop/document?pk=&field=upload",
    "é ü": "db://shop/document/%C3%A9%20%C3%BC/upload",
}


def test_a_file_is_a_link_that_can_be_read(root: DirectPeer) -> None:
    for key in KEYS:
        store(key)

    page = root.call("find_records", model="shop.document", fields=["upload"])["structuredContent"]
    records = {key: root.call("get_record", model="shop.document", id=key)["structuredContent"] for key in KEYS}

    assert dict(page["rows"]) == KEYS
    assert records == {key: {"name": key, "upload": uri, "scan": None} for key, uri in KEYS.items()}
    for uri in KEYS.values():
        assert contents_of(root, uri) == {
            "uri": uri, "mimeType": "application/pdf", "blob": base64.b64encode(PDF).decode(),
        }  # fmt: skip


def test_a_record_without_a_file_has_no_link(root: DirectPeer) -> None:
    Document.objects.create(name="none", scan=b"")

    record = root.read("db://shop/document/none")

    assert record == {"name": "none", "upload": None, "scan": None}
    assert reason_of(root, "db://shop/document/none/upload") == "RESOURCE_NOT_FOUND"
    assert reason_of(root, "db://shop/document/none/scan") == "RESOURCE_NOT_FOUND"


def test_what_has_no_link_is_found_as_null(root: DirectPeer) -> None:
    store("full")
    Document.objects.filter(name="full").update(scan=b"x")
    Document.objects.create(name="empty", scan=b"")
    Document.objects.create(name="null", scan=None)

    for field in ("upload", "scan"):
        without = keys(root, "shop.document", filter={f"{field}__isnull": True}, order_by=["name"])
        having = keys(root, "shop.document", filter={f"{field}__isnull": False})
        assert (without, having) == (["empty", "null"], ["full"]), field


TEXTS = [
    ("notes.txt", "Grüße\r\n".encode(), "text/plain", "Grüße\r\n"),
    ("rows.csv", b"a,b\r\n", "text/csv", "a,b\r\n"),
    ("plan.json", b'{"a":1}', "application/json", '{"a":1}'),
    ("logo.svg", b"<svg/>", "image/svg+xml", "<svg/>"),
]


def test_a_text_file_is_text(root: DirectPeer) -> None:
    for name, content, *_ in TEXTS:
        store(name, name, content)

    for name, _, mime_type, text in TEXTS:
        uri = f"db://shop/document/{name}/upload"
        assert contents_of(root, uri) == {"uri": uri, "mimeType": mime_type, "text": text}


BLOBS = [
    ("latin.txt", "Grüße".encode("latin-1"), "text/plain"),
    ("photo.png", b"\x89PNG", "image/png"),
    ("noname", b"plain", "application/octet-stream"),
    ("logs.txt.gz", b"\x1f\x8b", "application/octet-stream"),
]


def test_any_other_file_is_a_blob(root: DirectPeer) -> None:
    for name, content, _ in BLOBS:
        store(name, name, content)

    found = {name: contents_of(root, f"db://shop/document/{name}/upload") for name, *_ in BLOBS}

    assert [(name, base64.b64decode(one["blob"]), one["mimeType"]) for name, one in found.items()] == BLOBS


def test_text_that_escapes_would_swell_is_a_blob(root: DirectPeer) -> None:
    content = b"\x01" * 600_000
    store("x", "x.txt", content)

    found = contents_of(root, "db://shop/document/x/upload")

    assert base64.b64decode(found["blob"]) == content
    assert len(encode(found)) < 900_000


def test_bytes_of_a_row_are_a_blob(root: DirectPeer) -> None:
    Document.objects.create(name="x", scan=b"\x00\xff")

    link = root.read("db://shop/document/x")["scan"]

    assert link == "db://shop/document/x/scan"
    assert contents_of(root, link) == {"uri": link, "mimeType": "application/octet-stream", "blob": "AP8="}


def test_a_page_does_not_read_the_bytes_that_it_links_to(root: DirectPeer) -> None:
    Document.objects.create(name="x", scan=b"\x00\xff")

    with CaptureQueriesContext(connection) as queries:
        keys(root, "shop.document", fields=["scan"])

    [asked] = [query["sql"] for query in queries if "shop_document" in query["sql"]]
    assert "LENGTH(" in asked


def test_a_file_over_the_limit_is_refused_with_its_size_and_the_limit(root: DirectPeer) -> None:
    store("x", content=b"x" * 101)
    Document.objects.filter(name="x").update(scan=b"x" * 102)

    with override_settings(MCP={"MAX_FILE_BYTES": 100}):
        stored = root.error(MODERN, "resources/read", {"uri": "db://shop/document/x/upload"})
        scanned = root.error(MODERN, "resources/read", {"uri": "db://shop/document/x/scan"})

    assert stored["data"]["reason"] == scanned["data"]["reason"] == "LIMIT_EXCEEDED"
    assert stored["message"] == "The file has 101 bytes; at most 100 can be read (MAX_FILE_BYTES)."
    assert scanned["message"] == "The file has 102 bytes; at most 100 can be read (MAX_FILE_BYTES)."


def test_the_longest_file_by_default_fits_into_an_answer(root: DirectPeer) -> None:
    store("x", content=b"\xff" * 600_000)

    assert len(contents_of(root, "db://shop/document/x/upload")["blob"]) == 800_000


def test_a_file_that_is_gone_is_absent(root: DirectPeer, media: Path) -> None:
    document = store("x")
    (media / document.upload.name).unlink()

    assert reason_of(root, "db://shop/document/x/upload") == "RESOURCE_NOT_FOUND"


class ByRow(FieldFile):
    """The file of a row lies where the row says, as those of filer do."""

    def __init__(self, instance: Any, field: Any, name: Any) -> None:
        super().__init__(instance, field, name)
        self.storage = FileSystemStorage(Path(settings.MEDIA_ROOT) / instance.pk)


def test_a_file_is_read_from_the_storage_of_its_row(
    root: DirectPeer, declared: Declared, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may hold another file of that name."""
    monkeypatch.setattr(Document._meta.get_field("upload"), "attr_class", ByRow)
    declared.close()
    declared.model(Document, fields=["upload"])
    for folder, content in ((".", b"of all"), ("A1", b"of the row")):
        (media / folder).mkdir(exist_ok=True)
        (media / folder / "a.txt").write_bytes(content)
    Document.objects.create(pk="A1", upload="a.txt")

    assert contents_of(root, "db://shop/document/A1/upload")["text"] == "of the row"


def test_a_storage_that_fails_says_nothing_of_why(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store("x")

    def broken(*args: Any) -> Any:
        raise ConnectionError("the key of the bucket is hunter2")

    monkeypatch.setattr(default_storage, "_open", broken)
    error = root.error(MODERN, "resources/read", {"uri": "db://shop/document/x/upload"})

    assert error == {
        "code": -32603, "message": "Internal error. The server's log has the details.",
        "data": {"reason": "INTERNAL_ERROR"},
    }  # fmt: skip
    assert "The storage of shop.document.upload failed" in caplog.text


# Attacks.


def test_reading_beside_the_storage_by_a_stored_path(root: DirectPeer, media: Path) -> None:
    (media.parent / "secret.txt").write_text("hunter2")
    for number, name in enumerate(("../secret.txt", "/etc/passwd", "a/../../secret.txt", "..")):
        Document.objects.create(name=str(number), upload=name)
        assert reason_of(root, f"db://shop/document/{number}/upload") == "RESOURCE_NOT_FOUND", name


def test_reading_what_is_no_file_as_one(root: DirectPeer) -> None:
    store("x")

    for field in (
        "name", "owner", "address", "pk", "owner__name", "nope", "_meta", "__class__", "upload__isnull", "objects",
    ):  # fmt: skip
        assert reason_of(root, f"db://shop/document/x/{field}") == "RESOURCE_NOT_FOUND", field
        assert reason_of(root, f"db://shop/document?pk=.&field={field}") == "RESOURCE_NOT_FOUND", field


def test_reading_the_file_of_a_hidden_field(db: None, declared: Declared) -> None:
    store("x")
    Document.objects.filter(name="x").update(scan=b"x")
    declared.model(Document, fields=["name", "scan"], exclude=["scan"])
    root = DirectPeer(User.objects.create_superuser("root"))

    assert reason_of(root, "db://shop/document/x/upload") == "RESOURCE_NOT_FOUND"
    assert reason_of(root, "db://shop/document/x/scan") == "RESOURCE_NOT_FOUND"
    assert [
        error["field"] for error in errors_of(root.call("find_records", model="shop.document", fields=["scan"]))
    ] == ["fields"]


class _OwnDocuments(ModelMCP):
    fields = FIELDS

    def get_queryset(self, request: Any) -> Any:
        return Document.objects.filter(owner__name=request.user.username)


class _DocumentsOneByOne(ModelMCP):
    fields = FIELDS

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or (obj.owner is not None and obj.owner.name == request.user.username)


def test_reading_the_file_of_a_hidden_row(db: None, declared: Declared) -> None:
    for name in ("ann", "bob"):
        store(name)
        Document.objects.filter(name=name).update(scan=b"x", owner=Person.objects.create(name=name, badge=name))
    ann = DirectPeer(make_staff("ann", "shop.view_document"))

    for model_mcp in (_OwnDocuments, _DocumentsOneByOne):
        declared.close()
        declared.model(Document, model_mcp)
        for field in ("upload", "scan"):
            assert "blob" in contents_of(ann, f"db://shop/document/ann/{field}")
            hidden, absent = (
                str(ann.error(MODERN, "resources/read", {"uri": f"db://shop/document/{name}/{field}"}))
                for name in ("bob", "eve")
            )
            assert hidden.replace("bob", "eve") == absent, (model_mcp, field)


def test_reading_a_file_without_the_permission(db: None, documents: None) -> None:
    store("x")

    assert reason_of(DirectPeer(make_staff("ann")), "db://shop/document/x/upload") == "RESOURCE_NOT_FOUND"


def test_guessing_a_file_by_filters(root: DirectPeer) -> None:
    store("x")

    for asked in ({"upload": "a.pdf"}, {"upload__startswith": "a"}, {"scan__contains": "x"}):
        [error] = errors_of(root.call("find_records", model="shop.document", filter=asked))
        assert error["message"].endswith("Allowed: isnull."), asked


def test_a_file_of_a_related_row_is_read_from_its_own(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name", "badge"])
    store("x")
    Document.objects.update(owner=Person.objects.create(name="ann", badge="1"))

    lists = root.call("find_records", model="shop.person", fields=["documents__upload"])
    keys_of = root.call("find_records", model="shop.person", fields=["documents"])["structuredContent"]

    assert [error["field"] for error in errors_of(lists)] == ["fields"]
    assert keys_of["rows"][0][1] == ["x"]


# Push.


def test_whoever_watches_a_file_is_told_of_its_record_and_of_what_is_no_file_nothing(
    documents: None, admin: Peer
) -> None:
    document = store("x")
    told = ["db://shop/document/x", "db://shop/document/x/upload"]
    no_files = ["db://shop/document/x/name", "db://shop/document/x/nope", "db://shop/document/y/upload"]
    watching = admin.watch(MODERN, [*told, *no_files])

    document.upload.save("other.pdf", ContentFile(b"other"))
    assert watching.uris(2) == told
    document.save()
    assert watching.uris(2) == told


@override_settings(MCP={"MAX_FILE_BYTES": 100})
def test_bytes_that_a_class_unpacks_are_read_up_to_the_limit(root: DirectPeer, declared: Declared) -> None:
    declared.model(Parcel, fields=["stamp"])
    small, large = Parcel.objects.create(stamp=b"x" * 10), Parcel.objects.create(stamp=b"x" * 11)

    assert base64.b64decode(contents_of(root, f"db://shop/parcel/{small.pk}/stamp")["blob"]) == b"x" * 100
    assert reason_of(root, f"db://shop/parcel/{large.pk}/stamp") == "LIMIT_EXCEEDED"
