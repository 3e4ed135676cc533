"""A tool that has done its work is never told as failed, whatever prevents its result from being shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.test import override_settings

from mcp_django.protocol.errors import InternalError
from mcp_django.server import dispatch
from tests.shop.models import Tag
from tests.support.asking import text_of
from tests.support.base import LEGACY, MODERN
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import Peer

pytestmark = pytest.mark.django_db(transaction=True)

BEGINNING = "The tool has done its work. Do not repeat the call. Its result is not shown. "
END = " To see what it did, read the records that it was about."


class Unwritable:
    """Not even its repr can be made."""

    def __repr__(self) -> str:
        raise RuntimeError


def too_long(request: HttpRequest) -> str:
    """Says too much."""
    Tag.objects.create(name="done")
    return "x" * 1_000_000


def unwritable(request: HttpRequest) -> Any:
    """Says what is no JSON."""
    Tag.objects.create(name="done")
    return {"a": Unwritable()}


def not_promised(request: HttpRequest) -> dict[str, int]:
    """Says what its annotation does not promise."""
    Tag.objects.create(name="done")
    return {"a": "b"}  # type: ignore[dict-item]


def yields(request: HttpRequest) -> Iterator[str]:
    """Says too much in parts."""
    for number in range(3_000):
        yield "x" * 1_000
        if number == 2_999:
            Tag.objects.create(name="done")


FAILED = "What follows the work has failed; the server's log has the details."
OUTCOMES: dict[Callable[..., Any], str] = {
    too_long: "The result is larger than 900000 bytes.", unwritable: FAILED, not_promised: FAILED,
}  # fmt: skip


@pytest.mark.every_transport
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_a_function_that_has_returned_is_done(admin: Peer, declared: Declared, revision: str) -> None:
    said = {}
    for function in OUTCOMES:
        declared.tool(function, destructive=False)
        result = admin.result(revision, "tools/call", {"name": function.__name__, "arguments": {}})
        said[function] = (result["isError"], text_of(result), Tag.objects.filter(name="done").delete()[0])

    assert said == {function: (True, f"{BEGINNING}{why}{END}", 1) for function, why in OUTCOMES.items()}


def test_a_function_that_yields_too_much_runs_to_its_end(admin: Peer, declared: Declared) -> None:
    declared.tool(yields, destructive=False)

    result = admin.result(MODERN, "tools/call", {"name": "yields", "arguments": {}})

    assert result["content"][-1]["text"].startswith(
        "The result is cut here: it has 3000 parts, and these are the first 8"
    )
    assert result["content"][-1]["text"].endswith(" The tool has done all of its work: do not repeat the call.")
    assert Tag.objects.filter(name="done").exists()


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_an_action_that_was_committed_is_done(admin: Peer, declared: Declared, settings: Any, revision: str) -> None:
    def fail() -> None:
        raise RuntimeError

    def refuse() -> None:
        raise PermissionDenied

    class Acting(django_admin.ModelAdmin[Any]):
        actions = ("chatter", "hook", "refusing_hook")

        @django_admin.action
        def chatter(self, request: HttpRequest, queryset: Any) -> None:
            queryset.model.objects.create(name="done")
            messages.success(request, "x" * 1_000_000)

        @django_admin.action
        def hook(self, request: HttpRequest, queryset: Any) -> None:
            queryset.model.objects.create(name="done")
            transaction.on_commit(fail)

        @django_admin.action
        def refusing_hook(self, request: HttpRequest, queryset: Any) -> None:
            queryset.model.objects.create(name="done")
            transaction.on_commit(refuse)

    declared.admin(Tag, Acting)
    Tag.objects.create(name="one")
    said = {}
    for action in Acting.actions:
        switch_on(f"shop_tag_{action}")
        result = admin.result(revision, "tools/call", {"name": f"shop_tag_{action}", "arguments": {"ids": ["one"]}})
        said[action] = (result["isError"], text_of(result), Tag.objects.filter(name="done").delete()[0])

    assert said == {
        "chatter": (True, f"{BEGINNING}The answer would be larger than 900000 bytes (MAX_RESULT_BYTES).{END}", 1),
        "hook": (True, f"{BEGINNING}{FAILED}{END}", 1),
        "refusing_hook": (True, f"{BEGINNING}{FAILED}{END}", 1),
    }


def test_what_fails_in_the_dispatcher_after_the_work_is_no_failure_of_it(
    admin: Peer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(request: HttpRequest) -> str:
        """Says little."""
        return "x"

    def spend(*args: Any) -> None:
        raise InternalError

    declared.tool(small, destructive=False)
    monkeypatch.setattr(dispatch.throttles, "spend", spend)

    result = admin.result(MODERN, "tools/call", {"name": "small", "arguments": {}})

    assert text_of(result) == f"{BEGINNING}Internal error. The server's log has the details.{END}"


def test_a_tool_that_only_reads_says_how_to_ask_for_less(admin: Peer, declared: Declared) -> None:
    declared.tool(too_long, read_only=True)

    with override_settings(MCP={"MAX_RESULT_BYTES": 4_000}):
        result = admin.result(MODERN, "tools/call", {"name": "too_long", "arguments": {}})

    assert text_of(result) == "The result is larger than 4000 bytes. Ask for less."
