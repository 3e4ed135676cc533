"""The first sign of life of the database, at which the models to watch are found.

``ready()`` is too early: admins may be registered by apps that come later, or in urls.py. A command that uses no
database imports nothing of all this.
"""

from __future__ import annotations

from typing import Any

from django.core.signals import request_started
from django.db.backends.signals import connection_created
from django.db.models.signals import post_save

_SIGNALS = (connection_created, request_started, post_save)
_UID = "mcp_django.watch"


def wait() -> None:
    """Wait for the first database connection, request or save."""
    for signal in _SIGNALS:
        signal.connect(_begin, dispatch_uid=_UID)


def has_come() -> None:
    """Wait no more."""
    for signal in _SIGNALS:
        signal.disconnect(dispatch_uid=_UID)


def _begin(sender: Any, **kwargs: Any) -> None:
    from mcp_django.push.receivers import watch

    watch.begin(sender, **kwargs)
