"""The view of an operation, made as a call makes it and asked without being run: what it takes, and whom it lets in."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation

logger = logging.getLogger("mcp_django")

#: What a method has in its source that reads a body itself, or says how it is read.
_READING = ("data", "partial=", 'partial"', "partial'", "erializer")
#: What a permission calls what is sent, in its source.
_SENT = ("kwargs", "query_params", ".data", ".GET", ".POST", ".path", "resolver_match", "get_full_path")
#: A note of a plan: values could be guessed by it.
NOT_TRIED = "Its view has a throttle of its own, so it was not asked whether it takes these values."


def made_view(operation: Operation, request: HttpRequest, kwargs: Mapping[str, Any]) -> Any:
    """A view of Django REST framework as it is when its handler begins, without what it checks and counts before.

    ``request`` is that of an InnerCall, below the middleware. Raises what the project raises.
    """
    view: Any = operation.view_class(**operation.initkwargs)
    if operation.actions:
        view.action_map = operation.actions
    # As ``View.setup`` and ``APIView.dispatch``.
    view.args, view.kwargs, view.headers = (), dict(kwargs), {}
    view.swagger_fake_view = True
    view.request = request
    view.request = rest = view.initialize_request(request, **kwargs)
    view.format_kwarg = None
    rest.accepted_renderer, rest.accepted_media_type = view.perform_content_negotiation(rest, force=True)
    rest.version, rest.versioning_scheme = view.determine_version(rest, **kwargs)
    return view


def is_standard(operation: Operation) -> bool:
    """Whether the classes of Django REST framework answer the operation, whatever the project does around that.

    A method of the project that only hands on, and touches neither the body nor how it is read, counts as theirs.
    """
    names = {operation.handler, operation.action, *(("update",) if operation.action == "partial_update" else ())}
    methods = [getattr(operation.view_class, name) for name in names if hasattr(operation.view_class, name)]
    return all(is_of_rest(one) or _hands_on(source_of(one)) for one in methods)


def has_own_throttle(operation: Operation) -> bool:
    """Whether the view counts its calls by a limit of its own, beside what the project counts for all views."""
    from rest_framework.settings import api_settings

    if not operation.is_rest:
        return bool(getattr(getattr(operation.native, "operation", None), "throttle_objects", ()))
    cls, throttles = operation.view_class, operation.option("throttle_classes", ())
    if not (is_of_rest(cls.get_throttles) and is_of_rest(cls.check_throttles)):
        return True
    is_default = list(throttles) == list(api_settings.DEFAULT_THROTTLE_CLASSES)
    return bool(throttles) and (not is_default or bool(operation.option("throttle_scope")))


def is_of_rest(method: Any) -> bool:
    return str(getattr(method, "__module__", "")).startswith("rest_framework.")


def _hands_on(source: str) -> bool:
    """Whether it only calls the next one. ``partial`` is looked for as an argument, not in ``partial_update``."""
    return "super()" in source and not any(word in source for word in _READING)


def source_of(function: Any) -> str:
    """Its text; empty where there is none."""
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return ""


def nothing() -> HttpResponse:
    """The answer of a view that is only asked. No cache keeps it."""
    return HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"Cache-Control": "private, no-store"})


def until_handler(operation: Operation, then: Callable[[Any], None]) -> Callable[..., HttpResponseBase] | None:
    """The view of the operation with all that is around it, which calls ``then`` in the place of its handler.

    ``then`` gets the view, and what it raises is answered as the view would answer it. Throttles do not count. None
    where something is around it that cannot be put around another view.
    """
    cls, name = operation.view_class, operation.handler
    wrapped = wrapped_anew(getattr(cls, name, None), lambda view, request, *args, **kwargs: _then(view, then))
    if wrapped is None:
        return None

    def dispatched(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        made: Any = cls(**operation.initkwargs)
        if operation.actions:
            made.action_map = operation.actions
        # Of this one view alone: its class stays as it is.
        made.check_throttles = lambda request: None
        for attribute in {operation.method.lower(), name}:
            setattr(made, attribute, MethodType(wrapped, made))
        made.setup(request, *args, **kwargs)
        return made.dispatch(request, *args, **kwargs)

    async def asynchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return await dispatched(request, *args, **kwargs)

    # What is around an asynchronous view waits for it.
    made: Any = asynchronous if iscoroutinefunction(operation.route.callback) else dispatched
    return around_view(operation, made)


def _then(view: Any, then: Callable[[Any], None]) -> HttpResponse:
    then(view)
    return nothing()


def around_view(operation: Operation, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase] | None:
    """What the URLconf has around the class of the operation's view, put around another view; None where it cannot."""
    return wrapped_anew(operation.route.callback, view, is_innermost=_is_of_class)


def _is_of_class(function: Any) -> bool:
    """Whether it is what ``as_view`` returns, and nothing around that."""
    return "initkwargs" in function.__code__.co_freevars


def wrapped_anew(
    function: Any, replacement: Callable[..., Any], *, is_innermost: Callable[[Any], bool] | None = None
) -> Callable[..., Any] | None:
    """The decorators of a function around another one: each is copied, with the other one in its closure.

    None where one of them is no function with the decorated one in its closure.
    """
    if not isinstance(function, FunctionType):
        return None
    inner = getattr(function, "__wrapped__", None)
    if is_innermost(function) if is_innermost is not None else inner is None:
        return replacement
    cells = function.__closure__ or ()
    made = wrapped_anew(inner, replacement, is_innermost=is_innermost)
    if made is None or not any(_holds(cell, inner) for cell in cells):
        return None
    closure = tuple(CellType(made) if _holds(cell, inner) else cell for cell in cells)
    copied = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _holds(cell: CellType, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:  # It is empty.
        return False


def lets_in(view: Any) -> bool:
    """Whether its permission classes let the user in, as far as they say without an object. Raises what they raise."""
    from rest_framework.exceptions import APIException

    try:
        return all(one.has_permission(view.request, view) or _goes_by_call(one) for one in view.get_permissions())
    except Http404:
        return True  # It looked for what the path names, which nobody has named yet.
    except (APIException, PermissionDenied):
        return False


def _goes_by_call(permission: Any) -> bool:
    """Whether a permission of the project looks at what is sent, so that its "no" says nothing without it."""
    if hasattr(permission, "op1"):  # Two of them, by "&" or "|".
        return any(map(_goes_by_call, (permission.op1, getattr(permission, "op2", permission.op1))))
    method = type(permission).has_permission
    return not is_of_rest(method) and any(word in source_of(method) for word in _SENT)


def asked(what: str, question: Callable[[], Any], otherwise: Any = None) -> Any:
    """What code of the project says of a view that is not run, which it may not be made for: then ``otherwise``."""
    try:
        return question()
    except (Exception, SystemExit):
        logger.debug("%s cannot be asked", what, exc_info=True)
        return otherwise
