"""The system checks of logging in, and the command that walks the way of a client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from mcp_django.bridge import sites
from mcp_django.oauth.checks import check_deployment, check_settings


def ids(found: list[Any]) -> list[str]:
    return [message.id for message in found]


def test_a_wrong_setting_is_found() -> None:
    for wrong in (
        {"OAUTH_ORIGIN": "https://example.com/"}, {"OAUTH_ORIGIN": "https://example.com/mcp"},
        {"OAUTH_ORIGIN": "example.com"}, {"OAUTH_ORIGIN": "https://Example.com"}, {"OAUTH_ORIGIN": "https://example.com:443"},
        {"OAUTH_SCOPES": ["write-everything"]}, {"OAUTH_REGISTRATION": "yes"}, {"OAUTH_USERS": "staff"},
        {"OAUTH_GRACE_SECONDS": -1},
    ):  # fmt: skip
        with override_settings(MCP=wrong):
            assert ids(check_settings(None)) == ["mcp_django.E022"], wrong
    with override_settings(TEMPLATES=[]):
        assert ids(check_settings(None)) == ["mcp_django.E023"], "the pages cannot be shown"
    assert check_settings(None) == []


def test_what_would_keep_clients_of_a_deployment_away_is_found() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"MCP": {"OAUTH_ORIGIN": "http://example.com"}, "ALLOWED_HOSTS": ["example.com"]}, "is http"),
        ({"MCP": {"OAUTH_ORIGIN": "https://example.com"}, "ALLOWED_HOSTS": ["localhost"]}, "ALLOWED_HOSTS lacks"),
        ({"ALLOWED_HOSTS": ["*"]}, "admits every host"),
        ({"MCP": {"TRUSTED_PROXIES": 1}}, "SECURE_PROXY_SSL_HEADER"),
        ({"MCP": {"OAUTH_REGISTRATION": "open"}}, "is open"),
        ({"SESSION_COOKIE_SAMESITE": "Strict"}, "SESSION_COOKIE_SAMESITE"),
    ]  # fmt: skip
    for wrong, found in cases:
        with override_settings(**wrong):
            [message] = check_deployment(None)
        assert (message.id, found in message.msg, bool(message.hint)) == ("mcp_django.W023", True, True), found


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


def refused(**options: Any) -> tuple[str, str]:
    """What the command says of an endpoint where clients cannot log in."""
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match="Clients cannot log in"):
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


@override_settings(MCP={"OAUTH_ORIGIN": "https://other.example"}, ALLOWED_HOSTS=["example.com", "other.example"])
def test_the_command_finds_a_resource_that_is_not_the_url(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_django.oauth.management.commands import mcp_oauth

    monkeypatch.setattr(mcp_oauth, "_over_network", mcp_oauth._in_process)

    _, err = refused(url="https://example.com/mcp")

    assert "resource is https://other.example/mcp, and clients compare it with https://example.com/mcp" in err


# The command below a prefix, behind redirects, and where the settings are wrong.


STAFF = "https://example.com/staff"
BELOW = {"MCP": {"OAUTH_ORIGIN": "https://example.com"}, "ALLOWED_HOSTS": ["example.com"]}


@override_settings(ROOT_URLCONF="tests.oauth.below_a_prefix", **BELOW)
def test_the_documents_that_are_not_at_the_root_are_missed_and_that_of_openid_is_asked_for(db: None) -> None:
    out, err = refused()

    missed = "https://example.com/.well-known/oauth-protected-resource/staff/mcp"
    assert f"GET {missed}: 404" in out
    assert f"! {missed} is no document of ours." in err
    assert out.splitlines()[-4:] == [
        "GET https://example.com/.well-known/oauth-authorization-server/staff: 404",
        f"GET {STAFF}/.well-known/openid-configuration: 200",
        f"    issuer: {STAFF}",
        f"    people log in at {STAFF}/mcp/authorize",
    ]


@override_settings(ROOT_URLCONF="tests.oauth.below_a_prefix_with_documents", **BELOW)
def test_the_documents_at_the_root_are_found(db: None) -> None:
    out, err = walk()

    assert "GET https://example.com/.well-known/oauth-protected-resource/staff/mcp: 200" in out
    assert "GET https://example.com/.well-known/oauth-authorization-server/staff: 200" in out
    assert (out.splitlines()[-1], err) == ("Clients can log in.", "")


def test_what_is_wrong_with_the_settings_is_said_too(db: None) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"OAUTH_REGISTRATION": "open"}, "! MCP['OAUTH_REGISTRATION'] is open"),
        ({"OAUTH_GRACE_SECONDS": -1}, "! MCP['OAUTH_GRACE_SECONDS'] is negative."),
    ]
    for setting, problem in wrong:
        with override_settings(MCP={**BELOW["MCP"], **setting}, ALLOWED_HOSTS=BELOW["ALLOWED_HOSTS"]):
            out, err = walk()
        assert err.startswith(problem)
        assert out.splitlines()[-1] == "Clients can log in, but see above."


class Guard:
    """A server that leads everybody to its login page."""

    def __init__(self) -> None:
        self.asked = asked = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(f"POST {self.path}")
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(302)
                self.send_header("Location", "/login")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                asked.append(f"GET {self.path}")
                self.send_error(404)

            def log_message(self, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/mcp"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guard]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Guard()
    yield made
    made.close()


def test_a_redirect_is_named_and_not_followed(db: None, guard: Guard) -> None:
    _, err = refused(url=guard.url)

    assert guard.asked == ["POST /mcp"]
    assert "it redirects to /login. Something guards the URL with a login page" in err
