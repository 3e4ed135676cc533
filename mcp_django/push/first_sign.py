"""The first sign of life of the database, at which the models to watch are found.

``ready()`` is too early: admins may be registered by apps that come later, or in urls.py. A command that uses no
database imports nothing of all this.
"""

from __future__ import annotations

import logging
from typing import Any

from django.apps import apps
from django.core.signals import request_started
from django.db.backends.signals import connection_created
from django.db.models.signals import post_save

logger = logging.getLogger("mcp_django")

_SIGNALS = (connection_created, request_started, post_save)
_UID = "mcp_django.watch"
NOT_YET = "The models to watch cannot be found yet; changes are not reported"


def wait() -> None:
    """Wait for the first database connection, request or save."""
    for signal in _SIGNALS:
        signal.connect(_begin, dispatch_uid=_UID)


def stop_waiting() -> None:
    """Disconnect what ``wait`` has connected."""
    for signal in _SIGNALS:
        signal.disconnect(dispatch_uid=_UID)


def _begin(sender: Any, **kwargs: Any) -> None:
    if not apps.ready:
        return
    try:
        from mcp_django.push.receivers import watch
    except ImportError:
        # Of two threads that wait for what the other one imports, Python lets one go on without it. The next sign will
        # do: a project's query must not fail for this.
        logger.exception(NOT_YET)
        return
    watch.begin(sender, **kwargs)
