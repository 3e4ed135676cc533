"""The URLs at which clients look for a login that is not there. They get JSON: an HTML page tells them nothing."""

from __future__ import annotations

from http import HTTPStatus

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern
from django.urls import path as url_path
from django.views.decorators.csrf import csrf_exempt

from mcp_django.exchange.audience import ENDPOINT

#: Between host and path of the endpoint, as RFC 9728, RFC 8414 and OpenID Connect Discovery put it. The URLs without
#: the path may be the project's own.
_DOCUMENTS = ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration")


def url_patterns() -> list[URLPattern]:
    """The patterns of these URLs, to stand behind all others."""
    return [
        url_path(f".well-known/{document}/{ENDPOINT}{slash}", not_offered)
        for document in _DOCUMENTS
        for slash in ("", "/")
    ]


@csrf_exempt
@login_not_required
def not_offered(request: HttpRequest) -> JsonResponse:
    """A 404 that a program can read."""
    said = "There is no such document. Send Authorization: Bearer <token>; an administrator of this site makes tokens."
    return JsonResponse(
        {"error": "not_found", "error_description": said},
        status=HTTPStatus.NOT_FOUND,
        headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"},
    )
