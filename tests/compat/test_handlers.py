"""Django's handler of ASGI requests."""

from __future__ import annotations

from functools import partial

from django.core.asgi import get_asgi_application

from mcp_django.compat.handlers import is_django


def test_is_django() -> None:
    application = get_asgi_application()

    assert is_django(application)
    assert not is_django(partial(application))
