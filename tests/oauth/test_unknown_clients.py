"""Clients that nobody knows: anybody can publish a document, and lead people from this site to wherever it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from django.utils.html import escape

from mcp_django.models import Grant
from mcp_django.oauth import documents, fetching
from mcp_django.oauth.fetching import Fetched
from mcp_django.oauth.models import Client
from tests.oauth.flow import CLAUDE_CODE, ISSUER, LOCAL_REDIRECT, Person, Program, boxes_in, code_in, params_in
from tests.oauth.test_attacks import is_page, registered
from tests.support.data import Users
from tests.support.forms import Form

URL, REDIRECT = "https://client.example/client.json", "https://client.example/back"


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Each document says what its URL says, and its redirect is beside it. Gives the URLs that are asked for."""
    asked: list[str] = []

    def fetch(url: str) -> Fetched:
        asked.append(url)
        folder = url.rpartition("/")[0]
        return Fetched(f'{{"client_id": "{url}", "redirect_uris": ["{folder}/back"]}}'.encode(), 0.0)

    documents._kept.clear()
    monkeypatch.setattr(fetching, "fetch", fetch)
    yield asked
    documents._kept.clear()


def program_at(url: str = URL) -> Program:
    return Program(url, f"{url.rpartition('/')[0]}/back")


# Clients whose document cannot be fetched.


CODEX_APP, AT_HOME = "https://chatgpt.com/oauth/codex/AbC/client.json", "http://127.0.0.1:4711/callback/AbC"


