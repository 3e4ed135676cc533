"""Functions that take a form or a serializer of the project: bound to what the agent gives, and valid."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import UploadedFile
from django.forms import BaseForm
from django.utils.datastructures import MultiValueDict
from django.utils.timezone import get_current_timezone
from rest_framework.serializers import Serializer

from mcp_django.bridge.api import field_schemas
from mcp_django.bridge.tools.function import FunctionTool
from mcp_django.bridge.uploads.files import NO_UPLOAD, SCHEME, open_upload
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.exceptions import field_error
from mcp_django.exchange.functions import InvalidArguments
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

#: Parameters of a form's constructor that are given to it where it has them.
_OF_REQUEST: Mapping[str, Callable[[Any], Any]] = {
    "request": lambda request: request,
    "user": lambda request: request.user,
}


class FieldsTool(FunctionTool):
    """A function ``f(request, form)`` or ``f(request, serializer)``. Its arguments are the fields.

    What is missing, the form or the serializer says itself.
    """

    def __init__(
        self, function: Callable[..., Any], *, form: Any = None, serializer: Any = None, **options: Any
    ) -> None:
        if (form is None) is (serializer is None) or options.get("input_schema") is not None:
            raise ImproperlyConfigured("A tool takes one of form=, serializer= and input_schema=.")
        self._form, self._serializer = form, serializer
        _check_class("form", form, BaseForm)
        _check_class("serializer", serializer, Serializer)
        schema = field_schemas.of_serializer(serializer()) if form is None else field_schemas.of_form(form.base_fields)
        options["input_schema"] = schema
        super().__init__(function, **options)
        self._given = Schema(_without_required(schema))
        properties = schema["properties"]
        self.file_arguments = [name for name, one in properties.items() if one.get("format") == "binary"]

    def _values(self, exchange: Exchange, arguments: JSON) -> JSON:
        given = {**arguments, **self._files(exchange, arguments)}
        bound = self._bound_form(exchange.request, given) if self._form is not None else self._bound(exchange, given)
        if not bound.is_valid():
            raise InvalidArguments(list(field_schemas.errors_in(bound.errors)))
        return {self._parameter: bound}

    def _files(self, exchange: Exchange, arguments: JSON) -> JSON:
        """The files of the uploads that are given. Raises InvalidArguments."""
        found: JSON = {}
        for name in self.file_arguments:
            uri = arguments.get(name)
            if uri is None:
                continue
            try:
                found[name] = open_upload(exchange, uri if uri.startswith(SCHEME) else "")
            except LookupError:
                raise InvalidArguments([field_error(name, NO_UPLOAD, uri)]) from None
        return found

    def _bound(self, exchange: Exchange, given: JSON) -> Any:
        return self._serializer(data=given, context={"request": exchange.request})

    def _bound_form(self, request: MCPRequest, given: JSON) -> Any:
        """The form with what a page of it would send: what is not given keeps what the form shows."""
        names = inspect.signature(self._form.__init__).parameters
        more = {name: find(request) for name, find in _OF_REQUEST.items() if name in names}
        shown, data, files = self._form(**more), FormData(get_current_timezone()), MultiValueDict[str, Any]()
        for name in shown.fields:
            value = given.get(name)
            if isinstance(value, UploadedFile):
                files[shown[name].html_name] = value
            else:
                data.write(shown[name], value if name in given else shown[name].initial)
        return self._form(data=data.post(), files=files, **more)


def _check_class(option: str, value: Any, base: type) -> None:
    """Raises ImproperlyConfigured for what is no class of forms, or of serializers."""
    if value is not None and not (isinstance(value, type) and issubclass(value, base)):
        raise ImproperlyConfigured(f"{option}= of a tool takes a subclass of {base.__name__}, and not {value!r:.100}.")


def _without_required(schema: Any) -> Any:
    """A schema by which nothing is missing, at any depth."""
    if isinstance(schema, list):
        return [_without_required(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _without_required(one) for name, one in schema.items() if name not in ("required", "properties")}
    if "properties" in schema:
        found["properties"] = {name: _without_required(one) for name, one in schema["properties"].items()}
    return found
