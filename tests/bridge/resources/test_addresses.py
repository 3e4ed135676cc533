"""IP addresses, which PostgreSQL keeps in a type of its own that refuses any other text."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.shop.models import Document
from tests.support.asking import DirectPeer, all_rows, errors_of, keys
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    declared.model(Document, fields=["name", "address"])
    for name, address in {"four": "10.0.0.1", "six": "2001:db8::1", "none": None}.items():
        Document.objects.create(name=name, address=address)
    return DirectPeer(User.objects.create_superuser("root"))


FOUND = [
    ({"address": "10.0.0.1"}, ["four"]),
    ({"address": "2001:0DB8:0:0:0:0:0:1"}, ["six"]),
    ({"address__in": ["10.0.0.1", "2001:db8::1"]}, ["four", "six"]),
    ({"address__startswith": "10."}, ["four"]),
    ({"address__startswith": "2001:"}, ["six"]),
    ({"address": None}, ["none"]),
    ({"not": {"address": "10.0.0.1"}}, ["none", "six"]),
]  # fmt: skip


def test_a_filter_finds(root: DirectPeer) -> None:
    found = {str(asked): keys(root, "shop.document", filter=asked, order_by=["name"]) for asked, _ in FOUND}

    assert found == {str(asked): names for asked, names in FOUND}


def test_what_is_no_address_is_refused(root: DirectPeer) -> None:
    def messages(value: Any) -> list[str]:
        errors = errors_of(root.call("find_records", model="shop.document", filter={"address": value}))
        return [error["message"] for error in errors]

    for value in ("10.0.0", "10.0.0.1/24", "host", "", "1' OR '1'='1", 1, "10.0.0.1\x00"):
        assert messages(value) == ["must be an IP address."], value
    assert messages(["10.0.0.1"]) == ["must be an IP address. Did you mean address__in?"]


def test_pages_in_their_order_meet_every_row(root: DirectPeer) -> None:
    for order in ("address", "-address"):
        found = all_rows(Document, root.user, order_by=[order], limit=1)
        assert sorted(row[0] for row in found) == ["four", "none", "six"]
