"""Resources that a project declares as functions, with ``@resource``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model
from pydantic_core import PydanticSerializationError

from mcp_django.access.permissions import has_permission
from mcp_django.bridge.declared import returned
from mcp_django.content import write_annotations
from mcp_django.core.hooks import call_hook
from mcp_django.core.running.suspension import finishing
from mcp_django.core.running.workers import run_function
from mcp_django.exchange.functions import call_function
from mcp_django.exchange.scopes import READ
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


#: Gives what is shown of a value that a function has returned.
Shown = Callable[[Any], Any]


@dataclass(frozen=True)
class DeclaredByFunction:
    """What a resource and a resource template have in common.

    Raises ImproperlyConfigured for invalid annotations, for a ``watch`` that is no bool and no list of models, and for
    a function whose annotation promises what it cannot return.
    """

    #: The URI, or the template.
    uri: str
    name: str
    function: Callable[..., Any]
    title: str = ""
    description: str = ""
    mime_type: str = "text/plain"
    #: The permission that the principal's user must have, as ``app.codename``. Empty: every principal.
    permission: str = ""
    #: ``audience`` and ``priority``, as clients get them.
    annotations: Mapping[str, Any] = field(default_factory=dict)
    #: The models whose changes are changes of the resource. True: the project reports them. False: nobody does.
    watch: bool | Sequence[type[Model]] = False

    def __post_init__(self) -> None:
        if not isinstance(self.watch, bool) and not _are_models(self.watch):
            raise ImproperlyConfigured(f"{self.uri}: watch= is True or a list of models, and not {self.watch!r}.")
        try:
            write_annotations(**self.annotations, last_modified=None)
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"{self.uri}: annotations={dict(self.annotations)!r}: {error}") from None
        self._check_returned()

    def _check_returned(self) -> None:
        try:
            annotation = get_type_hints(self.function, include_extras=True).get("return")
        except (NameError, TypeError):
            return  # A name that only a type checker knows, or no function.
        owner = f"The resource {self.uri}"
        if returned.rows_of(annotation, owner) is None:
            returned.check_parts(annotation, owner)

    @property
    def scope(self) -> str:
        """The scope that a token needs for it."""
        return READ

    def is_available(self, request: MCPRequest) -> bool:
        return has_permission(request, self.permission)

    @property
    def watched_models(self) -> Sequence[type[Model]]:
        return () if isinstance(self.watch, bool) else self.watch

    def row_of(self, uri: str) -> tuple[str, str] | None:
        """The label of a model, and the key of its row whose changes alone are changes of the resource.

        None: it changes when it is reported, or with the models of ``watch``. An empty key: ``find_row`` tells it.
        """
        return None

    def find_row(self, request: MCPRequest, uri: str) -> str | None:
        """The primary key of that row, if the principal may see the resource now; else None."""
        return None

    def spelled(self, uri: str) -> str:
        """The URI in the one spelling by which its changes are reported."""
        return uri

    def describe_as(self, key: str) -> JSON:
        """The members that both have. ``key`` is the name of the URI's member: ``uri`` or ``uriTemplate``."""
        described: JSON = {key: self.uri, "name": self.name, "mimeType": self.mime_type}
        if self.title:
            described["title"] = self.title
        if self.description:
            described["description"] = self.description
        return described


@dataclass(frozen=True)
class FunctionResource(DeclaredByFunction):
    """A resource at one URI. A function of the request returns its contents: text, bytes, or any JSON value."""

    #: A function of the request that returns the time of the last change, or None if that is not known.
    last_modified: Callable[..., datetime | None] | None = None
    #: The number of bytes of the contents, if it never changes.
    size: int | None = None

    def describe(self, request: MCPRequest, *, dated: bool = True) -> JSON:
        described = self.describe_as("uri")
        if self.size is not None:
            described["size"] = self.size
        function = self.last_modified if dated else None
        moment = (
            None
            if function is None
            else call_hook(lambda: run_function(function, request), None, f"last_modified of {self.uri}")
        )
        if annotations := write_annotations(**self.annotations, last_modified=moment):
            described["annotations"] = annotations
        return described

    def read(self, request: MCPRequest, uri: str, shown: Shown) -> JSON | None:
        """The contents."""
        call = partial(call_function, self.function, request, {}, name=f"resource {self.uri}")
        return finishing(lambda run: contents(uri, self.mime_type, shown(run())), call)


def _are_models(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(one, type) and issubclass(one, Model) and hasattr(one, "_meta") for one in value)
        and not any(one._meta.abstract for one in value)
    )


def contents(uri: str, mime_type: str, value: Any) -> JSON:
    """Contents of a resource, ``{uri, mimeType, text}`` or ``{uri, mimeType, blob}``. Raises TypeError."""
    from mcp_django.protocol.jsonrpc import encode

    if isinstance(value, bytes | bytearray | memoryview):
        return {"uri": uri, "mimeType": mime_type, "blob": base64.b64encode(value).decode()}
    try:
        text = value if isinstance(value, str) else encode(value).decode()
    except PydanticSerializationError as error:
        raise TypeError(returned.has_no_json(f"The resource {uri}", error)) from error
    return {"uri": uri, "mimeType": mime_type, "text": text}
