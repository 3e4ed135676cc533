"""What an agent changes by a project's API: no more than it names, not before it is confirmed, and once.

Each trap has a control: the defence is taken away, or HTTP is asked, and the fault is there.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as project
from django.core import mail
from django.core.cache import cache
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection, models
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.serializers import ModelSerializer
from rest_framework.test import APIClient
from rest_framework.viewsets import ModelViewSet

from mcp_django.audit.recorder import recorder
from mcp_django.bridge.api import bodies
from mcp_django.bridge.changes.confirmations import Confirmation
from mcp_django.bridge.sites import MCPSite
from mcp_django.models import Call
from mcp_django.test import CallRefused
from tests.api.agents import Agent, exposed
from tests.api.project.models import Customer, Document, Event, Order, Setting, Ticket
from tests.api.project.urls import urlpatterns as urls_of_shop

_WRITTEN = (Customer, Document, Event, Order, Setting, Ticket)


class NoisySerializer(ModelSerializer):
    """Does more than write a row when it makes one."""

    class Meta:
        model = Event
        fields = ["id", "text"]

    def create(self, validated_data: Any) -> Event:
        mail.send_mail("Made", validated_data["text"], "shop@example.com", ["anna@example.com"])
        default_storage.save("made.txt", ContentFile(b"made"))
        cache.set("made", True)
        made: Event = super().create(validated_data)
        return made


class NoisyViewSet(ModelViewSet):
    queryset = Event.objects.all()
    serializer_class = NoisySerializer
    permission_classes = [IsAuthenticated]

    def perform_create(self, serializer: Any) -> None:
        serializer.save(owner=self.request.user)

    def list(self, request: Any) -> Response:
        return Response([])

    def rename(self, request: Any) -> Response:
        """Rename many at once."""
        self.get_serializer(data=request.data, many=True, partial=True).is_valid(raise_exception=True)
        for one in request.data:
            Event.objects.filter(pk=one["id"]).update(text=one["text"])
        return Response(len(request.data))


class NotedMiddleware:
    """Notes in a row each request that may change something."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = self.get_response(request)
        if request.method != "GET" and request.path.startswith("/api/"):
            Setting.objects.create(owner_id=999_999, name=f"{Setting.objects.count()}", value=request.path)
        return response


