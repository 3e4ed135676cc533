"""What people who approve changes are shown of them, alone and in the list, and what the others find."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pydantic_core import from_json

from demo_project.flights.models import Flight
from mcp_django import Approval
from mcp_django.console.admin import app_list
from mcp_django.models import Change, Decision
from tests.bridge.writes.approving import APPROVER, FLIGHT, digest_for, notes_of, propose, staff, text_of
from tests.bridge.writes.clicking import Browser, approve, proposed, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import Peer, Peers

pytestmark = pytest.mark.usefixtures("transactional_db")


# Who is shown what.


def test_people_without_the_permission_find_nothing(key: str, users: Users) -> None:
    clerk = Browser(staff("clerk", "flights.view_flight", "flights.change_flight"))

    assert clerk.page(key).status_code == 302
    assert [clerk.decide(key, way).status_code for way in ("approve", "reject", "apply")] == [404] * 3


def test_whoever_views_all_changes_and_may_approve_none_decides_nothing(key: str) -> None:
    auditor = Browser(make_staff("auditor", "mcp_django.view_change"))

    assert "fog" not in text_of(auditor.page(key))
    assert [auditor.decide(key, way).status_code for way in ("approve", "reject", "apply")] == [403] * 3


def test_what_others_approve_has_no_effect_on_changes_that_wait_for_their_user(
    flights: Any, declared: Declared, bob: User, root: Writer, users: Users
) -> None:
    declared.model(Flight, consent={"update": "ask"})
    key = propose(root)

    assert Browser(bob).page(key).status_code == 302
    assert [Browser(bob).decide(key, way).status_code for way in ("approve", "reject")] == [404] * 2
    assert Browser(users.admin).apply(key) == ["The change was made."]


def test_a_change_that_needs_others_by_now_waits_for_them(
    flights: Any, declared: Declared, bob: User, root: Writer, users: Users
) -> None:
    declared.model(Flight, consent=(consent := {"update": "ask"}))
    key = propose(root)
    digest = Browser(users.admin).digest(key)
    consent["update"] = "approve"

    told = said(Browser(users.admin).decide(key, "apply", digest=digest))

    assert told == ["Other people must approve this. Not enough of them have."] and notes_of() == "note 0"
    assert approve(bob, key) == ["The change was made."]


def test_the_list_says_what_each_change_waits_for(key: str, bob: User, users: Users) -> None:
    for who in (bob, users.ops):
        assert "waits: 1 person must approve · 0 have agreed" in text_of(
            Browser(who).client.get("/admin/mcp_django/change/")
        )


def test_a_vote_for_other_records_than_now_is_said_to_count_no_more(
    flights: Any, declared: Declared, bob: User, ops: Writer
) -> None:
    declared.model(Flight, consent={"update": Approval(count=2, when=lambda change: True)})
    carla, key = staff("carla"), propose(ops)
    approve(bob, key)
    marks = ["it counts no more" in text_of(Browser(carla).page(key))]
    Flight.objects.filter(pk=1).update(notes="rain")

    page = text_of(Browser(carla).page(key))

    assert [*marks, "it counts no more" in page] == [False, True] and "The rule that says so" in page


def test_a_comment_is_read_by_whoever_wrote_it_also_later(key: str, bob: User, users: Users) -> None:
    Browser(bob).reject(key, "not in fog")
    other = make_staff("auditor", "mcp_django.view_change")

    assert "not in fog" in text_of(Browser(bob).page(key)) and "not in fog" not in text_of(Browser(other).page(key))


def test_a_voter_reads_neither_why_it_failed_nor_what_others_said(
    flights: Any, declared: Declared, bob: User, ops: Writer
) -> None:
    declared.model(Flight, consent={"update": Approval(count=2)})
    eve, key = staff("eve"), propose(ops)
    Browser(bob).decide(key, "approve", digest=Browser(bob).digest(key), note="fine by bob")
    Browser(eve).reject(key, "no, says eve")
    failed = propose(ops, key="4")
    Browser(bob).decide(failed, "approve", digest=Browser(bob).digest(failed), note="fine by bob")
    Change.objects.filter(pk=failed).update(state="failed", note="Customer SECRET-42")

    pages = [text_of(Browser(bob).page(one)) for one in (key, failed)]

    assert all("fine by bob" in page for page in pages)
    assert not any(one in page for page in pages for one in ("says eve", "SECRET-42"))


def test_withdrawing_is_called_so(key: str, users: Users) -> None:
    own = Browser(users.ops)

    assert "Why not" not in text_of(own.page(key)) and own.reject(key) == [
        "The change was withdrawn. Nothing was changed."
    ]


def test_who_decided_stands_on_the_page_without_what_they_said(key: str, bob: User, users: Users) -> None:
    browser = Browser(bob)
    browser.decide(key, "reject", note="fog at JFK")

    for who in (users.admin, bob, make_staff("auditor", "mcp_django.view_change")):
        assert "bob rejected" in text_of(Browser(who).page(key))
    assert "fog at" not in text_of(Browser(make_staff("clerk", "mcp_django.view_change")).page(key))


def test_why_a_change_cannot_be_made_is_told_to_its_user_alone(key: str, bob: User, users: Users) -> None:
    Flight.objects.filter(pk=1).update(status="odd value")

    page, own = text_of(Browser(bob).page(key)), text_of(Browser(users.ops).page(key))

    assert "odd value" in own and "odd value" not in page
    assert "The change cannot be made as the records are now." in page and 'name="_approve"' not in page


def test_who_may_not_see_a_field_does_not_approve_its_value(
    approved: None, bob: User, root: Writer, declared: Declared
) -> None:
    no_airlines = staff("narrow", *(one for one in APPROVER if "airline" not in one))
    key = propose(root, notes="fog", carrier="AA")
    page = text_of(Browser(no_airlines).page(key))

    told = said(Browser(no_airlines).decide(key, "approve", digest=digest_for(bob, key)))

    assert "1 value is hidden from you" in page and "American" not in page and "fog" in page
    assert told == ["1 value is hidden from you, so you cannot approve the change."] and state_of(key) == "waiting"


# The list, for everybody who decides.

LIST = "/admin/mcp_django/change/"


@pytest.mark.every_database
def test_each_page_of_the_admin_says_how_many_changes_wait_for_its_viewer(
    approved: None, bob: User, ops: Writer, users: Users
) -> None:
    keys = [propose(ops, key=key) for key in ("1", "4")]
    eve = staff("eve")
    approve(bob, keys[0])

    shown = {}
    for who in (bob, eve, users.ops, users.viewer):
        client = Browser(who).client
        pages = [text_of(client.get(url)) for url in ("/admin/", "/admin/flights/flight/")]
        shown[who.username] = ["Changes by agents (1)" in page for page in pages]

    assert shown == {"bob": [True] * 2, "eve": [True] * 2, "ops": [False] * 2, "viewer": [False] * 2}
    assert "Changes by agents · 1 waits for you" in text_of(Browser(bob).client.get(LIST))


def several(who: Any, action: str, keys: list[str], **posted: str) -> Any:
    """The response to an action of the list, for these changes."""
    return Browser(who).client.post(LIST, {"action": action, "_selected_action": keys, **posted})


def digests_in(response: Any) -> dict[str, str]:
    """The names and values of the digests that a page brings back."""
    return dict(re.findall(r'name="(digest-\w+)" value="(\w+)"', text_of(response)))


@pytest.mark.every_database
def test_several_are_approved_by_one_click_each_by_itself(approved: None, bob: User, ops: Writer) -> None:
    keys = [propose(ops, key=key) for key in ("1", "4", "7")]
    page = several(bob, "approve_several", keys)
    digests = digests_in(page)
    assert len(digests) == 3 and text_of(page).count("fog") == 3
    Flight.objects.filter(pk=4).update(notes="since then")

    response = several(bob, "approve_several", keys, _decided="1", note="Fine.", **digests)

    assert [str(one) for one in response.wsgi_request._messages._queued_messages] == [
        "2 changes: The change was made.",
        "The records have changed since you opened this page. Look at the change again.",
    ]
    assert [state_of(key) for key in keys] == ["applied", "waiting", "applied"]
    assert [one.comment for one in Decision.objects.all()] == ["Fine.", "Fine."]


def test_several_hold_what_the_person_may_decide_alone(
    flights: Any, declared: Declared, bob: User, ops: Writer, users: Users
) -> None:
    consent: Any = {"update": "approve"}
    declared.model(Flight, consent=consent)
    others = propose(ops)
    consent["update"] = "ask"
    asked = propose(ops, key="4")
    digests = {f"digest-{key}": Browser(users.ops).digest(key) for key in (others, asked)}

    several(users.ops, "approve_several", [others, asked], _decided="1", **digests)
    assert [state_of(key) for key in (others, asked)] == ["waiting", "applied"]

    several(bob, "reject_several", [others, asked], _decided="1", note="No.")
    assert [state_of(key) for key in (others, asked)] == ["rejected", "applied"]
    assert ops.ask("get_change", change=others)["notes"] == ["No."]


def test_an_admin_site_whose_list_of_apps_knows_no_label(key: str, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(request: Any) -> Any:
        return [
            {"name": "More", "app_label": "more", "app_url": "/more/"},
            *AdminSite.get_app_list(admin.site, request),
        ]

    # What is lazy in front of the site has no attributes of its own, and they would not be put back.
    monkeypatch.setitem(vars(admin.site._wrapped), "get_app_list", partial(app_list.arranged, listed))  # type: ignore[attr-defined]

    assert "Changes by agents (1)" in text_of(Browser(bob).client.get("/admin/flights/flight/"))
    assert Client().get("/admin/login/").status_code == 200


def passing(get_response: Any) -> Any:
    """Middleware of a project, which nobody knows to choose no tenant."""
    return get_response


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("header", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_where_something_may_choose_a_tenant_people_approve_at_the_agents_host(
    approved: None, bob: User, mute: Peer, peers: Peers, users: Users, header: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    agent = peers(token_of(users.ops, *ALL_SCOPES))

    def pages(**values: str) -> tuple[str, str]:
        """The page of a new change at its agent's host and at another one."""
        key = proposed(agent, "update_record", model=FLIGHT, id="1", values=values)["change"]
        host = from_json(Change.objects.get(pk=key).origin)["meta"]["HTTP_HOST"]
        url = reverse("admin:mcp_django_change_change", args=[key])
        at: list[dict[str, Any]] = [{"HTTP_HOST": host}, {"HTTP_HOST": host, header: "b.example"}]
        return tuple(text_of(Browser(bob).client.get(url, follow=True, **one)) for one in at)  # type: ignore[return-value]

    assert ['name="_approve"' in page for page in pages(notes="fog")] == [True, True]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.passing"]
    here, elsewhere = pages(notes="rain")
    assert 'name="_approve"' in here and 'name="_approve"' not in elsewhere
    bob.user_permissions.add(Permission.objects.get(codename="view_change"))
    assert "Open this page at the host at which the agent works." in pages(notes="snow")[1]
