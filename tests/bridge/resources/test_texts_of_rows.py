"""Attempts to read a hidden column by the text of a row, as ``__str__`` makes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import CHANGE, LogEntry

from tests.bridge.resources.conftest import showing
from tests.shop.models import Document, Person
from tests.support.asking import DirectPeer
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

HIDDEN = "sk-hidden"


@pytest.fixture
def ann(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setattr(Person, "__str__", lambda person: f"{person.name} {person.badge}")
    return Person.objects.create(name="Ann", badge=HIDDEN)


def everything(peer: DirectPeer, model: str, key: Any, **more: Any) -> str:
    """All that reading tells of a row."""
    uri = f"db://{model.replace('.', '/')}"
    return json.dumps([
        peer.call("find_records", model=model, **more), peer.call("get_record", model=model, id=key, **more),
        peer.call("describe_models", model=model), peer.read(uri), peer.read(f"{uri}/{key}"),
    ])  # fmt: skip


def test_the_list_of_an_admin_shows_no_text_of_a_row(root: DirectPeer, ann: Person, declared: Declared) -> None:
    """``list_display`` is ``("__str__",)`` where the admin sets none."""
    for names in (ModelAdmin.list_display, ("name", "__str__"), (Person.__str__,)):
        declared.admin(Person, type("Admin", (ModelAdmin,), {"list_display": names, "fields": ["name"]}))

        read = everything(root, "shop.person", ann.pk) + everything(root, "shop.person", ann.pk, fields=["__str__"])

        assert "Ann" in read and HIDDEN not in read, names
        assert "no field '__str__'" in read
        declared.close()


def test_the_text_of_a_row_is_shown_where_the_options_name_it(
    root: DirectPeer, ann: Person, declared: Declared
) -> None:
    declared.model(Person, fields=["name", "__str__"])

    found = root.call("find_records", model="shop.person", fields=["__str__"])["structuredContent"]

    assert found["rows"] == [[ann.pk, f"Ann {HIDDEN}"]]


def test_a_computed_value_that_is_a_row_is_its_key(root: DirectPeer, ann: Person, declared: Declared) -> None:
    class Admin(ModelAdmin[Document]):
        list_display = ["name", "borrower", "borrowers", "by_name"]
        fields = ["name"]

        def borrower(self, document: Document) -> Any:
            return document.owner

        def borrowers(self, document: Document) -> Any:
            return Person.objects.order_by("pk")

        def by_name(self, document: Document) -> Any:
            return {document.owner.name: [document.owner]} if document.owner else None

    bob = Person.objects.create(name="Bob", badge=f"{HIDDEN} 2")
    for name, owner in (("a", ann), ("b", bob), ("c", None)):
        Document.objects.create(name=name, owner=owner)
    declared.admin(Document, Admin)
    declared.model(Person, showing(lambda every: every.filter(name="Ann"), fields=("name",)))

    names = ["borrower", "borrowers", "by_name"]
    found = root.call("find_records", model="shop.document", fields=names, order_by=["name"])["structuredContent"]

    key = str(ann.pk)
    assert found["rows"] == [
        ["a", key, [key], {"Ann": [key]}], ["b", None, [key], {"Bob": []}], ["c", None, [key], None],
    ]  # fmt: skip
    assert HIDDEN not in everything(root, "shop.document", "a")


def test_the_texts_of_rows_in_the_history_of_the_admin(root: DirectPeer, ann: Person, declared: Declared) -> None:
    said = json.dumps([{"changed": {"name": "person", "object": str(ann), "fields": ["Name"]}}])
    entry = LogEntry.objects.create(
        user=root.user, object_id=str(ann.pk), object_repr=str(ann), action_flag=CHANGE, change_message=said
    )
    declared.model(LogEntry, fields="__all__")

    assert HIDDEN not in everything(root, "admin.logentry", entry.pk)
    assert "action_flag" in everything(root, "admin.logentry", entry.pk)
