"""What django.contrib.auth keeps on a user."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_backends
from django.contrib.auth.backends import ModelBackend

#: What ModelBackend finds permissions by: where none of it is overridden, it may be done for many users at once.
_FINDING = ("_get_permissions", "_get_user_permissions", "_get_group_permissions")


def keep_permissions(user: Any, own: set[str], of_groups: set[str]) -> None:
    """Let ModelBackend take these for what it has found of the user: names as ``flights.view_flight``.

    Private: the attributes ``_user_perm_cache`` and ``_group_perm_cache`` of users. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none; ``get_user_permissions`` and ``get_group_permissions`` ask of one user at a time.
    """
    user._user_perm_cache, user._group_perm_cache = own, of_groups


def finds_by_tables() -> bool:
    """Whether each ModelBackend of the project finds permissions as Django's own does: in its tables alone.

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
    """Whether ``set_password`` was called since the user was saved; False for one whose hash is only made anew.

    Private: ``AbstractBaseUser._password``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; a validator is told of a
    new password after the save.
    """
    return getattr(user, "_password", None) is not None
