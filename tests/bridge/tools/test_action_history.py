"""What agents change by admin actions stands in Django's own history of each row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models, transaction
from django.http import HttpRequest
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

import mcp_django
from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django.exceptions import ToolError
from mcp_django.exchange.principals import Superuser
from mcp_django.test import MCPClient
from tests.shop.models import Crate, Locker, Pallet, Person, SparePallet, Tag
from tests.support.asking import DirectPeer
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared
from tests.support.peers import Peer

CANCEL = "flights_flight_mark_cancelled"
Admin: Any = admin.ModelAdmin
BY = 'by agent "mcp_django.test" (as it calls itself)'
#: A key, its flag and the text of the row.
Line = tuple[str | None, int, str]


@pytest.fixture
def root(db: None) -> Iterator[MCPClient]:
    make_flights(6)
    switch_on(CANCEL)
    with MCPClient(User.objects.create_superuser("root"), raise_exceptions=False) as client:
        yield client


def lines() -> list[Line]:
    return [(entry.object_id, entry.action_flag, entry.object_repr) for entry in LogEntry.objects.order_by("pk")]


def changes(*keys: object) -> list[tuple[str, int]]:
    return [(str(key), CHANGE) for key in keys]


def flags() -> list[tuple[str | None, int]]:
    return [(key, flag) for key, flag, _ in lines()]


def run(root: MCPClient, declared: Declared, model: Any, action: Any, ids: list[Any], **body: Any) -> Any:
    """Call a function as an action of the model's ModelAdmin."""
    named = type("Acting", (Admin,), {"actions": [action.__name__], action.__name__: action, **body})
    declared.admin(model, named)
    name = f"{model._meta.app_label}_{model._meta.model_name}_{action.__name__}"
    switch_on(name)
    return root.call(name, ids=ids)


# What is logged.


@pytest.mark.every_database
def test_each_row_of_an_action_is_logged_as_changed_by_the_agent(root: MCPClient) -> None:
    root.call(CANCEL, ids=[2, "1"])

    entries = list(LogEntry.objects.order_by("pk"))
    assert [(entry.object_id, entry.object_repr) for entry in entries] == [
        (str(key), str(Flight.objects.get(pk=key))) for key in (2, 1)
    ]
    assert {(entry.user.get_username(), entry.action_flag, entry.get_change_message()) for entry in entries} == {
        ("root", CHANGE, f"Mark selected flights as cancelled: {BY}")
    }
    assert {entry.get_edited_object() for entry in entries} == set(Flight.objects.filter(pk__in=[1, 2]))


def test_the_rows_that_a_filter_finds_are_logged(root: MCPClient) -> None:
    shown = root.call(CANCEL, filter={"pk__in": [1, 3]})
    assert lines() == []

    root.call(CANCEL, filter={"pk__in": [1, 3]}, confirm=shown.text.rpartition('"confirm": "')[2].rstrip('".'))

    assert sorted(flags()) == changes(1, 3)


def test_the_token_is_named_and_a_client_without_a_name_is_logged_as_such(admin: Peer, flights: Any) -> None:
    admin.call(CANCEL, ids=[1])
    DirectPeer(User.objects.get(username="admin")).call(CANCEL, ids=[2])

    token = User.objects.get(username="admin").mcp_tokens.get()
    by = (f'by agent "tests" (as it calls itself), token "{token}"', "by an agent without a name")
    assert list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True)) == [
        f"Mark selected flights as cancelled: {one}" for one in by
    ]


def test_the_history_of_the_admin_shows_it(root: MCPClient) -> None:
    browser = Client()
    browser.force_login(User.objects.get())

    root.call(CANCEL, ids=[1])

    page = browser.get("/admin/flights/flight/1/history/").content.decode()
    assert "Mark selected flights as cancelled: by agent &quot;mcp_django.test&quot; (as it calls itself)" in page


