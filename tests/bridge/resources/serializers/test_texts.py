"""Attempts to read a hidden column by a field of a serializer that writes the text of a row."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from rest_framework import serializers

from tests.bridge.resources.conftest import showing
from tests.bridge.resources.serializers.conftest import fields_of, get
from tests.shop.models import Document, Person
from tests.support.asking import DirectPeer
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

HIDDEN = "sk-hidden"


@dataclasses.dataclass
class Loan:
    by: Person


@pytest.fixture
def ann(root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> Person:
    """A person whose text holds the badge, which agents may not read, and who owns two documents."""
    monkeypatch.setattr(Person, "__str__", lambda person: f"{person.name} {person.badge}")
    monkeypatch.setattr(Document, "__str__", lambda document: f"{document.name} of {document.owner}")
    ann = Person.objects.create(name="Ann", badge=HIDDEN)
    for name in ("a", "b"):
        Document.objects.create(name=name, owner=ann)
    return ann


#: Each class of field that writes ``str(value)``, or the value as it is.
CLASSES: dict[str, Any] = {
    "words": serializers.StringRelatedField, "text": serializers.CharField, "plain": serializers.ReadOnlyField,
    "slug": serializers.SlugField, "number": serializers.UUIDField, "json": serializers.JSONField,
}  # fmt: skip


def test_the_text_of_a_related_row_is_its_key(root: DirectPeer, ann: Person, declared: Declared) -> None:
    key = serializers.PrimaryKeyRelatedField(source="owner", read_only=True)
    name = serializers.SlugRelatedField(source="owner", slug_field="name", read_only=True)
    written = {one: cls(source="owner", read_only=True) for one, cls in CLASSES.items()}
    choice = serializers.ChoiceField(source="owner", choices=["x"])
    declared.model(Person, fields=["name"])
    declared.model(
        Document,
        fields=["name", "owner"],
        serializer_class=fields_of(Document, key=key, who=name, choice=choice, **written),
    )

    assert get(root, "a", "shop.document") == {
        "key": ann.pk, "who": "Ann", "choice": str(ann.pk), **dict.fromkeys(CLASSES, str(ann.pk)),
    }  # fmt: skip


def test_the_text_of_the_row_itself_is_its_key(root: DirectPeer, ann: Person, declared: Declared) -> None:
    written = {one: cls(source="*", read_only=True) for one, cls in CLASSES.items()}
    declared.model(Person, fields=["name"], serializer_class=fields_of(Person, "name", **written))

    assert get(root, ann.pk, "shop.person") == {"name": "Ann", **dict.fromkeys(CLASSES, str(ann.pk))}


def test_the_texts_of_many_rows_are_their_keys(root: DirectPeer, ann: Person, declared: Declared) -> None:
    cls = fields_of(
        Person,
        words=serializers.StringRelatedField(source="documents", many=True),
        text=serializers.CharField(source="documents"), plain=serializers.ReadOnlyField(source="documents"),
        listed=serializers.ListField(source="documents.all", child=serializers.CharField()),
        named=serializers.DictField(source="by_name", child=serializers.CharField()),
    )  # fmt: skip
    Person.by_name = property(lambda person: {"a": person, "b": Document.objects.get(pk="b")})  # type: ignore[attr-defined]
    declared.model(Person, fields=["name"], serializer_class=cls)
    declared.model(Document, showing(lambda every: every.filter(pk="a"), fields=("name", "owner")))
    try:
        record = get(root, ann.pk, "shop.person")
    finally:
        del Person.by_name  # type: ignore[attr-defined]

    assert record == {
        "words": ["a"], "text": "['a']", "plain": ["a"], "named": {"a": str(ann.pk)},
    }  # fmt: skip


def test_rows_that_code_of_the_project_returns_are_their_keys(
    root: DirectPeer, ann: Person, declared: Declared
) -> None:
    """The code itself may make a text of a row; a row that it returns is not made one."""
    returned: dict[str, Any] = {
        "row": lambda self, document: document.owner, "rows": lambda self, document: Person.objects.all(),
        "among": lambda self, document: {"by": [document.owner], document.owner: 1},
        "loan": lambda self, document: Loan(document.owner), "own": lambda self, document: str(document.owner),
        "hidden": lambda self, document: [Person.objects.get(name="Bob")],
    }  # fmt: skip
    Person.objects.create(name="Bob", badge=f"{HIDDEN} 2")
    cls = fields_of(Document, **{name: serializers.SerializerMethodField() for name in returned})
    for name, function in returned.items():
        setattr(cls, f"get_{name}", function)
    declared.model(Person, showing(lambda every: every.filter(name="Ann"), fields=("name",)))
    declared.model(Document, fields=["name", "owner"], serializer_class=cls)

    key = str(ann.pk)
    assert get(root, "a", "shop.document") == {
        "row": key, "rows": [key], "among": {"by": [key], key: 1}, "loan": {"by": key},
        "own": f"Ann {HIDDEN}", "hidden": [],
    }  # fmt: skip
