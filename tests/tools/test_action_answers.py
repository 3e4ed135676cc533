"""How an action says that it is done or has failed, and what is then rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseForbidden,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.test import override_settings
from django.utils.html import format_html

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from tests.support.asking import DirectPeer, text_of
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared

NAME = "flights_flight_act"
CHANGELIST = "http://localhost/admin/flights/flight/"
ROLLED_BACK = "Its changes to the database were rolled back; what it sent elsewhere, such as mail, was not taken back."

Act = Callable[[Any, HttpRequest, Any], Any]


@pytest.fixture
def run(db: None, declared: Declared) -> Callable[[Act], Any]:
    """Runs a function as an action on the first two of three flights."""
    make_flights(3)
    switch_on(NAME)
    peer = DirectPeer(User.objects.create_superuser("root"))

    def run(act: Act) -> Any:
        @admin.action(permissions=["change"], description="Act")
        def action(self: Any, request: HttpRequest, queryset: Any) -> Any:
            return act(self, request, queryset)

        declared.admin(Flight, type("Acting", (FlightAdmin,), {"actions": ["act"], "act": action}))
        return peer.call(NAME, ids=[1, 2])

    return run


def cancelled() -> int:
    return Flight.objects.filter(status="cancelled").count()


def says(level: int, *more: int) -> Act:
    """Cancels the flights and leaves messages of these levels."""

    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.update(status="cancelled")
        for one in (level, *more):
            self.message_user(request, f"said at {one}", one)

    return act


# Messages.


@pytest.mark.parametrize(("act", "lines", "failed"), [
    (says(messages.SUCCESS), ["said at 25"], False),
    (says(messages.INFO, messages.WARNING), ["said at 20", "warning: said at 30"], False),
    (says(messages.ERROR, messages.SUCCESS), ["error: said at 40", "said at 25"], False),
    (says(messages.ERROR), ["error: said at 40", "Nothing was rolled back: the action wrote 2 rows of flights.flight."],
     True),
    (says(messages.INFO, messages.ERROR),
     ["said at 20", "error: said at 40", "Nothing was rolled back: the action wrote 2 rows of flights.flight."], True),
    (lambda self, request, queryset: queryset.update(status="cancelled"), ["Done; the admin said nothing."], False),
], ids=["success", "warning", "error and success", "error", "info and error", "nothing"])  # fmt: skip
def test_an_error_without_a_success_is_a_failure_that_is_not_rolled_back(
    run: Any, act: Act, lines: list[str], failed: bool
) -> None:
    result = run(act)

    assert text_of(result).splitlines() == lines
    assert result["isError"] is failed
    assert cancelled() == 2


def test_a_message_with_html_is_read_as_text(run: Any) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        self.message_user(request, format_html('See <a href="/x">{}</a>.', "A & B"))
        self.message_user(request, "1 < 2 & 3 > 2")

    assert text_of(run(act)).splitlines() == ["See A & B.", "1 < 2 & 3 > 2"]


@pytest.mark.parametrize("returned", ["text", {"a": 1}, 3, True])
def test_what_is_no_response_leads_back_to_the_list_as_in_the_admin(run: Any, returned: Any) -> None:
    result = run(lambda self, request, queryset: queryset.update(status="cancelled") and returned)

    assert (text_of(result), result["isError"], cancelled()) == ("Done; the admin said nothing.", False, 2)


# What was written, where it is not rolled back.


def fails(*steps: Callable[[Any], Any]) -> Act:
    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        for step in steps:
            step(queryset)
        self.message_user(request, "no", messages.ERROR)

    return act


def _undone(queryset: Any) -> None:
    with transaction.atomic():
        queryset.update(status="cancelled")
        transaction.set_rollback(True)


def _logged(queryset: Any) -> None:
    user = User.objects.get()
    user.first_name = "Root"
    user.save()


@pytest.mark.every_database
@pytest.mark.parametrize(("steps", "wrote"), [
    ([], "no row"),
    ([_undone], "no row"),
    ([lambda rows: rows.first().save(), _undone], "1 row of flights.flight"),
    ([lambda rows: rows.filter(pk=1).delete()], "1 row of flights.flight"),
    ([_logged], "1 row of other tables"),
    ([lambda rows: rows.update(notes="x"), _logged], "2 rows of flights.flight and 1 row of other tables"),
    ([lambda rows: Flight.objects.bulk_create(_copies(rows))], "2 rows of flights.flight"),
    ([lambda rows: _execute("/* of a wrapper */ UPDATE {} SET notes = 'x'")], "3 rows of flights.flight"),
], ids=["nothing", "undone", "saved", "deleted", "elsewhere", "both", "created", "commented"])  # fmt: skip
def test_a_failure_says_how_many_rows_were_written(run: Any, steps: Any, wrote: str) -> None:
    result = run(fails(*steps))

    assert text_of(result).splitlines() == ["error: no", f"Nothing was rolled back: the action wrote {wrote}."]
    assert result["isError"] is True


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql.format(connection.ops.quote_name(Flight._meta.db_table)))


def _copies(rows: Any) -> list[Flight]:
    copies = list(rows)
    for number, copy in enumerate(copies):
        copy.pk = copy.number = 10_000 + number
    return copies


@pytest.mark.every_database
def test_an_action_that_takes_its_own_changes_back_says_so(run: Any) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.update(status="cancelled")
        transaction.set_rollback(True)
        self.message_user(request, "2 flights would be cancelled.")

    result = run(act)

    assert text_of(result).splitlines() == [
        "2 flights would be cancelled.", "The action took its own changes back: nothing was changed.",
    ]  # fmt: skip
    assert cancelled() == 0


# Refusals.


@pytest.mark.every_database
@pytest.mark.parametrize(("response", "text"), [
    (HttpResponseForbidden, "The action answered 403 Forbidden."),
    (lambda: HttpResponseBadRequest("<h1>Bad</h1> <p>Choose one &amp; only one.</p>"),
     "The action answered 400 Bad Request: Bad Choose one & only one."),
    (lambda: TemplateResponse(None, "admin/404.html", status=404), "The action answered 404 Not Found."),  # type: ignore[arg-type]
    (lambda: HttpResponse("x" * 5_000, status=500),
     f"The action answered 500 Internal Server Error: {'x' * 499}…"),
], ids=["empty", "html", "template", "long"])  # fmt: skip
def test_a_response_that_refuses_is_rolled_back(run: Any, response: Any, text: str) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> HttpResponse:
        queryset.update(status="cancelled")
        answer: HttpResponse = response()
        return answer

    result = run(act)

    assert text_of(result) == f"{text} {ROLLED_BACK}"
    assert (result["isError"], cancelled()) == (True, 0)


# Redirects.


def leads(location: str | None, *said: str) -> Act:
    def act(self: Any, request: HttpRequest, queryset: Any) -> HttpResponse:
        queryset.update(status="cancelled")
        for text in said:
            self.message_user(request, text)
        return HttpResponseRedirect(location and location.format(path=request.path))  # type: ignore[arg-type]

    return act


@pytest.mark.parametrize(("location", "url"), [
    ("", CHANGELIST),
    (".", CHANGELIST),
    ("?status=cancelled", CHANGELIST),
    (None, CHANGELIST),
    ("{path}", CHANGELIST),
    ("http://localhost{path}?q=1", CHANGELIST),
    ("/admin/flights/flight/", CHANGELIST),
    ("/admin/flights/flight/?q=1", f"{CHANGELIST}?q=1"),
    ("../airline/", "http://localhost/admin/flights/airline/"),
    ("1/change/", f"{CHANGELIST}1/change/"),
    ("http://localhost/admin/flights/airport/JFK/history/", "http://localhost/admin/flights/airport/JFK/history/"),
], ids=str)  # fmt: skip
def test_a_redirect_to_a_page_of_a_model_is_a_success(run: Any, location: Any, url: str) -> None:
    quiet, said = run(leads(location)), run(leads(location, "2 flights."))

    assert text_of(quiet) == f"Done; the admin said nothing.\nSee {url}"
    assert text_of(said) == f"2 flights.\nSee {url}"
    assert (quiet["isError"], cancelled()) == (False, 2)


@pytest.mark.parametrize("location", [
    "/admin/", "/admin/flights/flight/add/", "/admin/flights/flight/1/delete/", "confirm/", "/elsewhere/",
    "/admin/logout/", "https://example.com/admin/flights/flight/", "//example.com/admin/flights/flight/",
    "/admin/password_change/",
])  # fmt: skip
def test_a_redirect_to_anywhere_else_is_rolled_back(run: Any, location: str) -> None:
    result = run(leads(location, "2 flights."))

    assert text_of(result) == f"The action goes on at {location}, where a person must finish it. {ROLLED_BACK}"
    assert (result["isError"], cancelled()) == (True, 0)


def test_a_redirect_is_understood_below_a_prefix(run: Any) -> None:
    with override_settings(FORCE_SCRIPT_NAME="/below"):
        from django.urls import set_script_prefix

        set_script_prefix("/below/")
        try:
            result = run(leads("/below/admin/flights/flight/7/change/", "ok"))
        finally:
            set_script_prefix("/")

    assert text_of(result) == "ok\nSee http://localhost/below/admin/flights/flight/7/change/"