@pytest.mark.every_database
def test_the_text_of_a_row_is_that_after_the_change(root: MCPClient, declared: Declared) -> None:
    pallet = Pallet.objects.create(name="old")

    def rename(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.update(name="n" * 300 if connection.vendor == "sqlite" else "new")

    run(root, declared, Pallet, rename, [pallet.pk])

    assert lines() == [(str(pallet.pk), CHANGE, ("n" * 300)[:200] if connection.vendor == "sqlite" else "new")]


def delete_some(self: Any, request: HttpRequest, queryset: Any) -> None:
    queryset.exclude(name="stays").delete()


def touch(self: Any, request: HttpRequest, queryset: Any) -> None: ...


@pytest.mark.every_database
def test_rows_that_are_gone_are_logged_as_deleted(root: MCPClient, declared: Declared) -> None:
    pallets = [Pallet.objects.create(name=name) for name in ("goes", "stays", "goes too")]

    run(root, declared, Pallet, delete_some, [pallet.pk for pallet in pallets])

    first, second, third = (str(pallet.pk) for pallet in pallets)
    assert lines() == [(second, CHANGE, "stays"), (first, DELETION, "goes"), (third, DELETION, "goes too")]
    assert set(LogEntry.objects.values_list("change_message", flat=True)) == {f"Delete some: {BY}"}


def test_rows_deleted_by_cascade_are_not_logged(root: MCPClient, declared: Declared) -> None:
    person = Person.objects.create(name="Ada")
    Locker.objects.create(owner=person, number=1)

    def leave(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.delete()

    run(root, declared, Person, leave, [person.pk])

    assert not Locker.objects.exists()
    assert lines() == [(str(person.pk), DELETION, str(person))]


def test_the_text_of_a_deleted_row_may_name_rows_that_went_with_it(
    root: MCPClient, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person.objects.create(name="Ada")
    Locker.objects.create(owner=person, number=1)
    monkeypatch.setattr(Locker, "__str__", lambda locker: f"locker of {locker.owner.name}")

    def clear(self: Any, request: HttpRequest, queryset: Any) -> None:
        Person.objects.filter(locker__in=queryset).delete()

    run(root, declared, Locker, clear, [person.pk])

    assert lines() == [(str(person.pk), DELETION, "locker of Ada")]


def test_a_row_without_a_text_is_logged_by_its_key(root: MCPClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flight, "__str__", lambda flight: 1 / 0)

    result = root.call(CANCEL, ids=[1])

    assert not result.is_error
    assert lines() == [("1", CHANGE, "flight 1")]


@pytest.mark.every_database
def test_a_key_may_be_any_text_and_a_proxy_has_a_history_of_its_own(root: MCPClient, declared: Declared) -> None:
    Tag.objects.create(name="a/b c")
    pallet = SparePallet.objects.create(name="spare")

    run(root, declared, Tag, touch, ["a/b c"])
    run(root, declared, SparePallet, touch, [pallet.pk])

    assert lines() == [("a/b c", CHANGE, "a/b c"), (str(pallet.pk), CHANGE, str(pallet))]
    kind = ContentType.objects.get_for_model(SparePallet, for_concrete_model=False)
    assert LogEntry.objects.latest("pk").content_type == kind
    assert kind.model == "sparepallet"


@pytest.mark.every_database
def test_a_key_may_be_a_uuid(root: MCPClient, declared: Declared) -> None:
    stays, goes = sorted((Crate.objects.create() for _ in range(2)), key=str)

    def unpack(self: Any, request: HttpRequest, queryset: Any) -> None:
        self.log_change(request, stays, "unpacked")
        queryset.filter(pk=goes.pk)._raw_delete("default")

    key = str(goes.pk)
    run(root, declared, Crate, unpack, [str(stays.pk), key])

    assert flags() == [(str(stays.pk), CHANGE), (key, DELETION)]


# What is not.


@pytest.mark.every_database
def test_a_row_that_the_action_logs_itself_is_not_logged_again(root: MCPClient, declared: Declared) -> None:
    first, second = (SparePallet.objects.create(name=name) for name in ("first", "second"))

    def log(self: Any, request: HttpRequest, queryset: Any) -> None:
        kind = ContentType.objects.get_for_model(Pallet, for_concrete_model=True)
        entry = LogEntry(
            user=request.user, content_type=kind, object_id=first.pk, object_repr="x", action_flag=ADDITION
        )
        match how:
            case "log_change":
                self.log_change(request, first, "own")
            case "log_actions":
                LogEntry.objects.log_actions(request.user.pk, queryset.filter(pk=first.pk), CHANGE, "own")
            case "a row":
                entry.save()
            case "many rows":
                LogEntry.objects.bulk_create([entry])
            case _:
                self.log_change(request, Pallet.objects.get(pk=first.pk), "own")

    for how in ("log_change", "log_actions", "a row", "many rows", "of the concrete model"):
        LogEntry.objects.all().delete()
        LogEntry.objects.log_actions(User.objects.get().pk, [second], CHANGE, "of last week")
        run(root, declared, SparePallet, log, [first.pk, second.pk])

        assert [key for key, _ in flags()] == [str(second.pk), str(first.pk), str(second.pk)], how
        assert LogEntry.objects.latest("pk").change_message == f"Log: {BY}"


def test_what_the_action_logs_of_others_does_not_count(root: MCPClient, declared: Declared) -> None:
    pallet, other = (Pallet.objects.create(name=name) for name in ("mine", "other"))
    somebody = make_staff("somebody")

    def log(self: Any, request: HttpRequest, queryset: Any) -> None:
        LogEntry.objects.log_actions(somebody.pk, queryset, CHANGE, "by somebody else")
        self.log_change(request, other, "another row")
        self.log_change(request, Tag(name=str(pallet.pk)), "another model")

    run(root, declared, Pallet, log, [pallet.pk])

    entry = LogEntry.objects.latest("pk")
    assert LogEntry.objects.count() == 4
    assert (entry.user.get_username(), entry.object_id, entry.change_message) == ("root", str(pallet.pk), f"Log: {BY}")


def test_nothing_is_logged_of_an_action_that_only_reads(root: MCPClient, declared: Declared) -> None:
    @mcp_django.action(read_only=True)
    @admin.action(permissions=["view"])
    def look(self: Any, request: HttpRequest, queryset: Any) -> None: ...

    switch_on("flights_flight_export_as_csv")
    root.call("flights_flight_export_as_csv", ids=[1])
    run(root, declared, Flight, look, [1])

    assert lines() == []


@override_settings(MCP={"LOG_ACTIONS": False})
def test_nothing_is_logged_where_it_is_switched_off(root: MCPClient) -> None:
    root.call(CANCEL, ids=[1])

    assert lines() == [] and Flight.objects.get(pk=1).status == "cancelled"


def test_a_project_without_the_app_of_the_admin_has_no_history(
    root: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mcp_django.bridge.tools.history.apps.is_installed", lambda name: name != "django.contrib.admin"
    )

    root.call(CANCEL, ids=[1])

    assert lines() == []


@pytest.mark.every_database
def test_an_action_that_changes_nothing_is_not_logged(root: MCPClient, declared: Declared) -> None:
    def fail(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.update(status="cancelled")
        self.log_change(request, queryset[0], "own")
        if end == "takes it back":
            transaction.set_rollback(True)
        else:
            raise ToolError("No.") if end == "refuses" else RuntimeError

    for end in ("breaks", "refuses", "takes it back"):
        with nullcontext() if end == "takes it back" else pytest.raises(ToolError):
            run(root, declared, Flight, fail, [1])
        assert lines() == [], end


def test_an_action_that_says_it_failed_is_logged_if_it_wrote_something(root: MCPClient, declared: Declared) -> None:
    def fail(self: Any, request: HttpRequest, queryset: Any) -> None:
        if writes:
            queryset.update(status="cancelled")
        self.message_user(request, "The printer is out of paper.", "ERROR")

    for writes, wrote in ((False, "no row"), (True, "1 row of flights.flight")):
        with pytest.raises(ToolError) as failed:
            run(root, declared, Flight, fail, [1])
        # The rows of the history are ours, and not the action's.
        assert f"the action wrote {wrote}." in failed.value.message
        assert flags() == (changes(1) if writes else [])


def test_a_failing_history_fails_the_action(root: MCPClient, declared: Declared) -> None:
    """Nothing is changed unseen."""

    class Broken(FlightAdmin):
        def log_change(self, *args: Any) -> Any:
            raise RuntimeError

    declared.admin(Flight, Broken)

    with pytest.raises(ToolError, match="Nothing was changed"):
        root.call(CANCEL, ids=[1])

    assert Flight.objects.get(pk=1).status == "on_time"


# Who.


def test_a_caller_without_a_row_has_no_history_nor_poses_as_the_user_with_its_key(root: MCPClient) -> None:
    class Service(Superuser):
        pk = id = User.objects.get().pk

    for key, user in enumerate(
        (Superuser(), Service(), User(pk=10**6, is_superuser=True, is_active=True, is_staff=True))
    ):
        result = DirectPeer(user).call(CANCEL, ids=[key + 1])
        assert result["isError"] is False, result

    assert set(Flight.objects.filter(pk__in=[1, 2, 3]).values_list("status", flat=True)) == {"cancelled"}
    assert lines() == []


def test_a_client_cannot_forge_the_history_by_its_name(root: MCPClient, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        'x" (as it calls itself), token "root': 'x\\" (as it calls itself), token \\"root',
        "x\\": "x\\\\",
        "two\nlines\x00": "two\\nlines\\x00",
        "\u202eevil\u200b": "\\u202eevil\\u200b",
        "é" * 1_000: "é" * 64,
        "\n" * 64: "\\n" * 31 + "\\…",
    }
    for name, shown in names.items():
        monkeypatch.setattr("mcp_django.test.client._CLIENT_INFO", {"name": name, "version": "1"})
        root.call(CANCEL, ids=[1])
        text = f'Mark selected flights as cancelled: by agent "{shown}" (as it calls itself)'
        assert LogEntry.objects.latest("pk").change_message == text


# The hooks of the project.


def test_a_project_that_logs_changes_in_its_own_way_is_asked_for_each_row(root: MCPClient, declared: Declared) -> None:
    told = []

    class Own(FlightAdmin):
        def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
            told.append((request.user.get_username(), obj.pk, obj.status, message))
            return super().log_change(request, obj, f"told: {message}")

    declared.admin(Flight, Own)

    root.call(CANCEL, ids=[1, 2])

    text = f"Mark selected flights as cancelled: {BY}"
    assert told == [("root", key, "cancelled", text) for key in (1, 2)]
    assert set(LogEntry.objects.values_list("change_message", flat=True)) == {f"told: {text}"}


def test_a_project_that_logs_deletions_in_its_own_way_is_asked_once(root: MCPClient, declared: Declared) -> None:
    told: list[Any] = []

    def log_deletions(self: Any, request: HttpRequest, queryset: Any) -> None:
        told.append([(row.pk, str(row)) for row in queryset])

    pallets = [Pallet.objects.create(name=name) for name in ("goes", "stays", "goes too")]
    run(root, declared, Pallet, delete_some, [pallet.pk for pallet in pallets], log_deletions=log_deletions)

    assert told == [[(pallets[0].pk, "goes"), (pallets[2].pk, "goes too")]]
    assert flags() == changes(pallets[1].pk)


# What it costs.


def statements(root: MCPClient, name: str, ids: list[Any]) -> int:
    """Those of the call that acts. Many ids are shown first."""
    shown = root.call(name, ids=ids).text if len(ids) > 20 else ""
    confirm = {"confirm": shown.split('"')[-2]} if shown else {}
    with CaptureQueriesContext(connection) as sent:
        root.call(name, ids=ids, **confirm)
    return len(sent)


@pytest.mark.every_database
def test_the_history_of_a_row_takes_two_statements_and_that_of_a_deletion_three(
    root: MCPClient, declared: Declared, settings: Any
) -> None:
    def delete(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.delete()

    with_history = settings.MCP
    without = {**settings.MCP, "LOG_ACTIONS": False}
    for action, more in ((touch, 2), (delete, 3)):
        settings.MCP = with_history
        first, second, third = (Pallet.objects.create(name="a pallet").pk for _ in range(3))
        run(root, declared, Pallet, action, [first])
        name = f"shop_pallet_{action.__name__}"
        number = statements(root, name, [second])
        settings.MCP = without

        assert number == statements(root, name, [third]) + more


@pytest.mark.every_database
def test_the_history_of_a_thousand_rows_takes_few_statements(
    root: MCPClient, declared: Declared, settings: Any
) -> None:
    pallets = Pallet.objects.bulk_create(Pallet(name=str(number)) for number in range(1_000))
    ids = [pallet.pk for pallet in Pallet.objects.all()]
    run(root, declared, Pallet, touch, ids[:1])

    with_history = statements(root, "shop_pallet_touch", ids)
    settings.MCP = {**settings.MCP, "LOG_ACTIONS": False}

    assert LogEntry.objects.count() == 1_001 and len(pallets) == 1_000
    # SQLite takes the entries in several batches.
    assert with_history - statements(root, "shop_pallet_touch", ids) <= 12


# Where.


class _LogsElsewhere:
    """A router that keeps Django's history in another database."""

    def db_for_read(self, model: type[models.Model], **hints: Any) -> str | None:
        return "other" if model is LogEntry else None

    db_for_write = db_for_read

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


@pytest.mark.every_database
@pytest.mark.django_db(databases=["default", "other"], transaction=True)
@pytest.mark.parametrize("fails", [True, False])
def test_a_history_in_another_database_goes_with_the_transaction_of_the_action(
    declared: Declared, settings: Any, fails: bool
) -> None:
    make_flights(2)
    root = User.objects.create_superuser("root")
    User(pk=root.pk, username="root").save(using="other")
    kind = ContentType.objects.get_for_model(Flight)
    ContentType(pk=kind.pk, app_label="own", model="own").save(using="other", force_update=True)
    settings.DATABASE_ROUTERS = [_LogsElsewhere()]

    class Acting(FlightAdmin):
        actions = ["act"]

        @admin.action(permissions=["change"])
        def act(self, request: HttpRequest, queryset: Any) -> None:
            queryset.update(status="cancelled")
            self.log_change(request, queryset.get(pk=1), "own")
            if fails:
                raise ToolError("No.")

    declared.admin(Flight, Acting)
    switch_on("flights_flight_act")

    with MCPClient(root) as client:
        if fails:
            with pytest.raises(ToolError):
                client.call("flights_flight_act", ids=[1, 2])
        else:
            client.call("flights_flight_act", ids=[1, 2])

    assert list(LogEntry.objects.using("other").order_by("pk").values_list("object_id", "change_message")) == (
        [] if fails else [("1", "own"), ("2", f"Act: {BY}")]
    )
    assert not LogEntry.objects.using("default").exists()
