"""A middleware as history packages bring one: it keeps the request that is being answered where models can find it."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

from asgiref.local import Local

#: The three ways in which packages keep it.
in_thread = threading.local()
in_local = Local()
in_context: ContextVar[Any] = ContextVar("request", default=None)


def middleware(get_response: Any) -> Any:
    def remember(request: Any) -> Any:
        in_thread.request = in_local.request = request
        token = in_context.set(request)
        try:
            return get_response(request)
        finally:
            in_context.reset(token)
            del in_thread.request, in_local.request

    return remember


def remembered() -> list[Any]:
    """The requests that are kept here and now."""
    found = [getattr(in_thread, "request", None), getattr(in_local, "request", None), in_context.get()]
    return [one for one in found if one is not None]
