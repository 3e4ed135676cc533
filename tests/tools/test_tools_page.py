"""The examples of docs/tools.md do what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_django import site
from mcp_django.test import MCPClient
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.pages import files
from tests.support.peers import MODERN


@pytest.fixture
def root(db: None) -> Iterator[DirectPeer]:
    before = dict(site._functions)
    for name in ("labels", "imports"):
        exec(files("shop/")[f"shop/{name}.py"], {"__name__": f"shop.{name}"})
    yield DirectPeer(User.objects.create_superuser("root"))
    site._functions = before
    site._forget()


def test_blocks_and_strings_are_passed_on_as_they_are(root: DirectPeer) -> None:
    assert root.call("label", city="Bonn", box="5")["content"] == [
        {"type": "text", "text": "Glue it to the longest side."},
        {
            "type": "resource",
            "resource": {"uri": "shop://label.txt", "mimeType": "text/plain", "text": "Box 5\nBonn\n"},
        },
        {"type": "resource_link", "uri": "shop://returns", "name": "How to return goods"},
    ]


def test_arguments_are_held_against_the_ready_schema(root: DirectPeer) -> None:
    assert [error["message"] for error in errors_of(root.call("label", city="Bonn"))] == [
        "{'city': 'Bonn'} is not valid under any of the given schemas"
    ]
    assert listed(root, "label")["inputSchema"]["anyOf"] == [{"required": ["street"]}, {"required": ["box"]}]


def test_what_is_no_object_stands_under_result_for_older_clients(root: DirectPeer) -> None:
    newest, older = root.call("postage", MODERN, country="DE"), root.call("postage", "2025-11-25", country="DE")

    assert (newest["structuredContent"], older["structuredContent"]) == ([200, 500], {"result": [200, 500]})
    assert text_of(newest) == text_of(older) == "[200,500]"
    assert listed(root, "postage")["inputSchema"]["properties"]["country"]["x-mcp-header"] == "Country"


def test_a_file_is_read(root: DirectPeer, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path

    with MCPClient(root.user) as client:
        uri = client.upload("number,tötal\n1,2\n".encode(), "orders.csv")

        assert client.call("check_import", file=uri).structured == ["status", "total"]
