"""Everybody who may connect agents makes tokens within SELF_SERVICE, and ends their own, on the page *My agent*."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, modify_settings
from django.views.debug import ExceptionReporter

from mcp_django.audit.recorder import recorder
from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.console.pages import own_page as views
from mcp_django.console.pages import own_tokens
from mcp_django.models import AccessToken, Call, UsedNonce
from mcp_django.models.tokens import NEVER
from tests.checks.conftest import of
from tests.console.visiting import READ_ONLY, client_of, text_of
from tests.oauth.test_flow import call
from tests.support.data import Users, make_staff
from tests.support.forms import Form

pytestmark = pytest.mark.django_db

URL = "/mcp/connected"


@pytest.fixture(autouse=True)
def _scopes(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read", "model:flights.flight:read"]}


def new(**posted: Any) -> dict[str, Any]:
    return {"do": "make", "name": "laptop", "scopes": ["read"], "lifetime": "7", "nonce": new_nonce(), **posted}


def made_by(user: User, /, **posted: Any) -> str:
    """The token that the page shows to a user who fills in the form."""
    page = client_of(user).post(URL, new(**posted)).content.decode()
    return re.findall(r"mcpdj_[0-9A-Za-z]{49}", page)[0]


def token_of(user: User, **changes: Any) -> AccessToken:
    token, _ = AccessToken.objects.create_token(user=user, name="laptop", expires_at=NEVER)
    AccessToken.objects.filter(pk=token.pk).update(**changes)
    return token


# Making.


def test_staff_without_any_permission_make_a_token_that_acts_as_them() -> None:
    clerk = make_staff("clerk")

    plain = made_by(clerk)

    token = AccessToken.objects.get()
    assert (token.user, token.name, token.scopes) == (clerk, "laptop", ["read"])
    assert token.expires_at is not None
    assert round((token.expires_at - token.created_at) / timedelta(days=1)) == 7
    assert call(plain).status_code == 200
    assert client_of(clerk).get("/admin/mcp_django/accesstoken/").status_code == 403


def test_the_token_of_somebody_who_acts_as_its_user_and_is_deleted_since_is_not_the_users_own(users: Users) -> None:
    support = make_staff("support")
    browser = client_of(users.viewer)
    session = browser.session
    session["hijack_history"] = [str(support.pk)]
    session.save()
    support.delete()

    browser.post(URL, new())

    assert all(token.is_made_by_another for token in AccessToken.objects.all())


def test_the_answer_shows_the_token_once_with_the_clients_and_no_cache_keeps_it(users: Users) -> None:
    answer = client_of(users.viewer).post(URL, new())

    page = answer.content.decode()
    assert "no-store" in answer["Cache-Control"] and "claude mcp add" in page and "data-copy" in page
    assert re.search(r"mcpdj_\w{49}", page)
    assert not re.search(r"mcpdj_\w{49}", client_of(users.viewer).get(URL).content.decode())


#: What the form sends beside the usual.
MORE: list[dict[str, Any]] = [
    {"scopes": ["read", "actions"]}, {"scopes": ["write"]}, {"scopes": ["model:flights.airport:read"]},
    {"scopes": ["tool:find_records"]}, {"scopes": []}, {"scopes": [""]}, {"scopes": ["*"]},
    {"lifetime": "never"}, {"lifetime": "date"}, {"lifetime": "3650"}, {"lifetime": "-1"}, {"lifetime": ""},
    {"name": ""}, {"name": "x" * 101}, {"name": "\0"}, {"nonce": ""}, {"nonce": "forged:1:x"},
]  # fmt: skip


@pytest.mark.every_database
def test_asking_for_more_than_is_offered(users: Users, settings: Any) -> None:
    def refused(**posted: Any) -> bool:
        return 'class="errorlist' in client_of(users.ops).post(URL, new(**posted)).content.decode()

    assert [posted for posted in MORE if not refused(**posted)] == []
    for days, lifetime in ((30, "90"), (0, "0")):
        settings.MCP = {**settings.MCP, "TOKEN_MAX_DAYS": days}
        assert refused(lifetime=lifetime), days
    assert not AccessToken.objects.exists()


def test_naming_another_user(users: Users) -> None:
    made_by(users.viewer, user=users.admin.pk)
    made_by(users.viewer, user="admin", expires_at="", limits="{}", addresses="")

    assert [token.user for token in AccessToken.objects.all()] == [users.viewer] * 2


@pytest.mark.every_database
def test_sending_the_form_again_makes_no_second_token(users: Users) -> None:
    client, posted = client_of(users.ops), new()
    client.post(URL, posted)

    again = client.post(URL, posted)

    assert "No second one was made" in again.content.decode()
    assert AccessToken.objects.count() == 1


def test_nonces_that_have_expired_are_forgotten(users: Users) -> None:
    UsedNonce.objects.create(nonce="old", expires_at="2001-01-31T00:00:00Z")

    client_of(users.ops).post(URL, new())

    assert not UsedNonce.objects.filter(nonce="old").exists()


def test_nobody_makes_any_number_of_tokens(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_tokens, "MOST", 2)
    client, last = client_of(users.ops), new()
    made_by(users.ops)
    client.post(URL, last)

    assert "You have 2 tokens" in client.post(URL, new()).content.decode()
    assert "No second one was made" in client.post(URL, last).content.decode()
    assert AccessToken.objects.count() == 2


@pytest.mark.parametrize("url", [URL, "/admin/mcp_django/accesstoken/add/"])
def test_reading_a_new_token_in_the_report_of_an_error(users: Users, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The token is valid although its page could not be shown."""
    made: list[str] = []

    def fail(*_: Any, token: str, **__: Any) -> Any:
        made.append(token)
        raise LookupError

    for module in ("console.pages.own_page", "console.admin.tokens"):
        monkeypatch.setattr(f"mcp_django.{module}.client_setups", fail)
    posted = new(user=users.admin.pk)

    with pytest.raises(LookupError) as raised:
        client_of(users.admin).post(url, posted)

    # Without the frame of this test, which has it.
    report = ExceptionReporter(None, raised.type, raised.value, raised.tb.tb_next).get_traceback_html()
    assert "client_setups" in report and made[0] not in report


