"""Serializers that fail, and what they cost."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from rest_framework import serializers

from demo_project.flights.models import Airport, Disruption, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import rows
from tests.bridge.resources.serializers.conftest import AirportSerializer, JFKOnly, fields_of, get, schema
from tests.support.asking import DirectPeer, rights_on, text_of
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database


class Broken(serializers.ModelSerializer[Flight]):
    class Meta:
        model = Flight
        fields: ClassVar = ["number"]

    def to_representation(self, instance: Flight) -> Any:
        raise ValueError("the password is hunter2")


def test_a_serializer_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    classes: list[Any] = [Broken, int, Flight, type("NotOne", (), {})]
    for cls in classes:
        declared.close()
        caplog.clear()
        declared.model(Flight, fields="__all__", serializer_class=cls)
        result = root.call("get_record", model="flights.flight", id=1)
        error = root.error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})
        assert result["isError"] and text_of(result).startswith("get_record failed."), cls
        assert error["code"] == -32603 and error["data"]["reason"] == "INTERNAL_ERROR", cls
        assert "hunter2" not in json.dumps([result, error])
        assert caplog.text.count("Traceback") >= 2
        assert not root.call("find_records", model="flights.flight")["isError"], cls
        assert not root.call("describe_models", model="flights.flight")["isError"], cls


def test_what_is_missing_from_a_row_is_left_out_as_drf_does(root: DirectPeer, declared: Declared) -> None:
    class Annotated(ModelMCP):
        fields = ("faa",)
        serializer_class = fields_of(
            Airport, "faa", there=serializers.CharField(read_only=True), missing=serializers.CharField(read_only=True)
        )

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).annotate(there=F("name"))

    declared.model(Airport, Annotated)

    assert get(root, "JFK", "flights.airport") == {"faa": "JFK", "there": "JFK"}
    assert schema(root, "flights.airport")["required"] == ["faa"]


def test_depth_goes_no_deeper_than_the_policy(root: DirectPeer, viewer: DirectPeer, declared: Declared) -> None:
    class Deep(serializers.ModelSerializer[Any]):
        class Meta:
            model = Disruption
            fields = "__all__"
            depth = 2

    declared.model(Disruption, fields="__all__", use_admin=False, serializer_class=Deep)
    declared.model(User, fields=["username"])
    key = Disruption.objects.create(flight_id=1, kind="crew", reported_by=root.user).pk

    seen = get(root, key, "flights.disruption")

    assert seen["reported_by"] == {"id": root.user.pk, "username": "root"}
    assert seen["flight"]["carrier"] == {"carrier": "UA", "name": "United"}
    assert "password" not in json.dumps([seen, schema(root, "flights.disruption")])


def test_a_serializer_costs_no_query_for_keys_of_rows_that_all_may_see(
    root: DirectPeer, declared: Declared, django_assert_num_queries: Any
) -> None:
    cls = fields_of(Flight, "id", "origin", "carrier", "plane")
    declared.model(Flight, fields="__all__", use_admin=False, serializer_class=cls)
    rights = rights_on(Flight, root.user)

    with django_assert_num_queries(1):
        record = rows.get(rights, 2)

    assert record is not None
    assert record.values == {"id": 2, "origin": "EWR", "carrier": "AA", "plane": "N14228"}


def test_describe_models_says_what_the_record_holds(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, type("AirportMCP", (JFKOnly,), {"serializer_class": AirportSerializer}))

    described = root.call("describe_models", model="flights.airport")["structuredContent"]

    assert described["record"] == ["faa", "name"]
