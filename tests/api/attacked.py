"""Views that told or did more to an agent than over HTTP, beside those of the shop: see ``test_attacks``."""

from __future__ import annotations

from typing import Any

import django_filters
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.core import mail
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.generic import UpdateView
from django_filters.rest_framework import DjangoFilterBackend
from ninja import NinjaAPI, Schema
from ninja.security import django_auth
from ninja.throttling import AuthRateThrottle
from pydantic import field_validator
from rest_framework import serializers, throttling
from rest_framework.authtoken.views import obtain_auth_token
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ModelViewSet

from tests.api.project import middleware
from tests.api.project.models import Customer, Event, Order
from tests.api.project.urls import urlpatterns as urls_of_shop

BY_KEY = {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
#: Resources that HTTP refuses anna in a way of their own.
GUARDED = ["decorated", "by-dispatch", "by-initial", "by-handler", "by-middleware"]
staff_only = permission_required("api_project.change_order", raise_exception=True)


class OrderSerializer(serializers.ModelSerializer):
    class Meta:
        model = Order
        fields = ["id", "number", "note", "total"]


class OrderViewSet(ModelViewSet):
    """Orders of everybody."""

    queryset = Order.objects.order_by("pk")
    serializer_class = OrderSerializer
    permission_classes = [IsAuthenticated]


class ByDispatch(OrderViewSet):
    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not request.user.is_staff:
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)


class ByInitial(OrderViewSet):
    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not request.user.is_staff:
            raise PermissionDenied


