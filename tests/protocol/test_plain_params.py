"""The fast check of params accepts what nearly all clients send, and nothing that mcp-types does not accept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp_types.methods import CLIENT_REQUESTS, validate_client_request

from mcp_django.protocol.plain_params import is_plain
from mcp_django.protocol.revisions import MODERN_REVISIONS

JSON = dict[str, Any]

_PREFIX = "io.modelcontextprotocol"
_CLIENT = {"name": "a client", "version": "1"}
_CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "extensions": {f"{_PREFIX}/tasks": {}}, "roots": {}}
_META = {
    f"{_PREFIX}/protocolVersion": "2026-07-28",
    f"{_PREFIX}/clientCapabilities": _CAPABILITIES,
    f"{_PREFIX}/clientInfo": _CLIENT,
    f"{_PREFIX}/logLevel": "info",
    "progressToken": 1,
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
#: What a client sends of each method, apart from ``_meta``.
_SENT: dict[str, JSON] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": _CAPABILITIES, "clientInfo": _CLIENT},
    "server/discover": {},
    "ping": {},
    "tools/list": {"cursor": "next"},
    "tools/call": {"name": "greet", "arguments": {"name": "Ada", "deep": [{"a": None}]}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "mcp://shop.order/1"},
    "prompts/list": {},
    "prompts/get": {"name": "sum_up", "arguments": {"day": "Monday"}},
}
_REQUESTS = sorted(CLIENT_REQUESTS)

_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.just({})
)
_values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner))


def _members(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths to every member of an object."""
    if not isinstance(value, dict):
        return []
    return [found for name, one in value.items() for found in [(*path, name), *_members(one, (*path, name))]]


@st.composite
def _nearly_plain(draw: st.DrawFn) -> tuple[str, str, JSON]:
    """A request as clients send it, in which a member or two is another, is gone or is new."""
    method, revision = draw(st.sampled_from(_REQUESTS))
    params = _copy({**_SENT.get(method, {}), "_meta": _META})
    for _ in range(draw(st.integers(0, 2))):
        names = draw(st.sampled_from(_members(params) or [("_meta",)]))
        holder = params
        for name in names[:-1]:
            holder = holder.get(name, {}) if isinstance(holder, dict) else {}
        if isinstance(holder, dict):
            match draw(st.sampled_from(["other", "gone", "new"])):
                case "other":
                    holder[names[-1]] = draw(_values)
                case "gone":
                    holder.pop(names[-1], None)
                case "new":
                    holder[draw(st.sampled_from(["task", "inputResponses", "requestState", "icons", "tasks"]))] = draw(
                        _values
                    )
    return method, revision, params


def _copy(value: Any) -> Any:
    return {name: _copy(one) for name, one in value.items()} if isinstance(value, dict) else value


@settings(max_examples=400)
@given(_nearly_plain())
@example(("tools/call", "2025-11-25", {"name": "greet", "task": "none"}))
@example(("tools/list", "2026-07-28", {}))
def test_nothing_is_plain_that_mcp_types_refuses(request_: tuple[str, str, JSON]) -> None:
    method, revision, params = request_

    if is_plain(method, revision, params):
        validate_client_request(method, revision, params)


@pytest.mark.parametrize(("method", "revision"), [key for key in _REQUESTS if key[0] in _SENT])
def test_what_clients_send_is_plain(method: str, revision: str) -> None:
    meta = _META if revision in MODERN_REVISIONS else {"progressToken": "a"}

    assert is_plain(method, revision, {**_SENT[method], "_meta": meta})
