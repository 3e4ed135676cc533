"""Copies of users, and the attributes that django.contrib.auth keeps on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, User
from django.test import override_settings

from mcp_django.compat.users import (
    _is_copied_by_django,
    copy_of,
    finds_by_tables,
    has_new_password,
    has_permissions,
    keep_permissions,
)


def test_keep_permissions_sets_the_cache_of_model_backend(db: None, django_assert_num_queries: Any) -> None:
    user = User.objects.create(username="ada")

    assert not has_permissions(user)
    keep_permissions(user, {"flights.view_flight"}, {"flights.add_flight"})
    assert has_permissions(user)

    with django_assert_num_queries(0):
        assert user.get_user_permissions() == {"flights.view_flight"}
        assert user.get_group_permissions() == {"flights.add_flight"}
        assert user.get_all_permissions() == {"flights.view_flight", "flights.add_flight"}
        assert not user.has_perm("flights.delete_flight")


def test_copy_of_a_user_is_that_of_copy(db: None) -> None:
    user = User.objects.get(pk=User.objects.create(username="ada").pk)
    user._state.fields_cache["profile"] = "cached"
    made, expected = copy_of(user), copy.copy(user)
    for one in (made, expected):
        one.__dict__.pop("_django_version", None)

    made.username = "other"
    made._state.adding = True
    made._state.fields_cache["profile"] = "another"
    made._mark = 1

    assert type(made) is User
    assert (user.username, user._state.adding, user._state.fields_cache) == ("ada", False, {"profile": "cached"})
    assert not hasattr(user, "_mark")
    again = copy_of(user)
    assert {**vars(again), "_state": vars(again._state)} == {**vars(expected), "_state": vars(expected._state)}


@pytest.mark.parametrize("method", ["__copy__", "__reduce__", "__getstate__"])
def test_copy_of_a_user_that_has_its_own_way_to_be_copied(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {
        "__copy__": lambda user: user,
        "__reduce__": lambda user: (User, ()),
        "__getstate__": lambda user: dict(vars(user)),
    }
    asked: list[str] = []

    def own(user: User) -> Any:
        asked.append(method)
        return ways[method](user)

    monkeypatch.setattr(User, method, own, raising=False)
    _is_copied_by_django.cache_clear()
    try:
        copy_of(User(username="ada"))
    finally:
        _is_copied_by_django.cache_clear()

    assert asked == [method]


def test_copy_of_a_user_that_is_no_model() -> None:
    user = AnonymousUser()
    user.username = "x"  # type: ignore[assignment]

    made = copy_of(user)

    assert made is not user
    assert vars(made) == vars(user)


class _Derived(ModelBackend):
    """Django's own backend, with changes that do not concern permissions."""

    def user_can_authenticate(self, user: Any) -> bool:
        return True


def _backend(name: str) -> type[ModelBackend]:
    """A backend that overrides a private method of Django to find other permissions."""

    def found(self: Any, user: Any, *more: Any) -> Any:
        return {"flights.view_flight"} if name == "_get_permissions" else _permissions()

    return type("_Other", (ModelBackend,), {name: found})


def _permissions() -> Any:
    from django.contrib.auth.models import Permission

    return Permission.objects.filter(content_type__app_label="flights", codename="view_flight")


@pytest.mark.parametrize("name", ["", "_Derived"])
def test_finds_by_tables_where_nothing_of_it_is_overridden(name: str) -> None:
    backend = f"{__name__}.{name}" if name else "django.contrib.auth.backends.ModelBackend"

    with override_settings(AUTHENTICATION_BACKENDS=[backend]):
        assert finds_by_tables()


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("_get_permissions", User.get_user_permissions),
        ("_get_user_permissions", User.get_user_permissions),
        ("_get_group_permissions", User.get_group_permissions),
    ],
)
def test_finds_by_tables_not_where_a_method_that_django_asks_is_overridden(
    db: None, monkeypatch: pytest.MonkeyPatch, name: str, ask: Callable[[User], set[str]]
) -> None:
    user = User.objects.create(username="ada")
    monkeypatch.setitem(globals(), "_Other", _backend(name))

    with override_settings(AUTHENTICATION_BACKENDS=[f"{__name__}._Other"]):
        found = ask(user)

        assert not finds_by_tables()
    assert found == {"flights.view_flight"}


def test_has_new_password_from_set_password_to_the_save(db: None) -> None:
    user = User.objects.create(username="ada")
    before = has_new_password(user)

    user.set_password("secret")
    changed = has_new_password(user)
    user.save()

    assert (before, changed, has_new_password(user)) == (False, True, False)


def test_has_new_password_not_when_a_login_makes_the_hash_anew(db: None) -> None:
    seen: list[bool] = []

    class Watched(User):
        class Meta:
            proxy = True
            app_label = "auth"

        def save(self, *args: Any, **kwargs: Any) -> None:
            seen.append(has_new_password(self))
            super().save(*args, **kwargs)

    better, weak = (f"django.contrib.auth.hashers.{name}PasswordHasher" for name in ("MD5", "PBKDF2"))
    user = Watched(username="ada")
    with override_settings(PASSWORD_HASHERS=[weak]):
        user.set_password("secret")
    user.save()

    with override_settings(PASSWORD_HASHERS=[better, weak]):
        assert user.check_password("secret")
    assert seen == [True, False]
