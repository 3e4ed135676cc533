"""The way from the first request to a call, where cookies and paths are not the usual ones."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.test import Client, override_settings
from django.test.utils import override_script_prefix

from tests.oauth.flow import CLAUDE, Person, Program, code_in, hidden_in
from tests.oauth.test_flow import PING, call
from tests.support.data import Users


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
    form = {
        "grant_type": "authorization_code", "code": code_in(person.press(url, page, "allow", "read")),
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
