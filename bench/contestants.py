"""Who answers: the tools, a list view of Django REST framework, and what a person would write by hand.

All of them start from the rows of ``FlightAdmin.get_queryset`` and give the same columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.test import RequestFactory
from django.urls import resolve
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from rest_framework.generics import ListAPIView
from rest_framework.pagination import CursorPagination
from rest_framework.permissions import DjangoModelPermissions
from rest_framework.renderers import JSONRenderer
from rest_framework.serializers import ModelSerializer
from rest_framework.test import APIRequestFactory, force_authenticate

from bench.project import Caller
from bench.rounds import Contestant, Reading
from demo_project.flights.admin import JFK_OPERATIONS
from demo_project.flights.models import Flight
from mcp_django import MCPSite, site
from mcp_django.access.authentication import TokenAuthentication
from mcp_django.core.db.bounds import bounded
from mcp_django.core.secret import Secret
from mcp_django.exchange.connection import Connection
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_settings
from mcp_django.exchange.scopes import READ
from mcp_django.protocol.envelope import Client

JSON = dict[str, Any]

REVISION = "2026-07-28"
PAGE = 20

MODEL = "flights.flight"
#: What an agent may read of a flight in the demo.
COLUMNS = (
    "id", "departs_at", "carrier", "number", "origin", "destination", "status", "departure_delay", "arrival_delay",
    "tailnum", "notes", "plane", "air_time", "distance",
)  # fmt: skip

#: From the rows that a caller may see to the values that are asked for.
Select = Callable[[QuerySet[Flight]], Any]


# The tools.


def exchange_of(caller: Caller, name: str, arguments: JSON, *, site: MCPSite = site) -> Exchange:
    """A call of a tool, as the tool is given it. Nothing of an earlier request is remembered in it."""
    request = _request(caller)
    return Exchange(
        site=site, principal=request.mcp.principal, revision=REVISION, method="tools/call",
        params={"name": name, "arguments": arguments}, request_id=1, client=Client(),
        connection=cast("Connection", _Unconnected()), request=request,
    )  # fmt: skip


def call(caller: Caller, name: str, arguments: JSON) -> JSON:
    """The structured content that a tool gives."""
    content: JSON = site.tools[name].run(exchange_of(caller, name, arguments), arguments)["structuredContent"]
    return content


def tool(caller: Caller, name: str, arguments: JSON) -> Contestant:
    """The tool alone: rights are computed, arguments checked, the question asked, the answer written as text."""
    run = site.tools[name].run
    return Contestant(
        "tool",
        lambda: exchange_of(caller, name, arguments),
        lambda exchange: run(exchange, arguments),
        lambda result: Reading(len(_text(result).encode()), _of_columns(result["structuredContent"])),
    )


def whole_request(caller: Caller, name: str, arguments: JSON) -> Contestant:
    """The request as it comes in under WSGI: the token, the envelope and the message too."""
    view = resolve("/mcp").func
    meta = {PROTOCOL_VERSION_META_KEY: REVISION, CLIENT_CAPABILITIES_META_KEY: {}}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {caller.token}",
        "Host": "localhost",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }

    def read(response: Any) -> Reading:
        return Reading(len(response.content), _of_columns(json.loads(response.content)["result"]["structuredContent"]))

    return Contestant(
        "request",
        lambda: RequestFactory().post("/mcp", body, content_type="application/json", headers=headers),
        view,
        read,
    )


def _text(result: JSON) -> str:
    return str(result["content"][0]["text"])


def _of_columns(content: JSON) -> list[JSON]:
    return [_comparable(zip(content["columns"], row, strict=True)) for row in content["rows"]]


class _Unconnected:
    """In the place of a connection, for a call that no transport brought: the query tools say nothing on the way."""

    push = False
    transport = "bench"
    is_live = False


def _request(caller: Caller) -> MCPRequest:
    """A request with the caller's token, whose principal is known already."""
    request = from_settings()
    request.authorization = Secret(f"Bearer {caller.token}")
    return request.for_principal(Principal(caller.user, frozenset({READ}), caller.credential, caller.credential.pk))


