"""Who never approves a change, and for what no vote counts: the numbers are those of the design.

Each is tried by somebody who may do everything else, as far as a superuser, and held against each kind of change. At
the end somebody approves it who may, so that nothing else has kept it from being made.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client, override_settings
from django.test.client import RequestFactory
from django.urls import reverse
from django.utils import timezone

from mcp_django import Approval, MCPSite, site
from mcp_django.console.admin import trying
from mcp_django.models import AccessToken, Change, Decision, Grant, Tool
from tests.bridge.writes.approving import LONG_AGO, NOT_YOU, digest_for, staff, text_of
from tests.bridge.writes.clicking import Browser, approve, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.bridge.writes.kinds import KINDS, Kind, declare, move, switched_on
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("transactional_db", "flights")]

MADE = ["The change was made."]
STALE = ["The records have changed since you opened this page. Look at the change again."]
OVER = ["This change does not wait any more."]
NOT_ENOUGH = ["Other people must approve this. Not enough of them have."]


@pytest.fixture
def consent() -> Any:
    return "approve"


@pytest.fixture
def hidden_from() -> str:
    """Who sees no flight."""
    return ""


two = pytest.mark.parametrize("consent", [Approval(count=2)], ids=["two"])


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest, declared: Declared, consent: Any, hidden_from: str) -> Kind:
    declare(declared, consent, hidden_from)
    found: Kind = request.param
    return found


@pytest.fixture
def agent(users: Users) -> Writer:
    """The agent of a superuser."""
    switched_on()
    return Writer(users.admin)


@pytest.fixture
def waits(kind: Kind, agent: Writer, bob: User) -> str:
    """A change that waits for bob, or somebody like him."""
    return kind.propose(agent)


def boss(name: str, **more: Any) -> User:
    """A superuser, whose account is old."""
    return staff(name, is_superuser=True, **more)


def told(who: Any, key: str, digest: str) -> list[str]:
    browser = who if isinstance(who, Browser) else Browser(who)
    return said(browser.decide(key, "approve", digest=digest))


def assert_waits(kind: Kind, key: str, by: User) -> None:
    """Nobody has made the change, and ``by`` can."""
    call_command("mcp_due", verbosity=0)
    assert (state_of(key), kind.times()) == ("waiting", 0)
    assert approve(by, key) == MADE
    assert (state_of(key), kind.times()) == ("applied", 1)


def test_01_the_agents_user_by_a_click(kind: Kind, waits: str, bob: User, users: Users) -> None:
    own, digest = Browser(users.admin), digest_for(bob, waits)
    page = text_of(own.page(waits))

    statuses = [own.decide(waits, way, digest=digest).status_code for way in ("apply", "approve")]

    assert statuses == [400, 400]
    assert 'name="_apply"' not in page and 'name="_approve"' not in page and "Withdraw" in page
    assert_waits(kind, waits, bob)


@pytest.mark.parametrize("whose", ["02_another_token_of_the_user", "03_another_client_of_whoever_may_approve"])
def test_by_an_agent(kind: Kind, waits: str, bob: User, users: Users, whose: str) -> None:
    """No tool decides, and the page of the admin is open to a login alone, whatever credential comes with it."""
    user = users.admin if whose.startswith("02") else bob
    bearer = Client(headers={"Authorization": f"Bearer {token_of(user, *ALL_SCOPES)}"})
    tools = Writer(user).tools()

    response = bearer.post(
        reverse("admin:mcp_django_change_decide", args=[waits]), {"_approve": "1", "digest": digest_for(bob, waits)}
    )

    assert response.status_code == 302 and response["Location"].startswith("/admin/login/")
    assert tools and not [name for name in tools if "approve" in name or "decide" in name or "vote" in name]
    assert_waits(kind, waits, bob)


def test_02_another_token_does_not_go_on_with_what_waits(
    kind: Kind, waits: str, bob: User, users: Users, peers: Peers
) -> None:
    other = peers(token_of(users.admin, *ALL_SCOPES))

    assert other.call("get_change", change=waits)["isError"]
    assert_waits(kind, waits, bob)


@pytest.mark.parametrize("recorded", ["when_it_was_made", "later"])
def test_04_who_made_the_token(kind: Kind, agent: Writer, bob: User, users: Users, peers: Peers, recorded: str) -> None:
    eve, maker = staff("eve"), bob if recorded == "when_it_was_made" else None
    User.objects.filter(pk=bob.pk).update(is_superuser=True)
    made, token = AccessToken.objects.create_token(user=users.admin, scopes=ALL_SCOPES, made_by=maker)
    key = kind.propose(peers(token))
    if recorded == "later":
        call_command("mcp_token", token=made.pk, made_by="bob", verbosity=0)

    assert NOT_YOU in text_of(Browser(bob).page(key))
    assert told(bob, key, digest_for(eve, key)) == [NOT_YOU]
    assert_waits(kind, key, eve)


def test_05_who_consented_to_the_grant(kind: Kind, agent: Writer, bob: User, users: Users, peers: Peers) -> None:
    """The user of a grant is who consented: a login that somebody else acts in consents to none."""
    end = timezone.now() + timedelta(hours=1)
    grant = Grant.objects.create(
        user=users.admin, client="https://client.example/id", resource="http://localhost/mcp", scopes=ALL_SCOPES,
        expires_at=end,
    )  # fmt: skip
    made = AccessToken.objects.create_token(user=users.admin, scopes=ALL_SCOPES, grant=grant, expires_at=end)
    key = kind.propose(peers(made[1]))

    status = Browser(users.admin).decide(key, "approve", digest=digest_for(bob, key)).status_code

    assert status == 400 and str(users.admin.pk) in Change.objects.get(pk=key).persons["keys"]
    assert_waits(kind, key, bob)


def test_06_who_tried_as_another(kind: Kind, agent: Writer, bob: User, users: Users) -> None:
    trier = boss("trier")
    request = RequestFactory().post("/admin/")
    request.user = trier
    request.session = Client().session  # type: ignore[attr-defined]

    class Trying(Writer):
        def request(self, revision: str, method: str, params: Any = None) -> Any:
            return {"result": trying.send(request, site, self.user, method, params, scopes=ALL_SCOPES).result}

    key = kind.propose(Trying(users.admin))

    assert told(trier, key, digest_for(bob, key)) == [NOT_YOU]
    assert_waits(kind, key, bob)


@pytest.mark.parametrize("of", ["07_now", "10_when_it_was_proposed"])
def test_another_account_with_the_address(kind: Kind, agent: Writer, bob: User, users: Users, of: str) -> None:
    User.objects.filter(pk=users.admin.pk).update(email="ann@old.example")
    key = kind.propose(Writer(User.objects.get(pk=users.admin.pk)))
    User.objects.filter(pk=users.admin.pk).update(email="ann@new.example")
    other = boss("other", email=" Ann@NEW.example" if of == "07_now" else "ANN@old.example ")

    assert told(other, key, digest_for(bob, key)) == [NOT_YOU]
    assert_waits(kind, key, bob)


def test_08_an_account_that_is_younger_than_the_change(kind: Kind, waits: str, bob: User) -> None:
    young = boss("young", date_joined=timezone.now() + timedelta(minutes=1))

    assert told(young, waits, digest_for(bob, waits)) == ["Your account is younger than this change."]
    assert_waits(kind, waits, bob)


@pytest.mark.parametrize("way", ["hijack_history", "_real"])
def test_09_an_impersonated_login(
    kind: Kind, waits: str, bob: User, users: Users, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The middleware that says so chooses no tenant.
    monkeypatch.setattr(MCPSite, "remember_key", lambda self, request: "")
    digest = digest_for(bob, waits)
    behind: Any = [str(users.admin.pk)] if way == "hijack_history" else users.admin.pk
    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tests.bridge.writes.clicking.impersonating"]):
        browser = Browser(bob)
        session = browser.client.session
        session[way] = behind
        session.save()
        refusal = told(browser, waits, digest)

    assert refusal == ["You act as another user. Log in as yourself to decide about changes."]
    assert_waits(kind, waits, bob)


@pytest.mark.parametrize("hidden_from", ["blind"])
def test_11_who_may_not_see_a_row(kind: Kind, agent: Writer, bob: User) -> None:
    blind = boss("blind")
    key = kind.propose(agent)
    page = text_of(Browser(blind).page(key))

    refusal = told(blind, key, digest_for(bob, key))

    assert 'name="_approve"' not in page and "note 0" not in page
    assert "hidden from you" in refusal[0]
    assert_waits(kind, key, bob)


@pytest.mark.parametrize("lost", ["change_flight", "approve_change", "is_superuser", "is_staff"])
def test_12_who_lost_the_right_between_page_and_vote(kind: Kind, waits: str, bob: User, lost: str) -> None:
    eve = make_staff("eve") if lost == "is_superuser" else staff("eve")
    User.objects.filter(pk=eve.pk).update(is_superuser=lost == "is_superuser", date_joined=LONG_AGO)
    digest = Browser(User.objects.get(pk=eve.pk)).digest(waits)
    if lost.startswith("is_"):
        User.objects.filter(pk=eve.pk).update(**{lost: False})
    else:
        eve.user_permissions.remove(*eve.user_permissions.filter(codename=lost))

    response = Browser(eve).decide(waits, "approve", digest=digest)

    # Whoever may not approve at all finds no change; the login page is what others than staff find.
    assert response.status_code == (302 if lost in ("change_flight", "is_staff") else 404)
    assert not Decision.objects.exists()
    assert_waits(kind, waits, bob)


@two
@pytest.mark.parametrize("right", ["change_flight", "approve_change", "is_active", "is_staff"])
def test_13_who_lost_the_right_between_vote_and_run(kind: Kind, agent: Writer, bob: User, right: str) -> None:
    eve, zoe, key = staff("eve"), staff("zoe"), kind.propose(agent)
    approve(bob, key)
    if right.startswith("is_"):
        User.objects.filter(pk=bob.pk).update(**{right: False})
    else:
        bob.user_permissions.remove(*bob.user_permissions.filter(codename=right))

    assert approve(eve, key) == NOT_ENOUGH
    assert_waits(kind, key, zoe)


def test_14_for_another_digest(kind: Kind, waits: str, bob: User) -> None:
    digest = digest_for(bob, waits)
    assert [told(bob, waits, one) for one in ("", "0" * 64, digest.upper())] == [STALE] * 3

    move()

    assert told(bob, waits, digest) == STALE and not Decision.objects.exists()
    assert_waits(kind, waits, bob)


@two
def test_14_a_vote_for_what_was_shown_before(kind: Kind, agent: Writer, bob: User) -> None:
    eve, key = staff("eve"), kind.propose(agent)
    approve(bob, key)
    move()

    assert approve(eve, key)[0].startswith("Your approval was recorded.")
    assert_waits(kind, key, bob)


@two
def test_15_twice(kind: Kind, agent: Writer, bob: User) -> None:
    eve, key = staff("eve"), kind.propose(agent)

    assert [approve(bob, key) for _ in range(3)] == [
        ["Your approval was recorded. 2 people must approve · 1 has agreed."]
    ] * 3
    assert_waits(kind, key, eve)


@pytest.mark.parametrize("end", ["16_rejected", "17_withdrawn", "17_expired", "17_applied"])
def test_after_its_end(kind: Kind, waits: str, bob: User, users: Users, end: str) -> None:
    eve, digest = boss("eve"), digest_for(bob, waits)
    match end:
        case "16_rejected":
            assert Browser(eve).reject(waits) == ["The change was rejected. Nothing was changed."]
        case "17_withdrawn":
            Browser(users.admin).reject(waits)
        case "17_expired":
            Change.objects.filter(pk=waits).update(expires_at=timezone.now())
        case _:
            approve(eve, waits)
    times = kind.times()

    assert [told(one, waits, digest) for one in (bob, eve)] == [OVER] * 2
    call_command("mcp_due", verbosity=0)
    assert kind.times() == times == (end == "17_applied")
    assert state_of(waits) == end[3:]


@pytest.mark.parametrize("how", ["inactive", "off"])
def test_18_while_the_agents_user_is_inactive_or_the_tool_is_off(
    kind: Kind, waits: str, bob: User, users: Users, how: str
) -> None:
    digest, tool = digest_for(bob, waits), Tool.objects.get_or_create(site="mcp", name=kind.tool)[0]

    def let(allowed: bool) -> None:
        User.objects.filter(pk=users.admin.pk).update(is_active=allowed or how != "inactive")
        Tool.objects.filter(pk=tool.pk).update(enabled=allowed or how != "off")

    let(False)
    refusal = told(bob, waits, digest)
    call_command("mcp_due", verbosity=0)

    assert "may no longer do this" in refusal[0] and not Decision.objects.exists() and kind.times() == 0
    let(True)
    assert_waits(kind, waits, bob)
