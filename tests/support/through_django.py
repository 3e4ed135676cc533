"""Middleware that leaves the endpoint to Django, and a site that does its work, so that there is push."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_only_middleware

from mcp_django import MCPSite, site


class DoingItsWork(MCPSite):
    def call_context(self, request: HttpRequest) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


# Once it is loaded, which only projects do that name it.
site.__class__ = DoingItsWork


@sync_only_middleware
def middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    def handle(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    return handle
