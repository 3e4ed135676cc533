"""Calls the project's hooks, any of which may fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import OperationalError

from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.core.db.outages import is_database_away

T = TypeVar("T")
logger = logging.getLogger("mcp_django")


def call_hook(hook: Callable[[], T], default: T, *name: object) -> T:
    """The hook's result. If the hook fails, its name is logged and ``default`` is returned, which counts as a refusal.

    The name may be given in parts. They are joined with dots, and only if the name is needed.

    In a cancelled request it raises the hook's own exception, and it raises OperationalError while a database is away.
    Neither is the hook's fault, and its answer is not known.
    """
    try:
        return hook()
    except Exception as error:
        if was_interrupted():
            raise
        if is_database_away():
            raise OperationalError("The database is away.") from error
        logger.exception("%s failed; taken as a refusal", ".".join(map(str, name)))
        return default


def hook_of(owner: object, name: str) -> Any:
    """The function behind ``owner.name()``: one that was put on the object itself, or that of its class."""
    return vars(owner).get(name, getattr(type(owner), name))


def is_defined_in(cls: type[Any], function: Any) -> bool:
    """Whether the function was written in the module of the class, and is not that of a wrapper or of a patch."""
    return getattr(function, "__globals__", {}).get("__name__") == cls.__module__


def home_of(owner: object, name: str) -> str:
    """The module that wrote the function behind ``owner.name()``; empty where that is uncertain.

    The class that holds the function and the function's globals must be of one module. Both are compared, since a class
    may hold a function from elsewhere, and ``functools.wraps`` gives a wrapper every other sign of what it wraps.
    """
    holder = next((cls for cls in type(owner).__mro__ if name in vars(cls)), None)
    if holder is None or name in vars(owner):
        return ""
    return holder.__module__ if is_defined_in(holder, vars(holder)[name]) else ""
