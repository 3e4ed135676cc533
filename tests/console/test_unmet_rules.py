"""Approvals that too few people may give are named, on the first page of the console and by mcp_inventory."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from demo_project.flights.models import Airline, Flight
from mcp_django import Approval, site
from mcp_django.console.review.unmet_rules import unmet
from tests.console.test_overview import shown
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db

MAY = "mcp_django.approve_change"


def found() -> list[tuple[str, int]]:
    """What is unmet, and how many people there are."""
    return [(one.where, one.found) for one in unmet(site)]


@pytest.fixture
def rules(users: Users, declared: Declared) -> None:
    """One for a group, one for a permission, and a plain one."""
    User.objects.filter(is_superuser=True).update(is_superuser=False)
    declared.model(Flight, consent={"update": Approval(by="group:captains", count=2), "create": "ask"})
    declared.model(Airline, consent={"delete": Approval(by="flights.delete_airline"), "create": "preview"})

    def refund(request: Any) -> None:
        """Refund."""

    declared.tool(refund, consent=Approval(by=lambda *_: True))


@pytest.mark.every_database
def test_a_rule_is_met_by_active_staff_who_may_approve_and_are_named(rules: None) -> None:
    assert found() == [("flights.airline delete", 0), ("flights.flight update", 0), ("refund", 0)]
    captains = Group.objects.create(name="captains")
    ann, bob, eve = make_staff("ann", MAY), make_staff("bob", MAY), make_staff("eve", MAY, "flights.delete_airline")
    captains.user_set.add(ann, bob, make_staff("clerk"))
    assert found() == []

    for taken in ("is_active", "is_staff"):
        User.objects.filter(pk=bob.pk).update(**{taken: False})
        User.objects.filter(pk=eve.pk).update(**{taken: False})
        assert found() == [("flights.airline delete", 0), ("flights.flight update", 1)]
        User.objects.filter(pk__in=[bob.pk, eve.pk]).update(**{taken: True})

    User.objects.filter(pk=eve.pk).update(is_superuser=True)
    eve.user_permissions.clear()
    assert found() == [], "a superuser has each permission"
    captains.delete()
    assert found() == [("flights.flight update", 0)]


def test_where_another_backend_decides_people_are_asked_one_by_one(rules: None, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = ["tests.console.test_unmet_rules.Allowing"]
    make_staff("ann")

    assert found() == [("flights.flight update", 0)]


class Allowing:
    """A backend with rules of its own."""

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None

    def get_user(self, key: Any) -> Any:
        return User.objects.get(pk=key)

    def has_perm(self, user: Any, permission: str, obj: Any = None) -> bool:
        return user.username == "ann"


def test_the_first_page_and_the_inventory_of_a_user_name_them(rules: None, users: Users) -> None:
    viewer, blind = make_staff("viewer2", "mcp_django.view_tool"), make_staff("blind", "mcp_django.view_change")
    who = "of active staff who may approve changes of the group captains"
    named = f"flights.flight update: takes 2 people {who}; 0 are there"
    printed = []
    for options in ({"user": "ops"}, {}):
        out = StringIO()
        call_command("mcp_inventory", stdout=out, **options)
        printed.append(" ".join(out.getvalue().split()))

    assert named in shown(viewer) and "Needs attention" in shown(viewer)
    assert "captains" not in shown(blind) and "Needs attention" not in shown(blind)
    assert [named in text for text in printed] == [True, False]