# The floor.


def floor(caller: Caller, columns: Sequence[str], select: Select) -> Contestant:
    """The least that rows can cost: ``values_list`` and ``json.dumps``, in the transaction mode of the tools."""
    rows = hooked(caller)

    def answer(_: Any) -> str:
        queryset = rows()
        with bounded(queryset.db):
            return _written(select(queryset))

    return Contestant("floor", lambda: None, answer, partial(_of_lists, columns))


def bare_floor(caller: Caller, columns: Sequence[str], select: Select) -> Contestant:
    """The same without a limit of time, and without the project's hook: for whom nobody asks what they may see."""
    sees_all = not caller.user.groups.filter(name=JFK_OPERATIONS).exists()

    def answer(_: Any) -> str:
        return _written(select(Flight.objects.all() if sees_all else Flight.objects.filter(origin="JFK")))

    return Contestant("bare floor", lambda: None, answer, partial(_of_lists, columns))


def _of_lists(columns: Sequence[str], text: str) -> Reading:
    rows = [_comparable(zip(columns, row, strict=True)) for row in json.loads(text)]
    return Reading(len(text.encode()), rows)


def hooked(caller: Caller) -> Callable[[], QuerySet[Flight]]:
    """The rows that the project's own hook gives, which asks for the user's groups each time."""
    request = _request(caller)
    return lambda: _get_queryset(request)


def _get_queryset(request: Any) -> QuerySet[Flight]:
    return admin.site._registry[Flight].get_queryset(request)


def _written(rows: Any) -> str:
    """Rows as the tool writes them: instants in UTC, and no spaces."""
    return json.dumps(list(rows), default=_instant, separators=(",", ":"))


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _comparable(row: Any) -> JSON:
    """A row by the names of its columns, whatever time zone its instants are written in."""
    values = dict(row)
    if "departs_at" in values:
        values["departs_at"] = datetime.fromisoformat(values["departs_at"]).astimezone(UTC)
    return values


# Django REST framework.


class FlightSerializer(ModelSerializer[Flight]):
    class Meta:
        model = Flight
        fields = COLUMNS


class ViewPermissions(DjangoModelPermissions):
    """Asks for the permission to view, as the admin and the tools do; by itself DRF lets every user read."""

    perms_map = {**DjangoModelPermissions.perms_map, "GET": ["%(app_label)s.view_%(model_name)s"]}


def pagination(order: Sequence[str]) -> type[CursorPagination]:
    return type("Pagination", (CursorPagination,), {"page_size": PAGE, "ordering": tuple(order)})


class FlightList(ListAPIView[Flight]):
    """A list view as the documentation of DRF has it."""

    serializer_class = FlightSerializer
    permission_classes = [ViewPermissions]
    renderer_classes = [JSONRenderer]

    def get_queryset(self) -> QuerySet[Flight]:
        return _get_queryset(self.request)


def drf(caller: Caller, order: Sequence[str], cursor: str = "", *, with_token: bool = False) -> Contestant:
    """The list view, called and rendered; with the token that the whole request to the tool carries, or without."""
    authentication = [TokenAuthentication] if with_token else []
    view = FlightList.as_view(pagination_class=pagination(order), authentication_classes=authentication)
    query: Mapping[str, str] = {"cursor": cursor} if cursor else {}
    headers = {"Host": "localhost", **({"Authorization": f"Bearer {caller.token}"} if with_token else {})}

    def prepare() -> Any:
        request: Any = APIRequestFactory().get("/flights/", query, headers=headers)
        if not with_token:
            force_authenticate(request, caller.user)
        return request

    return Contestant(
        "DRF with the token" if with_token else "DRF",
        prepare,
        lambda request: view(request).render(),
        lambda response: Reading(
            len(response.content), [_comparable(row) for row in json.loads(response.content)["results"]]
        ),
    )
