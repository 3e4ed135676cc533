"""Operations of django-ninja, which describe themselves by their OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.api import answers, words
from mcp_django.bridge.api.answers import Answer
from mcp_django.bridge.api.identity import Identity
from mcp_django.bridge.api.views import NOT_TRIED, has_own_throttle
from mcp_django.core.compat.ninja_views import (
    details_of,
    operations_behind,
    page_size_of,
    refused_by,
    refused_by_authentication,
)
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from mcp_django.bridge.api.describing import Description
    from mcp_django.bridge.api.exposures import Exposure
    from mcp_django.bridge.api.operations import Operation

#: Classes of ``auth=`` that go by the login of the request.
_OF_LOGIN = ("SessionAuth", "SessionAuthIsStaff", "SessionAuthSuperUser")
_JSON = "application/json"
#: What its paginations call the page and its length.
_PAGES = ("page", "offset")
_SIZES = ("page_size", "limit")


class NinjaOperation:
    """What only django-ninja knows of an operation."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation

    @property
    def has_authentication(self) -> bool:
        return bool(self.operation.auth_callbacks)

    def identity(self, exposure: Exposure) -> Identity:
        """Whom it finds. Without ``auth=`` the function sees the login of the request, as over HTTP."""
        auths = self.operation.auth_callbacks
        if not auths or any(map(_is_of_login, auths)):
            return Identity.LOGIN
        return Identity.MACHINE

    @cached_property
    def _details(self) -> tuple[JSON, Mapping[str, Any]]:
        return details_of(self.operation)

    @property
    def content_type(self) -> str:
        """How its body is sent."""
        return next(iter(self._details[0].get("requestBody", {}).get("content", {})), _JSON)

    def declared(self) -> JSON:
        """What the inventory has of it, in the place of what views of DRF declare."""
        auths = [getattr(one, "__name__", type(one).__name__) for one in self.operation.auth_callbacks]
        names = [one["name"] for one in self._details[0].get("parameters", ()) if one["in"] == "query"]
        return {"who": auths, "authentication": auths, "filters": names, "serializer": "", "fields": []}

    def describe(self, found: Description, request: HttpRequest, kwargs: Mapping[str, Any]) -> None:
        from mcp_django.bridge.api.describing import Body

        details, definitions = self._details
        names = {}
        for one in details.get("parameters", ()):
            place, name = one["in"], one["name"]
            kind = words.of_schema(one.get("schema"), definitions)
            said = [kind, "required" if one.get("required") and place == "query" else "", one.get("description", "")]
            names[name] = ", ".join(str(part) for part in said if part)
            if place == "path":
                found.path[name] = names[name]
            elif place == "query":
                found.query[name] = names[name]
        found.pages = frozenset(name for name in (*_PAGES, *_SIZES) if name in found.query)
        found.size = next((name for name in _SIZES if name in found.query), "")
        for name in found.pages:
            del found.query[name]
        content = details.get("requestBody", {}).get("content", {})
        if content:
            schema = next(iter(content.values())).get("schema")
            found.body = _body(Body, schema, definitions)
        good = (one for status, one in details.get("responses", {}).items() if str(status).startswith("2"))
        shown: JSON = next((one["content"] for one in good if one.get("content")), {})
        returns = words.of_schema(shown[_JSON].get("schema"), definitions) if _JSON in shown else None
        found.returns = answers.without_secrets(returns, found.operation.exposure.show_secrets)

    def read(self, request: HttpRequest, response: HttpResponseBase, *, is_over: Callable[[], bool]) -> Answer:
        """As any answer. Errors name what an agent sends, and not the function's parameter that holds it."""
        answer = answers.read(request, response, is_over=is_over)
        details = answer.value.get("detail") if isinstance(answer.value, dict) else None
        if answer.is_done or not isinstance(details, list):
            return answer
        return replace(answer, value={**answer.value, "detail": [self._located(one) for one in details]})

    def _located(self, error: Any) -> Any:
        match error:
            case {"loc": [place, str(holder), first, *rest]} if holder not in self._sent_names:
                return {**error, "loc": [place, first, *rest]}
        return error

    @cached_property
    def _sent_names(self) -> Collection[str]:
        """The names of parameters and of the fields of the body."""
        details, definitions = self._details
        contents = details.get("requestBody", {}).get("content", {}).values()
        bodies = [_resolved(one.get("schema"), definitions).get("properties", {}) for one in contents]
        return {one["name"] for one in details.get("parameters", ())}.union(*bodies)

    def lets_in(self, request: HttpRequest) -> bool:
        """Whether its ``auth=`` lets the user in."""
        return not self.has_authentication or refused_by_authentication(self.operation, request) is None

    def ask(self, operation: Operation, request: HttpRequest, kwargs: Mapping[str, Any]) -> Answer | list[str]:
        """Whether it takes what is sent: see ``refused_by``. Returns what it answers, or notes."""
        is_limited = has_own_throttle(operation)
        if is_limited:
            refused = refused_by_authentication(self.operation, request)
        else:
            refused = refused_by(self.operation, request, kwargs)
        if refused is not None:
            return self.read(request, refused, is_over=lambda: False)
        return [NOT_TRIED] if is_limited else []

    def next_page(self, value: Any, sent: Mapping[str, Any]) -> JSON | None:
        """What to send for the next page: its paginations tell only how many rows there are."""
        if not isinstance(value, dict) or not isinstance(value.get("count"), int) or not value.get("items"):
            return None
        names = {one["name"] for one in self._details[0].get("parameters", ())}
        shown, sizes = len(value["items"]), {name: sent[name] for name in _SIZES if name in sent}
        if "offset" in names:
            end = int(sent.get("offset") or 0) + shown
            return {"offset": end, **sizes} if end < value["count"] else None
        if "page" in names:
            page = int(sent.get("page") or 1)
            # All pages but the last have the same length, so a shorter one would be told to have one more after it.
            size = int(next(iter(sizes.values()), page_size_of(self.operation) or shown))
            return {"page": page + 1, **sizes} if page * max(size, shown) < value["count"] else None
        return None


