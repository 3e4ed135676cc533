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
from django.urls import set_script_prefix
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


def returning(value: Any) -> Act:
    """Cancels the flights and returns what is no response, which leads back to the list, as in the admin."""

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        queryset.update(status="cancelled")
        return value

    return act


# Messages.


def test_an_error_without_a_success_is_a_failure_that_is_not_rolled_back(run: Any) -> None:
    wrote = "Nothing was rolled back: the action wrote 2 rows of flights.flight."
    answers: list[tuple[Act, list[str], bool]] = [
        (says(messages.ERROR), ["error: said at 40", wrote], True),
        (says(messages.INFO, messages.ERROR), ["said at 20", "error: said at 40", wrote], True),
        (says(messages.ERROR, messages.SUCCESS), ["error: said at 40", "said at 25"], False),
        (says(messages.SUCCESS), ["said at 25"], False),
        (says(messages.INFO, messages.WARNING), ["said at 20", "warning: said at 30"], False),
        *((returning(value), ["Done; the admin said nothing."], False) for value in (None, "text", {"a": 1}, 3, True)),
    ]
    for act, lines, failed in answers:
        Flight.objects.update(status="on_time")
        result = run(act)
        assert (text_of(result).splitlines(), result["isError"], cancelled()) == (lines, failed, 2)


def test_a_message_with_html_is_read_as_text(run: Any) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        self.message_user(request, format_html('See <a href="/x">{}</a>.', "A & B"))
        self.message_user(request, "1 < 2 & 3 > 2")

    assert text_of(run(act)).splitlines() == ["See A & B.", "1 < 2 & 3 > 2"]


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
def test_a_failure_says_how_many_rows_were_written(run: Any) -> None:
    written: dict[str, list[Callable[[Any], Any]]] = {
        "1 row of flights.flight": [lambda rows: rows.first().save(), _undone],
        "no row": [_undone],
        "1 row of other tables": [_logged],
        "2 rows of flights.flight and 1 row of other tables": [lambda rows: rows.update(notes="x"), _logged],
        "2 rows of flights.flight": [lambda rows: Flight.objects.bulk_create(_copies(rows))],
        "5 rows of flights.flight": [lambda rows: _execute("/* of a wrapper */ UPDATE {} SET notes = 'x'")],
    }
    for wrote, steps in written.items():
        result = run(fails(*steps))
        assert text_of(result).splitlines() == ["error: no", f"Nothing was rolled back: the action wrote {wrote}."]
        assert result["isError"] is True
    assert text_of(run(fails(lambda rows: rows.filter(pk=1).delete()))).endswith("wrote 1 row of flights.flight.")


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
def test_a_response_that_refuses_is_rolled_back(run: Any) -> None:
    refusals: list[tuple[HttpResponse, str]] = [
        (HttpResponseForbidden(), "The action answered 403 Forbidden."),
        (HttpResponseBadRequest("<h1>Bad</h1> <p>Choose one &amp; only one.</p>"),
         "The action answered 400 Bad Request: Bad Choose one & only one."),
        (TemplateResponse(None, "admin/404.html", status=404), "The action answered 404 Not Found."),  # type: ignore[arg-type]
        (HttpResponse("x" * 5_000, status=500), f"The action answered 500 Internal Server Error: {'x' * 499}…"),
    ]  # fmt: skip
    for response, text in refusals:
        result = run(returning(response))
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


def test_a_redirect_to_a_page_of_a_model_is_a_success(run: Any) -> None:
    history = "http://localhost/admin/flights/airport/JFK/history/"
    pages = {
        "1/change/": f"{CHANGELIST}1/change/",
        "": CHANGELIST, ".": CHANGELIST, "?status=cancelled": CHANGELIST, None: CHANGELIST, "{path}": CHANGELIST,
        "http://localhost{path}?q=1": f"{CHANGELIST}?q=1", "/admin/flights/flight/": CHANGELIST,
        "/admin/flights/flight/?q=1": f"{CHANGELIST}?q=1", "../airline/": "http://localhost/admin/flights/airline/",
        history: history,
    }  # fmt: skip

    results = {location: run(leads(location)) for location in pages}

    assert {location: (text_of(result), result["isError"]) for location, result in results.items()} == {
        location: (f"Done; the admin said nothing.\nSee {url}", False) for location, url in pages.items()
    }
    assert text_of(run(leads("", "2 flights."))) == f"2 flights.\nSee {CHANGELIST}"
    assert cancelled() == 2


def test_a_redirect_to_anywhere_else_is_rolled_back(run: Any) -> None:
    for location in (
        "https://example.com/admin/flights/flight/", "//example.com/admin/flights/flight/", "/admin/", "confirm/",
        "/admin/flights/flight/add/", "/admin/flights/flight/1/delete/", "/elsewhere/", "/admin/logout/",
        "/admin/password_change/",
    ):  # fmt: skip
        result = run(leads(location, "2 flights."))
        assert text_of(result) == f"The action continues at {location}, where a person must finish it. {ROLLED_BACK}"
        assert (result["isError"], cancelled()) == (True, 0), location


def test_a_redirect_is_understood_below_a_prefix(run: Any) -> None:
    with override_settings(FORCE_SCRIPT_NAME="/below"):
        set_script_prefix("/below/")
        try:
            result = run(leads("/below/admin/flights/flight/7/change/", "ok"))
        finally:
            set_script_prefix("/")

    assert text_of(result) == "ok\nSee http://localhost/below/admin/flights/flight/7/change/"
