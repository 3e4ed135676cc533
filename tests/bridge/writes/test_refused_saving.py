"""What saving a record refuses is told in words that reveal neither hidden fields, nor other rows, nor the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DataError, IntegrityError
from django.db.models import ProtectedError, RestrictedError, UniqueConstraint

from demo_project.flights.models import Airline, Weather
from tests.bridge.writes.conftest import Writer
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

FIELD: dict[str, list[Any]] = {
    "name": ["Too plain."], "phone": ["Is not a number."], "__all__": ["Not today.", "Nor tomorrow."],
}  # fmt: skip
UNIQUE = {"name": ValidationError("Airline with this Name already exists.", code="unique")}
WEATHER = next(one for one in Weather._meta.constraints if isinstance(one, UniqueConstraint))
ABOUT: dict[str, Any] = {"model": "flights.airline", "id": "UA", "values": {"name": "Unity"}}

SAVING = "Saving it is refused. Nothing was changed."
#: What a hook raises → the text of the refusal, with its errors.
REFUSED: list[tuple[Exception, str, list[tuple[str, str]]]] = [
    (ValidationError("Closed on Sundays."), SAVING, [("values", "Closed on Sundays.")]),
    (
        ValidationError(FIELD), SAVING,
        [
            ("values.name", "Too plain."),
            ("values", "it is refused because of a field that only a person can fill in."),
            ("values", "Not today."), ("values", "Nor tomorrow."),
        ],
    ),
    (ValidationError(UNIQUE), SAVING, [("values.name", "this value cannot be used.")]),
    # A constraint of another model, whose name and rows the agent may not know.
    (ValidationError(WEATHER.get_violation_error_message()), SAVING, [("values", "this value cannot be used.")]),
    (PermissionDenied("secret"), "You may not do this. Nothing was changed.", []),
    (
        IntegrityError("UNIQUE constraint failed: hidden.column"),
        "The database refused it: a value that must be unique may be taken, a record that is referred to may be gone, "
        "or a value breaks a rule of the table. Nothing was changed.", [],
    ),
    (DataError("value too long for hidden"), "The database cannot hold one of the values. Nothing was changed.", []),
    (
        ProtectedError("Cannot delete Hidden", set()),
        "Other records refer to what would be deleted, and protect it. Nothing was changed.", [],
    ),
    (
        RestrictedError("Cannot delete Hidden", set()),
        "Other records refer to what would be deleted, and protect it. Nothing was changed.", [],
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def airline(root: Writer) -> Airline:
    return Airline.objects.create(carrier="UA", name="United")


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def told(root: Writer, name: str, **about: Any) -> tuple[str, list[tuple[str, str]]]:
    """The refusal of a confirmed call."""
    token = root.ask(name, **about)["confirm"]
    text = root.refused(name, **about, confirm=token)
    if not text.startswith("{"):
        return text, []
    found = json.loads(text)
    return found["error"], [(one["field"], one["message"]) for one in found["errors"]]


@pytest.mark.parametrize("hook", ["save_model", "save_related", "log_change"])
def test_what_a_hook_of_the_admin_refuses(root: Writer, declared: Declared, hook: str) -> None:
    for error, text, errors in REFUSED:
        declared.admin(Airline, type("Refusing", (admin.ModelAdmin,), {hook: failing(error)}))

        assert told(root, "update_record", **ABOUT) == (text, errors), error
        assert list(Airline.objects.values_list("name", flat=True)) == ["United"]


def test_what_the_model_refuses(root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    declared.admin(Airline, admin.ModelAdmin)
    declared.model(Airline, fields=["carrier", "name"], consent={"delete": "preview"})
    for error, text, errors in REFUSED:
        with monkeypatch.context() as context:
            context.setattr(Airline, "save", failing(error))
            context.setattr(Airline, "delete", failing(error))

            assert told(root, "update_record", **ABOUT) == (text, errors), error
            assert told(root, "delete_record", model="flights.airline", ids=["UA"]) == (text, errors), error
        assert Airline.objects.filter(name="United").exists()


def test_a_preview_that_is_rolled_back_says_it_too(root: Writer, declared: Declared) -> None:
    for error, text, _ in REFUSED:
        declared.admin(Airline, type("Refusing", (admin.ModelAdmin,), {"save_model": failing(error)}))
        declared.model(Airline, fields=["carrier", "name"], preview="rollback")

        assert text in root.refused("update_record", **ABOUT), error
        declared.close()
