"""What Django REST framework, django-filter and drf-spectacular keep for themselves."""

from __future__ import annotations

import django_filters
from django.contrib.auth.models import User
from django.test import RequestFactory
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from mcp_django.core.compat.rest_views import declaring_alone, forced, label_of, without_force


def test_a_view_takes_a_request_for_that_of_a_user_until_it_is_told_otherwise() -> None:
    sent, anna = RequestFactory().get("/"), User(username="anna")

    def seen() -> Request:
        return APIView(authentication_classes=[]).initialize_request(sent)

    assert seen().user.is_anonymous
    vars(sent).update(forced(anna))
    assert seen().user is anna
    without_force(sent)
    assert seen().user.is_anonymous


def test_the_label_of_a_filter_is_the_one_of_the_project() -> None:
    class Users(django_filters.FilterSet):
        named = django_filters.CharFilter(field_name="username", label="The login")

        class Meta:
            model = User
            fields = ["email"]

    filters = Users().filters

    assert {name: label_of(one) for name, one in filters.items()} == {"named": "The login", "email": ""}
    # Control: the public way makes one up.
    assert filters["email"].label


def test_a_schema_has_the_serializers_that_are_named_and_guesses_none() -> None:
    class Guessed(Serializer):
        pass

    class Named(Serializer):
        pass

    class View(GenericAPIView):
        serializer_class = Guessed
        schema = AutoSchema()

    def serializers(schema: AutoSchema, view: type) -> list[str]:
        schema.view, schema.method = view(request=RequestFactory().get("/"), kwargs={}, format_kwarg=None), "GET"
        found = (schema.get_request_serializer(), schema.get_response_serializers())
        return [getattr(one, "__name__", type(one).__name__) for one in found]

    named = extend_schema(request=Named, responses=Named)(type("NamedView", (View,), {}))
    assert serializers(declaring_alone(View().schema), View) == ["NoneType", "NoneType"]
    assert serializers(declaring_alone(named().schema), named) == ["Named", "Named"]
    # Control: the public way guesses, and the schema of the class is as it was.
    assert serializers(View().schema, View) == ["Guessed", "Guessed"]
