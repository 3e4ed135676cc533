"""Admin actions as tools: who may run them, on which rows, and what is left when one fails."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.db import models, transaction
from django.http import HttpRequest

import mcp_django
from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Airline, Flight
from mcp_django.bridge.tools.actions import tool_name
from tests.shop.models import Tag
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.data import make_flights, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers

CANCEL = "flights_flight_mark_cancelled"
Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    switch_on(CANCEL)
    return DirectPeer(User.objects.create_superuser("root"))


def statuses() -> list[str]:
    return list(Flight.objects.order_by("id").values_list("status", flat=True))


# Over every transport.


def test_an_action_runs_and_says_what_it_told_the_admin(admin: Peer, flights: Any) -> None:
    result = admin.call(CANCEL, ids=[1, "2"])

    assert result["content"] == [{"type": "text", "text": "2 flights were marked as cancelled."}]
    assert result["isError"] is False and "structuredContent" not in result
    assert statuses()[:3] == ["cancelled", "cancelled", "on_time"]


def test_an_action_is_described(admin: Peer, flights: Any) -> None:
    assert listed(admin, CANCEL) == {
        "name": CANCEL,
        "title": "Mark selected flights as cancelled",
        "description": "Mark selected flights as cancelled. Acts on flights.flight rows, by ids or filter.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "ids": {
                    "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1000,
                    "description": "Primary keys of the flights.flight rows to act on. All or none are acted on. "
                    "More than 20 are shown first.",
                },
                "filter": {
                    "type": "object",
                    "additionalProperties": True,
                    "description": "Instead of ids, as in find_records. Shows the rows first.",
                },
                "pages": {
                    "type": "array",
                    "maxItems": 6,
                    "items": {
                        "type": "object",
                        "properties": {
                            "values": {"type": "object", "additionalProperties": True},
                            "button": {"type": "string"},
                        },
                        "additionalProperties": False,
                    },
                    "description": "Where the answer is a form: what to send, as "
                    '{"values": {field: value}}, page by page.',
                },
                "confirm": {
                    "type": "string", "maxLength": 60,
                    "description": "The token given with these rows.",
                },
            },
            "additionalProperties": False,
        },
        "annotations": {
            "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False,
        },
    }  # fmt: skip
    assert listed(admin, "flights_flight_export_as_csv")["annotations"] == {
        "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
    }  # fmt: skip


def test_a_permission_that_is_lost_is_lost_at_once(ops: Peer, users: Any, flights: Any) -> None:
    before = ops.call(CANCEL, ids=[1])
    users.ops.groups.get().permissions.remove(Permission.objects.get(codename="change_flight"))

    after = ops.error(MODERN, "tools/call", {"name": CANCEL, "arguments": {"ids": [4]}})

    assert before["isError"] is False
    assert after["data"]["reason"] == "TOOL_NOT_FOUND"
    assert statuses()[3] == "on_time"


def test_a_token_without_the_scope_actions_has_no_actions(peers: Peers, users: Any, flights: Any) -> None:
    reader = peers(token_of(users.admin, "read"))

    refused = reader.error(MODERN, "tools/call", {"name": CANCEL, "arguments": {"ids": [1]}})

    assert refused["data"]["reason"] == "TOOL_NOT_FOUND"
    assert CANCEL not in reader.tools()
    assert "flights_flight_export_as_csv" in reader.tools()
    assert statuses()[0] == "on_time"


# Which actions are tools.


def test_an_action_is_off_until_somebody_switches_it_on(root: DirectPeer) -> None:
    off = "flights_flight_mark_on_time"

    before = root.error(MODERN, "tools/call", {"name": off, "arguments": {"ids": [1]}})
    switch_on(off)

    assert before["data"]["reason"] == "TOOL_NOT_FOUND"
    assert root.call(off, ids=[1])["isError"] is False


def test_actions_of_the_whole_site_are_no_tools(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{app}_delete_selected" for app in ("flights_flight", "flights_airline", "auth_user")]
    switch_on(*names)

    refused = [root.error(MODERN, "tools/call", {"name": name, "arguments": {"ids": [1]}}) for name in names]

    assert {error["data"]["reason"] for error in refused} == {"TOOL_NOT_FOUND"}
    assert not any("delete_selected" in name for name in mcp_django.site.tools)
    assert Flight.objects.count() == 6


class Odd(Admin):
    """Actions as packages have them."""

    actions = ["alone", "many", "remember", "lasting", "noted"]

    def alone(self) -> None:
        """As django-fsm-admin has it: it takes no rows."""

    def many(self, request: HttpRequest, queryset: Any, reason: str) -> None:
        """It needs more."""

    def remember(self, request: HttpRequest, queryset: Any) -> None:
        seen = request.session.get("seen", [])
        request.session["seen"] = [*seen, len(queryset)]
        request.session.save()
        self.message_user(request, f"{request.session['seen']}, key {request.session.session_key}")

    def lasting(self, request: HttpRequest, queryset: Any) -> None:
        queryset.update(name="changed")
        with transaction.atomic(durable=True):
            pass

    def noted(self, request: HttpRequest, queryset: Any, reason: str = "") -> None:
        self.message_user(request, str(hasattr(request, "session")))


def test_actions_as_packages_have_them(root: DirectPeer, declared: Declared, transactional_db: None) -> None:
    declared.admin(Tag, Odd)
    names = [f"shop_tag_{name}" for name in Odd.actions]
    switch_on(*names)
    Tag.objects.create(name="a")

    offered = [name.removeprefix("shop_tag_") for name in root.tools() if name in names]
    said = [text_of(root.call("shop_tag_remember", ids=["a"])) for _ in range(2)]
    lasting = root.call("shop_tag_lasting", ids=["a"])

    assert sorted(offered) == ["lasting", "noted", "remember"]
    assert said == ["[1], key None"] * 2 and not Session.objects.exists()
    assert lasting["isError"] is True and "atomic(durable=True)" in text_of(lasting)
    assert Tag.objects.get().name == "a"


class _TagAdmin(Admin):
    actions = ["shout", "look"]

    def shout(self, request: HttpRequest, queryset: models.QuerySet[Tag]) -> None:
        """Says nothing of permissions."""
        for tag in queryset:
            Tag.objects.create(name=f"{tag.name}!")

    @mcp_django.action(idempotent=True, destructive=False)
    @admin.action(permissions=["view"], description="Look at %(verbose_name_plural)s, 100%")
    def look(self, request: HttpRequest, queryset: models.QuerySet[Tag]) -> None:
        self.message_user(request, f"saw {queryset.count()}")
        self.message_user(request, "twice")


@pytest.fixture
def tags(root: DirectPeer, declared: Declared) -> list[Tag]:
    declared.admin(Tag, _TagAdmin)
    switch_on("shop_tag_shout", "shop_tag_look")
    return [Tag.objects.create(name=name) for name in ("a", "b", "c/d", "1")]


def test_an_action_that_names_no_permission_is_for_who_may_change(root: DirectPeer, tags: list[Tag]) -> None:
    may_view = DirectPeer(make_staff("viewer", "shop.view_tag"))
    # As in the admin, who may change may view.
    may_change = DirectPeer(make_staff("changer", "shop.change_tag"))
    blind = DirectPeer(make_staff("blind", "shop.add_tag"))

    refused = may_view.error(MODERN, "tools/call", {"name": "shop_tag_shout", "arguments": {"ids": ["a"]}})
    done = may_change.call("shop_tag_shout", ids=["a"])

    assert refused["data"]["reason"] == "TOOL_NOT_FOUND"
    assert "shop_tag_shout" not in may_view.tools() and "shop_tag_look" in may_view.tools()
    assert "shop_tag_shout" in may_change.tools() and "shop_tag_shout" not in blind.tools()
    assert text_of(done) == "Done; the admin said nothing."
    assert Tag.objects.filter(name="a!").exists()


def test_what_an_action_says_of_itself_and_to_its_user(root: DirectPeer, tags: list[Tag]) -> None:
    tool = listed(root, "shop_tag_look")

    assert tool["annotations"] == {
        "readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
    }  # fmt: skip
    assert tool["description"].endswith("Acts on shop.tag rows, by ids or filter.")
    assert tool["inputSchema"]["properties"]["ids"]["items"] == {"type": "string"}
    assert text_of(root.call("shop_tag_look", ids=["a", "c/d", "1"])) == "saw 3\ntwice"


# Which rows.


@pytest.mark.every_database
def test_an_id_that_is_none_refuses_the_whole_call(root: DirectPeer) -> None:
    wrong: list[tuple[list[Any], list[str]]] = [
        ([1, 99], ["ids.1"]), (["1 OR 1=1"], ["ids.0"]), ([""], ["ids.0"]), (["1\x00"], ["ids.0"]),
        ([99, 1, "x", 2**70, -1], ["ids.0", "ids.2", "ids.3", "ids.4"]),
    ]  # fmt: skip
    for ids, fields in wrong:
        refused = root.call(CANCEL, ids=ids)
        assert [error["field"] for error in errors_of(refused)] == fields, ids
        assert "Nothing was changed" in text_of(refused)
    assert statuses()[0] == "on_time"
    # A row that is named twice is acted on once.
    assert text_of(root.call(CANCEL, ids=[1, "1", 1])) == "1 flight was marked as cancelled."


def test_arguments_that_are_no_list_of_ids(root: DirectPeer) -> None:
    wrong: list[dict[str, Any]] = [
        {"select_across": 1}, {"ids": [1], "all": True}, {"ids": list(range(1, 1002))}, {}, {"ids": []}, {"ids": None},
        {"ids": ""}, {"ids": "1"}, {"ids": 1}, {"ids": [True]}, {"ids": [None]}, {"ids": [1.5]}, {"ids": [[1]]},
        {"ids": [{"pk": 1}]},
    ]  # fmt: skip
    for arguments in wrong:
        assert errors_of(root.call(CANCEL, **arguments)), arguments
    assert statuses()[0] == "on_time"


@pytest.mark.every_database
def test_rows_that_a_join_doubles_are_acted_on_once(root: DirectPeer, declared: Declared) -> None:
    class Doubling(Admin):
        actions = ["count"]

        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(flights__distance__gt=0)

        @admin.action(permissions=["view"])
        def count(self, request: HttpRequest, queryset: Any) -> None:
            self.message_user(request, " ".join(sorted(airline.pk for airline in queryset)))

    declared.admin(Airline, Doubling)
    switch_on("flights_airline_count")

    assert text_of(root.call("flights_airline_count", ids=["UA", "AA"])) == "AA UA"


def test_rows_that_may_not_be_viewed_one_by_one_are_not_acted_on(root: DirectPeer, declared: Declared) -> None:
    class Refusing(FlightAdmin):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk != 2

    declared.admin(Flight, Refusing)

    assert [error["field"] for error in errors_of(root.call(CANCEL, ids=[1, 2]))] == ["ids.1"]
    assert statuses()[0] == "on_time"


def test_a_registration_that_narrows_the_rows_narrows_those_of_actions(root: DirectPeer, declared: Declared) -> None:
    class Odd(mcp_django.ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(number__in=[1000, 1002])

    declared.model(Flight, Odd)

    assert [error["field"] for error in errors_of(root.call(CANCEL, ids=[1, 2]))] == ["ids.1"]
    assert root.call(CANCEL, ids=[1, 3])["isError"] is False
    assert statuses()[:3] == ["cancelled", "on_time", "cancelled"]


# Names.


def test_names_are_what_every_client_takes() -> None:
    assert tool_name("flights", "flight", "cancel") == "flights_flight_cancel"
    assert tool_name("flüge", "flug", "x") == "fl_ge_flug_x_" + tool_name("flüge", "flug", "x")[-8:]
    assert tool_name("a.b", "c", "d") != tool_name("a_b", "c", "d")
    long = tool_name("an_app_with_a_long_label", "amodelwithalongname", "and_an_action_with_a_long_name_too")
    assert len(long) == 64 and long.startswith("an_app_with_a_long_label_amodelwithalongname_and_an_act")
    assert long != tool_name("an_app_with_a_long_label", "amodelwithalongname", "and_an_action_with_a_long_name_2")
