"""Refreshing: several processes at once, lost answers, stolen tokens, and how long everything lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta
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


def logged_in(user: User) -> tuple[Program, str]:
    """A program that has logged in, and its refresh token."""
    program = Program()
    return program, str(program.log_in(user)["refresh_token"])


def is_over() -> bool:
    return not Grant.objects.get().is_current()


@pytest.mark.every_database
def test_several_processes_of_a_client_refresh_with_one_token(users: Users) -> None:
    program, first = logged_in(users.ops)

    answers = [ok(program.refresh(first)) for _ in range(5)]

    assert len({answer["refresh_token"] for answer in answers}) == 5
    assert all(call(answer["access_token"]).status_code != 401 for answer in answers)
    again = [ok(program.refresh(answer["refresh_token"])) for answer in answers]
    assert all(call(answer["access_token"]).status_code != 401 for answer in again)
    assert not is_over()


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
def test_they_may_do_so_at_the_same_moment(users: Users) -> None:
    program, first = logged_in(users.ops)

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(in_thread, [program.refresh] * 5, [first] * 5))

    assert [answer.status_code for answer in answers] == [200] * 5
    assert RefreshToken.objects.get(replaces=None).uses == 5


def test_a_client_whose_answer_was_lost_refreshes_again_however_late(users: Users) -> None:
    program, first = logged_in(users.ops)
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
    program, first = logged_in(users.ops)
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


def test_the_time_counts_from_the_first_use_and_is_not_prolonged_and_may_be_none(users: Users) -> None:
    program, first = logged_in(users.ops)
    use_the_access_token(program, ok(program.refresh(first)))
    age(500)
    use_the_access_token(program, ok(program.refresh(first)))
    age(101)
    assert error_in(program.refresh(first)) == (400, "invalid_grant")

    program, first = logged_in(users.ops)
    use_the_access_token(program, ok(program.refresh(first)))
    age(1)
    with override_settings(MCP={"OAUTH_GRACE_SECONDS": 0}):
        # It is theft whatever it asks for.
        program.refresh(first, scope="actions")
    assert set(Grant.objects.values_list("ended_by", flat=True)) == {"refresh replayed"}


def test_a_refresh_token_makes_ten_successors_at_most(users: Users) -> None:
    program, first = logged_in(users.ops)

    answers = [program.refresh(first).status_code for _ in range(11)]

    assert answers == [200] * 10 + [400]
    assert Grant.objects.get().ended_by == "refresh replayed"


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


def test_a_grant_that_is_over_gives_no_tokens(users: Users) -> None:
    for ending, user in (
        (idle, users.admin),
        (deactivate, users.ops),
        (set_a_new_password, users.viewer),
        (delete, users.viewer),
    ):
        program, token = logged_in(user)

        ending(user)

        assert error_in(program.refresh(token)) == (400, "invalid_grant"), ending
        assert RefreshToken.objects.filter(grant__user=user.pk).count() <= 1


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
def test_what_may_matter_is_kept_though_it_has_expired(users: Users) -> None:
    program, token = logged_in(users.ops)
    other, others = logged_in(users.admin)
    Program(CLAUDE_CODE, LOCAL_REDIRECT).log_in(users.viewer)
    long_ago = timezone.now() - timedelta(days=2)
    AccessToken.objects.update(expires_at=long_ago)
    AuthorizationCode.objects.update(expires_at=long_ago)
    Grant.objects.filter(user=users.viewer).update(ended_at=long_ago)

    fresh = ok(program.refresh(token))

    assert not AuthorizationCode.objects.exists()
    assert AccessToken.objects.filter(user=users.ops).count() == 1, "the older one has a successor"
    assert AccessToken.objects.filter(user=users.admin).count() == 1, "it stands for its grant"
    assert not AccessToken.objects.filter(user=users.viewer).exists(), "its grant has ended"
    assert Grant.objects.filter(user=users.viewer).exists()
    assert call(fresh["access_token"]).status_code != 401
    ok(other.refresh(others))


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
        assert go_on.wait(60)
        return issue(*args, **kwargs)

    monkeypatch.setattr(grants, "_issue", wait_and_issue)
    with ThreadPoolExecutor(2) as pool:
        redeemed = pool.submit(in_thread, program.exchange, code)
        assert issuing.wait(60)
        ended = pool.submit(in_thread, ending, User.objects.get(pk=users.ops.pk))
        # It waits for the one that redeems, or else is over before.
        wait([ended], timeout=0.5)
        go_on.set()
        ended.result()
        redeemed.result()

    assert not Grant.objects.current().exists()


# How long codes, tokens and grants live, what ends them early, and when their rows are deleted.


MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def ago(**parts: float) -> datetime:
    return timezone.now() - timedelta(**parts)


# How long.


def test_a_code_lives_for_a_minute_and_an_access_token_for_an_hour(users: Users) -> None:
    program, earliest = Program(), timezone.now()

    tokens = program.log_in(users.ops)
    ok(program.refresh(tokens["refresh_token"]))

    latest = timezone.now()
    lives = [(AuthorizationCode, MINUTE), (AccessToken, HOUR)]
    ends = [(row.expires_at, life) for model, life in lives for row in model.objects.all()]  # type: ignore[attr-defined]
    assert [life for _, life in ends] == [MINUTE, HOUR, HOUR]
    assert all(earliest + life <= end <= latest + life for end, life in ends)


# What ends them early.


def test_a_code_of_somebody_who_gets_nothing_any_more(users: Users) -> None:
    for ending in (deactivate, block_the_client):
        program = Program()
        code = code_in(Person(users.viewer if ending == deactivate else users.ops).allow(program.url(), "read"))

        ending(users.viewer)

        assert error_in(program.exchange(code)) == (400, "invalid_grant"), ending
    assert not Grant.objects.exists()


def test_a_client_that_is_blocked_refreshes_nothing_though_its_grant_has_not_ended(users: Users) -> None:
    program = Program()
    token = program.log_in(users.ops)["refresh_token"]

    Client.objects.update(blocked_at=timezone.now())

    assert error_in(program.refresh(token)) == (400, "invalid_grant")
    assert RefreshToken.objects.count() == 1


# When their rows are deleted: somebody else gets tokens, and what has expired goes.


@pytest.mark.every_database
@pytest.mark.parametrize("is_late", [True, False])
def test_what_has_expired_is_deleted_a_while_later(users: Users, is_late: bool) -> None:
    """A code and an access token that has a successor are kept for a day, a refresh token that was replaced for 30."""
    day, month = (ago(hours=25), ago(days=31)) if is_late else (ago(hours=23), ago(days=29))
    program = Program()
    use_the_access_token(program, ok(program.refresh(program.log_in(users.ops)["refresh_token"])))
    AuthorizationCode.objects.update(expires_at=day)
    AccessToken.objects.update(expires_at=day)
    RefreshToken.objects.update(created_at=month)
    RefreshToken.objects.filter(replaced_at__isnull=False).update(replaced_at=month)

    Program().log_in(users.admin)

    assert AuthorizationCode.objects.filter(user=users.ops).exists() is not is_late
    assert AccessToken.objects.filter(user=users.ops).count() == (1 if is_late else 2)
    assert RefreshToken.objects.filter(grant__user=users.ops).count() == (1 if is_late else 2)


@pytest.mark.every_database
@pytest.mark.parametrize("over", ["expires_at", "ended_at"])
def test_a_grant_that_is_over_is_kept_for_a_month(users: Users, over: str) -> None:
    for user, days in ((users.ops, 31), (users.viewer, 29)):
        Program().log_in(user)
        Grant.objects.filter(user=user).update(**{over: ago(days=days)})

    Program().log_in(users.admin)

    assert not Grant.objects.filter(user=users.ops).exists()
    assert Grant.objects.filter(user=users.viewer).exists()


# What two requests do at the same moment.


#: What a request calls once it has read and checked everything, and before it writes.
REDEEMS, REFRESHES = "_new_grant", "_answers_challenge"


def before(name: str, act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Something happens before this function of ``grants`` is called."""
    function = getattr(grants, name)

    def act_first(*args: Any) -> Any:
        act()
        return function(*args)

    monkeypatch.setattr(grants, name, act_first)


