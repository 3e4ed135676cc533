"""Aggregates as resources: the URIs that ask for them, and what these may name."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.fields.date_parts import PARTS
from mcp_django.bridge.resources.queries import aggregate_query, followed
from mcp_django.bridge.resources.uris import Target, parse
from mcp_django.conf import get_conf
from tests.bridge.resources.conftest import each, showing
from tests.shop.models import Making, Part, Product, Supplier, Tag
from tests.support.asking import DirectPeer, rights_on
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("flights")]

FLIGHTS = "db://flights/flight"


def wrong(peer: Peer, uri: str) -> list[tuple[str, str]]:
    error = peer.error(MODERN, "resources/read", {"uri": uri})
    assert error["data"]["reason"] == "RESOURCE_NOT_FOUND"
    return [(item["field"], item["message"]) for item in error["data"]["errors"]]


def completed(peer: Peer, template: str, name: str, typed: str, **arguments: str) -> list[str]:
    params = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": name, "value": typed}}
    answer = peer.result(MODERN, "completion/complete", {**params, "context": {"arguments": arguments}})
    values: list[str] = answer["completion"]["values"]
    return values


def template_of(peer: Peer, label: str) -> str:
    """The template of a model's aggregates, as it is listed."""
    listed = peer.result(MODERN, "resources/templates/list")["resourceTemplates"]
    [found] = [item["uriTemplate"] for item in listed if item["name"] == f"{label} aggregate"]
    return str(found)


# Which URIs are aggregates.


URIS = [
    ("group_by=carrier", "aggregate"), ("measures=count", "aggregate"), ("having.count__gte=1", "aggregate"),
    ("origin=JFK&measures", "aggregate"), ("having=x", "aggregate"), ("group%5Fby=carrier", "aggregate"),
    ("group_by__exact=carrier", "collection"), ("havings=1", "collection"), ("measures__in=a,b", "collection"),
    ("", "collection"),
]  # fmt: skip


def test_a_query_that_names_groups_or_measures_is_an_aggregate() -> None:
    targets = {query: parse(f"{FLIGHTS}?{query}") for query, _ in URIS}

    assert {query: target and target.kind for query, target in targets.items()} == dict(URIS)


def test_what_a_uri_asks_is_what_the_arguments_of_the_tool_ask() -> None:
    query = (
        ("group_by", "carrier,departs_at__month"), ("measures", "count,avg:distance"), ("having.count__gte", "2"),
        ("having.max:distance__lt", "9"), ("order_by", "-count,carrier"), ("limit", "5"), ("search", "x"),
        ("origin", "JFK"), ("measures__exact", "1"),
    )  # fmt: skip

    assert aggregate_query(query) == aggregates.AggregateQuery(
        group_by=["carrier", "departs_at__month"], measures=["count", "avg:distance"],
        having={"count__gte": "2", "max:distance__lt": "9"}, order_by=["-count", "carrier"], limit=5, search="x",
        filter={"origin": "JFK", "measures__exact": "1"},
    )  # fmt: skip
    assert aggregate_query((("group_by", "carrier"),)).measures == ("count",)


# What they give.


def test_an_aggregate_is_read_over_a_transport(admin: Peer, flights: Any) -> None:
    uri = f"{FLIGHTS}?group_by=carrier&measures=count,max:departure_delay&origin=JFK&having.count__gte=2"

    assert admin.result(MODERN, "resources/read", {"uri": uri})["contents"] == [{
        "uri": uri, "mimeType": "application/json",
        "text": '{"model":"flights.flight","columns":["carrier","count","max:departure_delay"],'
                '"rows":[["AA",2,4],["UA",2,13]]}',
    }]  # fmt: skip


ALIKE: list[tuple[str, dict[str, Any]]] = [
    ("measures=count,sum:distance", {"measures": ["count", "sum:distance"]}),
    ("group_by=status", {"group_by": ["status"]}),
    ("group_by=origin__name,departs_at__hour&limit=3&order_by=-count",
     {"group_by": ["origin__name", "departs_at__hour"], "limit": 3, "order_by": ["-count"]}),
    ("group_by=origin&measures=avg:departure_delay&having.avg:departure_delay__gte=10&carrier__name__startswith=U",
     {"group_by": ["origin"], "measures": ["avg:departure_delay"], "having": {"avg:departure_delay__gte": 10},
      "filter": {"carrier__name__startswith": "U"}}),
    ("group_by=plane&having.count=4&search=JFK", {"group_by": ["plane"], "having": {"count": 4}, "search": "JFK"}),
]  # fmt: skip


