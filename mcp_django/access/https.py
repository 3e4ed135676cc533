"""Plain HTTP is redirected and HTTPS is promised as SecurityMiddleware does, where a request does not pass MIDDLEWARE.

Django's own class answers, if it or a subclass is in MIDDLEWARE.
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware
from django.utils.module_loading import import_string

_HSTS = "Strict-Transport-Security"


def redirect_of(request: HttpRequest) -> HttpResponse | None:
    """The redirect that a request over plain HTTP gets; None where it is answered."""
    if not settings.SECURE_SSL_REDIRECT or not _is_in(tuple(settings.MIDDLEWARE)):
        return None
    try:
        return SecurityMiddleware(_no_view).process_request(request)
    except DisallowedHost:
        return None  # The check of the host refuses it.


def hsts_of(request: HttpRequest) -> dict[str, str]:
    """The header by which browsers learn to come by HTTPS alone."""
    if not settings.SECURE_HSTS_SECONDS or not request.is_secure() or not _is_in(tuple(settings.MIDDLEWARE)):
        return {}
    return {_HSTS: SecurityMiddleware(_no_view).process_response(request, HttpResponse())[_HSTS]}


@lru_cache(maxsize=8)
def _is_in(middleware: tuple[str, ...]) -> bool:
    found = map(import_string, middleware)
    return any(isinstance(one, type) and issubclass(one, SecurityMiddleware) for one in found)


def _no_view(_: HttpRequest) -> HttpResponse:
    return HttpResponse()
