"""``manage.py mcp_oauth check`` below a prefix, behind redirects, and where the settings are wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from tests.oauth.test_checks import walk

STAFF = "https://example.com/staff"
BELOW = {"MCP": {"OAUTH_ORIGIN": "https://example.com"}, "ALLOWED_HOSTS": ["example.com"]}


def refused(**options: Any) -> tuple[str, str]:
    """What the command says of an endpoint where clients cannot log in."""
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match="Clients cannot log in"):
        call_command("mcp_oauth", "check", stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


@override_settings(ROOT_URLCONF="tests.oauth.below_a_prefix", **BELOW)
def test_the_documents_that_are_not_at_the_root_are_missed(db: None) -> None:
    out, err = refused()

    missed = "https://example.com/.well-known/oauth-protected-resource/staff/mcp"
    assert f"GET {missed}: 404" in out
    assert f"! {missed} is no document of ours." in err


@override_settings(ROOT_URLCONF="tests.oauth.below_a_prefix", **BELOW)
def test_the_document_of_openid_is_asked_for_where_the_other_one_is_missing(db: None) -> None:
    out, _ = refused()

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


@pytest.mark.parametrize(("wrong", "problem"), [
    ({"OAUTH_REGISTRATION": "open"}, "! MCP['OAUTH_REGISTRATION'] is open"),
    ({"OAUTH_GRACE_SECONDS": -1}, "! MCP['OAUTH_GRACE_SECONDS'] is negative."),
])  # fmt: skip
def test_what_is_wrong_with_the_settings_is_said_too(db: None, wrong: dict[str, Any], problem: str) -> None:
    with override_settings(MCP={**BELOW["MCP"], **wrong}, ALLOWED_HOSTS=BELOW["ALLOWED_HOSTS"]):
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
