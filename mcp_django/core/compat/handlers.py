"""Django's own handler of ASGI requests, and its requests. This module is imported before the settings are known."""

from __future__ import annotations

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpRequest


def is_django(application: object) -> bool:
    """Whether an ASGI application is Django's own handler, which does not accept WebSockets.

    Private: ``django.core.handlers.asgi.ASGIHandler``. Seen with: Django 5.2, 6.0, 6.1. Public way: none;
    ``get_asgi_application()`` makes one, and sets Django up.
    """
    return isinstance(application, ASGIHandler)


def is_asgi_request(request: HttpRequest) -> bool:
    """Whether a request came by Django's ASGI handler, which reads an iterator whole unless it is asynchronous.

    Private: ``django.core.handlers.asgi.ASGIRequest``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return isinstance(request, ASGIRequest)
