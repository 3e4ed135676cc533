"""Ways in that were tried on the demo and on small projects, each named after what the attacker wants."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps

from demo_project.flights.models import Airline, Flight
from mcp_django import ModelMCP, site
from mcp_django.access.authentication import PrincipalCache, authenticate
from mcp_django.conf import get_conf
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import AccessToken, Session, Tool, digest
from mcp_django.push.subscriptions import watch
from mcp_django.transports.http.endpoint import EndpointView
from mcp_django.transports.http.headers import Headers
from mcp_django.transports.http.messages import HTTPRequest
from tests.support.asking import DirectPeer, request_of, rights_on
from tests.support.data import Users, make_flights, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, HTTPPeer, Peers, SocketPeer

Admin: Any = admin.ModelAdmin

CANCEL = "flights_flight_mark_cancelled"


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


def rows(peer: DirectPeer, model: str, **asked: Any) -> list[list[Any]]:
    found: list[list[Any]] = peer.call("find_records", model=model, **asked)["structuredContent"]["rows"]
    return found


# Rows.


@pytest.mark.every_database
def test_acting_on_a_row_that_only_the_model_mcp_hides(root: DirectPeer, declared: Declared) -> None:
    class Departing(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(pk=1)

    declared.model(Flight, Departing)
    switch_on(CANCEL)

    hidden = root.call(CANCEL, ids=[1, 2])
    absent = root.call(CANCEL, ids=[999, 2])

    assert hidden["isError"] is True
    assert str(hidden).replace("999", "1") == str(absent).replace("999", "1")
    assert set(Flight.objects.filter(pk__in=[1, 2]).values_list("status", flat=True)) == {"on_time"}


class _Own(ModelMCP):
    """Shows each user the flights that have their name in the notes."""

    fields = ["notes"]

    def has_view_permission(self, request: Any, obj: models.Model | None = None) -> bool:
        return obj is None or request.user.username in obj.notes  # type: ignore[attr-defined]


@pytest.mark.every_database
def test_finding_and_paging_past_rows_that_are_hidden_by_a_permission_on_the_object(
    root: DirectPeer, declared: Declared
) -> None:
    declared.model(Flight, _Own, ordering=["id"])
    Flight.objects.filter(pk__in=[2, 5]).update(notes="of root")
    asked = {"model": "flights.flight", "limit": 1}

    first = root.call("find_records", **asked)["structuredContent"]
    second = root.call("find_records", **asked, cursor=first["next_cursor"])["structuredContent"]

    assert first["rows"] == [[2, "of root"]]
    assert second == {
        "columns": ["id", "notes"], "rows": [[5, "of root"]],
        "notes": ["A rule of this project limits which rows of flights.flight you see."],
    }  # fmt: skip
    assert rows(root, "flights.flight", filter={"notes__startswith": "note"}) == []
    assert root.call("get_record", model="flights.flight", id=1)["isError"] is True


def test_watching_a_collection_for_rows_that_are_hidden_by_a_permission_on_the_object(
    root: DirectPeer, declared: Declared
) -> None:
    declared.model(Flight, _Own)
    Flight.objects.filter(pk=2).update(notes="of root")
    subscription = watch(site, "db://flights/flight")
    assert subscription is not None

    assert subscription.look(site, request_of(root.user))
    assert (subscription.unscoped, subscription.keys) == (False, {"2"})


# Fields.


def test_reading_a_field_that_has_no_form_field_or_that_get_form_takes_away(
    root: DirectPeer, declared: Declared
) -> None:
    class WithoutFormField(Admin):
        list_display = ["number"]

        def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
            return None if db_field.name == "notes" else super().formfield_for_dbfield(db_field, request, **kwargs)

    class Discreet(Admin):
        list_display = ["number"]

        def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
            return super().get_form(request, obj, change, **{**kwargs, "exclude": ["notes"]})

    declared.admin(Flight, WithoutFormField)
    assert "notes" not in rights_on(Flight, root.user).columns

    declared.admin(Flight, Discreet)
    assert "notes" not in rights_on(Flight, root.user).columns
    assert root.call("find_records", model="flights.flight", filter={"notes": "x"})["isError"] is True


# Models.


def test_showing_tokens_through_a_proxy(root: DirectPeer, declared: Declared) -> None:
    with isolate_apps("tests.shop"):

        class ShownToken(AccessToken):
            class Meta:
                app_label = "shop"
                proxy = True

    declared.admin(ShownToken, Admin)

    assert "shop.showntoken" not in site.models
    with pytest.raises(ImproperlyConfigured, match="never exposed"):
        site.register(ShownToken, fields="__all__")


# Tools.


def test_using_a_tool_whose_group_was_deleted(root: DirectPeer) -> None:
    """Where an administrator takes its last group away, it is for everybody again."""
    switch_on(CANCEL)
    tool = Tool.objects.get(name=CANCEL)
    ends: list[tuple[Any, bool]] = [(Group.delete, False), (tool.groups.remove, True)]
    for end, is_there in ends:
        group = Group.objects.create(name="dispatchers")
        tool.groups.add(group)
        assert CANCEL not in root.tools()

        end(group)

        assert (CANCEL in root.tools()) is is_there


# Credentials.


def test_keeping_a_token_after_the_password_was_made_unusable(root: DirectPeer) -> None:
    user = make_staff("ann", "flights.view_flight")
    token, _ = AccessToken.objects.create_token(user=user)

    user.set_unusable_password()
    user.save()

    token.refresh_from_db()
    assert token.revoked_at is not None


@pytest.mark.parametrize("transport", ["websocket"])
def test_crashing_the_upgrade_with_a_password_that_is_no_token(peers: Peers) -> None:
    peer = peers(None)
    assert isinstance(peer, SocketPeer)
    import base64

    socket = peer.connect({"Authorization": "Basic " + base64.b64encode("x:mcp_€".encode()).decode()})

    assert socket.accepted is False
    assert socket.refused[0]["status"] == 401


def test_keeping_a_token_that_was_revoked_while_it_was_being_read(root: DirectPeer) -> None:
    _, plain = AccessToken.objects.create_token(user=root.user)

    class Overtaken(PrincipalCache):
        """The revocation comes between the reading and the keeping."""

        def _load(self, digest: str) -> Any:
            found = super()._load(digest)
            self.clear()
            return found

    cache = Overtaken()

    assert cache.find_hash(digest(plain), fresh=False) is not None
    assert cache.recall(digest(plain)) is None


def test_counting_as_another_caller_by_another_spelling(users: Users) -> None:
    for spelling in ("bearer {}", "BEARER  {}", " Bearer {} "):
        meta = {"HTTP_AUTHORIZATION": spelling.format(token_of(users.admin))}
        request = MCPRequest(path="/mcp", scheme="http", meta=meta, attributes={})
        authenticate(request, fresh=True)
        view = EndpointView(site, HTTPRequest("POST", Headers(request.META), b"{}", request), push=True)
        assert view.principal_key == f"user:{users.admin.pk}", spelling


# Size and work.


def test_making_the_server_parse_before_it_knows_who_asks(peers: Peers) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)

    answer = peer.http("POST", b"[" + b"[]," * 200_000 + b"[]]")

    assert answer.status == 401


def test_getting_an_answer_larger_than_the_question(root: DirectPeer) -> None:
    many: list[dict[str, Any]] = [{"filter": {"any": [1] * 100_000}}, {"fields": [1] * 100_000}]
    for asked in many:
        result = root.call("find_records", model="flights.flight", **asked)
        assert result["isError"] is True
        assert len(str(result)) < 20_000

    error = root.error(MODERN, "resources/read", {"uri": "db://flights/flight?number=" + "1" * 100_000})
    assert len(str(error)) < 10_000


def test_filling_the_database_with_sessions(peers: Peers, users: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_SESSIONS": 3}
    peer = peers(token_of(users.admin))
    assert isinstance(peer, HTTPPeer)
    client = {"name": "x" * 500_000, "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {"x" * 100_000: {}}, "clientInfo": client}

    for number in range(5):
        assert peer.post({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}).status == 200

    assert get_conf().MAX_SESSIONS == Session.objects.count() == 3
    assert all(
        len(str(session.client_info) + str(session.client_capabilities)) < 1_000 for session in Session.objects.all()
    )


@pytest.mark.every_database
def test_subscribing_to_a_query_costs_little_more_than_reading_it(
    root: DirectPeer, django_assert_max_num_queries: Any
) -> None:
    request = request_of(root.user)
    subscription = watch(site, "db://flights/airline?carrier__startswith=U")
    assert subscription is not None
    assert Airline.objects.exists()

    # What administrators decided, a row, and the keys that are remembered.
    with django_assert_max_num_queries(3):
        assert subscription.look(site, request)
