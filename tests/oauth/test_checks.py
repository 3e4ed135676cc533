"""The system checks of logging in, and the command that walks the way of a client."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from mcp_django import sites
from mcp_django.oauth.checks import check_deployment, check_settings


def ids(found: list[Any]) -> list[str]:
    return [message.id for message in found]


def test_the_tests_settings_are_well() -> None:
    assert check_settings(None) == []


@pytest.mark.parametrize("wrong", [
    {"OAUTH_ORIGIN": "https://example.com/"}, {"OAUTH_ORIGIN": "https://example.com/mcp"},
    {"OAUTH_ORIGIN": "example.com"}, {"OAUTH_ORIGIN": "https://Example.com"}, {"OAUTH_ORIGIN": "https://example.com:443"},
    {"OAUTH_SCOPES": ["write-everything"]}, {"OAUTH_REGISTRATION": "yes"}, {"OAUTH_USERS": "staff"},
    {"OAUTH_GRACE_SECONDS": -1},
], ids=str)  # fmt: skip
def test_a_wrong_setting_is_found(wrong: dict[str, Any]) -> None:
    with override_settings(MCP=wrong):
        assert ids(check_settings(None)) == ["mcp_django.E022"]


def test_pages_that_cannot_be_shown_are_found() -> None:
    with override_settings(TEMPLATES=[]):
        assert ids(check_settings(None)) == ["mcp_django.E023"]


@pytest.mark.parametrize(("wrong", "found"), [
    ({"MCP": {"OAUTH_ORIGIN": "http://example.com"}, "ALLOWED_HOSTS": ["example.com"]}, "is http"),
    ({"MCP": {"OAUTH_ORIGIN": "https://example.com"}, "ALLOWED_HOSTS": ["localhost"]}, "ALLOWED_HOSTS lacks"),
    ({"ALLOWED_HOSTS": ["*"]}, "admits every host"),
    ({"MCP": {"TRUSTED_PROXIES": 1}}, "SECURE_PROXY_SSL_HEADER"),
    ({"MCP": {"OAUTH_REGISTRATION": "open"}}, "is open"),
    ({"SESSION_COOKIE_SAMESITE": "Strict"}, "SESSION_COOKIE_SAMESITE"),
])  # fmt: skip
def test_what_would_keep_clients_of_a_deployment_away_is_found(wrong: dict[str, Any], found: str) -> None:
    with override_settings(**wrong):
        [message] = check_deployment(None)

    assert message.id == "mcp_django.W023"
    assert found in message.msg
    assert message.hint


@override_settings(ROOT_URLCONF="tests.oauth.below_a_prefix")
def test_documents_below_a_prefix_need_a_line_at_the_root() -> None:
    [message] = check_settings(None)

    assert message.id == "mcp_django.W022"
    assert 'path("", include("mcp_django.oauth.well_known"))' in message.hint


@override_settings(ROOT_URLCONF="tests.oauth.two_sites")
def test_each_endpoint_below_a_prefix_needs_it() -> None:
    # Not at the top: its site would be there for all tests. It may have been made, and forgotten, by another one.
    from tests.oauth import two_sites

    sites._sites.add(two_sites.staff)

    [message] = check_settings(None)

    assert "The endpoint is at /staff/mcp" in message.msg


RESOURCE, ISSUER = "http://testserver/staff/mcp", "http://testserver/staff"


@override_settings(ROOT_URLCONF="tests.oauth.below_a_prefix_with_documents")
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_line_answers_for_the_endpoint_below_the_prefix(db: None, slash: str) -> None:
    client = Client()

    assert check_settings(None) == []
    resource = client.get(f"/.well-known/oauth-protected-resource/staff/mcp{slash}").json()
    assert (resource["resource"], resource["authorization_servers"]) == (RESOURCE, [ISSUER])
    for name in ("oauth-authorization-server", "openid-configuration"):
        assert client.get(f"/.well-known/{name}/staff{slash}").json()["issuer"] == ISSUER
    assert client.get("/staff/.well-known/openid-configuration").json()["issuer"] == ISSUER
    assert client.get(f"/.well-known/oauth-protected-resource{slash}").json() == resource, "there is one endpoint"
    for wrong in ("oauth-protected-resource/mcp", "oauth-protected-resource/staff", "oauth-authorization-server/other"):
        answer = client.get(f"/.well-known/{wrong}")
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
    challenge = client.post("/staff/mcp", b"{}", content_type="application/json")["WWW-Authenticate"]
    assert 'resource_metadata="http://testserver/staff/.well-known/oauth-protected-resource/mcp"' in challenge


def walk(**options: Any) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("mcp_oauth", "check", stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


@override_settings(MCP={"OAUTH_ORIGIN": "https://example.com"}, ALLOWED_HOSTS=["example.com"])
def test_the_command_walks_the_way_of_a_client(db: None) -> None:
    out, err = walk()

    assert "POST https://example.com/mcp: 401" in out
    assert "    resource: https://example.com/mcp" in out
    assert "    issuer: https://example.com" in out
    assert "people log in at https://example.com/mcp/authorize" in out
    assert (out.splitlines()[-1], err) == ("Clients can log in.", "")


@override_settings(MCP={"OAUTH_ORIGIN": "https://example.com"}, ALLOWED_HOSTS=["example.com"])
def test_the_command_finds_a_guard_before_the_endpoint(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_django.oauth.management.commands import mcp_oauth

    login = mcp_oauth.Found(302, {"location": "https://login.example/"}, b"<html>")
    monkeypatch.setattr(mcp_oauth, "_over_network", lambda url, body: login)
    out, err = StringIO(), StringIO()

    with pytest.raises(CommandError, match="Clients cannot log in"):
        call_command("mcp_oauth", "check", url="https://example.com/mcp", stdout=out, stderr=err)

    assert "redirects to https://login.example/. Something guards the URL with a login page" in err.getvalue()


@override_settings(MCP={"OAUTH_ORIGIN": "https://other.example"}, ALLOWED_HOSTS=["example.com", "other.example"])
def test_the_command_finds_a_resource_that_is_not_the_url(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_django.oauth.management.commands import mcp_oauth

    monkeypatch.setattr(mcp_oauth, "_over_network", mcp_oauth._in_process)
    out, err = StringIO(), StringIO()

    with pytest.raises(CommandError):
        call_command("mcp_oauth", "check", url="https://example.com/mcp", stdout=out, stderr=err)

    assert (
        "resource is https://other.example/mcp, and clients compare it with https://example.com/mcp" in err.getvalue()
    )
