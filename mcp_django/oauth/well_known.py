"""The documents of endpoints below a prefix, where clients look first: at the root of the host.

``path("", include("mcp_django.oauth.well_known"))`` in the URLconf of a project that includes our URLs below a prefix.
RFC 9728 and RFC 8414 put the path of the endpoint, or of the issuer, behind the name of the document.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, get_script_prefix, path, resolve
from django.views.decorators.csrf import csrf_exempt

from mcp_django.exchange.audience import ENDPOINT
from mcp_django.oauth import paths
from mcp_django.transports.http.routes import not_offered


def _document(name: str, *, of_endpoint: bool) -> Callable[..., HttpResponseBase]:
    """A view that answers as the document's own URL below the prefix does."""

    def view(request: HttpRequest, prefix: str) -> HttpResponseBase:
        prefix = prefix.strip("/")
        if of_endpoint:
            prefix, _, last = prefix.rpartition("/")
            if last != ENDPOINT:
                return not_offered(request)
        return _answer_below(request, f"/{prefix}/{name}")

    return csrf_exempt(login_not_required(view))


@csrf_exempt
@login_not_required
def _of_the_one_endpoint(request: HttpRequest) -> HttpResponseBase:
    """The metadata of the resource without the path of an endpoint, if there is only one endpoint."""
    found = [path.removeprefix(get_script_prefix().rstrip("/")) for path in paths.endpoints()]
    if len(found) != 1:
        return not_offered(request)
    return _answer_below(request, f"{found[0].removesuffix(f'/{ENDPOINT}')}/{paths.RESOURCE_METADATA}")


def _answer_below(request: HttpRequest, below: str) -> HttpResponseBase:
    """The answer of our URL with this path."""
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


app_name = "mcp_django_well_known"
urlpatterns = [
    path(paths.RESOURCE_METADATA, _of_the_one_endpoint),
    path(f"{paths.RESOURCE_METADATA}/", _of_the_one_endpoint),
    path(f"{paths.RESOURCE_METADATA}/<path:prefix>", _document(paths.RESOURCE_METADATA, of_endpoint=True)),
    path(f"{paths.SERVER_METADATA}/<path:prefix>", _document(paths.SERVER_METADATA, of_endpoint=False)),
    path(f"{paths.OPENID_METADATA}/<path:prefix>", _document(paths.OPENID_METADATA, of_endpoint=False)),
]
