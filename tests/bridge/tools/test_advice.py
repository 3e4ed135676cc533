"""What an agent is told to do next is true: what is missing, what an action would change, what an error wants."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

import mcp_django
from demo_project.flights.models import Flight
from mcp_django.bridge.tools import actions
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from tests.shop.models import Product
from tests.support.asking import DirectPeer, errors_of, text_of, words_of
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    switch_on(*(tool.name for tool in WRITE_TOOLS), "flights_flight_mark_cancelled")
    return DirectPeer(User.objects.create_superuser("root"), "read", "actions", "write")


def wrong(peer: DirectPeer, tool: str, **asked: Any) -> dict[str, str]:
    return {error["field"]: error["message"] for error in errors_of(peer.call(tool, **asked))}


# Words.


def test_an_error_says_what_to_send_instead(root: DirectPeer) -> None:
    flight = {"model": "flights.flight"}
    told = [
        wrong(root, "find_records", **flight, order_by="-departs_at"),
        wrong(root, "aggregate_records", **flight, measures={"n": "count"}),
        wrong(root, "delete_record", **flight, id="1000"),
        wrong(root, "find_records", **flight, filter={"airline": "UA"}),
        wrong(root, "find_records", **flight, fields=["airline__name", "airlines"]),
        wrong(root, "aggregate_records", **flight, measures=["share@late"]),
        wrong(root, "find_records", **flight, limit=5_000),
        wrong(root, "update_record", **flight, id="1", values={"status": "on time"}),
        wrong(root, "find_records", **flight, order_by="-departs_at, number"),
        wrong(root, "delete_record", id="1000"),
        wrong(root, "find_records", **flight, filter='{"id": 1', order_by='["id"'),
    ]

    assert told[0] == {"order_by": 'order_by must be a list, as ["-departs_at"]'}
    assert told[1] == {"measures": 'measures must be a list, as ["count", "avg:arrival_delay"]'}
    assert told[2]["ids"] == 'delete_record takes a list: "ids": ["1000"]'
    assert told[3]["filter.airline"].startswith("no field 'airline'. Did you mean carrier, which points to flights.air")
    assert told[4]["fields"].startswith("no field 'airlines'. Did you mean carrier, which points to flights.airline?")
    assert told[5] == {"measures": """no condition 'late'. Define it: "conditions": {"late": {"number__gt": 60}}"""}
    assert told[6] == {"limit": "must not be greater than 1000: take pages by next_cursor, or aggregate_records"}
    assert told[7]["values.status"] == (
        "status has no choice 'on time'. Did you mean on_time? Allowed: on_time, delayed, cancelled."
    )
    assert told[8] == {"order_by": 'order_by must be a list, as ["-departs_at", "number"]'}
    assert told[9][""] == "'model' is a required property" and told[9]["ids"] == told[2]["ids"]
    assert told[10] == {
        "filter": "filter must be an object: this text is not the JSON of one",
        "order_by": "order_by must be a list: this text is not the JSON of one",
    }
    [received] = errors_of(root.call("update_record", **flight, id="1", values={"status": "on time"}))
    assert received["received"] == "on time"


def test_every_tool_refuses_in_one_shape(root: DirectPeer, declared: Declared) -> None:
    def refuse(request: HttpRequest) -> str:
        """Refuses."""
        raise mcp_django.ToolError("Only on Mondays.")

    declared.tool(refuse)
    calls: list[tuple[str, Any]] = [
        ("find_records", {"model": "nope"}), ("get_record", {"model": "flights.flight", "id": "99"}), ("refuse", {}),
        ("flights_flight_mark_cancelled", {"ids": ["99"]}), ("update_record", {"model": "flights.flight", "id": "99"}),
    ]  # fmt: skip

    for name, asked in calls:
        result = root.call(name, **asked)
        refused = json.loads(result["content"][0]["text"])
        assert result["isError"] is True and refused.keys() == {"error", "errors"}, name
        assert all(one.keys() <= {"field", "message", "received"} for one in refused["errors"]), name


def test_what_follows_is_said_first(root: DirectPeer) -> None:
    page = root.call("find_records", model="flights.flight", limit=2)["content"][0]["text"]
    whole = root.call("find_records", model="flights.flight", limit=6)["content"][0]["text"]

    assert page.startswith('{"more":"More rows follow: pass next_cursor.","columns":[')
    assert whole.startswith('{"columns":[')


def test_a_preview_says_how_to_make_the_change(root: DirectPeer) -> None:
    asked = {"model": "flights.flight", "id": "1", "values": {"status": "delayed"}}

    itself = root.call("update_record", **asked)["structuredContent"]["notes"]
    by_preview = root.call("preview_change", operation="update", **asked)["structuredContent"]["notes"]

    assert itself == ['Nothing was changed yet. To make the change, send the same call again with "confirm" added.']
    assert by_preview == [
        'Nothing was changed yet. To make the change, call update_record with the same arguments and "confirm".'
    ]


def test_words_for_days_are_answered_with_the_day(root: DirectPeer) -> None:
    [message] = wrong(root, "find_records", model="flights.flight", filter={"departs_at": "yesterday"}).values()

    assert re.fullmatch(
        r"must be a day, as 2013-01-31 for the whole day, or a date and time, as 2013-01-31T08:30:00Z\. Words are not "
        r"read; today is \d{4}-\d\d-\d\d\.",
        message,
    )


def test_conditions_that_were_not_looked_up_are_said_to_be_applied(root: DirectPeer) -> None:
    asked = {f"carrier{'__exact' * (number % 2)}": "UA" for number in range(2)}
    many = {"any": [{"carrier": "UA"}] * 7, **asked}

    notes = root.call("find_records", model="flights.flight", filter=many)["structuredContent"]["notes"]

    assert (
        "All conditions were applied. Whether the values of any.5.carrier and later ones are spelt right was not "
        in (notes[0])
    )


# What is missing.


def test_a_user_who_lacks_the_permission_is_not_told_to_switch_on_actions(root: DirectPeer) -> None:
    viewer = make_staff("viewer", "flights.view_flight")
    changer = make_staff("changer", "flights.view_flight", "flights.change_flight")
    said = {
        name: peer.call("describe_models")["structuredContent"]["notes"][1]
        for name, peer in (
            ("viewer", DirectPeer(viewer)), ("no scope", DirectPeer(changer, "read")),
            ("all", DirectPeer(changer, "read", "actions", "write")),
        )
    }  # fmt: skip

    assert said["viewer"].endswith("your user lacks the permission to change data. An administrator can give it.")
    assert "switch" not in said["viewer"] and "scope" not in said["viewer"]
    assert "give your token the scopes actions and write." in said["no scope"]
    assert said["all"] == "Some of your tools change data; their annotations say which."


def test_ids_that_a_rule_hides_are_answered_with_the_rule(root: DirectPeer, declared: Declared) -> None:
    class Few(ModelAdmin[Any]):
        actions = ("touch",)

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(name="seen")

        def touch(self, request: Any, queryset: Any) -> None:
            pass

    declared.admin(Product, Few)
    switch_on("shop_product_touch")
    hidden = Product.objects.create(name="hidden")

    refused = [json.loads(root.call("shop_product_touch", ids=[key])["content"][0]["text"]) for key in (hidden.pk, 99)]

    rule = "A rule of this project limits which rows of shop.product you see."
    assert {one["error"] for one in refused} == {f"Some ids do not exist. Nothing was changed. {rule}"}


# Actions.


def test_an_action_shows_what_is_there_now(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shop(ModelAdmin[Any]):
        list_display = ("name", "stock", "active")
        actions = ("touch", "declared")

        def touch(self, request: Any, queryset: Any) -> None:
            queryset.update(stock=9)

        @mcp_django.action(changes=["stock", "nothing"])
        @admin.action
        def declared(self, request: Any, queryset: Any) -> None:
            queryset.update(stock=9)

    declared.admin(Product, Shop)
    switch_on("shop_product_touch", "shop_product_declared")
    ids = [str(Product.objects.create(name=f"p{number}", stock=number % 2, active=True).pk) for number in range(8)]
    monkeypatch.setattr(actions, "_MANY", 5)

    def shown(name: str, **asked: Any) -> list[str]:
        return text_of(root.call(name, **asked)).split("\n")

    by_filter, by_ids = shown("shop_product_declared", filter={"stock": 1}), shown("shop_product_touch", ids=ids)
    at_once = shown("shop_product_touch", ids=ids[:5])
    [token] = re.findall(r'"confirm": "([^"]+)"', by_ids[-1])
    changed_since = root.call("shop_product_touch", ids=ids[:7], confirm=token)
    done = root.call("shop_product_touch", ids=ids[::-1], confirm=token)

    assert by_filter[2] == "Now: stock: 4 1."
    assert by_ids[0] == "8 rows of shop.product. Nothing was changed."
    # Each name is another one, and the list shows few values of the others.
    assert by_ids[2] == "Now: stock: 4 0, 4 1; active: 8 true; price: 8 null."
    assert at_once == ["Done; the admin said nothing."]
    assert "no token for this call" in words_of(changed_since["content"][0]["text"])
    assert done["isError"] is False and set(Product.objects.values_list("stock", flat=True)) == {9}
    assert wrong(root, "shop_product_touch", ids=ids[:1], confirm=token).keys() == {"confirm"}


def test_an_action_that_the_admin_does_not_run_is_an_error(root: DirectPeer, declared: Declared) -> None:
    async def later(modeladmin: Any, request: Any, queryset: Any) -> None:
        await queryset.aupdate(name="done")

    def bit_by_bit(modeladmin: Any, request: Any, queryset: Any) -> Any:
        yield queryset.update(name="done")

    def without_content(modeladmin: Any, request: Any, queryset: Any) -> HttpResponse:
        queryset.update(name="done")
        return HttpResponse(status=204)

    declared.admin(Product, type("A", (ModelAdmin,), {"actions": [later, bit_by_bit, without_content]}))
    key = str(Product.objects.create(name="a").pk)
    switch_on(*(f"shop_product_{name}" for name in ("later", "bit_by_bit", "without_content")))

    for name in ("later", "bit_by_bit"):
        assert "The admin runs no line of this action" in text_of(root.call(f"shop_product_{name}", ids=[key]))
        assert Product.objects.get().name == "a"
    assert text_of(root.call("shop_product_without_content", ids=[key])) == "Done; the admin said nothing."
    assert Product.objects.get().name == "done"


def test_flights_are_declared_to_change_their_status(root: DirectPeer) -> None:
    shown = text_of(root.call("flights_flight_mark_cancelled", filter={"id__lte": Flight.objects.count()}))

    assert "\nNow: status: 5 on_time, 1 cancelled.\n" in shown