def _is_of_login(auth: Any) -> bool:
    return type(auth).__module__ == "ninja.security.session" and type(auth).__name__ in _OF_LOGIN


def _body(make: Any, schema: Any, definitions: Mapping[str, Any]) -> Any:
    resolved, is_list = _resolved(schema, definitions), False
    if resolved.get("type") == "array":
        resolved, is_list = _resolved(resolved.get("items"), definitions), True
    required = set(resolved.get("required", ()))
    fields = {
        name: _with(words.of_schema(one, definitions), "required" if name in required else "")
        for name, one in resolved.get("properties", {}).items()
    }
    return make(fields, is_open=not fields or bool(resolved.get("additionalProperties")), is_list=is_list)


def _with(kind: Any, said: str) -> Any:
    return f"{kind}, {said}" if said and isinstance(kind, str) else kind


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema in the place of a reference to it, or of the one that is not null."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        return _resolved(definitions.get(schema["$ref"].rpartition("/")[2]), definitions)
    for key in ("allOf", "anyOf"):
        options = [one for one in schema.get(key, ()) if one != {"type": "null"}]
        if len(options) == 1:
            return _resolved(options[0], definitions)
    return schema


def of_route(base: Operation) -> Iterator[Operation]:
    """The operations of a view of django-ninja."""
    for one in operations_behind(base.route.callback):
        text = one.summary or ""
        what = " ".join(filter(None, [text, (one.description or "").partition("\n\n")[0]]))
        resource = one.tags[0] if one.tags else ""
        for method in one.methods:
            if method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                yield replace(
                    base, method=method, resource=resource or base.resource, action=one.view_func.__name__,
                    what=" ".join(what.split()), native=NinjaOperation(one),
                )  # fmt: skip
