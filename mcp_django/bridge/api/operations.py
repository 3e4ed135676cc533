"""The operations of an API: one method of one URL. Found in the URLconf, named, and each with how its view is made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from django.core.exceptions import ImproperlyConfigured
from django.db import models

from mcp_django.bridge.api import sources
from mcp_django.bridge.api.exposures import FormPages
from mcp_django.bridge.api.routes import Route, served_routes
from mcp_django.core.compat.ninja_views import is_ninja_api, operations_behind
from mcp_django.exchange.scopes import READ, WRITE, of_api

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.api.exposures import Exposure

#: Methods that change nothing (RFC 9110 §9.2.1). An agent needs no others of this kind.
SAFE = ("GET",)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

#: The class of DRF that says what a method does → the name of the action.
_MIXINS: Mapping[str, Sequence[tuple[str, str]]] = {
    "GET": (("ListModelMixin", "list"), ("RetrieveModelMixin", "retrieve")),
    "POST": (("CreateModelMixin", "create"),),
    "PUT": (("UpdateModelMixin", "update"),),
    "PATCH": (("UpdateModelMixin", "partial_update"),),
    "DELETE": (("DestroyModelMixin", "destroy"),),
}
#: Handlers of asynchronous viewsets (adrf) → the action.
_ASYNC: Mapping[str, str] = {
    "partial_aupdate": "partial_update",
    **{f"a{action}": action for found in _MIXINS.values() for _, action in found},
}
_OF_ROUTERS = re.compile("-(?:list|detail)$")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, eq=False)
class Operation:
    """One method of one URL of the project."""

    exposure: Exposure
    route: Route
    method: str
    resource: str
    action: str
    #: The class of DRF or Django that the URL was made of; None for a plain function.
    view_class: Any = None
    #: The name of the method of that class that answers.
    handler: str = ""
    #: The project's documentation of the operation, beside that of its handler.
    what: str = ""
    #: The name that it would have if no other operation had it. What guards it by that name guards it still.
    first_name: str = ""
    #: What only its kind of view knows: an operation of django-ninja.
    native: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.action}"

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE

    @property
    def consent(self) -> Any:
        """What a change needs: as ``consent=`` says of it, or else by its method."""
        return _of_name(self.exposure.consent, self.name, self.first_name) or self.usual_consent

    @property
    def usual_consent(self) -> Literal["ask", "preview"]:
        return "ask" if self.method == "DELETE" else "preview"

    @property
    def is_tried(self) -> bool:
        """Whether it is run for its preview, and rolled back."""
        return _of_name(self.exposure.preview, self.name, self.first_name) is not None

    @cached_property
    def scope(self) -> str:
        return of_api(self.resource, READ if self.is_safe else WRITE)

    @property
    def is_rest(self) -> bool:
        """Whether a view of Django REST framework answers."""
        from rest_framework.views import APIView

        return isinstance(self.view_class, type) and issubclass(self.view_class, APIView)

    @property
    def initkwargs(self) -> Mapping[str, Any]:
        return _attribute(self.route.callback, "initkwargs") or _attribute(self.route.callback, "view_initkwargs") or {}

    def option(self, name: str, otherwise: Any = None) -> Any:
        """What the URL, or else the class of the view, says of an option such as ``parser_classes``."""
        return self.initkwargs.get(name, getattr(self.view_class, name, otherwise))

    @property
    def actions(self) -> Mapping[str, str]:
        """Method → action of a viewset; empty for other views."""
        return _attribute(self.route.callback, "actions") or {}

    @cached_property
    def model(self) -> type[Model] | None:
        """The model of its view, as far as it is known without a request."""
        return _model_of(self.view_class, self.initkwargs)


#: Actions whose body the serializer of the view reads.
BY_SERIALIZER = ("create", "update", "partial_update")


def matches(name: str, pattern: str) -> bool:
    """Whether the name of an operation is meant by a name in which ``*`` stands for anything."""
    return name == pattern or fnmatchcase(name, pattern)


def _of_name(options: Mapping[str, Any] | None, *names: str) -> Any:
    """The value for the first name that has one: that of its exact name, or of the first pattern that means it."""
    found = options or {}
    exact = (found[name] for name in names if name in found)
    meant = (value for name in names for one, value in found.items() if matches(name, one))
    return next(exact, next(meant, None))


def _model_of(cls: Any, initkwargs: Mapping[str, Any]) -> type[Model] | None:
    queryset = initkwargs.get("queryset", getattr(cls, "queryset", None))
    serializers = (getattr(cls, "serializer_class", None), initkwargs.get("serializer_class"))
    of_serializers = (getattr(getattr(one, "Meta", None), "model", None) for one in serializers)
    found = (getattr(queryset, "model", None), *of_serializers, getattr(cls, "model", None))
    known = next((one for one in found if isinstance(one, type)), None)
    return known if known is not None or cls is None else _named_model(cls)


def _named_model(cls: Any) -> type[Model] | None:
    """The model of what the view's own methods return, where only a request would tell it."""
    for method in ("get_serializer_class", "get_queryset"):
        for one in sources.returned_by(getattr(cls, method, None)):
            model = getattr(getattr(one, "Meta", None), "model", one)
            if isinstance(model, type) and issubclass(model, models.Model):
                return model
    return None


