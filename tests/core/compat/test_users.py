"""The attributes that django.contrib.auth keeps on a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, User
from django.test import override_settings

from mcp_django.core.compat.users import finds_by_tables, has_new_password, has_permissions, keep_permissions


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
    return Permission.objects.filter(content_type__app_label="flights", codename="view_flight")


def test_finds_by_tables_where_nothing_of_it_is_overridden() -> None:
    for backend in (f"{__name__}._Derived", "django.contrib.auth.backends.ModelBackend"):
        with override_settings(AUTHENTICATION_BACKENDS=[backend]):
            assert finds_by_tables()


def test_finds_by_tables_not_where_a_method_that_django_asks_is_overridden(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks: dict[str, Callable[[User], set[str]]] = {
        "_get_permissions": User.get_user_permissions,
        "_get_user_permissions": User.get_user_permissions,
        "_get_group_permissions": User.get_group_permissions,
    }
    for name, ask in asks.items():
        monkeypatch.setitem(globals(), "_Other", _backend(name))
        with override_settings(AUTHENTICATION_BACKENDS=[f"{__name__}._Other"]):
            assert not finds_by_tables()
            assert ask(User.objects.create(username=name)) == {"flights.view_flight"}


def test_has_new_password_from_set_password_to_the_save(db: None) -> None:
    user = User.objects.create(username="ada")
    found = [has_new_password(user)]
    user.set_password("secret")
    found.append(has_new_password(user))
    user.save()

    assert [*found, has_new_password(user)] == [False, True, False]


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
