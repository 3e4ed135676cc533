"""Fields whose classes convert their values: what an agent reads of them, and what it may ask."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models.fields.related import RelatedField
from django.test import override_settings

from mcp_django import site
from mcp_django.console.review.inventory import build
from tests.shop.models import Parcel, Person, Product, Tag
from tests.support.asking import DirectPeer, columns, described, errors_of, keys, rights_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

KINDS = {"tests.shop.fields.SealedField": "text", "tests.shop.fields.SizeField": "text"}


class ParcelAdmin(admin.ModelAdmin[Any]):
    search_fields = ["code", "seal", "card", "size"]
    ordering = ["seal", "pk"]


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    declared.admin(Parcel, ParcelAdmin)
    declared.admin(Person, admin.ModelAdmin)
    person = Person.objects.create(name="Ann", badge="A1")
    Parcel.objects.create(code="P1", seal="wax", card="47110815", size="7", price="9.50", owner=person)
    Parcel.objects.create(code="P2", seal="tin", card="12345678", size="8", price_currency="USD")
    return DirectPeer(User.objects.create_superuser("root"))


def found(root: DirectPeer, **asked: Any) -> Any:
    return root.call("find_records", model="shop.parcel", **asked)


def refusal(root: DirectPeer, **asked: Any) -> str:
    [error] = errors_of(found(root, **asked))
    return str(error["message"])


def test_the_admins_fields_of_plain_and_known_classes_are_shown(root: DirectPeer) -> None:
    page = found(root)["structuredContent"]

    assert page["columns"] == ["id", "code", "price", "price_currency", "owner"]
    assert [row[1:4] for row in page["rows"]] == [["P1", "9.50", "EUR"], ["P2", None, "USD"]]


def test_a_currency_is_shown_beside_its_amount_unless_it_is_excluded(root: DirectPeer, declared: Declared) -> None:
    declared.model(Parcel, fields=["price"])
    assert columns(root, "shop.parcel") == ["id", "price", "price_currency"]

    declared.close()
    declared.model(Parcel, fields=["price"], exclude=["price_currency"])
    assert columns(root, "shop.parcel") == ["id", "price"]


#: What adds or compares amounts as if they were of one currency.
MIXED: list[dict[str, Any]] = [
    {"measures": ["sum:price"]}, {"measures": ["max:price"]}, {"group_by": ["price"]},
    {"measures": ["sum:price"], "filter": {"price_currency__in": ["EUR", "USD"]}},
    {"measures": ["sum@dear:price"], "conditions": {"dear": {"price__gt": "1"}}},
    {"group_by": ["code"], "having": {"sum:price__gt": "1"}},
]  # fmt: skip


def test_amounts_are_summed_up_of_one_currency_alone(root: DirectPeer) -> None:
    for asked in MIXED:
        [error] = errors_of(root.call("aggregate_records", model="shop.parcel", **asked))
        assert "name price_currency in group_by or in filter" in error["message"], asked

    def rows(**asked: Any) -> Any:
        return root.call("aggregate_records", model="shop.parcel", **asked)["structuredContent"]["rows"]

    assert rows(group_by=["price_currency"], measures=["sum:price"]) == [["EUR", "9.50"], ["USD", None]]
    assert rows(measures=["max:price"], filter={"price_currency": "EUR"}) == [["9.50"]]
    assert rows(measures=["sum@euro:price"], conditions={"euro": {"price_currency": "EUR"}}) == [["9.50"]]
    assert rows(measures=["count:price"]) == [[1]]


def test_a_currency_that_is_not_shown_is_not_named(root: DirectPeer, declared: Declared) -> None:
    declared.model(Parcel, fields=["price"], exclude=["price_currency"])

    for asked in MIXED:
        for error in errors_of(root.call("aggregate_records", model="shop.parcel", **asked)):
            assert "name price_currency" not in error["message"], asked


def test_amounts_are_compared_and_ordered_as_decimals(root: DirectPeer) -> None:
    assert found(root, filter={"price__gte": "9.5"}, order_by=["-price"])["structuredContent"]["rows"][0][2] == "9.50"


# A class that is not known: it may decrypt.


QUERIES: list[dict[str, Any]] = [
    {"fields": ["seal"]}, {"filter": {"seal": "wax"}}, {"filter": {"seal__isnull": True}},
    {"filter": {"seal__startswith": "w"}}, {"order_by": ["seal"]}, {"filter": {"not": {"seal__in": ["wax"]}}},
]  # fmt: skip


def test_a_field_that_may_be_encrypted_is_named_by_no_query(root: DirectPeer) -> None:
    for asked in QUERIES:
        assert "seal" in refusal(root, **asked), asked
    for asked in AGGREGATES:
        [error] = errors_of(root.call("aggregate_records", model="shop.parcel", **asked))
        assert "seal" in error["message"], asked
    for asked in ({"filter": {"parcels__seal": "wax"}}, {"fields": ["parcels__seal"]}):
        assert errors_of(root.call("find_records", model="shop.person", **asked)), asked


AGGREGATES: list[dict[str, Any]] = [
    {"group_by": ["seal"]}, {"measures": ["count_distinct:seal"]}, {"measures": ["min:seal"]},
    {"group_by": ["owner"], "having": {"max:seal": "wax"}},
]  # fmt: skip


def test_a_search_looks_into_no_field_that_may_be_encrypted(root: DirectPeer) -> None:
    assert keys(root, "shop.parcel", search="P1") == [Parcel.objects.get(code="P1").pk]
    assert [keys(root, "shop.parcel", search=word) for word in ("wax", "xaw", "4711", "7")] == [[]] * 4


def test_rows_come_in_no_order_of_a_field_that_may_be_encrypted(root: DirectPeer) -> None:
    with override_settings(MCP={"FIELD_KINDS": KINDS}):
        assert keys(root, "shop.parcel") == sorted(keys(root, "shop.parcel"))
    assert keys(root, "shop.parcel") == sorted(keys(root, "shop.parcel"))


def test_the_inventory_says_why_a_field_is_hidden_and_how_to_show_it(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = build(site)
    why = "is a SealedField, a class that is not known and has its own from_db_value"

    assert found["models"]["shop.parcel"]["hidden"]["seal"] == why
    assert found["admin"]["missing"]["shop.parcel"]["seal"] == (
        f"{why}; name it in extra_fields of a ModelMCP, or its class in MCP['FIELD_KINDS']"
    )
    monkeypatch.setattr(Parcel._meta.get_field("owner"), "get_prep_value", str)
    monkeypatch.setattr("django.db.models.ManyToManyField", type("Other", (), {}))
    with override_settings(MCP={}):  # What is known of classes is looked up anew.
        models = build(site)["models"]
    assert models["shop.parcel"]["hidden"]["owner"] == (
        "is a OwnerKey, a class that is not known and has its own get_prep_value"
    )
    assert models["shop.product"]["hidden"]["tags"] == "is a ManyToManyField, which joins rows in its own way"


# A class whose kind the settings say.


@pytest.fixture
def kinds(root: DirectPeer) -> Any:
    with override_settings(MCP={"FIELD_KINDS": KINDS}):
        yield


def test_a_class_that_the_settings_name_is_shown_as_its_own_values(root: DirectPeer, kinds: None) -> None:
    page = found(root, fields=["seal", "size"])["structuredContent"]

    assert [row[1:] for row in page["rows"]] == [["wax", "size 7"], ["tin", "size 8"]]


COMPARED = [
    ({"seal": "wax"}, ["P1"]), ({"seal__in": ["tin", "zinc"]}, ["P2"]), ({"seal__isnull": True}, []),
    ({"seal": "xaw"}, []), ({"size": "7"}, ["P1"]), ({"size": "size 8"}, ["P2"]), ({"not": {"size": "7"}}, ["P2"]),
]  # fmt: skip


def test_its_values_are_compared_as_a_whole_by_the_class_itself(root: DirectPeer, kinds: None) -> None:
    pages = {str(asked): found(root, filter=asked, fields=["code"])["structuredContent"] for asked, _ in COMPARED}

    assert {asked: [code for _, code in page["rows"]] for asked, page in pages.items()} == {
        str(asked): codes for asked, codes in COMPARED
    }


def test_its_stored_values_are_not_guessed_part_by_part(root: DirectPeer, kinds: None) -> None:
    for lookup in ("startswith", "contains", "icontains", "iexact", "gt", "lte", "range", "regex"):
        assert "Allowed: exact, in, isnull" in refusal(root, filter={f"seal__{lookup}": "x"}), lookup


def test_its_stored_values_are_not_searched_part_by_part(root: DirectPeer, kinds: None, declared: Declared) -> None:
    with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.MaskedField": "text"}}):
        assert found(root, fields=["card"])["structuredContent"]["rows"][0][1] == "*15"
        for word in ("4711", "0815", "15"):
            assert keys(root, "shop.parcel", search=word) == []


def test_its_stored_values_are_not_ordered_nor_grouped(root: DirectPeer, kinds: None) -> None:
    assert "seal" in refusal(root, order_by=["seal"])
    for asked in ({"group_by": ["seal"]}, {"measures": ["max:seal"]}, {"measures": ["count:seal"]}):
        assert root.call("aggregate_records", model="shop.parcel", **asked)["isError"]


def test_a_value_that_the_class_does_not_take_is_an_error_of_the_argument(root: DirectPeer, kinds: None) -> None:
    for value in ("seven", "", "7" * 10_001, 7, ["7"], {"a": 1}):
        [error] = errors_of(found(root, filter={"size": value}))
        assert error["field"] == "filter.size", value


def test_it_is_the_class_that_keeps_a_value_from_being_compared(root: DirectPeer, kinds: None) -> None:
    why = "is a SizeField, a class that may store other values than it shows"
    for asked in ({"filter": {"size__gt": "7"}}, {"order_by": ["size"]}):
        assert why in refusal(root, **asked)
    for asked in ({"measures": ["sum:size"]}, {"group_by": ["size"]}, {"measures": ["avg:diff:size-price"]}):
        assert why in errors_of(root.call("aggregate_records", model="shop.parcel", **asked))[0]["message"]


def test_it_is_described_with_the_lookups_that_it_has(root: DirectPeer, kinds: None) -> None:
    model = described(root, "shop.parcel")

    assert model["fields"]["seal"] == {"type": "text", "lookups": ["exact", "in", "isnull"]}
    assert model["fields"]["price"] == {"type": "decimal", "null": True}
    assert "startswith" in model["lookups"]["text"] and "gte" in model["lookups"]["decimal"]
    assert "lookups" not in model["fields"]["code"]
    assert not {"seal", "size"} & {*model["indexed"], *model["search_fields"]}
    for example in model["examples"]:
        assert not root.call(example["tool"], **example["arguments"])["isError"]
    properties = root.read("db://shop/parcel.schema")["properties"]
    assert (properties["seal"]["type"], properties["code"]["type"]) == (["string", "null"], "string")


def test_a_name_that_says_secret_hides_a_field_of_a_class_that_the_settings_name(
    root: DirectPeer, kinds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.bridge.declared.options.is_secret_field", lambda field: field.name == "seal")

    assert "seal" not in columns(root, "shop.parcel")


def test_many_choices_are_not_listed(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    code: Any = Parcel._meta.get_field("code")
    for count in (100, 101):
        monkeypatch.setattr(code, "choices", [(str(number), f"code {number}") for number in range(count)])
        fields = described(root, "shop.parcel")["fields"]
        assert len(fields["code"].get("choices", ())) == (100 if count == 100 else 0)


def test_a_manager_of_tags_that_says_it_is_many_to_many_is_no_relation(root: DirectPeer, declared: Declared) -> None:
    declared.model(Product, fields=["name", "tags"])
    rights = rights_on(Product, root.user)
    manager = type("TaggableManager", (RelatedField,), {"many_to_many": True})(Tag)
    manager.name = "tags"

    assert rights.shows_relation(Product._meta.get_field("tags"))
    assert not rights.shows_relation(manager)
