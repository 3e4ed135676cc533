"""What goes wrong or is too much: views that hang, answers without an end, secrets, and callers without measure."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Signal
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from rest_framework import serializers
from rest_framework.generics import CreateAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.routers import DefaultRouter
from rest_framework.serializers import ModelSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import ModelViewSet

from mcp_django.audit.recorder import recorder
from mcp_django.bridge.api import answers, calling
from mcp_django.models import AccessToken, Call
from mcp_django.test import CallRefused
from tests.access.throttling import limits
from tests.api.agents import Agent, exposed
from tests.api.project.models import Order, Product
from tests.api.project.urls import urlpatterns as urls_of_shop
from tests.console.test_tools import tried
from tests.support.data import token_of
from tests.support.peers import MODERN, Peers
from tests.test_telemetry import provided

_GIGABYTE = 1 << 30


class Endless(io.RawIOBase):
    """A file of a gigabyte of which it is known how much was read."""

    read_bytes: ClassVar[int] = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        left = _GIGABYTE - Endless.read_bytes
        found = min(size if size > 0 else left, left)
        Endless.read_bytes += found
        return b"x" * found


class FileView(APIView):
    permission_classes = [IsAuthenticated]
    kind = ""

    def get(self, request: Any) -> FileResponse:
        return FileResponse(Endless(), content_type=self.kind)


class HangingView(APIView):
    permission_classes = [IsAuthenticated]
    begun, may_end = Signal(), Signal()

    def get(self, request: Any) -> Response:
        self.begun.set()
        return Response({"ended": self.may_end.wait(60)})


class SlowStreamView(APIView):
    """Sends a piece now and then, for ever."""

    permission_classes = [IsAuthenticated]
    pieces: ClassVar[list[int]] = []

    def get(self, request: Any) -> StreamingHttpResponse:
        def pieces() -> Iterator[str]:
            while len(self.pieces) < 10_000:
                self.pieces.append(1)
                yield "x"

        return StreamingHttpResponse(pieces(), content_type="text/plain")


class ToldSerializer(serializers.Serializer[Any]):
    text = serializers.CharField()
    api_key = serializers.CharField(required=False)

    def validate(self, values: Any) -> Any:
        raise serializers.ValidationError({"text": ["Wrong."], "api_key": ["Not key-of-anna."]})


class ToldView(APIView):
    permission_classes = [IsAuthenticated]

    def post(self, request: Any) -> Response:
        ToldSerializer(data=request.data).is_valid(raise_exception=True)
        return Response()


class LinkingSerializer(serializers.Serializer[Any]):
    order = serializers.HyperlinkedRelatedField(queryset=Order.objects.all(), view_name="order-detail")

    def create(self, values: Any) -> Any:
        return values


class LinkingView(CreateAPIView[Any]):
    serializer_class = LinkingSerializer
    permission_classes = [IsAuthenticated]


class CountedSerializer(ModelSerializer[Order]):
    made: ClassVar[list[int]] = []

    class Meta:
        model = Order
        fields = ["id", "note"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.made.append(1)
        super().__init__(*args, **kwargs)


class CountedView(APIView):
    permission_classes = [IsAuthenticated]
    described: ClassVar[list[int]] = []

    def get_serializer(self) -> Any:
        self.described.append(1)
        return CountedSerializer()

    def get(self, request: Any) -> Response:
        return Response({})


class FewMiddleware:
    """Answers each address three times."""

    seen: ClassVar[dict[str, int]] = {}

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/health"):
            address = request.META["REMOTE_ADDR"]
            self.seen[address] = self.seen.get(address, 0) + 1
            if self.seen[address] > 3:
                return HttpResponse("Enough.", status=429, headers={"Retry-After": "60"})
        response: HttpResponse = self.get_response(request)
        return response


def _model_views(*models: Any) -> DefaultRouter:
    router = DefaultRouter()
    for model in models:
        serializer = type("S", (ModelSerializer,), {"Meta": type("Meta", (), {"model": model, "fields": ["pk"]})})
        cls = type(model.__name__, (ModelViewSet,), {"queryset": model.objects.all(), "serializer_class": serializer})
        router.register(model.__name__.lower(), cls, basename=f"every-{model.__name__.lower()}")
    return router


_KINDS = {
    "bytes": "application/octet-stream",
    "text": "text/plain",
    "json": "application/json",
    "zip": "application/zip",
}
urlpatterns = [
    *(path(f"api/file-{name}/", FileView.as_view(kind=kind), name=f"file-{name}") for name, kind in _KINDS.items()),
    path("api/hanging/", HangingView.as_view(), name="hanging"),
    path("api/slow-stream/", SlowStreamView.as_view(), name="slow-stream"),
    path("api/linking/", LinkingView.as_view(), name="linking"),
    path("api/told/", ToldView.as_view(), name="told"),
    path("api/counted/", CountedView.as_view(), name="counted"),
    path("api/models/", include(_model_views(Session, LogEntry, AccessToken, Order).urls)),
    path("api/openapi/", SpectacularAPIView.as_view(), name="openapi"),
    *urls_of_shop,
]


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of this module beside its own."""
    settings.ROOT_URLCONF = __name__
    return shop


