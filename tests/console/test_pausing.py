"""How people pause agents in the console, and let them go on; and who may."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import reverse

from mcp_django import site
from mcp_django.audit.recorder import recorder
from mcp_django.console.review import reasons
from mcp_django.console.review.checklist import Verdict
from mcp_django.models import AccessToken, Call, Grant, Restriction, digest
from mcp_django.oauth.models import Client as OAuthClient
from tests.console.visiting import client_of, content_of, text_of
from tests.oauth.flow import Program
from tests.support.asking import DirectPeer
from tests.support.data import Users, make_staff, token_of
from tests.support.pausing import SAID, WHY, pause

pytestmark = pytest.mark.usefixtures("transactional_db")

INDEX = "/admin/mcp_django/"
PAUSE = "/admin/mcp_django/restriction/pause/"


def pauses() -> list[tuple[str, str, str, str]]:
    return list(Restriction.objects.order_by("pk").values_list("kind", "name", "reason", "by"))


def token_page(user: User, page: str = "pause") -> str:
    token = AccessToken.objects.get(hash=digest(token_of(user, name="laptop")))
    return reverse(f"admin:mcp_django_accesstoken_{page}", args=[token.pk])


def test_one_button_on_the_first_page_stops_all_agents_and_each_page_says_so_and_lets_them_go_on(
    users: Users, trail: None
) -> None:
    client = client_of(users.admin)
    page = client.get(INDEX).content.decode()
    assert "Stop all agents" in page and "All agents are paused." not in page

    response = client.post(PAUSE, {"_pause": "1", "reason": WHY})

    assert (response.status_code, response["Location"]) == (302, INDEX)
    assert pauses() == [("all", "", WHY, "admin")]
    shown = {}
    for url in (INDEX, reverse("admin:mcp_django_tool_changelist"), reverse("admin:mcp_django_accesstoken_changelist"),
                token_page(users.admin, "change"), token_page(users.admin), token_page(users.admin, "history"),
                reverse("admin:mcp_django_call_connections"), reverse("admin:mcp_django_restriction_changelist"),
                reverse("admin:mcp_django_oauth_client_changelist")):  # fmt: skip
        text = text_of(client.get(url).content.decode())
        shown[url] = "All agents are paused. By admin, on " in text and f"· They read: {WHY}" in text
    assert shown == dict.fromkeys(shown, True)
    assert "Stop all agents" not in client.get(INDEX).content.decode()

    client.post(PAUSE, {"_resume": "1"})

    assert pauses() == []
    assert "All agents are paused." not in client.get(INDEX).content.decode()
    recorder.flush()
    lines = Call.objects.filter(kind=Call.Kind.SWITCH, method="all").order_by("pk")
    assert list(lines.values_list("reason", "user_name", "values")) == [
        ("paused", "admin", f'{{"why":"{WHY}"}}'), ("resumed", "admin", ""),
    ]  # fmt: skip
    assert list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True)) == [
        f"Agents paused: {WHY}", "Agents let go on.",
    ]  # fmt: skip


def test_an_agent_reads_what_the_person_wrote(users: Users) -> None:
    client_of(users.admin).post(PAUSE, {"_pause": "1", "reason": WHY})

    error = DirectPeer(users.ops).error("2026-07-28", "tools/list")

    assert error["message"] == SAID


@pytest.mark.usefixtures("trail")
def test_an_operator_stops_agents_from_a_terminal_and_lets_them_go_on(users: Users) -> None:
    def said(*arguments: str) -> str:
        out = StringIO()
        call_command("mcp_pause", *arguments, stdout=out)
        return out.getvalue()

    def refused(user: User) -> str:
        answer = DirectPeer(user).request("2026-07-28", "tools/list")
        return str(answer.get("error", {}).get("message", ""))

    assert said("--user", "ops", "--reason", WHY) == "Paused: the agents of ops.\n"
    assert "The agents of your user are paused" in refused(users.ops) and refused(users.viewer) == ""
    assert said("--reason", WHY) == "Paused: all agents.\n"
    assert said() == "Paused already: all agents.\n"
    assert refused(users.viewer) == SAID
    assert said("--resume") == "May go on: all agents.\n"
    assert said("--resume") == "Not paused: all agents.\n"
    assert pauses() == [("user", str(users.ops.pk), WHY, "")]
    assert said("--user", "ops", "--resume") == "May go on: the agents of ops.\n"
    assert refused(users.ops) == ""
    with pytest.raises(CommandError, match="There is no user 'nobody'"):
        said("--user", "nobody")
    recorder.flush()
    lines = Call.objects.filter(kind=Call.Kind.SWITCH).order_by("pk")
    assert list(lines.values_list("reason", flat=True)) == ["paused", "paused", "resumed", "resumed"]
    assert set(lines.values_list("transport", "method")) == {("command", "manage.py mcp_pause")}


def test_the_agents_of_a_user_a_token_and_an_app_are_paused_on_their_pages(users: Users) -> None:
    client, program = client_of(users.admin), Program()
    program.log_in(users.ops)
    app, grant, token = OAuthClient.objects.get(), Grant.objects.get(), token_page(users.ops)
    urls = {
        f"{PAUSE}?user=ops": ("user", str(users.ops.pk)),
        token: ("token", str(AccessToken.objects.get(grant=None).line)),
        reverse("admin:mcp_django_oauth_client_pause", args=[app.pk]): ("app", app.key),
        reverse("admin:mcp_django_grant_pause", args=[grant.pk]): ("token", str(grant.line)),
    }

    # The page of a token and of a grant leads to the page of its user.
    for page in (token, reverse("admin:mcp_django_grant_pause", args=[grant.pk])):
        shown = client.get(page.replace("/pause/", "/change/")).content.decode()
        assert "Pause the agents of ops" in shown
    less = client_of(
        make_staff("guard", "mcp_django.pause_agents", "mcp_django.view_accesstoken", "mcp_django.view_grant")
    )
    assert "Pause the agents of" not in less.get(token.replace("/pause/", "/change/")).content.decode()
    for url, named in urls.items():
        assert "Reason (the agents read it)" in content_of(client.get(url))
        client.post(url, {"_pause": "1", "reason": WHY})
        assert pauses() == [(*named, WHY, "admin")]
        assert "Let them go on" in content_of(client.get(url))
        client.post(url, {"_resume": "1"})
        assert pauses() == []


def test_the_list_and_the_page_of_a_paused_token_say_so(users: Users) -> None:
    client, url = client_of(users.admin), token_page(users.ops)
    client.post(url, {"_pause": "1"})

    listed = client.get(reverse("admin:mcp_django_accesstoken_changelist")).content.decode()
    page = client.get(url.replace("/pause/", "/change/")).content.decode()

    assert re.search(r'mcp-badge is-bad">paused<', listed) and re.search(r'mcp-badge is-bad">paused<', page)
    assert "Let its agents go on" in page


def test_the_first_page_names_who_else_is_paused_to_those_who_may_view_them(users: Users) -> None:
    pause("user", users.ops.pk), pause("token", "11111111-1111-4111-8111-111111111111")
    may = make_staff("warden", "mcp_django.pause_agents", "mcp_django.view_tool", "auth.view_user")
    less = make_staff("guard", "mcp_django.pause_agents", "mcp_django.view_tool")
    none = make_staff("clerk", "mcp_django.view_tool")

    texts = {user.username: text_of(client_of(user).get(INDEX).content.decode()) for user in (may, less, none)}

    assert "the agents of ops." in texts["warden"] and ": a token." in texts["warden"]
    assert ": the agents of a user." in texts["guard"] and "ops" not in texts["guard"]
    # A reason may name whom it is about.
    assert WHY in texts["warden"] and WHY not in texts["guard"]
    assert "Paused on" not in texts["clerk"] and "Stop all agents" not in texts["clerk"]


# Who may.


#: Who tries it → what of it is allowed: all, another user, the own user, another's token, an own token.
MAY: dict[tuple[str, ...], set[str]] = {
    (): set(),
    ("auth.view_user", "mcp_django.change_accesstoken", "mcp_django.view_accesstoken"): set(),
    ("mcp_django.pause_agents",): {"all", "own user"},
    ("mcp_django.pause_agents", "auth.view_user"): {"all", "own user", "user"},
    ("mcp_django.pause_agents", "mcp_django.change_accesstoken", "mcp_django.view_accesstoken"): {
        "all", "own user", "own token",
    },
}  # fmt: skip


@pytest.mark.parametrize("action", ["_pause", "_resume"])
def test_it_needs_the_permission_to_pause_and_what_it_takes_to_end_the_same(users: Users, action: str) -> None:
    found = {}
    for number, permissions in enumerate(MAY):
        user = make_staff(f"staff{number}", *permissions)
        urls = {
            "all": PAUSE, "user": f"{PAUSE}?user=ops", "own user": f"{PAUSE}?user={user.username}",
            "token": token_page(users.ops), "own token": token_page(user),
        }  # fmt: skip
        client, allowed = client_of(user), set()
        for name, url in urls.items():
            Restriction.objects.all().delete()
            if action == "_resume":
                client_of(users.admin).post(url, {"_pause": "1"})
            before = pauses()
            client.post(url, {action: "1"})
            if pauses() != before:
                allowed.add(name)
        found[permissions] = allowed

    assert found == MAY


def test_an_app_is_paused_by_whoever_may_block_it(users: Users) -> None:
    Program().log_in(users.ops)
    url = reverse("admin:mcp_django_oauth_client_pause", args=[OAuthClient.objects.get().pk])
    less = make_staff("less", "mcp_django.pause_agents", "mcp_django_oauth.view_client")
    may = make_staff("may", "mcp_django.pause_agents", "mcp_django_oauth.view_client", "mcp_django_oauth.change_client")

    statuses = [client_of(user).post(url, {"_pause": "1"}).status_code for user in (less, may)]

    assert (statuses, len(pauses())) == ([403, 302], 1)


def test_another_site_makes_a_superuser_let_agents_go_on(users: Users) -> None:
    pause()
    client = client_of(users.admin, enforce_csrf_checks=True)

    forged = client.post(PAUSE, {"_resume": "1"})
    by_link = client.get(PAUSE, {"_resume": "1"})

    assert (forged.status_code, by_link.status_code) == (403, 200)
    assert len(pauses()) == 1
    form = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', by_link.content.decode())
    assert form is not None
    client.post(PAUSE, {"_resume": "1", "csrfmiddlewaretoken": form[1]})
    assert pauses() == []


def test_a_reason_with_markup_is_shown_as_it_is_and_a_long_one_is_cut(users: Users) -> None:
    client = client_of(users.admin)
    client.post(PAUSE, {"_pause": "1", "reason": "<script>alert(1)</script>" + "x" * 600})

    page = client.get(INDEX).content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<script>alert" not in page
    assert len(pauses()[0][2]) == 500


def test_a_user_who_does_not_exist_is_not_paused(users: Users) -> None:
    response = client_of(users.admin).post(f"{PAUSE}?user=nobody", {"_pause": "1"})

    assert (response.status_code, pauses()) == (302, [])


def test_why_not_names_a_pause_of_all_of_the_user_and_of_the_token_and_tells_no_more_than_before(users: Users) -> None:
    token = AccessToken.objects.get(hash=digest(token_of(users.ops)))
    asked = ("flights.flight", "find_records", "auth.user")

    def nos(**more: Any) -> dict[str, list[str]]:
        found = {name: reasons.explain(site, users.ops, ["read"], name, **more) for name in asked}
        return {
            name: [str(step.why) for step in one.steps if step.verdict is Verdict.NO] for name, one in found.items()
        }

    before = nos(token=token)
    for kind, name, whom in (("all", "", "All agents are"), ("user", users.ops.pk, "The agents of your user are"),
                             ("token", token.line, "Your token is")):  # fmt: skip
        pause(kind, name)
        said = f"{whom} paused: {WHY}"
        assert nos(token=token) == {one: [*whys, said] for one, whys in before.items()}
        assert (nos() == before) is (kind == "token")
        Restriction.objects.all().delete()
    assert reasons.explain(site, users.ops, ["read"], "nothing.at_all", known=()).kind is None
