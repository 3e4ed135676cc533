"""Files that are named by the link under which the agent reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.core.files.base import ContentFile

from mcp_django.bridge.resources.uris import file_uri
from tests.bridge.writes.conftest import Writer, errors_of
from tests.shop.models import Document, Product
from tests.support.data import make_staff
from tests.support.declared import Declared

NO_FILE = "has a uri that is not that of a file in a record: get_record gives these."
CONTENT = "large\r\n" * 10_000 + "ü"


class DocumentAdmin(ModelAdmin[Document]):
    fields = ["upload"]


class ProductAdmin(ModelAdmin[Product]):
    fields = ["name", "manual"]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(name="hidden")


@pytest.fixture
def document(declared: Declared, settings: Any, tmp_path: Path) -> Document:
    settings.MEDIA_ROOT = tmp_path
    declared.admin(Document, DocumentAdmin)
    declared.admin(Product, ProductAdmin)
    return Document.objects.create(name="a")


def link_to(name: str, content: bytes = CONTENT.encode(), file: str = "manual.txt") -> str:
    """The link to the manual of a new product."""
    made = Product.objects.create(name=name)
    made.manual.save(file, ContentFile(content))
    return str(file_uri(Product, made.pk, "manual"))


def naming(uri: Any) -> dict[str, Any]:
    return {"model": "shop.document", "id": "a", "values": {"upload": {"name": "copy.txt", "uri": uri}}}


def test_a_file_of_a_record_is_stored_as_it_is(root: Writer, document: Document) -> None:
    for content, file in ((bytes(range(256)) * 200, "m.bin"), (CONTENT.encode(), "manual.txt")):
        root.confirmed("update_record", **naming(link_to("seen", content, file)))

        document.refresh_from_db()
        assert document.upload.name.startswith("copy"), file
        assert document.upload.read() == content, file


def test_a_file_that_changes_after_the_preview_makes_the_token_void(root: Writer, document: Document) -> None:
    uri = link_to("seen")
    confirm = root.ask("update_record", **naming(uri))["confirm"]
    Product.objects.get().manual.storage.delete("manual.txt")
    Product.objects.get().manual.save("manual.txt", ContentFile(b"another"))

    refused = root.refused("update_record", **naming(uri), confirm=confirm)

    assert "This is no token for this call." in refused


def words_of(told: str) -> list[str]:
    return [words for _, words in errors_of(told)]


def test_what_is_no_link_to_a_file_is_refused_and_a_hidden_file_is_absent(
    root: Writer, document: Document, writer: Callable[..., Writer]
) -> None:
    hidden, seen = link_to("hidden"), link_to("seen")
    clerk = writer(make_staff("clerk", "shop.view_document", "shop.change_document"))
    uris = [
        hidden, "db://shop/product/99/manual", "db://shop/product/1", "db://shop/product", "file:///etc/passwd",
        "https://a.example/b", "db://shop/product/1/manual/../../../../etc/passwd", "db://" + "x" * 5_000, "",
        "mcp-change://1",
    ]  # fmt: skip

    told = {uri: words_of(root.told("update_record", **naming(uri))) for uri in uris}

    assert told == {uri: [NO_FILE] for uri in uris}
    assert words_of(clerk.refused("update_record", **naming(seen))) == [NO_FILE]


def test_a_file_that_is_too_large_to_be_read_is_not_copied(root: Writer, document: Document, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_FILE_BYTES": 1_000}

    refused = root.refused("update_record", **naming(link_to("seen")))

    assert "at most 1000 can be read (MAX_FILE_BYTES)" in refused


def test_the_link_of_its_own_file_changes_nothing(root: Writer, document: Document) -> None:
    document.upload.save("own.txt", ContentFile(b"mine"))
    own = str(file_uri(Document, "a", "upload"))

    shown = root.ask("update_record", model="shop.document", id="a", values={"upload": own})

    assert shown["diff"] == []
