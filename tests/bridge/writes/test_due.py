"""What ``mcp_due`` does: mails about changes that wait, their end, and going on with approved ones after a crash."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import CommandError, call_command
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.bridge.changes import approvals
from mcp_django.models import Change, Decision, DueRun, change_waits
from mcp_django.server import due
from tests.bridge.writes.approving import notes_of, propose, staff
from tests.bridge.writes.clicking import Browser, state_of
from tests.bridge.writes.conftest import Writer
from tests.support.data import Users
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def consent(flights: list[Flight], declared: Declared) -> dict[str, Any]:
    """What an update needs, which a test may change."""
    found: dict[str, Any] = {"update": "approve"}
    declared.model(Flight, consent=found)
    return found


@pytest.fixture
def bob(users: Users) -> User:
    return staff("bob", email="bob@example.com")


def ran(**options: Any) -> str:
    out = StringIO()
    call_command("mcp_due", stdout=out, **options)
    return out.getvalue().strip()


def test_people_who_may_approve_are_written_to_once_without_values(
    consent: Any, bob: User, ops: Writer, users: Users, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "BASE_URL": "https://example.com"}
    staff("clerk", "flights.view_flight", email="clerk@example.com")
    User.objects.filter(pk__in=[users.ops.pk, users.admin.pk]).update(email="")
    for key in ("1", "4"):
        propose(ops, notes="fog", key=key)

    told = [ran(), ran()]

    [sent] = mail.outbox
    assert (sent.to, sent.subject) == (["bob@example.com"], "2 changes by agents wait for you")
    assert "2 of flights, by " in sent.body and "https://example.com/admin/mcp_django/change/" in sent.body
    assert "fog" not in sent.body and "note 0" not in sent.body and "decide" not in sent.body
    assert "mails that were sent: 1" in told[0] and "mails that were sent: 0" in told[1]


def test_a_user_is_written_to_about_a_change_of_the_own_agent(consent: Any, root: Writer, users: Users) -> None:
    consent["update"] = "ask"
    User.objects.filter(pk=users.admin.pk).update(email="ann@example.com")
    propose(root)

    ran()

    assert [one.to for one in mail.outbox] == [["ann@example.com"]]


@pytest.mark.every_database
def test_nobody_is_written_to_twice_in_a_quarter_of_an_hour(consent: Any, bob: User, ops: Writer) -> None:
    propose(ops)
    ran()
    later = propose(ops, key="4")
    ran()
    assert len(mail.outbox) == 1

    Change.objects.exclude(pk=later).update(told_at=timezone.now() - timedelta(minutes=16))
    ran()

    assert [one.subject for one in mail.outbox] == ["1 change by an agent waits for you"] * 2


def test_a_mail_that_fails_is_sent_by_the_next_run_and_no_other_is_sent_twice(
    consent: Any, bob: User, ops: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    staff("carla", email="carla@example.com")
    real, away = mail.EmailMessage.send, {"bob@example.com", "carla@example.com"}

    def send(message: Any, **options: Any) -> int:
        if away & set(message.to):
            raise OSError("no route to the mail server")
        return real(message, **options)

    monkeypatch.setattr(mail.EmailMessage, "send", send)
    propose(ops)
    User.objects.exclude(username__in=["bob", "carla"]).update(email="")

    lines = [ran()]
    away.remove("carla@example.com")
    lines.append(ran())
    away.clear()
    Change.objects.update(told_at=timezone.now() - timedelta(hours=1))
    lines.append(ran())

    assert ["mails that were sent: 1" in one for one in lines] == [False, True, False]
    assert [one.to for one in mail.outbox] == [["carla@example.com"]]


@pytest.mark.every_database
def test_what_waits_too_long_expires(consent: Any, bob: User, ops: Writer) -> None:
    key = propose(ops)
    Change.objects.filter(pk=key).update(expires_at=timezone.now())

    assert "changes that have expired: 1" in ran()
    assert state_of(key) == "expired" and not mail.outbox


@pytest.mark.every_database
def test_an_approved_change_is_made_after_its_run_is_gone(consent: Any, bob: User, ops: Writer) -> None:
    key = propose(ops)
    digest = Browser(bob).digest(key)
    approvals.vote(Change.objects.get(pk=key), bob, Decision.Verdict.APPROVE, digest, "")
    lost = {"state": "writing", "run": "gone", "lease_until": timezone.now()}
    Change.objects.filter(pk=key).update(**lost)

    assert "changes continued: 1" in ran()
    assert (state_of(key), notes_of()) == ("applied", "fog")


@pytest.mark.parametrize("lacking", ["votes", "right", "state"])
def test_a_change_that_lacks_a_vote_by_now_is_not_gone_on_with(
    consent: Any, bob: User, ops: Writer, lacking: str
) -> None:
    key = propose(ops)
    if lacking != "votes":
        approvals.vote(Change.objects.get(pk=key), bob, Decision.Verdict.APPROVE, Browser(bob).digest(key), "")
    if lacking == "right":
        bob.user_permissions.clear()
    if lacking == "state":
        Flight.objects.filter(pk=1).update(notes="since then")
    Change.objects.filter(pk=key).update(state="writing", run="gone", lease_until=timezone.now())
    before = notes_of()

    assert "changes continued: 0" in ran()
    assert notes_of() == before


def test_a_part_that_fails_stops_no_other_and_is_told(
    consent: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    called = []

    def fails() -> int:
        raise RuntimeError("no mail today")

    monkeypatch.setattr(due, "_parts", {"first": fails})
    due.due("second")(lambda: called.append(1) or 1)  # type: ignore[func-returns-value]

    with pytest.raises(CommandError, match="A part failed"):
        ran()
    assert called == [1] and "no mail today" in caplog.text
    assert DueRun.objects.count() == 1


def test_the_signal_has_the_change_once_it_is_stored_and_a_receiver_may_fail(
    consent: Any, bob: User, ops: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def hear(change: Change, **_: Any) -> None:
        heard.append(Change.objects.get(pk=change.pk).state)
        raise RuntimeError("not today")

    change_waits.connect(hear)
    try:
        propose(ops)
    finally:
        change_waits.disconnect(hear)

    assert heard == ["waiting"] and "not today" in caplog.text


def test_a_loop_needs_a_pause(db: None) -> None:
    with pytest.raises(CommandError, match="above 0"):
        ran(loop=0)
