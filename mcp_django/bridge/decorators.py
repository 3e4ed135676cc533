"""How a project declares models, tools, prompts, resources and its API: ``mcp_django.tool`` and others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeVar, overload

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model
from django.forms import BaseForm

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
    form: type[BaseForm] | None = None,
    serializer: Any = None,
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
    form: type[BaseForm] | None = None,
    serializer: Any = None,
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
    function is then ``f(request, arguments)``. With ``form``, a class of Django's forms, or ``serializer``, one of
    Django REST framework's, the arguments are its fields, and the function gets it bound and valid: ``f(request,
    form)``. With ``task`` a call may continue as a task: True, "required" or
    "later", as ``TaskMode`` describes. ``audit`` names the arguments whose values stand in the audit trail. With
    ``on_loop=False`` an ``async def`` runs in a worker, and not on the event loop. ``consent`` is "preview", "ask",
    "approve" or an ``Approval``: with more than "preview" a call is previewed and confirmed first, and its user or
    other people must agree. They are shown what ``preview``, a function of the same arguments that only reads, returns
    as a dict; without it, the arguments. The decorator returns the function itself. Raises ImproperlyConfigured if the
    function cannot be a tool.
    """

    def decorate(decorated: F) -> F:
        from mcp_django.bridge.tools.function import FunctionTool

        cls: Any = FunctionTool
        if form is not None or serializer is not None:
            from mcp_django.bridge.api.function_forms import FieldsTool

            cls = partial(FieldsTool, form=form, serializer=serializer)
        annotations = Annotations(
            read_only=read_only,
            destructive=destructive and not read_only,
            idempotent=idempotent or read_only,
            open_world=open_world,
        )
        site.add_tool(
            cls(
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


@refuse_unknown
def expose(
    target: Any,
    *,
    include: Collection[str] = ("*",),
    exclude: Collection[str] = (),
    tools: Collection[str] = (),
    credentials: Callable[[Any], Mapping[str, str]] | None = None,
    headers: Collection[str] = (),
    version: str = "",
    show_secrets: Collection[str] = (),
    params: Mapping[str, Mapping[str, str]] | None = None,
    authentication: Literal["", "replace"] = "",
    preview: Mapping[str, str] | None = None,
    consent: Mapping[str, Consent] | None = None,
    site: MCPSite = site,
) -> None:
    """Offer the operations of the project's own API as tools, under the rules that the API has over HTTP.

    ``target`` is a router, a view class, a view function, a NinjaAPI, or the beginning of a path: what the URLconf
    serves of it is offered, but for what gives access, serves machines or makes pages. Operations are named
    ``resource.action``. ``include`` and ``exclude`` are lists of such names, in which ``*`` stands for anything; an
    exact name in ``include`` offers what is otherwise left out. ``tools`` names operations that become tools of their
    own. ``credentials`` is a function of the principal that returns headers, by which the project's own authentication
    finds the user; with ``authentication="replace"`` the principal takes the place of an authentication that does more
    than find a user. ``headers`` names more headers of the client that the API gets, and ``version`` the version of the
    API. ``show_secrets`` names fields that are shown though they are named like secrets, ``params`` says what
    parameters of an operation are for, as ``{"stats.get": {"day": "A date."}}``, and ``consent`` what a change needs,
    as for ``tool``: deletions ask by themselves. ``preview={"order.pay": "rollback"}`` shows what an operation does by
    running it and rolling back its rows, but not what it did elsewhere. Raises ImproperlyConfigured.
    """
    from mcp_django.bridge.api.exposures import Exposure

    site.add_exposure(
        Exposure(
            target,
            include=include,
            exclude=exclude,
            tools=tools,
            credentials=credentials,
            headers=headers,
            version=version,
            show_secrets=show_secrets,
            params=params,
            authentication=authentication,
            preview=preview,
            consent=consent,
        )
    )


@refuse_unknown
def expose_form(
    *names: str,
    headers: Collection[str] = (),
    params: Mapping[str, Mapping[str, str]] | None = None,
    consent: Mapping[str, Consent] | None = None,
    site: MCPSite = site,
) -> None:
    """Offer pages with a form as operations ``NAME.submit``, each by the name of its URL: ``expose_form("contact")``.

    Its view is a FormView, a CreateView or an UpdateView, or inherits one. An agent gives values by the names of the
    form's fields; the page is asked for, filled in and sent, so that the others keep what it shows. The options are
    those of ``expose``. Raises ImproperlyConfigured.
    """
    from mcp_django.bridge.api.exposures import Exposure, FormPages

    site.add_exposure(Exposure(FormPages(names), headers=headers, params=params, consent=consent))
