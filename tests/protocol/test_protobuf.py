"""Messages as Protobuf: the same values as in JSON, and nothing that two readers could read differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.internal.encoder import _VarintBytes
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from mcp_django.protocol import jsonrpc, protobuf
from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.protocol.errors import ParseError

ROOT = Path(__file__).parents[2]
GENERATED = ("mcp_pb2.py", "mcp_pb2.pyi", "mcp_pb2_grpc.py")

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS
VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4), max_leaves=30
)
_IDS = st.integers() | _TEXTS
_OBJECTS = st.dictionaries(_TEXTS, VALUES, max_size=4)
_VERSION = st.just("2.0")
MESSAGES = st.one_of(
    st.fixed_dictionaries({"jsonrpc": _VERSION, "id": _IDS, "method": _TEXTS, "params": _OBJECTS}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "id": _IDS, "method": _TEXTS}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "method": _TEXTS, "params": _OBJECTS}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "method": _TEXTS}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "id": _IDS, "result": VALUES}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "id": _IDS, "error": VALUES}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "error": VALUES}),
    # The same members in another order, and with others between them.
    st.fixed_dictionaries({"method": VALUES, "id": VALUES, "jsonrpc": _VERSION, "params": VALUES}),
    st.fixed_dictionaries({"jsonrpc": _VERSION, "id": VALUES, "method": VALUES, "x": VALUES}),
    st.fixed_dictionaries({"jsonrpc": VALUES, "id": VALUES, "method": VALUES, "params": VALUES}),
)


def through(text: bytes) -> bytes:
    """JSON text after its way through Protobuf."""
    return jsonrpc.encode(protobuf.decode(protobuf.encode(text)))


def nested(levels: int, inner: Any = 1, *, objects: bool) -> Any:
    for _ in range(levels):
        inner = {"a": inner} if objects else [inner]
    return inner


# What JSON can say, Protobuf can say.


@given(VALUES | MESSAGES | st.lists(MESSAGES, max_size=3))
def test_every_value_comes_through_with_its_types_and_the_order_of_its_members(value: Any) -> None:
    text = jsonrpc.encode(value)

    assert through(text) == jsonrpc.encode(jsonrpc.decode(text))


EDGES = [
    b"1", b"1.0", b"-0.0", b"1e22", b"5e-324", b"1.7976931348623157e308", b"true", b"null", b'""', b"[]", b"{}",
    str(2**63 - 1).encode(), str(-(2**63)).encode(), str(2**63).encode(), str(-(2**63) - 1).encode(), b"9" * 4300,
    b'{"b":1,"a":2}', b'{"":{"":""}}', b'"\\u0000"', '"\U0001f6eb"'.encode(), b"[[],{}]", b'[{"jsonrpc":"2.0"}]',
    # An absent member is no null, and an id keeps its type.
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}',
    *(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % one for one in (b"1", b'"1"', b"9" * 22, b"-3", b'""')),
]  # fmt: skip


def test_a_value_at_an_edge_comes_through() -> None:
    assert {text: through(text) for text in EDGES} == {text: jsonrpc.encode(jsonrpc.decode(text)) for text in EDGES}


def test_a_deep_value_comes_through() -> None:
    for levels in (24, 25, 26, 27, 190):
        for objects in (True, False):
            text = jsonrpc.encode({"jsonrpc": "2.0", "id": 1, "result": nested(levels, objects=objects)})

            assert through(text) == text
            assert through(b"[" + text + b"]") == b"[" + text + b"]"


def test_a_message_has_its_kind() -> None:
    kinds = {
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}': "request",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}': "notification",
        b'{"jsonrpc":"2.0","id":1,"result":{}}': "response",
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}': "error",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]': "batch",
        b'{"method":"ping","jsonrpc":"2.0","id":1}': "other",
    }

    assert {text: pb.Message.FromString(protobuf.encode(text)).WhichOneof("kind") for text in kinds} == kinds


# What two readers could read differently is refused.


def request(**params: Any) -> pb.Message:
    return protobuf.message_of({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params})


def refused(body: bytes) -> str:
    with pytest.raises(ParseError) as caught:
        protobuf.decode(body)
    return caught.value.message


def field(number: int, body: bytes) -> bytes:
    """A field of the wire type that carries its length."""
    return bytes([number << 3 | 2]) + _VarintBytes(len(body)) + body


def test_a_cut_message_is_refused() -> None:
    whole = request(a=[1, "x"]).SerializeToString()

    for end in range(1, len(whole)):
        assert refused(whole[:end])


def test_a_message_with_a_second_request_or_another_kind_merged_into_it_is_refused() -> None:
    second = protobuf.message_of({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    notification = protobuf.message_of({"jsonrpc": "2.0", "method": "notifications/initialized"})

    for other in (second, notification):
        assert "twice" in refused(request().SerializeToString() + other.SerializeToString())


def test_an_unknown_field_is_refused_at_any_depth() -> None:
    inner = request().request
    unknown = field(15, b"hidden")

    assert "unknown" in refused(request().SerializeToString() + unknown)
    assert "unknown" in refused(field(1, inner.SerializeToString() + unknown))


def test_a_number_that_is_not_the_shortest_is_refused() -> None:
    long_id = field(1, field(1, b"\x08\x82\x80\x00") + field(2, b"ping"))

    assert "shortest" in refused(long_id)


def test_a_member_that_an_object_has_twice_is_refused() -> None:
    message = request(a=1)
    message.request.params.members.add(name="a", value=pb.Value(integer=2))

    assert "'a' twice" in refused(message.SerializeToString())


OTHER_FORMS = [
    pb.Value(), pb.Value(null=5), pb.Value(number=float("nan")), pb.Value(number=float("inf")),
    pb.Value(big_integer="12"), pb.Value(big_integer=str(2**63 - 1)), pb.Value(big_integer="0" * 30),
    pb.Value(big_integer="9" * 5_000), pb.Value(big_integer="1" * 20 + "x"), pb.Value(json="{}"),
    pb.Value(object=pb.Object(members=[pb.Member(name="a")])),
    pb.Value(object=pb.Object(members=[pb.Member(value=pb.Value(integer=1))])),
]  # fmt: skip


def test_a_value_that_has_another_form_is_refused() -> None:
    assert all(refused(pb.Message(other=value).SerializeToString()) for value in OTHER_FORMS)


def deep(inner: pb.Value, levels: int = protobuf.MAX_LEVELS) -> bytes:
    for _ in range(levels):
        inner = pb.Value(list=pb.List(values=[inner]))
    return pb.Message(other=inner).SerializeToString()


def test_what_is_below_the_bound_is_refused_unless_it_is_the_text_of_one_list_or_object() -> None:
    for text in ("1", "", "[1],[2]", "[]],[[]", "{", '{"a":1,"a":2}', "[" * 190 + "]" * 190, "[1e999]"):
        assert refused(deep(pb.Value(json=text)))
    assert refused(deep(pb.Value(list=pb.List())))
    assert protobuf.decode(deep(pb.Value(json="[1]")))


def test_a_message_that_is_deeper_than_decoders_read_is_refused() -> None:
    body = b""
    for _ in range(2_000):
        body = field(7, field(1, body))

    assert refused(field(6, body))


INCOMPLETE = [
    pb.Message(), pb.Message(request=pb.Request(method="ping")), pb.Message(request=pb.Request(id=pb.Id(integer=1))),
    pb.Message(request=pb.Request(id=pb.Id(), method="ping")), pb.Message(notification=pb.Notification()),
    pb.Message(response=pb.Response(id=pb.Id(integer=1))), pb.Message(error=pb.Error()),
    pb.Message(response=pb.Response(result=pb.Value(integer=1))),
    pb.Message(batch=pb.Batch()), pb.Message(batch=pb.Batch(messages=[pb.Message(batch=pb.Batch())])),
]  # fmt: skip


def test_a_message_that_lacks_a_part_is_refused() -> None:
    assert all(refused(message.SerializeToString()) for message in INCOMPLETE)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(body: bytes) -> None:
    try:
        value = protobuf.decode(body)
    except ParseError:
        return

    assert protobuf.decode(protobuf.encode(json.dumps(value).encode())) == value


# The generated code.


def test_the_generated_code_is_that_of_the_schema(tmp_path: Path) -> None:
    """Made anew as the head of mcp.proto says."""
    made = protoc.main([
        "protoc", f"-I{ROOT}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"--grpc_python_out={tmp_path}",
        "mcp_django/protocol/mcp.proto",
    ])  # fmt: skip

    assert made == 0
    for name in GENERATED:
        kept = ROOT / "mcp_django/protocol" / name
        assert (tmp_path / "mcp_django/protocol" / name).read_text() == kept.read_text(), name
