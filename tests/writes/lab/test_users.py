"""Users, by Django's own ModelAdmin, in a project that lets agents write some of their fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User

from tests.writes.lab.conftest import Lab
from tests.writes.lab.models import Topic

pytestmark = pytest.mark.every_database


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


def test_nobody_is_changed_unless_the_project_says_so(lab: Lab, ann: User) -> None:
    refused = lab.refused(User, ann, values={"first_name": "Anna"})

    assert "no model that you may write" in str(refused) or "of which you may update" in str(refused)


def test_the_name_of_a_user_is_changed_and_the_password_stays(lab: Lab, ann: User, writable: None) -> None:
    made = lab.same(User, ann, values={"first_name": "Anna"})

    assert (made.of(User)[1]["first_name"], made.of(User)[1]["password"]) == ("Anna", ann.password)


def test_groups_and_permissions_stay_when_the_name_is_changed(lab: Lab, ann: User, writable: None) -> None:
    ann.groups.add(Group.objects.create(name="editors"))

    made = lab.same(User, ann, values={"first_name": "Anna"})

    assert len(made.rows["auth.user_groups"]) == 1


RIGHTS: dict[str, Any] = {
    "password": "sesame",
    "is_superuser": True,
    "is_staff": True,
    "groups": [],
    "user_permissions": [],
}


@pytest.mark.parametrize(("name", "value"), RIGHTS.items())
def test_what_says_what_a_user_may_do_does_not_exist(
    lab: Lab, ann: User, writable: None, name: str, value: Any
) -> None:
    refused = lab.refused(User, ann, values={name: value})

    assert f"no field '{name}'" in str(refused)


def test_a_new_user_cannot_be_made_because_only_a_person_fills_in_the_password(
    lab: Lab, ann: User, writable: None
) -> None:
    refused = lab.refused(User, values={"username": "bob"})

    assert "only a person can fill in" in str(refused.errors)


@pytest.mark.parametrize("name", ["password1", "password2"])
def test_the_passwords_of_a_new_user_do_not_exist(lab: Lab, ann: User, writable: None, name: str) -> None:
    refused = lab.refused(User, values={"username": "bob", name: "a long sentence"})

    assert f"no field '{name}'" in str(refused)


def test_fields_that_the_project_names_are_changed(lab: Lab, ann: User) -> None:
    lab.site.register(User, writable=["update"], write_fields=["is_staff", "groups"])
    editors = Group.objects.create(name="editors")

    made = lab.same(User, ann, values={"is_staff": True, "groups": [editors.pk]})

    assert made.of(User)[1]["is_staff"] is True
    assert [link["group_id"] for link in made.rows["auth.user_groups"]] == [editors.pk]
