"""Attacks on logging in: each named after what somebody tries."""

from __future__ import annotations

import base64
import hashlib
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings
from django.utils import timezone

from mcp_django.exchange import rates
from mcp_django.models import AccessToken, Call, Grant
from mcp_django.oauth import documents
from mcp_django.oauth.models import AuthorizationCode
from mcp_django.oauth.models import Client as OAuthClient
from tests.oauth.flow import (
    CHATGPT,
    CLAUDE,
    CLAUDE_CODE,
    CLAUDE_REDIRECT,
    ISSUER,
    LOCAL_REDIRECT,
    RESOURCE,
    Person,
    Program,
    code_in,
    error_in,
    hidden_in,
    params_in,
    post,
)  # fmt: skip
from tests.oauth.test_flow import call
from tests.support.data import Users

EVIL = "https://evil.example/callback"


def is_page(answer: Any) -> bool:
    """Whether the person sees a page, and nobody is sent anywhere."""
    return answer.status_code == 400 and "Location" not in answer


# Open redirects.


@pytest.mark.every_database
@pytest.mark.parametrize("logged_in", [True, False])
def test_sending_a_person_elsewhere(users: Users, logged_in: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_fetch(monkeypatch)
    redirects = [
        EVIL, f"{CLAUDE_REDIRECT}/../../evil", f"{CLAUDE_REDIRECT}?x=1", f"{CLAUDE_REDIRECT}/",
        "https://claude.ai.evil.example/api/mcp/auth_callback", "https://claude.ai@evil.example/api/mcp/auth_callback",
        "javascript:alert(1)", "HTTPS://claude.ai/api/mcp/auth_callback", None, "", f"{CLAUDE_REDIRECT}#",
        f"{CLAUDE_REDIRECT}\r\nSet-Cookie: a=b",
    ]  # fmt: skip
    clients = [None, "", "x", "1", "\x00", CLAUDE_CODE, "https://claude.ai/oauth/../oauth/mcp-oauth-client-metadata"]
    programs = [Program(CLAUDE_CODE, f"http://{host}/callback") for host in (
        "localhost:0", "localhost:65536", "localhost:x", "localhost:80@evil.example", "localhost:",
        "localhost.evil.example", "127.0.0.2", "0.0.0.0", "[::]", "localhost%00", "evil",
    )]  # fmt: skip
    urls = [
        *(Program().url(redirect_uri=uri) for uri in redirects), *(Program().url(client_id=one) for one in clients),
        *(program.url() for program in programs),
        *(f"{Program().url()}&{urlencode({twice: EVIL})}" for twice in ("client_id", "redirect_uri")),
    ]  # fmt: skip

    answers = {url: Person(users.ops if logged_in else None).open(url) for url in urls}

    # Who a client is that must be fetched is found out after the login.
    led_away = {
        url for url, answer in answers.items()
        if not is_page(answer)
        and (logged_in or not answer["Location"].startswith("/admin/login/?next=%2Fmcp%2F"))
    }  # fmt: skip
    assert led_away == set()
    assert not AuthorizationCode.objects.exists()


def refuse_to_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str) -> Any:
        raise documents.fetching.FetchError("No test reaches the network.")

    monkeypatch.setattr(documents.fetching, "fetch", fetch)
    documents._kept.clear()


def test_the_login_page_leads_back_to_the_request_alone(users: Users) -> None:
    url = Program().url()

    answer = Person().open(url)

    assert answer["Location"] == "/admin/login/?" + urlencode({"next": url})


# What the client is told.


