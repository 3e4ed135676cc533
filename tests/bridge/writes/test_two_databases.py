"""Rows in another database than that which remembers changes: the two cannot be written in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import OperationalError, connections, transaction
from django.utils import timezone

from mcp_django.bridge.changes import change_rows
from mcp_django.bridge.changes import run as run_module
from mcp_django.bridge.changes.run import Run
from mcp_django.models import Change
from tests.bridge.writes.clicking import Browser
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Product
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import Message

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

UNKNOWN = "Its end is not known. Look at what it was to change before you propose it again."


class Router:
    """The shop has a database of its own."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model._meta.app_label == "shop" else None

    db_for_write = db_for_read

    def allow_relation(self, one: Any, other: Any, **hints: Any) -> bool:
        return True


@pytest.fixture
def saves(declared: Declared, settings: Any, transactional_db: None) -> list[Any]:
    """What the admin of products has saved, whose rows are in the other database."""
    settings.DATABASE_ROUTERS = ["tests.bridge.writes.test_two_databases.Router"]
    found: list[Any] = []

    class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["name", "stock"]

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            found.append(obj.stock)
            super().save_model(request, obj, form, change)

    declared.admin(Product, ProductAdmin)
    return found


@pytest.fixture
def cup(saves: list[Any]) -> Any:
    return Product.objects.create(name="cup", stock=1)


def previewed(agent: Writer, cup: Any, stock: int = 2) -> Message:
    arguments = {"model": "shop.product", "id": str(cup.pk), "values": {"stock": stock}}
    return {**arguments, "confirm": agent.ask("update_record", **arguments)["confirm"]}


def stock(cup: Any) -> int:
    return int(Product.objects.using("other").get(pk=cup.pk).stock)


def let_leases_end() -> None:
    Change.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


class Killed(BaseException):
    """Ends a run as the end of its process does: nothing is settled."""


def end(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[None]]:
    """Kills each run where it calls a function of change_rows, or of another module."""

    @contextmanager
    def kill(name: str, module: Any = change_rows) -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, end)
            patched.setattr(Run, "_settled", lambda *_: None)
            yield

    return kill


def test_a_change_is_made_once(root: Writer, cup: Any, saves: list[Any]) -> None:
    confirmed = previewed(root, cup)

    first = root.ask("update_record", **confirmed)
    again = root.ask("update_record", **confirmed)

    assert (first["status"], stock(cup), saves) == ("applied", 2, [2])
    assert again == {**first, "replayed": True}
    assert connections["default"].settings_dict["NAME"] != connections["other"].settings_dict["NAME"]


def test_a_run_that_was_killed_after_its_commit_is_unknown_and_not_made_again(
    root: Writer, cup: Any, saves: list[Any], kill: Any
) -> None:
    confirmed = previewed(root, cup)
    with kill("mark_applied"), pytest.raises(Killed):
        root.ask("update_record", **confirmed)
    Product.objects.update(stock=7)

    meanwhile = root.ask("update_record", **confirmed)
    let_leases_end()
    again, asked = root.ask("update_record", **confirmed), root.ask("get_change", change=meanwhile["change"])

    assert meanwhile["status"] == "writing"
    assert again == asked
    assert (again["status"], again["notes"]) == ("unknown", [UNKNOWN])
    assert (stock(cup), saves) == (7, [2])


def test_a_run_that_was_killed_before_its_commit_is_unknown_and_not_made_again(
    root: Writer, cup: Any, saves: list[Any], kill: Any
) -> None:
    """It cannot be told from one that was killed after it."""
    confirmed = previewed(root, cup)
    with kill("_lock", run_module), pytest.raises(Killed):
        root.ask("update_record", **confirmed)
    let_leases_end()

    again = root.ask("update_record", **confirmed)

    assert again["status"] == "unknown"
    assert (stock(cup), saves) == (1, [])


def test_a_save_that_fails_leaves_its_token_to_be_used_again(
    root: Writer, cup: Any, saves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed = previewed(root, cup)

    def fail(*_: Any) -> None:
        raise RuntimeError("the line is cut")

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "_lock", fail)
        root.refused("update_record", **confirmed)

    assert Change.objects.count() == 0
    assert root.ask("update_record", **confirmed)["status"] == "applied"


def test_a_callback_that_fails_after_the_commit_does_not_hide_the_change(
    root: Writer, cup: Any, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    class FailingAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["name", "stock"]

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            transaction.on_commit(lambda: 1 / 0, using="other")
            super().save_model(request, obj, form, change)

    declared.admin(Product, FailingAdmin)
    confirmed = previewed(root, cup)

    answer = root.ask("update_record", **confirmed)

    assert (answer["status"], stock(cup)) == ("applied", 2)
    assert root.ask("update_record", **confirmed) == {**answer, "replayed": True}
    assert "ZeroDivisionError" in caplog.text


def test_a_commit_that_fails_is_unknown(
    root: Writer, cup: Any, saves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost: the database may have committed or not."""
    confirmed = previewed(root, cup)
    other = connections["other"]

    def lose_the_answer() -> None:
        other.cursor().execute("COMMIT")
        raise OperationalError("the line is cut")

    with monkeypatch.context() as patched:
        patched.setattr(other, "commit", lose_the_answer)
        answer = root.ask("update_record", **confirmed)

    assert (answer["status"], answer["notes"]) == ("unknown", [UNKNOWN])
    assert root.ask("update_record", **confirmed) == answer
    assert (stock(cup), saves) == (2, [2])


def test_a_click_is_made_in_the_other_database(
    root: Writer, cup: Any, users: Users, declared: Declared, saves: list[Any]
) -> None:
    declared.model(Product, consent={"update": "ask"})
    confirmed = previewed(root, cup)
    waits = root.ask("update_record", **confirmed)

    told = Browser(users.admin).apply(waits["change"])

    assert told == ["The change was made."]
    assert (stock(cup), saves) == (2, [2])
    assert root.ask("get_change", change=waits["change"])["status"] == "applied"


def test_a_click_whose_run_was_killed_is_unknown_and_cannot_be_clicked_again(
    root: Writer, cup: Any, users: Users, declared: Declared, saves: list[Any], kill: Any
) -> None:
    declared.model(Product, consent={"update": "ask"})
    waits, browser = root.ask("update_record", **previewed(root, cup)), Browser(users.admin)
    digest = browser.digest(waits["change"])
    with kill("mark_applied"), pytest.raises(Killed):
        browser.decide(waits["change"], "apply", digest=digest)
    let_leases_end()

    page = browser.page(waits["change"]).content.decode()
    again = root.ask("get_change", change=waits["change"])

    assert 'name="_apply"' not in page
    assert again["status"] == "unknown"
    assert (stock(cup), saves) == (2, [2])


def test_a_preview_that_is_saved_and_rolled_back_leaves_nothing_in_either_database(
    root: Writer, declared: Declared, saves: list[Any], cup: Any
) -> None:
    """The history is in another database than the row."""
    declared.model(Product, preview="rollback")

    root.ask("update_record", model="shop.product", id=str(cup.pk), values={"stock": 2})

    assert (saves, stock(cup), LogEntry.objects.count()) == ([2], 1, 0)
