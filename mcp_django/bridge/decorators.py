"""The decorators by which a project declares models, tools, prompts and resources: ``mcp_django.tool`` and others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, overload

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model

from mcp_django.bridge.completion import CompletionFunction
from mcp_django.bridge.declared.consent import Consent
from mcp_django.bridge.declared.options import ModelMCP
from mcp_django.bridge.declared.spelling import refuse_unknown
from mcp_django.bridge.resources.function import FunctionResource
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.sites import MCPSite, site
from mcp_django.bridge.tools.base import Annotations, TaskMode

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=type[ModelMCP])


@refuse_unknown
def register(*models_: type[Model], site: MCPSite = site) -> Callable[[M], M]:
    """Class decorator: ``@register(Flight)`` above a ModelMCP. Raises as ``MCPSite.register`` does."""

    def decorate(model_mcp: M) -> M:
        if not models_:
            raise ImproperlyConfigured("@register needs at least one model.")
        site.register(models_, model_mcp)
        return model_mcp

    return decorate


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    *,
    name: str = "",
    title: str = "",
    permission: str = "",
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
    open_world: bool = False,
    input_schema: Mapping[str, Any] | None = None,
    task: TaskMode = False,
    audit: Collection[str] = (),
    on_loop: bool = True,
    consent: Consent = "preview",
    preview: Callable[..., Mapping[str, Any]] | None = None,
    site: MCPSite = site,
) -> Callable[[F], F]: ...


@refuse_unknown
def tool(
    function: F | None = None,
    *,
    name: str = "",
    title: str = "",
    permission: str = "",
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
    open_world: bool = False,
    input_schema: Mapping[str, Any] | None = None,
    task: TaskMode = False,
    audit: Collection[str] = (),
    on_loop: bool = True,
    consent: Consent = "preview",
    preview: Callable[..., Mapping[str, Any]] | None = None,
    site: MCPSite = site,
) -> F | Callable[[F], F]:
    """Offer a function ``f(request, …)`` as a tool. Its annotations are the schema, and its docstring the description.

    ``permission`` is the permission that the user needs, as ``app.codename``. A tool that is not ``read_only`` needs
    the scope ``actions``. ``input_schema`` is a JSON Schema of the dialect 2020-12, which is listed unchanged; the
    function is then ``f(request, arguments)``. With ``task`` a call may continue as a task: True, "required" or
    "later", as ``TaskMode`` describes. ``audit`` names the arguments whose values stand in the audit trail. With
    ``on_loop=False`` an ``async def`` runs in a worker, and not on the event loop. ``consent`` is "preview", "ask",
    "approve" or an ``Approval``: with more than "preview" a call is previewed and confirmed first, and its user or
    other people must agree. They are shown what ``preview``, a function of the same arguments that only reads, returns
    as a dict; without it, the arguments. The decorator returns the function itself. Raises ImproperlyConfigured if the
    function cannot be a tool.
    """

    def decorate(decorated: F) -> F:
        from mcp_django.bridge.tools.function import FunctionTool

        annotations = Annotations(
            read_only=read_only,
            destructive=destructive and not read_only,
            idempotent=idempotent or read_only,
            open_world=open_world,
        )
        site.add_tool(
            FunctionTool(
                decorated,
                name=name,
                title=title,
                permission=permission,
                annotations=annotations,
                input_schema=input_schema,
                task=task,
                audit=audit,
                on_loop=on_loop,
                consent=consent,
                preview=preview,
            )
        )
        return decorated

    return decorate if function is None else decorate(function)


@overload
def prompt(function: F) -> F: ...


@overload
def prompt(
    *,
    name: str = "",
    title: str = "",
    permission: str = "",
    complete: Mapping[str, CompletionFunction] | None = None,
    site: MCPSite = site,
) -> Callable[[F], F]: ...


@refuse_unknown
def prompt(
    function: F | None = None,
    *,
    name: str = "",
    title: str = "",
    permission: str = "",
    complete: Mapping[str, CompletionFunction] | None = None,
    site: MCPSite = site,
) -> F | Callable[[F], F]:
    """Offer a function ``f(request, …)`` as a prompt. It returns a text, a PromptMessage, or a list of them.

    A person fills in its parameters. The values are sent as texts and converted by the annotations. The docstring is
    the description. ``permission`` is the permission that the user needs, as ``app.codename``. ``complete`` maps
    arguments whose annotations do not name their values to functions ``f(request, typed, arguments)`` that suggest
    values. The decorator returns the function itself. Raises ImproperlyConfigured if the function cannot be a prompt.
    """

    def decorate(decorated: F) -> F:
        from mcp_django.bridge.prompts.function import FunctionPrompt

        site.add_prompt(
            FunctionPrompt(decorated, name=name, title=title, permission=permission, complete=complete or {})
        )
        return decorated

    return decorate if function is None else decorate(function)


@refuse_unknown
def resource(
    uri: str,
    *,
    name: str = "",
    title: str = "",
    mime_type: str = "text/plain",
    permission: str = "",
    annotations: Mapping[str, Any] | None = None,
    last_modified: Callable[..., datetime | None] | None = None,
    size: int | None = None,
    complete: Mapping[str, CompletionFunction] | None = None,
    watch: bool | Sequence[type[Model]] = False,
    site: MCPSite = site,
) -> Callable[[F], F]:
    """Offer the return value of a function ``f(request)`` (text, bytes or JSON) as the resource ``uri``.

    A ``uri`` with variables, such as ``shop://order/{number}``, is a resource template. The function gets their values
    as texts, ``f(request, number)``, and returns None if there is no such resource. ``complete`` maps variables to
    functions ``f(request, typed, arguments)`` that suggest values.

    ``annotations`` may hold ``audience`` (a list of "user" and "assistant") and ``priority`` (0 to 1). A resource that
    is no template may have ``last_modified``, a function of the request, and ``size`` in bytes. Clients can subscribe
    to it if ``watch`` names the models whose changes are its own, as ``watch=[Order]``, or is True: then the project
    calls ``mcp_django.updated(uri)``. Raises ImproperlyConfigured.
    """

    def decorate(function: F) -> F:
        description = (function.__doc__ or "").strip().partition("\n")[0]
        named = uri, name or function.__name__, function, title, description, mime_type, permission
        if "{" not in uri and not complete:
            site.add_resource(FunctionResource(*named, annotations or {}, watch, last_modified, size))
            return function
        if last_modified is not None or size is not None:
            raise ImproperlyConfigured(f"{uri}: last_modified= and size= are for one resource, and not for a template.")
        site.add_resource(FunctionTemplate(*named, annotations or {}, watch, complete or {}))
        return function

    return decorate
