"""Valid messages of all five revisions: what the fuzzer spoils."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from mcp_types import PROTOCOL_VERSION_META_KEY

from tests.fuzz.mutations import mutated, names, scalars, texts, values
from tests.support.base import LEGACY, MODERN, REVISIONS, Message, meta

Draw = Callable[[st.SearchStrategy[Any]], Any]

METHODS = [
    "initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list",
    "resources/read", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen", "prompts/list",
    "prompts/get", "completion/complete", "logging/setLevel", "tasks/get", "tasks/update", "tasks/cancel",
    "tasks/list", "tasks/result", "sampling/createMessage", "elicitation/create", "roots/list", "rpc.discover",
    "tools/call/", "Tools/List", "",
]  # fmt: skip
NOTIFICATIONS = [
    "notifications/initialized", "notifications/cancelled", "notifications/progress",
    "notifications/roots/list_changed", "notifications/resources/updated", "notifications/unheard", "ping",
    "tools/call", "initialize", "subscriptions/listen", "",
]  # fmt: skip
IDS: list[Any] = [1, 1, 1, 0, -1, "1", "", "x", "é\n\x00", "x" * 1000, 2**53, 2**63, -(10**99), "subscribe", "None"]

MODELS = [
    "flights.flight",
    "flights.airport",
    "flights.airline",
    "Flights.Flight",
    "shop.product",
    "auth.user",
    "flights.nothing",
    "",
]
COLUMNS = [
    "id", "pk", "carrier", "number", "origin", "departs_at", "departure_delay", "status", "notes", "tailnum", "plane",
    "distance", "faa", "latitude", "origin_id", "carrier__name", "price", "password", "sku", "launched", "opens",
    "lead_time", "active", "details", "weight",
]  # fmt: skip
LOOKUPS = [
    "", "__exact", "__in", "__isnull", "__gt", "__gte", "__lt", "__lte", "__range", "__contains", "__icontains",
    "__startswith", "__endswith", "__year", "__month", "__day", "__week_day", "__hour", "__minute", "__date",
    "__regex", "__iexact", "__", "__exact__in",
]  # fmt: skip


@dataclass
class World:
    """What there is on the server under test."""

    tokens: dict[str, str | None] = field(repr=False)
    uris: list[str] = field(repr=False)
    cursors: list[str] = field(repr=False)
    tools: list[str] = field(repr=False)
    prompts: list[str] = field(default_factory=list, repr=False)
    #: Legacy sessions over HTTP, by revision.
    sessions: dict[str, str] = field(default_factory=dict, repr=False)


@st.composite
def requests(draw: Draw, world: World, revision: str) -> Message:
    """One valid message of a revision, as a rule a request."""
    kind = draw(st.sampled_from(["request"] * 12 + ["notification", "notification", "response"]))
    if kind == "response":
        return {"jsonrpc": "2.0", "id": draw(st.sampled_from(IDS)), **draw(st.sampled_from(_RESPONSES))}
    if kind == "notification":
        method = draw(st.sampled_from(NOTIFICATIONS))
        message: Message = {"jsonrpc": "2.0", "method": method, "params": draw(_PARAMS.get(method, _NOTICES))}
    else:
        method = draw(st.sampled_from(METHODS + ["tools/call"] * 12 + ["resources/read"] * 5))
        message = {
            "jsonrpc": "2.0",
            "id": draw(st.sampled_from(IDS)),
            "method": method,
            "params": draw(params(world, method)),
        }
        if not message["params"] and draw(st.booleans()):
            del message["params"]
    if revision == MODERN:
        message["params"] = {**message.get("params", {}), "_meta": draw(envelopes())}
    return message


@st.composite
def envelopes(draw: Draw) -> Message:
    """The ``_meta`` of a modern request, valid."""
    more = draw(
        st.sampled_from(
            [
                {},
                {},
                {},
                {"progressToken": 1},
                {"progressToken": "x"},
                {"io.modelcontextprotocol/logLevel": "debug"},
                {"traceparent": "00-x", "unknown": {"deep": [1]}},
            ]
        )
    )
    envelope = meta(**more)
    if draw(st.integers(0, 3)) == 0:
        capabilities = {
            "elicitation": {"form": {}, "url": {}},
            "sampling": {"tools": {}},
            "roots": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }
        envelope["io.modelcontextprotocol/clientCapabilities"] = capabilities
    return envelope


def params(world: World, method: str) -> st.SearchStrategy[Message]:
    match method:
        case "tools/call":
            return calls(world)
        case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
            return st.fixed_dictionaries({"uri": uris(world)})
        case "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list":
            return st.one_of(st.just({}), st.fixed_dictionaries({"cursor": cursors(world)}))
        case "prompts/get":
            return st.fixed_dictionaries(
                {"name": st.one_of(st.sampled_from([*world.prompts, "none"]), texts)},
                optional={"arguments": st.dictionaries(names, texts, max_size=3)},
            )
    return _PARAMS.get(method, st.just({}))


def cursors(world: World) -> st.SearchStrategy[Any]:
    good = st.sampled_from([*world.cursors, ""])
    return st.one_of(good, good.flatmap(_edited), texts)


#: What a query of a URI takes beside its conditions.
_PARAMETERS = (
    "limit", "cursor", "order_by", "fields", "search", "pk", "group_by", "measures", "having.count",
)  # fmt: skip


def uris(world: World) -> st.SearchStrategy[str]:
    good = st.sampled_from(world.uris)
    query = st.lists(
        st.tuples(
            st.sampled_from([*COLUMNS, *_PARAMETERS]),
            st.sampled_from(LOOKUPS),
            texts,
        ),
        max_size=4,
    )
    asked = query.map(
        lambda pairs: "db://flights/flight?" + "&".join(f"{name}{lookup}={value}" for name, lookup, value in pairs)
    )
    keyed = st.builds(
        "db://{}/{}{}".format, st.sampled_from(["flights/flight", "shop/tag", "shop/product"]), texts, texts
    )
    return st.one_of(good, good, good.flatmap(_edited), asked, keyed)


@st.composite
def _edited(draw: Draw, text: str) -> str:
    place = draw(st.integers(0, len(text)))
    return text[:place] + draw(texts) + text[place + draw(st.integers(0, 4)) :]


@st.composite
def calls(draw: Draw, world: World) -> Message:
    """A call of a tool, with arguments that fit it before they are spoilt."""
    name = draw(st.sampled_from([*world.tools, "find_records", "find_records", "get_record", "nothing"]))
    arguments = draw(_ARGUMENTS.get(name, lambda world: st.dictionaries(names, values, max_size=3))(world))
    call = {"name": name, "arguments": draw(mutated(arguments))}
    if draw(st.integers(0, 4)) == 0:
        # What a client sends back in the next round of questions, or makes up.
        call |= draw(_ROUNDS)
    return call


@st.composite
def filters(draw: Draw, depth: int = 0) -> Message:
    """A filter, whose fields and lookups are there as a rule, and whose values are anything."""
    found: Message = {}
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["field"] * 5 + ["any", "all", "not"]))
        if kind == "field" or depth > 6:
            found[draw(st.sampled_from(COLUMNS)) + draw(st.sampled_from(LOOKUPS))] = draw(_FILTER_VALUES)
        elif kind == "not":
            found["not"] = draw(filters(depth + 1))
        else:
            found[kind] = draw(st.lists(filters(depth + 1), max_size=2))
    return found


#: What a client answers a question with.
ANSWERS = st.one_of(
    st.sampled_from(
        [
            {"action": "accept", "content": {"seats": 1}},
            {"action": "accept", "content": {"seats": "x"}},
            {"action": "accept"},
            {"action": "decline"},
            {"action": "cancel", "content": None},
            {"action": "run away"},
            {"roots": [{"uri": "file:///x", "name": "x"}]},
            {"roots": [{"uri": 1}]},
            {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
            {"role": "assistant", "content": [], "model": None},
        ]
    ),
    values,
)
_ROUNDS = st.fixed_dictionaries(
    {},
    optional={
        "inputResponses": st.one_of(
            st.dictionaries(st.sampled_from(["elicitation", "sure", "roots", "draft", "x"]), ANSWERS, max_size=3),
            values,
        ),
        "requestState": st.one_of(texts, values),
    },
)

_FILTER_VALUES = st.one_of(
    values,
    texts,
    st.sampled_from(
        [1, "JFK", "UA", "2013-01-01", "2013-01-01T10:00:00Z", None, True, [1, 2], ["JFK"], "1,2", 1.5, "P1D", "08:30"]
    ),
    st.lists(st.one_of(texts, st.integers()), max_size=3),
    st.sampled_from(
        [
            2**31,
            2**63,
            -(2**63),
            2**64,
            1e308,
            1e16,
            "1e308",
            "9" * 101,
            "9999-12-31T23:59:59-14:00",
            "24:00",
            "P9999999999D",
        ]
    ),
)


def _finds(world: World) -> st.SearchStrategy[Message]:
    return st.fixed_dictionaries(
        {"model": st.sampled_from(["flights.flight"] * 6 + ["shop.product"] * 3 + MODELS)},
        optional={
            "filter": filters(),
            "search": texts,
            "order_by": st.lists(st.sampled_from([*COLUMNS, "-id", "-pk", "-departs_at", "--id", "?"]), max_size=3),
            "fields": st.lists(st.sampled_from(COLUMNS), max_size=4),
            "limit": st.sampled_from([1, 3, 100, 0, -1, 101, 10**20, 1.0]),
            "cursor": cursors(world),
        },
    )


_KEYS = st.one_of(texts, st.integers(), st.sampled_from([1, "1", "JFK", "UA", "N14228", 1.0, 2**63, "9" * 50]))


def _acts() -> st.SearchStrategy[Message]:
    by_ids = st.fixed_dictionaries({"ids": st.lists(_KEYS, max_size=5)})
    return st.one_of(by_ids, st.fixed_dictionaries({"filter": filters()}, optional={"confirm": texts}))


_ARGUMENTS: dict[str, Callable[[World], st.SearchStrategy[Message]]] = {
    "describe_models": lambda world: st.fixed_dictionaries({}, optional={"model": st.sampled_from(MODELS)}),
    "find_records": _finds,
    "get_record": lambda world: st.fixed_dictionaries({"model": st.sampled_from(MODELS), "id": _KEYS}),
    "delay_statistics": lambda world: st.fixed_dictionaries({"origin": _KEYS}, optional={"carrier": _KEYS}),
    "chatty": lambda world: st.fixed_dictionaries({}, optional={"steps": st.integers(-1, 9)}),
    "asker": lambda world: st.just({}),
    "trusting": lambda world: st.just({}),
    "regional": lambda world: st.fixed_dictionaries(
        {"region": texts}, optional={"seats": st.integers(), "tags": st.lists(scalars, max_size=3)}
    ),
    "free": lambda world: st.fixed_dictionaries(
        {},
        optional={
            "tree": values,
            "code": st.one_of(texts, st.sampled_from(["a" * 40 + "b"])),
            "many": st.lists(values),
        },
    ),
    "flights_flight_mark_cancelled": lambda world: _acts(),
    "flights_flight_export_as_csv": lambda world: _acts(),
}

#: What a client says of itself.
CAPABILITIES: list[Message] = [
    {},
    {"elicitation": {}, "sampling": {}, "roots": {}},
    {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}},
]

#: The rest of a client's response to a question.
replies = st.one_of(
    st.none(),
    ANSWERS.map(lambda answer: {"result": answer}),
    ANSWERS.map(lambda answer: {"result": answer}),
    st.just({"error": {"code": -1, "message": "no"}}),
    values.map(lambda value: {"error": value}),
)

_RESPONSES: list[Message] = [
    {"result": {}},
    {"error": {"code": 1, "message": "no"}},
    {"result": {"action": "accept", "content": {}}},
    {"result": {"roots": []}},
    {"result": {}, "error": {}},
]

_NOTICES = st.sampled_from([{}, {"reason": "x"}, {"_meta": {}}])

_PARAMS: dict[str, st.SearchStrategy[Message]] = {
    "initialize": st.builds(
        lambda version, capabilities: {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "fuzz", "version": "1"},
        },
        st.sampled_from([*REVISIONS, "1999-01-01", ""]),
        st.sampled_from(
            [{}, {"elicitation": {}}, {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"url": {}}}]
        ),
    ),
    "subscriptions/listen": st.fixed_dictionaries(
        {
            "notifications": st.fixed_dictionaries(
                {},
                optional={
                    "resourceSubscriptions": st.lists(
                        st.one_of(
                            st.sampled_from(["db://flights/flight", "db://flights/flight/1", "flights://about"]), texts
                        ),
                        max_size=4,
                    ),
                    "toolsListChanged": st.booleans(),
                    "promptsListChanged": st.booleans(),
                },
            )
        }
    ),
    "completion/complete": st.fixed_dictionaries(
        {
            "ref": st.sampled_from(
                [
                    {"type": "ref/prompt", "name": "summary"},
                    {"type": "ref/resource", "uri": "db://flights/flight/{id}"},
                    {"type": "ref/resource", "uri": "db://{app_label}/{model}.schema"},
                    {"type": "ref/nothing"},
                ]
            ),
            "argument": st.fixed_dictionaries(
                {"name": st.one_of(st.sampled_from(["id", "model", "app_label"]), texts), "value": texts}
            ),
        },
        optional={"context": st.just({"arguments": {"app_label": "flights"}})},
    ),
    "logging/setLevel": st.fixed_dictionaries({"level": st.sampled_from(["debug", "emergency", "loud", ""])}),
    "tasks/get": st.fixed_dictionaries({"taskId": texts}),
    "tasks/update": st.fixed_dictionaries(
        {"taskId": texts, "inputResponses": st.dictionaries(texts, values, max_size=2)}
    ),
    "tasks/cancel": st.fixed_dictionaries({"taskId": texts}),
    "notifications/cancelled": st.fixed_dictionaries({"requestId": st.one_of(st.sampled_from(IDS), values)}),
    "notifications/progress": st.fixed_dictionaries({"progressToken": values, "progress": values}),
}


@st.composite
def messages(draw: Draw, world: World, revision: str) -> Any:
    """What a client of a revision may send, more or less spoilt; sometimes several at once."""
    one = requests(world, revision).flatmap(mutated)
    shape = draw(st.sampled_from(["one"] * 9 + ["batch"]))
    return draw(one) if shape == "one" else draw(st.lists(st.one_of(one, one, values), max_size=12))


def http_headers(message: Any, revision: str, world: World) -> dict[str, str]:
    """The headers that go with a message, as far as it can be told from it."""
    if revision in LEGACY:
        return {"MCP-Protocol-Version": revision, "Mcp-Session-Id": world.sessions[revision]}
    headers = {"MCP-Protocol-Version": MODERN}
    if not isinstance(message, dict):
        return headers
    given = message.get("params")
    given = given if isinstance(given, dict) else {}
    envelope = given.get("_meta")
    version = envelope.get(PROTOCOL_VERSION_META_KEY) if isinstance(envelope, dict) else None
    if isinstance(version, str):
        headers["MCP-Protocol-Version"] = encoded(version)
    if isinstance(message.get("method"), str):
        headers["Mcp-Method"] = encoded(message["method"])
    for key in ("taskId", "uri", "name"):
        if isinstance(given.get(key), str):
            headers["Mcp-Name"] = encoded(given[key])
    return headers


def encoded(value: str) -> str:
    """A header value, as it is or in the sentinel's form."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="
