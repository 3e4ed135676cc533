"""Arguments of any size and shape are refused in words, and what fails within the project leaves nothing behind."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.contrib.admin import ModelAdmin, TabularInline
from django.contrib.admin.models import LogEntry

from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django.exceptions import ToolError
from mcp_django.models import Change
from tests.bridge.writes.conftest import Writer, errors_of
from tests.bridge.writes.hiding import HIDDEN, PartForm
from tests.shop.models import Document, Making, Part, Person, Product, Supplier
from tests.support.declared import Declared

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]

DAY = datetime.datetime(2013, 1, 1)
FAILED = "Nothing was changed. The server's log has the details."


def is_refused(told: str, place: str) -> bool:
    """Whether a call is refused in few words, for the argument at this place or within it."""
    return any(field.startswith(place) for field, _ in errors_of(told)[:1]) and len(told) < 1_500


# Files.


@pytest.fixture
def document(declared: Declared, settings: Any, tmp_path: Path) -> Document:
    settings.MEDIA_ROOT = tmp_path
    form = type("Form", (PartForm,), {"Meta": type("Meta", (), {"model": Document, "fields": ["upload", "owner"]})})
    declared.admin(Document, type("Admin", (ModelAdmin,), {"form": form, "fields": ["upload"]}))
    return Document.objects.create(name="a")


def of_document(upload: Any) -> dict[str, Any]:
    return {"model": "shop.document", "id": "a", "values": {"upload": upload}}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_file_is_stored_as_large_as_may_be(root: Writer, document: Document) -> None:
    root.confirmed("update_record", **of_document({"name": "a.txt", "base64": encoded(b"x" * 16_384)}))

    document.refresh_from_db()
    assert document.upload.read() == b"x" * 16_384


def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    root: Writer, document: Document, tmp_path: Path
) -> None:
    told = root.refused("update_record", **of_document({"name": "a.txt", "base64": "A" * (16_400 * 4 // 3)}))

    assert errors_of(told) == [
        ("values.upload", "is longer than 16,384 bytes: upload it as describe_form says, or name it by its uri.")
    ]
    assert len(told) < 1_000 and not list(tmp_path.iterdir())


PATHS = [
    "../a.txt", "/etc/passwd", "a/b.txt", "..", ".", ".htaccess", "a\\b.txt", "C:\\a.txt", "a\x00.txt", "", "a" * 101,
    "…",
]  # fmt: skip
NO_FILES: list[Any] = [
    "a.txt", 1, True, ["a.txt"], {}, {"name": "a.txt"}, {"base64": "YQ=="}, {"name": 1, "base64": "YQ=="},
    {"name": "a", "base64": None}, {"name": "a", "base64": "YQ==", "path": "/"}, {"name": "a", "base64": "YQ"},
    {"name": "a", "base64": "Y Q=="}, {"name": "a", "base64": "ä"}, {"name": "a", "base64": "data:;base64,YQ=="},
]  # fmt: skip


def test_a_file_with_a_path_for_its_name_and_what_is_no_file_are_refused(
    root: Writer, document: Document, tmp_path: Path
) -> None:
    uploads = [*({"name": name, "base64": encoded(b"x")} for name in PATHS), *NO_FILES]

    told = {str(upload): root.told("update_record", **of_document(upload)) for upload in uploads}

    assert [one for one, text in told.items() if not is_refused(text, "values.upload")] == []
    assert not list(tmp_path.iterdir())


def test_a_file_with_any_other_name_is_stored_in_the_folder_of_its_field(
    root: Writer, document: Document, tmp_path: Path
) -> None:
    names = ["a.txt\r\nX: y", "a\nb.txt", "a b.txt", "ä.txt", "con", "<script>.html", "%2e%2e%2fa"]

    for count, name in enumerate(names, 1):
        root.confirmed("update_record", **of_document({"name": name, "base64": encoded(name.encode())}))
        document.refresh_from_db()
        stored = Path(document.upload.path)
        assert (stored.parent, len(list(tmp_path.iterdir()))) == (tmp_path, count), name
        assert stored.read_bytes() == name.encode() and not set(stored.name) & set("/\n\r<>"), name


def test_another_file_of_the_same_name_is_another_change(root: Writer, document: Document, tmp_path: Path) -> None:
    token = root.ask("update_record", **of_document({"name": "a.txt", "base64": encoded(b"x")}))["confirm"]

    told = root.refused("update_record", **of_document({"name": "a.txt", "base64": encoded(b"y")}), confirm=token)

    assert "This is no token for this call." in told and not list(tmp_path.iterdir())


# Values.

OF_PRODUCT = {"model": "shop.product", "id": "1"}
OF_FLIGHT = {"model": "flights.flight", "id": "1"}
WRONG: dict[str, tuple[str, Any]] = {
    "a null character": ("name", "a\x00b"),
    "a number for a text": ("name", 1),
    "a list for a text": ("name", ["a"]),
    "an object for a text": ("name", {"a": 1}),
    "a text that is too long": ("name", "x" * 51),
    "a text of a megabyte": ("name", "x" * 1_000_000),
    "a huge integer": ("stock", 10**400),
    "an integer beyond its column": ("stock", 2**63),
    "a fraction for an integer": ("stock", 1.5),
    "yes for an integer": ("stock", True),
    "a text for an integer": ("stock", "many"),
    "not a number": ("weight", "nan"),
    "an infinite number": ("price", "Infinity"),
    "a decimal of many digits": ("price", "9" * 100),
    "an exponent": ("price", "1e1000000"),
    "a list for a boolean": ("active", [True]),
    "a text for a boolean": ("active", "yes"),
    "a day that there is not": ("launched", "2013-02-30"),
    "a year that there is not": ("launched", "10000-01-01"),
    "a time that there is not": ("opens", "25:00"),
    "no uuid": ("sku", "x"),
    "a text for links": ("tags", "red"),
    "a list in a list of links": ("tags", [["red"]]),
    "nothing in a list of links": ("tags", [None]),
    "a null character in a key": ("tags", ["\x00"]),
    "a huge key": ("tags", ["x" * 100_000]),
    "an object without members for links": ("tags", {}),
    "an object with others for links": ("tags", {"add": [], "set": []}),
    "an object with a text for links": ("tags", {"add": "red"}),
    "more links than may be": ("tags", [str(number) for number in range(1_001)]),
}


@pytest.fixture
def product() -> Product:
    return Product.objects.create(
        pk=1, name="A", price=1, weight=1, launched=DAY.date(), opens=DAY.time(), lead_time=DAY - DAY, details={"a": 1}
    )


def test_values_that_their_fields_cannot_hold_are_refused(root: Writer, product: Product) -> None:
    before = Product.objects.values().get()

    told = {what: root.told("update_record", **OF_PRODUCT, values=dict([one])) for what, one in WRONG.items()}

    assert [what for what, one in WRONG.items() if not is_refused(told[what], f"values.{one[0]}")] == []
    assert Product.objects.values().get() == before


NO_KEYS = [10**400, 2**63, -1, 1.5, "\x00", "x", "1 OR 1=1", "x" * 100_000, "", [], {}, {"a": 1}, True]


def test_foreign_keys_that_no_row_can_have_are_refused(root: Writer, flights: list[Flight]) -> None:
    about = {"model": "flights.disruption", "values": {"kind": "crew", "severity": "minor"}}

    told = [root.told("create_record", **{**about, "values": {**about["values"], "flight": key}}) for key in NO_KEYS]

    assert [key for key, one in zip(NO_KEYS, told, strict=True) if not is_refused(one, "values.flight")] == []


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


def test_json_that_is_too_deep_is_refused_and_breaks_nothing(root: Writer, product: Product) -> None:
    for name in ("details", "name", "tags", "stock", "no_such_field"):
        arguments = {**OF_PRODUCT, "values": {name: nested(90)}}
        answer = root.request("2026-07-28", "tools/call", {"name": "update_record", "arguments": arguments})

        assert "error" in answer or answer["result"]["isError"] or name == "details", name

    assert Product.objects.get().details == {"a": 1}


def test_values_rows_and_models_that_cannot_be_are_refused(root: Writer, flights: list[Flight]) -> None:
    no_values = [None, [], "status", 1, True, {"": 1}, {"a" * 10_000: 1}, {"status\x00": 1}]
    no_rows = ["makings", 1, True, [{"makings": []}]]
    no_models = ["", "flight", "flights", "flights.", ".flight", "auth.user", "x" * 10_000, "a\x00.b"]
    calls = [
        *(("values", {**OF_FLIGHT, "values": values}) for values in no_values),
        *(("rows", {**OF_FLIGHT, "rows": rows}) for rows in no_rows),
        *(("model", {"model": model, "id": "1", "values": {"status": "delayed"}}) for model in no_models),
    ]

    told = [root.refused("update_record", **arguments) for _, arguments in calls]

    assert [call for call, one in zip(calls, told, strict=True) if call[0] not in one or len(one) > 2_000] == []


def test_a_change_of_nothing_is_refused_with_the_names_of_fields(root: Writer, flights: list[Flight]) -> None:
    for arguments in ({}, {"values": {}}, {"rows": {}}, {"values": {}, "rows": {}}):
        [(place, words)] = errors_of(root.refused("update_record", **OF_FLIGHT, **arguments))

        assert place == "values" and words.startswith("give at least one of carrier, number,")


def test_all_that_is_wrong_is_told_at_once_with_the_field_that_may_be_meant(root: Writer, product: Product) -> None:
    values = {"stock": "x", "launched": "x", "nothing": 1, "stocks": 1, "name": 1}

    words = dict(errors_of(root.refused("update_record", **OF_PRODUCT, values=values)))

    assert list(words) == [f"values.{name}" for name in values]
    assert words["values.stocks"].startswith("no field 'stocks'. Did you mean stock? Allowed: ")


def test_what_the_admin_reads_beside_its_fields_is_sent_by_nobody(
    root: Writer, flights: list[Flight], declared: Declared
) -> None:
    declared.admin(Flight, type("Admin", (ModelAdmin,), {"save_as": True}))
    names = ["_saveasnew", "_popup", "_to_field", "_save", "_continue", "csrfmiddlewaretoken"]

    told = root.refused("update_record", **OF_FLIGHT, values=dict.fromkeys(names, "1"))

    assert [place for place, words in errors_of(told) if "no field" in words] == [f"values.{name}" for name in names]


# Rows of inlines.

OF_PART = {"model": "shop.part", "id": "1"}


@pytest.fixture
def part(declared: Declared) -> Part:
    inline = type("Inline", (TabularInline,), {"model": Making, "extra": 1, "fields": ["maker", "open"]})
    declared.admin(Supplier, ModelAdmin)
    declared.admin(Part, type("Admin", (ModelAdmin,), {"form": PartForm, "fields": ["name"], "inlines": [inline]}))
    part = Part.objects.create(pk=1, name="bolt")
    Making.objects.create(pk=911, part=part, maker=Supplier.objects.create(pk=1, name="Ann"))
    Making.objects.create(pk=912, part=Part.objects.create(pk=2, name="nut"), maker_id=1)
    return part


ROWS: dict[str, tuple[Any, str, str]] = {
    "another inline": ({"lines": [{}]}, "rows.lines", "no inline 'lines'. Allowed: makings."),
    "an object": ({"makings": {"maker": "1"}}, "rows.makings", "must be a list of objects."),
    "a text": ({"makings": "911"}, "rows.makings", "must be a list of objects."),
    "texts": ({"makings": ["911"]}, "rows.makings", "must be a list of objects."),
    "too many": ({"makings": [{"maker": "1"}] * 101}, "rows.makings", "at most 100 rows."),
    "a new row to delete": ({"makings": [{"delete": True}]}, "rows.makings.0.delete", "needs the pk of the row."),
    "a new row with values to delete": (
        {"makings": [{"maker": "1", "delete": True}]}, "rows.makings.0.delete", "needs the pk of the row.",
    ),
    "a word for delete": (
        {"makings": [{"pk": "911", "delete": "no"}]}, "rows.makings.0.delete", "must be true or false.",
    ),
    "a row of another part": (
        {"makings": [{"pk": "912", "delete": True}]},
        "rows.makings.0.pk", "no shop.making of this row with the primary key 912.",
    ),
    "a row that there is not": (
        {"makings": [{"pk": "99"}]}, "rows.makings.0.pk", "no shop.making of this row with the primary key 99.",
    ),
    "a row twice": (
        {"makings": [{"pk": "911", "open": False}, {"pk": 911, "delete": True}]},
        "rows.makings.1.pk", "names a row that was named before.",
    ),
    "a new row that is empty": (
        {"makings": [{}]},
        "rows.makings.0", "equals an empty row of the form, which is not saved. Give at least one value.",
    ),
    "a new row of defaults": (
        {"makings": [{"open": True}]},
        "rows.makings.0", "equals an empty row of the form, which is not saved. Give at least one value.",
    ),
    "a field that there is not": (
        {"makings": [{"pk": "911", "oben": True}]},
        "rows.makings.0.oben", "no field 'oben'. Did you mean open? Allowed: maker, open.",
    ),
    "another parent": (
        {"makings": [{"pk": "911", "part": "2"}]}, "rows.makings.0.part", "no field 'part'. Allowed: maker, open.",
    ),
}  # fmt: skip


def test_rows_that_cannot_be_are_refused(root: Writer, part: Part) -> None:
    about = {**OF_PART, "values": {"name": "x"}}

    told = {what: errors_of(root.told("update_record", **about, rows=rows)) for what, (rows, _, _) in ROWS.items()}

    assert told == {what: [(place, words)] for what, (_, place, words) in ROWS.items()}
    assert list(Making.objects.values_list("pk", "part", "open").order_by("pk")) == [(911, 1, True), (912, 2, True)]


def test_keys_of_rows_that_cannot_be_are_refused(root: Writer, part: Part) -> None:
    rows = [{"makings": [{"pk": key, "open": False}]} for key in NO_KEYS]

    told = [root.told("update_record", **OF_PART, rows=one) for one in rows]

    assert [one for one, text in zip(NO_KEYS, told, strict=True) if not is_refused(text, "rows.makings.0.pk")] == []


def test_no_rows_are_a_change_of_nothing_and_a_hundred_are_added(root: Writer, part: Part) -> None:
    told = root.refused("update_record", **OF_PART, rows={"makings": []})
    root.confirmed("update_record", **OF_PART, rows={"makings": [{"maker": "1"}] * 100})

    assert errors_of(told) == [("values", "give at least one of name.")]
    assert Making.objects.filter(part=1).count() == 101


# What the project's own code refuses, and where it fails.


def admin_with(declared: Declared, model: Any, **hooks: Any) -> None:
    declared.admin(model, type("Admin", (ModelAdmin,), hooks))


def form_that(clean: Any) -> type[forms.BaseModelForm[Any]]:
    return type("Form", (forms.ModelForm,), {"clean": clean})


LATE: dict[str, Any] = {"model": "flights.airline", "id": "UA", "values": {"name": "Delta"}}


def nothing_happened() -> bool:
    return (
        Airline.objects.get(pk="UA").name == "United" and not LogEntry.objects.exists() and not Change.objects.exists()
    )


def test_what_the_form_of_the_project_says_is_told_and_what_it_fails_of_is_not(
    root: Writer, flights: list[Flight], declared: Declared
) -> None:
    def refuse(self: Any) -> Any:
        raise forms.ValidationError("Not on Mondays.")

    def break_down(self: Any) -> Any:
        raise RuntimeError(HIDDEN)

    admin_with(declared, Airline, form=form_that(refuse))
    told = root.refused("update_record", **LATE)
    admin_with(declared, Airline, form=form_that(break_down))
    failed = root.refused("update_record", **LATE)

    assert errors_of(told) == [("values", "Not on Mondays.")]
    assert FAILED in failed and HIDDEN not in failed
    assert nothing_happened()


def save_and_fail(self: Any, request: Any, obj: Any, *args: Any) -> None:
    obj.save()
    raise RuntimeError(HIDDEN)


def fail(self: Any, *args: Any) -> None:
    raise RuntimeError(HIDDEN)


def test_a_hook_that_fails_writes_nothing_and_the_token_can_be_used_again(
    root: Writer, flights: list[Flight], declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = {"save_model": save_and_fail, "response_change": fail, "log_change": fail, "construct_change_message": fail}
    token = root.ask("update_record", **LATE)["confirm"]

    for name, hook in hooks.items():
        caplog.clear()
        admin_with(declared, Airline, **{name: hook})
        told = root.refused("update_record", **LATE, confirm=token)
        assert FAILED in told and HIDDEN not in told, name
        assert HIDDEN in caplog.text and nothing_happened(), name

    admin_with(declared, Airline)
    made = root.ask("update_record", **LATE, confirm=token)
    assert made["status"] == "applied" and "replayed" not in made
    assert Airline.objects.get(pk="UA").name == "Delta"


def test_a_hook_that_refuses_in_words_for_the_agent_writes_nothing(
    root: Writer, flights: list[Flight], declared: Declared
) -> None:
    def save_model(self: Any, request: Any, obj: Any, *args: Any) -> None:
        obj.save()
        raise ToolError("Too late.")

    admin_with(declared, Airline, save_model=save_model)
    token = root.ask("update_record", **LATE)["confirm"]

    told = root.refused("update_record", **LATE, confirm=token)

    assert "Too late." in told
    assert nothing_happened()


def test_a_stored_value_that_is_no_choice_any_more_is_named_as_what_is_stored(
    root: Writer, flights: list[Flight]
) -> None:
    Disruption.objects.create(pk=1, flight_id=1, kind="aliens")

    told = root.refused("update_record", model="flights.disruption", id="1", values={"note": "x"})
    made = root.confirmed("update_record", model="flights.disruption", id="1", values={"note": "x", "kind": "crew"})

    assert errors_of(told) == [
        (
            "values.kind",
            "what is stored is not accepted any more: "
            "Select a valid choice. aliens is not one of the available choices.",
        )
    ]
    assert made["diff"][0] == {"field": "kind", "before": "aliens", "after": "crew"}


def test_a_row_that_cannot_be_stored_leaves_no_change(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refuses what no form has checked."""
    declared.admin(Person, ModelAdmin)
    Person.objects.create(name="Ann", badge="1")
    arguments: dict[str, Any] = {"model": "shop.person", "values": {"name": "Bob", "badge": "1"}}
    monkeypatch.setattr(Person, "validate_unique", lambda self, exclude=None: None)
    token = root.ask("create_record", **arguments)["confirm"]

    told = root.refused("create_record", **arguments, confirm=token)

    assert told.startswith("The database refused it: ") and told.endswith(" Nothing was changed.")
    assert Person.objects.count() == 1 and not Change.objects.exists()