def test_a_wrong_request_is_answered_with_iss_and_state(users: Users) -> None:
    wrong: list[tuple[dict[str, str | None], str]] = [
        ({"response_type": "token"}, "unsupported_response_type"), ({"response_type": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"), ({"code_challenge": "x"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"), ({"code_challenge_method": None}, "invalid_request"),
        *(({"resource": wrong}, "invalid_target") for wrong in (f"{EVIL}/mcp", f"{ISSUER}/other", f"{RESOURCE}?x")),
    ]  # fmt: skip
    twice = ("state", "scope", "code_challenge", "response_type")
    expected = {Program().url(**changes): error for changes, error in wrong}
    expected |= {f"{Program().url()}&{urlencode({name: 'x'})}": "invalid_request" for name in twice}

    answers = {url: Person(users.ops).open(url) for url in expected}

    assert {url: params_in(answer)["error"] for url, answer in answers.items()} == expected
    for url, answer in answers.items():
        assert answer["Location"].startswith(f"{CLAUDE_REDIRECT}?")
        assert params_in(answer)["iss"] == ISSUER
        assert params_in(answer)["state"] == ("x" if url.endswith("&state=x") else "a state")
    assert not AuthorizationCode.objects.exists()


def test_the_resource_may_be_spelled_otherwise_or_left_out(users: Users) -> None:
    for resource in (RESOURCE + "/", RESOURCE.upper().replace("MCP", "mcp"), None):
        program = Program()
        code = code_in(Person(users.ops).allow(program.url(resource=resource), "read"))
        assert program.exchange(code, resource=resource).status_code == 200

    assert set(AccessToken.objects.filter(grant__isnull=False).values_list("resource", flat=True)) == {RESOURCE}


# Codes.


def with_code(user: User) -> tuple[Program, str]:
    """A program, and a code that it has not redeemed yet."""
    program = Program()
    return program, code_in(Person(user).allow(program.url(), "read"))


@pytest.mark.every_database
def test_injecting_a_stolen_code(users: Users) -> None:
    program, code = with_code(users.ops)
    wrong: list[tuple[dict[str, str | None], tuple[int, str]]] = [
        ({"client_id": CHATGPT}, (400, "invalid_grant")), ({"client_id": None}, (400, "invalid_grant")),
        ({"redirect_uri": EVIL}, (400, "invalid_grant")), ({"redirect_uri": None}, (400, "invalid_grant")),
        ({"code_verifier": "x" * 43}, (400, "invalid_grant")), ({"code": "x"}, (400, "invalid_grant")),
        ({"code": "\x00"}, (400, "invalid_grant")), ({"resource": "https://evil.example/mcp"}, (400, "invalid_target")),
        *(({"code_verifier": none}, (400, "invalid_request")) for none in (None, "", "short", "x" * 129, "ü" * 43)),
    ]  # fmt: skip

    found = [(changes, error_in(program.exchange(**{"code": code, **changes}))) for changes, _ in wrong]

    assert found == wrong
    assert not Grant.objects.exists()
    assert program.exchange(code).status_code == 200, "the thief has not used it up"


def test_replaying_a_code_ends_the_grant_if_everything_is_right_and_nothing_otherwise(users: Users) -> None:
    program, code = with_code(users.ops)
    tokens = program.exchange(code).json()

    for changes in ({"code_verifier": "x" * 43}, {"client_id": CHATGPT}, {"redirect_uri": EVIL}):
        assert error_in(program.exchange(code, **changes)) == (400, "invalid_grant")
        assert call(tokens["access_token"]).status_code != 401, changes
    assert error_in(program.exchange(code)) == (400, "invalid_grant")

    assert Grant.objects.get().ended_by == "code replayed"
    assert call(tokens["access_token"]).status_code == 401


def test_a_code_is_void_after_a_minute_and_after_a_new_password(users: Users) -> None:
    expired, void = with_code(users.ops), with_code(users.ops)
    AuthorizationCode.objects.filter(pk=AuthorizationCode.objects.earliest("pk").pk).update(expires_at=timezone.now())
    users.ops.set_password("new")
    users.ops.save()

    for program, code in (expired, void):
        assert error_in(program.exchange(code)) == (400, "invalid_grant")


@pytest.mark.every_database
def test_disconnecting_what_is_no_client(users: Users) -> None:
    Program().log_in(users.ops)
    person = Person(users.ops)
    page = person.open("/mcp/connected")

    for client in ("\x00", "", "x" * 10_000, CHATGPT):
        assert person.browser.post("/mcp/connected", {**hidden_in(page), "client": client}).status_code == 302

    assert Grant.objects.get().is_current()


def test_a_code_is_no_token_and_a_refresh_token_opens_nothing(users: Users) -> None:
    program, code = with_code(users.ops)
    tokens = program.exchange(code).json()

    assert call(tokens["refresh_token"]).status_code == call(code).status_code == 401
    assert error_in(program.refresh(tokens["access_token"])) == (400, "invalid_grant")
    assert error_in(program.refresh(code)) == (400, "invalid_grant")


def test_other_grants_give_nothing_and_what_must_be_there_is_asked_for(users: Users) -> None:
    forms: list[tuple[dict[str, str | None], str]] = [
        ({"grant_type": "password", "username": "ops", "password": "ops"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({}, "invalid_request"), ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "refresh_token"}, "invalid_request"), ({"grant_type": "authorization_code"}, "invalid_request"),
        ({"grant_type": "authorization_code", "code_verifier": "x" * 43}, "invalid_request"),
    ]  # fmt: skip

    assert [(form, error_in(post("/mcp/token", {**form, "client_id": CLAUDE}))[1]) for form, _ in forms] == forms
    for path in ("/mcp/token", "/mcp/revoke"):
        assert error_in(post(path, {})) == (400, "invalid_request")


def test_what_is_no_form_of_a_program(users: Users) -> None:
    form = "application/x-www-form-urlencoded"
    for path in ("/mcp/token", "/mcp/revoke"):
        browser = Client()
        json = browser.post(path, "{}", content_type="application/json")
        twice = browser.post(path, "token=a&token=b", content_type=form)
        long = browser.post(path, "token=" + "a" * 70_000, content_type=form)
        many = browser.post(path, "&".join(f"a{i}=1" for i in range(3_000)), content_type=form)
        assert [error_in(json), error_in(twice)] == [(400, "invalid_request")] * 2
        assert [error_in(long), error_in(many)] == [(413, "invalid_request")] * 2
        assert browser.get(path).status_code == 405

    for length in ("abc", "9" * 5_000, "-1"):
        answer = Client().generic("POST", "/mcp/token", b"grant_type=x", form, CONTENT_LENGTH=length)
        assert answer.status_code in (400, 413), length


# Consent.


def test_forging_the_consent(users: Users) -> None:
    person, url = Person(users.ops), Program().url(scope="read actions")
    page = person.open(url)

    forged = person.browser.post(url, {"decision": "allow", "scope": ["read"], "person": hidden_in(page)["person"]})

    assert forged.status_code == 403
    assert not AuthorizationCode.objects.exists()


def test_agreeing_for_another_user_than_the_page_was_shown_to(users: Users) -> None:
    url = Program().url()
    other, person = hidden_in(Person(users.admin).open(url))["person"], Person(users.ops)

    for field in (other, "", "1"):
        answer = person.press(url, person.open(url), "allow", "read", person=field)
        assert answer.status_code == 200, "the page is shown again, for the user who is there"
    assert not AuthorizationCode.objects.exists()


def test_ticking_nothing_asks_again_and_what_was_not_asked_for_or_is_not_ours_is_dropped(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    url = program.url(scope="read openid offline_access")

    nothing = person.press(url, person.open(url), "allow")
    code = code_in(person.press(url, person.open(url), "allow", "read", "actions", "tool:x"))

    assert (nothing.status_code, "Choose at least one" in nothing.content.decode()) == (200, True)
    assert program.exchange(code).json()["scope"] == "read"


def test_cancelling_tells_the_client_and_another_account_logs_out_and_in(users: Users) -> None:
    person, url = Person(users.ops), Program().url()

    cancelled = person.press(url, person.open(url), "deny")
    switched = person.press(url, person.open(url), "switch")

    assert cancelled["Referrer-Policy"] == "no-referrer"
    assert (params_in(cancelled)["error"], params_in(cancelled)["iss"]) == ("access_denied", ISSUER)
    assert switched["Location"].startswith("/admin/login/?next=%2Fmcp%2Fauthorize")
    assert person.open(url)["Location"].startswith("/admin/login/")


def test_a_client_with_a_document_is_remembered_for_the_same_scopes(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    program.log_in(users.ops, "read", asks="read actions")

    assert "code" in params_in(person.open(program.url(scope="read")))
    assert "code" in params_in(person.open(program.url(scope="read", prompt="none")))
    assert person.open(program.url(scope="read actions")).status_code == 200
    assert person.open(program.url(scope="read", prompt="consent")).status_code == 200
    assert Person(users.admin).open(program.url(scope="read")).status_code == 200
    Grant.objects.get(scopes=["read"], declined=["actions"]).end("revoked")
    assert person.open(program.url(scope="read")).status_code == 200


def test_getting_a_silent_code_for_a_program_on_the_machine_or_one_that_registered_itself(users: Users) -> None:
    for program in (Program(CLAUDE_CODE, LOCAL_REDIRECT), Program(registered(CLAUDE_REDIRECT))):
        program.log_in(users.ops)

        assert Person(users.ops).open(program.url()).status_code == 200
        assert params_in(Person(users.ops).open(program.url(prompt="none")))["error"] == "consent_required"


def test_asking_silently_who_is_logged_in(users: Users) -> None:
    url = Program().url(prompt="none")

    assert params_in(Person().open(url))["error"] == "login_required"
    assert params_in(Person(users.ops).open(url))["error"] == "consent_required"


def test_showing_a_page_in_a_frame_or_keeping_it(users: Users) -> None:
    for url, scripts in ((Program().url(), "'none'"), ("/mcp/connected", "'self'")):
        answer = Person(users.ops).open(url)

        policy = answer["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy and f"script-src {scripts};" in policy and "form-action" not in policy
        assert answer["X-Frame-Options"] == "DENY"
        assert "no-store" in answer["Cache-Control"]
        assert answer["Referrer-Policy"] == "same-origin"


def may(user: User) -> bool:
    return user.username == "admin"


@pytest.mark.parametrize("rule", [may, "flights.change_flight"])
def test_connecting_where_only_some_users_may(users: Users, rule: Any) -> None:
    users.viewer.user_permissions.remove(*Permission.objects.filter(codename="change_flight"))
    url = Program().url()

    with override_settings(MCP={"OAUTH_USERS": rule}):
        refused = Person(users.viewer).open(url)
        person = Person(users.viewer)
        forced = person.press(url, person.open(url), "allow", "read")
        silent = Person(users.viewer).open(Program().url(prompt="none"))
        allowed = Person(users.admin).open(url)

    assert (refused.status_code, forced.status_code, allowed.status_code) == (403, 403, 200)
    assert params_in(silent)["error"] == "access_denied"
    assert not AuthorizationCode.objects.exists()


@override_settings(MCP={"OAUTH_SCOPES": ["read"]})
def test_asking_for_more_than_clients_may_get(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    url = program.url(scope="read actions tool:delete_flights write")

    answer = person.press(url, person.open(url), "allow", "read", "actions", "tool:delete_flights")

    assert program.exchange(code_in(answer)).json()["scope"] == "read"
    assert Grant.objects.get().declined == []


# Registration.


def registered(*redirect_uris: str, **more: Any) -> str:
    answer = register({"redirect_uris": list(redirect_uris), **more})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["client_id"])


def register(payload: Any, content_type: str = "application/json") -> Any:
    return Client(enforce_csrf_checks=True).post("/mcp/register", payload, content_type=content_type)


def test_a_flood_of_registrations_stores_nothing(users: Users) -> None:
    ids = {registered(f"http://localhost:{port}/callback", client_name="x") for port in range(8000, 8050)}

    assert len(ids) == 1, "the port is free"
    assert not OAuthClient.objects.exists()


def test_registering_a_redirect_that_nobody_knows(users: Users) -> None:
    for redirect in (EVIL, "https://chatgpt.com/connector/oauth/../../evil", "http://evil.example/"):
        assert error_in(register({"redirect_uris": [redirect]})) == (400, "invalid_redirect_uri"), redirect


def test_a_registration_is_void_once_it_is_switched_off_unless_it_was_used(users: Users) -> None:
    used, unused = Program(registered(LOCAL_REDIRECT), LOCAL_REDIRECT), registered(LOCAL_REDIRECT, client_name="other")
    used.log_in(users.ops)

    with override_settings(MCP={"OAUTH_REGISTRATION": "off"}):
        assert register({"redirect_uris": [LOCAL_REDIRECT]}).status_code == 400
        assert "registration_endpoint" not in Client().get("/.well-known/oauth-authorization-server").json()
        assert is_page(Person(users.ops).open(Program(unused, LOCAL_REDIRECT).url()))
        assert Person(users.ops).open(used.url()).status_code == 200


@override_settings(SECRET_KEY_FALLBACKS=["old"])
def test_a_forged_registration(users: Users) -> None:
    client_id = registered(LOCAL_REDIRECT)

    for forged in (client_id[:-1], client_id + "x", "eyJ9." + client_id.partition(".")[2], client_id.upper()):
        assert is_page(Person(users.ops).open(Program(forged, LOCAL_REDIRECT).url()))


def test_a_registration_that_is_none(users: Users) -> None:
    wrong = {
        '{"redirect_uris": ["http://localhost/"], "grant_types": ["device_code"]}': (400, "invalid_client_metadata"),
        '{"redirect_uris": "https://claude.ai"}': (400, "invalid_redirect_uri"),
        '{"redirect_uris": [1]}': (400, "invalid_redirect_uri"), "{}": (400, "invalid_redirect_uri"),
        '{"redirect_uris": []}': (400, "invalid_redirect_uri"),
        '{"redirect_uris": [' + ",".join(['"http://localhost/"'] * 21) + "]}": (400, "invalid_redirect_uri"),
        '{"x": "' + "a" * 70_000 + '"}': (413, "invalid_request"),
        **dict.fromkeys(["", "[]", "null", "{", "[" * 20_000, '{"a":' * 10_000], (400, "invalid_client_metadata")),
    }  # fmt: skip

    assert {payload: error_in(register(payload)) for payload in wrong} == wrong


LYING = "Claude\u202e evil\x00\n<b>\u2066Administrator</b>" + "x" * 200


def test_a_name_that_lies_is_shown_as_what_it_is(users: Users) -> None:
    program = Program(registered(LOCAL_REDIRECT, client_name=LYING), LOCAL_REDIRECT)

    page = Person(users.ops).open(program.url()).content.decode()

    assert "\u202e" not in page and "\u2066" not in page and "<b>" not in page
    assert "Claude evil &lt;b&gt;Administrator" in page
    assert "registered itself" in page


def test_a_registered_client_gets_no_secret(users: Users) -> None:
    for asked in ("client_secret_post", "client_secret_basic", "private_key_jwt", "none"):
        answer = register({
            "redirect_uris": [LOCAL_REDIRECT, "not a uri"], "token_endpoint_auth_method": asked,
            "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        }).json()  # fmt: skip
        assert answer["token_endpoint_auth_method"] == "none"
        assert "client_secret" not in answer
        assert answer["redirect_uris"] == [LOCAL_REDIRECT]
        assert answer["grant_types"] == ["authorization_code", "refresh_token"]


# Revocation.


@pytest.mark.every_database
def test_revoking_what_is_unknown_of_another_client_or_made_by_hand_is_no_error_and_ends_nothing(
    users: Users,
) -> None:
    tokens = Program().log_in(users.ops)
    _, by_hand = AccessToken.objects.create_token(user=users.ops)

    for token, client in (
        ("x", CLAUDE), ("mcpdj_" + "a" * 49, CLAUDE), ("\x00", CLAUDE), (by_hand, CLAUDE),
        (tokens["access_token"], CHATGPT),
    ):  # fmt: skip
        assert post("/mcp/revoke", {"token": token, "client_id": client}).status_code == 200

    assert error_in(post("/mcp/revoke", {"client_id": CLAUDE})) == (400, "invalid_request")
    assert call(tokens["access_token"]).status_code != 401
    assert call(by_hand).status_code != 401


# What is written down, and limited.


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
@override_settings(MCP={"AUDIT": "on"})
def test_every_event_is_written_down(users: Users) -> None:
    from mcp_django.audit.recorder import recorder

    recorder._reset()
    program, person = Program(), Person(users.ops)
    url = program.url()
    person.press(url, person.open(url), "deny")
    tokens = program.log_in(users.ops)
    code_in(person.open(url))
    program.refresh(tokens["refresh_token"])
    post("/mcp/revoke", {"token": tokens["refresh_token"], "client_id": CLAUDE})
    person.browser.defaults["REMOTE_ADDR"] = "192.0.2.9"
    program.log_in(users.ops)
    form = {**hidden_in(person.open("/mcp/connected")), "client": CLAUDE, "resource": RESOURCE}
    person.browser.post("/mcp/connected", form)
    recorder.flush()

    lines = Call.objects.filter(kind="token").order_by("pk").values_list("reason", "client_id", "user_name", "address")

    # A person has an address. What a program does at the token endpoint is told by its grant alone.
    here = "127.0.0.1"
    assert list(lines) == [
        (reason, CLAUDE, "ops", address)
        for reason, address in (
            ("declined", here), ("agreed", here), ("granted", ""), ("remembered", here), ("refreshed", ""),
            ("ended: revoked", ""), ("agreed", here), ("granted", ""), ("ended: revoked", "192.0.2.9"),
        )
    ]  # fmt: skip
    stored = str(list(Call.objects.values()))
    for secret in (*tokens.values(), hashlib.sha256(tokens["refresh_token"].encode()).hexdigest()):
        assert len(str(secret)) < 20 or str(secret) not in stored


@pytest.mark.django_db(transaction=True)
@override_settings(MCP={"AUDIT": "on"})
def test_refusals_are_counted_by_address_and_reason(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_django.audit import anonymous
    from mcp_django.audit.recorder import recorder

    recorder._reset()
    monkeypatch.setattr(anonymous, "time", SimpleNamespace(time=lambda: 6_000_000.0))
    for _ in range(3):
        post("/mcp/token", {"grant_type": "refresh_token", "refresh_token": "x", "client_id": CLAUDE})
    register({"redirect_uris": [EVIL]})
    Person(users.ops).open(Program().url(code_challenge="x"))
    Person(users.ops).open("/mcp/authorize?client_id=x&redirect_uri=y")
    recorder.flush()

    lines = Call.objects.filter(kind="token", outcome="refused").values_list("reason", "count", "address")

    assert set(lines) == {
        ("invalid_grant", 3, "127.0.0.1"), ("invalid_redirect_uri", 1, "127.0.0.1"),
        ("invalid_request", 1, "127.0.0.1"), ("unusable request", 1, "127.0.0.1"),
    }  # fmt: skip


@override_settings(MCP={"THROTTLES": {"address": {"logins": "2/day"}}})
@pytest.mark.parametrize("path", ["/mcp/token", "/mcp/register", "/mcp/revoke"])
def test_flooding_an_endpoint(users: Users, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "now", lambda: 1_796_169_588)
    answers = [post(path, {"token": "x"}).status_code for _ in range(4)]

    assert answers.count(429) >= 1
    refused, page = post(path, {"token": "x"}), Person(users.ops).open(Program().url())
    for answer in (refused, page):
        assert (answer.status_code, answer["Retry-After"].isdigit()) == (429, True)
    assert Client().get("/.well-known/oauth-authorization-server").status_code == 200


# The public endpoints in a project that guards everything.


GUARDED = ["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.common.CommonMiddleware",
           "django.middleware.csrf.CsrfViewMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
           "django.contrib.auth.middleware.LoginRequiredMiddleware"]  # fmt: skip


@pytest.mark.parametrize("slash", ["", "/"])
def test_public_endpoints_behind_a_login_and_with_either_slash(users: Users, slash: str) -> None:
    with override_settings(MIDDLEWARE=GUARDED, APPEND_SLASH=True):
        browser = Client(enforce_csrf_checks=True)
        documents = [
            browser.get(f"/.well-known/{name}{slash}", headers={"Origin": "https://app.example"})
            for name in ("oauth-protected-resource/mcp", "oauth-protected-resource", "oauth-authorization-server",
                         "openid-configuration")
        ]  # fmt: skip
        form = browser.post(f"/mcp/token{slash}", "grant_type=x", content_type="application/x-www-form-urlencoded")
        payload = register({"redirect_uris": [LOCAL_REDIRECT]})
        preflight = browser.options(f"/mcp/token{slash}", headers={"Origin": "https://app.example"})

    assert [answer.status_code for answer in documents] == [200] * 4
    assert {answer["Access-Control-Allow-Origin"] for answer in documents} == {"*"}
    assert {answer.json().get("resource", RESOURCE) for answer in documents} == {RESOURCE}
    assert (form.status_code, payload.status_code, preflight.status_code) == (400, 201, 204)
    assert preflight["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in preflight


def test_a_document_names_the_host_that_was_asked_if_it_is_served(users: Users) -> None:
    assert Client(headers={"Host": "evil.example"}).get("/.well-known/oauth-protected-resource/mcp").status_code == 400


def test_failed_requests_tell_nothing_of_clients_and_users(users: Users) -> None:
    program = Program()
    program.log_in(users.ops)
    known, unknown = Program(), Program(client_id="https://unknown.example/client")

    answers = [one.refresh("x").content for one in (known, unknown)] + [
        one.exchange("x").content for one in (known, unknown)
    ]

    assert answers[0] == answers[1] and answers[2] == answers[3]


@pytest.mark.parametrize("encode", [str, quote], ids=["as it is", "encoded"])
def test_naming_the_client_by_basic_credentials(users: Users, encode: Any) -> None:
    """Some libraries send the id so, though they have no secret (RFC 6749 §2.3.1)."""
    for program in (Program(), Program(registered(CLAUDE_REDIRECT))):
        code = code_in(Person(users.ops).allow(program.url(), "read"))
        named = base64.b64encode(f"{encode(program.client_id)}:".encode()).decode()
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": program.redirect_uri,
            "code_verifier": program.verifier, "resource": "",
        }  # fmt: skip

        assert post("/mcp/token", form, Authorization=f"Basic {named}").status_code == 200


def test_agreeing_to_a_client_as_the_user_whom_one_impersonates(users: Users) -> None:
    person, program = Person(users.admin), Program()
    session = person.browser.session
    session["hijack_history"] = [str(users.ops.pk)]
    session.save()

    asked = person.open(program.url())

    assert params_in(asked)["error"] == "access_denied"
