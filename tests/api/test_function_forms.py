"""Functions that take a form or a serializer of the project, bound and valid."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.core.exceptions import ImproperlyConfigured
from rest_framework import serializers

from mcp_django import tool
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import CallRefused, MCPClient


class Parcel(forms.Form):
    """A form that wants to know who fills it in."""

    def __init__(self, *args: Any, user: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    to = forms.EmailField(help_text="Who gets it.")
    weight = forms.DecimalField(max_digits=5, decimal_places=2)
    way = forms.ChoiceField(choices=[("air", "By air"), ("sea", "By sea")], initial="sea")
    fragile = forms.BooleanField(required=False)
    photo = forms.FileField(required=False)

    def clean(self) -> Any:
        if self.cleaned_data.get("fragile") and self.cleaned_data.get("way") == "sea":
            raise forms.ValidationError("Nothing fragile goes by sea.")
        return self.cleaned_data


class Line(serializers.Serializer):
    product = serializers.SlugField()
    amount = serializers.DecimalField(max_digits=6, decimal_places=2)


class Basket(serializers.Serializer):
    note = serializers.CharField(required=False, max_length=5)
    lines = Line(many=True)
    total = serializers.CharField(read_only=True)


@pytest.fixture
def client(users: Any) -> MCPClient:
    site = MCPSite("functions")

    @tool(form=Parcel, site=site, read_only=True)
    def price(request: Any, form: Parcel) -> dict[str, Any]:
        """What a parcel costs."""
        photo = form.cleaned_data["photo"]
        return {
            "by": form.user.username,
            "way": form.cleaned_data["way"],
            "weight": str(form.cleaned_data["weight"]),
            "photo": photo.read().decode() if photo else "",
        }

    @tool(serializer=Basket, site=site, read_only=True)
    def weigh(request: Any, serializer: Basket) -> dict[str, Any]:
        """How many lines a basket has."""
        return {"lines": len(serializer.validated_data["lines"]), "user": serializer.context["request"].user.username}

    return MCPClient(users.ops, ["read"], site=site)


def test_the_fields_are_the_arguments(client: MCPClient) -> None:
    schemas = {one["name"]: one["inputSchema"] for one in client.list_tools()}
    price, weigh = schemas["price"], schemas["weigh"]

    assert price["properties"]["to"] == {"type": "string", "format": "email", "description": "Who gets it."}
    assert price["properties"]["way"] == {"type": "string", "enum": ["air", "sea"]}
    assert price["required"] == ["to", "weight"]
    assert weigh["properties"].keys() == {"note", "lines"}
    assert weigh["properties"]["lines"]["items"]["required"] == ["product", "amount"]


def test_the_function_gets_the_form_bound_and_valid(client: MCPClient) -> None:
    photo = client.upload(b"a box", "box.txt", "text/plain")

    found = client.call("price", to="ida@example.com", weight="1.50", photo=photo)

    assert found.structured == {"by": "ops", "way": "sea", "weight": "1.50", "photo": "a box"}


def test_the_function_gets_the_serializer_bound_and_valid(client: MCPClient) -> None:
    found = client.call("weigh", lines=[{"product": "mug", "amount": "1.20"}])

    assert found.structured == {"lines": 1, "user": "ops"}


@pytest.mark.parametrize(
    ("name", "arguments", "field", "says"),
    [
        ("price", {"to": "ida@example.com", "weight": "heavy"}, "weight", "Enter a number."),
        ("price", {"to": "ida@example.com"}, "weight", "This field is required."),
        ("price", {"to": "ida@example.com", "weight": None}, "weight", "This field is required."),
        ("weigh", {}, "lines", "This field is required."),
        ("weigh", {"lines": [{"product": "mug"}]}, "lines.0.amount", "This field is required."),
        ("price", {"to": "ida@example.com", "weight": "1", "fragile": True}, "", "Nothing fragile goes by sea."),
        ("price", {"to": "ida@example.com", "weight": "1", "color": "red"}, "color", "color"),
        ("weigh", {"lines": [{"product": "mug", "amount": "x"}]}, "lines.0.amount", "A valid number is required."),
        ("weigh", {"lines": [], "note": "too long"}, "note", "no more than 5 characters"),
        ("price", {"to": "ida@example.com", "weight": "1", "photo": "upload://other"}, "photo", "upload://"),
    ],
)
def test_errors_are_those_of_the_form_and_of_the_serializer(
    client: MCPClient, name: str, arguments: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(CallRefused) as refused:
        client.call(name, **arguments)

    assert [one["field"] for one in refused.value.errors if says in one["message"]] == [field]


def test_a_tool_has_one_source_of_arguments() -> None:
    with pytest.raises(ImproperlyConfigured, match="one of form=, serializer= and input_schema="):
        tool(form=Parcel, serializer=Basket, site=MCPSite("twice"))(lambda request, form: None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"form": Parcel()},
        {"form": forms.formset_factory(Parcel)},
        {"serializer": Basket()},
        {"serializer": serializers.ListSerializer},
    ],
)
def test_what_is_no_class_of_forms_or_serializers_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match="takes a subclass of"):
        tool(**wrong, site=MCPSite("wrong"))(lambda request, form: None)
