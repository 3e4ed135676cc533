"""*My agent* is for everybody: what it says to whom, and the ways that lead to it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory, modify_settings
from django.urls import reverse

from mcp_django import site
from mcp_django.models import AccessToken, Grant, Lending
from mcp_django.models.tokens import NEVER
from tests.console.visiting import client_of, text_of
from tests.support.data import Users, make_staff
from tests.support.declared import Declared
from tests.support.pausing import WHY, pause, resume

pytestmark = pytest.mark.django_db

URL = "/mcp/connected"
NOTHING = "Your agent could not read or do anything on this site at present"


def page_of(user: User) -> str:
    return text_of(client_of(user).get(URL).content.decode())


@pytest.fixture
def self_service(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read"]}


# What it says.


def test_it_shows_how_each_client_is_connected_under_the_name_of_the_project(users: Users, self_service: None) -> None:
    markup = client_of(users.viewer).get(URL).content.decode()

    assert "<title>My agent · Demo project</title>" in markup and "claude mcp add" in markup
    assert 'id="mcp-goose"' in markup and 'id="mcp-claude"' not in markup
    assert '<a href="/">Back to the site</a>' in markup


@pytest.mark.parametrize(("whom", "said"), [("all", "All agents are paused."), ("user", "Your agents are paused.")])
def test_people_read_that_their_agents_are_paused_and_others_do_not(
    users: Users, self_service: None, whom: str, said: str
) -> None:
    pause(whom, users.viewer.pk if whom == "user" else "")

    shown = {user: f"{said} They read: {WHY}" in page_of(user) for user in (users.viewer, users.ops)}
    resume()

    assert shown == {users.viewer: True, users.ops: whom == "all"}
    assert "paused" not in page_of(users.viewer)


def test_people_for_whom_nothing_is_exposed_read_that(self_service: None, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = User.objects.create_user("guest")
    for declared in ("_functions", "prompts", "resources"):
        monkeypatch.setattr(site, declared, {})
    site._forget()
    try:
        page = page_of(guest)
    finally:
        monkeypatch.undo()
        site._forget()

    assert NOTHING in page and "claude mcp add" not in page and "Make a token" not in page
    assert "No token acts as you." in page


def test_a_function_for_everybody_opens_the_page_to_somebody_who_is_no_staff(
    self_service: None, declared: Declared
) -> None:
    def greet(request: Any) -> str:
        """Greets."""
        return "Hello."

    declared.tool(greet, read_only=True)

    page = page_of(User.objects.create_user("guest"))

    assert NOTHING not in page and "claude mcp add" in page and "Make the token" in page


def test_people_who_may_not_connect_read_that_and_see_what_acts_for_them(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_USERS": "flights.no_such", "SELF_SERVICE": ["read"]}
    AccessToken.objects.create_token(user=users.viewer, name="made for me", expires_at=NEVER)

    page = page_of(users.viewer)

    assert "You may not connect an agent yourself." in page and "made for me" in page
    assert "claude mcp add" not in page and "Make a token" not in page


@pytest.mark.every_database
def test_seeing_and_ending_what_is_somebody_elses(users: Users, self_service: None) -> None:
    guest, later = User.objects.create_user("guest"), NEVER
    token = AccessToken.objects.create_token(user=users.admin, name="zanzibar", expires_at=later)[0]
    grant = Grant.objects.create(user=users.admin, client="zanzibar", client_name="zanzibar", resource="zanzibar",
                                 expires_at="2999-01-01T00:00:00Z")  # fmt: skip
    lending = Lending.objects.create(lineage=token.line, user=users.admin, scopes=["write"], reason="zanzibar",
                                     starts_at="2020-01-01T00:00:00Z", until="2999-01-01T00:00:00Z")  # fmt: skip
    client = client_of(guest)

    for posted in (
        {"do": "revoke", "key": str(token.pk)}, {"do": "end_lending", "key": str(lending.pk)},
        {"do": "disconnect", "client": grant.client, "resource": grant.resource},
    ):  # fmt: skip
        assert "zanzibar" not in client.post(URL, posted, follow=True).content.decode()
    for row in (token, grant, lending):
        row.refresh_from_db()
    assert (token.revoked_at, grant.ended_at, lending.ended_at) == (None, None, None)


def test_a_project_without_logins_has_no_such_page(users: Users, settings: Any) -> None:
    left_out = ("Authentication", "Message", "Login")
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if not any(name in one for name in left_out)]

    assert Client().get(URL).status_code == 404


# The ways to it.


def apps_of(user: User) -> dict[str, list[str]]:
    """The list of apps on each page of the admin: the lines of each by its label."""
    request = RequestFactory().get("/admin/")
    request.user = user
    apps = admin.site.get_app_list(request)
    # Themes for the admin ask each line for its model.
    assert all(one["model"]._meta for app in apps for one in app["models"])
    return {app["app_label"]: [one["admin_url"] for one in app["models"]] for app in apps}


def test_each_page_of_the_admin_leads_staff_to_it_whatever_they_may_see(users: Users) -> None:
    nobody = make_staff("nobody")

    assert apps_of(users.admin)["mcp_django"][-1] == URL and len(apps_of(users.admin)["mcp_django"]) > 4
    assert apps_of(nobody) == {"mcp_django": [URL]}
    assert f'href="{URL}"' in client_of(nobody).get("/admin/").content.decode()
    # The first page of the section is for people who may see something of it.
    assert client_of(nobody).get("/admin/mcp_django/").status_code == 404
    assert f'href="{URL}"' in client_of(users.admin).get("/admin/mcp_django/tool/").content.decode()
    assert URL not in Client().get("/admin/login/").content.decode()


def test_the_page_of_another_app_has_no_line_of_it(users: Users) -> None:
    request = RequestFactory().get("/admin/flights/")
    request.user = users.admin

    assert [app["app_label"] for app in admin.site.get_app_list(request, "flights")] == ["flights"]


def test_the_header_of_the_admin_leads_to_it_where_the_app_stands_before_the_admin(users: Users) -> None:
    ours = ["mcp_django"]
    with modify_settings(INSTALLED_APPS={"remove": ours}), modify_settings(INSTALLED_APPS={"prepend": ours}):
        for name in ("/admin/", "/admin/flights/flight/", reverse("admin:mcp_django_tool_changelist")):
            page = client_of(users.viewer if name == "/admin/" else users.admin).get(name).content.decode()
            header = page[page.index('id="user-tools"') : page.index('id="logout-form"')]
            assert f'<a href="{URL}">My agent</a>' in header, name


def test_the_page_at_the_endpoint_leads_there(users: Users) -> None:
    page = client_of(User.objects.create_user("guest")).get("/mcp", headers={"accept": "text/html"}).content.decode()

    assert f'<a href="{URL}">My agent</a>' in page
