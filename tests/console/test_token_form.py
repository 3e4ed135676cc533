"""The form of a token: who is chosen and how, what may be ticked, limits in fields, and each mistake at once."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin.sites import all_sites
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import clear_url_caches, include, path
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mcp_django import admin, site
from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.console.credentials.limits_field import LimitsField, LimitsWidget
from mcp_django.exchange.rates import KINDS, parse_limits
from mcp_django.models import AccessToken, Tool
from mcp_django.models.tokens import NEVER
from tests.console.visiting import READ_ONLY, client_of, offered, text_of, ticked
from tests.support.data import Users, make_staff, switch_on

pytestmark = pytest.mark.django_db

URL = "/admin/mcp_django/accesstoken/"
OWN = [f"mcp_django.{verb}_accesstoken" for verb in ("view", "add", "change", "delete")]
FLIGHTS = "model:flights.flight:read"


def new(**posted: Any) -> dict[str, Any]:
    return {"name": "laptop", "scopes": ["read"], "lifetime": "never", "nonce": new_nonce(), **posted}


def change(token: AccessToken, **posted: Any) -> dict[str, Any]:
    """What the form of a token that exists sends."""
    return {"name": token.name or "laptop", "scopes": token.scopes, "lifetime": "never", **posted}


def form_of(response: Any) -> Any:
    return response.context["adminform"].form


# Its user.


def test_the_form_is_small_where_there_are_many_users(users: Users) -> None:
    User.objects.bulk_create(User(username=f"user {number}") for number in range(2_000))
    client = client_of(users.admin)
    client.get(f"{URL}add/")

    with CaptureQueriesContext(connection) as asked:
        page = client.get(f"{URL}add/").content

    assert len(page) < 80_000 and b"user 1999" not in page
    assert len(asked) < 20
    assert client.post(f"{URL}add/", new(user=users.ops.pk)).context["token"]


def test_users_are_searched_by_the_admin_itself_and_by_nobody_who_may_not_view_them(users: Users) -> None:
    asked = {"app_label": "mcp_django", "model_name": "accesstoken", "field_name": "user", "term": "op"}
    staff = make_staff("staff", *OWN)

    found = client_of(users.admin).get("/admin/autocomplete/", asked)
    refused = client_of(staff).get("/admin/autocomplete/", asked)

    assert json.loads(found.content)["results"] == [{"id": str(users.ops.pk), "text": "ops"}]
    assert refused.status_code == 403
    page = client_of(users.admin).get(f"{URL}add/").content.decode()
    assert 'data-ajax--url="/admin/autocomplete/"' in page


def test_staff_are_not_asked_for_a_user_and_do_not_choose_one(users: Users) -> None:
    staff = make_staff("staff", *OWN)
    client = client_of(staff)

    page = client.get(f"{URL}add/?user={users.admin.pk}").content.decode()
    client.post(f"{URL}add/", new(user=users.admin.pk))

    assert 'name="user"' not in page
    assert AccessToken.objects.get().user == staff


@pytest.fixture
def serve(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Serves an AdminSite with our pages, and an admin of users if one is given. Returns the URL of the form."""
    made = django_admin.AdminSite("other")
    admin.register(made)

    def with_users(of_users: Any = None) -> str:
        if of_users is not None:
            made.register(User, of_users)
        urls: Any = ModuleType("tests.token_form_urls")
        pages = [path("admin/", django_admin.site.urls), path("other/", made.urls)]
        urls.urlpatterns = [*pages, path("", include("mcp_django.urls"))]
        monkeypatch.setitem(sys.modules, urls.__name__, urls)
        settings.ROOT_URLCONF = urls.__name__
        clear_url_caches()
        return "/other/mcp_django/accesstoken/add/"

    yield with_users
    all_sites.discard(made)


def test_without_an_admin_of_users_the_user_is_named(users: Users, serve: Any) -> None:
    client, url = client_of(users.admin), serve()

    page = client.get(url).content.decode()
    wrong = [client.post(url, new(user=name)) for name in ("nobody", str(users.ops.pk), "x" * 1_000)]
    client.post(url, new(user=" ops "))

    assert '<input type="text" name="user"' in page
    assert [form_of(one).errors["user"] for one in wrong] == [["There is no user with this name."]] * 3
    assert AccessToken.objects.get().user == users.ops


@pytest.mark.parametrize("may_view", [True, False])
def test_an_admin_of_users_without_a_search_or_without_the_right_to_see_it(
    users: Users, serve: Any, may_view: bool
) -> None:
    class Plain(UserAdmin):
        search_fields = ()

        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return may_view

    client, url = client_of(users.admin), serve(Plain)

    page = client.get(url).content.decode()
    client.post(url, new(user=users.ops.pk if may_view else "ops"))

    assert ("related-lookup" in page) is may_view
    assert AccessToken.objects.get().user == users.ops