class ByHandler(OrderViewSet):
    @method_decorator(staff_only)
    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().retrieve(request, *args, **kwargs)

    @method_decorator(staff_only)
    def partial_update(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().partial_update(request, *args, **kwargs)


class ByMiddleware(OrderViewSet):
    is_for_staff = True


class ViewGuardMiddleware:
    """Refuses by the class of the view."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = self.get_response(request)
        return response

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        is_for_staff = getattr(getattr(view, "cls", None), "is_for_staff", False)
        return HttpResponse(status=403) if is_for_staff and not request.user.is_staff else None


class IsSuperuser(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.user.is_superuser)


class ForSuperusers(OrderViewSet):
    permission_classes = [IsSuperuser]


class ValuesFilter(django_filters.FilterSet):
    note = django_filters.AllValuesFilter()
    code = django_filters.CharFilter(field_name="api_key", lookup_expr="startswith")
    sum = django_filters.RangeFilter(field_name="account_pin")
    owner__password__startswith = django_filters.CharFilter()
    api_key = django_filters.CharFilter(field_name="note")
    customer = django_filters.ModelChoiceFilter(
        queryset=lambda request: Customer.objects.none() if request is None else Customer.objects.all()
    )

    class Meta:
        model = Order
        fields: list[str] = []


class FilteredViewSet(OrderViewSet):
    filter_backends = [DjangoFilterBackend]
    filterset_class = ValuesFilter


class EventSerializer(serializers.ModelSerializer):
    class Meta:
        model = Event
        fields = ["id", "text"]

    def create(self, validated_data: Any) -> Event:
        mail.send_mail("Made", "", None, ["anna@example.com"])
        made: Event = super().create(validated_data)
        return made


class Mailing(ModelViewSet):
    queryset = Event.objects.all()
    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]

    def perform_create(self, serializer: Any) -> None:
        serializer.save(owner=self.request.user)


class NumberSerializer(serializers.Serializer):
    number = serializers.IntegerField()

    def validate_number(self, value: int) -> int:
        if value != 4711:
            raise serializers.ValidationError("Wrong number.")
        return value

    def create(self, validated_data: Any) -> Any:
        return validated_data


class Few(throttling.UserRateThrottle):
    rate = "3/min"


class Guessing(ModelViewSet):
    queryset = Event.objects.none()
    serializer_class = NumberSerializer
    permission_classes = [IsAuthenticated]
    throttle_classes = [Few]


class GuessingByMethod(Guessing):
    throttle_classes: list[Any] = []

    def get_throttles(self) -> list[Any]:
        return [Few()]


class Number(Schema):
    number: int

    @field_validator("number")
    @classmethod
    def is_right(cls, value: int) -> int:
        if value != 4711:
            raise ValueError("Wrong number.")
        return value


ninja = NinjaAPI(urls_namespace="guessing", auth=django_auth, throttle=[AuthRateThrottle("3/min")])


@ninja.post("/numbers")
def numbers(request: Any, given: Number) -> dict[str, int]:
    return {"number": given.number}


class SearchedViewSet(OrderViewSet):
    filter_backends = [SearchFilter, OrderingFilter]
    search_fields = ["number", "^api_key"]
    ordering_fields = ["number", "api_key"]


class UserSerializer(serializers.ModelSerializer):
    class Meta:
        model = User
        fields = ["id", "is_superuser"]


class People(ModelViewSet):
    """Has its model only where a request asks it."""

    permission_classes = [IsAuthenticated]

    def get_queryset(self) -> Any:
        return User.objects.all()


class Members(People):
    def get_queryset(self) -> Any:
        return self.request.user.__class__.objects.all()

    def get_serializer_class(self) -> Any:
        return UserSerializer


class ListedPeople(People):
    def get_queryset(self) -> Any:
        rows = User.objects.all()
        return rows.order_by("pk")


class OrdersOfUsers(People):
    """Names users, and has none."""

    def get_queryset(self) -> Any:
        user = User.objects.get(pk=self.request.user.pk)
        return Order.objects.filter(owner=user)


def _renderer(kind: str) -> type[BaseRenderer]:
    def render(self: Any, data: str, *args: Any, **kwargs: Any) -> bytes:
        return data.encode()

    return type("Renderer", (BaseRenderer,), {"media_type": kind, "format": "x", "charset": "utf-8", "render": render})


#: The name of a view of a text → its media type, and a text with a secret.
TEXTS = {
    "tsv": ("text/tab-separated-values", "id\tapi_key\n1\tkey-of-anna\n"),
    "csv": ("text/csv", "Orders of anna\nid,api_key\n1,key-of-anna\n"),
    "excel": ("text/csv", "sep=;\nid;api_key\n1;key-of-anna\n"),
    "xml": ("application/xml", "<r><api_key>key-of-anna</api_key></r>"),
    "yaml": ("text/yaml", "- id: 1\n  api_key: key-of-anna\n"),
    "json": ("text/json", '{"api_key": "key-of-anna"}'),
    "plain": ("text/plain", "Your API_KEY = key-of-anna"),
    "index": ("text/csv", ",name,api_key\n0,x,key-of-anna\n"),
    "trailing": ("text/csv", "name,api_key\nx,key-of-anna,\n"),
    "gap": ("text/csv", "name,,api_key\nx,,key-of-anna\n"),
    "pairs": ("text/csv", "field,value\napi_key,key-of-anna\n"),
    "commas": ("text/plain", "a,api_key\n1,key-of-anna\n"),
    "markdown": ("text/markdown", "| name | api_key |\n|---|---|\n| x | key-of-anna |\n"),
    "words": ("text/plain", "Yours:\n  api_key key-of-anna\n"),
}


#: The same without a secret.
HARMLESS = {
    "words": ("text/plain", "A boarding pass, please.\nSalt and pepper\nThe token count is 3"),
    "table": ("text/csv", "id,what\n1,a token of thanks\n"),
}


def _text_view(kind: str, text: str) -> Any:
    def get(self: Any, request: Any) -> Response:
        return Response(text)

    attributes = {"get": get, "renderer_classes": [_renderer(kind)], "permission_classes": [IsAuthenticated]}
    return type("TextView", (APIView,), attributes).as_view()  # type: ignore[attr-defined]


class Breaking(APIView):
    """Writes, and breaks off while it answers."""

    permission_classes = [IsAuthenticated]

    def post(self, request: Any) -> StreamingHttpResponse:
        Event.objects.create(owner=request.user, text="streamed")

        def answer() -> Any:
            yield b"{"
            raise RuntimeError

        return StreamingHttpResponse(answer(), content_type="application/json")


class OfTenant(APIView):
    permission_classes = [IsAuthenticated]

    def post(self, request: Any) -> Response:
        return Response({"tenant": request.headers.get("X-Tenant")})


class Linking(APIView):
    permission_classes = [IsAuthenticated]

    def get(self, request: Any) -> Response:
        following = "https://example.com/other?page=2&access_token=abc123"
        return Response({"count": 2, "next": following, "results": [{"id": 1}]})


class NoteEdit(UpdateView):
    model = Order
    fields = ["note", "placed_at"]
    success_url = "/"

    def render_to_response(self, context: Any, **more: Any) -> TemplateResponse:
        return TemplateResponse(self.request, engines["django"].from_string("{{ form }}"), context)  # type: ignore[arg-type]

    def get_form(self, form_class: Any = None) -> Any:
        form = super().get_form(form_class)
        form.fields["note"].prepare_value = lambda value: (tenants.append(middleware.tenant.get()), value)[1]
        return form


class BrokenEdit(NoteEdit):
    def get(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError


tenants: list[str] = []


class BerlinMiddleware:
    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override("Europe/Berlin"):
            response: HttpResponse = self.get_response(request)
        return response


ACCESS_WORDS = [
    "sign-up", "sign-in", "log-in", "log-out", "logon", "userlogin", "changepassword", "resetpassword",
    "passwordreset", "2fa", "two-factor", "impersonation", "switch-user", "sudo", "webauthn", "passkeys", "authtoken",
    # Of views without a model:
    "registration", "user-registration", "activate", "authenticate", "elevate", "magic-link", "forgot",
    "recovery-codes", "credentials", "api-keys", "refresh", "revoke",
]  # fmt: skip
OTHER_WORDS = ["cash-registers", "hotplates", "signals", "designs", "resets-of-meters", "blogs"]


class Doing(APIView):
    permission_classes = [IsAuthenticated]

    def post(self, request: Any) -> Response:
        return Response({})


class Versioned(APIView):
    permission_classes = [IsAuthenticated]

    def delete(self, request: Any) -> Response:
        Event.objects.all().delete()
        return Response(status=204)


urlpatterns = [
    path("api/decorated/<int:pk>/", staff_only(OrderViewSet.as_view(BY_KEY)), name="decorated"),
    path("api/decorated/", staff_only(OrderViewSet.as_view({"post": "create"})), name="decorated-list"),
    path("api/by-dispatch/<int:pk>/", ByDispatch.as_view(BY_KEY), name="by-dispatch"),
    path("api/by-initial/<int:pk>/", ByInitial.as_view(BY_KEY), name="by-initial"),
    path("api/by-handler/<int:pk>/", ByHandler.as_view(BY_KEY), name="by-handler"),
    path("api/by-middleware/<int:pk>/", ByMiddleware.as_view(BY_KEY), name="by-middleware"),
    path("api/everybodys/<int:pk>/", OrderViewSet.as_view(BY_KEY), name="everybodys"),
    path("api/for-superusers/<int:pk>/", ForSuperusers.as_view(BY_KEY), name="for-superusers"),
    path("api/filtered/", FilteredViewSet.as_view({"get": "list"}), name="filtered-list"),
    path("api/searched/", SearchedViewSet.as_view({"get": "list"}), name="searched-list"),
    path("api/people/<int:pk>/", People.as_view(BY_KEY), name="people-detail"),
    path("api/listed-people/<int:pk>/", ListedPeople.as_view(BY_KEY), name="listed-people-detail"),
    path("api/orders-of-users/<int:pk>/", OrdersOfUsers.as_view(BY_KEY), name="orders-of-users-detail"),
    path("api/members/<int:pk>/", Members.as_view(BY_KEY), name="members-detail"),
    path("api/in/", type("KnoxLoginView", (Doing,), {}).as_view(), name="in"),  # type: ignore[attr-defined]
    path("api/obtain/", obtain_auth_token, name="obtain"),
    path("api/inside/", type("LoginRequiredView", (Doing,), {}).as_view(), name="inside"),  # type: ignore[attr-defined]
    path("api/ninja/", ninja.urls),
    path("api/guessing-by-method/", GuessingByMethod.as_view({"post": "create"}), name="guessing-by-method-list"),
    path("api/mailing/", Mailing.as_view({"post": "create"}), name="mailing-list"),
    path("api/guessing/", Guessing.as_view({"post": "create"}), name="guessing-list"),
    *(path(f"api/text-{name}/", _text_view(*one), name=f"text-{name}") for name, one in TEXTS.items()),
    *(path(f"api/harmless-{one}/", _text_view(*of), name=f"harmless-{one}") for one, of in HARMLESS.items()),
    path("api/breaking/", Breaking.as_view(), name="breaking"),
    path("api/of-tenant/", OfTenant.as_view(), name="of-tenant"),
    path("api/linking/", Linking.as_view(), name="linking"),
    path("broken-edit/<int:pk>/", BrokenEdit.as_view(), name="broken-edit"),
    path("note-edit/<int:pk>/", NoteEdit.as_view(), name="note-edit"),
    *(path(f"api/{word}/", Doing.as_view(), name=f"x{n}") for n, word in enumerate([*ACCESS_WORDS, *OTHER_WORDS])),
    path("api/v1/versioned/", Versioned.as_view(), name="versioned"),
    path("api/v2/versioned/", Versioned.as_view(), name="versioned"),
    *urls_of_shop,
]
