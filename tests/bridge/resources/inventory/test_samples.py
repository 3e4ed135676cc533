"""Columns whose stored texts look like secrets are named, if somebody asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import ProgrammingError, connection
from django.test.utils import CaptureQueriesContext

from mcp_django import ModelMCP
from mcp_django.console.review import samples
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.inventory.conftest import refused, run
from tests.shop.models import Document, Person, Product, Tag
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

URL = "p://ann:hunter2@db"


@pytest.fixture
def people(db: None, declared: Declared) -> list[Person]:
    declared.model(Person, fields=["name", "badge"], exclude=["visits"])
    made = [Person(name=f"Ann {number}", badge=str(number)) for number in range(3)]
    return Person.objects.bulk_create([*made, Person(name="Bob", badge="4")])


def sampled(*arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("--sample", "--json", *arguments))["samples"]
    return found


def test_a_column_with_a_secret_is_named_with_what_hides_it(declared: Declared, people: list[Person]) -> None:
    Person.objects.filter(name="Bob").update(badge=URL)

    printed = run("--sample")

    start = printed.index("Stored texts that look like secrets")
    assert printed[start:] == (
        "Stored texts that look like secrets (1)\n"
        "  shop.person\n"
        "      badge: 1 of 4 texts may be URLs with a password\n"
        '      to hide: exclude = ["visits", "badge"] in a ModelMCP\n'
    )
    assert sampled() == {
        "rows": 200, "unread": {},
        "models": {"shop.person": {
            "columns": {"badge": {"kinds": ["URLs with a password"], "alike": 1, "texts": 4}},
            "exclude": ["visits", "badge"], "primary_key": None,
        }},
    }  # fmt: skip
    declared.close()
    declared.model(Person, fields=["name", "badge"], exclude=["visits", "badge"])
    assert sampled()["models"] == {}
    assert "No stored text looks like a secret. Up to 200 rows of each model were read." in run("--sample")


def test_no_value_is_printed(declared: Declared, db: None) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    declared.model(Document, fields=["name"])
    declared.model(Product, fields=["name"])
    Document.objects.create(name=token)
    Product.objects.create(name=token)

    printed = [run("--sample", *more) for more in ([], ["--json"])]

    assert "name is the primary key: has_view_permission of a ModelMCP hides the model" in printed[0]
    assert json.loads(printed[1])["samples"]["models"]["shop.document"]["exclude"] == []
    assert not any(token[:12] in text for text in printed)


def test_no_row_is_read_unless_it_is_asked_for(people: list[Person]) -> None:
    table = Person._meta.db_table
    with CaptureQueriesContext(connection) as unasked:
        run()
        run("--json")
    with CaptureQueriesContext(connection) as asked:
        run("--sample")

    assert [query for query in unasked if table in query["sql"]] == []
    assert len([query for query in asked if table in query["sql"]]) == 1
    assert "samples" not in json.loads(run("--json"))


def test_only_so_many_rows_and_characters_are_read(
    people: list[Person], declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "ROWS", 2)
    declared.model(Tag, fields="__all__")
    declared.model(Product, fields=["name", "details"])
    Person.objects.filter(name="Ann 0").update(badge=URL)

    assert sampled()["models"] == {}
    Person.objects.filter(name="Bob").update(badge="p://bob:hunter2@db")
    monkeypatch.setattr(samples, "_CHARS", 10)
    assert sampled()["models"] == {}
    monkeypatch.setattr(samples, "_CHARS", 50)
    assert sampled()["models"]["shop.person"]["columns"]["badge"]["texts"] == 2


def test_rows_that_agents_do_not_see_are_read_too(declared: Declared, db: None) -> None:
    declared.model(Person, showing(lambda every: every.none(), fields=("name", "badge")))
    Person.objects.create(name="Bob", badge=URL)

    assert list(sampled()["models"]) == ["shop.person"]


def test_the_columns_are_those_that_the_user_reaches(declared: Declared, viewer: User, people: list[Person]) -> None:
    Person.objects.filter(name="Bob").update(badge=URL)

    assert sampled("--user", "vera")["models"] == {}
    assert list(sampled()["models"]) == ["shop.person"]


def test_choices_keys_of_other_rows_and_hidden_columns_are_not_read(declared: Declared, db: None) -> None:
    class ProductMCP(ModelMCP):
        fields = "__all__"

    declared.model(Product, ProductMCP)
    with CaptureQueriesContext(connection) as asked:
        sampled()

    statements = [query["sql"] for query in asked if Product._meta.db_table in query["sql"]]
    assert statements and not any("api_key" in one or "sku" in one for one in statements)


def test_a_table_that_is_not_there_is_told(
    declared: Declared, people: list[Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise ProgrammingError("no such table: shop_person")

    monkeypatch.setattr(samples, "fetch_values", fail)

    assert sampled()["unread"]["shop.person"] == "ProgrammingError"
    assert "Rows that could not be read" in run("--sample")


def test_the_progress_is_shown_at_a_terminal(people: list[Person], capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal:
        def __init__(self) -> None:
            self.text = ""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None: ...

    terminal = Terminal()
    call_command("mcp_inventory", "--sample", stdout=Terminal(), stderr=terminal)

    assert "models: shop.person" in terminal.text and terminal.text.endswith("\r\x1b[K")


def test_what_a_sample_does_not_go_with() -> None:
    for name, given in (("why", ["shop.person"]), ("lock", ["x"]), ("compare-admin", [])):
        assert refused("--sample", f"--{name}", *given) == f"--sample does not go with --{name}."