def find(exposure: Exposure) -> Iterator[Operation]:
    """The operations that the target of an exposure names, of all that the URLconf serves. Their names may be equal."""
    named, seen = _target(exposure.target), set()
    for route in served_routes():
        if route.regex in seen:
            continue  # The first URL with a path answers it.
        seen.add(route.regex)
        if not named(route) or "format" in _names_of(route):
            continue
        yield from _of_route(exposure, route)


def _names_of(route: Route) -> Sequence[str]:
    try:
        return route.names
    except NotImplementedError:  # An alternative in a regular expression, of which Django makes no path either.
        return ("format",)


def _target(target: Any) -> Any:
    """Whether a route is one that the target of ``expose`` names."""
    if isinstance(target, FormPages):
        return lambda route: route.full_name in target.names
    if isinstance(target, str):
        prefix = f"/{target.strip('/^')}".rstrip("/")
        return lambda route: f"{route.text}/".startswith(f"{prefix}/")
    if hasattr(target, "registry") and hasattr(target, "urls"):
        registered = {(cls, basename) for _, cls, basename in target.registry}
        callbacks = {id(one.callback) for one in target.urls if hasattr(one, "callback")}
        return lambda route: (
            id(route.callback) in callbacks
            or (_view_class(route.callback), (_attribute(route.callback, "initkwargs") or {}).get("basename"))
            in registered
        )
    if is_ninja_api(target):
        return lambda route: any(one.api is target for one in operations_behind(route.callback))
    if isinstance(target, type):
        return lambda route: _view_class(route.callback) is target
    if callable(target):
        cls = _view_class(target)
        return lambda route: (
            target in _layers(route.callback) or (cls is not None and _view_class(route.callback) is cls)
        )
    raise ImproperlyConfigured(what_is_no_target(target))


def what_is_no_target(target: Any) -> str:
    """Why ``expose`` cannot take this; empty where it can."""
    is_router = hasattr(target, "registry") and hasattr(target, "urls")
    if isinstance(target, FormPages | str | type) or is_router or is_ninja_api(target) or callable(target):
        return ""
    return f"expose() takes a router, a path, a view or a NinjaAPI, and not {target!r:.100}."


def _layers(callback: Any) -> Iterator[Any]:
    """A view and the functions that its decorators have wrapped."""
    while callback is not None:
        yield callback
        callback = getattr(callback, "__wrapped__", None)


def _attribute(callback: Any, name: str) -> Any:
    """What ``as_view`` has set on a view, whichever decorators it has."""
    return next((getattr(one, name) for one in _layers(callback) if getattr(one, name, None) is not None), None)


def _view_class(callback: Any) -> Any:
    return _attribute(callback, "cls") or _attribute(callback, "view_class")


