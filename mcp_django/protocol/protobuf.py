"""JSON-RPC messages as Protobuf and back, by ``mcp.proto``. It needs the extra ``protobuf``.

A body is read as strictly as JSON is: whatever another reader could understand differently is refused.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.proto import serialize_length_prefixed
from pydantic_core import from_json

from mcp_django.protocol import jsonrpc
from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.protocol.errors import ParseError

#: Lists and objects inside so many others are JSON text: decoders of Protobuf read 100 levels, and each costs three.
MAX_LEVELS = 25
_INT64 = range(-(2**63), 2**63)
_DIGITS = re.compile(r"-?[1-9][0-9]{18,}")


def encode(body: bytes) -> bytes:
    """An encoded JSON message in Protobuf."""
    return message_of(from_json(body)).SerializeToString()


def encode_event(body: bytes, event_id: str = "", retry_ms: int | None = None) -> bytes:
    """An ``Event`` of a stream behind its length, with an encoded JSON message, or none where ``body`` is empty."""
    event = pb.Event(message=message_of(from_json(body)) if body else None, id=event_id or None, retry=retry_ms)
    written = io.BytesIO()
    serialize_length_prefixed(event, written)
    return written.getvalue()


def decode(body: bytes) -> Any:
    """The JSON value of a body. Raises ParseError for anything that is not exactly one message of ``mcp.proto``."""
    try:
        message = pb.Message.FromString(body)
    except DecodeError:
        raise _fault("the body is no message of mcp.proto") from None
    # What a decoder merges, overrides or passes over makes the message shorter: each message has one length.
    message.DiscardUnknownFields()
    if message.ByteSize() != len(body):
        raise _fault("the body has a field twice, an unknown field, or a number that is not the shortest")
    return value_of(message)


# From JSON.


def message_of(value: Any, level: int = 0) -> pb.Message:
    """The message that stands for a JSON value. ``level``: the number of lists around it."""
    message = pb.Message()
    if isinstance(value, dict):
        if not _write_message(message, value, level):
            _write(message.other, value, level)
    elif isinstance(value, list) and value and level == 0 and all(isinstance(member, dict) for member in value):
        message.batch.messages.extend([message_of(member, 1) for member in value])
    else:
        _write(message.other, value, level)
    return message


def _write_message(message: pb.Message, value: dict[str, Any], level: int) -> bool:
    """Write a JSON-RPC message whose members have the usual order; False for any other object."""
    if value.get("jsonrpc") != "2.0":
        return False
    request_id, method, params = value.get("id"), value.get("method"), value.get("params")
    match tuple(value):
        case ("jsonrpc", "id", "method") if _is_id(request_id) and isinstance(method, str):
            _write_id(message.request.id, request_id)
            message.request.method = method
        case ("jsonrpc", "id", "method", "params") if (
            _is_id(request_id) and isinstance(method, str) and isinstance(params, dict)
        ):
            _write_id(message.request.id, request_id)
            message.request.method = method
            _write_members(message.request.params, params, level + 1)
        case ("jsonrpc", "method") if isinstance(method, str):
            message.notification.method = method
        case ("jsonrpc", "method", "params") if isinstance(method, str) and isinstance(params, dict):
            message.notification.method = method
            _write_members(message.notification.params, params, level + 1)
        case ("jsonrpc", "id", "result") if _is_id(request_id):
            _write_id(message.response.id, request_id)
            _write(message.response.result, value["result"], level + 1)
        case ("jsonrpc", "id", "error") if _is_id(request_id):
            _write_id(message.error.id, request_id)
            _write(message.error.error, value["error"], level + 1)
        case ("jsonrpc", "error"):
            _write(message.error.error, value["error"], level + 1)
        case _:
            return False
    return True


def _is_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _write_id(target: pb.Id, value: Any) -> None:
    if isinstance(value, str):
        target.text = value
    elif value in _INT64:
        target.integer = value
    else:
        target.big_integer = str(value)


def _write_members(target: pb.Object, value: dict[str, Any], level: int) -> None:
    target.SetInParent()
    add = target.members.add
    for name, item in value.items():
        member = add()
        member.name = name
        _write(member.value, item, level + 1)


def _write(target: pb.Value, value: Any, level: int) -> None:
    """Write a value that lies in ``level`` lists and objects."""
    if isinstance(value, str):
        target.text = value
    elif value is None:
        target.null = pb.NULL
    elif isinstance(value, bool):
        target.boolean = value
    elif isinstance(value, int):
        if value in _INT64:
            target.integer = value
        else:
            target.big_integer = str(value)
    elif isinstance(value, float):
        target.number = value
    elif level >= MAX_LEVELS:
        target.json = jsonrpc.encode(value).decode()
    elif isinstance(value, dict):
        _write_members(target.object, value, level)
    else:
        target.list.SetInParent()
        add = target.list.values.add
        for item in value:
            _write(add(), item, level + 1)


# To JSON.


def value_of(message: pb.Message, level: int = 0) -> Any:
    """The JSON value that a message stands for. Raises ParseError."""
    match message.WhichOneof("kind"):
        case "request":
            request = message.request
            read = {"id": _id(request, request.id), "method": _method(request)}
            return _with_params({"jsonrpc": "2.0", **read}, request, level)
        case "notification":
            return _with_params(
                {"jsonrpc": "2.0", "method": _method(message.notification)}, message.notification, level
            )
        case "response":
            response = message.response
            return {"jsonrpc": "2.0", "id": _id(response, response.id), "result": _part(response, "result", level)}
        case "error":
            error = message.error
            named = {"id": _id(error, error.id)} if error.HasField("id") else {}
            return {"jsonrpc": "2.0", **named, "error": _part(error, "error", level)}
        case "batch" if level == 0 and message.batch.messages:
            return [value_of(member, 1) for member in message.batch.messages]
        case "other":
            return _read(message.other, level)
    raise _fault("a message is of no known kind")


def _id(holder: pb.Request | pb.Response | pb.Error, request_id: pb.Id) -> jsonrpc.RequestId:
    kind = request_id.WhichOneof("kind") if holder.HasField("id") else None
    if kind is None:
        raise _fault("a message has no id")
    if kind == "big_integer":
        return _big(request_id.big_integer)
    value: jsonrpc.RequestId = getattr(request_id, kind)
    return value


def _method(holder: pb.Request | pb.Notification) -> str:
    if not holder.HasField("method"):
        raise _fault("a message has no method")
    return holder.method


def _with_params(read: dict[str, Any], holder: pb.Request | pb.Notification, level: int) -> dict[str, Any]:
    if holder.HasField("params"):
        read["params"] = _members(holder.params, level + 1)
    return read


def _part(holder: pb.Response | pb.Error, name: Any, level: int) -> Any:
    if not holder.HasField(name):
        raise _fault(f"a message has no {name}")
    return _read(getattr(holder, name), level + 1)


def _members(source: pb.Object, level: int) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for member in source.members:
        if not (member.HasField("name") and member.HasField("value")):
            raise _fault("a member has no name or no value")
        name = member.name
        if name in read:
            raise _fault(f"an object has the member {name[:100]!r} twice")
        read[name] = _read(member.value, level + 1)
    return read


def _read(source: pb.Value, level: int) -> Any:
    """The value that lies in ``level`` lists and objects."""
    kind = source.WhichOneof("kind")
    match kind:
        case "text":
            return source.text
        case "integer":
            return source.integer
        case "boolean":
            return source.boolean
        case "null" if source.null == pb.NULL:
            return None
        case "number" if math.isfinite(source.number):
            return source.number
        case "big_integer":
            return _big(source.big_integer)
        case "object" if level < MAX_LEVELS:
            return _members(source.object, level)
        case "list" if level < MAX_LEVELS:
            return [_read(item, level + 1) for item in source.list.values]
        case "json" if level >= MAX_LEVELS:
            return _text(source.json, level)
    raise _fault(f"a value of the kind {kind} is not allowed here" if kind else "a value is of no known kind")


def _big(digits: str) -> int:
    if not _DIGITS.fullmatch(digits):
        raise _fault("a big_integer is not written in decimal digits, or needs no digits")
    value: int = jsonrpc.decode(digits)
    if value in _INT64:
        raise _fault("an integer of 64 bits is written in digits")
    return value


def _text(text: str, level: int) -> Any:
    """The value of JSON text, whose depth is bounded together with the ``level`` lists and objects around it."""
    value = jsonrpc.decode("[" * level + text + "]" * level)
    for _ in range(level):
        if len(value) != 1:
            raise _fault("a text is more than one JSON value")
        value = value[0]
    if not isinstance(value, dict | list):
        raise _fault("a text is no list and no object")
    return value


def _fault(message: str) -> ParseError:
    return ParseError(f"Parse error: {message}.")
