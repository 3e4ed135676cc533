"""Actions on the page of a row to which people must agree: nothing runs before they have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import mail

import mcp_django
from mcp_django import ObjectAction
from mcp_django.models import Change, Tool
from tests.bridge.browser.conftest import Agent, OnRow, form, page
from tests.bridge.browser.packages import Selling, own_path, restock, selling, sells, with_view
from tests.bridge.writes.approving import LONG_AGO
from tests.bridge.writes.clicking import Browser, approve
from tests.shop.models import Product
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db")

Drive = Callable[..., OnRow]


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_superuser("bob", date_joined=LONG_AGO)


def stock() -> int:
    return Product.objects.earliest("pk").stock


def proposed(agent: OnRow, *pages: Any, **token: str) -> str:
    """The change that waits for people, after its preview was confirmed."""
    if not token:
        text = agent.ask(*pages)["content"][0]["text"]
        token = {"confirm": text.partition('"confirm": "')[2].partition('"')[0]}
    waits: Any = json.loads(agent.ask(*pages, **token)["content"][0]["text"])
    assert waits["status"] == "pending", waits
    return str(waits["change"])


@pytest.mark.every_database
@pytest.mark.parametrize("decided", ["declared", "by an administrator"])
def test_a_link_that_acts_does_nothing_before_others_have_approved(on_row: Drive, bob: User, decided: str) -> None:
    """No row is written and no mail is sent; then it acts once, and the history says who approved."""

    class Approved(Selling):
        sell = selling(consent="approve") if decided == "declared" else sells

    agent = on_row(Approved, "sell")
    if decided != "declared":
        Tool.objects.filter(name=agent.tool).update(asks="approve")

    key = proposed(agent)
    assert (stock(), mail.outbox) == (0, [])
    assert Change.objects.get(pk=key).state == "waiting"

    assert approve(bob, key) == ["The change was made."]

    assert (stock(), len(mail.outbox)) == (70, 1)
    assert "approved by bob" in LogEntry.objects.latest("pk").change_message


def test_who_may_not_run_it_on_the_row_does_not_approve_it(on_row: Drive, bob: User) -> None:
    """Another administrator whom the admin does not offer the action has no button, and no vote."""

    class Offered(Selling):
        sell = selling(consent="approve")

        def get_change_actions(self, request: Any, object_id: str, form_url: str) -> Any:
            return () if request.user.username == "eve" else self.change_actions

    agent = on_row(Offered, "sell")
    eve = User.objects.create_superuser("eve", date_joined=LONG_AGO)
    key = proposed(agent)

    assert 'name="_approve"' not in Browser(eve).page(key).content.decode()
    Browser(eve).decide(key, "approve", digest=Browser(bob).digest(key))

    assert stock() == 0


@pytest.mark.parametrize("shows_page", [False, True])
def test_a_page_that_comes_first_is_declared_and_people_agree_to_its_answers(
    on_row: Drive, bob: User, shows_page: bool
) -> None:
    """Without the declaration the page is asked for only once people have agreed, and all is taken back."""
    declared = ObjectAction("own", path=own_path, consent="approve", shows_page=shows_page)
    agent = on_row(with_view(restock), "own", object_actions=[declared])

    if shows_page:
        answer = {"values": {"stock": 5}}
        key = proposed(agent, answer, confirm=agent.shown()["confirm"])
        assert "5" in Browser(bob).page(key).content.decode() and stock() == 0
        assert approve(bob, key) == ["The change was made."] and stock() == 5
    else:
        key = proposed(agent)
        approve(bob, key)
        assert Change.objects.get(pk=key).state == "failed" and stock() == 0


class Promote(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("is_staff",)


@pytest.mark.parametrize("decided", ["approve", "ask", ""])
def test_a_page_that_gives_rights_is_sent_where_other_people_approve_its_answers(
    declared: Declared, bob: User, decided: str
) -> None:
    """By the declaration, or by an administrator: then what is not approved by others is for a person."""

    @mcp_django.action(shows_page=True, consent="ask")
    def promote(self: Any, request: Any, queryset: Any) -> Any:
        asked = Promote(request.POST if "sent" in request.POST else None, instance=queryset[0])
        if asked.is_bound and asked.is_valid():
            asked.save()
            return None
        return page(request, form('{{ form }}<input type="hidden" name="sent">'), queryset, form=asked)

    declared.admin(
        User, type("Acting", (admin.ModelAdmin,), {"actions": [promote], "fields": ["username", "is_staff"]})
    )
    declared.model(User, writable=("update",), write_fields=("is_staff",), fields=["id", "username", "is_staff"])
    Tool.objects.update_or_create({"enabled": True, "asks": decided}, site="mcp", name="auth_user_promote")
    ann = User.objects.create_user("ann")
    agent = Agent(User.objects.create_superuser("root"), "read", "actions", "write")
    agent.tool = "auth_user_promote"
    row: Any = {"ids": [str(ann.pk)]}

    if decided != "approve":
        assert "its page says what users may do" in agent.refused(**row)
        return
    answer = {"values": {"is_staff": True}}
    waits = agent.ask(answer, confirm=agent.shown(**row)["confirm"], **row)
    key = json.loads(waits["content"][0]["text"])["change"]
    ann.refresh_from_db()
    assert not ann.is_staff and "is_staff" in Browser(bob).page(key).content.decode()

    assert approve(bob, key) == ["The change was made."]

    ann.refresh_from_db()
    assert ann.is_staff
