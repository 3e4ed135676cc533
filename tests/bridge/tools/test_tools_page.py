"""The examples of docs/tools.md do what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_django import site
from mcp_django.test import MCPClient
from tests.support.asking import DirectPeer, errors_of, listed
from tests.support.pages import files


@pytest.fixture
def root(db: None) -> Iterator[DirectPeer]:
    before = dict(site._functions)
    for name in ("labels", "imports"):
        exec(files("shop/")[f"shop/{name}.py"], {"__name__": f"shop.{name}"})
    yield DirectPeer(User.objects.create_superuser("root"))
    site._functions = before
    site._forget()


def test_the_examples_of_tools_do_what_is_said_of_them(root: DirectPeer) -> None:
    label, wrong, postage = (
        root.call("label", city="Bonn", street="Box 5"), root.call("label", city="Bonn"),
        root.call("postage", country="DE"),
    )  # fmt: skip

    assert [block["type"] for block in label["content"]] == ["text", "resource", "resource_link"]
    assert label["content"][1]["resource"] == {
        "uri": "shop://label.txt", "mimeType": "text/plain", "text": "Box 5\nBonn\n",
    }  # fmt: skip
    assert [error["message"] for error in errors_of(wrong)] == ["'street' is a required property"]
    assert postage["structuredContent"] == [200, 500]
    assert listed(root, "postage")["inputSchema"]["properties"]["country"]["x-mcp-header"] == "Country"


def test_a_file_is_read(root: DirectPeer, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path

    with MCPClient(root.user) as client:
        uri = client.upload("number,tötal\n1,2\n".encode(), "orders.csv")

        assert client.call("check_import", file=uri).structured == ["status", "total"]
