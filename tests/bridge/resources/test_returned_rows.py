"""Resources of a project that return rows of a model: within the rights of who reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import models
from django.http import HttpRequest

from tests.bridge.resources.conftest import showing
from tests.shop.models import Person
from tests.support.asking import DirectPeer
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

HIDDEN = "sk-hidden"


@pytest.fixture
def people(root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources that return Ann, of whom agents see the name, and Bob, of whom they see nothing."""
    monkeypatch.setattr(Person, "__str__", lambda person: f"{person.name} {person.badge}")
    for number, name in enumerate(("Ann", "Bob", "Cid")):
        Person.objects.create(name=name, badge=f"{HIDDEN} {number}")
    declared.model(Person, showing(lambda every: every.exclude(name="Bob"), fields=("name",)))

    def one(request: HttpRequest, name: str) -> Person:
        return Person.objects.get(name=name)

    def maybe(request: HttpRequest, name: str) -> Any:
        return Person.objects.filter(name=name).first()

    def rows(request: HttpRequest) -> models.QuerySet[Person]:
        return Person.objects.order_by("-name")

    def listed(request: HttpRequest) -> Any:
        return list(Person.objects.order_by("-name"))

    async def late(request: HttpRequest) -> Any:
        return Person.objects.order_by("-name")

    def bob(request: HttpRequest) -> Any:
        return Person.objects.get(name="Bob")

    def within(request: HttpRequest) -> Any:
        return {"bob": bob(request)}

    declared.resource("shop://one/{name}", one, name="one")
    declared.resource("shop://maybe/{name}", maybe, name="maybe")
    for function in (rows, listed, late, bob, within):
        declared.resource(f"shop://{function.__name__}", function, name=function.__name__)


def test_a_row_is_a_record_and_many_are_a_collection(root: DirectPeer, people: None) -> None:
    ann, cid = (Person.objects.get(name=name).pk for name in ("Ann", "Cid"))
    note = "A rule of this project limits which rows of shop.person you see."
    collection = {
        "model": "shop.person", "columns": ["id", "name"], "rows": [[cid, "Cid"], [ann, "Ann"]], "notes": [note],
    }  # fmt: skip

    assert root.read("shop://one/Ann") == root.read("shop://maybe/Ann") == root.read(f"db://shop/person/{ann}")
    for name in ("rows", "listed", "late"):
        assert root.read(f"shop://{name}") == collection


def test_a_collection_is_cut_and_says_how_to_get_the_rest(root: DirectPeer, people: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_ROWS": 1}

    read = root.read("shop://rows")

    assert [row[1] for row in read["rows"]] == ["Cid"]
    assert (
        read["more"]
        == "These are the first 1 rows, and more follow. Ask for less, or ask find_records for shop.person."
    )


def test_reading_a_hidden_row(root: DirectPeer, people: None) -> None:
    """It is as absent as one that does not exist."""

    def answer(uri: str) -> Any:
        message = root.request(MODERN, "resources/read", {"uri": uri})
        return json.loads(json.dumps(message.get("error", message.get("result"))).replace("Bob", "Nobody"))

    for name in ("one", "maybe"):
        assert answer(f"shop://{name}/Bob") == answer(f"shop://{name}/Nobody")
    assert root.read("shop://bob") is None
    assert HIDDEN not in json.dumps(answer("shop://within")) and "Nobody" not in json.dumps(answer("shop://within"))


def test_reading_rows_of_a_model_that_the_user_may_not_view(people: None) -> None:
    viewer = DirectPeer(make_staff("viewer", "shop.view_document"))

    read = json.dumps([viewer.request(MODERN, "resources/read", {"uri": f"shop://{name}"}) for name in ("rows", "bob")])

    assert "You may not see what this returns." in read
    assert not any(name in read for name in ("Ann", "Cid", HIDDEN))
    assert viewer.read("shop://listed") == []


def test_the_text_of_a_row_within_a_resource(root: DirectPeer, people: None, caplog: Any) -> None:
    root.request(MODERN, "resources/read", {"uri": "shop://within"})

    assert "The resource shop://within returned what has no JSON" in caplog.text
    assert "what holds other values names a row by its key" in caplog.text and HIDDEN not in caplog.text
