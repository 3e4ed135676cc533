"""The activity in the admin: everybody may only read it, and a call's page says everything of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches, path

from mcp_django.admin import AccessTokenAdmin, CallAdmin
from mcp_django.bridge.override_rows import make_prompt_rows, make_tool_rows
from mcp_django.models import AccessToken, Call, Prompt, Tool
from tests.support.calls import make_call
from tests.support.data import make_staff

CALLS = "/admin/mcp_django/call/"

pytestmark = pytest.mark.django_db


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def superuser() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def client(superuser: User) -> Client:
    return logged_in(superuser)


def page_of(client: Client, call: Call) -> str:
    return str(client.get(f"{CALLS}{call.pk}/change/").content.decode())


def shown(page: str) -> dict[str, str]:
    """The fields on the page of a call, with what stands there, without tags."""
    found = re.findall(r'class="form-row field-(\w+)">.*?class="readonly">(.*?)</div>', page, re.DOTALL)
    return {name: re.sub(r"<[^>]+>", "", value).strip() for name, value in found}


def row_of(client: Client) -> dict[str, str]:
    """The first line of the list."""
    page = client.get(CALLS).content.decode()
    found = re.findall(r'<t[hd] class="field-(\w+)[^"]*">(.*?)</t[hd]>', page)
    return {name: re.sub(r"<[^>]+>", "", value) for name, value in reversed(found)}


# Who may read it.


def test_a_superuser_changing_what_is_recorded(client: Client) -> None:
    call = make_call()
    page = f"{CALLS}{call.pk}/"
    pages = [client.get(CALLS).content.decode(), page_of(client, call)]

    answers = [
        client.get(f"{CALLS}add/"), client.post(f"{CALLS}add/", {"name": "x"}),
        client.post(f"{page}change/", {"name": "x", "outcome": "failed"}),
        client.post(f"{page}delete/", {"post": "yes"}),
    ]  # fmt: skip
    client.post(CALLS, {"action": "delete_selected", "_selected_action": [call.pk], "post": "yes"})

    assert [answer.status_code for answer in answers] == [403] * 4
    assert Call.objects.filter(name="find_records", outcome="done").count() == Call.objects.count() == 1
    assert Call._meta.default_permissions == ("view",)
    for shown in pages:
        content = shown.partition('<div id="content"')[2]
        assert not re.search(r'name="(_save|action|_selected_action)"|class="(deletelink|addlink|historylink)', content)


def test_the_permission_to_view_calls_shows_those_of_all_users() -> None:
    client = logged_in(make_staff("auditor", "mcp_django.view_call"))
    calls = [make_call(user_id="1"), make_call(user_id="2")]

    answer = client.get(CALLS)

    assert {call.pk for call in answer.context["cl"].result_list} == {call.pk for call in calls}
    assert [client.get(f"{CALLS}{call.pk}/change/").status_code for call in calls] == [200, 200]


def test_reading_the_activity_without_the_permission_or_without_logging_in() -> None:
    client = logged_in(make_staff("staff", "mcp_django.view_accesstoken", "mcp_django.view_tool"))
    urls = [CALLS, f"{CALLS}{make_call().pk}/change/", f"{CALLS}csv/"]

    answers = [Client().get(url) for url in urls]

    assert [client.get(url).status_code for url in urls] == [403] * 3
    assert [answer.status_code for answer in answers] == [302] * 3
    assert all("/login/" in answer["Location"] for answer in answers)


# The list.


def test_a_line_says_who_did_what_when_and_what_came_of_it(client: Client) -> None:
    make_call(outcome="refused", reason="TOOL_NOT_FOUND")

    assert row_of(client) == {
        "time": "11/22/2026 12:00:00", "user_label": "ada", "token_label": "laptop", "client": "claude-code",
        "subject": "find_records", "model": "flights.flight", "result": "refused TOOL_NOT_FOUND", "rows": "20",
        "duration": "12.5 ms",
    }  # fmt: skip


def test_what_is_missing_or_counted_is_said_in_words(client: Client) -> None:
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"kind": "lost", "count": 17, "name": "", "method": ""}, {"subject": "17 lines not written"}),
        ({"kind": "lost", "count": 1}, {"subject": "1 line not written"}),
        ({"outcome": "unknown"}, {"result": "unknown"}),
        ({"kind": "read", "name": "", "uri": "db://flights/flight/17"}, {"subject": "db://flights/flight/17"}),
        ({"name": "", "method": "resources/list"}, {"subject": "resources/list"}),
        ({"user_id": "", "user_name": "", "token_id": None, "token_name": "", "kind": "request",
         "method": "", "name": "",
          "model": "", "outcome": "refused", "reason": "UNAUTHENTICATED", "count": 400},
         {"user_label": "192.0.2.1", "token_label": "-", "subject": "other request, 400 times"}),
        ({"token_name": ""}, {"token_label": "token 5"}),
        ({"user_name": ""}, {"user_label": "3"}),
    ]  # fmt: skip
    for recorded, expected in cases:
        make_call(**recorded)
        row = row_of(client)
        assert {name: row[name] for name in expected} == expected


def test_the_newest_call_comes_first(client: Client) -> None:
    first = make_call()
    second = make_call(at=first.at)

    answer = client.get(CALLS)

    assert [call.pk for call in answer.context["cl"].result_list] == [second.pk, first.pk]


def test_html_that_a_client_chose_is_text(client: Client) -> None:
    evil = "<script>alert(1)</script>"
    call = make_call(client_name=evil, user_name=evil, name=evil, token_name=evil, model=evil, arguments=evil)

    pages = client.get(CALLS).content.decode() + page_of(client, call)

    assert "<script>alert" not in pages
    assert pages.count("&lt;script&gt;alert(1)") > 10


# The page of a call.


def test_the_page_of_a_call_has_every_column(client: Client) -> None:
    call = make_call(at="2026-11-22T17:00:03.250Z", keys=" 17 18 ", values='{"status": "open"}', uri="db://a/b")

    fields = shown(page_of(client, call))

    columns = {field.name for field in Call._meta.fields} - {"id", "at", "user_name", "token_name", "name", "ms"}
    ours = {"exact_time", "explanation", "user", "token", "credential", "tool", "duration"}
    assert set(fields) == columns | ours
    assert fields["exact_time"] == "2026-11-22 12:00:03.250-05:00"
    assert fields["keys"].split() == ["17", "18"]
    assert fields["kind"] == "call of a tool"
    assert (fields["user"], fields["user_id"]) == ("ada · all activity", "3")


def test_a_call_links_to_what_still_exists_and_what_is_gone_is_named_without_a_link(
    client: Client, superuser: User
) -> None:
    token, _ = AccessToken.objects.create_token(user=superuser, name="laptop")
    make_tool_rows("default")
    make_prompt_rows("default")
    tool, prompt = Tool.objects.get(name="find_records"), Prompt.objects.get(name="punctuality_report")

    page = page_of(client, make_call(user_id=str(superuser.pk), token_id=token.pk))
    of_prompt = page_of(client, make_call(kind="prompt", name=prompt.name))
    Tool.objects.all().delete()
    gone = page_of(client, make_call(user_id="no key", token_id=999))

    assert f'<a href="/admin/auth/user/{superuser.pk}/change/">ada</a>' in page
    assert f'<a href="/admin/mcp_django/accesstoken/{token.pk}/change/">laptop</a>' in page
    assert f'<a href="/admin/mcp_django/tool/{tool.pk}/change/">find_records</a>' in page
    for filters in (f"user={superuser.pk}", f"token={token.pk}", "tool=find_records"):
        assert f'<a href="{CALLS}?{filters}">all activity</a>' in page
    assert f"/admin/mcp_django/prompt/{prompt.pk}/change/" in of_prompt
    assert "ada · " in re.sub(r"<[^>]+>", "", gone)
    assert not re.search(r"/admin/(auth/user|mcp_django/accesstoken|mcp_django/tool)/\w+/change/", gone)


def test_following_a_call_to_what_the_viewer_may_not_see(superuser: User) -> None:
    """A token of another user, and the user, are texts for who sees neither."""
    token, _ = AccessToken.objects.create_token(user=superuser, name="theirs")
    client = logged_in(make_staff("auditor", "mcp_django.view_call", "mcp_django.view_accesstoken"))

    page = page_of(client, make_call(user_id=str(superuser.pk), token_id=token.pk, token_name="theirs"))

    assert "theirs" in page
    assert "accesstoken" not in page.partition('id="content"')[2]
    assert "/auth/user/" not in page


# Links from elsewhere.


def test_each_token_tool_and_prompt_links_to_its_activity(client: Client, superuser: User) -> None:
    token, _ = AccessToken.objects.create_token(user=superuser)
    make_tool_rows("default")
    make_prompt_rows("default")
    tool, prompt = Tool.objects.get(name="find_records"), Prompt.objects.get(name="punctuality_report")

    pages = {
        row: client.get(f"/admin/mcp_django/{row._meta.model_name}/{row.pk}/change/").content.decode()
        for row in (token, tool, prompt)
    }

    assert f'href="{CALLS}?token={token.pk}"' in pages[token]
    assert f'href="{CALLS}?user={superuser.pk}"' in pages[token]
    assert f'href="{CALLS}?tool=find_records"' in pages[tool]
    assert f'href="{CALLS}?tool=punctuality_report"' in pages[prompt]


def test_who_may_not_view_calls_gets_no_link_to_them_and_an_unsaved_token_has_none(client: Client) -> None:
    staff = make_staff("staff", "mcp_django.view_accesstoken", "mcp_django.view_tool")
    token, _ = AccessToken.objects.create_token(user=staff)
    make_tool_rows("default")

    for row in (token, Tool.objects.all()[0]):
        page = logged_in(staff).get(f"/admin/mcp_django/{row._meta.model_name}/{row.pk}/change/")
        assert page.status_code == 200
        assert b"mcp_django/call/" not in page.content
    assert b"mcp_django/call/?" not in client.get("/admin/mcp_django/accesstoken/add/").content


# Another AdminSite.


@pytest.fixture
def own_site(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[admin.AdminSite]:
    """An AdminSite of the project's, at /own/, which alone is served."""
    made = admin.AdminSite("own")
    module = ModuleType("tests.served_activity")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    made.register(Call, CallAdmin)
    made.register(User, UserAdmin)
    module.urlpatterns = [path("own/", made.urls)]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = module.__name__
    clear_url_caches()
    yield made
    clear_url_caches()


