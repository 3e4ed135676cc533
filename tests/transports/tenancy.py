"""A project with tenants by the host, whose middleware keeps the tenant in one of four ways. None fails closed."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

_local = threading.local()
_variable: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")


def _of(request: Any) -> str:
    return str(request.get_host().partition(".")[0])


Get = Callable[[HttpRequest], HttpResponse]


def by_thread(get_response: Get) -> Get:
    def answer(request: HttpRequest) -> HttpResponse:
        _local.tenant = _of(request)
        try:
            return get_response(request)
        finally:
            _local.tenant = ""

    return answer


def by_variable(get_response: Get) -> Get:
    def answer(request: HttpRequest) -> HttpResponse:
        token = _variable.set(_of(request))
        try:
            return get_response(request)
        finally:
            _variable.reset(token)

    return answer


def by_connection(get_response: Get) -> Get:
    """As ``SET search_path`` is kept: on the connection of the thread."""

    def answer(request: HttpRequest) -> HttpResponse:
        connection.tenant = _of(request)  # type: ignore[attr-defined]
        try:
            return get_response(request)
        finally:
            connection.tenant = ""  # type: ignore[attr-defined]

    return answer


def by_request(get_response: Get) -> Get:
    def answer(request: Any) -> HttpResponse:
        request.tenant = _of(request)
        return get_response(request)

    return answer


def by_session(get_response: Get) -> Get:
    def answer(request: Any) -> HttpResponse:
        request.tenant = request.session.get("tenant", "")
        return get_response(request)

    return answer


def by_schema(get_response: Get) -> Get:
    """The tenant's schema of PostgreSQL, on the connection."""

    def answer(request: HttpRequest) -> HttpResponse:
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO tenant_{_of(request)}, public")
        try:
            return get_response(request)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("SET search_path TO public")

    return answer


def with_zone(get_response: Get) -> Get:
    """The zone of whoever is logged in."""

    def answer(request: Any) -> HttpResponse:
        with timezone.override("Asia/Kathmandu" if request.user.is_authenticated else None):
            return get_response(request)

    return answer


#: Kind of middleware → the tenant as the project's code finds it. Without one, all rows are shown.
CURRENT: Mapping[str, Callable[[Any], str]] = {
    "by_thread": lambda _: getattr(_local, "tenant", ""),
    "by_variable": lambda _: _variable.get(),
    "by_connection": lambda _: getattr(connection, "tenant", ""),
    "by_request": lambda request: getattr(request, "tenant", ""),
}


def by_header(get_response: Get) -> Get:
    def answer(request: Any) -> HttpResponse:
        request.tenant = request.headers.get("X-Tenant", "")
        return get_response(request)

    return answer


def by_lazy_header(get_response: Get) -> Get:
    def answer(request: Any) -> HttpResponse:
        request.tenant = SimpleLazyObject(lambda: request.headers.get("X-Tenant", ""))
        return get_response(request)

    return answer


def by_private_attribute(get_response: Get) -> Get:
    def answer(request: Any) -> HttpResponse:
        request._tenant = _of(request)
        return get_response(request)

    return answer


def by_meta(get_response: Get) -> Get:
    def answer(request: Any) -> HttpResponse:
        request.META["TENANT"] = _of(request)
        return get_response(request)

    return answer


class ByHeir(AuthenticationMiddleware):
    """A tenant that is chosen where the user is."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        _local.tenant = _of(request)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        _local.tenant = ""
        return response


def rolling_back(get_response: Get) -> Get:
    """A transaction around each request, which is undone where it made a change of an agent."""

    def answer(request: HttpRequest) -> HttpResponse:
        with transaction.atomic():
            response = get_response(request)
            transaction.set_rollback(not request.path.startswith("/admin/") and not request.META.get("CONTENT_TYPE"))
        return response

    return answer


def _attribute(request: Any) -> str:
    return str(getattr(request, "tenant", "") or getattr(request, "site", ""))


#: Kinds that need something of a request that is not simply there when one like it is made.
ODD: Mapping[str, Callable[[Any], str]] = {
    "by_header": _attribute,
    "by_lazy_header": _attribute,
    "by_private_attribute": lambda request: getattr(request, "_tenant", ""),
    "by_meta": lambda request: request.META.get("TENANT", ""),
    "ByHeir": lambda _: getattr(_local, "tenant", ""),
}


def admin_of(kind: str) -> type[ModelAdmin[Any]]:
    class TagAdmin(ModelAdmin):  # type: ignore[type-arg]
        fields = ("name",)
        list_display = ("name",)

        def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
            tenant = {**CURRENT, **ODD}.get(kind, _attribute)(request)
            return super().get_queryset(request).filter(name__startswith=f"{tenant}:" if tenant else "")

    return TagAdmin
