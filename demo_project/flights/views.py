"""The front page of the demo: a board of departures that moves while flights change."""

from datetime import timedelta
from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from mcp_django.access import tickets
from mcp_django.access.trail import acting
from mcp_django.core.web_pages import guarded
from mcp_django.exchange.principals import Principal
from mcp_django.models import AccessToken

from .models import Flight
from .this_machine import DEMO_USERS, at_this_machine, demo_user, is_at_this_machine

#: The first flights of the first day. The query has a limit, so its watchers are told when its answer changes.
BOARD = (
    "db://flights/flight?order_by=departs_at,id&limit=12"
    "&fields=id,departs_at,carrier,number,origin,destination__name,status"
)
#: Those whose boards are shown side by side: flights from EWR are on one of them only.
COMPARED = ("admin", "ops")

_TOKEN_NAME = "Boards of the demo"
_TOKEN_SCOPES = ["read"]
_TOKEN_LIFE = timedelta(days=1)


@require_safe
def front(request: HttpRequest) -> HttpResponse:
    """What the demo is, and the board of whoever is logged in."""
    boards = [board_of(request, request.user.get_username())] if request.user.is_authenticated else []
    return page(request, "front", {"boards": boards, "names": DEMO_USERS if is_at_this_machine(request) else ()})


@require_safe
@at_this_machine
def compared(request: HttpRequest) -> HttpResponse:
    """The boards of two users side by side."""
    if not request.user.is_authenticated:
        return redirect("front")
    return page(request, "compared", {"boards": [{**board_of(request, name), "by_ticket": True} for name in COMPARED]})


@at_this_machine
@require_POST
def log_in(request: HttpRequest) -> HttpResponse:
    login(request, demo_user(request))
    return redirect("front")


@at_this_machine
@require_POST
def ticket(request: HttpRequest) -> HttpResponse:
    """A ticket for the socket of another board than one's own: the cookie of the login opens that one alone."""
    if not request.user.is_authenticated or request.POST.get("user") not in COMPARED:
        raise Http404
    user = demo_user(request)
    with acting(request):
        token = token_of(user)
    principal = Principal(user, frozenset(token.scopes), auth=token, token_id=token.pk)
    return JsonResponse({"ticket": tickets.issue(principal)}, headers={"Cache-Control": "no-store"})


@require_POST
def cancel(request: HttpRequest) -> HttpResponse:
    """Cancel a flight as the admin's action does it: for those who may, among the flights that the admin shows them."""
    if not may_cancel(request):
        raise PermissionDenied
    flights = admin.site.get_model_admin(Flight)
    try:
        flight = forms.ModelChoiceField(flights.get_queryset(request)).clean(request.POST.get("flight"))
    except ValidationError:
        raise Http404 from None
    if not flights.has_change_permission(request, flight):
        raise PermissionDenied
    with transaction.atomic():
        flight.status = Flight.Status.CANCELLED
        flight.save(update_fields=["status"])
        flights.log_change(request, flight, [{"changed": {"fields": ["status"]}}])
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def may_cancel(request: HttpRequest) -> bool:
    return admin.site.has_permission(request) and admin.site.get_model_admin(Flight).has_change_permission(request)


def board_of(request: HttpRequest, name: str) -> dict[str, Any]:
    """A board for the template. Flights are cancelled as the user who is logged in, so only on that user's board."""
    is_own = name == request.user.get_username()
    return {"name": name, "may_cancel": is_own and may_cancel(request), "by_ticket": False}


def page(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    rendered = render(request, f"flights/{template}.html", {"uri": BOARD, **context})
    return guarded(rendered, has_script=True)


def token_of(user: User) -> AccessToken:
    """The token for which the user's tickets stand: that of an earlier one, or a new one."""
    found = AccessToken.objects.current().filter(user=user, name=_TOKEN_NAME, scopes=_TOKEN_SCOPES, grant=None).first()
    if found is not None:
        return found
    expires_at = timezone.now() + _TOKEN_LIFE
    return AccessToken.objects.create_token(user=user, name=_TOKEN_NAME, scopes=_TOKEN_SCOPES, expires_at=expires_at)[0]
