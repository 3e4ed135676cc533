"""Attempts to read, or to change, more of a row than its fields by the ``source`` of a serializer's field."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from rest_framework import serializers

from demo_project.flights.models import Disruption, Flight
from mcp_django import site
from mcp_django.console.review import inventory
from tests.bridge.resources.serializers.conftest import fields_of, get, schema
from tests.shop.models import Document, Person
from tests.support.asking import DirectPeer
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

PRIVATE = "is private: it begins with an underscore"
OF_DJANGO = "Django itself defines: it is no field of the row"

REFUSED = {
    "reported_by.__dict__": PRIVATE,
    "reported_by._password": PRIVATE,
    "reported_by._state": PRIVATE,
    "_meta.fields": PRIVATE,
    "__str__": PRIVATE,
    "reported_by.get_session_auth_hash": OF_DJANGO,
    "reported_by.get_session_auth_fallback_hash": OF_DJANGO,
    "reported_by.get_all_permissions": OF_DJANGO,
    "reported_by.has_usable_password": OF_DJANGO,
    "reported_by.set_unusable_password": OF_DJANGO,
    "reported_by.is_authenticated": OF_DJANGO,
    "reported_by.get_full_name": OF_DJANGO,
    "reported_by.save": OF_DJANGO,
    "reported_by.objects": OF_DJANGO,
    "delete": OF_DJANGO,
    "refresh_from_db": OF_DJANGO,
    "get_deferred_fields": OF_DJANGO,
    "serializable_value": OF_DJANGO,
}


@pytest.fixture
def reported(root: DirectPeer) -> Disruption:
    return Disruption.objects.create(flight_id=1, kind="weather", reported_by=root.user)


def test_reading_a_password_hash_by_the_source_of_a_field(
    root: DirectPeer, reported: Disruption, declared: Declared
) -> None:
    for source, reason in REFUSED.items():
        declared.close()
        cls = fields_of(Disruption, "id", taken=serializers.ReadOnlyField(source=source))
        declared.model(Disruption, fields="__all__", serializer_class=cls)
        assert get(root, reported.pk, "flights.disruption") == {"id": reported.pk}, source
        assert list(schema(root, "flights.disruption")["properties"]) == ["id"], source
        assert Disruption.objects.filter(pk=reported.pk).exists()
        hidden = inventory.build(site)["models"]["flights.disruption"]["hidden"]
        name = source.rpartition(".")[2] if source != "_meta.fields" else "_meta"
        assert hidden["DisruptionSerializer.taken"] == f"its source {source} reads {name}, which {reason}"


def test_naming_a_method_of_django_as_a_field_or_as_a_slug(root: DirectPeer, declared: Declared) -> None:
    declared.model(User, fields=["username"], serializer_class=fields_of(User, "username", "get_session_auth_hash"))
    assert get(root, root.user.pk, "auth.user") == {"username": "root"}

    for slug in ("_state", "delete", "full_clean"):
        declared.close()
        field = serializers.SlugRelatedField(source="carrier", slug_field=slug, read_only=True)
        declared.model(Flight, fields="__all__", serializer_class=fields_of(Flight, "number", taken=field))
        assert get(root, 1) == {"number": 1000}, slug


def test_reaching_a_method_of_django_through_a_property(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a property returns is known when the row is read."""
    monkeypatch.setattr(Flight, "reporter", property(lambda flight: User.objects.get(username="root")), raising=False)
    sources = {"own": "reporter.username", "allowed": "reporter.get_all_permissions", "gone": "reporter.delete"}
    cls = fields_of(
        Flight, **{name: serializers.ReadOnlyField(source=source, default=None) for name, source in sources.items()}
    )
    declared.model(Flight, fields="__all__", serializer_class=cls)

    assert get(root, 1) == {"own": "root", "allowed": None, "gone": None}
    assert User.objects.filter(username="root").exists()


def test_deleting_a_file_by_the_source_of_a_field(
    root: DirectPeer, declared: Declared, settings: Any, tmp_path: Any
) -> None:
    settings.MEDIA_ROOT = str(tmp_path)
    document = Document(name="a")
    document.upload.save("a.txt", ContentFile(b"kept"))
    cls = fields_of(
        Document, "name", size=serializers.ReadOnlyField(source="upload.size"),
        gone=serializers.ReadOnlyField(source="upload.delete"), opened=serializers.ReadOnlyField(source="upload.open"),
    )  # fmt: skip
    declared.model(Document, fields="__all__", serializer_class=cls)

    assert get(root, "a", "shop.document") == {"name": "a", "size": 4, "gone": None, "opened": None}
    assert document.upload.storage.exists(document.upload.name)


def test_what_the_project_defines_is_read(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Person, "greeting", lambda person: f"Hello {person.name}", raising=False)
    monkeypatch.setattr(Person, "initial", property(lambda person: person.name[0]), raising=False)
    cls = fields_of(
        Person, "name", "greeting", "initial", more=serializers.SerializerMethodField(),
        get_more=lambda self, person: person.__class__.__name__,
    )  # fmt: skip
    cls.Meta.fields.remove("get_more")  # type: ignore[attr-defined]
    person = Person.objects.create(name="Ada", badge="1")
    declared.model(Person, fields="__all__", serializer_class=cls)

    found = get(root, person.pk, "shop.person")

    assert found == {"name": "Ada", "greeting": "Hello Ada", "initial": "A", "more": "Person"}
