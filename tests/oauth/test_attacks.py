"""Attacks on logging in: each named after what somebody tries."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings

from mcp_django.models import AccessToken, Call, Grant
from mcp_django.oauth import documents, grants
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
@pytest.mark.parametrize("changes", [
    {"redirect_uri": EVIL}, {"redirect_uri": f"{CLAUDE_REDIRECT}/../../evil"},
    {"redirect_uri": f"{CLAUDE_REDIRECT}?x=1"}, {"redirect_uri": f"{CLAUDE_REDIRECT}/"}, {"redirect_uri": "https://claude.ai.evil.example/api/mcp/auth_callback"},
    {"redirect_uri": "https://claude.ai@evil.example/api/mcp/auth_callback"}, {"redirect_uri": "javascript:alert(1)"},
    {"redirect_uri": "HTTPS://claude.ai/api/mcp/auth_callback"}, {"redirect_uri": None}, {"redirect_uri": ""},
    {"redirect_uri": f"{CLAUDE_REDIRECT}#"}, {"redirect_uri": f"{CLAUDE_REDIRECT}\r\nSet-Cookie: a=b"},
    {"client_id": None}, {"client_id": ""}, {"client_id": "x"}, {"client_id": "1"}, {"client_id": "\x00"},
    {"client_id": CLAUDE_CODE},
    {"client_id": "https://claude.ai/oauth/../oauth/mcp-oauth-client-metadata"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("logged_in", [True, False])
def test_sending_a_person_elsewhere(
    users: Users, changes: dict[str, str | None], logged_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_fetch(monkeypatch)

    answer = Person(users.ops if logged_in else None).open(Program().url(**changes))

    # Who a client is that must be fetched is found out after the login.
    assert is_page(answer) or (not logged_in and answer["Location"].startswith("/admin/login/?next=%2Fmcp%2F")), answer
    assert not AuthorizationCode.objects.exists()


def refuse_to_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str) -> Any:
        raise documents.fetching.FetchError("No test reaches the network.")

    monkeypatch.setattr(documents.fetching, "fetch", fetch)
    documents._kept.clear()


@pytest.mark.parametrize("twice", ["client_id", "redirect_uri"])
def test_naming_two_clients_or_redirects(users: Users, twice: str) -> None:
    assert is_page(Person(users.ops).open(Program().url() + "&" + urlencode({twice: EVIL})))


@pytest.mark.parametrize("port", ["0", "65536", "x", "80@evil.example", ""])
def test_a_loopback_redirect_with_a_port_that_is_none(users: Users, port: str) -> None:
    program = Program(CLAUDE_CODE, f"http://localhost:{port}/callback")

    assert is_page(Person(users.ops).open(program.url()))


@pytest.mark.parametrize("host", ["localhost.evil.example", "127.0.0.2", "0.0.0.0", "[::]", "localhost%00", "evil"])
def test_a_loopback_redirect_to_another_host(users: Users, host: str) -> None:
    assert is_page(Person(users.ops).open(Program(CLAUDE_CODE, f"http://{host}/callback").url()))


def test_the_login_page_leads_back_to_the_request_alone(users: Users) -> None:
    url = Program().url()

    answer = Person().open(url)

    assert answer["Location"] == "/admin/login/?" + urlencode({"next": url})


# What the client is told.


@pytest.mark.parametrize(("changes", "error"), [
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": None}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge": "x"}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"resource": "https://evil.example/mcp"}, "invalid_target"),
    ({"resource": f"{ISSUER}/other"}, "invalid_target"),
    ({"resource": f"{RESOURCE}?x"}, "invalid_target"),
], ids=str)  # fmt: skip
def test_a_wrong_request_is_answered_with_iss_and_state(
    users: Users, changes: dict[str, str | None], error: str
) -> None:
    answer = Person(users.ops).open(Program().url(**changes))

    params = params_in(answer)
    assert answer["Location"].startswith(f"{CLAUDE_REDIRECT}?")
    assert (params["error"], params["iss"], params["state"]) == (error, ISSUER, "a state")
    assert not AuthorizationCode.objects.exists()


@pytest.mark.parametrize("resource", [RESOURCE + "/", RESOURCE.upper().replace("MCP", "mcp"), None])
def test_the_resource_may_be_spelled_otherwise_or_left_out(users: Users, resource: str | None) -> None:
    program = Program()

    code = code_in(Person(users.ops).allow(program.url(resource=resource), "read"))

    assert program.exchange(code, resource=resource).status_code == 200
    assert AccessToken.objects.get(grant__isnull=False).resource == RESOURCE


@pytest.mark.parametrize("twice", ["state", "scope", "code_challenge", "response_type"])
def test_a_parameter_that_comes_twice(users: Users, twice: str) -> None:
    answer = Person(users.ops).open(Program().url() + "&" + urlencode({twice: "x"}))

    assert params_in(answer)["error"] == "invalid_request"


# Codes.


@pytest.mark.every_database
@pytest.mark.parametrize("changes", [
    {"client_id": CHATGPT}, {"client_id": None}, {"redirect_uri": EVIL}, {"redirect_uri": None},
    {"code_verifier": "x" * 43}, {"resource": "https://evil.example/mcp"}, {"code": "x"}, {"code": "\x00"},
], ids=str)  # fmt: skip
def test_injecting_a_stolen_code(users: Users, changes: dict[str, str | None]) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))

    refused = program.exchange(**{"code": code, **changes})

    assert error_in(refused) in {(400, "invalid_grant"), (400, "invalid_target")}
    assert not Grant.objects.exists()
    assert program.exchange(code).status_code == 200, "the thief has not used it up"


@pytest.mark.parametrize("verifier", [None, "", "short", "x" * 129, "ü" * 43])
def test_a_verifier_that_is_none(users: Users, verifier: str | None) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))

    assert error_in(program.exchange(code, code_verifier=verifier)) == (400, "invalid_request")


def test_replaying_a_code_with_everything_right_ends_the_grant(users: Users) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    tokens = program.exchange(code).json()

    assert error_in(program.exchange(code)) == (400, "invalid_grant")

    assert Grant.objects.get().ended_by == "code replayed"
    assert call(tokens["access_token"]).status_code == 401


@pytest.mark.parametrize("changes", [{"code_verifier": "x" * 43}, {"client_id": CHATGPT}, {"redirect_uri": EVIL}])
def test_replaying_a_code_without_the_verifier_ends_nothing(users: Users, changes: dict[str, str]) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    tokens = program.exchange(code).json()

    assert error_in(program.exchange(code, **changes)) == (400, "invalid_grant")

    assert call(tokens["access_token"]).status_code != 401


def test_a_code_is_good_for_a_minute(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    monkeypatch.setattr(grants, "CODE_SECONDS", -1)
    code = code_in(Person(users.ops).allow(program.url(), "read"))

    assert error_in(program.exchange(code)) == (400, "invalid_grant")


def test_a_new_password_voids_the_codes_that_were_given_before(users: Users) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))

    users.ops.set_password("new")
    users.ops.save()

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
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    tokens = program.exchange(code).json()

    assert call(tokens["refresh_token"]).status_code == call(code).status_code == 401
    assert error_in(program.refresh(tokens["access_token"])) == (400, "invalid_grant")
    assert error_in(program.refresh(code)) == (400, "invalid_grant")


@pytest.mark.parametrize("form", [
    {}, {"grant_type": "password", "username": "ops", "password": "ops"}, {"grant_type": "client_credentials"},
    {"grant_type": "authorization_code"},
])  # fmt: skip
def test_other_grants_give_nothing(users: Users, form: dict[str, str | None]) -> None:
    status, error = error_in(post("/mcp/token", {**form, "client_id": CLAUDE}))

    assert status == 400
    assert error in ("unsupported_grant_type", "invalid_request")


@pytest.mark.parametrize("path", ["/mcp/token", "/mcp/revoke"])
def test_what_is_no_form_of_Program(users: Users, path: str) -> None:
    browser = Client()

    json = browser.post(path, "{}", content_type="application/json")
    twice = browser.post(path, "token=a&token=b", content_type="application/x-www-form-urlencoded")
    long = browser.post(path, "token=" + "a" * 70_000, content_type="application/x-www-form-urlencoded")
    many = browser.post(
        path, "&".join(f"a{i}=1" for i in range(3_000)), content_type="application/x-www-form-urlencoded"
    )

    assert [error_in(json), error_in(twice)] == [(400, "invalid_request")] * 2
    assert [error_in(long), error_in(many)] == [(413, "invalid_request")] * 2
    assert browser.get(path).status_code == 405


# Consent.


def test_forging_the_consent(users: Users) -> None:
    person, url = Person(users.ops), Program().url(scope="read actions")
    page = person.open(url)

    forged = person.browser.post(url, {"decision": "allow", "scope": ["read"], "person": hidden_in(page)["person"]})

    assert forged.status_code == 403
    assert not AuthorizationCode.objects.exists()


@pytest.mark.parametrize("person_field", ["", "1", "of another user"])
def test_agreeing_for_another_user_than_the_page_was_shown_to(users: Users, person_field: str) -> None:
    url = Program().url()
    other = hidden_in(Person(users.admin).open(url))["person"]
    person = Person(users.ops)

    answer = person.press(url, person.open(url), "allow", "read", person=other if person_field else person_field)

    assert answer.status_code == 200, "the page is shown again, for the user who is there"
    assert not AuthorizationCode.objects.exists()


def test_ticking_what_was_not_asked_for(users: Users) -> None:
    program, person = Program(), Person(users.ops)
    url = program.url(scope="read")

    code = code_in(person.press(url, person.open(url), "allow", "read", "actions", "tool:x"))

    assert program.exchange(code).json()["scope"] == "read"


def test_ticking_nothing_asks_again(users: Users) -> None:
    person, url = Person(users.ops), Program().url()

    answer = person.press(url, person.open(url), "allow")

    assert (answer.status_code, "Choose at least one" in answer.content.decode()) == (200, True)


def test_cancelling_tells_the_client(users: Users) -> None:
    person, url = Person(users.ops), Program().url()

    answer = person.press(url, person.open(url), "deny")
    params = params_in(answer)

    assert answer["Referrer-Policy"] == "no-referrer"
    assert (params["error"], params["iss"]) == ("access_denied", ISSUER)


def test_another_account_logs_out_and_in(users: Users) -> None:
    person, url = Person(users.ops), Program().url()

    answer = person.press(url, person.open(url), "switch")

    assert answer["Location"].startswith("/admin/login/?next=%2Fmcp%2Fauthorize")
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


def test_getting_a_silent_code_for_a_program_on_the_machine(users: Users) -> None:
    program = Program(CLAUDE_CODE, LOCAL_REDIRECT)
    program.log_in(users.ops)

    assert Person(users.ops).open(program.url()).status_code == 200
    assert params_in(Person(users.ops).open(program.url(prompt="none")))["error"] == "consent_required"


def test_getting_a_silent_code_for_a_client_that_registered_itself(users: Users) -> None:
    program = Program(registered(CLAUDE_REDIRECT))
    program.log_in(users.ops)

    assert Person(users.ops).open(program.url()).status_code == 200
    assert params_in(Person(users.ops).open(program.url(prompt="none")))["error"] == "consent_required"


def test_asking_silently_who_is_logged_in(users: Users) -> None:
    url = Program().url(prompt="none")

    assert params_in(Person().open(url))["error"] == "login_required"
    assert params_in(Person(users.ops).open(url))["error"] == "consent_required"


@pytest.mark.parametrize("path", ["/mcp/authorize", "/mcp/connected"])
def test_showing_a_page_in_a_frame_or_keeping_it(users: Users, path: str) -> None:
    url = Program().url() if path == "/mcp/authorize" else path

    answer = Person(users.ops).open(url)

    policy = answer["Content-Security-Policy"]
    scripts = "'none'" if path == "/mcp/authorize" else "'self'"
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


def test_scopes_that_are_not_ours_are_dropped(users: Users) -> None:
    program = Program()

    answer = Person(users.ops).allow(program.url(scope="openid email profile offline_access"), "read")

    assert program.exchange(code_in(answer)).json()["scope"] == "read"


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


@pytest.mark.parametrize("redirect", [EVIL, "https://chatgpt.com/connector/oauth/../../evil", "http://evil.example/"])
def test_registering_a_redirect_that_nobody_knows(users: Users, redirect: str) -> None:
    assert error_in(register({"redirect_uris": [redirect]})) == (400, "invalid_redirect_uri")


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


@pytest.mark.parametrize("payload", [
    "", "[]", "null", "{", '{"redirect_uris": "https://claude.ai"}', '{"redirect_uris": [1]}', "{}",
    '{"redirect_uris": []}', "[" * 20_000, '{"a":' * 10_000,
    '{"redirect_uris": [' + ",".join(['"http://localhost/"'] * 21) + "]}",
    '{"redirect_uris": ["http://localhost/"], "grant_types": ["device_code"]}', '{"x": "' + "a" * 70_000 + '"}',
], ids=lambda text: text[:40])  # fmt: skip
def test_a_registration_that_is_none(users: Users, payload: str) -> None:
    answer = register(payload)

    assert answer.status_code in (400, 413)
    assert answer.json()["error"] in ("invalid_client_metadata", "invalid_redirect_uri", "invalid_request")


LYING = "Claude\u202e evil\x00\n<b>\u2066Administrator</b>" + "x" * 200


def test_a_name_that_lies_is_shown_as_what_it_is(users: Users) -> None:
    program = Program(registered(LOCAL_REDIRECT, client_name=LYING), LOCAL_REDIRECT)

    page = Person(users.ops).open(program.url()).content.decode()

    assert "\u202e" not in page and "\u2066" not in page and "<b>" not in page
    assert "Claude evil &lt;b&gt;Administrator" in page
    assert "registered itself" in page


@pytest.mark.parametrize("asked", ["client_secret_post", "client_secret_basic", "private_key_jwt", "none"])
def test_a_registered_client_gets_no_secret(users: Users, asked: str) -> None:
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
def test_revoking_what_is_unknown_is_no_error(users: Users) -> None:
    for token in ("x", "mcpdj_" + "a" * 49, "\x00"):
        assert post("/mcp/revoke", {"token": token, "client_id": CLAUDE}).status_code == 200
    assert error_in(post("/mcp/revoke", {"client_id": CLAUDE})) == (400, "invalid_request")


def test_revoking_for_another_client_or_a_token_made_by_hand(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops)
    _, by_hand = AccessToken.objects.create_token(user=users.ops)

    assert post("/mcp/revoke", {"token": tokens["access_token"], "client_id": CHATGPT}).status_code == 200
    assert post("/mcp/revoke", {"token": by_hand, "client_id": CLAUDE}).status_code == 200

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
    recorder.flush()

    lines = Call.objects.filter(kind="token").order_by("pk").values_list("reason", "client_id", "user_name")

    assert list(lines) == [
        (reason, CLAUDE, "ops")
        for reason in ("declined", "agreed", "granted", "remembered", "refreshed", "ended: revoked")
    ]  # fmt: skip
    stored = str(list(Call.objects.values()))
    for secret in (*tokens.values(), hashlib.sha256(tokens["refresh_token"].encode()).hexdigest()):
        assert len(str(secret)) < 20 or str(secret) not in stored


@pytest.mark.django_db(transaction=True)
@override_settings(MCP={"AUDIT": "on"})
def test_refusals_are_counted_by_address_and_reason(users: Users) -> None:
    from mcp_django.audit.recorder import recorder

    recorder._reset()
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
def test_flooding_an_endpoint(users: Users, path: str) -> None:
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
@pytest.mark.parametrize("client", ["document", "registration"])
def test_naming_the_client_by_basic_credentials(users: Users, client: str, encode: Any) -> None:
    """Some libraries send the id so, though they have no secret (RFC 6749 §2.3.1)."""
    program = Program() if client == "document" else Program(registered(CLAUDE_REDIRECT))
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    named = base64.b64encode(f"{encode(program.client_id)}:".encode()).decode()
    form = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": program.redirect_uri,
        "code_verifier": program.verifier, "resource": "",
    }  # fmt: skip

    assert post("/mcp/token", form, Authorization=f"Basic {named}").status_code == 200


@pytest.mark.parametrize(("path", "form"), [
    ("/mcp/token", {}), ("/mcp/token", {"grant_type": "refresh_token"}), ("/mcp/token", {"grant_type": ""}),
    ("/mcp/token", {"grant_type": "authorization_code", "code_verifier": "x" * 43}), ("/mcp/revoke", {}),
], ids=str)  # fmt: skip
def test_leaving_out_what_must_be_there(users: Users, path: str, form: dict[str, str | None]) -> None:
    assert error_in(post(path, form)) == (400, "invalid_request")


@pytest.mark.parametrize("length", ["abc", "9" * 5_000, "-1"])
def test_claiming_a_length_that_is_none(users: Users, length: str) -> None:
    answer = Client().generic(
        "POST", "/mcp/token", b"grant_type=x", "application/x-www-form-urlencoded", CONTENT_LENGTH=length
    )

    assert answer.status_code in (400, 413)
