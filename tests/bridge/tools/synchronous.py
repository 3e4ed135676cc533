"""A middleware that only knows synchronous views: Django calls ours by async_to_sync behind it."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_only_middleware


@sync_only_middleware
def middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def respond(request: HttpRequest) -> HttpResponseBase:
        return get_response(request)

    return respond