def test_the_resource_is_what_the_tool_answers(root: DirectPeer) -> None:
    for query, arguments in ALIKE:
        table = root.call("aggregate_records", model="flights.flight", **arguments)["structuredContent"]
        read = root.read(f"{FLIGHTS}?{query}")
        assert read.pop("next", "").rpartition("=")[2] == table.pop("next_cursor", "")
        assert read == {"model": "flights.flight", **table}, query


def test_the_next_groups_have_a_uri(root: DirectPeer) -> None:
    first = root.read(f"{FLIGHTS}?group_by=number&measures=count,median:distance&limit=5")
    second = root.read(first["next"])
    third = root.read(second["next"])

    assert first["next"].startswith(f"{FLIGHTS}?group_by=number&measures=count,median:distance&limit=5&cursor=")
    assert [row[0] for page in (first, second, third) for row in page["rows"]] == list(range(1000, 1012))
    assert "next" not in third


def test_measures_of_every_form_are_written_in_a_uri(root: DirectPeer) -> None:
    for measure in ("p90:distance", "avg:diff:distance-departure_delay", "count:plane__seats"):
        asked = f"group_by=distance__bucket_5&measures={measure}&order_by=-{measure}&having.{measure}__gt=0"
        assert root.read(f"{FLIGHTS}?{asked}")["columns"] == ["distance__bucket_5", measure]


# What they must not name.


WRONG = [
    ("group_by=nothing", "group_by", "no field to group by 'nothing'."),
    ("measures=avg:carrier", "measures", "avg takes no keys."),
    ("measures=count&originn=JFK", "originn", "no field 'originn'. Did you mean origin?"),
    ("measures=count&having.count__gte=1", "having", "is a condition on groups: give group_by too."),
    ("group_by=carrier&having.count__gte=many", "having.count__gte", "must be an integer."),
    ("group_by=carrier&order_by=number", "order_by", "no column to order by 'number'."),
    ("group_by=carrier&limit=0", "limit", "must be a positive integer"),
    ("group_by=carrier&group_by=origin", "group_by", "occurs twice in the query; for several values there is __in."),
    ("group_by=carrier&having=count", "having",
     "Write having.count__gte=10. A field of that name is compared by having__exact."),
    ("measures=count&total=true", "total",
     "groups have none: leave it out. A field of that name is compared by total__exact."),
    ("measures=count&cursor=x", "cursor",
     "not a cursor of this query: use next_cursor of the previous page"),
    ("measures=count&conditions=x", "conditions",
     "cannot be written in a URI: aggregate_records takes them. A field of that name is compared by conditions__ex"),
    ("measures=share@late", "measures", "no condition 'late'."),
    ("group_by=carrier&fields=id", "fields",
     "groups have none: leave it out. A field of that name is compared by fields__exact."),
    ("measures=count&any=1", "any", "cannot be written in a URI: aggregate_records takes it in its filter."),
    ("group_by=a,b,c,d,e,f", "group_by", "at most 5."),
    ("measures=" + ",".join("abcdefghijk"), "measures", "at most 10."),
    ("group_by=carrier&order_by=a,b,c,d,e,f", "order_by", "at most 5."),
    ("group_by=carrier&" + "&".join(f"having.count__{n}=1" for n in range(11)), "having", "at most 10."),
]  # fmt: skip


def test_what_is_wrong_is_told_by_the_parameter(root: DirectPeer) -> None:
    found = {query: wrong(root, f"{FLIGHTS}?{query}") for query, *_ in WRONG}

    for query, field, message in WRONG:
        [(name, told)] = found[query]
        assert (name, told[: len(message)]) == (field, message), query


def test_asking_for_groups_of_what_is_hidden(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, showing(lambda every: every.exclude(faa="JFK")))

    assert root.read(f"{FLIGHTS}?group_by=origin__name")["rows"] == [["EWR", 4], ["LGA", 4], [None, 4]]
    hidden = wrong(root, "db://shop/product?measures=count_distinct:api_key")
    assert str(hidden).replace("api_key", "api_kex") == str(
        wrong(root, "db://shop/product?measures=count_distinct:api_kex")
    )
    nobody = DirectPeer(make_staff("nobody"))
    absent = nobody.error(MODERN, "resources/read", {"uri": "db://flights/flighx?measures=count"})
    refused = nobody.error(MODERN, "resources/read", {"uri": "db://flights/flight?measures=count"})
    assert str(refused).replace("flight?", "flighx?") == str(absent)


