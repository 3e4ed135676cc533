"""Users, groups and permissions without a registration: nothing of them is seen but the keys that other rows hold."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.test.utils import isolate_apps

from demo_project.flights.models import Disruption
from mcp_django import site
from mcp_django.bridge.declared.secrets import is_about_rights
from mcp_django.console.review import inventory
from tests.shop.models import Product, Tag
from tests.support.asking import DirectPeer, described, keys
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.django_db

REPORTS = "flights.disruption"
#: Requests that would show something of a user: a row, a filter, a path, a group, a schema.
ATTACKS: list[tuple[str, dict[str, Any]]] = [
    ("describe_models", {"model": "auth.user"}),
    ("find_records", {"model": "auth.user"}),
    ("get_record", {"model": "auth.user", "id": "1"}),
    ("aggregate_records", {"model": "auth.user", "measures": ["count"]}),
    ("find_records", {"model": REPORTS, "fields": ["reported_by__username"]}),
    ("find_records", {"model": REPORTS, "filter": {"reported_by__username": "root"}}),
    ("find_records", {"model": REPORTS, "filter": {"reported_by__is_superuser": True}}),
    ("find_records", {"model": REPORTS, "filter": {"reported_by__groups": 1}}),
    ("find_records", {"model": REPORTS, "order_by": ["reported_by__username"]}),
    ("aggregate_records", {"model": REPORTS, "measures": ["count"], "group_by": ["reported_by__username"]}),
]


@pytest.fixture
def root(declared: Declared) -> DirectPeer:
    declared.unregister(User)
    declared.unregister(Group)
    user = User.objects.create_superuser("root", email="root@example.com")
    [flight] = make_flights(1)
    Disruption.objects.create(flight=flight, kind="crew", reported_by=user)
    Disruption.objects.create(flight=flight, kind="crew", reported_by=make_staff("ann"))
    return DirectPeer(user)


@pytest.mark.parametrize(("tool", "arguments"), ATTACKS)
def test_reading_a_user_whom_no_code_exposes(root: DirectPeer, tool: str, arguments: dict[str, Any]) -> None:
    answer = root.call(tool, **arguments)

    assert answer["isError"], answer
    assert "root@example.com" not in str(answer)


def test_no_list_names_the_models_of_users_and_rights(root: DirectPeer) -> None:
    listed = [root.result(MODERN, method) for method in ("tools/list", "resources/list", "resources/templates/list")]
    names = root.call("describe_models")["structuredContent"]

    assert "auth.user" not in str(names) and "auth.group" not in str(names)
    assert "auth/user" not in str(listed) and "auth.user" not in str(listed[0])
    assert "error" in root.request(MODERN, "resources/read", {"uri": f"db://auth/user/{root.user.pk}"})


def test_a_foreign_key_to_a_user_shows_its_key_and_is_compared_with_one(root: DirectPeer) -> None:
    mine = Disruption.objects.get(reported_by=root.user)

    record = root.call("get_record", model=REPORTS, id=str(mine.pk))["structuredContent"]
    grouped = root.call("aggregate_records", model=REPORTS, measures=["count"], group_by=["reported_by"])

    assert record["reported_by"] == root.user.pk
    assert keys(root, REPORTS, filter={"reported_by": root.user.pk}) == [mine.pk]
    assert keys(root, REPORTS, filter={"reported_by__in": [root.user.pk]}) == [mine.pk]
    assert sorted(row[1] for row in grouped["structuredContent"]["rows"]) == [1, 1]
    assert "relation" not in described(root, REPORTS)["fields"]["reported_by"]


def test_the_key_is_shown_to_no_one_who_may_not_view_users(root: DirectPeer) -> None:
    staff = DirectPeer(make_staff("bob", "flights.view_disruption"))

    assert "reported_by" not in described(staff, REPORTS)["fields"]


def test_a_key_of_a_user_whom_the_admin_hides_reads_as_null(root: DirectPeer, declared: Declared) -> None:
    class Hiding(UserAdmin):
        def get_queryset(self, request: Any) -> models.QuerySet[User]:
            return super().get_queryset(request).exclude(username="ann")

    declared.admin(User, Hiding)

    found = root.call("find_records", model=REPORTS, fields=["reported_by"], order_by=["id"])["structuredContent"]

    assert [row[1] for row in found["rows"]] == [root.user.pk, None]


def test_a_registration_exposes_users_as_their_admin_shows_them(root: DirectPeer, declared: Declared) -> None:
    declared.model(User)

    assert root.call("get_record", model="auth.user", id=str(root.user.pk))["structuredContent"]["username"] == "root"
    assert keys(root, REPORTS, filter={"reported_by__username": "root"}) != []


def test_the_inventory_says_which_line_exposes_them(root: DirectPeer) -> None:
    assert inventory.build(site)["left_out"]["auth.user"] == (
        "it holds users, or says what they may do; register a ModelMCP for it to show it"
    )


@isolate_apps("tests.shop")
def test_what_is_about_rights() -> None:
    class Person(User):
        class Meta:
            app_label, proxy = "shop", True

    class Employee(User):
        class Meta:
            app_label = "shop"

    class ObjectPermission(models.Model):  # noqa: DJ008
        permission = models.ForeignKey(Permission, models.CASCADE)
        user = models.ForeignKey(User, models.CASCADE, related_name="+")

        class Meta:
            app_label = "shop"

    class Role(models.Model):  # noqa: DJ008
        permissions = models.ManyToManyField(Permission)

        class Meta:
            app_label = "shop"

    class Membership(models.Model):  # noqa: DJ008
        user = models.ForeignKey(User, models.CASCADE, related_name="+")
        group = models.ForeignKey(Group, models.CASCADE, related_name="+")

        class Meta:
            app_label = "shop"

    class Profile(models.Model):  # noqa: DJ008
        user = models.OneToOneField(User, models.CASCADE, related_name="+")

        class Meta:
            app_label = "shop"

    class Notice(models.Model):  # noqa: DJ008
        groups = models.ManyToManyField(Group)

        class Meta:
            app_label = "shop"

    rights = [
        User, Group, Permission, User.groups.through, Group.permissions.through, Person, Employee, ObjectPermission,
        Role, Membership,
    ]  # fmt: skip
    others = [Profile, Notice, Disruption, Product, Tag, ContentType]

    assert [model for model in (*rights, *others) if is_about_rights(model)] == rights
    assert admin.site.is_registered(User)
