"""Attempts to learn of hidden rows, fields and models by completion."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Group
from django.db import connection, models
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP
from mcp_django.models import Prompt
from tests.protocol.completion.conftest import FLIGHT, QUERY, ask, refused, suggested
from tests.shop.models import Apikey
from tests.support.asking import DirectPeer
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.examples import examples
from tests.support.peers import Peer


@pytest.mark.every_database
def test_keys_of_rows_that_are_hidden(ops: Peer, flights: Any) -> None:
    """The members of the group see the flights from JFK: 1, 4, 7 and 10."""
    assert suggested(ops, FLIGHT, "id") == ["1", "4", "7", "10"]
    assert suggested(ops, FLIGHT, "id", "1") == ["1", "10"]
    assert suggested(ops, FLIGHT, "id", "2") == []
    assert suggested(ops, QUERY, "id", "2") == []


def test_keys_of_hidden_rows_by_a_relation(root: DirectPeer, declared: Declared) -> None:
    class Mine(ModelMCP):
        fields = ["faa", "name"]
        search_fields = ["name"]

        def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
            return super().get_queryset(request).exclude(pk="JFK")

    def report(request: HttpRequest, airport: Airport) -> str:
        """Report."""
        return ""

    declared.model(Airport, Mine)
    declared.prompt(report)
    Airport.objects.update(name="Kennedy")

    for ref, name in ((QUERY, "origin"), ("report", "airport"), ("db://flights/airport/{faa}", "faa")):
        assert suggested(root, ref, name) == ["EWR", "IAH", "LGA"]
        assert suggested(root, ref, name, "JF") == []
    assert suggested(root, QUERY, "origin", "Kennedy") == ["EWR", "IAH", "LGA"]


def test_keys_of_rows_that_are_checked_one_by_one(root: DirectPeer, declared: Declared) -> None:
    class OneByOne(ModelMCP):
        fields = ["id", "number"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk % 2 == 0

    declared.model(Flight, OneByOne)

    assert suggested(root, FLIGHT, "id") == ["2", "4", "6", "8", "10", "12"]
    assert suggested(root, FLIGHT, "id", "1") == ["10", "12"]


def test_looking_for_one_visible_row_among_many(many: DirectPeer, declared: Declared) -> None:
    class LastOnly(ModelMCP):
        fields = ["id", "number"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk == 2_500

    declared.model(Flight, LastOnly)
    with CaptureQueriesContext(connection) as queries:
        found = ask(many, FLIGHT, "id")["result"]["completion"]

    assert found == {"values": [], "hasMore": True}
    assert len(queries) < 15


def test_a_model_that_is_hidden(root: DirectPeer) -> None:
    viewer, nobody = DirectPeer(make_staff("viewer", "flights.view_flight")), DirectPeer(make_staff("nobody"))

    assert refused(nobody, "db://{app_label}/{model}.schema", "model")["data"]["reason"] == "REFERENCE_NOT_FOUND"
    for uri in (
        "db://flights/airport/{faa}",
        "db://flights/airport{?name}",
        "db://flights/airport",
        "db://auth/user/{id}",
    ):
        hidden = str(refused(viewer, uri, "name"))
        absent = uri.replace("airport", "airpxrt").replace("user", "usxr")
        assert hidden.replace("airport", "airpxrt").replace("user", "usxr") == str(refused(viewer, absent, "name"))
    assert suggested(viewer, "db://{app_label}/{model}.schema", "model") == ["flight"]
    assert suggested(viewer, "db://{app_label}/{model}.schema", "app_label") == ["flights"]


def test_a_relation_or_a_prompt_about_a_model_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    hidden, absent = refused(viewer, QUERY, "origin"), refused(viewer, QUERY, "xrigin")
    assert str(hidden).replace("origin", "xrigin") == str(absent)
    assert "origin" not in refused(viewer, QUERY, "nope")["data"]["errors"][0]["message"]

    def report(request: HttpRequest, airport: Airport) -> str:
        """Report."""
        return ""

    declared.prompt(report)
    assert suggested(viewer, "report", "airport") == []


def test_a_prompt_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    def secret(request: HttpRequest, who: Literal["hunter2"]) -> str:
        """Secret."""
        return ""

    declared.prompt(secret, permission="flights.change_flight")
    Prompt.objects.create(name="grouped", text="{{ who }}").groups.add(Group.objects.create(name="g"))
    Prompt.objects.create(name="off", text="{{ who }}", enabled=False)
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    for name in ("secret", "grouped", "off"):
        assert str(refused(viewer, name, "who")).replace(name, "?") == str(refused(viewer, "nope", "who")).replace(
            "nope", "?"
        )
    assert suggested(root, "secret", "who") == ["hunter2"]


def test_fields_that_may_not_be_filtered_by(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, fields=["id", "status", "origin"], filter_fields=["origin"])

    assert suggested(root, QUERY, "origin", "j") == ["JFK"]
    for name in ("status", "carrier", "nope"):
        assert refused(root, QUERY, name)["data"]["errors"][0]["message"].endswith(
            "Allowed: origin, search, order_by, limit."
        )


def test_secrets(root: DirectPeer, declared: Declared) -> None:
    product = "db://shop/product{?name}"
    declared.model(Apikey, use_admin=False)
    Apikey.objects.create(token="hunter2")

    for ref, name in ((product, "api_key"), ("db://auth/user{?username}", "password")):
        assert refused(root, ref, name)["data"]["errors"][0]["field"] == "argument.name"
    for uri in ("db://shop/apikey/{token}", "db://shop/apikey{?token}", "db://mcp_django/accesstoken/{id}",
                "db://mcp_django/prompt/{id}", "db://sessions/session/{session_key}"):  # fmt: skip
        assert refused(root, uri, "token")["data"]["reason"] == "REFERENCE_NOT_FOUND"


def test_searching_by_a_field_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    """Search fields of the admin count as far as the principal may read them."""

    class Shy(django_admin.ModelAdmin[Any]):
        list_display = ["faa"]
        fields = ["faa"]
        search_fields = ["name", "faa"]

    declared.admin(Airport, Shy)
    Airport.objects.filter(pk="JFK").update(name="Kennedy")

    assert suggested(root, QUERY, "origin", "Kennedy") == []
    assert suggested(root, QUERY, "origin", "fk") == ["JFK"]


def test_a_declared_template_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    declared.resource(
        "shop://{number}", lambda request, number: "", name="x", permission="flights.change_flight",
        complete={"number": lambda *given: ["hunter2"]},
    )  # fmt: skip
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    hidden, absent = refused(viewer, "shop://{number}", "number"), refused(viewer, "shop://{nxmber}", "number")
    assert str(hidden).replace("{number}", "{nxmber}") == str(absent)
    assert suggested(root, "shop://{number}", "number") == ["hunter2"]


def test_a_token_without_the_scope_read(root: DirectPeer) -> None:
    writing = DirectPeer(root.user, "actions")

    for ref, name in ((FLIGHT, "id"), (QUERY, "origin"), ("punctuality_report", "origin"), ("flights://about", "x"),
                      ("flights://board/{airport}/{day}", "airport")):  # fmt: skip
        assert refused(writing, ref, name)["data"]["reason"] in ("REFERENCE_NOT_FOUND", "PROMPT_NOT_FOUND")


@pytest.mark.every_database
@settings(max_examples=examples(150))
@given(st.sampled_from([(FLIGHT, "id"), (QUERY, "origin"), (QUERY, "status"), (QUERY, "order_by"), (QUERY, "plane"),
                        ("db://shop/tag/{name}", "name"), ("punctuality_report", "origin")]),
       st.text(st.characters(codec="utf-8"), max_size=40))  # fmt: skip
def test_anything_may_be_typed(root: DirectPeer, asked: tuple[str, str], typed: str) -> None:
    found = ask(root, *asked, typed)["result"]["completion"]

    assert len(found["values"]) <= 100


def test_a_result_larger_than_a_message(root: DirectPeer, declared: Declared) -> None:
    def report(request: HttpRequest, a: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": lambda *given: ["x" * 1_000] * 10})
    with override_settings(MCP={"MAX_RESULT_BYTES": 4_000}):
        error = ask(root, "report", "a")["error"]

    assert error["data"]["reason"] == "LIMIT_EXCEEDED"


@pytest.mark.every_database
def test_the_text_of_a_row_that_a_function_suggests(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(request: HttpRequest, airport: str, other: str) -> str:
        """Report."""
        return ""

    monkeypatch.setattr(Airport, "__str__", lambda airport: f"{airport.pk} hunter2")
    complete: dict[str, Any] = {
        "airport": lambda *given: Airport.objects.order_by("pk"),
        "other": lambda *given: list(Airport.objects.order_by("pk")),
    }
    declared.prompt(report, complete=complete)

    keys = list(Airport.objects.order_by("pk").values_list("pk", flat=True))
    assert suggested(root, "report", "airport") == suggested(root, "report", "other") == keys
