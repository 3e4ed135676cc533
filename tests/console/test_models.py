"""The page of the models: what agents read, who may, and switches that only take away."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, DELETION, LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils import timezone

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django import MCPSite, ModelMCP
from mcp_django.console.admin import restrictions
from mcp_django.models import Call, Restriction
from tests.bridge.resources.inventory.conftest import run as run_inventory
from tests.console.visiting import client_of, content_of
from tests.support.asking import DirectPeer, described
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")

LIST = "/admin/mcp_django/restriction/"
FLIGHT = f"{LIST}of/flights.flight/"


def labels_of(page: Any) -> list[str]:
    return [model.label for model, _ in page.context["lines"]]


def line_of(page: Any, label: str) -> Any:
    return next(one for one in page.context["lines"] if one[0].label == label)


def test_a_line_says_rows_writing_switches_and_calls(users: Users) -> None:
    Call.objects.create(at=timezone.now(), site="mcp", kind="call", outcome="done", model="flights.flight", count=3)
    Restriction.objects.create(site="mcp", kind="field", name="flights.flight.tailnum")

    page = client_of(users.admin).get(LIST)
    said = content_of(page)

    model, calls = line_of(page, "flights.flight")
    assert (calls, model.is_off, set(model.off)) == (3, False, {"tailnum"})
    assert "1 field off" in said and "3 calls in 7 days" in said and "update (preview)" in said


def test_the_list_has_pages_and_a_search_and_a_switch_reaches_its_own_page_alone(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(users.admin)
    every = labels_of(client.get(LIST))
    assert restrictions.PER_PAGE == 100
    monkeypatch.setattr(restrictions, "PER_PAGE", 2)

    pages = [labels_of(client.get(LIST, {"p": number})) for number in range(1, len(every) // 2 + 2)]
    searched = labels_of(client.get(LIST, {"q": " FLIGHTS.AIRP"}))
    client.post(f"{LIST}?p=2", {"on": pages[1][1:]})

    assert [label for page in pages[: -(-len(every) // 2)] for label in page] == every and len(pages[0]) == 2
    assert searched == ["flights.airport"]
    assert set(Restriction.objects.values_list("name", flat=True)) == {pages[1][0]}


def test_the_page_of_a_model_names_its_actions(users: Users) -> None:
    part = content_of(client_of(users.admin).get(FLIGHT)).partition("Actions")[2]

    assert "flights_flight_mark_cancelled" in part and "flights_flight_export_as_csv" in part


def test_the_list_asks_the_database_little_however_many_models(users: Users) -> None:
    client = client_of(users.admin)
    client.get(LIST)

    with CaptureQueriesContext(connection) as asked:
        client.get(LIST)

    assert len(asked) <= 20


def test_a_switch_takes_a_model_away_and_gives_it_back(users: Users) -> None:
    client, agent = client_of(users.admin), DirectPeer(users.admin)
    on = labels_of(client.get(LIST))

    client.post(LIST, {"on": [label for label in on if label != "flights.flight"]})
    closed = agent.call("describe_models", model="flights.flight")["isError"]
    [row] = Restriction.objects.all()
    client.post(LIST, {"on": on, "off": ["flights.flight"]})

    assert (row.site, row.kind, row.name, closed) == ("mcp", "model", "flights.flight", True)
    assert "tailnum" in described(agent)["fields"] and not Restriction.objects.exists()


def test_what_is_off_on_each_site_stays_off_on_the_others(users: Users) -> None:
    other = MCPSite("other")
    Restriction.objects.create(site="", kind="field", name="flights.flight.tailnum")
    client = client_of(users.admin)
    on = [field.name for field in client.get(FLIGHT, {"site": "mcp"}).context["shown"]]

    client.post(f"{FLIGHT}?site=mcp", {"on": on, "off": ["tailnum"]})

    assert list(Restriction.objects.values_list("site", "name")) == [(other.name, "flights.flight.tailnum")]


def test_both_are_in_the_history_of_the_admin_and_in_the_trail(users: Users) -> None:
    client = client_of(users.admin)
    on = [field.name for field in client.get(FLIGHT).context["shown"]]

    client.post(FLIGHT, {"on": [name for name in on if name != "tailnum"]})
    client.post(FLIGHT, {"on": on, "off": ["tailnum"]})

    entries = LogEntry.objects.filter(content_type__model="restriction").order_by("pk")
    assert [(one.object_repr, one.action_flag) for one in entries] == [
        ("flights.flight.tailnum", ADDITION), ("flights.flight.tailnum", DELETION),
    ]  # fmt: skip
    found = Call.objects.filter(kind="switch", name="flights.flight.tailnum").order_by("pk")
    assert [(one.reason, one.method, one.user_name) for one in found] == [
        ("off", "field", "admin"), ("on", "field", "admin"),
    ]  # fmt: skip


def test_a_field_that_is_off_is_read_by_no_agent(users: Users) -> None:
    client = client_of(users.admin)
    on = [field.name for field in client.get(FLIGHT).context["shown"]]

    client.post(FLIGHT, {"on": [name for name in on if name != "tailnum"]})

    assert "tailnum" not in described(DirectPeer(users.admin))["fields"]


def test_what_somebody_else_has_switched_meanwhile_is_kept(users: Users) -> None:
    client = client_of(users.admin)
    on = [field.name for field in client.get(FLIGHT).context["shown"]]
    Restriction.objects.create(site="mcp", kind="field", name="flights.flight.carrier")

    client.post(FLIGHT, {"on": [name for name in on if name != "tailnum"]})

    assert set(Restriction.objects.values_list("name", flat=True)) == {
        "flights.flight.carrier", "flights.flight.tailnum",
    }  # fmt: skip


def test_opening_what_no_code_exposes(users: Users) -> None:
    """A switch is a row that closes: there is nothing to post that opens a field or a model."""
    client = client_of(users.admin)
    before = described(DirectPeer(users.admin))

    client.post(FLIGHT, {"on": ["password", "id", "no_such"], "off": ["password", "no_such"]})
    client.post(LIST, {"on": ["sessions.session", "mcp_django.accesstoken"], "off": ["sessions.session"]})
    Restriction.objects.all().delete()

    assert described(DirectPeer(users.admin)) == before
    assert client.get(f"{LIST}of/sessions.session/").status_code == 404


def test_the_page_of_a_model_names_what_is_hidden_with_the_line_that_opens_it(users: Users) -> None:
    page = client_of(users.admin).get(f"{LIST}of/auth.user/")

    said = content_of(page)

    assert "password : looks like a secret, and is not named in fields; name it in fields of a ModelMCP" in said
    assert 'site.register(User, extra_fields=["…"])' in said


class UserMCP(ModelMCP):
    pass


class NarrowMCP(ModelMCP):
    fields = ["username"]


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda declared: None,
         'registered in code already: name a field in extra_fields there, beside what stands there: site.register(User,'
         ' extra_fields=["…"])'),
        (lambda declared: declared.model(User, fields=["username"]),
         'name a field in fields there, beside what stands there: site.register(User, fields=["…"])'),
        (lambda declared: declared.model(User, UserMCP, description="People."),
         'there: site.register(User, UserMCP, extra_fields=["…"])'),
        (lambda declared: declared.model(User, UserMCP), f"name a field in extra_fields of {__name__}.UserMCP."),
        (lambda declared: declared.model(User, NarrowMCP), f"name a field in fields of {__name__}.NarrowMCP."),
    ],
)  # fmt: skip
def test_a_field_is_opened_where_its_model_is_registered(
    users: Users, declared: Declared, declare: Callable[[Declared], None], said: str
) -> None:
    declare(declared)

    page = content_of(client_of(users.admin).get(f"{LIST}of/auth.user/"))

    assert said in page and "line in mcp.py" not in page and page.count("site.register") == said.count("site.register")


def test_a_field_of_a_model_that_is_not_registered_is_opened_by_a_line(users: Users, declared: Declared) -> None:
    class Admin(FlightAdmin):
        list_display = ["number"]
        fields, fieldsets = ["number"], None

    declared.admin(Flight, Admin)

    page = content_of(client_of(users.admin).get(FLIGHT))

    assert 'This line in mcp.py of an app does it: site.register(Flight, extra_fields=["…"])' in page


def test_users_and_rights_are_opened_by_lines_that_name_the_models_of_the_project(
    users: Users, declared: Declared
) -> None:
    """Only where one of them is left out, whatever else is."""
    client = client_of(users.admin)
    without = content_of(client.get(LIST))
    declared.unregister(Group)
    with isolate_apps("tests.shop"):

        class Member(User):
            class Meta:
                app_label = "shop"
                proxy = True

        declared.admin(Member, UserAdmin)

        page = client.get(LIST)

    assert "Only code opens these." in without and "import site" not in without
    assert page.context["lines_for_rights"] == (
        "from django.contrib.auth.models import Group\n"
        f"from {__name__} import Member\n"
        "from mcp_django import site\n\n"
        "site.register(Group)\nsite.register(Member)"
    )
    assert "site.register(Group) site.register(Member)" in content_of(page)


def test_groups_that_may_view_are_named_with_the_hook_that_decides_beyond(users: Users, declared: Declared) -> None:
    class Admin(FlightAdmin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return super().has_view_permission(request, obj)

    declared.admin(Flight, Admin)
    Group.objects.create(name="=watchers").permissions.add(Permission.objects.get(codename="view_flight"))
    client = client_of(users.admin)

    page = client.get(FLIGHT)
    rows = list(csv.reader(client.get(f"{LIST}matrix/").content.decode("utf-8-sig").splitlines()))

    assert "=watchers" in page.context["groups"] and "Admin.has_view_permission decides beyond" in content_of(page)
    [line] = [dict(zip(rows[0], row, strict=True)) for row in rows if row[0] == "flights.flight"]
    assert line["'=watchers"] == "view" and "Admin.has_view_permission" in line["decided beyond permissions by"]


def test_reading_the_groups_without_the_permission_to_view_groups(users: Users) -> None:
    auditor = client_of(make_staff("auditor", "mcp_django.view_restriction"))

    assert auditor.get(FLIGHT).context["groups"] is None
    assert auditor.get(f"{LIST}matrix/").status_code == 403


def test_switching_with_the_permission_to_look_alone(users: Users) -> None:
    auditor = client_of(make_staff("auditor", "mcp_django.view_restriction"))
    on = labels_of(auditor.get(LIST))

    answers = [auditor.post(url, {"on": on[1:]}).status_code for url in (LIST, FLIGHT)]

    assert answers == [403, 403] and not Restriction.objects.exists()


@pytest.mark.parametrize("url", [LIST, FLIGHT, f"{LIST}matrix/", f"{LIST}1/change/"])
def test_looking_without_a_permission(users: Users, url: str) -> None:
    Restriction.objects.create(pk=1, site="mcp", kind="model", name="flights.flight")

    assert client_of(make_staff("nobody")).get(url).status_code in (403, 404)


def test_the_history_leads_to_the_page_of_the_model(users: Users) -> None:
    row = Restriction.objects.create(site="mcp", kind="field", name="flights.flight.tailnum")

    assert client_of(users.admin).get(f"{LIST}{row.pk}/change/").url == FLIGHT


def test_the_terminal_says_what_is_switched_off(users: Users) -> None:
    Restriction.objects.create(site="mcp", kind="model", name="flights.airport")
    Restriction.objects.create(site="mcp", kind="field", name="flights.flight.tailnum")

    declared, of_admin = run_inventory(), run_inventory("--user", "admin")

    assert "flights.airport by AirportAdmin: all rows, switched off now" in declared
    assert "switched off now: tailnum" in declared
    assert "flights.airport: an administrator switched it off" in of_admin
    assert "without tailnum: an administrator switched it off" in of_admin
    # For programs, too.
    found = json.loads(run_inventory("--user", "admin", "--json"))
    assert "an administrator switched it off" in str(found["left_out"]["flights.airport"])
    assert "an administrator switched it off" in str(found["models"]["flights.flight"]["hidden"]["tailnum"])


def test_a_lock_knows_no_switch(users: Users, tmp_path: Any) -> None:
    path = tmp_path / "exposure.json"
    run_inventory("--lock", path)

    Restriction.objects.create(site="mcp", kind="model", name="flights.airport")

    assert "is up to date" in run_inventory("--lock", path, "--check")
