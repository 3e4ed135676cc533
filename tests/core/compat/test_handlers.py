"""Django's handler of ASGI requests."""

from __future__ import annotations

from functools import partial

from django.core.asgi import get_asgi_application
from django.test import AsyncRequestFactory, RequestFactory

from mcp_django.core.compat.handlers import is_asgi_request, is_django


def test_is_django() -> None:
    application = get_asgi_application()

    assert is_django(application)
    assert not is_django(partial(application))


def test_is_asgi_request() -> None:
    assert is_asgi_request(AsyncRequestFactory().get("/"))
    assert not is_asgi_request(RequestFactory().get("/"))
