"""The list says what each token is worth; a form makes one, with the end that was chosen; a new one is tested."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.utils import timezone

from mcp_django.audit.recorder import recorder
from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.models import AccessToken, Call, UsedNonce
from mcp_django.models.tokens import NEVER
from tests.console.visiting import client_of
from tests.support.data import Users, make_staff

pytestmark = pytest.mark.django_db

URL = "/admin/mcp_django/accesstoken/"
OWN = [f"mcp_django.{verb}_accesstoken" for verb in ("view", "add", "change", "delete")]


def token_of(user: User, **changes: Any) -> AccessToken:
    token, _ = AccessToken.objects.create_token(user=user, name="laptop", expires_at=NEVER)
    AccessToken.objects.filter(pk=token.pk).update(**changes)
    token.refresh_from_db()
    return token


def row(user: User, token: AccessToken) -> str:
    """The line of a token in the list that a user sees."""
    page = client_of(user).get(URL).content.decode()
    [found] = [line for line in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if f"{URL}{token.pk}/change/" in line]
    return found


def new(**posted: Any) -> dict[str, Any]:
    return {"name": "laptop", "scopes": ["read"], "lifetime": "never", "nonce": new_nonce(), **posted}


def shown_in(page: bytes) -> list[str]:
    return re.findall(r"mcpdj_[0-9A-Za-z]{49}", page.decode())


# The list.


def test_a_badge_says_what_a_token_is_worth(users: Users) -> None:
    User.objects.filter(pk=users.viewer.pk).update(is_active=False)
    cases: list[tuple[User, dict[str, timedelta], str, bool]] = [
        (users.ops, {}, "valid", False),
        (users.ops, {"expires_at": timedelta(days=6)}, "ends within 7 days", False),
        (users.ops, {"expires_at": timedelta(days=8)}, "valid", False),
        (users.ops, {"expires_at": timedelta(days=-1)}, "expired", True),
        (users.ops, {"revoked_at": timedelta(days=-1)}, "revoked", True),
        (users.viewer, {}, "user inactive", True),
    ]
    for user, changes, badge, is_dead in cases:
        moments = {name: timezone.now() + delta for name, delta in changes.items()}
        token = token_of(user, **moments, **({"name": "<script>x</script>"} if is_dead else {}))

        line = row(users.admin, token)

        assert re.search(rf'mcp-badge [a-z-]*">{badge}<', line), (changes, badge)
        assert ("is-dead" in line) is is_dead and "<script>x" not in line
        offered = {way: f"{token.pk}/{way}/" in line for way in ("revoke", "roll")}
        assert badge == "user inactive" or offered == {"revoke": not is_dead, "roll": not is_dead}


def test_who_may_only_view_tokens_is_offered_nothing_else_and_revokes_not_even_an_own_one() -> None:
    viewer = make_staff("reader", "mcp_django.view_accesstoken")
    token = token_of(viewer)

    line = row(viewer, token)
    page = client_of(viewer).get(f"{URL}{token.pk}/change/").content.decode()

    assert "/revoke/" not in line + page and "/roll/" not in line + page
    assert client_of(viewer).post(f"{URL}{token.pk}/revoke/").status_code == 403
    assert AccessToken.objects.get().revoked_at is None
    # Who may change tokens and not make any is offered to end them.
    changer = make_staff("changer", "mcp_django.view_accesstoken", "mcp_django.change_accesstoken")
    line = row(changer, token_of(changer))
    assert "/revoke/" in line and "/roll/" not in line


# Revoking and deleting.


def test_revoking_asks_first_and_ends_the_token(users: Users) -> None:
    token = token_of(users.ops)
    client, url = client_of(users.admin), f"{URL}{token.pk}/revoke/"

    asked = client.get(url)
    token.refresh_from_db()
    was_revoked = token.revoked_at is not None
    answer = client.post(url, follow=True)
    token.refresh_from_db()

    assert asked.status_code == 200 and not was_revoked
    assert token.revoked_at is not None
    assert "“laptop” was revoked" in answer.content.decode()
    assert url not in client.get(f"{URL}{token.pk}/change/").content.decode()
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Revoked."]
    assert "already ended" in client.post(url, follow=True).content.decode()


def test_a_forged_post_revokes_nothing(users: Users) -> None:
    token = token_of(users.admin)

    response = client_of(users.admin, enforce_csrf_checks=True).post(f"{URL}{token.pk}/revoke/")
    token.refresh_from_db()

    assert response.status_code == 403 and token.revoked_at is None


def test_revoking_a_token_of_another_by_its_id(users: Users) -> None:
    staff = make_staff("staff", *OWN)
    token = token_of(users.admin)
    url = f"{URL}{token.pk}/revoke/"

    answers = [client_of(staff).get(url), client_of(staff).post(url), client_of(staff).post(f"{URL}999999/revoke/")]
    token.refresh_from_db()

    assert [answer.status_code for answer in answers] == [403] * 3
    assert token.revoked_at is None


def test_only_a_token_that_was_never_used_is_deleted(users: Users) -> None:
    used, unused = token_of(users.ops, last_used_at=timezone.now()), token_of(users.ops)
    client = client_of(users.admin)

    answers = [client.post(f"{URL}{token.pk}/delete/", {"post": "yes"}) for token in (used, unused)]

    assert [answer.status_code for answer in answers] == [403, 302]
    assert AccessToken.objects.get() == used


def test_a_used_token_goes_with_its_user(users: Users) -> None:
    owner = make_staff("owner")
    token_of(owner, last_used_at=timezone.now())

    client_of(users.admin).post(f"/admin/auth/user/{owner.pk}/delete/", {"post": "yes"})

    assert not User.objects.filter(pk=owner.pk).exists()


# When a token ends.


def test_a_token_lives_for_the_days_that_were_chosen(users: Users) -> None:
    # A date counts only where "on a date" was chosen.
    ignored = {"expires_at_0": "nonsense", "expires_at_1": "12:00:00"}
    client_of(users.admin).post(f"{URL}add/", new(user=users.ops.pk, lifetime="30", **ignored))

    token = AccessToken.objects.get()
    assert token.expires_at is not None
    assert round((token.expires_at - token.created_at) / timedelta(days=1)) == 30


def test_lives_beyond_the_longest_are_not_offered(users: Users, settings: Any) -> None:
    roll, add = f"{URL}{token_of(users.admin).pk}/roll/", f"{URL}add/?lifetime=never"
    for wanted, most, offered, first in (
        (90, None, ["7", "30", "90", "date", "never"], "90"), (20, None, ["7", "30", "90", "date", "never"], "30"),
        (90, 30, ["7", "30", "date"], "30"), (90, 5, ["5", "date"], "5"),
    ):  # fmt: skip
        settings.MCP = {**settings.MCP, "TOKEN_DAYS": wanted, "TOKEN_MAX_DAYS": most}
        client = client_of(users.admin)
        for form in (client.get(roll).context["form"], client.get(add).context["adminform"].form):
            assert [value for value, _ in form.fields["lifetime"].choices] == offered
            assert form["lifetime"].value() == first


def test_a_life_that_is_not_allowed_rolls_no_token(users: Users, settings: Any) -> None:
    token = token_of(users.admin)
    settings.MCP = {**settings.MCP, "TOKEN_MAX_DAYS": 30}

    for posted in (
        {"lifetime": "90"}, {"lifetime": "never"}, {"lifetime": ""},
        {"lifetime": "date", "expires_at_0": "2001-01-31", "expires_at_1": "12:00:00"},
        {"lifetime": "date", "expires_at_0": "9999-12-31", "expires_at_1": "23:59:59"},
    ):  # fmt: skip
        response = client_of(users.admin).post(f"{URL}{token.pk}/roll/", new(grace="0", **posted))
        assert response.context["form"].errors, posted
    assert [one.revoked_at for one in AccessToken.objects.all()] == [None]


# Once.


@pytest.mark.every_database
def test_a_reload_of_the_answer_makes_no_second_token(users: Users) -> None:
    client = client_of(users.admin)
    for url in (f"{URL}add/", f"{URL}{token_of(users.admin).pk}/roll/"):
        before, posted = AccessToken.objects.count(), new(user=users.ops.pk, grace="3600")

        first = client.post(url, posted)
        logged = LogEntry.objects.count()
        again = client.post(url, posted)

        assert shown_in(first.content)
        assert AccessToken.objects.count() == before + 1
        assert again.status_code == 200 and not shown_in(again.content)
        assert "its token was made then" in again.content.decode()
        assert LogEntry.objects.count() == logged


@pytest.mark.every_database
def test_a_nonce_that_is_not_ours_makes_no_token(users: Users) -> None:
    urls = f"{URL}add/", f"{URL}{token_of(users.admin).pk}/roll/"
    for url, nonce in product(urls, ["forged:1abcde:forged", "", "forged", "x" * 100_000]):
        response = client_of(users.admin).post(url, new(user=users.ops.pk, grace="0", nonce=nonce))

        assert "open for too long" in response.content.decode(), (url, nonce[:30])
    assert AccessToken.objects.count() == 1 and not UsedNonce.objects.exists()


def test_a_form_with_a_mistake_can_be_sent_again(users: Users) -> None:
    client, posted = client_of(users.admin), new(user=users.ops.pk)
    client.post(f"{URL}add/", {**posted, "name": ""})

    client.post(f"{URL}add/", posted)

    assert AccessToken.objects.count() == 1


def test_the_forms_hold_a_nonce_of_their_own(users: Users) -> None:
    client, urls = client_of(users.admin), [f"{URL}add/", f"{URL}{token_of(users.admin).pk}/roll/"]

    pages = [client.get(url).content.decode() for url in [*urls, *urls]]

    assert len({re.search(r'name="nonce" value="([^"]{20,})"', page)[1] for page in pages}) == 4  # type: ignore[index]


# Testing a token.


def test_a_new_token_is_tested_as_the_endpoint_would_read_it(users: Users) -> None:
    client = client_of(users.admin)
    page = client.post(f"{URL}add/", new(user=users.ops.pk, scopes=["read"])).content
    [plain] = set(shown_in(page))

    answer = client.post(f"{URL}test/", {"token": plain})
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())

    assert f'action="{URL}test/"' in page.decode()
    assert "acts as ops" in text and "Scopes: read" in text
    assert int(re.search(r"Tools: (\d+)", text)[1]) > 3 and int(re.search(r"Models: (\d+)", text)[1]) > 2  # type: ignore[index]
    assert "no-store" in answer["Cache-Control"]


def test_a_tested_token_is_kept_nowhere(users: Users, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(users.admin)
    _, plain = AccessToken.objects.create_token(user=users.admin)

    answer = client.post(f"{URL}test/", {"token": plain})
    recorder.flush()

    assert plain not in answer.content.decode() + caplog.text + str(client.session.items()) + str(client.cookies)
    assert plain not in str(list(LogEntry.objects.values()) + list(Call.objects.values()))


@pytest.mark.every_database
def test_a_token_that_the_endpoint_refuses_and_a_text_that_is_none_reach_nothing(users: Users) -> None:
    refused: list[dict[str, Any]] = [
        {"revoked_at": timezone.now()}, {"expires_at": timezone.now()}, {"addresses": ["192.0.2.7/32"]},
    ]  # fmt: skip
    made = [AccessToken.objects.create_token(user=users.admin) for _ in refused]
    for (token, _), changes in zip(made, refused, strict=True):
        AccessToken.objects.filter(pk=token.pk).update(**changes)

    for text in [*(plain for _, plain in made), "", "nonsense", "x" * 100_000, "mcpdj_\r\nX: y", "é"]:
        page = client_of(users.admin).post(f"{URL}test/", {"token": text}).content.decode()
        assert "would refuse this token" in page and "acts as" not in page, text[:30]


def test_staff_who_test_a_token_of_another_learn_nothing_of_it(users: Users) -> None:
    _, theirs = AccessToken.objects.create_token(user=users.admin, name="theirs")
    staff = make_staff("staff", *OWN)
    token_of(staff)
    client = client_of(staff)
    texts = {
        re.sub(r'"csrfmiddlewaretoken" value="\w+"', "", client.post(f"{URL}test/", {"token": token}).content.decode())
        for token in (theirs, "unknown")
    }

    assert len(texts) == 1 and "would refuse this token" in texts.pop()


def test_testing_a_token_needs_the_permission_to_make_one_and_a_token_against_forgery(users: Users) -> None:
    viewer = make_staff("reader", "mcp_django.view_accesstoken", "mcp_django.change_accesstoken")
    _, plain = AccessToken.objects.create_token(user=viewer)

    assert client_of(viewer).post(f"{URL}test/", {"token": plain}).status_code == 403
    assert client_of(users.admin).get(f"{URL}test/").status_code == 405
    assert client_of(users.admin, enforce_csrf_checks=True).post(f"{URL}test/", {"token": plain}).status_code == 403
