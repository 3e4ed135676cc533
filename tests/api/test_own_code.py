"""Views that read a call in their own way take from an agent what they take over HTTP."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.api import own_code
from tests.api.agents import Agent, exposed
from tests.api.project.models import Event

#: Operation → its method, its URL, and what is sent to it; ANNA stands for the key of anna.
CHANGES: dict[str, tuple[str, str, Any]] = {
    "copying.create": ("post", "copying/", {"text": "copied"}),
    "setting.create": ("post", "setting/", {"text": "set"}),
    "merging.create": ("post", "merging/", {"text": "merged"}),
    "several.create": ("post", "several/", [{"text": "one", "owner": "ANNA"}, {"text": "two", "owner": "ANNA"}]),
    "partly.update": ("put", "partly/{pk}/", {"text": "partly"}),
    "otherwise.create": ("post", "otherwise/", {"to": "there"}),
    "by-post.create": ("post", "by-post/", {"text": "posted"}),
    "making.update": ("put", "making/999/", {}),
    "acting-move.move": ("post", "acting/move/", {"to": "there", "when": "2026-05-01"}),
    "acting-module.module": ("post", "acting/module/", {"to": "there"}),
    "acting-attribute.attribute": ("post", "acting/attribute/", {"to": "there"}),
    "acting-several.several": ("delete", "acting/several/", [1, 2]),
    "acting-listed.listed": ("delete", "acting/listed/", {"to": "there"}),
    "taking.create": ("post", "taking/", {"name": "taken", "owner": "ANNA"}),
    "by-type.create": ("post", "by-type/", {"type": "text", "text": "typed", "owner": "ANNA"}),
    "camel.create": ("post", "camel/", {"theText": "camel"}),
    "awaiting.post": ("post", "awaiting/", {"text": "awaited"}),
    "posting.create": ("post", "posting/", {"note": "new", "lines": [{"text": "one"}]}),
    "nested.update": ("put", "nested/1/", {"note": "new", "lines": [{"id": 1, "text": "two words", "words": 2}]}),
}
#: The same of what reads.
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "acting-find.find": ("acting/find/", {"to": "there"}),
    "acting-alias.alias": ("acting/alias/", {"mine": "1", "request": "2"}),
    "by-context.retrieve": ("by-context/{pk}/", {"loud": "1", "only": "text"}),
    "parcel.retrieve": ("parcel/{pk}/", {}),
    "hello.get": ("hello/", {}),
}
_SERVER = ("id", "text")


@pytest.fixture
def own(shop: SimpleNamespace, settings: Any) -> SimpleNamespace:
    """The shop, with the views of ``own_code`` beside its own."""
    settings.ROOT_URLCONF = own_code.__name__
    return shop


def _over_http(user: Any) -> APIClient:
    browser = APIClient(SERVER_NAME="localhost")
    browser.force_login(user)
    return browser


def _of(value: Any, anna: Any) -> Any:
    """The value with the key of anna, where it is meant."""
    if isinstance(value, list):
        return [_of(one, anna) for one in value]
    if isinstance(value, dict):
        return {name: _of(one, anna) for name, one in value.items()}
    return anna.pk if value == "ANNA" else value


def _without_keys(value: Any) -> Any:
    """An answer without the keys of new rows."""
    if isinstance(value, list):
        return [_without_keys(one) for one in value]
    return (
        {name: one for name, one in value.items() if name not in ("id", "made")} if isinstance(value, dict) else value
    )


def _params(operation: str, pk: Any) -> dict[str, Any]:
    by_key = operation.endswith((".retrieve", ".update"))
    return {"pk": {"making.update": 999, "nested.update": 1}.get(operation, pk)} if by_key else {}


def _answered(found: dict[str, Any]) -> Any:
    """What a call has answered, as HTTP has it."""
    if "columns" in found:
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    return found["items"] if "items" in found else found.get("result")


@pytest.mark.parametrize("operation", CHANGES)
def test_what_a_view_takes_over_http_it_takes_from_an_agent(operation: str, own: SimpleNamespace) -> None:
    method, url, sent = CHANGES[operation]
    body, pk = _of(sent, own.anna), own.anna_event.pk
    agent = Agent(exposed(), own.anna, elicit=lambda question: {})

    found = agent.change(operation, params=_params(operation, pk), body=body)
    over_http = getattr(_over_http(own.anna), method)(f"/api/{url.format(pk=pk)}", body, format="json")

    assert over_http.status_code < 300, over_http.content
    assert found["answered"] == over_http.status_code
    assert _without_keys(_answered(found)) == _without_keys(over_http.json())


@pytest.mark.parametrize("operation", READS)
def test_what_a_view_reads_of_a_query_an_agent_may_send(operation: str, own: SimpleNamespace) -> None:
    url, sent = READS[operation]
    pk = own.anna_event.pk

    found = Agent(exposed(), own.anna).get(operation, params={**_params(operation, pk), **sent})

    assert found["result"] == _over_http(own.anna).get(f"/api/{url.format(pk=pk)}", sent).json()


@pytest.mark.parametrize(
    ("operation", "body", "told"),
    [
        ("acting-move.move", {"too": "there"}, "body.too: no field 'too'. Did you mean to?"),
        ("merging.create", {"texd": "x"}, "body.texd: no field 'texd'. Did you mean text?"),
        ("copying.create", {"texd": "x"}, "body.texd: no field 'texd'. Did you mean text?"),
        ("forms-alone.create", {"texd": "x"}, "body.texd: no field 'texd'. Did you mean text?"),
        ("fields-alone.create", {"texd": "x"}, "body.texd: no field 'texd'. Did you mean text?"),
        ("acting-listed.listed", {"too": "there"}, "body.too: no field 'too'. Did you mean to?"),
        ("nested.update", {"lines": [{"words": 3}]}, "body.lines.0.words: no field 'words'."),
    ],
)
def test_a_misspelt_name_is_still_refused(operation: str, body: Any, told: str, own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    assert told in agent.told(operation, tool="change_api", params=_params(operation, 1), body=body)


def test_a_body_is_sent_as_the_parser_of_the_view_reads_it(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    attributes = {"text": "by JSON:API", "owner": own.anna.pk}

    made = agent.change("json-api.create", body={"data": {"type": "event", "attributes": attributes}})
    form = agent.change("posted.post", body={"text": "hi"})
    event = {"text": "by a form", "owner": own.anna.pk}
    alone = [agent.change(f"{name}.create", body=event)["result"] for name in ("forms-alone", "fields-alone")]
    uri = agent.client.upload(b"rawcontent", "a file.txt")
    call = {"params": {"filename": "x.txt"}, "body": {"file": uri}}
    file = agent.change("filed.put", **call)

    assert made["result"]["text"] == "by JSON:API"
    assert form["result"] == {"text": "hi"}
    assert [one["text"] for one in alone] == ["by a form"] * 2
    assert file["result"]["size"] == len(b"rawcontent")


def test_a_file_that_code_alone_reads_is_described_as_one(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    told = agent.client.call("describe_api", operation="uploading.post").structured
    made = agent.change("uploading.post", body={"doc": agent.client.upload(b"1234"), "note": "x"})

    assert told["body"] == {"doc": "file", "note": "any", "…": "any"}
    assert made["result"] == {"size": 4, "note": "x"}


@pytest.mark.parametrize("operation", ["facets.list", "links.list", "links-mine.mine"])
def test_pages_in_an_envelope_of_the_project_show_every_row_once(operation: str, own: SimpleNamespace) -> None:
    Event.objects.bulk_create(Event(owner=own.anna, text=f"event {number}") for number in range(4))
    agent = Agent(exposed(), own.anna)

    pages = list(agent.pages(operation, fields=["id"]))

    mine = Event.objects.filter(owner=own.anna).order_by("pk")
    assert [row for page in pages for row in page["rows"]] == [[one.pk] for one in mine]
    assert [page.get("facets") for page in pages[:1]] == [[{"owner": 1}] if operation == "facets.list" else None]


def test_what_comes_below_a_parent_may_be_added_twice_from_two_plans(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)
    calls: list[dict[str, Any]] = [
        {"params": {"customer": 1}, "body": {"text": text, "owner": own.anna.pk}} for text in ("one", "two")
    ]
    plans = [agent.plan("below.create", **call) for call in calls]

    made = [agent.confirm(plan, **call) for plan, call in zip(plans, calls, strict=True)]

    assert [one.structured["status"] for one in made] == ["applied", "applied"]
    assert [len(plan["notes"]) for plan in plans] == [1, 1]


def test_parts_of_a_path_may_be_optional_or_without_a_name(own: SimpleNamespace) -> None:
    agent = Agent(exposed(tools=["hello.get"]), own.anna)

    told = agent.client.call("describe_api", operation="hello.get").structured
    found = [agent.get("hello.get", params={"name": "ida"}), agent.get("unnamed.get", params={"_0": "ida"})]
    by_its_own = [agent.client.call("hello_get", **given).structured for given in ({}, {"name": "otto"})]

    assert told["params"] == {"name": "string, may be left out"}
    assert [one["result"] for one in found] == [{"hello": "ida"}] * 2
    assert [one["result"] for one in by_its_own] == [{"hello": "you"}, {"hello": "otto"}]
    assert "finds nothing there" in agent.told("unnamed.get", params={"_0": "a/../b"})


def test_the_url_of_a_record_is_described_as_one(own: SimpleNamespace) -> None:
    told = Agent(exposed(), own.anna).client.call("describe_api", operation="paged.list").structured

    assert told["returns"] == {"url": "URL", "text": "string"}


def test_what_is_no_file_is_not_sent_as_one(own: SimpleNamespace) -> None:
    agent, key = Agent(exposed(), own.anna), {"filename": "x.txt"}
    uri = agent.client.upload(b"rawcontent", "a file.txt")

    told = [
        agent.told("filed.put", tool="change_api", params=key, body=body)
        for body in ({"file": "raw"}, {"file": uri, "more": "x"}, ["raw"])
    ]

    assert ["body: is one file here." in one for one in told] == [True] * 3


def test_a_method_that_only_hands_on_is_checked_as_the_standard_one(own: SimpleNamespace) -> None:
    call: dict[str, Any] = {"params": {"pk": own.anna_event.pk}, "body": {"owner": 999_999}}

    assert "owner: Invalid pk" in Agent(exposed(), own.anna).told("handing.partial_update", tool="change_api", **call)


def test_a_description_says_who_gives_fields_other_names(own: SimpleNamespace) -> None:
    told = Agent(exposed(), own.anna).client.call("describe_api", operation="camel.create").structured

    assert told["notes"] == [
        "Its body is read by CamelParser, which may give fields other names.",
        "Its answer is written by CamelRenderer, which may give fields other names.",
    ]


def test_a_version_may_be_given_where_a_class_of_the_project_reads_it(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    totals = [agent.get("versioned.list", params={"version": one})["total"] for one in ("v1", "v2")]

    assert totals == [1, 2]


def test_a_resource_is_described_whose_permission_looks_at_the_path(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    told = agent.client.call("describe_api", resource="by-parent").structured

    assert list(told["operations"]) == ["list"]
    assert agent.get("by-parent.list", params={"customer": own.anna_customer.pk})["rows"]


def test_a_record_that_looks_like_a_page_is_none_and_a_page_in_an_envelope_is_one(own: SimpleNamespace) -> None:
    agent = Agent(exposed(), own.anna)

    listed = agent.get("parcel.list")
    made = agent.change("parcel.create", body={})

    assert listed == {"columns": ["id"], "rows": [[1], [2]], "status": "ok"}
    assert (len(made["rows"]), made["notes"]) == (100, ["The first 100 of 250 are shown."])
    assert "next_cursor" not in made
