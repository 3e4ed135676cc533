"""Views that read a call in their own way, as projects write them: see ``test_own_code``."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path, re_path
from rest_framework import serializers
from rest_framework.decorators import action, api_view, permission_classes
from rest_framework.generics import CreateAPIView, ListAPIView
from rest_framework.pagination import PageNumberPagination
from rest_framework.parsers import BaseParser, FileUploadParser, FormParser, JSONParser, MultiPartParser
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.versioning import QueryParameterVersioning
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet, ModelViewSet

from tests.api.project.models import Customer, Event
from tests.api.project.urls import urlpatterns as urls_of_shop


class EventSerializer(serializers.ModelSerializer):
    class Meta:
        model = Event
        fields = ["id", "text", "owner"]


class MoveSerializer(serializers.Serializer):
    to = serializers.CharField()
    when = serializers.DateField(required=False)


class MoveForm(forms.Form):
    to = forms.CharField()


class Own(ModelViewSet):
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]

    def get_queryset(self) -> Any:
        return Event.objects.filter(owner=self.request.user)


class Copying(Own):
    def create(self, request: Any) -> Response:
        data = request.data.copy()
        data["owner"] = request.user.pk
        serializer = self.get_serializer(data=data)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data, status=201)


class Setting(Own):
    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        request.data["owner"] = request.user.pk
        return super().create(request, *args, **kwargs)


class Merging(Own):
    def create(self, request: Any) -> Response:
        serializer = EventSerializer(data={**request.data, "owner": request.user.pk})
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data, status=201)


class Several(Own):
    def create(self, request: Any) -> Response:
        many = isinstance(request.data, list)
        serializer = self.get_serializer(data=request.data, many=many)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data, status=201)


class Partly(Own):
    def update(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        kwargs["partial"] = True
        return super().update(request, *args, **kwargs)


class Otherwise(Own):
    def create(self, request: Any) -> Response:
        given = MoveSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        Event.objects.create(owner=request.user, text=given.validated_data["to"])
        return Response({"moved": True}, status=201)


class ByPost(CreateAPIView):
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]

    def post(self, request: Any) -> Response:
        return Response({"text": request.data.get("text")})


class Handing(Own):
    """Hands on, and so is checked as the standard one."""

    def partial_update(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().partial_update(request, *args, **kwargs)
        return response


class Making(Own):
    """PUT makes what is not there."""

    def update(self, request: Any, pk: str) -> Response:
        _, made = Event.objects.get_or_create(owner=request.user, text=f"made-{pk}")
        return Response({"made": made})


class Acting(GenericViewSet):
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]
    moves = MoveSerializer

    @action(detail=False, methods=["post"])
    def move(self, request: Any) -> Response:
        given = MoveSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(given.data)

    @action(detail=False, methods=["post"])
    def module(self, request: Any) -> Response:
        given = forms_of_others.MoveForm(data=request.data)
        return Response({"valid": given.is_valid()})

    @action(detail=False, methods=["post"])
    def attribute(self, request: Any) -> Response:
        given = self.moves(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(given.data)

    @action(detail=False)
    def find(self, request: Any) -> Response:
        given = MoveSerializer(data=request.query_params)
        given.is_valid(raise_exception=True)
        return Response(given.data)

    @action(detail=False)
    def alias(self, request: Any) -> Response:
        req = self.request
        named = request.query_params.get("request")
        return Response({"mine": req.query_params.get("mine"), "named": named})

    @action(detail=False, methods=["delete"])
    def several(self, request: Any) -> Response:
        return Response({"deleted": Event.objects.filter(owner=request.user, pk__in=request.data).count()})

    @action(detail=False, methods=["delete"])
    def listed(self, request: Any) -> Response:
        given = MoveSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(given.data)


#: Stands for a module of which a view takes a class.
forms_of_others = SimpleNamespace(MoveForm=MoveForm)


class ContextSerializer(EventSerializer):
    def to_representation(self, row: Event) -> Any:
        shown = super().to_representation(row)
        if self.context["request"].query_params.get("loud"):
            shown["text"] = shown["text"].upper()
        request = self.context.get("request")
        if (named := request.GET.get("only")) is not None:
            shown = {named: shown[named]}
        return shown


class ByContext(Own):
    serializer_class = ContextSerializer


class TakingSerializer(EventSerializer):
    """Calls a field otherwise as it reads."""

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value({"text": data["name"], "owner": data["owner"]})


class Taking(Own):
    serializer_class = TakingSerializer


class Polymorphic(serializers.Serializer):
    """Leaves all of it to other serializers, as drf-polymorphic does."""

    def to_internal_value(self, data: Any) -> Any:
        return {"text": data[data["type"]], "owner_id": data["owner"]}

    def create(self, values: Any) -> Event:
        return Event.objects.create(**values)

    def to_representation(self, row: Event) -> Any:
        return {"type": "text", "text": row.text}


class ByType(Own):
    serializer_class = Polymorphic


def _snake(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name)


class CamelParser(JSONParser):
    def parse(self, *args: Any, **kwargs: Any) -> Any:
        return {_snake(name): value for name, value in super().parse(*args, **kwargs).items()}


class CamelRenderer(JSONRenderer):
    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        renamed = {re.sub("_(.)", lambda found: found[1].upper(), name): value for name, value in data.items()}
        rendered: bytes = super().render(renamed, *args, **kwargs)
        return rendered


class CamelSerializer(serializers.Serializer):
    the_text = serializers.CharField(source="text")

    def create(self, values: Any) -> Event:
        return Event.objects.create(owner=self.context["request"].user, **values)


class Camel(Own):
    serializer_class = CamelSerializer
    parser_classes = [CamelParser]
    renderer_classes = [CamelRenderer]


class ApiParser(BaseParser):
    media_type = "application/vnd.api+json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return json.load(stream)["data"]["attributes"]


class JsonApi(Own):
    parser_classes = [ApiParser]


class Filed(APIView):
    permission_classes = [IsAuthenticated]
    parser_classes = [FileUploadParser]

    def put(self, request: Any, filename: str) -> Response:
        return Response({"name": request.data["file"].name, "size": request.data["file"].size})


@api_view(["POST"])
@permission_classes([IsAuthenticated])
def posted(request: Any) -> Response:
    return Response({"text": request.POST.get("text", "nothing")})


class FormsAlone(Own):
    """Reads no JSON."""

    parser_classes: ClassVar[list[Any]] = [MultiPartParser]


class FieldsAlone(Own):
    parser_classes: ClassVar[list[Any]] = [FormParser]


class ByTwo(PageNumberPagination):
    page_size = 2


class Faceted(ByTwo):
    """Two lists stand in a page."""

    def get_paginated_response(self, data: Any) -> Response:
        response = super().get_paginated_response(data)
        response.data["facets"] = [{"owner": 1}]
        return response


class Linked(ByTwo):
    """The link to the next page stands beside the rows, in an object."""

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"links": {"next": self.get_next_link()}, "data": data})


class Facets(Own):
    queryset = Event.objects.order_by("pk")
    pagination_class = Faceted

    def get_queryset(self) -> Any:
        return super().get_queryset().order_by("pk")


class Links(Facets):
    pagination_class = Linked

    @action(detail=False)
    def mine(self, request: Any) -> Response:
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class Below(Facets):
    """Events below a customer: POST adds to what GET of the same URL lists."""

    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        kwargs.pop("customer")
        return super().create(request, *args, **kwargs)


class Uploading(APIView):
    permission_classes: ClassVar[list[Any]] = [IsAuthenticated]

    def post(self, request: Any) -> Response:
        return Response({"size": request.FILES["doc"].size, "note": request.data.get("note")})


@api_view(["GET"])
@permission_classes([IsAuthenticated])
def greeting(request: Any, name: str = "you") -> Response:
    return Response({"hello": name})


class PageSerializer(serializers.HyperlinkedModelSerializer):
    class Meta:
        model = Event
        fields = ["url", "text"]
        extra_kwargs: ClassVar[Any] = {"url": {"view_name": "handing-detail"}}


class Paged(Own):
    serializer_class = PageSerializer


class Versions(QueryParameterVersioning):
    allowed_versions = ["v1", "v2"]


class Versioned(ListAPIView):
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]
    versioning_class = Versions

    def get_queryset(self) -> Any:
        return Event.objects.filter(owner=self.request.user)[: 1 if self.request.version == "v1" else 2]


class OfCustomer(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return get_object_or_404(Customer, pk=view.kwargs["customer"]).owner_id == request.user.pk


class ByParent(ListAPIView):
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated, OfCustomer]

    def get_queryset(self) -> Any:
        return Event.objects.filter(owner=self.request.user)


class Awaiting(APIView):
    """Dispatches asynchronously, as views of adrf do."""

    permission_classes = [IsAuthenticated]
    made: ClassVar[list[str]] = []

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]
        answer = super().dispatch
        return await sync_to_async(lambda: answer(request, *args, **kwargs))()  # type: ignore[return-value]

    view_is_async = True

    def post(self, request: Any) -> Response:
        self.made.append(request.data["text"])
        return Response({"made": len(self.made)})


class Ambiguous(APIView):
    permission_classes = [IsAuthenticated]

    def get(self, request: Any) -> Response:
        return Response({"id": 1, "results": [1, 2, 3], "count": 7, "next": "monday"})


class Parcel(Own):
    """One record that looks like a page."""

    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return Response({"id": 1, "results": [1, 2, 3], "count": 7, "next": "monday"})

    def list(self, request: Any) -> Response:
        return Response({"status": "ok", "data": {"count": 2, "results": [{"id": 1}, {"id": 2}]}})

    def create(self, request: Any) -> Response:
        return Response([{"id": number} for number in range(250)])


class LineSerializer(serializers.Serializer):
    id = serializers.IntegerField(read_only=True)
    text = serializers.CharField()
    words = serializers.SerializerMethodField()

    def get_words(self, row: Any) -> int:
        return len(row["text"].split())


class NestedSerializer(serializers.Serializer):
    note = serializers.CharField()
    lines = LineSerializer(many=True)


class Posting(Own):
    """Reads the form of another page beside, and nested JSON by its serializer."""

    serializer_class = NestedSerializer

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.was_form = bool(request.POST)

    def perform_create(self, serializer: Any) -> None:
        """Nothing is kept."""


class Nested(Own):
    serializer_class = NestedSerializer

    def get_object(self) -> Any:
        return {"note": "old", "lines": [{"id": 1, "text": "two words"}]}

    def perform_update(self, serializer: Any) -> None:
        """Nothing is kept."""


def _viewset(name: str, cls: Any) -> list[Any]:
    several = {"get": "list", "post": "create"}
    one = {"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}
    return [
        path(f"api/{name}/", cls.as_view(several), name=f"{name}-list"),
        path(f"api/{name}/<int:pk>/", cls.as_view(one), name=f"{name}-detail"),
    ]


_VIEWSETS = {
    "copying": Copying, "setting": Setting, "merging": Merging, "several": Several, "partly": Partly,
    "otherwise": Otherwise, "making": Making, "handing": Handing, "by-context": ByContext, "taking": Taking,
    "forms-alone": FormsAlone, "fields-alone": FieldsAlone, "facets": Facets, "links": Links, "paged": Paged,
    "by-type": ByType, "camel": Camel, "json-api": JsonApi, "parcel": Parcel, "nested": Nested, "posting": Posting,
}  # fmt: skip
_ACTIONS = {"move": "post", "module": "post", "attribute": "post", "find": "get", "alias": "get", "several": "delete"}
urlpatterns = [
    *(one for name, cls in _VIEWSETS.items() for one in _viewset(name, cls)),
    *(path(f"api/acting/{name}/", Acting.as_view({by: name}), name=f"acting-{name}") for name, by in _ACTIONS.items()),
    path("api/acting/listed/", Acting.as_view({"delete": "listed"}), name="acting-listed"),
    path("api/by-post/", ByPost.as_view(), name="by-post"),
    path("api/filed/<str:filename>/", Filed.as_view(), name="filed"),
    path("api/posted/", posted, name="posted"),
    path("api/versioned/", Versioned.as_view(), name="versioned"),
    path("api/customers-of/<int:customer>/", ByParent.as_view(), name="by-parent"),
    path("api/awaiting/", Awaiting.as_view(), name="awaiting"),
    path("api/links/mine/", Links.as_view({"get": "mine"}), name="links-mine"),
    path("api/below/<int:customer>/events/", Below.as_view({"get": "list", "post": "create"}), name="below-list"),
    path("api/uploading/", Uploading.as_view(), name="uploading"),
    re_path(r"^api/hello(?:/(?P<name>\w+))?/$", greeting, name="hello"),
    re_path(r"^api/unnamed/(\w+)/$", greeting, name="unnamed"),
    *urls_of_shop,
]