def both(act: Callable[[str], Any], secret: str) -> list[Any]:
    """What two threads are answered that send the same secret."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(in_thread, [act] * 2, [secret] * 2))


# Codes.


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
def test_redeeming_a_code_twice_at_the_same_moment(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    before(REDEEMS, threading.Barrier(2, timeout=60).wait, monkeypatch)

    answers = both(program.exchange, code)

    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert [grant.ended_by for grant in Grant.objects.all()] == ["code replayed"]


@pytest.mark.every_database
def test_redeeming_a_code_while_its_client_is_blocked(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    before(REDEEMS, Client.objects.get().block, monkeypatch)

    assert error_in(program.exchange(code)) == (400, "invalid_grant")

    assert not Grant.objects.exists()


# Refresh tokens.


@pytest.mark.every_database
def test_refreshing_while_the_grant_ends(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    token = program.log_in(users.ops)["refresh_token"]
    grant = Grant.objects.get()
    before(REFRESHES, lambda: grant.end(Grant.Ended.REVOKED), monkeypatch)

    assert error_in(program.refresh(token)) == (400, "invalid_grant")

    assert not AccessToken.objects.current().filter(grant=grant).exists()
    assert RefreshToken.objects.count() == 1


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
def test_making_the_tenth_and_the_eleventh_successor_at_the_same_moment(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program()
    token = program.log_in(users.ops)["refresh_token"]
    RefreshToken.objects.update(uses=9)
    before(REFRESHES, threading.Barrier(2, timeout=60).wait, monkeypatch)

    answers = both(program.refresh, token)

    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert list(RefreshToken.objects.order_by("pk").values_list("uses", flat=True)) == [10, 0]
