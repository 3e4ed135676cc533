"""A project with two sites: each has an authorization server of its own, whose tokens open no other endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from mcp_django.bridge import sites
from mcp_django.models import Grant
from tests.oauth.flow import RESOURCE, Person, Program, code_in, error_in, hidden_in, params_in, post
from tests.oauth.test_flow import call
from tests.support.data import Users

STAFF = "http://testserver/staff/mcp"


@pytest.fixture(autouse=True)
def two_sites(users: Users) -> Iterator[None]:
    with override_settings(ROOT_URLCONF="tests.oauth.two_sites"):
        from tests.oauth import two_sites

        sites._sites.add(two_sites.staff)
        yield
        sites._sites.discard(two_sites.staff)


def test_each_has_its_own_documents_and_challenges() -> None:
    browser = Client()

    assert browser.get("/.well-known/oauth-protected-resource/mcp").json()["resource"] == RESOURCE
    assert browser.get("/staff/.well-known/oauth-protected-resource/mcp").json()["resource"] == STAFF
    assert browser.get("/staff/.well-known/oauth-authorization-server").json()["issuer"] == "http://testserver/staff"
    assert "/staff/.well-known/oauth-protected-resource/mcp" in call(path="/staff/mcp")["WWW-Authenticate"]


def test_a_token_of_one_opens_no_other(users: Users) -> None:
    tokens = Program().log_in(users.ops)

    assert call(tokens["access_token"]).status_code != 401
    assert call(tokens["access_token"], path="/staff/mcp").status_code == 401
    assert call(tokens["access_token"], path="/staff/mcp/ticket").status_code == 401


def test_each_connection_is_shown_with_its_endpoint_and_disconnected_by_itself(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    program.log_in(users.ops)
    staff = "/staff" + program.url(resource=STAFF)
    code = code_in(person.press(staff, person.open(staff), "allow", "read"))
    form = {"grant_type": "authorization_code", "code": code, "client_id": program.client_id, "resource": STAFF}
    post("/staff/mcp/token", {**form, "redirect_uri": program.redirect_uri, "code_verifier": program.verifier})

    page = person.open("/mcp/connected")
    ours = {**hidden_in(page), "client": program.client_id, "resource": STAFF}
    person.browser.post("/mcp/connected", ours)

    text = page.content.decode()
    assert f"At {RESOURCE}." in text and f"At {STAFF}." in text
    assert re.search(r"<li>Use \d tool that reads[;:] ", text), "of this site"
    assert "<li>read</li>" in text, "of the other one"
    assert list(Grant.objects.current().values_list("resource", flat=True)) == [RESOURCE]


def test_a_code_or_a_refresh_token_of_one_is_worth_nothing_at_the_other(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    url = "/staff" + program.url(resource=STAFF)

    assert params_in(person.open("/staff" + program.url()))["error"] == "invalid_target"
    answer = person.press(url, person.open(url), "allow", "read")
    assert params_in(answer)["iss"] == "http://testserver/staff"
    code = code_in(answer)

    # The client names the resource of the wrong server, that of the right one, or none.
    assert error_in(program.exchange(code)) == (400, "invalid_grant")
    assert error_in(program.exchange(code, resource=STAFF)) == (400, "invalid_target")
    assert error_in(program.exchange(code, resource=None)) == (400, "invalid_grant")
    assert not Grant.objects.exists()


def test_a_consent_at_one_is_not_remembered_at_the_other(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    program.log_in(users.ops)

    here, there = person.open(program.url()), person.open("/staff" + program.url(resource=STAFF))

    assert (here.status_code, there.status_code) == (302, 200)


def test_refreshing_a_token_of_one_at_the_other(users: Users) -> None:
    program = Program()
    form = {"grant_type": "refresh_token", "client_id": program.client_id}
    form["refresh_token"] = program.log_in(users.ops)["refresh_token"]

    refused = post("/staff/mcp/token", {**form})

    assert error_in(refused) == (400, "invalid_grant")
    assert post("/mcp/token", {**form}).status_code == 200