def test_another_admin_site_links_to_its_own_pages(client: Client, superuser: User, own_site: admin.AdminSite) -> None:
    token, _ = AccessToken.objects.create_token(user=superuser)
    call = make_call(user_id=str(superuser.pk), token_id=token.pk)

    lists = client.get("/own/mcp_django/call/?user=ada").content.decode()
    page = client.get(f"/own/mcp_django/call/{call.pk}/change/").content.decode()
    file = client.get("/own/mcp_django/call/csv/")

    assert 'href="/own/mcp_django/call/csv/?user=ada"' in lists
    assert f"/own/auth/user/{superuser.pk}/change/" in page
    assert "accesstoken" not in page, "tokens are not registered there"
    assert 'href="/admin/' not in lists + page
    assert file.status_code == 200


def test_tokens_without_activity_in_their_admin_site(
    client: Client, superuser: User, own_site: admin.AdminSite
) -> None:
    own_site.unregister(Call)
    own_site.register(AccessToken, AccessTokenAdmin)
    token, _ = AccessToken.objects.create_token(user=superuser)
    sys.modules["tests.served_activity"].urlpatterns = [path("own/", own_site.urls)]  # type: ignore[attr-defined]
    clear_url_caches()

    page = client.get(f"/own/mcp_django/accesstoken/{token.pk}/change/")

    assert page.status_code == 200
    assert b"/call/" not in page.content
