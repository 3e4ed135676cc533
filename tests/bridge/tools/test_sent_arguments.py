"""Arguments as real clients send them: objects and lists as the text of their JSON, numbers as texts, blanks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from typing_extensions import TypedDict

from tests.support.asking import DirectPeer, errors_of
from tests.support.declared import Declared


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


class Point(TypedDict):
    x: int


def take(
    request: HttpRequest,
    point: Point | None = None,
    numbers: list[int] | None = None,
    anything: dict[str, Any] | None = None,
    count: int | None = None,
    sure: bool | None = None,
    text: str | None = None,
    either: dict[str, Any] | str | None = None,
) -> str:
    """Says what it got."""
    given = (point, numbers, anything, count, sure, text, either)
    return json.dumps([one for one in given if one is not None])


#: What is sent → what the function gets.
SENT: list[tuple[dict[str, Any], list[Any]]] = [
    ({"point": '{"x": 1}'}, [{"x": 1}]),
    ({"numbers": " [1, 2]"}, [[1, 2]]),
    # Only the argument itself is read: what is in it is the caller's.
    ({"anything": '{"note": "{\\"a\\": 1}"}'}, [{"note": '{"a": 1}'}]),
    ({"anything": {"note": '{"a": 1}'}}, [{"note": '{"a": 1}'}]),
    ({"count": "5"}, [5]),
    ({"count": 5.0}, [5]),
    ({"sure": "true"}, [True]),
    ({"text": '{"a": 1}'}, ['{"a": 1}']),
    ({"either": '{"a": 1}'}, ['{"a": 1}']),
]
#: What is no JSON of the type, or more than a message may hold.
REFUSED: list[dict[str, Any]] = [
    {"point": '{"x": 1'}, {"point": "[1]"}, {"point": "x"}, {"point": '{"x": NaN}'}, {"point": '{"x": 1, "x": 2}'},
    {"numbers": "1,2"}, {"numbers": '{"0": 1}'}, {"anything": "[" * 500}, {"anything": '{"a":' * 500 + "1" + "}" * 500},
    {"count": "five"}, {"count": 5.5}, {"sure": "yes"}, {"text": 5}, {"text": True},
]  # fmt: skip


def test_a_function_gets_what_was_meant(root: DirectPeer, declared: Declared) -> None:
    declared.tool(take, read_only=True)

    for sent, wanted in SENT:
        assert json.loads(root.call("take", **sent)["content"][0]["text"]) == wanted, sent


def test_what_cannot_be_read_so_is_refused(root: DirectPeer, declared: Declared) -> None:
    declared.tool(take, read_only=True)

    for sent in REFUSED:
        [error] = errors_of(root.call("take", **sent))
        assert error["field"].partition(".")[0] == next(iter(sent)), sent


def test_query_tools_take_the_same(root: DirectPeer, flights: Any) -> None:
    wanted = root.call(
        "find_records", model="flights.flight", filter={"carrier": "UA"}, order_by=["-id"], fields=["number"], limit=2
    )["structuredContent"]
    found = root.call(
        "find_records", model="flights.flight", filter='{"carrier": "UA"}', order_by='["-id"]', fields='["number"]',
        limit="2", search="", cursor=None, total="false",
    )["structuredContent"]  # fmt: skip
    blank = root.call("find_records", model="flights.flight", filter="")["structuredContent"]

    assert found == wanted
    assert len(blank["rows"]) == len(root.call("find_records", model="flights.flight")["structuredContent"]["rows"])
    key = wanted["rows"][0][0]
    assert root.call("get_record", model="flights.flight", id=float(key))["structuredContent"]["id"] == key


def test_what_came_as_a_text_and_was_read_as_json_is_said(root: DirectPeer, declared: Declared) -> None:
    declared.tool(take)

    plain = root.call("take", point={"x": 1}, text="[1]")
    texts = root.call("take", point='{"x": 1}', numbers="[1]", text="[1]")
    found = root.call("find_records", model="auth.user", filter='{"username": "root"}', fields='["username"]')

    said = "Read as JSON, which came as a text: {}. Send the value itself."
    assert len(plain["content"]) == 1
    assert texts["content"][1]["text"] == said.format("point, numbers")
    assert found["content"][1]["text"] == said.format("filter, fields")
    assert found["structuredContent"]["rows"] == [[root.user.pk, "root"]]
