"""The way from the first request to a call, where cookies and paths are not the usual ones."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.asgi import get_asgi_application as get_django_application
from django.test import Client, override_settings
from django.test.utils import override_script_prefix

from mcp_django.routing import get_asgi_application
from tests.oauth.flow import CLAUDE, Person, Program, code_in, hidden_in, params_in
from tests.oauth.test_flow import PING, call
from tests.support.asgi import ASGICall, decode_headers
from tests.support.data import Users
from tests.support.loop import LoopThread


def log_in(person: Person, name: str, way: str) -> str:
    """Send the form of the login page to which a person was led. Gives where it leads."""
    form = {**hidden_in(person.open(way)), "username": name, "password": name}
    return str(person.browser.post(way, form)["Location"])


@override_script_prefix("/app/")
def test_below_a_script_name(users: Users) -> None:
    program, person, server = Program(), Person(), Client(SCRIPT_NAME="/app")
    person.browser.defaults["SCRIPT_NAME"] = "/app"
    resource = "http://testserver/app/mcp"
    url = program.url(resource=resource)

    way = person.open(url)["Location"]
    assert way == "/app/admin/login/?" + urlencode({"next": f"/app{url}"})
    assert log_in(person, "ops", way.removeprefix("/app")) == f"/app{url}"
    page = person.open(url)
    assert '<a href="/app/mcp/connected">' in page.content.decode()
    answer = person.press(url, page, "allow", "read")
    assert params_in(answer)["iss"] == "http://testserver/app"
    form = {
        "grant_type": "authorization_code", "code": code_in(answer),
        "client_id": CLAUDE, "redirect_uri": program.redirect_uri, "code_verifier": program.verifier,
        "resource": resource,
    }  # fmt: skip
    sent: Any = server.post("/mcp/token", urlencode(form), content_type="application/x-www-form-urlencoded")
    headers = {"Authorization": f"Bearer {sent.json()['access_token']}", "Accept": "application/json"}

    assert server.post("/mcp", PING, content_type="application/json", headers=headers).status_code == 200
    assert call(sent.json()["access_token"]).status_code == 401, "it is for the resource below the prefix"


@override_settings(SESSION_COOKIE_SAMESITE="Strict")
def test_a_browser_that_keeps_its_cookie_from_where_the_client_sends_it(users: Users) -> None:
    """A person who comes from the client's page is asked to log in, and goes on from the site's own page."""
    program, person = Program(), Person()
    url = program.url()

    way = person.open(url)["Location"]
    back = log_in(person, "ops", way)
    answer = person.press(back, person.open(back), "allow", "read")

    assert back == url
    assert person.browser.cookies["sessionid"]["samesite"] == "Strict"
    assert call(program.exchange(code_in(answer)).json()["access_token"]).status_code == 200


@override_settings(LOGIN_URL="admin:index")
@override_script_prefix("/app/")
def test_a_login_page_of_the_project_below_a_script_name(db: None) -> None:
    answer = Client(SCRIPT_NAME="/app").get("/mcp/connected")

    assert answer["Location"] == "/app/admin/?next=%2Fapp%2Fmcp%2Fconnected"


# Proxies that end TLS, and prefixes that only the web server knows.


METADATA = "/.well-known/oauth-protected-resource/mcp"


@override_settings(SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"), USE_X_FORWARDED_HOST=True,
                   ALLOWED_HOSTS=["shop.example"])  # fmt: skip
def test_a_proxy_that_ends_tls(users: Users) -> None:
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.example", "Host": "10.0.0.1:8000"}
    client = Client(headers=proxied)

    document = client.get(METADATA).json()
    server = client.get("/.well-known/oauth-authorization-server").json()
    refused = client.post("/mcp", PING, content_type="application/json")

    assert document["resource"] == "https://shop.example/mcp"
    assert server["issuer"] == document["authorization_servers"][0] == "https://shop.example"
    assert server["token_endpoint"] == "https://shop.example/mcp/token"
    assert f'resource_metadata="https://shop.example{METADATA}"' in refused["WWW-Authenticate"]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_root_path_and_a_proxy_under_asgi(
    transactional_db: None, serving_loop: LoopThread, is_ours: bool, settings: Any
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    django = get_django_application()
    application = get_asgi_application(django) if is_ours else django
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/app/mcp", "raw_path": b"/app/mcp", "root_path": "/app", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"x-forwarded-proto", b"https"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 50000), "server": ("localhost", 80), "state": {},
    }  # fmt: skip

    async def ask() -> dict[str, str]:
        call = ASGICall(application, scope)
        await call.inbox.put({"type": "http.request", "body": b"{}", "more_body": False})
        start = await call.receive()
        assert start["status"] == 401
        return decode_headers(start["headers"])

    headers = serving_loop.run(ask())

    assert f'resource_metadata="https://localhost/app{METADATA}"' in headers["www-authenticate"]
