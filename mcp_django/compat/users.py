"""Copies of users, the attributes that django.contrib.auth keeps on them, and the methods that find permissions."""

from __future__ import annotations

import copy
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from django.contrib.auth import get_backends
from django.contrib.auth.backends import ModelBackend
from django.db import models

#: ModelBackend finds permissions by these methods. If none is overridden, we may read those of many users at once.
_FINDING = ("_get_permissions", "_get_user_permissions", "_get_group_permissions")


def copy_of(user: Any) -> Any:
    """A copy of a user, as ``copy.copy`` makes it: what is put onto it is not put onto the other one.

    Private: ``Model._state`` and its ``fields_cache``; which methods of ``Model`` make a copy. Seen with: Django 5.2,
    6.0, 6.1. Public way: ``copy.copy``, which takes five times as long, since Django prepares a model for pickling.
    """
    cls: Any = type(user)
    if not _is_copied_by_django(cls):
        return copy.copy(user)
    made = cls.__new__(cls)
    values = made.__dict__
    values.update(user.__dict__)
    state = values["_state"] = copy.copy(user._state)
    state.fields_cache = state.fields_cache.copy()
    return made


@lru_cache(maxsize=16)
def _is_copied_by_django(cls: Any) -> bool:
    """Whether it is a model, and neither the class nor its parents have their own way to be copied."""
    names = ("__reduce__", "__getstate__", "__setstate__")
    return (
        issubclass(cls, models.Model)
        and not any("__slots__" in vars(parent) or hasattr(parent, "__copy__") for parent in cls.__mro__)
        and cls.__reduce_ex__ is object.__reduce_ex__
        and all(getattr(cls, name) is getattr(models.Model, name) for name in names)
    )


def keep_permissions(user: Any, own: Collection[str], of_groups: Collection[str]) -> None:
    """Set the permissions that ModelBackend has cached on the user: names such as ``flights.view_flight``.

    Private: the attributes ``_user_perm_cache`` and ``_group_perm_cache`` of users. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none; ``get_user_permissions`` and ``get_group_permissions`` read those of one user.
    """
    user._user_perm_cache, user._group_perm_cache = own, of_groups


def has_permissions(user: Any) -> bool:
    """Whether ModelBackend has its permissions on the user, so that it asks no more.

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
