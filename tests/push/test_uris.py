"""URIs are told as the subscriber wrote them: clients evict their caches by the exact string."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_django.bridge.resources.uris import record_uri
from tests.push.conftest import updated, watch
from tests.shop.models import Tag
from tests.support.peers import LEGACY, MODERN, Peer


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_uris_are_told_byte_for_byte_as_they_were_written(admin: Peer, revision: str) -> None:
    uris = [
        "db://SHOP/tag/a%2Fb", "db://shop/Tag/%61%2Fb", "db://shop/tag/a%2Fb", "db://shop/tag/a%2fb",
        "db://shop/tag?name=%61%2Fb", "db://shop/tag?name=%61%2Fb&limit=1", "db://shop/tag?pk=a%2Fb",
    ]  # fmt: skip
    tag = Tag.objects.create(name="a/b")
    watching = watch(admin, revision, *uris)

    tag.delete()

    assert watching.uris(len(uris)) == uris


def test_keys_of_any_text_can_be_watched(admin: Peer) -> None:
    tags = [Tag.objects.create(name=key) for key in ("ü", "☃ man", "..", ".", "", "a?b", "a#b", "%2F", "a+b", "x" * 50)]
    uris = [record_uri(Tag, tag.pk) for tag in tags]
    watching = watch(admin, MODERN, *uris)

    told = []
    for tag in tags:
        tag.save()
        told.append(watching.next())

    assert told == [updated(uri, "sub-1") for uri in uris]


def test_each_spelling_that_is_watched_is_told(admin: Peer, flights: Any) -> None:
    spellings = ["db://FLIGHTS/flight/1", "db://flights/flight/%31", "db://flights/flight/1", "db://flights/flight"]
    watching = watch(admin, MODERN, *spellings)

    flights[0].save()

    assert watching.uris(4) == sorted(spellings)


def test_a_record_is_told_under_every_spelling_of_its_key_that_can_be_read(admin: Peer, flights: Any) -> None:
    uris = ["db://flights/flight/%2B1", "db://flights/flight/01", "db://flights/flight?pk=%201"]
    assert [admin.read(uri)["id"] for uri in uris] == [1, 1, 1]
    watching = watch(admin, MODERN, *uris)

    flights[0].save()

    assert watching.uris(3) == uris
