"""Django's own handler of ASGI requests. This module is imported before the settings are known."""

from __future__ import annotations

from django.core.handlers.asgi import ASGIHandler


def is_django(application: object) -> bool:
    """Whether an ASGI application is Django's own handler, which does not accept WebSockets.

    Private: ``django.core.handlers.asgi.ASGIHandler``. Seen with: Django 5.2, 6.0, 6.1. Public way: none;
    ``get_asgi_application()`` makes one, and sets Django up.
    """
    return isinstance(application, ASGIHandler)
