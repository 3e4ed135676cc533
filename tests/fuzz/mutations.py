"""Values that no schema expects, and changes that turn a valid message into one that is nearly valid."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.fuzz.jsontext import Literal, Members

Draw = Callable[[st.SearchStrategy[Any]], Any]
Path = tuple[Any, ...]

STRINGS = [
    "", " ", "x", "0", "1", "-1", "1.0", "null", "true", "\x00", "a\x00b", "\r\n", "x\r\nSet-Cookie: a=b", "\t",
    "\u2028", "\ufeff", "\ud800", "\udfff\ud800", "\U0001f600", "é", "ß", "İ", "%", "%00", "%ff", "%2e%2e", "..", ".",
    "/", "//", "\\", "?", "#", "&", "=", "{}", "{0}", "{0.__class__}", "%s", "%(x)s", "${x}", "*", "__class__",
    "__proto__", "_connector", "pk", "id", "and", "(", "[", "[a-", "<script>alert(1)</script>", "' OR '1'='1",
    "'; --", "db://flights/flight", "file:///etc/passwd", "http://[", "x" * 63, "x" * 64, "x" * 65, "x" * 255,
    "x" * 999, "x" * 1000, "x" * 1001, "é" * 600, "9" * 400, "x" * 5000, "a," * 2000, "a b " * 300, "9999-12-31",
    "0000-00-00", "2013-02-30", "9999-12-31T23:59:59+23:59", "0001-01-01T00:00:00-23:59", "1e309", "Infinity", "NaN",
    "\u0661", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "2027-01-01", "initialize",
    "ping", "tools/call",
]  # fmt: skip

#: Names that mean something somewhere in the protocol, so that a stranger's value may do harm there.
NAMES = [
    "jsonrpc", "id", "method", "params", "result", "error", "code", "message", "data", "_meta", "name", "arguments",
    "uri", "cursor", "notifications", "resourceSubscriptions", "toolsListChanged", "requestId", "reason",
    "progressToken", "progress", "protocolVersion", "capabilities", "clientInfo", "level", "ref", "argument",
    "context", "task", "taskId", "inputResponses", "requestState", "filter", "any", "all", "not", "pk", "pk__in",
    "model", "limit", "order_by", "fields", "search", "ids", "__proto__", "__class__", "_connector",
    PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/subscriptionId",
]  # fmt: skip

NUMBERS = [
    0,
    1,
    -1,
    2,
    100,
    101,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**99,
    10**100,
    0.5,
    -0.0,
    1e16,
    1e308,
    5e-324,
]

_WILD_TEXTS = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E999", "-0", "01", "1.", ".5", "+1", "0x1", "9" * 310,
    "9" * 5000, "'x'", "undefined", "", "[" * 100 + "]" * 100, "[" * 190 + "]" * 190, "[" * 5000 + "]" * 5000,
    '{"a":' * 150 + "1" + "}" * 150, "[" * 300, '"\\ud800"', '"\\u0000"', '"\\x"', '"\x01"', '"', "{", "]", "1,",
    "/* */ 1", "1e5", "1E+2", "true1", "\ufeff1",
]  # fmt: skip
LITERALS = [Literal(text) for text in _WILD_TEXTS]

texts = st.one_of(st.sampled_from(STRINGS), st.text(max_size=12))
names = st.one_of(st.sampled_from(NAMES), texts)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(NUMBERS),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
#: Any JSON.
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
#: Any JSON, and what is nearly JSON.
wild = st.one_of(values, values, st.sampled_from(LITERALS))


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Where something stands in a value, the value itself first."""
    found = [path]
    if isinstance(value, dict):
        for name, item in value.items():
            found += paths(item, (*path, name))
    elif _is_list(value):
        for index, item in enumerate(value):
            found += paths(item, (*path, index))
    return found


def _is_list(value: Any) -> bool:
    """Whether it is an array; an object by its members is none, and nothing within it is changed."""
    return isinstance(value, list) and not isinstance(value, Members)


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """The value with what stands at the path changed."""
    if not path:
        return change(value)
    changed = copy.copy(value)
    changed[path[0]] = put(value[path[0]], path[1:], change)
    return changed


@st.composite
def mutated(draw: Draw, value: Any, most: int = 3) -> Any:
    """The value after a few changes; often after none, so that what lies behind a valid message is reached too."""
    for _ in range(draw(st.integers(0, most))):
        if not isinstance(value, dict) and not _is_list(value):
            return value
        path = draw(st.sampled_from(paths(value)))
        value = put(value, path, draw(st.sampled_from(_CHANGES))(draw, value))
    return value


def _replace(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    return lambda _: draw(wild)


def _wrap(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    return lambda node: draw(st.sampled_from([[node], {"a": node}, [node, node], [[[node]]], [], {}]))


def _as_text(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    return lambda node: node if isinstance(node, Literal | Members) else _dump(node)


def _dump(node: Any) -> str:
    try:
        return json.dumps(node)
    except TypeError:
        return "object"


def _drop(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    def change(node: Any) -> Any:
        if isinstance(node, dict) and node:
            gone = draw(st.sampled_from(sorted(node)))
            return {name: item for name, item in node.items() if name != gone}
        return node[1:] if isinstance(node, str) or _is_list(node) else None

    return change


def _rename(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    def change(node: Any) -> Any:
        if not isinstance(node, dict) or not node:
            return draw(scalars)
        old, new = draw(st.sampled_from(sorted(node))), draw(names)
        return {new if name == old else name: item for name, item in node.items()}

    return change


def _add(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    def change(node: Any) -> Any:
        if isinstance(node, dict):
            return {**node, draw(names): draw(wild)}
        return [*node, draw(wild)] if _is_list(node) else draw(wild)

    return change


def _twice(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    """A member that stands twice, with another value before or after."""

    def change(node: Any) -> Any:
        if not isinstance(node, dict) or not node:
            return node
        name = draw(st.sampled_from(sorted(node)))
        again = (name, draw(values))
        return Members([again, *node.items()] if draw(st.booleans()) else [*node.items(), again])

    return change


def _grow(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    times = draw(st.sampled_from([2, 11, 60, 300]))

    def change(node: Any) -> Any:
        if isinstance(node, str) or _is_list(node):
            return node * times
        if isinstance(node, dict):
            return {**node, **{f"{name}{number}": item for name, item in node.items() for number in range(times // 10)}}
        return [node] * times

    return change


def _splice(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    return lambda _: at(whole, draw(st.sampled_from(paths(whole))))


def _edit(draw: Draw, whole: Any) -> Callable[[Any], Any]:
    """A text with something put into it, or taken out of it."""

    def change(node: Any) -> Any:
        if not isinstance(node, str):
            return draw(scalars)
        place = draw(st.integers(0, len(node)))
        return node[:place] + draw(texts) + node[place + draw(st.integers(0, 3)) :]

    return change


_CHANGES = [_replace, _replace, _wrap, _as_text, _drop, _drop, _rename, _add, _twice, _grow, _splice, _edit, _edit]