def _of_route(exposure: Exposure, route: Route) -> Iterator[Operation]:
    from rest_framework.routers import APIRootView
    from rest_framework.schemas.views import SchemaView

    cls, actions = _view_class(route.callback), _attribute(route.callback, "actions")
    base = Operation(exposure, route, "GET", _resource(route, cls), "", view_class=cls)
    if isinstance(exposure.target, FormPages):
        from mcp_django.bridge.api import forms

        yield from forms.of_route(base)
        return
    if operations_behind(route.callback):
        from mcp_django.bridge.api import ninja

        base = replace(base, resource=_end_of(route))
        yield from (replace(one, resource=_plain(one.resource)) for one in ninja.of_route(base))
        return
    if isinstance(cls, type) and (
        issubclass(cls, APIRootView | SchemaView) or cls.__module__.startswith("drf_spectacular.")
    ):
        return
    for method in _METHODS:
        handler = actions.get(method.lower(), "") if actions else _handler(base, method)
        if handler:
            yield replace(base, method=method, handler=handler, action=_action(base, method, handler))


def _handler(base: Operation, method: str) -> str:
    """The method of the class that answers; of a plain function, which takes any, the one that changes nothing."""
    name = method.lower()
    if base.view_class is None:
        return name if method == "GET" else ""
    return name if name in base.option("http_method_names", ()) and hasattr(base.view_class, name) else ""


def _resource(route: Route, cls: Any) -> str:
    """What the operations of a URL are about: the basename of a router, the URL's name, or the end of its path."""
    basename = (_attribute(route.callback, "initkwargs") or {}).get("basename")
    if basename:
        return _plain(basename)
    if route.url_name:
        return _plain(_OF_ROUTERS.sub("", route.url_name))
    return _plain(_end_of(route) or getattr(cls, "__name__", "root"))


def _end_of(route: Route) -> str:
    """The last fixed part of a path."""
    fixed = [part for part in route.text.split("/") if part and "{" not in part]
    return fixed[-1] if fixed else ""


def _plain(name: str) -> str:
    return _NO_NAME.sub("-", name).strip("-") or "root"


def _action(operation: Operation, method: str, handler: str) -> str:
    if operation.actions:
        return _ASYNC.get(handler, handler)
    names = [cls.__name__ for cls in getattr(operation.view_class, "__mro__", ())]
    return next((action for mixin, action in _MIXINS[method] if mixin in names), method.lower())


def with_distinct_names(operations: Iterable[Operation]) -> list[Operation]:
    """The operations, each with a name of its own: by method, namespace, path, and at last a number."""
    found = [replace(one, first_name=one.name) for one in operations]
    for rename in (_by_method, _by_namespace, _by_path):
        counts = Counter(one.name for one in found)
        found = [rename(one) if counts[one.name] > 1 else one for one in found]
    numbers: Counter[str] = Counter()
    for index, one in enumerate(found):
        numbers[one.name] += 1
        if numbers[one.name] > 1:
            found[index] = replace(one, action=f"{one.action}-{numbers[one.name]}")
    return found


def shared_names(before: Iterable[Operation], after: Iterable[Operation]) -> dict[str, list[str]]:
    """Names that only a path or a number tells apart → the names that the operations have got."""
    found: dict[str, list[str]] = {}
    for was, one in zip(before, after, strict=True):
        if one.name not in (
            was.name,
            _by_method(was).name,
            _by_namespace(was).name,
            _by_namespace(_by_method(was)).name,
        ):
            found.setdefault(was.name, []).append(one.name)
    return found


def _by_method(one: Operation) -> Operation:
    """One action may answer several methods of a URL."""
    if one.native is not None:
        methods = list(getattr(getattr(one.native, "operation", None), "methods", ()))
    else:
        methods = [method for method, handler in one.actions.items() if handler == one.handler]
    return replace(one, action=f"{one.action}-{one.method.lower()}") if len(methods) > 1 else one


def _by_namespace(one: Operation) -> Operation:
    spaces = "-".join(map(_plain, one.route.namespaces))
    return replace(one, resource=f"{spaces}-{one.resource}") if spaces else one


def _by_path(one: Operation) -> Operation:
    return replace(one, resource=_plain(one.route.text.replace("/", "-")))
