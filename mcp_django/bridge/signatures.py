"""Signatures: the typed arguments of a project's function ``f(request, **arguments)``, read from its annotations."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist, PermissionDenied
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.files import File
from django.db import models
from django.utils.functional import cached_property
from pydantic import BaseModel, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo

from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.bridge.resources.completers import complete_key
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading.keys import no_record
from mcp_django.bridge.resources.reading.returned import NO_OBJECT
from mcp_django.bridge.uploads.files import NO_UPLOAD, SCHEME, StoredUpload, open_upload
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.running.suspension import finishing
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.exchange.functions import InvalidArguments, call_function
from mcp_django.protocol.json_schema.plain import is_plain
from mcp_django.protocol.names import NAME, ascii_name
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


def name_and_description(kind: str, function: Callable[..., Any], name: str) -> tuple[str, str]:
    """The name and the description of a declared ``kind`` ("tool"). Raises ImproperlyConfigured."""
    name = name or function.__name__
    description = inspect.getdoc(function) or ""
    if not description:
        raise ImproperlyConfigured(f"The {kind} {name} needs a docstring, which tells agents what it does.")
    if not NAME.fullmatch(name):
        raise ImproperlyConfigured(
            f"The name of the {kind} {name!r} must be 1 to 64 letters, digits, _ and -, or clients refuse it. "
            "Give it another name=."
        )
    return name, description


#: What arguments are annotated with.
_VALUES = (str, int, float, Decimal, date, UUID, list, dict, models.Model)
#: What a function may return that yields on an event loop.
ASYNC_ITERATORS = (AsyncIterator, AsyncGenerator, AsyncIterable)


class Signature:
    """The typed arguments of a function.

    An argument annotated with a model takes a primary key, and the function receives the instance, looked up in the
    rows that the principal may see. One annotated with Django's ``UploadedFile`` takes the URI of an upload.
    """

    def __init__(self, what: str, function: Callable[..., Any], *, in_ascii: bool = False) -> None:
        """``what`` is the function's name in errors, such as "tool book". Raises ImproperlyConfigured.

        ``in_ascii``: an argument of another name is called as ``ascii_name`` has it.
        """
        self.what = what
        self.function = function
        #: The models that arguments are annotated with.
        self.models: dict[str, type[models.Model]] = {}
        #: The names of the arguments that are files.
        self.files: list[str] = []
        #: Name → what agents call the argument, where that is another name.
        self.called: dict[str, str] = {}
        try:
            self.hints = get_type_hints(function, include_extras=True)
            #: The arguments as a pydantic model. In the place of a Django model it has the primary key.
            parameters = self._parameters()
            if in_ascii:
                self.called = {one.name: ascii_name(one.name) for one in parameters if not one.name.isascii()}
            self.arguments: type[BaseModel] = create_model(
                f"{function.__name__}_arguments",
                **{one.name: self._called(one.name, *self._field(one)) for one in parameters},
            )
            self.arguments.model_json_schema()
        except (PydanticUserError, NameError) as error:
            raise ImproperlyConfigured(f"An annotation of the {what} cannot be used: {error}") from error

    def _called(self, name: str, hint: Any, default: Any) -> Any:
        return (Annotated[hint, Field(alias=self.called[name])] if name in self.called else hint), default

    def _parameters(self) -> list[inspect.Parameter]:
        parameters = list(inspect.signature(self.function).parameters.values())
        if not parameters:
            raise ImproperlyConfigured(f"The {self.what} must take the request as its first parameter.")
        if _is_of_value(self.hints.get(first := parameters[0].name)):
            raise ImproperlyConfigured(f"The {self.what} must take the request as its first parameter, before {first}.")
        for parameter in parameters[1:]:
            starred = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if starred or parameter.name not in self.hints:
                raise ImproperlyConfigured(f"The parameter {parameter.name} of the {self.what} needs an annotation.")
        return parameters[1:]

    def _field(self, parameter: inspect.Parameter) -> Any:
        default = ... if parameter.default is parameter.empty else parameter.default
        hint = self.hints[parameter.name]
        found, optional, metadata = class_of(hint, (models.Model, File))
        if found is None:
            return hint, default
        given = next((item for item in metadata if isinstance(item, FieldInfo)), FieldInfo())
        key: Any
        if issubclass(found, File):
            if not issubclass(StoredUpload, found):
                raise ImproperlyConfigured(f"The argument {parameter.name} may be an UploadedFile, but not {found}.")
            self.files.append(parameter.name)
            key, described = str, given.description
            extra: Any = {"format": "uri", "pattern": f"^{SCHEME}"}
        else:
            self.models[parameter.name] = model = cast("type[models.Model]", found)
            key = int | str if isinstance(model._meta.pk, models.AutoField | models.IntegerField) else str
            described = f"{given.description or ''} Primary key of a {model._meta.label_lower}.".strip()
            extra = given.json_schema_extra
        info = FieldInfo(title=given.title, description=described, json_schema_extra=extra)
        return Annotated[key | None if optional else key, info], default

    @cached_property
    def is_plain(self) -> bool:
        """Whether arguments are read without the database and without code of the project."""
        return all(
            is_plain(self.hints[one.name]) and not isinstance(one.default, FieldInfo) for one in self._parameters()
        )

    def parse(self, exchange: Exchange, arguments: Mapping[str, Any], *, strings: bool = False) -> JSON:
        """The values to call the function with. ``strings``: all arguments are texts. Raises InvalidArguments."""
        read = self.arguments.model_validate_strings if strings else self.arguments.model_validate
        try:
            parsed = read(arguments)
        except ValidationError as error:
            raise InvalidArguments(
                [
                    field_error(
                        ".".join(str(part) for part in detail["loc"]),
                        detail["msg"],
                        # For a missing argument, pydantic gives the object that lacks it.
                        None if detail["type"] == "missing" else detail["input"],
                    )
                    for detail in error.errors(include_url=False, include_context=False)
                ]
            ) from None
        values = {name: getattr(parsed, name) for name in type(parsed).model_fields}
        errors: list[FieldError] = []
        for name, model in self.models.items():
            if values[name] is not None:
                try:
                    values[name] = _instance(exchange, name, model, values[name])
                except InvalidArguments as error:
                    errors += error.errors
        for name in self.files:
            if values[name] is not None:
                try:
                    values[name] = open_upload(exchange, values[name])
                except LookupError:
                    errors.append(field_error(name, NO_UPLOAD, values[name]))
        if errors:
            is_gone = {error["field"] for error in errors} <= self.models.keys()
            raise InvalidArguments(errors, reason="NO_RECORD" if is_gone else "INVALID_ARGUMENTS")
        if self.files and is_asynchronous(self.function, self.hints.get("return")):
            for name in self.files:
                if values[name] is not None:
                    values[name].fetch()  # Its body runs on the loop, where nothing may wait for a storage.
        return values

    def complete(self, exchange: Exchange, name: str, typed: str) -> Completion:
        """Keys of rows, for an argument that is annotated with their model."""
        named = {called: one for one, called in self.called.items()}
        model = self.models.get(named.get(name, name))
        rights = None if model is None else Rights.of(exchange.site, exchange.request).of_model(model)
        return NOTHING if rights is None else complete_key(rights, typed, search=True)

    def call(self, request: MCPRequest, values: JSON) -> Any:
        """The function's return value. Raises ToolError if it refuses, with an exception of Django's or of ours."""
        return call_handler(self.function, request, values, name=self.what)


def is_asynchronous(function: Callable[..., Any], returned: Any) -> bool:
    """Whether the function, or the iterator that it returns by its annotation, runs on an event loop."""
    if inspect.isgeneratorfunction(function):
        return False
    is_marked = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return is_marked or (get_origin(returned) or returned) in ASYNC_ITERATORS


def call_handler(
    function: Callable[..., Any], request: MCPRequest, values: JSON, *, name: str, on_loop: bool = True
) -> Any:
    """``function(request, **values)``. Exceptions of Django become ToolErrors whose texts reveal nothing.

    ``name`` and ``on_loop`` are those of ``call_function``, which may raise Suspended.
    """
    return finishing(_explained, partial(call_function, function, request, values, name=name, on_loop=on_loop))


def _explained(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except PermissionDenied:
        raise ToolError("You may not do this.", reason="NO_PERMISSION") from None
    except ObjectDoesNotExist:
        raise ToolError(NO_OBJECT, reason="NO_RECORD") from None
    except DjangoValidationError as error:
        raise ToolError("; ".join(error.messages)) from None


def _instance(exchange: Exchange, name: str, model: type[models.Model], key: Any) -> models.Model:
    rights = Rights.of(exchange.site, exchange.request).of_model(model)
    found = None if rights is None else _visible_instance(rights, key)
    if found is None:
        unknown = f"no {model._meta.label_lower} with the primary key {str(key)[:100]}."
        message = unknown if rights is None else no_record(rights, key)
        raise InvalidArguments([field_error(name, message, key)])
    return found


def _visible_instance(rights: ModelRights, key: Any) -> models.Model | None:
    keys = visible_rows.visible_keys(rights, [key])
    return rights.rows().filter(has_key_in(rights.model, keys)).first() if keys else None


def _is_of_value(hint: Any) -> bool:
    """Whether an annotation is that of an argument, and not of a request."""
    if hasattr(hint, "__metadata__"):
        hint = get_args(hint)[0]
    hint = get_origin(hint) or hint
    return hint is Literal or (isinstance(hint, type) and issubclass(hint, _VALUES))


def class_of(hint: Any, bases: tuple[type, ...]) -> tuple[type | None, bool, tuple[Any, ...]]:
    """The subclass of one of the bases in an annotation, whether None is allowed too, and its metadata."""
    metadata: tuple[Any, ...] = getattr(hint, "__metadata__", ())
    if metadata:
        hint = get_args(hint)[0]
    options = [hint] if get_origin(hint) is None else list(get_args(hint))
    found = [item for item in options if isinstance(item, type) and issubclass(item, bases)]
    if not found:
        return None, False, metadata
    is_generic = get_origin(hint) not in (None, Union, UnionType)
    if is_generic or len(found) > 1 or any(item not in (found[0], type(None)) for item in options):
        what = "file" if issubclass(found[0], File) else "model"
        raise ImproperlyConfigured(f"An argument may be one {what}, or one {what} or None, but not {hint}.")
    return found[0], type(None) in options, metadata