def test_the_trail_says_who_made_it(
    users: Users, trail: None, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        made_by(users.ops)

    recorder.flush()
    line = Call.objects.get(kind=Call.Kind.TOKEN)
    assert (line.reason, line.user_id, line.token_id) == ("created", str(users.ops.pk), AccessToken.objects.get().pk)


# Who may.


def test_a_user_who_is_no_staff_makes_a_token_that_may_no_more_than_that_user(users: Users) -> None:
    guest = User.objects.create_user("guest")

    plain = made_by(guest)

    token = AccessToken.objects.get()
    assert (token.user, token.scopes, token.expires_at is not None) == (guest, ["read"], True)
    assert call(plain).status_code == 200
    assert client_of(guest).get("/admin/").status_code == 302


#: Who may make none → the settings, and the user.
NOBODY: dict[str, tuple[dict[str, Any], Callable[[Users], User]]] = {
    "nobody, without the setting": ({"SELF_SERVICE": []}, lambda users: users.admin),
    "who may connect none, by a permission": ({"OAUTH_USERS": "flights.no_such"}, lambda users: users.ops),
    "who may connect none, by a function": ({"OAUTH_USERS": lambda user: user.is_staff},
                                            lambda _: User.objects.create_user("guest")),
}  # fmt: skip


@pytest.mark.parametrize("who", NOBODY)
def test_making_a_token_without_being_allowed_to(users: Users, settings: Any, who: str) -> None:
    more, user_of = NOBODY[who]
    settings.MCP = {**settings.MCP, **more}
    client = client_of(user_of(users))

    assert 'value="make"' not in client.get(URL).content.decode()
    assert client.post(URL, new()).status_code == 404
    assert not AccessToken.objects.exists()


def test_a_user_who_was_deactivated_makes_none(users: Users) -> None:
    client = client_of(users.ops)
    User.objects.filter(pk=users.ops.pk).update(is_active=False)

    assert client.post(URL, new()).status_code == 302
    assert not AccessToken.objects.exists()


def test_a_form_of_another_page(users: Users) -> None:
    client = client_of(users.admin, enforce_csrf_checks=True)

    for posted in (new(), {"do": "revoke", "key": "1"}, {"do": "test", "token": "x"}):
        assert client.post(URL, posted).status_code == 403, posted["do"]


def test_a_stranger_is_sent_to_the_login_and_so_is_the_bearer_of_a_token(users: Users) -> None:
    bearer = {"authorization": f"Bearer {made_by(users.admin)}"}

    for answer in (Client().get(URL), Client().post(URL, new()), Client().post(URL, new(), headers=bearer)):
        assert (answer.status_code, answer["Location"]) == (302, "/admin/login/?next=%2Fmcp%2Fconnected")
    assert AccessToken.objects.count() == 1


def test_what_the_page_does_not_know_is_refused(users: Users) -> None:
    client = client_of(users.admin)

    answers = [client.put(URL), client.delete(URL), client.post(URL, {}), client.post(URL, {"do": "roll"})]

    assert [answer.status_code for answer in answers] == [405, 405, 400, 400]


# The list.


def test_people_see_their_own_tokens_that_are_valid(users: Users) -> None:
    token_of(users.ops, name="mine")
    token_of(users.ops, name="<script>x</script>")
    token_of(users.ops, name="gone", revoked_at="2026-01-31T00:00:00Z")
    token_of(users.ops, name="over", expires_at="2026-01-31T00:00:00Z")
    token_of(users.admin, name="theirs")

    markup = client_of(users.ops).get(URL).content.decode()
    page = text_of(markup)

    assert "mine" in page and "It never ends." in page and "<script>x" not in markup
    assert not {"gone", "over", "theirs"} & set(page.split())


def test_no_page_lists_any_number_of_tokens(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "LISTED", 2)
    for name in ("first", "second", "third"):
        token_of(users.ops, name=name)

    page = text_of(client_of(users.ops).get(URL).content.decode())

    listed = page.partition("Tokens")[2].partition("Make a token")[0]
    assert "third" in listed and "second" in listed and "first" not in listed
    assert "1 older token is not listed" in page


# Revoking.


def test_people_revoke_their_own_tokens_whoever_made_them(
    users: Users, trail: None, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    token = token_of(users.viewer)

    with django_capture_on_commit_callbacks(execute=True):
        page = client_of(users.viewer).post(URL, {"do": "revoke", "key": token.pk}, follow=True)

    assert "“laptop” was revoked" in page.content.decode()
    token.refresh_from_db()
    assert token.revoked_at is not None
    recorder.flush()
    line = Call.objects.get(kind=Call.Kind.TOKEN, reason="revoked")
    assert line.user_id == str(users.viewer.pk)


@pytest.mark.every_database
def test_revoking_what_is_somebody_elses(users: Users) -> None:
    theirs = token_of(users.admin)

    for key in ("{}", "0{}", " {}", "{}.0", "", "-1", "9" * 30, "\0", "None"):
        answer = client_of(users.ops).post(URL, {"do": "revoke", "key": key.format(theirs.pk)}, follow=True)
        assert "was revoked" not in answer.content.decode(), key
    theirs.refresh_from_db()
    assert theirs.revoked_at is None


# Testing.


def test_a_new_token_is_tested_and_so_is_one_whose_group_of_scopes_is_gone(users: Users, flights: Any) -> None:
    plain = made_by(users.ops)

    def tested() -> str:
        return text_of(client_of(users.ops).post(URL, {"do": "test", "token": plain}).content.decode())

    page = tested()
    AccessToken.objects.update(scopes=["read", "gone"])

    assert "valid" in page and "acts as ops" in page and "Models: 6" in page
    assert "Scopes: read" in tested().replace(" :", ":")


def test_testing_a_token_that_acts_as_somebody_else(users: Users) -> None:
    for plain in (made_by(users.admin), "mcpdj_00000000000000000000000000000000000000000002CZclj"):
        page = client_of(users.ops).post(URL, {"do": "test", "token": plain}).content.decode()
        assert "would refuse this token" in page and "acts as" not in page, plain


# The setting.


def test_the_form_offers_what_the_setting_names_in_words_and_groups_of_scopes_by_their_names(
    users: Users, settings: Any
) -> None:
    page = client_of(users.viewer).get(URL).content.decode()
    groups = {"sales": ["model:flights.flight:read", "model:flights.airline:read"]}
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["reed", "actions", "sales"], "SCOPE_GROUPS": groups}
    made_by(users.ops, scopes=["sales"])

    assert Form(page).boxes == {"read": True, "model:flights.flight:read": False}
    assert "Read 1 model: Flights" in text_of(page)
    # What is no scope is not offered.
    assert [*Form(client_of(users.ops).get(URL).content.decode()).boxes] == ["actions", "sales"]
    assert AccessToken.objects.get().scopes == ["sales"]


def test_where_no_agent_may_change_data_the_form_says_so_beside_the_scopes(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read", "actions"]}
    before = text_of(client_of(users.ops).get(URL).content.decode())

    settings.MCP = {**settings.MCP, "READ_ONLY": True}
    page = client_of(users.ops).get(URL).content.decode()

    assert "Run 1 action" in before and READ_ONLY not in before
    assert f"It may {READ_ONLY}" in text_of(page) and "Nothing that you may do at present (actions)" in page
    assert 'name="scopes" value="actions"' in page


def test_the_check_names_a_middleware_without_which_nobody_can_log_in(settings: Any) -> None:
    def told() -> list[str]:
        return [found.msg for found in of("E023") if "MIDDLEWARE" in found.msg]

    all_of_them = settings.MIDDLEWARE
    for missing in ("AuthenticationMiddleware", "SessionMiddleware"):
        settings.MIDDLEWARE = [one for one in all_of_them if not one.endswith(missing)]
        assert told() == [f"Nobody can log in: MIDDLEWARE has no {missing}."]
    with modify_settings(INSTALLED_APPS={"remove": "mcp_django.oauth"}):
        assert told()
        settings.MCP = {**settings.MCP, "SELF_SERVICE": []}
        assert not told()


# Without the app by which clients log in.


@pytest.fixture
def _without_logins() -> Iterator[None]:
    with modify_settings(INSTALLED_APPS={"remove": "mcp_django.oauth"}):
        yield


@pytest.mark.usefixtures("_without_logins")
def test_the_page_is_there_for_tokens_alone() -> None:
    clerk = make_staff("clerk")

    page = client_of(clerk).get(URL).content.decode()

    assert "Connected apps" not in page and 'value="make"' in page
    assert call(made_by(clerk)).status_code == 200


@pytest.mark.usefixtures("_without_logins")
def test_with_neither_people_see_what_acts_for_them_and_connect_nothing(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SELF_SERVICE": []}
    token_of(users.viewer, name="made for me")

    page = text_of(client_of(users.viewer).get(URL).content.decode())

    assert "made for me" in page and "You may not connect an agent yourself." in page
    assert "claude mcp add" not in page and "Make a token" not in page
    assert Client().get(URL).status_code == 302
    assert client_of(users.viewer).post(URL, new()).status_code == 404


@pytest.mark.usefixtures("_without_logins")
def test_a_stranger_at_the_endpoint_is_led_to_the_login(settings: Any) -> None:
    page = Client().get("/mcp", headers={"accept": "text/html"}).content.decode()

    assert f'<a href="{URL}">Log in</a> to make one' in page
    settings.MCP = {**settings.MCP, "SELF_SERVICE": []}
    page = Client().get("/mcp", headers={"accept": "text/html"}).content.decode()
    assert "to make one" not in page and f'<a href="{URL}">Log in to see your agent</a>' in page


# The way to it.


def test_the_page_at_the_endpoint_leads_to_it(users: Users, settings: Any) -> None:
    for scopes in (["read"], []):
        settings.MCP = {**settings.MCP, "SELF_SERVICE": scopes}
        for browser in (client_of(users.viewer), Client()):
            page = browser.get("/mcp", headers={"accept": "text/html"}).content.decode()

            assert page.count(f'href="{URL}"') == 1