# What it may do.


def test_every_model_and_tool_of_the_site_has_its_boxes(users: Users) -> None:
    page = client_of(users.admin).get(f"{URL}add/").content.decode()

    boxes = offered(page)
    assert {"read", "actions", "write", *(f"tool:{name}" for name in site.tools)} <= boxes
    assert {f"model:{label}:read" for label in site.models} <= boxes
    # Agents write no users and no groups, unless the project says so.
    assert "model:flights.flight:write" in boxes and "model:auth.user:write" not in boxes
    assert ticked(page) == {"read"}
    assert 'name="single_scopes"' not in page


def test_staff_are_offered_what_their_own_agents_could_reach(users: Users) -> None:
    staff = make_staff("staff", *OWN, "flights.view_flight")
    viewer_of_tools = make_staff("clerk", *OWN, "mcp_django.view_tool")

    boxes = offered(client_of(staff).get(f"{URL}add/").content.decode())
    of_clerk = offered(client_of(viewer_of_tools).get(f"{URL}add/").content.decode())

    assert FLIGHTS in boxes and "tool:find_records" in boxes
    assert not {"model:flights.airport:read", "model:flights.flight:write", "model:auth.user:read"} & boxes
    assert "tool:flights_flight_mark_cancelled" not in boxes
    assert {f"tool:{name}" for name in site.tools} <= of_clerk
    assert not any(one.startswith("model:") for one in of_clerk)


def test_a_scope_that_is_not_offered_is_refused_as_one_that_does_not_exist(users: Users) -> None:
    client = client_of(make_staff("staff", *OWN, "flights.view_flight"))

    said = {
        scope: str(form_of(client.post(f"{URL}add/", new(scopes=["read", scope]))).errors["scopes"]).replace(scope, "")
        for scope in ("model:auth.user:read", "model:no.model:read", "tool:flights_flight_mark_cancelled", "tool:none")
    }

    assert len(set(said.values())) == 1 and not AccessToken.objects.exists()


