"""Users, by Django's own ModelAdmin, in a project that lets agents write some of their fields."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Topic


@pytest.fixture
def ann(lab: Lab) -> User:
    lab.app_labels = ("auth",)
    lab.admin(User, UserAdmin)
    lab.admin(Group, GroupAdmin)
    lab.admin(Topic)
    # A browser has no room for less than a second.
    joined = datetime(2024, 5, 1, tzinfo=UTC)
    return User.objects.create_user("ann", "ann@example.com", "a long sentence", first_name="Ann", date_joined=joined)


@pytest.fixture
def writable(lab: Lab, ann: User) -> None:
    lab.site.register(User, writable=["create", "update"])


def test_groups_and_the_password_stay_when_the_name_is_changed(lab: Lab, ann: User, writable: None) -> None:
    ann.groups.add(Group.objects.create(name="editors"))

    made = lab.same(User, ann, values={"first_name": "Anna"})

    assert (made.of(User)[1]["first_name"], made.of(User)[1]["password"]) == ("Anna", ann.password)
    assert len(made.rows["auth.user_groups"]) == 1


def test_a_new_user_cannot_be_made_because_only_a_person_fills_in_the_password(
    lab: Lab, ann: User, writable: None
) -> None:
    refused = lab.refused(User, values={"username": "bob"})
    given = lab.refused(
        User, values={"username": "bob", "password1": "a long sentence", "password2": "a long sentence"}
    )

    assert "only a person can fill in" in str(refused.errors)
    assert given.fields == ["values.password1", "values.password2"] and "no field 'password1'" in str(given)
