"""Classes of a project that find one of our tokens themselves, and may let it act as somebody else."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from mcp_django.access import tickets
from mcp_django.access.authentication import authenticate, authenticate_again, read_together
from mcp_django.models import AccessToken, Task, digest
from mcp_django.protocol.errors import Forbidden, Unauthenticated
from mcp_django.tasks.callers import principal_of
from tests.access.test_grants import WRONG, make_grant, request_to, token_by
from tests.support.data import Users


class HeaderOfTheProject(BaseAuthentication):
    """``X-Token: <token>``, and maybe ``X-As: <user>``, for staff who look at the site as another user sees it."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        hashed = digest(request.META.get("HTTP_X_TOKEN", ""))
        token = AccessToken.objects.current().select_related("user").filter(hash=hashed).first()
        if token is None:
            return None
        return User.objects.filter(username=request.META.get("HTTP_X_AS")).first() or token.user, token


OURS = {"AUTHENTICATION_CLASSES": [f"{__name__}.HeaderOfTheProject"], "TOKEN_CACHE_SECONDS": 300.0}


@override_settings(MCP=OURS)
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_using_a_token_at_another_endpoint_where_the_project_looks_it_up(users: Users, wrong: dict[str, str]) -> None:
    _, plain = token_by(make_grant(users.admin))

    with pytest.raises(Unauthenticated, match="unknown, expired or revoked"):
        authenticate(request_to(HTTP_X_TOKEN=plain, **wrong), fresh=True)

    assert authenticate(request_to(HTTP_X_TOKEN=plain), fresh=True).user == users.admin


@override_settings(MCP=OURS)
def test_using_a_token_from_another_address_where_the_project_looks_it_up(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin), addresses=["10.0.0.0/8"])

    with pytest.raises(Unauthenticated, match="unknown, expired or revoked"):
        authenticate(request_to(HTTP_X_TOKEN=plain), fresh=True)

    assert authenticate(request_to(HTTP_X_TOKEN=plain, REMOTE_ADDR="10.1.2.3"), fresh=True).user == users.admin


@override_settings(MCP=OURS)
@pytest.mark.parametrize("fresh", [True, False])
def test_what_a_token_has_opened_for_another_user_goes_on_as_that_user(users: Users, fresh: bool) -> None:
    _, plain = token_by(make_grant(users.admin))
    request = request_to(HTTP_X_TOKEN=plain, HTTP_X_AS="viewer")
    opened = authenticate(request, fresh=True)

    again = authenticate_again(opened, request, fresh=fresh)

    assert (opened.user, again.user) == (users.viewer, users.viewer)


@override_settings(MCP=OURS)
def test_nobody_but_the_class_knows_as_whom_a_token_acts(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin))
    opened = authenticate(request_to(HTTP_X_TOKEN=plain, HTTP_X_AS="viewer"), fresh=True)

    assert read_together([opened]) == {}


@override_settings(MCP=OURS)
def test_a_ticket_cannot_stand_for_a_token_that_acts_as_somebody_else(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin))

    with pytest.raises(Forbidden):
        tickets.issue(authenticate(request_to(HTTP_X_TOKEN=plain, HTTP_X_AS="viewer"), fresh=True))

    own = tickets.issue(authenticate(request_to(HTTP_X_TOKEN=plain), fresh=True))
    assert tickets.redeem(own, request_to()).user == users.admin


@override_settings(MCP=OURS)
def test_a_task_goes_on_as_the_user_as_whom_the_token_acts(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin))
    opened = authenticate(request_to(HTTP_X_TOKEN=plain, HTTP_X_AS="viewer"), fresh=True)
    task = Task(
        user=users.viewer, principal_key=opened.key, line=opened.line, scopes=sorted(opened.scopes),
        grant_id=opened.grant_id,
    )  # fmt: skip

    assert principal_of(task, request_to()).user == users.viewer