# Too much.


@pytest.mark.parametrize("kind", _KINDS)
def test_a_file_of_a_gigabyte_is_not_read(kind: str, own: SimpleNamespace) -> None:
    Endless.read_bytes = 0
    agent = Agent(exposed(), own.anna)

    try:
        told = agent.get(f"file-{kind}.get")["text"]
    except CallRefused as refused:
        told = str(refused)

    assert len(told) < 70_000
    most = {"bytes": 0, "zip": 0, "text": 200_000}.get(kind, 30_000_000)
    assert Endless.read_bytes <= most


def test_a_stream_is_left_after_a_while(own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    SlowStreamView.pieces.clear()
    monkeypatch.setattr(answers, "_STREAM_SECONDS", 0.0)

    text = Agent(exposed(), own.anna).get("slow-stream.get")["text"]

    assert text.endswith("… (cut)") and len(SlowStreamView.pieces) < 100


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi", "websocket"])
def test_others_are_answered_while_a_view_hangs(
    transport: str, own: SimpleNamespace, transactional_db: None, declared_api: None, peers: Peers
) -> None:
    HangingView.begun.clear()
    HangingView.may_end.clear()
    hanging, other = (peers(token_of(user, "read")) for user in (own.anna, own.otto))
    for peer in (hanging, other):
        peer.call("describe_api")  # Whoever was not seen lately shares few places with others of the address.

    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(hanging.call, "call_api", operation="hanging.get")
        try:
            assert HangingView.begun.wait(60)
            answered = other.call("call_api", operation="health.get")["isError"]
        finally:
            HangingView.may_end.set()
        ended = waits.result(60)["structuredContent"]["result"]

    assert (answered, ended) == (False, {"ended": True})


def test_middleware_that_counts_by_address_counts_the_client(own: SimpleNamespace, settings: Any) -> None:
    settings.MIDDLEWARE = [f"{__name__}.FewMiddleware", *settings.MIDDLEWARE]
    FewMiddleware.seen.clear()
    one, other = (Agent(exposed(), own.anna, headers={}) for _ in range(2))
    one.client._request.META["REMOTE_ADDR"] = "203.0.113.1"
    other.client._request.META["REMOTE_ADDR"] = "203.0.113.2"

    told = ""
    for _ in range(4):
        try:
            one.get("health.get")
        except CallRefused as refused:
            told = str(refused)
    answered = other.get("health.get")["result"]

    assert told == "health.get was called too often. Call it again in 60 s."
    assert answered and set(FewMiddleware.seen) == {"203.0.113.1", "203.0.113.2"}


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi", "websocket"])
def test_by_each_transport_middleware_counts_one_address_and_sees_no_authorization_of_ours(
    own: SimpleNamespace, transactional_db: None, declared_api: None, peers: Peers, settings: Any
) -> None:
    """One of the middleware of the project refuses an Authorization that it cannot read."""
    settings.MIDDLEWARE = [f"{__name__}.FewMiddleware", *settings.MIDDLEWARE]
    FewMiddleware.seen.clear()
    peer = peers(token_of(own.anna, "read"))

    told = [peer.call("call_api", operation="health.get") for _ in range(3)]

    # The first is described before.
    assert [one["isError"] for one in told] == [False, False, True]
    assert "was called too often" in told[2]["content"][0]["text"]
    [address] = FewMiddleware.seen
    assert address


def test_a_link_that_an_agent_sends_opens_no_connection(own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[Any] = []

    def look_up(host: Any, *more: Any, **options: Any) -> Any:
        looked_up.append(host)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    agent, key = Agent(exposed(), own.anna), own.anna_order.pk

    taken = agent.change("linking.create", body={"order": f"http://evil.example/api/orders/{key}/"})
    told = agent.told("linking.create", tool="change_api", body={"order": "http://evil.example/elsewhere/"})

    assert taken["answered"] == 201 and "order: " in told
    assert looked_up == []
    # Control.
    with pytest.raises(OSError):
        socket.create_connection(("evil.example", 80))
    assert looked_up == ["evil.example"]


def test_a_call_of_an_operation_is_a_span_that_tells_no_values(
    own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provided(ALWAYS_ON, monkeypatch) as seen:
        Agent(exposed(), own.anna).get("order.list", params={"search": "canary"})

    span = seen.spans[-1]
    assert span.name == "tools/call call_api"
    assert "canary" not in str(dict(span.attributes or {}))
    assert seen.points


# Secrets.

_PRIVATE = ("session", "logentry", "accesstoken")


def test_models_of_secrets_and_of_logs_are_left_out_and_roots_and_schemas_are_none(own: SimpleNamespace) -> None:
    api = exposed().api

    reasons = {name: str(api.left_out.get(f"every-{name}.retrieve", "")) for name in _PRIVATE}

    assert all(reasons.values()), reasons
    # Control.
    assert "every-order.retrieve" in api.operations
    assert [name for name in api.all if "openapi" in name.name or "root" in name.name] == []


def test_errors_tell_no_secret(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    plan = agent.plan("told.post", body={"text": "x"})

    told = agent.told("told.post", tool="change_api", body={"text": "x"}, confirm=plan["confirm"])

    assert "text: Wrong." in told and "key-of-anna" not in told


# What is remembered, and what is noted.


def test_a_description_is_remembered_for_its_user_alone(own: SimpleNamespace) -> None:
    calling.descriptions.clear()
    CountedView.described.clear()
    site = exposed()
    anna, otto = Agent(site, own.anna), Agent(site, own.otto)

    counts = []
    for agent in (anna, anna, otto):
        agent.get("counted.get")
        counts.append(len(CountedView.described))

    assert counts[0] == counts[1] < counts[2]


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_rows_of_the_api_count_for_the_budget_of_their_user_and_stand_in_the_trail(
    own: SimpleNamespace, trail: None, declared_api: None, peers: Peers
) -> None:
    peer = peers(token_of(own.anna, "read"))
    with limits(user={"rows": "4/day"}):
        first = peer.call("call_api", operation="order.list")
        told = peer.error(MODERN, "tools/call", {"name": "call_api", "arguments": {"operation": "order.list"}})
    recorder.flush()

    assert not first["isError"] and told["data"]["reason"] == "THROTTLED"
    call = Call.objects.filter(method="tools/call").earliest("pk")
    assert (call.name, call.rows) == ("call_api", 5)


def test_an_administrator_tries_an_operation_on_the_page_of_its_tool(
    own: SimpleNamespace, declared_api: None, transactional_db: None, trail: None
) -> None:
    browser = Client()
    browser.force_login(own.stella)

    page = tried(browser, "call_api", operation="product.list", params="{}").content.decode()

    assert Product.objects.earliest("name").name in page
