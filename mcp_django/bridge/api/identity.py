"""As whom an operation is called: the principal where a user may come to the view, and otherwise nobody."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from mcp_django.core.compat import rest_views
from mcp_django.core.compat.inner_requests import Who
from mcp_django.core.compat.requests import copy_of

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.principals import Principal

#: Authentication classes by which any user of the project can come, so that a principal may stand for that user.
_OF_ANY_USER = frozenset(
    {
        "rest_framework.authentication.BasicAuthentication",
        "rest_framework.authentication.RemoteUserAuthentication",
        "rest_framework.authentication.SessionAuthentication",
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework_simplejwt.authentication.JWTAuthentication",
        "knox.auth.TokenAuthentication",
        "oauth2_provider.contrib.rest_framework.authentication.OAuth2Authentication",
        "dj_rest_auth.jwt_auth.JWTCookieAuthentication",
        "allauth.headless.contrib.rest_framework.authentication.JWTTokenAuthentication",
        "allauth.headless.contrib.rest_framework.authentication.XSessionTokenAuthentication",
    }
)
#: What a subclass of these may define without checking anything more.
_HARMLESS = frozenset({"authenticate_header", "enforce_csrf", "keyword", "www_authenticate_realm"})


class Identity(Enum):
    """Whom the view of an operation finds."""

    #: The view asks for no authentication: it finds nobody, as over HTTP.
    NOBODY = "nobody"
    #: The principal, whom middleware sees as well, as after a login.
    LOGIN = "login"
    #: The principal; middleware sees nobody, as with a token over HTTP.
    TOKEN = "token"  # noqa: S105 - no password
    #: Whomever the project's own authentication finds by the headers of ``credentials=``.
    CREDENTIALS = "credentials"
    #: A user's token may not stand for what its authentication asks for.
    MACHINE = "machine"


def identity_of(operation: Operation, request: HttpRequest | None = None) -> Identity:
    """Whom the view finds by a request; without one, by one of its method and no more."""
    found = _without_credentials(operation, request)
    if operation.exposure.credentials is not None and found in (Identity.TOKEN, Identity.MACHINE):
        return Identity.CREDENTIALS
    return found


def _without_credentials(operation: Operation, request: HttpRequest | None) -> Identity:
    if operation.native is not None:
        return operation.native.identity(operation.exposure)  # type: ignore[no-any-return]
    if not operation.is_rest:
        return Identity.LOGIN
    try:
        view = operation.view_class(**operation.initkwargs)
        view.request = _bare(operation.method) if request is None else request
        view.args, view.kwargs = (), {}
        if operation.actions:
            view.action_map, view.action = operation.actions, operation.handler
        classes = [type(one) for one in view.get_authenticators()]
    except Exception:  # noqa: BLE001 - the view fails in the same way when it is called
        return Identity.NOBODY
    if not classes:
        return Identity.NOBODY
    if not (any(map(_is_of_any_user, classes)) or operation.exposure.authentication == "replace"):
        return Identity.MACHINE
    return Identity.LOGIN if any(map(_is_of_login, classes)) else Identity.TOKEN


def _bare(method: str) -> HttpRequest:
    request = HttpRequest()
    request.method, request.user = method, AnonymousUser()
    return request


def _is_of_any_user(cls: type) -> bool:
    for one in cls.__mro__:
        if f"{one.__module__}.{one.__qualname__}" in _OF_ANY_USER:
            return True
        if {name for name in vars(one) if not name.startswith("__")} - _HARMLESS:
            return False
    return False


def _is_of_login(cls: type) -> bool:
    from rest_framework.authentication import SessionAuthentication

    return issubclass(cls, SessionAuthentication)


def user_for_middleware(identity: Identity, principal: Principal) -> Any:
    """Whom ``request.user`` is set to below the middleware. A copy: what a view sets on it ends with the call."""
    return copy_of(principal.user) if identity is Identity.LOGIN else AnonymousUser()


def who(operation: Operation, principal: Principal, request: HttpRequest) -> Who:
    """As whom the principal calls the operation by this request."""
    identity = identity_of(operation, request)
    is_nobody = identity in (Identity.NOBODY, Identity.MACHINE)
    names = {} if is_nobody else names_for_caches(principal)
    has_session = identity is Identity.LOGIN and principal.user.is_authenticated
    session_key = _name_of(principal) if has_session else None
    return Who(user_for_middleware(identity, principal), names, forced(identity, principal), session_key)


def forced(identity: Identity, principal: Principal) -> Mapping[str, Any]:
    """The attributes by which Django REST framework takes the principal for the user of a request."""
    if identity not in (Identity.LOGIN, Identity.TOKEN) or not principal.user.is_authenticated:
        return {}
    return rest_views.forced(copy_of(principal.user))


def become(request: Any, operation: Operation, principal: Principal) -> None:
    """Make a request of an InnerCall one that the operation would get of the principal."""
    request.method = operation.method
    found = who(operation, principal, request)
    request.user = found.user
    rest_views.without_force(request)
    vars(request).update(found.attributes)


def names_for_caches(principal: Principal) -> Mapping[str, str]:
    """What tells users apart in META, for caches that vary by credentials."""
    name = _name_of(principal)
    return {"HTTP_AUTHORIZATION": f"MCP {name}", "HTTP_COOKIE": f"mcp_principal={name}"}


def _name_of(principal: Principal) -> str:
    """A name by which nobody finds the user."""
    return salted_hmac("mcp_django.api.principal", principal.key, algorithm="sha256").hexdigest()[:32]