def test_a_model_that_is_asked_row_by_row_has_no_aggregates(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, each(lambda obj: obj.pk == 1))

    names = [item["name"] for item in root.result(MODERN, "resources/templates/list")["resourceTemplates"]]
    assert "flights.flight query" in names and "flights.flight aggregate" not in names
    assert wrong(root, f"{FLIGHTS}?measures=count")[0][0] == "model"


# Completion.


def test_groups_and_measures_are_completed_as_the_last_of_the_names(root: DirectPeer) -> None:
    template = template_of(root, "flights.flight")

    assert completed(root, template, "group_by", "status,car") == ["status,carrier"]
    assert completed(root, template, "group_by", "departs_at__trunc") == [
        f"departs_at__{part}" for part in PARTS if part.startswith("trunc")
    ]
    assert completed(root, template, "measures", "count,avg:d") == [
        "count,avg:departure_delay", "count,avg:distance",
    ]  # fmt: skip
    assert completed(root, template, "order_by", "", group_by="carrier", measures="count") == [
        "carrier", "-carrier", "count", "-count",
    ]  # fmt: skip
    assert completed(root, template, "order_by", "-") == ["-count"]
    assert completed(root, template, "status", "c") == ["cancelled"]
    assert completed(root, template, "limit", "") == []


def test_each_name_that_is_suggested_can_be_asked(root: DirectPeer) -> None:
    for label in ("flights.flight", "flights.weather"):
        template = template_of(root, label)
        base = template.partition("{")[0]
        for parameter in ("group_by", "measures"):
            for name in completed(root, template, parameter, ""):
                assert root.read(f"{base}?{parameter}={name}")["columns"][0] == name


def test_completion_suggests_nothing_hidden(root: DirectPeer) -> None:
    Product.objects.create(name="lamp")
    template = template_of(root, "shop.product")

    suggested = [*completed(root, template, "group_by", ""), *completed(root, template, "measures", "")]

    assert "name" in suggested and "count" in suggested and "api_key" not in str(suggested)
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))
    assert "carrier" not in completed(viewer, template_of(viewer, "flights.flight"), "group_by", "")


# What they look at.


MODELS: list[tuple[str, dict[str, list[str]]]] = [
    ("origin=JFK&order_by=-number", {}),
    ("carrier__flights__origin__name=x&carrier=UA",
     {"carrier__flights__origin__name": ["airline", "flight", "airport"]}),
    ("fields=id,plane__seats,disruptions&order_by=-carrier__name",
     {"fields": ["plane", "disruption"], "order_by": ["airline"]}),
    ("search=x", {"search": ["airline", "airport", "airport"]}),
    ("group_by=carrier__name,status&measures=max:plane__seats&having.min:origin__altitude__gte=1&order_by=-count",
     {"group_by": ["airline"], "measures": ["plane"], "having": ["airport"]}),
    ("group_by=origin&measures=avg:diff:plane__seats-origin__altitude&order_by=-max:diff:number-destination__altitude",
     {"measures": ["plane", "airport"], "order_by": ["airport"]}),
]  # fmt: skip


def test_the_models_that_a_query_names_are_known(root: DirectPeer) -> None:
    for query, models in MODELS:
        target = parse(f"{FLIGHTS}?{query}")
        assert isinstance(target, Target)
        with override_settings(MCP={"MAX_RELATION_DEPTH": 3}):
            found = followed(rights_on(Flight, root.user), target)
        assert {place: [model._meta.model_name for model in steps] for place, steps in found.items()} == models
    assert get_conf().MAX_RELATION_DEPTH == 2


def test_a_model_between_two_others_is_looked_at_too(root: DirectPeer, declared: Declared) -> None:
    for model in (Part, Supplier):
        declared.model(model, fields=["name", "makers", "tags"] if model is Part else ["name"])
    target = parse("db://shop/part?makers__name=x&tags__count=1")
    assert target is not None

    found = followed(rights_on(Part, root.user), target)

    assert found == {"makers__name": [Making, Supplier], "tags__count": [Tag]}
