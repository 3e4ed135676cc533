"""What a client asks for with the parameters of OpenID Connect is done or refused, and never left out in silence."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mcp_django.oauth.models import AuthorizationCode
from tests.oauth.flow import Person, Program, code_in, hidden_in, params_in
from tests.support.data import Users

pytestmark = pytest.mark.usefixtures("users")


@pytest.fixture
def remembered(users: Users) -> Program:
    """A client that gets codes for a person who sees nothing."""
    program = Program()
    program.log_in(users.ops)
    assert "code" in params_in(Person(users.ops).open(program.url()))
    return program


def back_from_login(answer: Any) -> str:
    """Where the login page leads to."""
    assert answer.status_code == 302 and answer["Location"].startswith("/admin/login/?next="), answer
    [url] = parse_qs(urlsplit(answer["Location"]).query)["next"]
    return url


@pytest.mark.parametrize("asking", [{"prompt": "login"}, {"max_age": "0"}, {"max_age": "3600", "prompt": "login"}])
def test_using_the_open_session_of_a_person_who_must_log_in_again(
    users: Users, remembered: Program, asking: dict[str, str]
) -> None:
    person, url = Person(users.ops), remembered.url(**asking)
    before = AuthorizationCode.objects.count()

    page = person.open(url)
    forced = person.press(url, page, "allow", "read")
    again = person.press(url, page, "switch")
    logged_out = person.open(remembered.url())

    assert (page.status_code, forced.status_code) == (200, 200)
    assert "It asks you to log in once more." in page.content.decode() and 'value="allow"' not in page.content.decode()
    assert back_from_login(logged_out)
    assert AuthorizationCode.objects.count() == before
    # After the login, the request is answered: nobody is asked twice.
    person.browser.force_login(users.ops)
    assert params_in(person.open(back_from_login(again)))["state"] == remembered.state
    assert code_in(person.open(back_from_login(again)))


@pytest.mark.parametrize("asking", [{"prompt": "login"}, {"max_age": "0"}])
def test_whoever_was_logged_out_logs_in_once(users: Users, remembered: Program, asking: dict[str, str]) -> None:
    person = Person()
    back = back_from_login(person.open(remembered.url(**asking)))
    person.browser.force_login(users.ops)

    assert code_in(person.open(back))


def test_a_link_logs_nobody_out(users: Users, remembered: Program) -> None:
    person = Person(users.ops)
    url = remembered.url(prompt="login")
    page = person.open(url)

    foreign = person.browser.post(url, {**hidden_in(page), "csrfmiddlewaretoken": "", "decision": "switch"})

    assert foreign.status_code == 403
    assert code_in(person.open(remembered.url()))


@pytest.mark.parametrize("prompt", ["consent", "select_account", "consent select_account"])
def test_asking_a_person_who_is_remembered(users: Users, remembered: Program, prompt: str) -> None:
    page = Person(users.ops).open(remembered.url(prompt=prompt)).content.decode()

    assert 'value="allow"' in page and 'value="switch"' in page


@pytest.mark.parametrize(
    ("asking", "error"),
    [
        ({"prompt": "none login"}, "invalid_request"),
        ({"prompt": "none consent"}, "invalid_request"),
        ({"prompt": "none", "max_age": "3600"}, "login_required"),
        ({"prompt": "create"}, "invalid_request"),
        ({"prompt": "Login"}, "invalid_request"),
        ({"max_age": "-1"}, "invalid_request"),
        ({"max_age": "soon"}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"response_mode": "query.jwt"}, "invalid_request"),
        ({"request": "e30.e30."}, "request_not_supported"),
        ({"request_uri": "https://claude.ai/request"}, "request_uri_not_supported"),
        ({"registration": "{}"}, "registration_not_supported"),
        ({"id_token_hint": "e30.e30."}, "invalid_request"),
    ],
)
def test_what_is_not_done_is_refused(users: Users, remembered: Program, asking: dict[str, str], error: str) -> None:
    url = remembered.url(**asking)
    person = Person()
    answer = person.open(url)
    if "/admin/login/" in answer["Location"]:
        person.browser.force_login(users.ops)
        answer = person.open(back_from_login(answer))

    assert params_in(answer)["error"] == params_in(Person(users.ops).open(url))["error"] == error


def test_what_is_only_a_hint_changes_nothing(users: Users, remembered: Program) -> None:
    hints = {
        "response_mode": "query", "prompt": "", "max_age": "", "login_hint": "ops", "display": "page", "nonce": "n",
        "ui_locales": "de", "claims_locales": "de", "acr_values": "1", "claims": "{}", "made_up": "1",
    }  # fmt: skip

    assert code_in(Person(users.ops).open(remembered.url(**hints)))


def test_what_the_metadata_offers_is_answered(users: Users, remembered: Program, client: Any) -> None:
    offered = client.get("/.well-known/oauth-authorization-server").json()
    asked = [{"prompt": one} for one in offered["prompt_values_supported"]]
    asked += [{"response_mode": one} for one in offered["response_modes_supported"]]

    answers = [Person(users.ops).open(remembered.url(**one)) for one in asked]

    assert all(one.status_code == 200 or "code" in params_in(one) for one in answers)
