"""Which operations ``expose`` finds, what they are called, and what an agent is told of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.urls import include, path
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import api_view, permission_classes
from rest_framework.permissions import AllowAny
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import ReadOnlyModelViewSet

from mcp_django import expose
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import MCPClient
from tests.api.agents import Agent, exposed
from tests.api.project import urls as project_urls
from tests.api.project import views_catalog, views_orders
from tests.api.project.models import Order, Product


def _helper(request: Any) -> Any:
    return request.query_params.get("from_helper")


@api_view(["GET"])
@permission_classes([AllowAny])
def reads(request: Any) -> Response:
    """Reads its query in several ways."""
    query = request.query_params
    found = [query.get("direct"), request.GET.getlist("several")]
    if "item" in query:
        found.append(query["item"])
    return Response({"found": found, "helped": _helper(request)})


@api_view(["GET"])
@permission_classes([AllowAny])
def whole(request: Any) -> Response:
    return Response(dict(request.query_params.items()))


class SpanSerializer(serializers.Serializer):
    first = serializers.DateField(help_text="The first day.")
    api_token = serializers.CharField()


@extend_schema_field({"type": "string", "format": "uri"})
class PlaceField(serializers.Field):
    def to_internal_value(self, data: Any) -> Any:
        return data


class VisitSerializer(serializers.Serializer):
    place = PlaceField()
    names = serializers.SerializerMethodField()

    @extend_schema_field(list[OpenApiTypes.UUID])
    def get_names(self, row: Any) -> Any:
        return []


@extend_schema(
    methods=["GET"],
    summary="Visits of a day",
    parameters=[
        OpenApiParameter("declared", OpenApiTypes.DATE, description="A day.", required=True),
        OpenApiParameter("state", enum=["open", "done"]),
        OpenApiParameter("X-Trace", location="header"),
        SpanSerializer,
    ],
    responses={404: SpanSerializer, (200, "application/json"): VisitSerializer},
)
@extend_schema(
    methods=["POST"],
    description="Plan a visit.\n\nIt takes a while.",
    request={"application/json": VisitSerializer},
)
class DeclaredView(APIView):
    permission_classes = [AllowAny]
    schema = AutoSchema()

    def get(self, request: Any) -> Response:
        return Response({"declared": request.GET.get("declared")})

    def post(self, request: Any) -> Response:
        return Response({"noted": request.data.get("note")})


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ["name"]


class ProductViewSet(ReadOnlyModelViewSet):
    queryset = Product.objects.all()
    serializer_class = ProductSerializer


first, second = SimpleRouter(), SimpleRouter()
first.register("products", ProductViewSet, basename="product")
second.register("products", ProductViewSet, basename="product")
urlpatterns = [
    path("api/reads/", reads, name="reads"),
    path("api/whole/", whole, name="whole"),
    path("api/declared/", DeclaredView.as_view(), name="declared"),
    path("v1/", include((first.urls, "v1"), namespace="v1")),
    path("v2/", include((second.urls, "v2"), namespace="v2")),
    path("<slug:shop>/products/", include(second.urls)),
    path("", include("mcp_django.urls")),
]


@pytest.fixture
def own(settings: Any, db: None) -> None:
    settings.ROOT_URLCONF = __name__
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}


@pytest.mark.parametrize(
    ("target", "some", "none"),
    [
        ("api/orders/", "order.list", "product.list"),
        ("/api/orders/", "order.list", "product.list"),
        (project_urls.router, "product.list", "ticket.list"),
        (project_urls.lines, "order-line.list", "order.list"),
        (views_orders.OrderViewSet, "order.pay", "order-line.list"),
        (views_catalog.echo, "echo.get", "cash-registers.get"),
    ],
)
def test_a_target_is_a_path_a_router_a_class_or_a_function(
    target: Any, some: str, none: str, shop: SimpleNamespace
) -> None:
    site = MCPSite("one")
    expose(target, site=site)

    assert some in site.api.operations and none not in site.api.operations


def test_a_path_begins_with_whole_parts(shop: SimpleNamespace) -> None:
    names = {}
    for target in ("api/ord", "api/orders", "api", ""):
        site = MCPSite("parts")
        expose(target, site=site)
        names[target] = "order.list" in site.api.operations

    assert names == {"api/ord": False, "api/orders": True, "api": True, "": True}


@pytest.mark.parametrize(
    "options",
    [{"include": "order.*"}, {"authentication": "yes"}, {"credentials": "token"}, {"preview": {"a.b": "run"}},
     {"consent": {"a.b": "maybe"}}],
)  # fmt: skip
def test_an_option_that_cannot_be_meant_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured):
        expose("api/", site=MCPSite("wrong"), **options)


def test_a_target_that_is_nothing_of_the_kind_is_refused(shop: SimpleNamespace) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"expose\(\) takes a router, a path, a view or a NinjaAPI"):
        expose(42, site=MCPSite("wrong"))


def test_names_are_included_and_excluded_by_patterns(shop: SimpleNamespace) -> None:
    site = exposed(include=["order.*", "password.post"], exclude=["order.destroy", "*.bulk_note"])

    names = set(site.api.operations)
    assert {"order.list", "order.pay", "password.post"} <= names
    assert not {"order.destroy", "order.bulk_note", "product.list"} & names


def test_operations_of_one_name_are_told_apart_by_namespace_and_path(own: None) -> None:
    site = MCPSite("names")
    for prefix in ("v1/", "v2/", ""):
        expose(prefix, site=site)

    assert [one for one in site.api.operations if one.endswith(".list")] == [
        "v1-product.list", "v2-product.list", "product.list",
    ]  # fmt: skip


def test_names_in_the_source_of_a_view_are_parameters(own: None) -> None:
    site = exposed()
    with MCPClient(None, site=site) as client:
        told = client.call("describe_api", operation="reads.get").structured
        open_one = client.call("describe_api", operation="whole.get").structured

        assert told["params"].keys() == {"direct", "item", "several", "from_helper"}
        assert "params" not in open_one
        assert client.call("call_api", operation="whole.get", params={"any": "thing"}).structured == {
            "result": {"any": "thing"}
        }


def test_what_spectacular_declares_is_told(own: None) -> None:
    site = exposed(include=["*", "declared.post"])
    with MCPClient(None, site=site) as client:
        read = client.call("describe_api", operation="declared.get").structured
    changed = Agent(site, User.objects.create_user("anna")).client.call("describe_api", operation="declared.post")

    assert read == {
        "operation": "declared.get",
        "what": "Visits of a day",
        "call_with": "call_api",
        "params": {
            "declared": "date, required, A day.",
            "state": "open | done",
            "first": "date, required, The first day.",
        },
        "returns": {"place": "URL", "names": "list of uuid"},
    }
    assert changed.structured["what"] == "Plan a visit."
    assert changed.structured["body"] == {"place": "URL, required", "note": "any", "…": "any"}


def test_parameters_are_told_in_words_and_lookups_together(api: MCPSite, shop: SimpleNamespace) -> None:
    told = Agent(api, shop.anna).client.call("describe_api", operation="order.list").structured

    assert told["params"] == {
        "number": "string +: __in",
        "customer": "key of customer",
        "note__icontains": "string",
        "status": "list of open | paid | cancelled",
        "total_min": "decimal",
        "total_max": "decimal",
        "placed_after": "date, Placed on this day or later",
        "search": "string, in number, note, customer__name",
        "ordering": "number | total | placed_at; -name: descending, with commas between several",
    }
    assert told["returns"] == {
        "id": "integer", "number": "string", "status": "open | paid | cancelled", "total": "decimal",
        "placed_at": "date-time",
    }  # fmt: skip


def test_what_staff_alone_may_set_is_told_to_staff_alone(api: MCPSite, shop: SimpleNamespace) -> None:
    def body_of(user: Any) -> Any:
        return Agent(api, user).client.call("describe_api", operation="order.create").structured["body"]

    assert "internal_note" not in body_of(shop.anna) and "internal_note" in body_of(shop.stella)


def test_params_describes_a_parameter_and_lets_one_in(shop: SimpleNamespace) -> None:
    site = exposed(params={"order.summary": {"day": "A date.", "more": "Anything."}})
    agent = Agent(site, shop.anna)

    told = agent.client.call("describe_api", operation="order.summary").structured

    assert told["params"] == {"day": "A date.", "more": "Anything."}
    assert agent.get("order.summary", params={"more": "x"})["result"]["count"]


def test_an_operation_is_a_tool_of_its_own(shop: SimpleNamespace) -> None:
    site = exposed(tools=["order.list", "order.pay", "group.list"])
    with MCPClient(shop.anna, ["read", "write"], site=site, switched_on=["order_pay"]) as client:
        tools = {one["name"]: one for one in client.list_tools()}

        assert {"order_list", "order_pay"} <= tools.keys() and "group_list" not in tools
        properties = tools["order_list"]["inputSchema"]["properties"]
        assert properties["customer"] == {"type": ["string", "integer"], "description": "key of customer"}
        assert properties["status"]["type"] == "array" and {"limit", "fields", "cursor"} <= properties.keys()
        assert (
            tools["order_list"]["annotations"]["readOnlyHint"] and not tools["order_pay"]["annotations"]["readOnlyHint"]
        )
        assert tools["order_pay"]["inputSchema"]["required"] == ["pk"]

        listed = client.call("order_list", status=["open"], limit=1, fields=["number"]).structured
        assert listed["columns"] == ["number"] and len(listed["rows"]) == 1

        arguments = {"pk": shop.anna_order.pk, "body": {"amount": "10.50", "method": "card"}}
        plan = client.call("order_pay", **arguments).structured
        assert plan["status"] == "plan" and Order.objects.get(pk=shop.anna_order.pk).status == "open"
        assert client.call("order_pay", **arguments, confirm=plan["confirm"]).structured["status"] == "applied"
        assert Order.objects.get(pk=shop.anna_order.pk).status == "paid"


def test_a_tool_of_an_operation_is_reached_by_the_scope_of_its_resource(shop: SimpleNamespace) -> None:
    site = exposed(tools=["order.list", "ticket.list"])
    with MCPClient(shop.anna, ["api:order:read"], site=site) as client:
        assert [one["name"] for one in client.list_tools()] == ["call_api", "describe_api", "order_list"]


def test_the_three_tools_stay_small(api: MCPSite, shop: SimpleNamespace) -> None:
    from mcp_django.protocol.jsonrpc import encode

    with MCPClient(shop.anna, ["read", "write"], site=api, switched_on=["change_api"]) as client:
        listed = [one for one in client.list_tools() if one["name"].endswith("_api")]

    assert len(listed) == 3 and len(encode(listed)) <= 2_500
