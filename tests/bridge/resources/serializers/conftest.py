"""Serializers of flights, and records that they made."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from jsonschema import Draft202012Validator
from rest_framework import serializers

from demo_project.flights.models import Airport
from mcp_django import ModelMCP
from tests.support.asking import DirectPeer
from tests.support.data import make_flights, make_staff

JSON = dict[str, Any]


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def viewer(root: DirectPeer) -> DirectPeer:
    """Sees flights and airports, and neither planes nor airlines."""
    return DirectPeer(make_staff("watcher", "flights.view_flight", "flights.view_airport"))


class JFKOnly(ModelMCP):
    """Airports of which agents see one."""

    fields = ("faa", "name", "altitude")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(faa="JFK")


class AirportSerializer(serializers.ModelSerializer[Airport]):
    class Meta:
        model = Airport
        fields: ClassVar = ["faa", "name", "latitude"]


def fields_of(model: Any, *names: str, **declared: Any) -> type[serializers.ModelSerializer[Any]]:
    """A ModelSerializer of these fields; the declared ones come with it."""
    meta = type("Meta", (), {"model": model, "fields": [*names, *declared]})
    return type(f"{model.__name__}Serializer", (serializers.ModelSerializer,), {"Meta": meta, **declared})


def get(peer: DirectPeer, key: Any, model: str = "flights.flight", **more: Any) -> JSON:
    """The record as get_record gives it, which is as the resource is and as its schema says."""
    result = peer.call("get_record", model=model, id=key, **more)
    assert not result["isError"], result
    values: JSON = result["structuredContent"]
    if not more:
        assert peer.read(f"db://{model.replace('.', '/')}/{key}") == values
        Draft202012Validator(schema(peer, model)).validate(values)
    return values


def schema(peer: DirectPeer, model: str = "flights.flight") -> JSON:
    read: JSON = peer.read(f"db://{model.replace('.', '/')}.schema")
    Draft202012Validator.check_schema(read)
    return read
