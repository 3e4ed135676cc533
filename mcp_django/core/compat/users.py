"""The attributes that django.contrib.auth keeps on a user, and the methods that find permissions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.auth import get_backends
from django.contrib.auth.backends import ModelBackend

#: ModelBackend finds permissions by these methods. If none is overridden, we may read those of many users at once.
_FINDING = ("_get_permissions", "_get_user_permissions", "_get_group_permissions")


def keep_permissions(user: Any, own: Collection[str], of_groups: Collection[str]) -> None:
    """Set the permissions that ModelBackend has cached on the user: names such as ``flights.view_flight``.

    Private: the attributes ``_user_perm_cache`` and ``_group_perm_cache`` of users. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none; ``get_user_permissions`` and ``get_group_permissions`` read those of one user.
    """
    user._user_perm_cache, user._group_perm_cache = own, of_groups


def has_permissions(user: Any) -> bool:
    """Whether ModelBackend has its permissions on the user, so that it does not read them again.

    Private: as for ``keep_permissions``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return hasattr(user, "_user_perm_cache") and hasattr(user, "_group_perm_cache")


def finds_by_tables() -> bool:
    """Whether each ModelBackend of the project finds permissions only in Django's tables, as Django's own does.

    Private: ``ModelBackend._get_permissions`` and the two that it calls. Seen with: Django 5.2, 6.0, 6.1. Public way:
    none.
    """
    return all(
        getattr(type(backend), name) is getattr(ModelBackend, name)
        for backend in get_backends()
        if isinstance(backend, ModelBackend)
        for name in _FINDING
    )


def has_new_password(user: Any) -> bool:
    """Whether ``set_password`` was called since the user was saved. False if only the hash is upgraded at a login.

    Private: ``AbstractBaseUser._password``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``password_changed`` of
    validators is called after the save.
    """
    return getattr(user, "_password", None) is not None
