"""A project with two sites: each has an authorization server of its own, whose tokens open no other endpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from mcp_django import sites
from mcp_django.models import Grant
from tests.oauth.flow import RESOURCE, Person, Program, code_in, error_in, params_in
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
