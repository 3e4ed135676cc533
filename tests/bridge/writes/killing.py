"""A process that records a vote and is gone in the middle, as by ``kill -9``: see ``test_killed_votes``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.test.utils import setup_test_environment

from mcp_django import Approval
from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.changes.run import Run
from tests.bridge.writes.clicking import Browser
from tests.bridge.writes.kinds import declare
from tests.support.declared import Declared

BEFORE, AFTER = "before", "after"
Place = tuple[Any, str, str]
#: Point → the place where the process dies, of what is written in one transaction with what is kept of it.
IN_ONE_TRANSACTION: dict[str, Place] = {
    "between two votes": (approvals, "vote", AFTER),
    "before the claim": (change_rows, "claim", BEFORE),
    "after the claim": (change_rows, "claim", AFTER),
    "before the write": (Run, "_applied", BEFORE),
    "after the write": (Run, "_applied", AFTER),
    "before the answer is stored": (change_rows, "keep_result", BEFORE),
    "before the commit": (change_rows, "keep_result", AFTER),
    "after the commit": (Run, "_commit", BEFORE),
}
#: The same of a function, whose own commits we do not know.
OF_FUNCTION: dict[str, Place] = {
    **IN_ONE_TRANSACTION,
    "before the commit": (Run, "_commit", BEFORE),
    "after the commit": (Run, "_commit", AFTER),
}


def vote(point: str, is_one_transaction: bool, count: int, user: int, key: str, digest: str) -> None:
    """Approve the change in the admin, and die."""
    setup_test_environment()
    declare(Declared(), Approval(count=count))
    owner, name, when = (IN_ONE_TRANSACTION if is_one_transaction else OF_FUNCTION)[point]
    _die(owner, name, when)
    browser = Browser(User.objects.get(pk=user))
    browser.decide(key, "approve", digest=digest)


def _die(owner: Any, name: str, when: str) -> None:
    called: Callable[..., Any] = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if when == AFTER:
            called(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dying)
