"""``api://RESOURCE/KEY``: what the API shows of one record. It is watched by the changes of the view's model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from mcp_django.bridge.api import answers, calling, sending
from mcp_django.bridge.api.sending import Sent
from mcp_django.bridge.api.versions import asked_for
from mcp_django.bridge.api.views import is_of_rest, until_handler
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import ANY_READABLE_API
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

URI = "api://{resource}/{key}"


@dataclass(frozen=True)
class ApiTemplate(FunctionTemplate):
    """The records of one site's API."""

    site: Any = field(kw_only=True)

    @property
    def scope(self) -> str:
        return ANY_READABLE_API

    def is_available(self, request: MCPRequest) -> bool:
        return bool(self.site.api.records) and self.site.api.reaches(request, safe=True)

    def row_of(self, uri: str) -> tuple[str, str] | None:
        """The label of the model, and the key as it stands in the URI, where it is that of the row."""
        values = self.match(uri) or {}
        operation = self.site.api.records.get(values.get("resource", ""))
        if operation is None:
            return "", ""
        model = operation.model._meta.concrete_model
        return model._meta.label_lower, values["key"] if _is_by_primary_key(operation) else ""

    def find_row(self, request: MCPRequest, uri: str) -> str | None:
        """The primary key of the row, if the API shows it to the principal now; else None.

        The view is asked below the middleware, up to its handler and without throttles. Where the handler is the
        project's own, or something is around the view that cannot be asked without it, the record is read.
        """
        values = self.match(uri) or {}
        operation = self.site.api.records.get(values.get("resource", ""))
        if operation is None or self.site.api.find(request, operation.name) is None:
            return None
        sent = Sent(_path(operation, values["key"]), {})
        found: list[str] = []
        view = until_handler(operation, lambda view: found.append(str(view.get_object().pk)))
        try:
            if view is not None and _is_standard(operation):
                status = sending.ask(operation, request, sent, view, _status)
            else:
                status = sending.call(operation, request, sent, _status)
            if status == HTTPStatus.OK and not found:
                found.append(str(_row(operation, values["key"])))
        except (Exception, SystemExit):
            logger.warning("%s cannot be asked", operation.name, exc_info=True)
        return found[0] if found else None


def _is_by_primary_key(operation: Operation) -> bool:
    name = getattr(operation.view_class, "lookup_field", "pk")
    return operation.model is not None and name in ("pk", operation.model._meta.pk.name)


def _path(operation: Operation, key: str) -> Mapping[str, str]:
    [name] = asked_for(operation)
    return {name: key}


def _status(request: HttpRequest, response: HttpResponseBase) -> int:
    return response.status_code


def _is_standard(operation: Operation) -> bool:
    """Whether the handler of Django REST framework shows the record, and nothing of the project within it."""
    return is_of_rest(getattr(operation.view_class, operation.handler))


def _row(operation: Operation, key: str) -> Any:
    """The primary key of the row that is shown for a key. Raises an exception if that is not one row."""
    name, model = getattr(operation.view_class, "lookup_field", "pk"), operation.model
    return None if model is None else model._default_manager.values_list("pk", flat=True).get(**{name: key})


def records_of(operations: Mapping[str, Operation]) -> dict[str, Operation]:
    """Resource → the operation that shows one record, where the key is all that its path needs."""
    return {one.resource: one for one in operations.values() if _shows_record(one)}


def _shows_record(operation: Operation) -> bool:
    is_one = operation.is_rest and operation.action == "retrieve" and len(asked_for(operation)) == 1
    return is_one and operation.model is not None and hasattr(operation.view_class, "get_object")


def api_template(site: Any) -> ApiTemplate:
    return ApiTemplate(
        uri=URI,
        name="api",
        function=_read,
        title="A record of the API",
        description="What the API shows of one record. Watch it to learn when it changes.",
        mime_type="application/json",
        watch=True,
        site=site,
    )


def _read(request: MCPRequest, resource: str, key: str) -> JSON | None:
    exchange = cast("Exchange", request.mcp)
    operation = exchange.site.api.records.get(resource)
    if operation is None or exchange.site.api.find(request, operation.name) is None:
        return None
    try:
        answer = calling.call(exchange, operation, Sent(_path(operation, key), {}))
        found: JSON = answers.result(operation, answer, {}, {})
    except ToolError:
        return None
    exchange.usage.read(operation.model._meta.label_lower, 1)
    return cast("JSON | None", found.get("result"))
