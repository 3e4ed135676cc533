"""Grants and their tokens: for one endpoint alone, and what they open lives as long as the grant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import override_settings
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from demo_project.flights.models import Flight
from mcp_django.access import tickets
from mcp_django.access.authentication import (
    authenticate,
    authenticate_again,
    authenticate_again_from_memory,
    authenticate_from_memory,
    principals,
    read_together,
)
from mcp_django.access.refused_tokens import admits
from mcp_django.bridge.callers import principal_of
from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet
from mcp_django.exchange.audience import normal_origin, resource_of
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import AccessToken, Call, Grant, Task, digest
from mcp_django.protocol.errors import Forbidden, Unauthenticated
from mcp_django.push import credentials
from tests.axes import HTTP, PUSHING
from tests.push.conftest import updated, watch
from tests.push.test_ending import assert_completed
from tests.support.data import Users, make_staff
from tests.support.peers import MODERN, HTTPPeer, Peers

RESOURCE = "http://localhost/mcp"
#: Nothing is read anew, unless it has to be.
CACHED = {"TOKEN_CACHE_SECONDS": 300.0}


def make_grant(user: User, *, resource: str = RESOURCE, **more: Any) -> Grant:
    values = {"client": "https://client.example/me", "client_name": "A client", "scopes": ["read"], **more}
    return Grant.objects.create(user=user, resource=resource, expires_at=timezone.now() + timedelta(days=30), **values)


def token_by(grant: Grant, *scopes: str, **more: Any) -> tuple[AccessToken, str]:
    end = timezone.now() + timedelta(hours=1)
    return AccessToken.objects.create_token(
        user=grant.user, scopes=scopes or ("read",), grant=grant, expires_at=end, **more
    )


def request_to(
    token: str = "", path: str = "/mcp", host: str = "localhost", scheme: str = "http", **meta: str
) -> MCPRequest:
    named = {"HTTP_AUTHORIZATION": f"Bearer {token}"} if token else {}
    meta = {"HTTP_HOST": host, "REMOTE_ADDR": "192.0.2.7", **named, **meta}
    return MCPRequest(path=path, scheme=scheme, meta=meta, attributes={})


def expire(token: AccessToken) -> None:
    AccessToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    principals.clear()


# The resource.


def test_every_url_of_ours_belongs_to_the_resource_beside_it() -> None:
    expected = {
        "/mcp": "http://localhost/mcp", "/mcp/": "http://localhost/mcp", "/mcp/ticket": "http://localhost/mcp",
        "/sse": "http://localhost/mcp", "/sse/messages": "http://localhost/mcp",
        "/staff/mcp": "http://localhost/staff/mcp", "/mcp/mcp": "http://localhost/mcp/mcp",
    }  # fmt: skip

    assert {path: resource_of(request_to(path=path)) for path in expected} == expected
    with override_settings(MCP={"OAUTH_ORIGIN": "https://mcp.example.com"}):
        assert resource_of(request_to(host="internal:8000")) == "https://mcp.example.com/mcp", "behind any proxy"


def test_an_origin_has_one_spelling() -> None:
    expected = {
        "HTTPS://Example.COM:443": "https://example.com", "http://example.com:80": "http://example.com",
        "http://example.com:8000": "http://example.com:8000", "http://[::1]": "http://[::1]",
        "https://[2001:DB8::1]:8443": "https://[2001:db8::1]:8443",
    }  # fmt: skip

    assert {url: normal_origin(url) for url in expected} == expected


WRONG: list[dict[str, str]] = [
    {"path": "/staff/mcp"}, {"path": "/mcp/mcp"}, {"scheme": "https"}, {"host": "localhost:8000"},
    {"host": "testserver"}, {"host": "evil.example"},
]  # fmt: skip


@override_settings(MCP=CACHED)
def test_using_a_token_at_another_endpoint(users: Users) -> None:
    token, plain = token_by(make_grant(users.admin))
    opened = authenticate(request_to(plain), fresh=True)

    for wrong in WRONG:
        with pytest.raises(Unauthenticated, match="unknown, expired or revoked"):
            authenticate(request_to(plain, **wrong), fresh=True)
        with pytest.raises(Unauthenticated):
            authenticate(request_to(plain, **wrong), fresh=False)
        with pytest.raises(Unauthenticated):
            authenticate_again(opened, request_to(plain, **wrong))
        with pytest.raises(Unauthenticated):
            tickets.redeem(tickets.issue(opened), request_to(**wrong))
        assert authenticate_from_memory(request_to(plain, **wrong)) is None
        assert authenticate_again_from_memory(opened, request_to(plain, **wrong)) is None
        assert principals.find_line(token.line, token.grant_id, request_to(**wrong)) is None

    assert authenticate(request_to(plain), fresh=False).user == users.admin
    assert tickets.redeem(tickets.issue(opened), request_to()).user == users.admin
    assert admits([], "", None) and not admits([], RESOURCE, None), "without a request"


@pytest.mark.parametrize("transport", HTTP)
def test_a_token_opens_its_own_endpoint_alone(users: Users, peers: Peers, flights: Any) -> None:
    _, plain = token_by(make_grant(users.admin))
    _, foreign = token_by(make_grant(users.admin, resource="http://localhost/staff/mcp"))
    tools = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    own, other = peers(plain), peers(foreign)

    assert isinstance(own, HTTPPeer) and isinstance(other, HTTPPeer)
    assert own.post(tools).status != 401
    assert other.post(tools).status == 401


# What a token has opened.


@pytest.mark.every_database
@override_settings(MCP=CACHED)
def test_what_a_token_has_opened_goes_on_when_its_hour_is_over_and_its_row_is_gone(users: Users) -> None:
    token, plain = token_by(make_grant(users.viewer))
    opened = authenticate(request_to(plain), fresh=True)
    request = request_to(plain)

    expire(token)

    with pytest.raises(Unauthenticated):
        authenticate(request_to(plain), fresh=True)
    assert authenticate_again_from_memory(opened, request) is None
    again = authenticate_again(opened, request)
    assert (again.user, again.scopes, again.lineage, again.token_id) == (
        users.viewer, frozenset({"read"}), str(token.line), token.pk,
    )  # fmt: skip
    remembered = authenticate_again_from_memory(opened, request)
    assert remembered is not None and remembered.user == users.viewer
    assert remembered.user is not again.user

    AccessToken.objects.get(pk=token.pk).delete()
    assert authenticate_again(opened, request_to(plain), fresh=True).user == users.viewer
    [found] = read_together([opened]).values()
    assert found.user == users.viewer


def end(grant: Grant) -> None:
    grant.end(Grant.Ended.REVOKED)


def revoke_a_token(grant: Grant) -> None:
    AccessToken.objects.get(grant=grant).revoke()


def let_the_grant_expire(grant: Grant) -> None:
    Grant.objects.filter(pk=grant.pk).update(expires_at=timezone.now())
    expire(AccessToken.objects.get(grant=grant))


def deactivate(grant: Grant) -> None:
    grant.user.is_active = False
    grant.user.save()


def set_a_new_password(grant: Grant) -> None:
    grant.user.set_password("new")
    grant.user.save()


def delete_the_user(grant: Grant) -> None:
    grant.user.delete()


ENDINGS = [end, revoke_a_token, let_the_grant_expire, deactivate, set_a_new_password, delete_the_user]


@pytest.mark.every_database
@override_settings(MCP=CACHED)
def test_it_ends_with_the_grant(users: Users) -> None:
    for ending in ENDINGS:
        user = make_staff(ending.__name__, "flights.view_flight")
        grant = make_grant(user)
        token, plain = token_by(grant)
        token_by(make_grant(user, line=grant.line))  # Another grant of the same client prolongs nothing.
        opened = authenticate(request_to(plain), fresh=True)
        authenticate_again(opened, request_to(plain))

        ending(grant)

        with pytest.raises(Unauthenticated, match="The grant has ended"):
            authenticate_again(opened, request_to(plain))
        assert authenticate_again_from_memory(opened, request_to(plain)) is None, ending
        assert read_together([opened]) == {}, ending
        assert principals.find_line(token.line, grant.pk, request_to()) is None, ending


def test_a_token_of_an_ended_grant_is_refused_at_once(users: Users) -> None:
    grant = make_grant(users.viewer)
    _, plain = token_by(grant)
    _, other = token_by(grant)
    authenticate(request_to(plain), fresh=True)

    AccessToken.objects.first().revoke()  # type: ignore[union-attr]

    for one in (plain, other):
        with pytest.raises(Unauthenticated):
            authenticate(request_to(one), fresh=False)
    grant.refresh_from_db()
    assert (grant.ended_by, grant.is_current()) == ("revoked", False)
    assert not grant.end(Grant.Ended.BLOCKED), "it is ended once"


@pytest.mark.parametrize("transport", PUSHING[:1])
def test_a_stream_lives_on_after_the_hour_until_the_grant_ends(
    users: Users, peers: Peers, flights: list[Flight]
) -> None:
    grant = make_grant(users.admin)
    token, plain = token_by(grant)
    watching = watch(peers(plain), MODERN, "db://flights/flight/1", listen_id="1")

    expire(token)

    flights[0].save()
    assert watching.next() == updated("db://flights/flight/1", "1")
    end(grant)
    assert_completed(watching, "1")


class Member:
    session_key = None

    def __init__(self, principal: Principal, request: MCPRequest) -> None:
        self.principal, self.request = principal, request


@pytest.mark.every_database
def test_the_sweep_ends_what_belongs_to_no_grant_any_more(users: Users) -> None:
    kept, ended, elsewhere, revoked = (token_by(make_grant(users.admin)) for _ in range(4))
    members = [Member(authenticate(request_to(plain), fresh=True), request_to()) for _, plain in
               (kept, ended, elsewhere, revoked)]  # fmt: skip
    members[2].request = request_to(path="/staff/mcp")
    AccessToken.objects.update(expires_at=timezone.now() - timedelta(days=3))
    AccessToken.objects.filter(pk=revoked[0].pk).update(revoked_at=timezone.now())
    Grant.objects.filter(tokens=ended[0].pk).update(ended_at=timezone.now())

    over = credentials.compared(members, 1).ended  # type: ignore[arg-type]

    assert set(over) == {members[1], members[2], members[3]}


@pytest.mark.every_database
def test_a_task_goes_on_by_its_own_grant_and_uses_no_token(users: Users) -> None:
    grant = make_grant(users.viewer, scopes=["read", "model:shop.order:read"])
    first, _ = token_by(grant)
    second, _ = token_by(grant)
    token_by(make_grant(users.viewer, line=grant.line, scopes=["read", "actions"]), "read", "actions")
    AccessToken.objects.update(expires_at=timezone.now() - timedelta(days=3))

    found = principals.find_line(first.line, grant.pk, request_to())

    assert found is not None
    assert (found.token_id, found.scopes) == (second.pk, {"read", "model:shop.order:read"})
    assert not AccessToken.objects.filter(last_used_at__isnull=False).exists()


def test_a_ticket_has_the_scopes_of_the_token_that_asked_for_it(users: Users) -> None:
    """Another consent to the same client, or an earlier token of the same one, gives it no more."""
    grant = make_grant(users.ops, scopes=["read", "actions"])
    _, plain = token_by(grant, "read")
    ticket = tickets.issue(authenticate(request_to(plain), fresh=True))
    token_by(grant, "read", "actions")
    token_by(make_grant(users.ops, line=grant.line, scopes=["read", "actions"]), "read", "actions")

    assert tickets.redeem(ticket, request_to()).scopes == {"read"}


def test_a_token_of_a_grant_is_not_rolled_by_hand(users: Users) -> None:
    token, _ = token_by(make_grant(users.viewer))

    with pytest.raises(ValidationError, match="fetches its successors without your help"):
        token.roll()


# What is remembered.


@override_settings(MCP=CACHED)
def test_a_change_forgets_that_user_alone_and_a_new_token_nobody(users: Users) -> None:
    grant = make_grant(users.viewer)
    _, mine = token_by(grant)
    _, other = token_by(make_grant(users.admin))
    for plain in (mine, other):
        authenticate(request_to(plain), fresh=False)

    token_by(grant)
    assert authenticate_from_memory(request_to(mine)) is not None
    users.viewer.save()

    assert authenticate_from_memory(request_to(mine)) is None
    assert authenticate_from_memory(request_to(other)) is not None


@override_settings(MCP=CACHED)
def test_another_process_reports_whom_a_change_concerns(users: Users) -> None:
    _, plain = token_by(make_grant(users.viewer))
    for reported, is_left in (
        (Control(ControlKind.ACCESS, str(users.viewer.pk)), False),
        (Control(ControlKind.ACCESS, str(users.admin.pk)), True),
        (EVERYBODY, False), (Control(ControlKind.TOOLS), False),
    ):  # fmt: skip
        authenticate(request_to(plain), fresh=False)

        credentials.forget(ControlSet([reported]))

        assert (authenticate_from_memory(request_to(plain)) is not None) is is_left, reported


def test_clearing_expired_tokens_away_is_no_event(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    token, _ = token_by(make_grant(users.viewer))
    expire(token)
    told: list[Any] = []
    monkeypatch.setattr("mcp_django.access.signals.announce_access_change", lambda *args: told.append(args))

    AccessToken.objects.all().delete()

    assert told == []
    assert not Call.objects.filter(reason="deleted").exists()


@pytest.mark.every_database
def test_tokens_of_a_grant_that_holds_are_kept(users: Users) -> None:
    kept, gone = make_grant(users.viewer), make_grant(users.viewer)
    for grant in (kept, gone):
        expire(token_by(grant)[0])
    end(gone)

    ended = AccessToken.objects.ended(timezone.now() + timedelta(days=1))

    assert [token.grant for token in ended] == [gone]


# Classes of a project that find one of our tokens themselves, and may let it act as somebody else.


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
def test_using_a_token_at_another_endpoint_or_address_where_the_project_looks_it_up(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin))
    _, bound = token_by(make_grant(users.admin), addresses=["10.0.0.0/8"])

    for token, elsewhere in [(plain, wrong) for wrong in WRONG] + [(bound, {})]:
        with pytest.raises(Unauthenticated, match="unknown, expired or revoked"):
            authenticate(request_to(HTTP_X_TOKEN=token, **elsewhere), fresh=True)

    assert authenticate(request_to(HTTP_X_TOKEN=plain), fresh=True).user == users.admin
    assert authenticate(request_to(HTTP_X_TOKEN=bound, REMOTE_ADDR="10.1.2.3"), fresh=True).user == users.admin


@override_settings(MCP=OURS)
def test_what_a_token_has_opened_for_another_user_goes_on_as_that_user(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin))
    request = request_to(HTTP_X_TOKEN=plain, HTTP_X_AS="viewer")
    opened = authenticate(request, fresh=True)
    task = Task(
        user=users.viewer, principal_key=opened.key, line=opened.lineage, scopes=sorted(opened.scopes),
        grant_id=opened.grant_id,
    )  # fmt: skip

    again = [authenticate_again(opened, request, fresh=fresh) for fresh in (True, False)]

    assert [one.user for one in (opened, *again)] == [users.viewer] * 3
    assert principal_of(task, request_to()).user == users.viewer
    assert read_together([opened]) == {}, "nobody but the class knows as whom a token acts"


@override_settings(MCP=OURS)
def test_a_ticket_cannot_stand_for_a_token_that_acts_as_somebody_else(users: Users) -> None:
    _, plain = token_by(make_grant(users.admin))

    with pytest.raises(Forbidden):
        tickets.issue(authenticate(request_to(HTTP_X_TOKEN=plain, HTTP_X_AS="viewer"), fresh=True))

    own = tickets.issue(authenticate(request_to(HTTP_X_TOKEN=plain), fresh=True))
    assert tickets.redeem(own, request_to()).user == users.admin