def test_groups_of_the_settings_are_offered(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": {"sales": [FLIGHTS]}}
    client = client_of(users.admin)

    page = client.get(f"{URL}add/").content.decode()
    client.post(f"{URL}add/", new(user=users.ops.pk, scopes=["sales"]))

    assert "sales" in offered(page)
    assert AccessToken.objects.get().scopes == ["sales"]


def test_what_a_token_has_and_is_not_offered_any_more_is_shown_and_stays(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": {"sales": [FLIGHTS]}}
    had = ["read", "model:old.model:read", "sales", "tool:gone"]
    token, _ = AccessToken.objects.create_token(user=users.admin, name="old", scopes=had, expires_at=NEVER)
    stored = AccessToken.objects.get().scopes
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": {}}
    client, url = client_of(users.admin), f"{URL}{token.pk}/change/"

    page = client.get(url).content.decode()
    client.post(url, change(token, name="new"))
    renamed = AccessToken.objects.get()
    client.post(url, change(token, scopes=["actions", "sales", "tool:gone"]))
    after = AccessToken.objects.get()

    assert set(had) <= ticked(page)
    assert [text_of(page).count(said) for said in ("no longer exists", "no longer a scope here")] == [2, 1]
    assert (renamed.name, renamed.scopes) == ("new", stored)
    assert sorted(after.scopes) == ["actions", "sales", "tool:gone"]
    # What was taken away is not given back.
    assert form_of(client.post(url, change(token, scopes=["read", "model:old.model:read"]))).errors["scopes"]


def test_staff_keep_a_scope_of_theirs_that_they_may_not_know_of_any_more(users: Users) -> None:
    staff = make_staff("staff", *OWN)
    token, _ = AccessToken.objects.create_token(user=staff, name="mine", scopes=[FLIGHTS], expires_at=NEVER)
    client, url = client_of(staff), f"{URL}{token.pk}/change/"

    page = client.get(url).content.decode()
    client.post(url, change(token, name="new"))

    # It exists, so nothing is said of it.
    assert FLIGHTS in ticked(page) and "no longer" not in page
    assert (AccessToken.objects.get().name, AccessToken.objects.get().scopes) == ("new", [FLIGHTS])


def test_who_may_only_view_a_token_reads_what_it_may_do_and_how_much(users: Users) -> None:
    viewer = make_staff("reader", "mcp_django.view_accesstoken")
    token, _ = AccessToken.objects.create_token(user=viewer, scopes=["read", FLIGHTS], limits={"calls": "60/min"})

    page = text_of(client_of(viewer).get(f"{URL}{token.pk}/change/").content.decode())

    assert f"Scopes: read, {FLIGHTS}" in page and "Limits: Calls: 60 a minute" in page
    assert "Last characters: …" in page and "Ends in" not in page and "Ends:" in page


# In words.


def words(viewer: User, url: str = f"{URL}words/", **posted: Any) -> Any:
    return client_of(viewer).post(url, posted)


def test_the_form_says_in_words_what_the_user_could_do_with_it(users: Users) -> None:
    reads = text_of(words(users.admin, user=users.ops.pk, scopes=[FLIGHTS]).content.decode())
    acts = text_of(words(users.admin, user=users.ops.pk, scopes=["read", "actions"]).content.decode())
    nothing = text_of(words(users.admin, user=users.ops.pk).content.decode())
    nobody = text_of(words(users.admin, scopes=["read"]).content.decode())

    assert "As ops, an agent may now: Read 1 model" in reads and "This can change data." not in reads
    assert "This can change data." in acts
    assert "an agent may now: Nothing." in nothing
    assert "Choose a user first" in nobody
    assert not AccessToken.objects.exists()


def test_staff_who_ask_what_another_user_could_do_are_told_of_themselves(users: Users) -> None:
    staff, theirs = make_staff("staff", *OWN), AccessToken.objects.create_token(user=users.admin)[0]

    said = text_of(words(staff, user=users.admin.pk, scopes=["read"]).content.decode())

    assert "As staff, an agent may now:" in said and "model" not in said.split("may now")[1]
    assert words(staff, f"{URL}{theirs.pk}/words/", scopes=["read"]).status_code == 403
    assert words(make_staff("looker", "mcp_django.view_accesstoken"), scopes=["read"]).status_code == 403
    assert client_of(users.admin).get(f"{URL}words/").status_code == 405
    assert client_of(users.admin, enforce_csrf_checks=True).post(f"{URL}words/").status_code == 403


def test_asking_in_words_changes_no_token(users: Users) -> None:
    token, _ = AccessToken.objects.create_token(user=users.ops, name="laptop", scopes=["read"])

    said = text_of(words(users.admin, f"{URL}{token.pk}/words/", name="new", scopes=["write"]).content.decode())
    token.refresh_from_db()

    assert "As ops" in said and (token.name, token.scopes) == ("laptop", ["read"])


def test_where_no_agent_may_change_data_the_form_offers_its_scopes_and_says_that_they_open_nothing_now(
    users: Users, settings: Any
) -> None:
    switch_on(*site.tools)
    every = ["read", "actions", "write", "tool:update_record", "model:flights.flight:write"]
    asked = {"user": users.admin.pk, "scopes": every}
    client = client_of(users.admin)
    before = [client.get(f"{URL}add/").content.decode(), words(users.admin, **asked).content.decode()]

    settings.MCP = {**settings.MCP, "READ_ONLY": True}
    form, said = client.get(f"{URL}add/").content.decode(), words(users.admin, **asked)
    client.post(f"{URL}add/", new(**asked))

    assert not any(READ_ONLY in text_of(page) for page in before)
    assert offered(form) == offered(before[0]) and text_of(form).count(READ_ONLY) == 1
    # A token lives longer than a setting.
    assert set(AccessToken.objects.get().scopes) == set(every)
    assert READ_ONLY in text_of(said.content.decode()) and "This can change data." not in said.content.decode()
    [(_, opened)] = said.context["said"]
    assert opened.reads and not any(opened.writes.values())
    assert [name for name, tool in opened.tools.items() if tool.may_change] == []


# How much of it.


def typed(**kinds: list[tuple[str, str]]) -> dict[str, list[str]]:
    """What the fields of some kinds send."""
    numbers = {f"limits-{kind}": [number for number, _ in rates] for kind, rates in kinds.items()}
    return {**numbers, **{f"limits-{kind}-per": [period for _, period in rates] for kind, rates in kinds.items()}}


def test_limits_are_fields_and_several_for_one_kind_hold(users: Users) -> None:
    posted = typed(calls=[("60", "min"), ("1000", "day"), ("", "min")], rows=[("10", "hour")], bytes=[("", "s")])
    client = client_of(users.admin)

    client.post(f"{URL}add/", new(user=users.ops.pk, **posted))
    token = AccessToken.objects.get()
    page = client.get(f"{URL}{token.pk}/change/").content.decode()

    assert token.limits == {"calls": ["60/min", "1000/day"], "rows": "10/hour"}
    assert re.findall(r'name="limits-calls" id="\w+" value="(\d*)"', page) == ["60", "1000", ""]
    assert "By the settings: 100 an hour for the user" in page and "No limit by the settings" in page


def test_limits_that_did_not_change_stay_as_they_were_written(users: Users) -> None:
    written = {"calls": ["60/m"], "unique": "1_000/d"}
    token, _ = AccessToken.objects.create_token(user=users.admin, name="x", limits=written, expires_at=NEVER)
    client, url = client_of(users.admin), f"{URL}{token.pk}/change/"
    same = typed(calls=[("60", "min"), ("", "min")], unique=[("1000", "day")])

    client.post(url, change(token, name="y", **same))
    unchanged = AccessToken.objects.get()
    client.post(url, change(token, **typed(calls=[("", "min")])))

    assert (unchanged.name, unchanged.limits) == ("y", written)
    assert AccessToken.objects.get().limits == {}


def test_a_number_that_is_none_is_never_taken_for_no_limit(users: Users) -> None:
    client = client_of(users.admin)
    for number in ("many", "0", "-1", "1.5", "1e3", "9" * 19, "60/min"):
        posted = typed(calls=[(number, "min")], rows=[("x", "day")])
        errors = form_of(client.post(f"{URL}add/", new(user=users.ops.pk, **posted))).errors["limits"]
        assert [error.partition(":")[0] for error in errors] == ["Calls", "Rows read"], number
    assert form_of(client.post(f"{URL}add/", new(user=users.ops.pk, **typed(calls=[("6", "week")])))).errors["limits"]
    assert not AccessToken.objects.exists()


rates = st.tuples(st.integers(1, 10**12), st.sampled_from(["s", "min", "hour", "day"])).map(
    lambda one: f"{one[0]}/{one[1]}"
)


@given(stored=st.dictionaries(st.sampled_from(KINDS), rates | st.lists(rates, min_size=1, max_size=3)))
@hypothesis_settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_limits_a_token_has_the_fields_send_them_back(stored: dict[str, Any]) -> None:
    page, field = LimitsWidget().render("limits", stored), LimitsField(required=False)
    sent = {
        key: re.findall(rf'name="{key}" id="\w+" value="(\d*)"', page) for key in (f"limits-{kind}" for kind in KINDS)
    }
    periods = {
        f"{key}-per": re.findall(r'value="(\w+)" selected', part)
        for key, part in ((f"limits-{kind}", _part(page, kind)) for kind in KINDS)
    }

    found = field.clean(LimitsWidget().value_from_datadict({**sent, **periods}, {}, "limits"))

    assert parse_limits(found) == parse_limits(stored)
    field.kept = stored
    assert field.clean(LimitsWidget().value_from_datadict({**sent, **periods}, {}, "limits")) is stored


def _part(page: str, kind: str) -> str:
    """The fields of one kind."""
    [part] = [one for one in page.split('class="mcp-limit"') if f'name="limits-{kind}"' in one]
    return part


# Mistakes.


#: What is wrong → the field that says so.
MISTAKES: dict[str, dict[str, Any]] = {
    "user": {"user": ""},
    "name": {"name": ""},
    "scopes": {"scopes": []},
    "lifetime": {"lifetime": "8"},
    "limits": typed(calls=[("many", "min")], rows=[("0", "day")]),
    "addresses": {"addresses": "10.0.0.1/8, nonsense"},
    "__all__": {"nonce": "forged"},
}


def test_each_mistake_is_told_at_once(users: Users) -> None:
    client = client_of(users.admin)
    alone = {
        field: form_of(client.post(f"{URL}add/", {**new(user=users.ops.pk), **mistake})).errors
        for field, mistake in MISTAKES.items()
    }
    everything = {key: value for mistake in MISTAKES.values() for key, value in mistake.items()}
    dated = {"lifetime": "date", "expires_at_0": "2001-01-31", "expires_at_1": "12:00:00"}

    together = form_of(client.post(f"{URL}add/", {**new(), **everything})).errors
    also_dated = form_of(client.post(f"{URL}add/", {**new(), **everything, **dated})).errors

    assert {field: list(errors) for field, errors in alone.items()} == {field: [field] for field in MISTAKES}
    assert {field: together[field] for field in MISTAKES} == {field: alone[field][field] for field in MISTAKES}
    assert len(together["limits"]) == 2 and len(together["addresses"]) == 2
    assert set(also_dated) == set(MISTAKES) - {"lifetime"} | {"expires_at"}


# The page.


def test_buttons_of_a_token_are_on_its_page_which_names_it(users: Users) -> None:
    token, _ = AccessToken.objects.create_token(user=users.ops, name="laptop")
    client = client_of(users.admin)

    page = client.get(f"{URL}{token.pk}/change/").content.decode()

    for way in ("sees", "roll", "revoke"):
        assert f'href="{URL}{token.pk}/{way}/"' in page
        assert ": laptop | Django" in client.get(f"{URL}{token.pk}/{way}/").content.decode()


def test_saved_queries_are_tools_that_may_be_ticked(users: Users) -> None:
    query = json.dumps({"tool": "find_records", "arguments": {"model": "flights.flight"}, "parameters": []})
    Tool.objects.create(site="mcp", name="late_flights", enabled=True, query=query)

    page = client_of(users.admin).get(f"{URL}add/").content.decode()

    assert "tool:late_flights" in offered(page)
