"""Resource templates: those that a project declares, and the queries of models."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist, PermissionDenied
from django.http import Http404, HttpRequest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Flight
from mcp_django import MCPSite, resource
from mcp_django.bridge.resources import queries
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.resources.reading import templates
from mcp_django.exceptions import ToolError
from tests.shop.models import Product, Tag
from tests.support.asking import DirectPeer, rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.examples import examples
from tests.support.peers import LEGACY, MODERN, REVISIONS, Peer

pytestmark = pytest.mark.every_database


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


def echo(request: HttpRequest, **values: str) -> Any:
    """Says what it was given."""
    return values


def template(uri: str, function: Any = echo, **options: Any) -> FunctionTemplate:
    return FunctionTemplate(uri, "echo", function, **options)


def read(peer: Peer, uri: str, revision: str = MODERN) -> Any:
    [contents] = peer.result(revision, "resources/read", {"uri": uri})["contents"]
    return contents


def is_absent(peer: Peer, uri: str, revision: str = MODERN) -> bool:
    error = peer.error(revision, "resources/read", {"uri": uri})
    assert error["data"]["reason"] in ("RESOURCE_NOT_FOUND", "INTERNAL_ERROR")
    return bool(error["data"]["reason"] == "RESOURCE_NOT_FOUND")


# Declared ones.


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_template_is_listed_and_its_resources_are_read(admin: Peer, declared: Declared, revision: str) -> None:
    def order(request: HttpRequest, number: str) -> dict[str, str]:
        """An order by its number.

        And more.
        """
        return {"number": number, "user": request.user.get_username()}

    declared.resource("shop://order/{number}.json", order, title="Order", mime_type="application/json")
    found = admin.result(revision, "resources/templates/list")["resourceTemplates"]
    [listed] = [item for item in found if item["uriTemplate"].startswith("shop:")]
    contents = read(admin, "shop://order/A%2F1.json", revision)

    title = {"title": "Order"} if revision >= "2025-06-18" else {}
    assert listed == {
        "uriTemplate": "shop://order/{number}.json", "name": "order", "description": "An order by its number.",
        "mimeType": "application/json", **title,
    }  # fmt: skip
    assert contents == {
        "uri": "shop://order/A%2F1.json", "mimeType": "application/json",
        "text": '{"number":"A/1","user":"admin"}',
    }  # fmt: skip
    assert "shop://order" not in json.dumps(admin.result(revision, "resources/list"))
    assert is_absent(admin, "shop://order/", revision) and is_absent(admin, "shop://order/A1", revision)


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_a_resource_of_a_template_is_watched(admin: Peer, declared: Declared, revision: str) -> None:
    declared.resource("shop://order/{number}", echo, watch=True)

    watching = admin.watch(revision, ["shop://order/1"])

    assert watching.honoured in (None, {"resourceSubscriptions": ["shop://order/1"]})
    if revision == MODERN:
        assert admin.watch(revision, ["shop://order/", "shop://other/1"]).honoured == {}
    else:
        error = admin.error(revision, "resources/subscribe", {"uri": "shop://order/"})
        assert error["data"]["reason"] == "RESOURCE_NOT_FOUND"


def test_watching_what_needs_a_permission(viewer: Peer, declared: Declared) -> None:
    declared.resource("shop://order/{number}", echo, permission="shop.view_product")

    assert viewer.watch(MODERN, ["shop://order/1"]).honoured == {}


def test_the_template_of_the_demo(ops: Peer, flights: Any) -> None:
    board = read(ops, "flights://board/JFK/2013-01-01")["text"].splitlines()

    assert board[0] == "05:00 UA 1000 to IAH, on time"
    assert read(ops, "flights://board/EWR/2013-01-01")["text"] == ""  # Nobody shows them these flights.
    assert is_absent(ops, "flights://board/XXX/2013-01-01") and is_absent(ops, "flights://board/JFK/yesterday")


# What the function is given.


MATCHED = [
    ("a://{x}", "a://1", {"x": "1"}),
    ("a://{x}/{y}", "a://1/2", {"x": "1", "y": "2"}),
    ("a:{x}", "a:1", {"x": "1"}),
    ("a://b/{x}-to,{y}", "a://b/1-to-to,2", {"x": "1-to", "y": "2"}),
    ("a://b?q={x}&page={y}", "a://b?q=1&page=2", {"x": "1", "y": "2"}),
    ("a://{x}", "a://%2541", {"x": "%41"}),
    ("a://{x}", "a://a%2Fb%3Fc%23d", {"x": "a/b?c#d"}),
    ("a://{x}", "a://1+1", {"x": "1+1"}),
    ("a://{x}", "a://ann@example.com:80", {"x": "ann@example.com:80"}),
    ("a://{x}", "a://gr%C3%B6%C3%9Fe", {"x": "größe"}),
    ("a://{x}", "a://größe", {"x": "größe"}),
    ("a://{x}", "a://...", {"x": "..."}),
    ("a://{x}/{y}", "a://1", None),
    ("a://{x}", "a://1/2", None),
    ("a://{x}", "a://1?y=2", None),
    ("a://{x}", "a://1#2", None),
    ("a://{x}", "a://", None),
    ("a://{x}", "A://1", None),
    ("a://{x}", "a://1\n", {"x": "1\n"}),
    ("a://{x}", "xa://1", None),
    ("a://{x}/b", "a://1/bc", None),
    ("a://b.c/{x}", "a://bxc/1", None),
    ("a://{x},{y}", "a://1,2,3", None),
    ("a://{x}", "a://{x}", None),
    ("a://{x}", "a://%", {"x": "%"}),
]  # fmt: skip


def test_a_uri_is_matched() -> None:
    found = {(pattern, uri): template(pattern).match(uri) for pattern, uri, _ in MATCHED}

    assert found == {(pattern, uri): values for pattern, uri, values in MATCHED}


@settings(max_examples=examples(300))
@given(st.text(min_size=1), st.text(min_size=1))
def test_any_value_is_given_as_it_was_encoded(first: str, second: str) -> None:
    try:
        uri = f"a://b/{quote(first, safe='')}/c;{quote(second, safe='')}"
    except UnicodeEncodeError:
        return
    expected = {"x": first, "y": second}
    refused = {".", ".."} & {first, second} or "\x00" in first + second

    assert template("a://b/{x}/c;{y}").match(uri) == (None if refused else expected)


# Attacks.


def test_a_value_that_no_key_has(root: DirectPeer, declared: Declared) -> None:
    def fail(request: HttpRequest, x: str) -> str:
        """Fail."""
        raise AssertionError("was called")

    declared.resource("shop://file/{x}", fail)

    for value in ("..", ".", "%2E%2E", "%2e.", "%00", "a%00b", "%FF", "%ED%A0%80", "%C0%AE%C0%AE"):
        assert is_absent(root, f"shop://file/{value}"), value


def test_leaving_the_folder_of_a_file() -> None:
    values = ("..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a%5C..%5Cb", "a%2F..", "..\\x")

    assert [template("file:///srv/{name}").match(f"file:///srv/{value}") for value in values] == [None] * 5
    assert template("file:///srv/{name}").match("file:///srv/report.txt") == {"name": "report.txt"}


def test_a_template_without_its_permission_does_not_exist(root: DirectPeer, declared: Declared) -> None:
    declared.resource("shop://secret/{x}", echo, permission="shop.view_product")
    nobody = DirectPeer(make_staff("nobody"))

    hidden = nobody.error(MODERN, "resources/read", {"uri": "shop://secret/1"})
    absent = nobody.error(MODERN, "resources/read", {"uri": "shop://sxcret/1"})

    assert str(hidden).replace("secret", "sxcret") == str(absent)
    assert "shop://secret" not in str(nobody.result(MODERN, "resources/templates/list"))
    assert read(root, "shop://secret/1")["text"] == '{"x":"1"}'
    assert is_absent(DirectPeer(root.user, "actions"), "shop://secret/1")


def test_characters_beyond_ascii_are_found_however_they_are_written(root: DirectPeer, declared: Declared) -> None:
    written = {
        "shop://größe": ["shop://größe", "shop://gr%C3%B6%C3%9Fe", "shop://gr%c3%b6%C3%9Fe", "shop://grö%C3%9Fe"],
        "shop://caf%C3%A9": ["shop://caf%C3%A9", "shop://café"],
        "shop://straße/{name}": ["shop://straße/ä", "shop://stra%C3%9Fe/%C3%A4", "shop://stra%C3%9fe/ä"],
    }
    declared.resource("shop://größe", lambda request: "size")
    declared.resource("shop://caf%C3%A9", lambda request: "café")
    declared.resource("shop://straße/{name}", lambda request, name: name)

    found = {uri: [text_in(root, one) for one in others] for uri, others in written.items()}

    assert found == {
        "shop://größe": ["size"] * 4, "shop://caf%C3%A9": ["café"] * 2, "shop://straße/{name}": ["ä"] * 3,
    }  # fmt: skip
    for uri in ("shop://gr%C3%B6sse", "shop://gr%C3%B6%C3%9F%65", "shop://gr%FF%C3%9Fe"):
        assert root.error(MODERN, "resources/read", {"uri": uri})


def text_in(peer: DirectPeer, uri: str) -> str:
    text: str = peer.result(MODERN, "resources/read", {"uri": uri})["contents"][0]["text"]
    return text


def test_a_uri_longer_than_any_is(root: DirectPeer, declared: Declared) -> None:
    declared.resource("shop://order/{x}", echo)

    assert read(root, "shop://order/" + "x" * 3_987)["text"]
    assert is_absent(root, "shop://order/" + "x" * 3_988)


# What the function gives.


def test_the_resource_is_what_the_function_returns(root: DirectPeer, declared: Declared) -> None:
    async def later(request: HttpRequest, x: str) -> Any:
        """Later."""
        return values[int(x)][0]

    values: list[tuple[Any, dict[str, str]]] = [
        ("text", {"text": "text"}), (b"\x00\xff", {"blob": "AP8="}), ({"a": [1, None]}, {"text": '{"a":[1,null]}'}),
        ("", {"text": ""}), ([], {"text": "[]"}),
    ]  # fmt: skip
    declared.resource("shop://x/{x}", lambda request, x: values[int(x)][0], mime_type="x/y", name="x")
    declared.resource("shop://y/{x}", later, mime_type="x/y", name="y")

    for number, (_, written) in enumerate(values):
        for uri in (f"shop://x/{number}", f"shop://y/{number}"):
            assert read(root, uri) == {"uri": uri, "mimeType": "x/y", **written}


def test_what_is_not_there_is_not_found(root: DirectPeer, declared: Declared) -> None:
    raised = [ObjectDoesNotExist(), Tag.DoesNotExist(), Http404(), PermissionDenied()]

    def find(request: HttpRequest, x: str) -> None:
        """Find."""
        if int(x) < len(raised):
            raise raised[int(x)]

    declared.resource("shop://x/{x}", find)

    for number in range(len(raised) + 1):
        uri = f"shop://x/{number}"
        wrong = {"field": "uri", "message": "not a resource; resources/list names the resources", "received": uri}
        assert root.error(MODERN, "resources/read", {"uri": uri}) == {
            "code": -32602, "message": "Resource not found.",
            "data": {"reason": "RESOURCE_NOT_FOUND", "uri": uri, "errors": [wrong]},
        }  # fmt: skip


def test_a_function_says_why_it_refuses(root: DirectPeer, declared: Declared) -> None:
    def refuse(request: HttpRequest, x: str) -> None:
        """Refuse."""
        raise ToolError("Only on Mondays.")

    declared.resource("shop://x/{x}", refuse)

    error = root.error(MODERN, "resources/read", {"uri": "shop://x/1"})

    assert error == {"code": -32603, "message": "Only on Mondays.", "data": {"reason": "RESOURCE_REFUSED"}}


# Which template it is.


def test_a_resource_of_that_very_uri_comes_first_and_then_the_template_that_was_declared_first(
    root: DirectPeer, declared: Declared
) -> None:
    declared.resource("shop://order/{number}", lambda request, number: f"order {number}", name="order")
    declared.resource("shop://{kind}/latest", lambda request, kind: f"latest {kind}", name="latest")
    declared.resource("shop://order/newest", lambda request: "the newest", name="newest")

    uris = ("shop://order/newest", "shop://order/1", "shop://order/latest", "shop://tag/latest")
    assert [read(root, uri)["text"] for uri in uris] == ["the newest", "order 1", "order latest", "latest tag"]


def test_a_template_that_one_may_not_read_hides_those_declared_after_it(db: None, declared: Declared) -> None:
    declared.resource("shop://order/{number}", lambda request, number: "secret", name="order", permission="shop.no")
    declared.resource("shop://{kind}/latest", lambda request, kind: "public", name="latest")
    nobody = DirectPeer(make_staff("nobody"))

    assert read(nobody, "shop://tag/latest")["text"] == "public"
    assert is_absent(nobody, "shop://order/latest")


def test_two_templates_of_the_same_uris_are_refused() -> None:
    alike = r"a://.* and a://.* are templates of the same URIs"
    for first, second, message in (
        ("a://{x}/b", "a://{y}/b", alike), ("a://{x}", "a://{y}", alike),
        ("a://{x}", "a://{x}", r"Two resources have the URI a://\{x\}"),
    ):  # fmt: skip
        own = MCPSite("own")
        resource(first, site=own)(echo)
        with pytest.raises(ImproperlyConfigured, match=message):
            resource(second, site=own)(echo)


def _takes_id(request: HttpRequest, id: str) -> str:
    return id


def _takes_more(request: HttpRequest, id: str, other: str) -> str:
    return id


def _takes_nothing(request: HttpRequest) -> str:
    return ""


NONE: list[tuple[str, Any, str]] = [
    ("shop/{id}", _takes_id, "a resource template begins with a scheme, which has no variables"),
    ("{id}://x", _takes_id, "a resource template begins with a scheme, which has no variables"),
    ("s{id}:x", _takes_id, "a resource template begins with a scheme, which has no variables"),
    ("shop://{?id}", _takes_id, r"\{\?id\} is no variable. Write names alone"),
    ("shop://{+id}", _takes_id, r"\{\+id\} is no variable"),
    ("shop://{id:3}", _takes_id, r"\{id:3\} is no variable"),
    ("shop://{id*}", _takes_id, r"\{id\*\} is no variable"),
    ("shop://{id,other}", _takes_id, r"\{id,other\} is no variable"),
    ("shop://{}", _takes_id, r"\{\} is no variable"),
    ("shop://{größe}", _takes_id, "is no variable"),
    ("shop://{id", _takes_id, "each variable stands once, in braces of its own"),
    ("shop://{id}/{id}", _takes_id, "each variable stands once, in braces of its own"),
    ("shop://{id}{other}", _takes_more, "two variables need a character between them that no value holds"),
    ("shop://{id}-{other}", _takes_more, "two variables need a character between them that no value holds"),
    ("shop://{id}.{other}", _takes_more, "two variables need a character between them that no value holds"),
    ("shop://{id}", _takes_more, "the function _takes_more must take the request, id"),
    ("shop://{id}", _takes_nothing, "the function _takes_nothing must take the request, id"),
    ("shop://{other}", _takes_id, "the function _takes_id must take the request, other"),
    ("db://shop/{id}", _takes_id, "the scheme db is reserved for models"),
]  # fmt: skip


def test_a_template_that_can_be_none() -> None:
    for uri, function, message in NONE:
        with pytest.raises(ImproperlyConfigured, match=message):
            resource(uri, site=MCPSite("own"))(function)
    for uri, function, name in (("shop://{id}", _takes_id, "other"), ("shop://x", _takes_nothing, "id")):
        with pytest.raises(ImproperlyConfigured, match=f"complete= names '{name}', which is not a variable of it"):
            resource(uri, complete={name: lambda *given: []}, site=MCPSite("own"))(function)


# Queries of models.


def test_a_query_template_names_what_a_query_may_say(root: DirectPeer) -> None:
    listed = root.result(MODERN, "resources/templates/list")["resourceTemplates"]

    for template_of_uri, kind, description in (
        ("{?group_by,measures,carrier,name,search,order_by,limit}", "aggregate",
         "Counts and other measures of the airlines, in groups."),
        ("{?carrier,name,search,order_by,limit}", "query",
         "The airlines whose fields have these values, page by page."),
    ):  # fmt: skip
        assert {
            "uriTemplate": f"db://flights/airline{template_of_uri}", "name": f"flights.airline {kind}",
            "title": f"Airlines: {kind}", "description": description, "mimeType": "application/json",
        } in listed  # fmt: skip


def test_every_parameter_of_a_query_template_can_be_asked(root: DirectPeer) -> None:
    values = {"search": "x", "order_by": "pk", "limit": "1", "departs_at": "2013-01-31T08:30:00Z", "air_time": "5",
              "utc_offset": "1", "time_hour": "2013-01-31T08:30:00Z", "reported_at": "2013-01-31T08:30:00Z",
              "date_joined": "2013-01-31T08:30:00Z", "last_login": "2013-01-31T08:30:00Z"}  # fmt: skip
    listed = [
        item["uriTemplate"]
        for item in root.result(MODERN, "resources/templates/list")["resourceTemplates"]
        if "{?" in item["uriTemplate"]
    ]

    for uri in listed:
        base, _, names = uri.rstrip("}").partition("{?")
        if "measures" in names:
            base, values = f"{base}?measures=count&", {**values, "group_by": "pk", "order_by": "-count"}
        else:
            base, values = f"{base}?", {**values, "order_by": "pk"}
        for name in names.replace("measures,", "").split(","):
            for value in [values[name]] if name in values else ["1", "true", "2013-01-31", "08:30:00", "1 02:00:00",
                                                                "0" * 32]:  # fmt: skip
                answer = root.request(MODERN, "resources/read", {"uri": f"{base}{name}={value}"})
                # An unknown value was asked for.
                if "result" in answer or "no visible" in str(answer) or "has no choice" in str(answer):
                    break
            else:
                pytest.fail(f"{base}{name} cannot be asked")
    assert len(listed) > 12


def test_a_field_that_is_named_as_a_parameter_is_compared_by_exact(root: DirectPeer) -> None:
    rights = rights_on(Flight, root.user)
    rights.filterable = dict.fromkeys(("limit", "number", "any", "measures"), rights.columns["number"])

    names = ["limit__exact", "number", "any__exact", "measures__exact", "search", "order_by", "limit"]
    assert list(templates.parameters(rights)) == names
    assert list(templates.aggregate_parameters(rights)) == ["group_by", "measures", *names]
    assert queries.record_query((("limit__exact", "5"), ("limit", "2"))).filter == {"limit__exact": "5"}


def test_what_cannot_be_compared_searched_or_ordered_is_no_parameter(root: DirectPeer, declared: Declared) -> None:
    declared.model(Product, fields=["name", "details", "manual", "tags"], search_fields=[], filter_fields=["details"])
    listed = str(root.result(MODERN, "resources/templates/list"))

    assert "db://shop/product{?order_by,limit}" in listed


def test_a_query_template_names_no_secret_and_nothing_hidden(root: DirectPeer) -> None:
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight", "flights.view_airline"))

    own = [item["uriTemplate"] for item in viewer.result(MODERN, "resources/templates/list")["resourceTemplates"]]
    all_of_them = str(root.result(MODERN, "resources/templates/list"))

    assert own == [
        "db://flights/airline/{carrier}", "db://flights/airline{?carrier,name,search,order_by,limit}",
        "db://flights/airline{?group_by,measures,carrier,name,search,order_by,limit}",
        "db://flights/flight/{id}",
        "db://flights/flight{?group_by,measures,id,departs_at,carrier,number,status,departure_delay,arrival_delay,"
        "tailnum,notes,air_time,distance,search,order_by,limit}",
        "db://flights/flight{?id,departs_at,carrier,number,status,departure_delay,arrival_delay,tailnum,notes,air_time,"
        "distance,search,order_by,limit}",
        "db://{app_label}/{model}.schema", "flights://board/{airport}/{day}",
    ]  # fmt: skip
    assert "api_key" not in all_of_them and "password" not in all_of_them and "apikey" not in all_of_them
