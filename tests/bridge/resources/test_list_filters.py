"""Filters of the admin's list that a project has written, in the filters of agents."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Flight
from tests.support.asking import DirectPeer, described, errors_of
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

Admin: Any = admin.ModelAdmin
HIDDEN = "flight 3 is not to be seen"


class Length(admin.SimpleListFilter):
    title = "length"
    parameter_name = "length"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        found = [("short", "Short ones"), (2, "Two"), ("all", "All of them"), ("bad", "Bad"), ("other", "Other")]
        return [*found, ("true", "Long ones")] if request.user.is_superuser else found

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        match self.value():
            case "short":
                return queryset.filter(distance__lt=1_402)
            case "2":
                return queryset.order_by("-id")[:2]
            case "true":
                return queryset.filter(distance__gte=1_402).distinct()
            case "bad":
                raise ZeroDivisionError(HIDDEN)
            case "other":
                return User.objects.all()
        return None


class Nothing(admin.SimpleListFilter):
    """Has no choices for anybody."""

    title = parameter_name = "nothing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return []


class Own(Admin):
    list_display = ["number"]
    list_filter = ["status", ("carrier", admin.RelatedOnlyFieldListFilter), Length, Nothing]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).exclude(pk=1)


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    make_flights(5)
    declared.admin(Flight, Own)
    return DirectPeer(User.objects.create_superuser("root"))


def keys(peer: DirectPeer, conditions: Any) -> list[int]:
    found = peer.call("find_records", model="flights.flight", filter=conditions, fields=["number"], order_by=["id"])
    assert not found["isError"], found
    return [row[0] for row in found["structuredContent"]["rows"]]


def test_a_choice_of_a_filter_of_the_list_is_a_condition(root: DirectPeer) -> None:
    choose = "list_filter:length"

    assert keys(root, {choose: "short"}) == [2]
    assert keys(root, {choose: True}) == [3, 4, 5]
    assert keys(root, {choose: 2}) == [4, 5]
    assert keys(root, {choose: "all"}) == [2, 3, 4, 5]
    assert keys(root, {"not": {choose: "short"}, "id__lt": 5}) == [3, 4]
    assert keys(root, {"any": [{choose: "short"}, {"id": 5}]}) == [2, 5]
    counted = root.call("aggregate_records", model="flights.flight", filter={choose: "short"})
    assert counted["structuredContent"]["rows"] == [[1]]


def test_the_filters_are_described_with_their_choices(root: DirectPeer) -> None:
    assert described(root)["list_filters"] == {
        "list_filter:length": {
            "title": "length",
            "choices": {
                "short": "Short ones", "2": "Two", "all": "All of them", "bad": "Bad", "other": "Other",
                "true": "Long ones",
            },
        }
    }  # fmt: skip


# Attacks.


def refused(peer: DirectPeer, conditions: Any) -> str:
    answer = peer.call("find_records", model="flights.flight", filter=conditions)
    [error] = errors_of(answer)
    return f"{error['field']}: {error['message']}"


def test_choosing_what_the_admin_does_not_offer(root: DirectPeer, declared: Declared) -> None:
    clerk = DirectPeer(make_staff("clerk", "flights.view_flight", "flights.view_airline"))
    wrong = [
        (root, {"list_filter:length": "1_402); --"}), (clerk, {"list_filter:length": "true"}),
        (root, {"list_filter:length": None}), (root, {"list_filter:nothing": "x"}), (root, {"list_filter:status": "x"}),
        (root, {"list_filter:": "x"}), (root, {"list_filter:length__in": ["short"]}),
        (root, {"list_filter:length": ["short"]}), (root, {"list_filter:length": {"short": 1}}),
    ]  # fmt: skip

    told = [refused(peer, conditions) for peer, conditions in wrong]

    assert all("no choice" in one or "no list filter" in one for one in told), told
    assert "Allowed: short, 2, all, bad, other." in told[1]


def test_a_filter_that_fails_or_gives_something_else_tells_nothing(root: DirectPeer) -> None:
    told = [refused(root, {"list_filter:length": value}) for value in ("bad", "other")]

    assert told == ["filter.list_filter:length: failed."] * 2 and HIDDEN not in str(told)


def test_a_filter_of_another_model_is_not_reached(root: DirectPeer) -> None:
    answers = [
        root.call("find_records", model="flights.airline", filter=conditions)
        for conditions in ({"list_filter:length": "short"}, {"flights": {"list_filter:length": "short"}})
    ]

    assert all("no list filter" in str(errors_of(answer)) for answer in answers)


def test_a_registration_that_names_its_fields_offers_only_the_filters_that_it_names(
    root: DirectPeer, declared: Declared
) -> None:
    offered = {}
    for name, options in {
        "fields": {"fields": ["number"]}, "filters": {"filter_fields": ["number"]},
        "both": {"fields": ["number"], "filter_fields": ["number", "list_filter:length"]},
    }.items():  # fmt: skip
        declared.close()
        declared.admin(Flight, Own)
        declared.model(Flight, **options)
        offered[name] = list(described(root).get("list_filters", ()))

    assert offered == {"fields": [], "filters": [], "both": ["list_filter:length"]}
