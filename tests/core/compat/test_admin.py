"""The columns and values that the admin shows for a row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import clear_url_caches, include, path

from demo_project.flights.models import Airport, Flight, Plane
from mcp_django.core.compat.admin import (
    cascade_of,
    existing_admin_sites,
    foreign_key_of_inline,
    key_for_url,
    key_in_url,
    model_admins,
    names_in_fieldsets,
    object_tool_of,
    served_admin_sites,
    title_of,
    title_of_display,
    value_in,
)
from mcp_django.models import AccessToken
from tests.support.data import make_flights


def test_model_admins_are_those_that_are_registered_in_that_order() -> None:
    site = admin.AdminSite()

    before = model_admins(site)
    site.register([Flight, Airport])
    found = model_admins(site)

    assert before == {}
    assert [(model, type(one)) for model, one in found.items()] == [
        (Flight, admin.ModelAdmin), (Airport, admin.ModelAdmin),
    ]  # fmt: skip
    assert found[Flight] is site.get_model_admin(Flight)


def test_names_in_fieldsets_and_foreign_key_of_inline() -> None:
    class Arrivals(admin.TabularInline[Any, Any]):
        model = Flight
        fk_name = "destination"

    fieldsets = [(None, {"fields": ["a", ("b", "c")]}), ("More", {"fields": ("d",)})]

    assert names_in_fieldsets(fieldsets) == ["a", "b", "c", "d"]
    assert foreign_key_of_inline(Arrivals(Airport, admin.site)).name == "destination"


@pytest.mark.django_db
def test_cascade_of_is_what_goes_what_is_unlinked_and_what_prevents_it() -> None:
    flight, plane = make_flights(1)[0], Plane.objects.create(tailnum="N1", seats=1, engines=1)
    Flight.objects.update(plane=plane)

    assert cascade_of([plane], "default", most=10) == ([plane], list(Flight.objects.filter(plane=plane)), [])
    found = cascade_of([flight.origin], "default", most=10)
    assert found is not None and found[2] == [flight]
    assert cascade_of(list(Plane.objects.none()), "default", most=10) == ([], [], [])


class _Admin(admin.ModelAdmin[Any]):
    @admin.display(description="The code")
    def short(self, row: Airport) -> str:
        return row.pk.lower()


def test_title_of_and_value_in_a_column_of_list_display() -> None:
    owner, row = _Admin(Airport, admin.AdminSite()), Airport(pk="JFK", daylight_saving="A")

    assert title_of("short", Airport, owner) == "The code"
    assert value_in("short", row, owner) == "jfk"
    assert title_of(_upper, Airport, owner) == "upper"
    assert value_in(_upper, row, owner) == "JFK"
    assert value_in("get_daylight_saving_display", row, owner) == row.get_daylight_saving_display()


def _upper(row: Airport) -> str:
    return str(row.pk)


_upper.short_description = "upper"  # type: ignore[attr-defined]


def test_title_of_display_is_for_the_methods_that_django_makes_for_choices() -> None:
    made: Any = Airport.get_daylight_saving_display

    assert title_of_display(made, "get_daylight_saving_display") == "Daylight saving"
    assert title_of_display(made, "daylight_saving") is None
    assert title_of_display(_upper, "get_upper_display") is None


def _view(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


@pytest.mark.urls(__name__)
def test_served_admin_sites_are_those_of_the_urlconf(monkeypatch: pytest.MonkeyPatch) -> None:
    own, unserved = admin.AdminSite("own"), admin.AdminSite("unserved")
    own.register(Airport)
    unserved.register(Airport)
    urls = [
        path("view/", _view),
        path("deep/", include([path("own/", own.urls)])),
        path("admin/", admin.site.urls),
        path("again/", own.urls),
        path("wrapped/", unserved.admin_view(_view)),
    ]
    monkeypatch.setitem(globals(), "urlpatterns", urls)
    clear_url_caches()

    found = served_admin_sites()

    assert found == [admin.site, own]
    assert {own, unserved} <= set(existing_admin_sites())
    clear_url_caches()


def test_key_for_url_is_what_the_admin_quotes_and_key_in_url_the_key_of_it() -> None:
    assert (key_for_url("a/b_c"), key_for_url(7)) == (quote("a/b_c"), "7")
    assert key_in_url(quote("a/b_c")) == "a/b_c"


@pytest.mark.django_db
def test_cascade_of_looks_at_no_more_rows_than_it_may(django_assert_max_num_queries: Any) -> None:
    users = [User.objects.create_user(name) for name in ("ann", "bob")]
    for user in users:
        AccessToken.objects.create_token(user=user)
    flight = make_flights(12)[0]
    plane = Plane.objects.create(tailnum="N1", seats=1, engines=1)
    Flight.objects.update(plane=plane)

    assert cascade_of(users, "default", most=3) is None
    found = cascade_of(users, "default", most=4)
    assert found is not None and len(found[0]) == 4
    # Nor at those that lose their link or prevent it.
    for objects in ([plane], [flight.origin]):
        with django_assert_max_num_queries(20) as asked:
            assert cascade_of(objects, "default", most=2) is None
        assert cascade_of(objects, "default", most=12) is not None
    assert any("LIMIT 3" in query["sql"] for query in asked.captured_queries)


def test_object_tool_of_is_what_the_admin_says_of_an_action() -> None:
    """As django-object-actions says it, which the projects of ``make projects`` have."""
    admin = SimpleNamespace(_get_tool_dict=lambda name: {"name": name, "button_type": "form"})

    assert object_tool_of(admin, "publish") == {"name": "publish", "button_type": "form"}
