"""What two requests do at the same moment: a code gives one grant, and what has just ended gives nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcp_django.models import AccessToken, Grant
from mcp_django.oauth import grants
from mcp_django.oauth.models import Client, RefreshToken
from tests.oauth.flow import Person, Program, code_in, error_in
from tests.oauth.test_refresh import in_thread
from tests.support.data import Users

pytestmark = pytest.mark.every_database

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


@pytest.mark.django_db(transaction=True)
def test_redeeming_a_code_twice_at_the_same_moment(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    before(REDEEMS, threading.Barrier(2, timeout=30).wait, monkeypatch)

    answers = both(program.exchange, code)

    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert [grant.ended_by for grant in Grant.objects.all()] == ["code replayed"]


def test_redeeming_a_code_while_its_client_is_blocked(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    before(REDEEMS, Client.objects.get().block, monkeypatch)

    assert error_in(program.exchange(code)) == (400, "invalid_grant")

    assert not Grant.objects.exists()


# Refresh tokens.


def test_refreshing_while_the_grant_ends(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    token = program.log_in(users.ops)["refresh_token"]
    grant = Grant.objects.get()
    before(REFRESHES, lambda: grant.end(Grant.Ended.REVOKED), monkeypatch)

    assert error_in(program.refresh(token)) == (400, "invalid_grant")

    assert not AccessToken.objects.current().filter(grant=grant).exists()
    assert RefreshToken.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_making_the_tenth_and_the_eleventh_successor_at_the_same_moment(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program()
    token = program.log_in(users.ops)["refresh_token"]
    RefreshToken.objects.update(uses=9)
    before(REFRESHES, threading.Barrier(2, timeout=30).wait, monkeypatch)

    answers = both(program.refresh, token)

    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert list(RefreshToken.objects.order_by("pk").values_list("uses", flat=True)) == [10, 0]
