"""Asking the project's hooks, any of which may fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError

from mcp_django.db.interrupts import was_interrupted
from mcp_django.db.outages import is_database_away

T = TypeVar("T")
logger = logging.getLogger("mcp_django")


def ask(hook: Callable[[], T], default: T, *name: object) -> T:
    """What the project's hook says. One that fails is logged by its name, and counts as ``default``: as a refusal.

    The name may be given in parts, which are only then written, with dots between them.

    In a request that was given up meanwhile it raises what the hook raised, and OperationalError while a database is
    away: neither is the hook's fault, and no answer can be made of what it did not come to say.
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
