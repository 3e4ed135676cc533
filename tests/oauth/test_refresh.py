"""Refreshing: several processes at once, lost answers, and stolen tokens."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from mcp_django.models import AccessToken, Grant
from mcp_django.models.grants import IDLE, LIFETIME
from mcp_django.oauth import clearing, grants
from mcp_django.oauth.models import AuthorizationCode, Client, RefreshToken
from tests.oauth.flow import CLAUDE_CODE, LOCAL_REDIRECT, Person, Program, code_in, error_in
from tests.oauth.test_flow import call
from tests.support.data import Users

GRACE = timedelta(seconds=600)


def ok(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    tokens: dict[str, Any] = answer.json()
    return tokens


def age(seconds: float) -> None:
    """Let so much time have passed for the refresh tokens that were replaced."""
    for token in RefreshToken.objects.filter(replaced_at__isnull=False):
        replaced_at = token.replaced_at - timedelta(seconds=seconds)
        RefreshToken.objects.filter(pk=token.pk).update(replaced_at=replaced_at)


def in_thread(act: Any, *args: Any) -> Any:
    """What a call gives, in a thread that leaves no connection behind."""
    try:
        return act(*args)
    finally:
        connection.close()


def is_over() -> bool:
    return not Grant.objects.get().is_current()


@pytest.mark.every_database
def test_several_processes_of_a_client_refresh_with_one_token(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]

    answers = [ok(program.refresh(first)) for _ in range(5)]

    assert len({answer["refresh_token"] for answer in answers}) == 5
    assert all(call(answer["access_token"]).status_code != 401 for answer in answers)
    again = [ok(program.refresh(answer["refresh_token"])) for answer in answers]
    assert all(call(answer["access_token"]).status_code != 401 for answer in again)
    assert not is_over()


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
def test_they_may_do_so_at_the_same_moment(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(in_thread, [program.refresh] * 5, [first] * 5))

    assert [answer.status_code for answer in answers] == [200] * 5
    assert RefreshToken.objects.get(replaces=None).uses == 5


def test_a_client_whose_answer_was_lost_refreshes_again_however_late(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]
    ok(program.refresh(first))  # Nobody has ever used what it answers.
    RefreshToken.objects.update(created_at=timezone.now() - timedelta(days=20))

    tokens = ok(program.refresh(first))

    assert call(tokens["access_token"]).status_code != 401


def use_the_access_token(program: Program, tokens: dict[str, Any]) -> None:
    assert call(tokens["access_token"]).status_code != 401


def use_the_refresh_token(program: Program, tokens: dict[str, Any]) -> None:
    ok(program.refresh(tokens["refresh_token"]))


@pytest.mark.every_database
@pytest.mark.parametrize("use", [use_the_access_token, use_the_refresh_token])
def test_a_replaced_token_is_good_for_a_while_and_then_means_theft(users: Users, use: Any) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]
    second = ok(program.refresh(first))
    use(program, second)

    age(599)
    ok(program.refresh(first))
    age(2)
    stolen = program.refresh(first)

    assert error_in(stolen) == (400, "invalid_grant")
    assert Grant.objects.get().ended_by == "refresh replayed"
    assert call(second["access_token"]).status_code == 401
    assert error_in(program.refresh(second["refresh_token"])) == (400, "invalid_grant")


def test_the_time_counts_from_the_first_use_and_is_not_prolonged(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]
    use_the_access_token(program, ok(program.refresh(first)))
    age(500)

    use_the_access_token(program, ok(program.refresh(first)))
    age(101)

    assert error_in(program.refresh(first)) == (400, "invalid_grant")


def test_a_refresh_token_makes_ten_successors_at_most(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]

    answers = [program.refresh(first).status_code for _ in range(11)]

    assert answers == [200] * 10 + [400]
    assert Grant.objects.get().ended_by == "refresh replayed"


@override_settings(MCP={"OAUTH_GRACE_SECONDS": 0})
def test_without_a_grace_a_second_use_is_theft(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)["refresh_token"]
    use_the_access_token(program, ok(program.refresh(first)))
    age(1)

    assert error_in(program.refresh(first)) == (400, "invalid_grant")


def test_refreshing_for_another_client_gives_nothing_and_ends_nothing(users: Users) -> None:
    token = Program().log_in(users.ops)["refresh_token"]

    assert error_in(Program(CLAUDE_CODE, LOCAL_REDIRECT).refresh(token)) == (400, "invalid_grant")
    assert error_in(Program().refresh(token, resource="https://evil.example/mcp")) == (400, "invalid_target")
    assert error_in(Program().refresh(token, resource="http://testserver/other/mcp")) == (400, "invalid_target")
    assert not is_over()


def test_a_refresh_narrows_scopes_and_never_widens_them(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops, "read", "actions", asks="read actions")

    narrow = ok(program.refresh(tokens["refresh_token"], scope="read"))
    wide = program.refresh(tokens["refresh_token"], scope="read actions model:flights.flight:read")

    assert narrow["scope"] == "read"
    assert error_in(wide) == (400, "invalid_scope")
    assert ok(program.refresh(narrow["refresh_token"]))["scope"] == "read actions", "the grant is what it was"


def deactivate(user: User) -> None:
    user.is_active = False
    user.save()


def set_a_new_password(user: User) -> None:
    user.set_password("new")
    user.save()


def delete(user: User) -> None:
    user.delete()


def idle(user: User) -> None:
    Grant.objects.update(expires_at=timezone.now())


@pytest.mark.parametrize("ending", [deactivate, set_a_new_password, delete, idle])
def test_a_grant_that_is_over_gives_no_tokens(users: Users, ending: Any) -> None:
    program = Program()
    tokens = program.log_in(users.ops)

    ending(users.ops)

    assert error_in(program.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert RefreshToken.objects.count() <= 1


def test_a_grant_lives_while_it_is_used_and_half_a_year_at_most(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops)
    grant = Grant.objects.get()
    assert grant.expires_at == grant.created_at + IDLE
    created_at = timezone.now() - LIFETIME + timedelta(days=1)
    Grant.objects.update(created_at=created_at)

    ok(program.refresh(tokens["refresh_token"]))

    assert Grant.objects.get().expires_at == created_at + LIFETIME


@pytest.mark.every_database
def test_what_has_expired_is_cleared_away_and_what_may_matter_is_kept(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops)
    other = program.log_in(users.admin)
    long_ago = timezone.now() - timedelta(days=2)
    AccessToken.objects.update(expires_at=long_ago)
    AuthorizationCode.objects.update(expires_at=long_ago)

    fresh = ok(program.refresh(tokens["refresh_token"]))

    assert not AuthorizationCode.objects.exists()
    assert AccessToken.objects.filter(user=users.ops).count() == 1, "the older one has a successor"
    assert AccessToken.objects.filter(user=users.admin).count() == 1, "it stands for its grant"
    assert call(fresh["access_token"]).status_code != 401
    ok(program.refresh(other["refresh_token"]))


@pytest.mark.every_database
def test_the_tokens_of_an_ended_grant_are_cleared_away_after_a_day(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops)
    Program(CLAUDE_CODE, LOCAL_REDIRECT).log_in(users.admin)
    long_ago = timezone.now() - timedelta(days=2)
    AccessToken.objects.filter(user=users.admin).update(expires_at=long_ago)
    Grant.objects.filter(user=users.admin).update(ended_at=long_ago)

    ok(program.refresh(tokens["refresh_token"]))

    assert not AccessToken.objects.filter(user=users.admin).exists()
    assert Grant.objects.filter(user=users.admin).exists()


@pytest.mark.every_database
def test_a_client_has_so_many_grants_of_a_user_and_they_share_a_line(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clearing, "_MOST_GRANTS", 3)
    program = Program()
    tokens = [program.log_in(users.ops) for _ in range(4)]

    assert [call(one["access_token"]).status_code == 401 for one in tokens] == [True, False, False, False]
    assert Grant.objects.earliest("pk").ended_by == "surplus"
    assert len(set(Grant.objects.values_list("line", flat=True))) == 1
    assert len(set(AccessToken.objects.values_list("line", flat=True))) == 1


def test_a_session_goes_on_across_a_refresh_and_a_step_up(users: Users) -> None:
    program = Program()
    first = program.log_in(users.ops)
    session = initialize(first["access_token"])

    second = ok(program.refresh(first["refresh_token"]))
    third = ok(program.exchange(code_in(Person(users.ops).allow(program.url(scope="read actions", prompt="consent"),
                                                               "read", "actions"))))  # fmt: skip

    for tokens in (second, third):
        assert call(tokens["access_token"], **{"Mcp-Session-Id": session}).status_code == 200
    stranger = Program(CLAUDE_CODE, LOCAL_REDIRECT).log_in(users.ops)
    assert call(stranger["access_token"], **{"Mcp-Session-Id": session}).status_code == 404


def initialize(token: str) -> str:
    from django.test import Client

    message = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    answer = Client().post("/mcp", message, content_type="application/json", headers=headers)
    return str(answer["Mcp-Session-Id"])


def block_the_client(user: User) -> None:
    Client.objects.get().block()


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ending", [set_a_new_password, block_the_client])
def test_a_code_that_is_redeemed_while_its_worth_ends_leaves_no_grant(
    users: Users, ending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    issuing, go_on, issue = threading.Event(), threading.Event(), grants._issue

    def wait_and_issue(*args: Any, **kwargs: Any) -> Any:
        issuing.set()
        assert go_on.wait(30)
        return issue(*args, **kwargs)

    monkeypatch.setattr(grants, "_issue", wait_and_issue)
    with ThreadPoolExecutor(2) as pool:
        redeemed = pool.submit(in_thread, program.exchange, code)
        assert issuing.wait(30)
        ended = pool.submit(in_thread, ending, User.objects.get(pk=users.ops.pk))
        # It waits for the one that redeems, or else is over before.
        wait([ended], timeout=0.5)
        go_on.set()
        ended.result()
        redeemed.result()

    assert not Grant.objects.current().exists()
