from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Null(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NULL: _ClassVar[Null]
NULL: Null

class Message(_message.Message):
    __slots__ = ("request", "notification", "response", "error", "batch", "other")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    request: Request
    notification: Notification
    response: Response
    error: Error
    batch: Batch
    other: Value
    def __init__(self, request: _Optional[_Union[Request, _Mapping]] = ..., notification: _Optional[_Union[Notification, _Mapping]] = ..., response: _Optional[_Union[Response, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., other: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("id", "method", "params")
    ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    id: Id
    method: str
    params: Object
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., method: _Optional[str] = ..., params: _Optional[_Union[Object, _Mapping]] = ...) -> None: ...

class Notification(_message.Message):
    __slots__ = ("method", "params")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    method: str
    params: Object
    def __init__(self, method: _Optional[str] = ..., params: _Optional[_Union[Object, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("id", "result")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    id: Id
    result: Value
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., result: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("id", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: Id
    error: Value
    def __init__(self, id: _Optional[_Union[Id, _Mapping]] = ..., error: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class Id(_message.Message):
    __slots__ = ("integer", "big_integer", "text")
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    BIG_INTEGER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    integer: int
    big_integer: str
    text: str
    def __init__(self, integer: _Optional[int] = ..., big_integer: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("null", "boolean", "integer", "big_integer", "number", "text", "list", "object", "json")
    NULL_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    BIG_INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    null: Null
    boolean: bool
    integer: int
    big_integer: str
    number: float
    text: str
    list: List
    object: Object
    json: str
    def __init__(self, null: _Optional[_Union[Null, str]] = ..., boolean: bool = ..., integer: _Optional[int] = ..., big_integer: _Optional[str] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., list: _Optional[_Union[List, _Mapping]] = ..., object: _Optional[_Union[Object, _Mapping]] = ..., json: _Optional[str] = ...) -> None: ...

class List(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Object(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: Value
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("message", "id", "retry")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    message: Message
    id: str
    retry: int
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., id: _Optional[str] = ..., retry: _Optional[int] = ...) -> None: ...
