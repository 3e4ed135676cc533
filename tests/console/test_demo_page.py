"""The demo logs people in by a button at its own machine alone, and cancels only what the admin lets them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from demo_project.flights.models import Flight
from mcp_django.models import AccessToken, Ticket
from tests.support.data import Users, make_flights

pytestmark = pytest.mark.django_db

BUTTON = 'name="user" value="admin"'
ELSEWHERE: list[dict[str, str]] = [
    {"HTTP_HOST": "demo.example.com"},
    {"HTTP_HOST": "localhost.example.com:8000"},
    {"REMOTE_ADDR": "192.0.2.7"},
    {"REMOTE_ADDR": ""},
    {"HTTP_FORWARDED": "for=192.0.2.7"},
    {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
    {"HTTP_X_FORWARDED_HOST": "localhost"},
    {"HTTP_X_REAL_IP": "127.0.0.1"},
    {"HTTP_VIA": "1.1 proxy"},
]


@pytest.fixture(autouse=True)
def here(settings: Any, users: Users) -> None:
    settings.DEMO_LOGIN_BUTTONS = True
    settings.ALLOWED_HOSTS = ["*"]


def client(user: User | None = None, **defaults: Any) -> Client:
    made = Client(**{"HTTP_HOST": "127.0.0.1:8000", **defaults})
    if user is not None:
        made.force_login(user)
    return made


def test_a_button_logs_a_person_at_this_machine_in() -> None:
    person = client()

    assert BUTTON in person.get("/").content.decode()
    assert person.post("/login/", {"user": "ops"}).status_code == 302
    assert person.get("/").wsgi_request.user.get_username() == "ops"


def test_elsewhere_there_are_no_buttons_and_nothing_behind_them(users: Users) -> None:
    for sent in ELSEWHERE:
        person = client(users.admin, **sent)

        assert BUTTON not in person.get("/").content.decode(), sent
        assert client(**sent).post("/login/", {"user": "admin"}).status_code == 404, sent
        assert person.get("/boards/").status_code == 404, sent
        assert person.post("/boards/ticket/", {"user": "admin"}).status_code == 404, sent
    assert not Ticket.objects.exists()


def test_the_setting_switches_the_buttons_off(settings: Any) -> None:
    settings.DEMO_LOGIN_BUTTONS = False

    assert BUTTON not in client().get("/").content.decode()
    assert client().post("/login/", {"user": "admin"}).status_code == 404


def test_a_forged_post_is_refused(users: Users) -> None:
    forged = client(users.admin, enforce_csrf_checks=True)

    for path in ("/login/", "/boards/ticket/", "/boards/cancel/"):
        assert forged.post(path, {"user": "admin", "flight": "1"}).status_code == 403, path


def test_a_button_is_for_the_three_users_of_the_demo_while_they_have_its_password(users: Users) -> None:
    User.objects.create_superuser("root", password="root")
    users.admin.set_password("another")
    users.admin.save()

    assert client().post("/login/", {"user": "root"}).status_code == 404
    assert client().post("/login/", {"user": "admin"}).status_code == 404
    assert client(users.ops).post("/boards/ticket/", {"user": "admin"}).status_code == 404


def test_a_ticket_is_for_people_who_are_logged_in_and_reads_only(users: Users) -> None:
    assert client().post("/boards/ticket/", {"user": "admin"}).status_code == 404

    for _ in range(2):
        assert client(users.ops).post("/boards/ticket/", {"user": "ops"}).json()["ticket"]

    assert [ticket.scopes for ticket in Ticket.objects.all()] == [["read"], ["read"]]
    assert [token.scopes for token in AccessToken.objects.filter(user=users.ops)] == [["read"]]


def test_a_flight_is_cancelled_and_its_history_says_so(users: Users) -> None:
    [flight, *_] = make_flights()

    assert client(users.admin).post("/boards/cancel/", {"flight": flight.pk}).status_code == 204

    assert Flight.objects.get(pk=flight.pk).status == "cancelled"
    assert LogEntry.objects.get().user == users.admin


def test_a_flight_that_the_admin_hides_cannot_be_cancelled_by_a_guessed_key(users: Users) -> None:
    make_flights()
    flight = Flight.objects.filter(origin="EWR").exclude(status="cancelled")[0]

    assert client(users.ops).post("/boards/cancel/", {"flight": flight.pk}).status_code == 404
    assert Flight.objects.get(pk=flight.pk).status == flight.status


@pytest.mark.every_database
def test_a_key_that_is_none_is_not_found(users: Users) -> None:
    for key in ("9" * 30, "", "x", "-1", "9" * 5000, "1\0"):
        assert client(users.admin).post("/boards/cancel/", {"flight": key}).status_code == 404, key[:31]


def test_whoever_may_only_look_cancels_nothing(users: Users) -> None:
    [flight, *_] = make_flights()

    for person in (client(), client(users.viewer)):
        assert person.post("/boards/cancel/", {"flight": flight.pk}).status_code == 403
    assert "data-may-cancel" not in client(users.viewer).get("/").content.decode()
