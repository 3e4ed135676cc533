"""The model that a generic foreign key points to, and the relation back from a row to what is about it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext
from rest_framework import serializers

from mcp_django import site
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.reading.schema import describe_model, record_schema
from mcp_django.console.review import inventory
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.relations.conftest import Admin, filtered, keys, read, refusal
from tests.shop.models import Aisle, Crate, Pallet, Part, Remark, SparePallet, Stamp, Unwatched
from tests.support.asking import DirectPeer, rights_on
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

CRATE = uuid.UUID("12345678-1234-4234-8234-123456789abc")


class RemarkAdmin(Admin):  # type: ignore[misc]
    list_display = ["text", "kind", "key"]
    fields = ["text", "kind", "key"]


def about(row: Any) -> tuple[ContentType, str]:
    return ContentType.objects.get_for_model(row), str(row.pk)


@pytest.fixture
def remarks(declared: Declared, root: User) -> None:
    """On a part, a crate, an aisle whose key is that of the part, what nobody shows, and nothing."""
    for model in (Part, Crate, Aisle):
        declared.model(model, fields="__all__")
    declared.admin(Remark, RemarkAdmin)
    rows = [Part(id=7, name="bolt"), Crate(id=CRATE), Aisle(name="7"), Unwatched(id=7, name="x")]
    for number, row in enumerate(rows, 1):
        row.save()
        kind, key = about(row)
        Remark.objects.create(id=number, text=f"remark {number}", kind=kind, key=key)
    Remark.objects.create(id=5, text="remark 5")
    Part.objects.create(id=8, name="nut")


# The content type.


def test_the_model_of_a_generic_key_is_read_as_its_label(root: User, remarks: None) -> None:
    assert read(Remark, root, "kind", "key") == [
        [1, "shop.part", "7"], [2, "shop.crate", str(CRATE)], [3, "shop.aisle", "7"], [4, None, "7"], [5, None, ""],
    ]  # fmt: skip
    assert DirectPeer(root).read("db://shop/remark/2") == {
        "id": 2, "text": "remark 2", "kind": "shop.crate", "key": str(CRATE),
    }  # fmt: skip


LABELS = [
    ({"kind": "shop.part"}, [1]),
    ({"kind": "Shop.Part"}, [1]),
    ({"kind__in": ["shop.part", "shop.crate", "no.such"]}, [1, 2]),
    ({"kind__in": "shop.part,shop.aisle"}, [1, 3]),
    ({"kind": "shop.part", "key": "7"}, [1]),
    ({"kind": None}, [4, 5]),
    ({"kind__isnull": False}, [1, 2, 3]),
    ({"not": {"kind": "shop.part"}}, [2, 3, 4, 5]),
    ({"kind": "no.such"}, []),
    ({"kind": "shop.unwatched"}, []),
    ({"kind": ""}, []),
]  # fmt: skip


def test_the_model_of_a_generic_key_is_compared_by_its_label(root: User, remarks: None) -> None:
    assert {str(condition): filtered(Remark, root, condition) for condition, _ in LABELS} == {
        str(condition): found for condition, found in LABELS
    }


def test_finding_out_which_rows_point_to_a_hidden_model(remarks: None) -> None:
    """It reads as null, and every question about it is answered as one about a model that does not exist."""
    clerk = make_staff("clerk", "shop.view_remark", "shop.view_aisle", "shop.view_part")

    assert [row[1] for row in read(Remark, clerk, "kind")] == ["shop.part", None, "shop.aisle", None, None]
    for label in ("shop.crate", "shop.unwatched", "no.such"):
        for condition in ({"kind": label}, {"kind__in": [label]}):
            assert filtered(Remark, clerk, condition) == []
            assert filtered(Remark, clerk, {"not": condition}) == [1, 2, 3, 4, 5]
    assert refusal(Remark, clerk, order_by=["kind"]).startswith("no field to order by 'kind'.")
    assert refusal(Remark, clerk, filter={"kind__gt": "shop.b"}).startswith("no lookup of kind 'gt'.")
    assert refusal(Remark, clerk, filter={"kind_id": 1}).startswith("no field 'kind_id'.")
    assert refusal(Remark, clerk, filter={"kind__model": "crate"}).startswith("no lookup of kind 'model'.")
    query = aggregates.AggregateQuery(group_by=["kind"], measures=["count", "count:kind", "count_distinct:kind"])
    assert aggregates.aggregate(rights_on(Remark, clerk), query).rows == [
        ["shop.aisle", 1, 1, 1], ["shop.part", 1, 1, 1], [None, 3, 0, 0],
    ]  # fmt: skip
    with pytest.raises(InvalidQuery):
        aggregates.aggregate(rights_on(Remark, clerk), aggregates.AggregateQuery(measures=["min:kind"]))


def test_searching_for_the_model_of_a_generic_key(root: User, remarks: None, declared: Declared) -> None:
    declared.close()
    declared.model(Remark, fields="__all__", search_fields=["kind", "kind__model", "=kind__app_label"])

    assert refusal(Remark, root, search="unwatched") == "shop.remark has no search fields. Use filter."


def test_the_key_of_a_content_type_by_a_serializer(root: User, remarks: None, declared: Declared) -> None:
    class RemarkSerializer(serializers.ModelSerializer[Any]):
        kind_id = serializers.IntegerField()
        model = serializers.CharField(source="kind.model")
        shown = serializers.StringRelatedField[Any](source="kind")

        class Meta:
            model = Remark
            fields = ["id", "text", "kind", "kind_id", "model", "shown"]

    declared.model(Remark, serializer_class=RemarkSerializer)

    assert DirectPeer(root).read("db://shop/remark/4") == {"id": 4, "text": "remark 4"}


def test_the_model_of_a_generic_key_through_a_relation(root: User, remarks: None, declared: Declared) -> None:
    assert read(Part, root, "remarks__kind") == [[7, ["shop.part"]], [8, []]]
    assert filtered(Part, root, {"remarks__kind": "shop.part"}) == [7]
    assert filtered(Part, root, {"remarks__kind": "shop.crate"}) == []


def test_the_model_of_a_generic_key_through_a_row_that_is_hidden(root: User, remarks: None, declared: Declared) -> None:
    declared.model(Stamp, fields=["remark"])
    declared.model(Remark, showing(lambda every: every.exclude(pk=2), fields=["text", "kind", "key"]))
    kind = ContentType.objects.get_for_model(Stamp)
    for number in range(1, 6):
        Stamp.objects.create(id=number, kind=kind, number=1, remark_id=number)

    kinds = ["shop.part", None, "shop.aisle", None, None]
    assert [row[1] for row in read(Stamp, root, "remark__kind")] == kinds
    assert filtered(Stamp, root, {"remark__kind__in": ["shop.part", "shop.crate"]}) == [1]
    assert filtered(Stamp, root, {"remark__kind": None}) == [2, 4, 5]
    assert refusal(Stamp, root, order_by=["remark__kind"]).startswith("no field to order by")
    query = aggregates.AggregateQuery(group_by=["remark__kind"])
    assert aggregates.aggregate(rights_on(Stamp, root), query).rows == [
        ["shop.aisle", 1], ["shop.part", 1], [None, 3],
    ]  # fmt: skip


def test_the_model_of_a_generic_key_is_described(root: User, remarks: None) -> None:
    rights = rights_on(Remark, root)
    described = describe_model(rights)

    assert described["fields"]["kind"] == {"type": "content type", "null": True}
    assert described["lookups"]["content type"] == ["exact", "in", "isnull"]
    assert record_schema(rights)["properties"]["kind"] == {
        "type": ["string", "null"], "description": "A model, as app.model.",
    }  # fmt: skip
    assert inventory.build(site)["models"]["shop.remark"]["fields"]["kind"] == {"type": "content type"}


def test_labels_of_visible_models_complete_a_condition(root: User, remarks: None, declared: Declared) -> None:
    peer = DirectPeer(root)
    [uri] = [
        one["uriTemplate"] for one in peer.result(MODERN, "resources/templates/list")["resourceTemplates"]
        if one["name"] == "shop.remark query"
    ]  # fmt: skip
    asked = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "kind", "value": "shop."}}

    labels = peer.result(MODERN, "completion/complete", asked)["completion"]["values"]
    assert {"shop.aisle", "shop.crate", "shop.part", "shop.remark"} < set(labels)
    assert "shop.unwatched" not in labels


def test_a_content_type_that_is_a_row_of_its_own_stays_a_key(root: User, remarks: None, declared: Declared) -> None:
    declared.model(ContentType, fields=["app_label", "model"])
    part = ContentType.objects.get_for_model(Part)

    assert read(Remark, root, "kind", "kind__model")[0] == [1, part.pk, "part"]
    assert keys(Part, root, filter={"remarks__text": "remark 1"}) == [7]


def test_a_relation_by_a_content_type_whose_row_is_hidden(root: User, remarks: None, declared: Declared) -> None:
    declared.model(ContentType, showing(lambda every: every.exclude(model="part"), fields=["app_label", "model"]))

    assert read(Remark, root, "kind__model")[:3] == [[1, None], [2, "crate"], [3, "aisle"]]
    assert read(Part, root, "remarks", "remarks__count") == [[7, [], 0], [8, [], 0]]


def test_content_types_take_no_question_of_their_own(root: User, remarks: None) -> None:
    with CaptureQueriesContext(connection) as asked:
        read(Remark, root, "kind", "key")

    assert len([query for query in asked.captured_queries if "shop_remark" in query["sql"]]) == 1
    assert len(asked.captured_queries) <= 3, asked.captured_queries


# The relation back.


def test_what_is_about_a_row_is_a_relation_of_it(root: User, remarks: None) -> None:
    assert read(Part, root, "remarks__text", "remarks__count") == [[7, ["remark 1"], 1], [8, [], 0]]
    assert read(Part, root, "remarks") == [[7, [1]], [8, []]]
    assert read(Crate, root, "remarks", "remarks__count") == [[str(CRATE), [2], 1]]
    assert read(Aisle, root, "remarks", "remarks__count") == [["7", [3], 1]]


ABOUT: list[tuple[Any, dict[str, Any], list[Any]]] = [
    (Part, {"remarks": {"text": "remark 1"}}, [7]),
    (Part, {"remarks__text": "remark 3"}, []),
    (Part, {"remarks__count": 1}, [7]),
    (Part, {"remarks__count": 0}, [8]),
    (Part, {"remarks__isnull": True}, [8]),
    (Crate, {"remarks__text": "remark 2"}, [str(CRATE)]),
    (Crate, {"remarks__count__gte": 1}, [str(CRATE)]),
    (Crate, {"remarks__isnull": True}, []),
    (Aisle, {"remarks__text": "remark 3"}, ["7"]),
    (Aisle, {"remarks__text": "remark 1"}, []),
]  # fmt: skip


def test_a_condition_on_what_is_about_a_row(root: User, remarks: None) -> None:
    for model, condition, found in ABOUT:
        assert filtered(model, root, condition) == found, (model, condition)


def test_a_number_in_text_is_the_whole_key(root: User, remarks: None) -> None:
    kind = ContentType.objects.get_for_model(Part)
    for number, key in enumerate(("70", "07", " 7", "7.0", "+7"), 10):
        Remark.objects.create(id=number, text="x", kind=kind, key=key)

    assert read(Part, root, "remarks", "remarks__count") == [[7, [1], 1], [8, [], 0]]


def test_hidden_rows_about_a_row(root: User, remarks: None, declared: Declared) -> None:
    declared.model(Remark, showing(lambda every: every.exclude(pk=1), fields=["text", "kind", "key"]))
    Remark.objects.create(id=9, text="remark 9", kind=ContentType.objects.get_for_model(Part), key="7")

    assert read(Part, root, "remarks", "remarks__count") == [[7, [9], 1], [8, [], 0]]
    assert filtered(Part, root, {"remarks__text": "remark 1"}) == []
    assert filtered(Part, root, {"not": {"remarks__text": "remark 9"}}) == [8]


class OneByOne(RemarkAdmin):
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None or obj.pk > 0


def test_a_relation_is_hidden_with_its_columns_by_an_option_or_by_a_permission_on_each_row(
    root: User, remarks: None, declared: Declared
) -> None:
    for shown in (["text"], ["text", "kind"], ["text", "key"]):
        declared.close()
        declared.model(Part, fields="__all__")
        declared.model(Remark, fields=shown)
        assert refusal(Part, root, filter={"remarks__text": "remark 1"}).startswith("no field 'remarks'."), shown
        assert "remarks" not in rights_on(Part, root).relations, shown
    for admin_class, options in ((OneByOne, {}), (RemarkAdmin, {"exclude": ["remarks"]})):
        declared.close()
        declared.admin(Remark, admin_class)
        declared.model(Part, fields="__all__", **options)
        assert "remarks" not in rights_on(Part, root).relations, admin_class


def test_a_relation_is_a_group_of_the_other_model(root: User, remarks: None) -> None:
    with pytest.raises(InvalidQuery) as raised:
        aggregates.aggregate(rights_on(Part, root), aggregates.AggregateQuery(group_by=["remarks__text"]))

    [error] = raised.value.errors
    assert error["message"] == (
        "remarks leads to many rows of shop.remark, so that a row would count more than once. "
        "Ask shop.remark itself, grouped by key, with kind in the filter."
    )


def test_a_relation_in_a_serializer_lists_visible_rows(root: User, remarks: None, declared: Declared) -> None:
    class CrateSerializer(serializers.ModelSerializer[Any]):
        remarks = serializers.StringRelatedField[Any](many=True)

        class Meta:
            model = Crate
            fields = ["id", "remarks"]

    declared.close()
    declared.model(Crate, fields="__all__", serializer_class=CrateSerializer)
    peer = DirectPeer(root)
    uri = f"db://shop/crate/{CRATE}"
    assert peer.read(uri) == {"id": str(CRATE)}

    declared.admin(Remark, RemarkAdmin)
    assert peer.read(uri) == {"id": str(CRATE), "remarks": ["2"]}


def test_keys_that_cannot_be_compared_make_no_relation(root: User, remarks: None, declared: Declared) -> None:
    declared.model(Stamp, fields="__all__")

    assert list(rights_on(Crate, root).relations) == ["remarks"]


# Proxies.


@pytest.fixture
def pallets(declared: Declared, root: User) -> None:
    """A pallet with a remark, and with a stamp of its own and one of its proxy."""
    declared.model(Stamp, fields="__all__")
    declared.admin(Remark, RemarkAdmin)
    pallet = Pallet.objects.create(id=1, name="euro")
    Remark.objects.create(id=1, text="x", kind=ContentType.objects.get_for_model(Pallet), key="1")
    Stamp.objects.create(id=1, about=pallet)
    Stamp.objects.create(id=2, about=SparePallet.objects.get(pk=1))


def test_a_proxy_has_relations_of_its_own(root: User, pallets: None, declared: Declared) -> None:
    declared.model(Pallet, fields="__all__")
    declared.model(SparePallet, fields="__all__")

    assert read(Pallet, root, "remarks", "stamps") == [[1, [1], [1]]]
    assert read(SparePallet, root, "remarks", "stamps") == [[1, [1], [2]]]
    assert read(Stamp, root, "kind", "about") == [
        [1, "shop.pallet", "db://shop/pallet/1"], [2, "shop.sparepallet", "db://shop/sparepallet/1"],
    ]  # fmt: skip


def test_the_model_behind_a_proxy_by_a_relation_of_the_proxy(root: User, pallets: None, declared: Declared) -> None:
    """Rows about a proxy carry the type of its model, which is not shown here."""
    declared.model(SparePallet, fields="__all__")

    assert list(rights_on(SparePallet, root).relations) == ["stamps"]
    assert read(SparePallet, root, "stamps") == [[1, [2]]]
    assert read(Remark, root, "kind") == [[1, None]]
    assert read(Stamp, root, "kind") == [[1, None], [2, "shop.sparepallet"]]
