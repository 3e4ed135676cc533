"""The documents of endpoints below a prefix, where clients look first: at the root of the host.

``path("", include("mcp_django.oauth.well_known"))`` in the URLconf of a project that includes our URLs below a prefix.
RFC 9728 and RFC 8414 put the path of the endpoint, or of the issuer, behind the name of the document.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, path, resolve
from django.views.decorators.csrf import csrf_exempt

from mcp_django.exchange.audience import ENDPOINT
from mcp_django.oauth import paths
from mcp_django.transports.http.undiscovered import not_offered


def _document(name: str, *, of_endpoint: bool) -> Callable[..., HttpResponseBase]:
    """A view that answers as the URL does which the document has below the prefix."""

    def view(request: HttpRequest, prefix: str) -> HttpResponseBase:
        prefix = prefix.strip("/")
        if of_endpoint:
            prefix, _, last = prefix.rpartition("/")
            if last != ENDPOINT:
                return not_offered(request)
        below = f"/{prefix}/{name}"
        try:
            found = resolve(below)
        except Resolver404:
            return not_offered(request)
        if "mcp_django" not in found.app_names:
            return not_offered(request)
        # The issuer is read from the path.
        request.path = f"{request.path.partition('/.well-known/')[0]}{below}"
        answer: HttpResponseBase = found.func(request, *found.args, **found.kwargs)
        return answer

    return csrf_exempt(login_not_required(view))


app_name = "mcp_django_well_known"
urlpatterns = [
    path(f"{paths.RESOURCE_METADATA}/<path:prefix>", _document(paths.RESOURCE_METADATA, of_endpoint=True)),
    path(f"{paths.SERVER_METADATA}/<path:prefix>", _document(paths.SERVER_METADATA, of_endpoint=False)),
    path(f"{paths.OPENID_METADATA}/<path:prefix>", _document(paths.OPENID_METADATA, of_endpoint=False)),
]