def away(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fetch(url: str) -> Fetched:
        raise error

    documents._kept.clear()
    monkeypatch.setattr(fetching, "fetch", fetch)


def test_a_program_whose_document_is_out_of_reach_comes_as_one_that_registers_itself(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch, fetching.Unreachable("chatgpt.com could not be reached."))
    program, person = Program(CODEX_APP, AT_HOME), Person(users.ops)

    page = person.open(program.url())
    tokens = program.log_in(users.ops)
    again = program.refresh(tokens["refresh_token"])

    text = " ".join(page.content.decode().split())
    assert "says that it is from chatgpt.com. This is unproven" in text and "<strong>chatgpt.com" not in text
    assert again.status_code == 200
    [grant], [client] = Grant.objects.all(), Client.objects.all()
    assert grant.client == client.key and client.key.startswith("unproven:") and grant.client_host == ""
    assert (client.registered_by, client.redirect_uris) == ("unproven", ["http://127.0.0.1/callback/AbC"])
    # It is asked each time.
    assert Person(users.ops).open(program.url()).status_code == 200
    assert program.exchange("x").status_code == 400


def test_only_a_program_of_the_own_machine_comes_so_and_where_such_a_one_may_register(
    users: Users, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    unreachable = fetching.Unreachable("It could not be reached.")
    refused: list[tuple[str, Exception, str]] = [
        (AT_HOME, fetching.FetchError("It could not be reached."), "known"),  # Also of an address inside.
        (AT_HOME, fetching.FetchError("It answered with the status 404."), "open"),
        (AT_HOME, fetching.Busy("Too many."), "open"),
        (AT_HOME, unreachable, "off"),
        ("https://client.example/back", unreachable, "open"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", unreachable, "open"),
    ]
    for redirect, error, mode in refused:
        away(monkeypatch, error)
        settings.MCP = {**settings.MCP, "OAUTH_REGISTRATION": mode}
        answer = Person(users.ops).open(Program(CODEX_APP, redirect).url())
        assert answer.status_code == 400, (redirect, error, mode)
    away(monkeypatch, unreachable)
    settings.MCP = {**settings.MCP, "OAUTH_REGISTRATION": "known"}
    assert Person().open(Program(CODEX_APP, AT_HOME).url()).status_code == 302  # The person logs in first.
    assert not Client.objects.exists()


def test_an_unproven_client_has_nothing_of_the_real_one(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the server from the host of a client gets neither its consent nor its tokens."""
    real = fetching.fetch
    program = Program(URL, REDIRECT)
    tokens = program.log_in(users.ops)
    away(monkeypatch, fetching.Unreachable("It could not be reached."))
    impostor = Program(URL, AT_HOME)

    page = Person(users.ops).open(impostor.url())
    mine = impostor.log_in(users.ops)

    assert boxes_in(page) == {"read": True} and page.status_code == 200
    assert {grant.client for grant in Grant.objects.current()} == {
        URL,
        Client.objects.get(registered_by="unproven").key,
    }
    assert program.refresh(tokens["refresh_token"]).status_code == 200
    # Blocking the client blocks who claims to be it.
    Client.objects.get(key=URL).block()
    assert impostor.refresh(mine["refresh_token"]).status_code == 400
    assert Person(users.ops).open(impostor.url()).status_code == 400
    monkeypatch.setattr(fetching, "fetch", real)


WRONG = {"code_challenge_method": "plain"}


def test_leading_a_person_elsewhere_by_a_mistake(users: Users) -> None:
    mistakes: list[dict[str, str]] = [WRONG, {"prompt": "none"}, {"resource": "https://evil.example/mcp"}]
    for changes in mistakes:
        answer = Person(users.ops).open(program_at().url(**changes))

        assert is_page(answer), changes
        # The person may go there, and sees where that is.
        assert f'<a href="{REDIRECT}?error=' in answer.content.decode()
        assert "Go back to client.example" in answer.content.decode()


@override_settings(MCP={"OAUTH_REGISTRATION": "open"})
def test_leading_somebody_who_is_not_logged_in_elsewhere(users: Users) -> None:
    program = Program(registered(REDIRECT), REDIRECT)

    loud, silent = (Person().open(program.url(**WRONG, **more)) for more in ({}, {"prompt": "none"}))

    assert loud["Location"].startswith("/admin/login/")
    assert is_page(silent)


def test_a_client_that_the_person_has_let_in_is_told_its_mistakes(users: Users) -> None:
    program_at().log_in(users.ops)

    answer = Person(users.ops).open(program_at().url(**WRONG))

    assert (params_in(answer)["error"], params_in(answer)["iss"]) == ("invalid_request", ISSUER)


def test_a_person_who_comes_from_the_login_form_is_shown_the_page_though_they_have_agreed_before(users: Users) -> None:
    """The policy of the login page may forbid Chromium every redirect to another host after its form."""
    Program().log_in(users.ops)
    browser = Person(users.ops).browser

    answers = [browser.get(Program().url(), headers={"Sec-Fetch-Site": site}) for site in ("same-origin", "cross-site")]

    assert [answer.status_code for answer in answers] == [200, 302]


def test_what_the_person_decides_is_always_told(users: Users) -> None:
    person, url = Person(users.ops), program_at().url()

    answer = person.press(url, person.open(url), "deny")

    assert params_in(answer)["error"] == "access_denied"
    assert answer["Location"].startswith(f"{REDIRECT}?")


@pytest.mark.every_database
def test_another_document_whose_url_differs_by_capitals_alone(users: Users) -> None:
    """Some databases compare without regard to case."""
    alice, eve = program_at("https://host.example/Alice/c"), program_at("https://host.example/alice/c")
    alice.log_in(users.ops)

    shown = Person(users.ops).open(eve.url())
    eve.log_in(users.ops)

    assert shown.status_code == 200
    assert Client.objects.count() == Grant.objects.values("client").distinct().count() == 2
    assert {one.client_host for one in Grant.objects.all()} == {"host.example"}
    code = code_in(Person(users.ops).allow(alice.url(prompt="consent"), "read"))
    assert eve.exchange(code, redirect_uri=alice.redirect_uri, code_verifier=alice.verifier).status_code == 400
    assert alice.exchange(code).status_code == 200


def only_admin(user: Any) -> bool:
    return bool(user.username == "admin")


@override_settings(MCP={"OAUTH_USERS": only_admin})
@pytest.mark.parametrize("program", [program_at(), Program()], ids=["unknown", "known"])
def test_a_person_who_may_connect_nothing_makes_the_server_fetch_nothing_and_can_log_in_as_another(
    users: Users, published: list[str], program: Program
) -> None:
    person, url = Person(users.ops), program.url()

    page = person.open(url)
    answer = person.press(url, page, "switch")

    assert page.status_code == 403
    assert published == []
    assert "decision" in Form(page.content.decode()).names
    assert answer["Location"].startswith("/admin/login/?next=%2Fmcp%2Fauthorize")


def test_a_browser_that_claims_another_charset(users: Users) -> None:
    person = Person(users.ops)
    for charset in ("utf-7", "rot13", "utf-16"):
        claim = f"x/y; charset={charset}"
        odd = person.browser.get("/mcp/authorize?client_id=%2B2AA-&redirect_uri=x", content_type=claim)
        good = person.browser.get(Program().url(), content_type=claim)
        assert is_page(odd) and good.status_code == 200, charset


def test_the_login_page_is_that_of_the_project(users: Users) -> None:
    for login, expected in (
        ("https://sso.example/login", "https://sso.example/login?next=http%3A%2F%2Ftestserver%2Fmcp%2F"),
        ("/no/such/page/", "/admin/login/?next=%2F"), ("admin:login", "/admin/login/?next=%2F"),
    ):  # fmt: skip
        with override_settings(LOGIN_URL=login):
            assert Person().open(Program().url())["Location"].startswith(expected)


@pytest.mark.every_database
def test_a_host_that_has_a_long_name_and_no_other_one(users: Users) -> None:
    long = f"https://{'a' * 60}.{'b' * 60}.example/c"

    program_at(long).log_in(users.ops)

    assert Grant.objects.get().client == long


@pytest.mark.every_database
def test_a_registered_name_is_shown_as_it_was_sent(users: Users) -> None:
    for name in ("Zoë's Programm", "ä" * 60, "😀" * 100):
        program = Program(registered(LOCAL_REDIRECT, client_name=name), LOCAL_REDIRECT)

        page = Person(users.ops).open(program.url()).content.decode()
        program.log_in(users.ops)

        assert f"<bdi>{escape(name)}</bdi>" in page
        assert Grant.objects.latest("pk").client_name == name


def test_a_client_that_was_let_in_under_looser_rules_is_not_known_any_more(users: Users) -> None:
    with override_settings(MCP={"OAUTH_REGISTRATION": "open"}):
        program = Program(registered(REDIRECT), REDIRECT)
        program.log_in(users.ops)

    assert is_page(Person(users.ops).open(program.url()))


def test_the_boxes_of_an_impostor_on_the_own_machine_start_empty(users: Users) -> None:
    local, remote = Program(CLAUDE_CODE, LOCAL_REDIRECT), Program()
    for program in (local, remote):
        program.log_in(users.ops, "read", "actions", asks="read actions")

    shown = [Person(users.ops).open(one.url(scope="read actions", prompt="consent")) for one in (local, remote)]

    assert [boxes_in(page)["actions"] for page in shown] == [False, True]


def test_a_host_with_a_port_that_is_none(users: Users) -> None:
    browser = Person().browser
    for host in ("testserver:99999", "testserver:0x1"):
        for path in ("/mcp/token", "/mcp", "/.well-known/oauth-protected-resource/mcp"):
            assert browser.post(path, {}, headers={"Host": host}).status_code in (400, 401, 405), path
        assert browser.get("/mcp/authorize?client_id=x&redirect_uri=y", headers={"Host": host}).status_code == 400


def test_documents_may_be_shared_by_caches_only_where_the_origin_is_set(db: None, client: Any, settings: Any) -> None:
    def caching() -> Any:
        return client.get("/.well-known/oauth-authorization-server")["Cache-Control"]

    by_host = caching()
    settings.MCP = {**settings.MCP, "OAUTH_ORIGIN": "https://shop.example"}

    assert (by_host, caching()) == ("private, max-age=3600", "public, max-age=3600")
