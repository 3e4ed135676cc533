"""What a plan compares with the record by its confirmation: all that is shown, but what differs at each reading."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django import forms
from django.http import HttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.urls import path
from django.views.generic import CreateView, FormView
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.viewsets import ModelViewSet

from mcp_django import expose_form
from mcp_django.bridge.api import forms as forms_of_api
from mcp_django.bridge.api import readings
from mcp_django.bridge.sites import MCPSite
from tests.api.agents import Agent, exposed
from tests.api.project.models import Customer, Order
from tests.api.project.urls import urlpatterns as urls_of_shop

_signatures = count()


def _signed(path: str) -> str:
    """A URL that is valid for a while, as storages make them."""
    return f"https://files.example/{path}?signature={next(_signatures)}"


class LetterSerializer(serializers.ModelSerializer):
    picture = serializers.SerializerMethodField()
    pages = serializers.SerializerMethodField()

    class Meta:
        model = Order
        fields = ["id", "note", "picture", "pages"]

    def get_picture(self, row: Order) -> str:
        return _signed(f"{row.pk}.png")

    def get_pages(self, row: Order) -> list[dict[str, str]]:
        return [{"name": row.number, "file": _signed(row.number)}]


class LetterViewSet(ModelViewSet):
    serializer_class = LetterSerializer
    permission_classes = [IsAuthenticated]

    def get_queryset(self) -> Any:
        return Order.objects.filter(owner=self.request.user)

    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        Customer.objects.update(email=f"{next(_signatures)}@read.example")
        return super().retrieve(request, *args, **kwargs)

    @action(detail=True, methods=["post"])
    def seal(self, request: Any, pk: str) -> Response:
        Order.objects.filter(pk=self.get_object().pk).update(status="paid")
        return Response({"sealed": True})


class PlaceView(CreateView):
    model = Order
    fields = ["note"]

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "instance": Order(note=f"Note {next(_signatures)}")}

    def form_valid(self, form: Any) -> HttpResponse:
        return HttpResponse(status=302, headers={"Location": "/done/"})

    def render_to_response(self, context: Any, **more: Any) -> TemplateResponse:
        return TemplateResponse(self.request, engines["django"].from_string("{{ form }}"), context)  # type: ignore[arg-type]


class Enveloped(JSONRenderer):
    """Calls fields otherwise than a body does."""

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        rendered: bytes = super().render({f"The {name}": one for name, one in data.items()}, *args, **kwargs)
        return rendered


class EnvelopedViewSet(LetterViewSet):
    renderer_classes = [Enveloped]


class TurnForm(forms.Form):
    number = forms.IntegerField(initial=lambda: next(_signatures))
    name = forms.CharField(initial="Nobody")


class TurnView(FormView):
    form_class = TurnForm
    names = ["Nobody"]

    def get_initial(self) -> dict[str, Any]:
        return {"name": self.names[-1]}

    form_valid = PlaceView.form_valid
    render_to_response = PlaceView.render_to_response


_BY_KEY = {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
urlpatterns = [
    path("api/letters/<int:pk>/", LetterViewSet.as_view(_BY_KEY), name="letter-detail"),
    path("api/letters/<int:pk>/seal/", LetterViewSet.as_view({"post": "seal", "get": "retrieve"}), name="letter-seal"),
    path("api/enveloped/<int:pk>/", EnvelopedViewSet.as_view(_BY_KEY), name="enveloped-detail"),
    path("place/", PlaceView.as_view(), name="place"),
    path("turn/", TurnView.as_view(), name="turn"),
    *urls_of_shop,
]


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of this module beside its own."""
    settings.ROOT_URLCONF = __name__
    return shop


@pytest.mark.parametrize("operation", ["letter.destroy", "letter-seal.seal"])
def test_what_differs_at_each_reading_is_not_compared_and_all_else_is(
    operation: str, own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(exposed(), own.anna, elicit=lambda question: {})
    call: dict[str, Any] = {"params": {"pk": own.anna_order.pk}}

    plan, moved = agent.plan(operation, **call), agent.plan(operation, **call)

    assert "Not compared, since it differs at each reading: picture, pages.file." in plan["notes"]
    Order.objects.filter(pk=own.anna_order.pk).update(number="A-MOVED")  # Beside a page's signed URL.
    assert "has changed since" in agent.told(operation, tool="change_api", **call, confirm=moved["confirm"])
    Order.objects.filter(pk=own.anna_order.pk).update(number=own.anna_order.number)
    assert agent.confirm(plan, **call).structured["status"] == "applied"

    # Control.
    monkeypatch.setattr(readings, "_steady", lambda first, *others: first)
    call = {"params": {"pk": own.anna_orders[1].pk}}
    plan = agent.plan(operation, **call)
    assert "has changed since" in agent.told(operation, tool="change_api", **call, confirm=plan["confirm"])


def test_what_was_read_may_be_sent_back_also_where_it_differs_at_each_reading(own: SimpleNamespace) -> None:
    agent, key = Agent(exposed(), own.anna), {"pk": own.anna_order.pk}
    body = {**agent.get("letter.retrieve", params=key)["result"], "note": "new"}

    agent.change("letter.partial_update", params=key, body=body)

    assert Order.objects.get(**key).note == "new"
    told = agent.told("letter.partial_update", tool="change_api", params=key, body={"note": "x", "id": 9})
    assert "body.id: cannot be changed." in told


def test_a_record_is_compared_also_where_its_fields_are_called_otherwise(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    call: dict[str, Any] = {"params": {"pk": own.anna_order.pk}, "body": {"note": "new"}}

    plan = agent.plan("enveloped.partial_update", **call)
    Order.objects.filter(pk=own.anna_order.pk).update(note="moved")

    assert plan["diff"] == [{"field": "note", "after": "new"}]
    assert "has changed since" in agent.told(
        "enveloped.partial_update", tool="change_api", **call, confirm=plan["confirm"]
    )


def test_a_plan_leaves_nothing_of_what_a_view_writes_as_it_is_read(own: SimpleNamespace) -> None:
    agent, key = Agent(exposed(), own.anna), {"pk": own.anna_order.pk}
    before = list(Customer.objects.values_list("email"))

    agent.plan("letter.partial_update", params=key, body={"note": "new"})

    assert list(Customer.objects.values_list("email")) == before
    # Control.
    agent.get("letter.retrieve", params=key)
    assert list(Customer.objects.values_list("email")) != before


@pytest.mark.parametrize(
    ("name", "body"), [("place", {"note": "Mine"}), ("turn", {"number": 7, "name": "Anna"})], ids=["place", "turn"]
)
def test_what_a_page_makes_up_is_not_compared(
    name: str, body: Any, own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = MCPSite("pages")
    expose_form("place", "turn", site=site)
    agent = Agent(site, own.anna)

    assert agent.change(f"{name}.submit", body=body)["status"] == "applied"

    # Control.
    monkeypatch.setattr(forms_of_api, "steady", lambda form, values: values)
    plan = agent.plan(f"{name}.submit", body=body)
    assert "has changed since" in agent.told(f"{name}.submit", tool="change_api", body=body, confirm=plan["confirm"])


def test_what_a_page_shows_of_a_person_is_compared(own: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    site, body = MCPSite("pages"), {"name": "Anna"}
    expose_form("turn", site=site)
    agent = Agent(site, own.anna)
    plan = agent.plan("turn.submit", body=body)

    monkeypatch.setattr(TurnView, "names", ["Somebody else"])

    assert "has changed since" in agent.told("turn.submit", tool="change_api", body=body, confirm=plan["confirm"])
