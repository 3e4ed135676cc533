"""Templates fill in the form of a new token, and give nobody more than that person could tick."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

from mcp_django.console.admin.token_templates import BUILT_IN
from mcp_django.models import AccessToken, TokenTemplate
from tests.console.test_token_form import FLIGHTS, OWN, change, form_of, new, ticked, typed
from tests.console.visiting import client_of, text_of
from tests.support.data import Users, make_staff

pytestmark = pytest.mark.django_db

ADD = "/admin/mcp_django/accesstoken/add/"
URL = "/admin/mcp_django/tokentemplate/"
PERMISSIONS = [f"mcp_django.{verb}_tokentemplate" for verb in ("view", "add", "change", "delete")]


def opened(user: User, key: Any) -> Any:
    """The form of a new token that begins with a template."""
    return client_of(user).get(ADD, {"template": key})


def filled_in(user: User, key: Any) -> tuple[set[str], Any, str]:
    """What that form then has: the scopes, the limits, and the days."""
    response = opened(user, key)
    form = form_of(response)
    return ticked(response.content.decode()), form.initial.get("limits"), form["lifetime"].value()


def template(**values: Any) -> TokenTemplate:
    return TokenTemplate.objects.create(**{"name": "Nightly", "scopes": ["read"], "limits": {}, **values})


def test_the_form_names_each_template_and_begins_with_the_one_that_is_chosen(users: Users) -> None:
    own = template(scopes=["actions", FLIGHTS], limits={"rows": ["5/s", "9/day"]}, days=7)
    without_days = template(name="Plain", days=None)

    page = client_of(users.admin).get(ADD).content.decode()

    for key in (*BUILT_IN, own.pk, without_days.pk):
        assert f'href="?template={key}"' in page
    assert filled_in(users.admin, "analyst") == ({"read"}, {"calls": "60/min", "rows": "100000/day"}, "30")
    assert filled_in(users.admin, "one-tool") == (set(), {"calls": "60/min"}, "90")
    assert filled_in(users.admin, own.pk) == ({"actions", FLIGHTS}, {"rows": ["5/s", "9/day"]}, "7")
    assert filled_in(users.admin, without_days.pk) == ({"read"}, {}, "90")


def test_one_tool_opens_the_list_of_tools_and_needs_one(users: Users) -> None:
    response = opened(users.admin, "one-tool")

    nothing = client_of(users.admin).post(f"{ADD}?template=one-tool", new(user=users.ops.pk, scopes=[]))
    client_of(users.admin).post(f"{ADD}?template=one-tool", new(user=users.ops.pk, scopes=["tool:find_records"]))

    assert response.content.decode().count("<details open>") == 1
    assert form_of(nothing).errors["scopes"] == ["Choose at least one scope, or a model, or a tool."]
    assert AccessToken.objects.get().scopes == ["tool:find_records"]


def test_a_life_that_is_not_allowed_any_more_becomes_the_nearest(users: Users, settings: Any) -> None:
    own = template(days=90)
    settings.MCP = {**settings.MCP, "TOKEN_MAX_DAYS": 30}

    assert filled_in(users.admin, own.pk)[2] == "30"


@pytest.mark.parametrize("key", ["999999", "nonsense", "", "1' OR '1'='1", "\x00", "½", "9" * 400])
def test_a_template_that_does_not_exist_fills_in_nothing(users: Users, key: str) -> None:
    response = opened(users.admin, key)

    assert ticked(response.content.decode()) == {"read"}
    assert ("There is no such template." in response.content.decode()) is bool(key)


def test_a_forged_template_in_what_is_sent_gives_nothing(users: Users) -> None:
    own = template(scopes=["write"])
    client = client_of(users.admin)

    client.post(f"{ADD}?template={own.pk}", new(user=users.ops.pk, template=own.pk, scopes=["read"]))

    assert AccessToken.objects.get().scopes == ["read"]


def test_a_template_offers_staff_no_scope_that_they_could_not_tick(users: Users) -> None:
    staff = make_staff("staff", *OWN, "flights.view_flight")
    own = template(scopes=["read", FLIGHTS, "model:auth.user:read", "tool:flights_flight_mark_cancelled"])

    response = opened(staff, own.pk)
    page = response.content.decode()
    refused = client_of(staff).post(f"{ADD}?template={own.pk}", new(scopes=own.scopes))

    assert ticked(page) == {"read", FLIGHTS}
    assert "auth.user" not in page and "mark_cancelled" not in page
    assert "2 scopes of the template are left out, since you may not give them." in page
    assert form_of(refused).errors["scopes"] and not AccessToken.objects.exists()


def test_a_template_for_a_superuser_makes_staff_a_token_of_their_own(users: Users) -> None:
    staff = make_staff("staff", *OWN)
    own = template(scopes=["write"])

    client_of(staff).post(f"{ADD}?template={own.pk}&user={users.admin.pk}", new(user=users.admin.pk, scopes=["write"]))

    assert AccessToken.objects.get().user == staff


def test_templates_are_used_by_those_who_may_make_tokens_alone(users: Users) -> None:
    template(name="Nightly")
    viewer = make_staff("looker", "mcp_django.view_accesstoken", "mcp_django.change_accesstoken")
    maker = make_staff("maker", "mcp_django.add_accesstoken")

    assert client_of(viewer).get(ADD).status_code == 403
    assert "Nightly" in client_of(maker).get(ADD).content.decode()
    # To use one is not to write one.
    assert [client_of(maker).get(url).status_code for url in (URL, f"{URL}add/")] == [403, 403]


# Writing them.


def test_an_administrator_writes_a_template_and_the_history_says_so(users: Users) -> None:
    client = client_of(users.admin)
    posted = {"name": "Nightly", "scopes": ["read", FLIGHTS], "days": "30", **typed(calls=[("60", "min")])}

    client.post(f"{URL}add/", posted)
    made = TokenTemplate.objects.get()
    client.post(f"{URL}{made.pk}/change/", {**posted, "days": "", "scopes": []})
    changed = TokenTemplate.objects.get()
    client.post(f"{URL}{made.pk}/delete/", {"post": "yes"})

    assert (made.scopes, made.days, made.limits) == (["read", FLIGHTS], 30, {"calls": "60/min"})
    assert (changed.scopes, changed.days, changed.limits) == ([], None, {"calls": "60/min"})
    assert [entry.action_flag for entry in LogEntry.objects.order_by("pk")] == [1, 2, 3]


def test_a_template_of_others_keeps_what_its_editor_may_not_know_of(users: Users) -> None:
    editor = make_staff("editor", *PERMISSIONS)
    own = template(scopes=["read", "model:auth.user:read", "model:old.model:read"])
    url = f"{URL}{own.pk}/change/"

    page = client_of(editor).get(url).content.decode()
    listed = client_of(editor).get(URL).content.decode()
    client_of(editor).post(url, change(AccessToken(name="Renamed", scopes=["read"])))
    own.refresh_from_db()

    assert ticked(page) == {"read"} and "read, 2 more" in text_of(listed)
    for shown in (page, listed):
        assert "auth.user" not in shown and "old.model" not in shown and "flights.flight" not in shown
    assert (own.name, own.scopes) == ("Renamed", ["read", "model:auth.user:read", "model:old.model:read"])


def test_each_mistake_of_a_template_is_told_at_once(users: Users) -> None:
    template(name="Nightly")
    posted = {"name": "Nightly", "scopes": ["tool:none"], "days": "8", **typed(calls=[("x", "min")])}

    form = form_of(client_of(users.admin).post(f"{URL}add/", posted))

    assert sorted(form.errors) == ["days", "limits", "name", "scopes"]


def test_who_may_only_view_templates_reads_them_in_words(users: Users) -> None:
    own = template(limits={"rows": "9/day"}, days=7)
    viewer = client_of(make_staff("looker", "mcp_django.view_tokentemplate"))

    pages = [text_of(viewer.get(url).content.decode()) for url in (URL, f"{URL}{own.pk}/change/")]

    assert all("Rows read: 9 a day" in page and "in 7 days" in page for page in pages)
    assert viewer.post(f"{URL}{own.pk}/change/", {"name": "x"}).status_code == 403
