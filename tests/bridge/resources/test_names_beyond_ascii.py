"""Names of models and fields beyond ASCII: in URIs percent-encoded, and everywhere else as they are."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from pydantic import AnyUrl

from tests.shop.models import Maß  # noqa: PLC2403 - this is what is tested
from tests.support.asking import DirectPeer, described, keys, listed
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer

pytestmark = pytest.mark.every_database

COLLECTION = "db://shop/ma%C3%9F"
SMALL = f"{COLLECTION}/s%C3%A4ule"


@pytest.fixture
def masses(declared: Declared) -> None:
    """Declared, and no row of them is there yet."""
    declared.model(Maß, fields="__all__", search_fields=["größe"])


@pytest.fixture
def root(masses: None, db: None) -> DirectPeer:
    large = Maß.objects.create(größe="groß", höhe=3)
    Maß.objects.create(größe="säule", höhe=1, übergröße=large, zeichnung_ä=b"line")
    return DirectPeer(User.objects.create_superuser("root"))


def templates(peer: DirectPeer) -> dict[str, str]:
    found = peer.result(MODERN, "resources/templates/list")["resourceTemplates"]
    return {item["name"]: item["uriTemplate"] for item in found}


def test_every_uri_that_is_given_is_ascii(root: DirectPeer) -> None:
    collections = [item["uri"] for item in root.result(MODERN, "resources/list")["resources"]]
    record = root.read(SMALL)
    page = root.read(f"{COLLECTION}?limit=1&order_by=h%C3%B6he")

    assert COLLECTION in collections
    assert record == {"größe": "säule", "höhe": 1, "übergröße": "groß", "zeichnung_ä": f"{SMALL}/zeichnung_%C3%A4"}
    assert page["next"].startswith(f"{COLLECTION}?limit=1&order_by=h%C3%B6he&cursor=")
    for uri in (COLLECTION, record["zeichnung_ä"], page["next"], *templates(root).values()):
        assert uri.isascii()
        assert "{" in uri or str(AnyUrl(uri)) == uri


READ = [
    (COLLECTION, ["groß", "säule"]),
    (f"{COLLECTION}?h%C3%B6he__gte=2", ["groß"]),
    (f"{COLLECTION}?%C3%BCbergr%C3%B6%C3%9Fe__h%C3%B6he=3", ["säule"]),
    (f"{COLLECTION}?untergr%C3%B6%C3%9Fen__h%C3%B6he=1", ["groß"]),
    (f"{COLLECTION}?search=%C3%A4u", ["säule"]),
    (f"{COLLECTION}?order_by=-h%C3%B6he&fields=h%C3%B6he", ["groß", "säule"]),
]  # fmt: skip


def test_a_uri_is_read_percent_encoded_and_as_it_is(root: DirectPeer) -> None:
    for uri, found in READ:
        for spelled in (uri, unquote(uri)):
            assert [row[0] for row in root.read(spelled)["rows"]] == found, spelled


def test_a_record_its_file_its_schema_and_an_aggregate_are_read(root: DirectPeer) -> None:
    def read(uri: str) -> Any:
        spelled = unquote(uri)
        contents = [root.result(MODERN, "resources/read", {"uri": one})["contents"][0] for one in (uri, spelled)]
        assert contents == [{**contents[0], "uri": one} for one in (uri, spelled)]
        return contents[0]

    assert json.loads(read(SMALL)["text"])["höhe"] == 1
    assert json.loads(read(f"{COLLECTION}?group_by=h%C3%B6he")["text"])["rows"] == [[1, 1], [3, 1]]
    assert "höhe" in json.loads(read(f"{COLLECTION}.schema")["text"])["properties"]
    assert read(f"{SMALL}/zeichnung_%C3%A4")["blob"] == "bGluZQ=="


def test_the_tools_take_names_as_they_are(root: DirectPeer) -> None:
    assert "shop.maß" in listed(root, "find_records")["inputSchema"]["properties"]["model"]["enum"]
    assert list(described(root, "shop.maß")["fields"]) == ["größe", "höhe", "übergröße", "zeichnung_ä"]
    assert described(root, "shop.maß")["uri"] == COLLECTION
    for label in ("shop.maß", "Shop.Maß"):
        assert keys(root, label, filter={"höhe__gt": 1}, fields=["übergröße__höhe"]) == ["groß"]
    assert root.call("get_record", model="shop.maß", id="säule")["structuredContent"]["höhe"] == 1


def test_a_template_expands_to_what_is_read(root: DirectPeer) -> None:
    found = templates(root)

    assert found["shop.maß"] == f"{COLLECTION}/{{gr%C3%B6%C3%9Fe}}"
    assert found["shop.maß query"].startswith(f"{COLLECTION}{{?gr%C3%B6%C3%9Fe,h%C3%B6he,%C3%BCbergr%C3%B6%C3%9Fe,")
    assert root.read(f"{COLLECTION}?%C3%BCbergr%C3%B6%C3%9Fe=gro%C3%9F")["rows"][0][0] == "säule"


COMPLETED = [
    ("shop.maß", "gr%C3%B6%C3%9Fe", "sä", ["säule"]),
    ("shop.maß", "größe", "sä", ["säule"]),
    ("shop.maß query", "%C3%BCbergr%C3%B6%C3%9Fe", "gr", ["groß"]),
    ("shop.maß query", "order_by", "h", ["höhe"]),
    ("shop.maß aggregate", "group_by", "h", ["höhe", "höhe__bucket_10"]),
    ("schema", "model", "ma", ["maß"]),
]  # fmt: skip


def test_a_variable_is_completed_by_either_spelling(root: DirectPeer) -> None:
    for name, variable, typed, values in COMPLETED:
        reference = {"type": "ref/resource", "uri": templates(root)[name]}
        asked = {"ref": reference, "argument": {"name": variable, "value": typed}}
        assert root.result(MODERN, "completion/complete", asked)["completion"]["values"] == values, name


def test_a_change_is_told_by_the_uri_as_it_was_written(admin: Peer, masses: None) -> None:
    row = Maß.objects.create(größe="säule", höhe=1)
    uris = [SMALL, unquote(SMALL), COLLECTION, f"{COLLECTION}?h%C3%B6he=1", "db://shop/MA%c3%9f"]
    watching = admin.watch(MODERN, uris)

    row.höhe = 2
    row.save()

    assert watching.uris(5) == sorted(uris)
