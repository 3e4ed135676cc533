"""What people see: our pages with the headers that guard them, and the ways to the login page and back to the site."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.messages import get_messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse
from django.utils.cache import patch_vary_headers
from django.utils.http import urlencode
from django.utils.translation import get_language


def page(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    status: HTTPStatus = HTTPStatus.OK,
    has_script: bool = False,
) -> HttpResponse:
    """One of our pages outside of the admin, with the headers that guard it."""
    # A project without the admin may have no context processors.
    whole = {"request": request, "messages": get_messages(request), **context}
    return guarded(render(request, f"mcp_django/{template}.html", whole, status=status), has_script=has_script)


def guarded(response: HttpResponse, *, has_script: bool = False) -> HttpResponse:
    """The response with the headers that keep other pages and caches away from it.

    The policy has no ``form-action``: in Chromium that would forbid the redirect to the client too. Neither Django's
    middleware nor django-csp replaces a policy that is there.
    """
    scripts = f"'self'{_static_origin()}" if has_script else "'none'"
    response["Content-Security-Policy"] = (
        f"default-src 'self'; script-src {scripts}; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        f"style-src 'self'{_static_origin()}; img-src 'self' data:{_static_origin()}; font-src 'self'{_static_origin()}"
    )
    response["X-Frame-Options"] = "DENY"
    # Other origins are told nothing. With "no-referrer" a form would be sent as from nowhere, and Django refuses that.
    response["Referrer-Policy"] = "same-origin" if response.status_code < HTTPStatus.MULTIPLE_CHOICES else "no-referrer"
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["Cookie"])
    return response


def _static_origin() -> str:
    """The origin of static files, where it is not that of the site, with a space before it."""
    parts = urlsplit(settings.STATIC_URL or "")
    return f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""


def not_atomic(view: Callable[..., Any]) -> Callable[..., Any]:
    """The view without the transaction of ATOMIC_REQUESTS: it commits before it answers, or works in another thread."""
    for alias in settings.DATABASES:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def home_url(request: HttpRequest) -> str | None:
    """The first page of the project, or that of the admin for people who may open it. None where there is neither."""
    return _front_page() or _admin_index(request)


def _front_page() -> str | None:
    """What the URLconf has at its root, or below the prefix of the present language."""
    for path in ("", f"{get_language()}/"):
        try:
            resolve(f"/{path}")
        except Resolver404:
            continue
        return f"{get_script_prefix()}{path}"
    return None


def _admin_index(request: HttpRequest) -> str | None:
    if not (apps.is_installed("django.contrib.admin") and hasattr(request, "user")):
        return None
    from django.contrib.admin import site as admin_site

    try:
        return reverse("admin:index") if admin_site.has_permission(request) else None
    except NoReverseMatch:
        return None


def login_url() -> str:
    """The login page of the project: LOGIN_URL, or that of the admin if the project has no page there."""
    if not has_login_page():
        try:
            return reverse("admin:login")
        except NoReverseMatch:
            pass
    return str(resolve_url(settings.LOGIN_URL))


def has_login_page() -> bool:
    """Whether LOGIN_URL leads to a page, of the project or elsewhere."""
    parts = urlsplit(str(resolve_url(settings.LOGIN_URL)))
    if parts.netloc:
        return True
    try:
        # Below a SCRIPT_NAME, the URLconf knows the rest of the path alone.
        resolve(f"/{parts.path.removeprefix(get_script_prefix()).removeprefix('/')}")
    except Resolver404:
        return False
    return True


def login(request: HttpRequest, path: str = "") -> HttpResponse:
    """The way to the login page, and back to what was asked for, or to another path of the site."""
    where = login_url()
    mark = "&" if "?" in where else "?"
    path = path or request.get_full_path()
    back = request.build_absolute_uri(path) if urlsplit(where).netloc else path
    url = f"{where}{mark}{urlencode({REDIRECT_FIELD_NAME: back})}"
    return guarded(HttpResponse(status=HTTPStatus.FOUND, headers={"Location": url}))
