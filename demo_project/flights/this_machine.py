"""What the demo offers only to a person at the machine on which it runs."""

from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import split_domain_port

DEMO_USERS = ("admin", "ops", "viewer")

_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
#: A proxy adds one of these, and a request that came over a proxy may be anybody's.
_FORWARDING = ("HTTP_FORWARDED", "HTTP_X_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


def is_at_this_machine(request: HttpRequest) -> bool:
    """Whether the peer and the Host are loopback, nothing was forwarded, and the settings allow it.

    The Host counts too: a name that somebody else points to 127.0.0.1 would let a page of theirs in.
    """
    return (
        settings.DEMO_LOGIN_BUTTONS
        and _is_loopback(request.META.get("REMOTE_ADDR", ""))
        and split_domain_port(request.get_host())[0] in _HOSTS
        and not any(name.startswith(_FORWARDING) for name in request.META)
    )


def at_this_machine(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The view, which for everybody else does not exist."""

    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponse:
        if not is_at_this_machine(request):
            raise Http404
        return view(request)

    return guarded


def demo_user(request: HttpRequest) -> User:
    """The user whom the form names. Whoever gave the user another password wants no button that needs none: 404."""
    name = request.POST.get("user", "")
    user = authenticate(request, username=name, password=name) if name in DEMO_USERS else None
    if not isinstance(user, User):
        raise Http404
    return user


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:  # A Unix socket has no address, and a proxy is in front of it.
        return False
