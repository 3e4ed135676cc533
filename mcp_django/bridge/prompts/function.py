"""Functions of the project as prompts, which make messages out of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined, to_json

from mcp_django.access.permissions import has_permission
from mcp_django.bridge.completion import Completion, CompletionFunction, among, suggested_by
from mcp_django.bridge.prompts.base import BasePrompt
from mcp_django.bridge.prompts.messages import messages_of
from mcp_django.bridge.signatures import Signature, name_and_description
from mcp_django.core.prompt_templates import Argument
from mcp_django.core.running.suspension import finishing
from mcp_django.exchange.functions import InvalidArguments
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


class FunctionPrompt(BasePrompt):
    """A function ``f(request, **arguments)`` whose parameters are the arguments and whose docstring is the description.

    The values come as texts and are read as the annotations say. Raises ImproperlyConfigured where the function cannot
    be a prompt.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        title: str = "",
        permission: str = "",
        complete: Mapping[str, CompletionFunction] | None = None,
    ) -> None:
        self.name, self._description = name_and_description("prompt", function, name)
        self.title = title
        self.permission = permission
        self._completers = dict(complete or {})
        self._signature = Signature(f"prompt {self.name}", function)
        if self._signature.files:
            raise ImproperlyConfigured(f"The prompt {self.name} has an argument that is a file. Only tools take files.")
        #: The values of each argument that can be listed, as a person would type them.
        self._known: dict[str, list[str]] = {}
        self._schema = self._signature.arguments.model_json_schema(by_alias=False)
        fields = self._signature.arguments.model_fields
        self.arguments = [self._argument(name, field) for name, field in fields.items()]
        if unknown := sorted(self._completers.keys() - fields.keys()):
            raise ImproperlyConfigured(
                f"complete= of the prompt {self.name} names {unknown[0]!r}, which is not an argument of it."
            )

    def _argument(self, name: str, field: FieldInfo) -> Argument:
        if field.validation_alias or not _can_be_text(self._schema, self._schema["properties"][name]):
            raise ImproperlyConfigured(
                f"The argument {name} of the prompt {self.name} comes as a text of that name, which cannot be read as "
                "its annotation. pydantic.Json[...] reads JSON."
            )
        hint = self._signature.hints[name]
        self._known[name], all_known = _known_values(hint)
        if wrong := next((value for value in self._known[name] if not _can_be_read(hint, value)), None):
            raise ImproperlyConfigured(
                f"The argument {name} of the prompt {self.name} comes as text, and its choice {wrong!r} cannot be read "
                "from a text. Use choices that are texts, or an IntEnum."
            )
        texts = [field.description or ""]
        if all_known:
            texts.append(f"One of: {', '.join(self._known[name])}.")
        if not field.is_required() and (default := _default_of(field)):
            texts.append(f"Default: {default}.")
        return Argument(name, field.is_required(), field.title or "", " ".join(text for text in texts if text))

    def get_description(self) -> str:
        return self._description

    def is_available(self, request: MCPRequest) -> bool:
        return has_permission(request, self.permission)

    def get_messages(self, exchange: Exchange, arguments: Mapping[str, str]) -> list[JSON]:
        call = partial(self._signature.call, exchange.request, self._read(exchange, arguments))
        return finishing(lambda run: messages_of(run()), call)

    def _read(self, exchange: Exchange, arguments: Mapping[str, str]) -> JSON:
        try:
            return self._signature.parse(exchange, arguments, strings=True)
        except InvalidArguments as error:
            # A form also sends the fields that were left blank.
            optional = {argument.name for argument in self.arguments if not argument.required}
            blank = {entry["field"].partition(".")[0] for entry in error.errors} & optional
            filled = {name: value for name, value in arguments.items() if value or name not in blank}
            if len(filled) == len(arguments):
                raise
        return self._read(exchange, filled)

    def complete(self, exchange: Exchange, name: str, typed: str, arguments: Mapping[str, str]) -> Completion:
        if name in self._completers:
            what = f"{name} of the prompt {self.name}"
            return suggested_by(self._completers[name], exchange.request, typed, arguments, what)
        if name in self._signature.models:
            return self._signature.complete(exchange, name, typed)
        return among(self._known[name], typed)


def _known_values(hint: Any) -> tuple[list[str], bool]:
    """The values of an annotation that can be listed, and whether these are all of its values."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _known_values(get_args(hint)[0])
    if origin in (Union, UnionType):
        options = [_known_values(option) for option in get_args(hint) if option is not NoneType]
        return [value for values, _ in options for value in values], all(closed for _, closed in options)
    if origin is Literal:
        return [_typed(value) for value in get_args(hint) if value is not None], True
    if hint is bool:
        return ["true", "false"], True
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [_typed(member.value) for member in hint], True
    return [], False


def _can_be_read(hint: Any, value: str) -> bool:
    try:
        TypeAdapter(hint).validate_strings(value)
    except ValidationError:
        return False
    return True


def _default_of(field: FieldInfo) -> str:
    """The default as a person would type it. Empty where there is none, and where a factory makes it."""
    default = field.default.value if isinstance(field.default, Enum) else field.default
    if default is None or default is PydanticUndefined:
        return ""
    return default if isinstance(default, str) else to_json(default, fallback=str).decode().strip('"')


def _typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _can_be_text(root: JSON, schema: JSON) -> bool:
    """Whether a text can be a value of the schema, or be read as one."""
    if "$ref" in schema:
        return _can_be_text(root, root["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return any(_can_be_text(root, option) for option in schema["anyOf"])
    return schema.get("type") not in ("array", "object", "null")
