"""IP addresses, which PostgreSQL keeps in a type of its own that refuses any other text."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.shop.models import Document
from tests.support.asking import DirectPeer, errors_of, keys
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    declared.model(Document, fields=["name", "address"])
    for name, address in {"four": "10.0.0.1", "six": "2001:db8::1", "none": None}.items():
        Document.objects.create(name=name, address=address)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.mark.parametrize(("asked", "found"), [
    ({"address": "10.0.0.1"}, ["four"]),
    ({"address": "2001:0DB8:0:0:0:0:0:1"}, ["six"]),
    ({"address__in": ["10.0.0.1", "2001:db8::1"]}, ["four", "six"]),
    ({"address__startswith": "10."}, ["four"]),
    ({"address__startswith": "2001:"}, ["six"]),
    ({"address": None}, ["none"]),
    ({"not": {"address": "10.0.0.1"}}, ["none", "six"]),
])  # fmt: skip
def test_a_filter_finds(root: DirectPeer, asked: Any, found: list[str]) -> None:
    assert keys(root, "shop.document", filter=asked, order_by=["name"]) == found


@pytest.mark.parametrize("value", ["10.0.0", "10.0.0.1/24", "host", "", "1' OR '1'='1", 1, "10.0.0.1\x00"])
def test_what_is_no_address_is_refused(root: DirectPeer, value: Any) -> None:
    [error] = errors_of(root.call("find_records", model="shop.document", filter={"address": value}))

    assert error["message"] == "must be an IP address."


def test_a_list_of_addresses_is_asked_for_by_another_lookup(root: DirectPeer) -> None:
    [error] = errors_of(root.call("find_records", model="shop.document", filter={"address": ["10.0.0.1"]}))

    assert error["message"] == "must be an IP address. Did you mean address__in?"


@pytest.mark.parametrize("order", ["address", "-address"])
def test_pages_in_their_order_meet_every_row(root: DirectPeer, order: str) -> None:
    found, cursor = [], {}
    while True:
        page = root.call("find_records", model="shop.document", order_by=[order], limit=1, **cursor)[
            "structuredContent"
        ]
        found += [row[0] for row in page["rows"]]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert sorted(found) == ["four", "none", "six"]