urlpatterns = [
    path("api/noisy/", NoisyViewSet.as_view({"post": "create", "get": "list", "patch": "rename"}), name="noisy"),
    *urls_of_shop,
]


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of this module beside its own."""
    settings.ROOT_URLCONF = __name__
    return shop


def _rows() -> list[int]:
    found: list[type[models.Model]] = [*_WRITTEN]
    return [model._default_manager.count() for model in found]


def _traces() -> dict[str, int]:
    """What a noisy serializer has left."""
    media = Path(project.MEDIA_ROOT)
    return {"mails": len(mail.outbox), "files": len(list(media.glob("*.txt"))), "cache": int("made" in cache)}


def browser_of(user: Any) -> APIClient:
    browser = APIClient(raise_request_exception=False, SERVER_NAME="localhost")
    browser.force_login(user)
    return browser


# Bodies.


def test_an_agent_sets_no_field_that_its_user_may_not_set(
    shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, order = Agent(exposed(include=["*", "me.partial_update"]), shop.anna), {"pk": shop.anna_order.pk}
    cases: dict[str, tuple[str, dict[str, Any], Any]] = {
        "read-only": ("order.partial_update", order, {"status": "paid"}),
        "a key": ("order.partial_update", order, {"id": shop.otto_order.pk}),
        "another owner": ("order.partial_update", order, {"owner": "otto"}),
        "a key of the owner": ("customer.partial_update", {"pk": shop.anna_customer.pk}, {"owner_id": shop.otto.pk}),
        "unknown": ("order.partial_update", order, {"noet": "x"}),
        "of staff": ("order.partial_update", order, {"internal_note": "x"}),
        "hidden": ("ticket.create", {}, {"title": "x", "owner": shop.otto.pk}),
        "hidden, of settings": ("settings.create", {}, {"name": "x", "value": "y", "owner": shop.otto.pk}),
        "secret": ("credentials.partial_update", order, {"api_key": "x"}),
        "secret, of a password": ("credentials.partial_update", order, {"password": "secret-of-anna"}),
        "nested": ("checkout.create", {}, {"lines": [{"product": "mug", "amount": "0.01"}]}),
        "of myself": ("me.partial_update", {}, {"is_staff": True}),
        "of Python": ("order.partial_update", order, {"__class__": "x"}),
    }

    told = {
        name: agent.told(operation, tool="change_api", params=params, body=body).partition(": ")[2]
        for name, (operation, params, body) in cases.items()
    }

    fixed, secret = "cannot be changed.", "is named like a secret, which agents do not set. Leave it out."
    assert {name: said.partition(". Allowed")[0].partition("'")[0].strip() for name, said in told.items()} == {
        "read-only": fixed, "a key": fixed, "another owner": fixed, "a key of the owner": "no field",
        "unknown": "no field", "of staff": "no field", "hidden": "no field", "hidden, of settings": "no field",
        "secret": secret, "secret, of a password": secret, "nested": "no field",
        "of myself": fixed, "of Python": "no field",
    }  # fmt: skip

    # Control: over HTTP such names are ignored, and the rest is done.
    monkeypatch.setattr(bodies, "checked", lambda *args: [])
    assert agent.change("order.partial_update", params=order, body={"noet": "x"})["status"] == "applied"


def test_what_was_read_may_be_sent_back(api: MCPSite, shop: SimpleNamespace) -> None:
    agent, key = Agent(api, shop.anna), {"pk": shop.anna_order.pk}
    read = agent.get("order.retrieve", params=key)["result"]

    plan = agent.plan("order.update", params=key, body={**read, "note": "call first"})

    assert plan["diff"] == [{"field": "note", "before": "by express", "after": "call first"}]


def test_of_a_list_of_records_what_cannot_be_changed_is_noted(own: SimpleNamespace) -> None:
    site, events = exposed(), list(Event.objects.filter(owner=own.anna)[:2])
    rows = [{"id": event.pk, "text": f"{event.pk} anew"} for event in events]
    agent = Agent(site, own.anna)

    plan = agent.plan("noisy.rename", body=rows)
    agent.confirm(plan, body=rows)

    assert plan["notes"][0] == "What cannot be changed is ignored: id."
    assert [Event.objects.get(pk=event.pk).text for event in events] == [row["text"] for row in rows]


def test_a_plan_says_where_it_cannot_know_whether_values_are_taken(api: MCPSite, shop: SimpleNamespace) -> None:
    agent, key = Agent(api, shop.anna), {"pk": shop.anna_order.pk}

    own = agent.plan("order.pay", params=key, body={"amount": "x"})
    standard = agent.plan("order.partial_update", params=key, body={"note": "x"})

    assert ["shows when it is called" in one["notes"][0] for one in (own, standard)] == [True, False]


def test_a_body_is_an_object_also_where_a_client_sends_a_text(api: MCPSite, shop: SimpleNamespace) -> None:
    agent, key = Agent(api, shop.anna), {"pk": shop.anna_order.pk}

    assert agent.plan("order.partial_update", params=key, body='{"note": "x"}')["diff"][0]["after"] == "x"
    assert "body" in agent.told("order.partial_update", tool="change_api", params=key, body="note=x")


def test_a_body_that_is_too_large_is_refused(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)

    told = agent.told("echo.post", tool="change_api", body={"a": "x" * 10_000_000})

    assert told == "The body is larger than 1,000,000 bytes. Nothing was changed."
    # Control.
    assert agent.plan("echo.post", body={"a": "x" * 10_000})["status"] == "plan"


def test_a_view_may_read_the_body_twice(api: MCPSite, shop: SimpleNamespace) -> None:
    made = Agent(api, shop.anna).change("twice.post", body={"b": 1, "a": [2]})

    assert made["result"] == {"first": {"b": 1, "a": [2]}, "second": ["a", "b"]}


def test_wrong_values_are_named_by_their_fields(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)
    body = {"customer": shop.otto_customer.pk, "number": "x" * 30, "lines": [{"product": "mug", "quantity": 0}]}

    told = agent.told("checkout.create", tool="change_api", body=body)

    assert [name in told for name in ("customer: ", "number: ", "lines.0.quantity: ")] == [True] * 3
    assert Order.objects.count() == 21


def test_wrong_values_of_secrets_that_the_project_shows_are_named_too(shop: SimpleNamespace) -> None:
    agent = Agent(exposed(show_secrets=["api_key", "password"]), shop.anna)
    body = {"api_key": "x" * 100, "password": "wrong"}

    told = agent.told("credentials.partial_update", tool="change_api", params={"pk": shop.anna_order.pk}, body=body)

    assert ("api_key: " in told, "This is not your password." in told) == (True, True)


# Plans.


def test_a_plan_leaves_nothing(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    rows, traces = _rows(), _traces()
    key = {"pk": own.anna_order.pk}

    for operation, arguments in {
        "noisy.create": {"body": {"text": "x"}},
        "ticket.create": {"body": {"title": "x"}},
        "checkout.create": {"body": {"customer": own.anna_customer.pk, "number": "A-9", "lines": [{"product": "mug"}]}},
        "order.partial_update": {"params": key, "body": {"note": "x"}},
        "order.cancel": {"params": key},
        "order.destroy": {"params": key},
        "document.create": {"body": {"title": "x", "file": agent.client.upload(b"x", "x.txt")}},
        "order.bulk_note": {"body": {"numbers": ["A-001"], "note": "x"}},
    }.items():
        assert agent.plan(operation, **arguments)["status"] == "plan"

    left = {name: number for name, number in _traces().items() if name != "files"}
    assert (_rows(), left) == (rows, {name: number for name, number in traces.items() if name != "files"})
    assert Order.objects.get(pk=own.anna_order.pk).note == "by express"
    assert not default_storage.exists("made.txt")
    assert not default_storage.exists("documents/x.txt")

    # Control: what is confirmed is done.
    agent.change("noisy.create", body={"text": "x"})
    assert _rows() != rows
    assert _traces()["mails"] == 1


def test_a_plan_leaves_no_row_of_middleware_that_notes_what_may_change_something(
    own: SimpleNamespace, settings: Any
) -> None:
    settings.MIDDLEWARE = [*project.MIDDLEWARE, f"{__name__}.NotedMiddleware"]
    agent, before = Agent(exposed(), own.anna), Setting.objects.count()

    plan = agent.plan("ticket.create", body={"title": "x"})
    planned = Setting.objects.count()
    agent.confirm(plan, body={"title": "x"})

    assert (planned, Setting.objects.filter(owner_id=999_999).count()) == (before, 1)


def test_a_run_that_is_rolled_back_keeps_what_is_no_row(own: SimpleNamespace) -> None:
    agent = Agent(exposed(preview={"noisy.create": "rollback"}), own.anna)
    rows = _rows()

    plan = agent.plan("noisy.create", body={"text": "x"})

    assert plan["would_answer"]["result"]["text"] == "x"
    assert _rows() == rows
    # So it is never the default: mail, file and cache stay.
    assert _traces() == {"mails": 1, "files": 1, "cache": 1}


# Confirmations.


def test_a_token_confirms_one_call_of_one_user(api: MCPSite, shop: SimpleNamespace, monkeypatch: Any) -> None:
    agent, otto = Agent(api, shop.anna), Agent(api, shop.otto)
    given = {"params": {"pk": shop.anna_order.pk}, "body": {"note": "first"}}
    plan = agent.plan("order.partial_update", **given)

    def told(by: Agent, operation: str = "order.partial_update", **more: Any) -> str:
        return by.told(operation, tool="change_api", **{**given, **more}, confirm=plan["confirm"])

    mine = otto.plan("order.partial_update", params={"pk": shop.otto_order.pk}, body={"note": "first"})["confirm"]
    refused = {
        "another user": told(Agent(api, shop.stella)),
        "another path": told(agent, params={"pk": shop.anna_orders[1].pk}),
        "another body": told(agent, body={"note": "second"}),
        "more body": told(agent, body={"note": "first", "number": "A-900"}),
        "another operation": told(agent, "order.write_note"),
        "another one's token": agent.told("order.partial_update", tool="change_api", **given, confirm=mine),
        "a forged token": agent.told("order.partial_update", tool="change_api", **given, confirm=mine[:-1]),
    }

    assert {name: "This is no token for this call" in said for name, said in refused.items()} == dict.fromkeys(
        refused, True
    ), refused

    Order.objects.filter(pk=shop.anna_order.pk).update(note="moved")
    assert "has changed since" in told(agent)

    # Control.
    monkeypatch.setattr(Confirmation, "check", lambda *args: None)
    assert agent.confirm(plan, **given).structured["status"] == "applied"


def test_a_change_of_another_query_needs_another_token(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)
    plan = agent.plan("echo.post", params={"tenant": "one"}, body={})

    told = agent.told("echo.post", tool="change_api", params={"tenant": "two"}, body={}, confirm=plan["confirm"])

    assert "This is no token for this call" in told


def test_a_token_makes_one_change(api: MCPSite, shop: SimpleNamespace) -> None:
    agent, body = Agent(api, shop.anna), {"body": {"title": "x"}}
    plan = agent.plan("ticket.create", **body)

    first = agent.confirm(plan, **body).structured
    second = agent.confirm(plan, **body).structured

    assert (second.pop("replayed"), second["result"]) == (True, first["result"])
    assert Ticket.objects.filter(title="x").count() == len(mail.outbox) == 1

    # Control: two tokens make two.
    agent.change("ticket.create", **body)
    assert Ticket.objects.filter(title="x").count() == 2


def test_a_change_that_the_project_refuses_can_be_confirmed_again(api: MCPSite, shop: SimpleNamespace) -> None:
    agent, order = Agent(api, shop.anna), shop.anna_order
    plan = agent.plan("order.cancel", params={"pk": order.pk})
    Order.objects.filter(pk=order.pk).update(status="paid")

    with pytest.raises(CallRefused) as refused:
        agent.confirm(plan, params={"pk": order.pk})
    Order.objects.filter(pk=order.pk).update(status="open")

    assert refused.value.errors[0]["message"] == "A paid order cannot be cancelled."
    assert agent.confirm(plan, params={"pk": order.pk}).structured["status"] == "applied"


def test_nobody_knows_the_end_of_a_change_that_crashed_and_it_is_not_run_again(
    api: MCPSite, shop: SimpleNamespace
) -> None:
    agent, body = Agent(api, shop.anna), {"body": {"text": "crashed"}}
    plan = agent.plan("crash.post", **body)

    first, second = (
        agent.client.call("change_api", raise_on_error=False, operation="crash.post", **body, confirm=plan["confirm"])
        for _ in range(2)
    )

    assert [one.structured["status"] for one in (first, second)] == ["unknown"] * 2
    assert Event.objects.filter(text="crashed").count() == 1


def test_a_record_is_deleted_when_its_user_agrees(api: MCPSite, shop: SimpleNamespace) -> None:
    key = {"pk": shop.anna_order.pk}

    asked = Agent(api, shop.anna, elicit=lambda question: "decline")
    plan = asked.plan("order.destroy", params=key)
    with pytest.raises(CallRefused, match="did not agree"):
        asked.confirm(plan, params=key)
    remained = Order.objects.filter(pk=shop.anna_order.pk).exists()
    made = Agent(api, shop.anna, elicit=lambda question: {}).change("order.destroy", params=key)

    assert plan["record"]["number"] == "A-001"
    assert (remained, made["status"], made["answered"]) == (True, "applied", 204)
    assert not Order.objects.filter(pk=shop.anna_order.pk).exists()


def test_change_api_is_off_until_an_administrator_switches_it_on(api: MCPSite, shop: SimpleNamespace) -> None:
    from mcp_django.test import MCPClient

    with MCPClient(shop.stella, ["read", "write"], site=api) as client:
        tools = [one["name"] for one in client.list_tools() if one["name"].endswith("_api")]
        told = {
            name: client.call("describe_api", **about).structured.get("notes")
            for name, about in {
                "all": {},
                "resource": {"resource": "order"},
                "change": {"operation": "order.pay"},
                "read": {"operation": "order.list"},
            }.items()
        }

    assert tools == ["call_api", "describe_api"]
    said = ["change_api is not among your tools, so what it would call is only described."]
    assert told == {"all": said, "resource": said, "change": said, "read": None}
    # Control: with the tool nothing is said.
    assert "notes" not in Agent(api, shop.stella).client.call("describe_api").structured


def test_the_trail_has_the_operation_its_path_the_fields_and_the_status_and_no_values(
    api: MCPSite, shop: SimpleNamespace, trail: None
) -> None:
    agent, key = Agent(api, shop.anna), {"pk": shop.anna_order.pk}

    agent.get("order.list", params={"search": "SOUGHT"})
    agent.change("order.partial_update", params=key, body={"note": "GIVEN"})
    agent.told("order.partial_update", tool="change_api", params={"pk": shop.otto_order.pk}, body={"note": "GIVEN"})
    recorder.flush()

    listed, plan, change, refused = Call.objects.filter(method="tools/call").order_by("pk")
    assert json.loads(listed.values) == {"operation": "order.list"}
    assert json.loads(plan.values) == {"operation": "order.partial_update", "path": {"pk": str(key["pk"])}}
    assert json.loads(change.values) == {**json.loads(plan.values), "fields": ["note"], "status": 200}
    assert json.loads(refused.values)["path"] == {"pk": str(shop.otto_order.pk)} and refused.reason == "NO_RECORD"
    assert not [one for one in Call.objects.values() if "SOUGHT" in str(one) or "GIVEN" in str(one)]


# Transactions.


@pytest.mark.parametrize("atomic", [True, False])
def test_what_a_view_has_written_before_it_refuses_is_left_as_by_http(
    atomic: bool, api: MCPSite, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    agent, browser = Agent(api, shop.anna), browser_of(shop.anna)
    operations = {"invalid.post": "invalid", "crash.post": "crash", "non-atomic.post": "non-atomic"}
    left: dict[str, tuple[int, int]] = {}

    for operation, name in operations.items():
        browser.post(f"/api/writes/{name}/", {"text": f"{name}, http"})
        plan = agent.plan(operation, body={"text": f"{name}, agent"})
        agent.client.call(
            "change_api", raise_on_error=False, operation=operation, body={"text": f"{name}, agent"},
            confirm=plan["confirm"],
        )  # fmt: skip
        left[name] = tuple(Event.objects.filter(text=f"{name}, {by}").count() for by in ("http", "agent"))

    assert left == {"invalid": (not atomic,) * 2, "crash": (not atomic,) * 2, "non-atomic": (1, 1)}


# Throttles of the project.


def test_a_plan_says_that_there_is_no_diff_where_reading_is_throttled(own: SimpleNamespace) -> None:
    from rest_framework.settings import api_settings

    from tests.api.project.throttles import BurstThrottle
    from tests.api.project.views_orders import OrderViewSet

    assert api_settings.DEFAULT_THROTTLE_CLASSES == []
    agent, key = Agent(exposed(), own.anna), {"pk": own.anna_order.pk}
    OrderViewSet.throttle_classes = [BurstThrottle]
    try:
        for _ in range(3):
            agent.get("order.retrieve", params=key)
        plan = agent.plan("order.partial_update", params=key, body={"note": "x"})
        with pytest.raises(CallRefused, match="called too often"):
            agent.confirm(plan, params=key, body={"note": "x"})
    finally:
        del OrderViewSet.throttle_classes

    assert plan["diff"] == [{"field": "note", "after": "x"}]
    assert "What is there now could not be read, so it is not compared." in plan["notes"]
    # Control.
    plan = agent.plan("order.partial_update", params=key, body={"note": "x"})
    assert plan["diff"] == [{"field": "note", "before": "by express", "after": "x"}]


def test_a_webhook_is_no_operation(api: MCPSite, shop: SimpleNamespace) -> None:
    agent = Agent(api, shop.anna)

    told = [agent.told(one, tool="change_api", body={}) for one in ("webhook.post", "password.post", "register.create")]

    assert [one.startswith("No such operation.") for one in told] == [True] * 3
    # Control: over HTTP anybody may call it.
    assert Client(SERVER_NAME="localhost").post("/api/webhook/", {}, "application/json").status_code == 202
