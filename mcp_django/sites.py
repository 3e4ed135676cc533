"""MCPSite: one registry of models, tools, resources and prompts, served at one URL. The counterpart of AdminSite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload
from weakref import WeakSet

from django.conf import settings
from django.contrib.admin.exceptions import AlreadyRegistered
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model, QuerySet
from django.db.models.base import ModelBase
from django.dispatch import Signal

from mcp_django import __version__
from mcp_django.compat.admin import model_admins
from mcp_django.completion import Function
from mcp_django.conf import get_conf
from mcp_django.options.model_mcp import ModelMCP
from mcp_django.prompts.function import FunctionPrompt
from mcp_django.resources import parts
from mcp_django.resources.function import FunctionResource
from mcp_django.resources.function_templates import FunctionTemplate
from mcp_django.resources.policy import Rights
from mcp_django.secrets import is_hidden_model, is_of_app
from mcp_django.tasks import framework
from mcp_django.tasks.callers import can_own
from mcp_django.tools.actions import declared_actions
from mcp_django.tools.aggregate import AggregateRecords
from mcp_django.tools.base import Annotations, BaseTool, TaskMode
from mcp_django.tools.describe import DescribeModels
from mcp_django.tools.function import FunctionTool
from mcp_django.tools.query import FindRecords, GetRecord, QueryTool

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite, ModelAdmin
    from django.http import HttpRequest

    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=type[ModelMCP])

_QUERY_TOOLS: tuple[type[QueryTool], ...] = (DescribeModels, FindRecords, GetRecord, AggregateRecords)

#: Sent by a site when the models that it exposes may have changed, with the argument ``site``.
registry_changed = Signal()

_sites: WeakSet[MCPSite] = WeakSet()


def url_patterns(site: MCPSite) -> list[Any]:
    """The patterns of a site's URLs. Transports stand above this room, so the app hands another function in."""
    raise ImproperlyConfigured(
        "mcp_django is not in INSTALLED_APPS, or its URLs are imported before the apps are ready."
    )


def all_sites() -> list[MCPSite]:
    """Every site, also one that is made where the URLconf imports it."""
    import_module(settings.ROOT_URLCONF)
    return list(_sites)


class MCPSite:
    """What one MCP endpoint serves. Subclass it to say how (``call_context``, ``admin_site``)."""

    title = ""

    def __init__(self, name: str = "mcp") -> None:
        #: Names the site in its rows of the model Tool, in cursors and in URLs.
        self.name = name
        self._has_urls = False
        self._declared: dict[type[Model], ModelMCP] = {}
        self._functions: dict[str, FunctionTool] = {}
        self._models: dict[str, ModelMCP] | None = None
        self._tools: dict[str, BaseTool] | None = None
        #: Declared resources by their URI, and resource templates by the template.
        self.resources: dict[str, FunctionResource | FunctionTemplate] = {}
        #: Declared prompts by name.
        self.prompts: dict[str, FunctionPrompt] = {}
        _sites.add(self)

    # What a project overrides.

    @property
    def admin_site(self) -> AdminSite:
        """The AdminSite whose declarations are read."""
        from django.contrib import admin

        return admin.site

    @cached_property
    def model_admins(self) -> Mapping[type[Model], ModelAdmin[Any]]:
        """The ModelAdmins of ``admin_site``, which are asked for often: it is told once from what is lazy."""
        return model_admins(self.admin_site)

    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        """Entered around every handler on every transport, and around every check before a push.

        The place for what the project's middleware does elsewhere: a tenant, a database role, a language. It runs in
        the worker's thread, so it may set a variable of the database session; it must undo it when it is left.
        """
        yield

    @property
    def has_call_context(self) -> bool:
        """Whether the project has its own ``call_context``."""
        return type(self).call_context is not MCPSite.call_context

    def get_instructions(self, request: HttpRequest) -> str:
        """What a client may tell its model about this server."""
        return get_conf().INSTRUCTIONS

    # Registration.

    def register(
        self,
        model_or_iterable: type[Model] | Iterable[type[Model]],
        model_mcp: type[ModelMCP] | None = None,
        **options: Any,
    ) -> None:
        """Expose models with a ModelMCP, or with ``options`` as its attributes.

        Raises AlreadyRegistered, and ImproperlyConfigured for a model that may not be exposed.
        """
        for model in [model_or_iterable] if isinstance(model_or_iterable, ModelBase) else model_or_iterable:
            if is_of_app(model, "mcp_django"):
                raise ImproperlyConfigured(
                    "The models of mcp_django are never exposed: they hold the keys to the rest."
                )
            if model._meta.abstract or model._meta.swapped:
                raise ImproperlyConfigured(f"{model._meta.label} is abstract or swapped and cannot be registered.")
            if model in self._declared:
                raise AlreadyRegistered(f"{model._meta.label} is already registered with mcp_django.")
            cls = model_mcp or ModelMCP
            if options:
                cls = type(f"{model.__name__}MCP", (cls,), options)
            self._declared[model] = cls(model, self)
        self._forget()

    def unregister(self, model: type[Model]) -> None:
        del self._declared[model]
        self._forget()

    def add_tool(self, tool: FunctionTool) -> None:
        if tool.name in self._functions or tool.name in {cls.name for cls in _QUERY_TOOLS}:
            raise ImproperlyConfigured(f"Two tools are named {tool.name}. Give one of them another name=.")
        self._functions[tool.name] = tool
        self._tools = None

    def add_prompt(self, prompt: FunctionPrompt) -> None:
        if prompt.name in self.prompts:
            raise ImproperlyConfigured(f"Two prompts are named {prompt.name}. Give one of them another name=.")
        self.prompts[prompt.name] = prompt

    def add_resource(self, resource: FunctionResource | FunctionTemplate) -> None:
        if resource.uri.startswith("db://"):
            raise ImproperlyConfigured(f"{resource.uri}: the scheme db is taken by models.")
        if resource.uri.startswith(f"{parts.SCHEME}://"):
            raise ImproperlyConfigured(f"{resource.uri}: the scheme {parts.SCHEME} is taken by parts of long results.")
        if resource.uri in self.resources:
            raise ImproperlyConfigured(f"Two resources have the URI {resource.uri}.")
        for other in self._resource_templates:
            if isinstance(resource, FunctionTemplate) and resource.overlaps(other):
                raise ImproperlyConfigured(f"A URI may be one of {resource.uri} and of {other.uri}: tell them apart.")
        self.resources[resource.uri] = resource

    # Lookup.

    @property
    def models(self) -> dict[str, ModelMCP]:
        """Every exposed model by ``app_label.model_name``; whether a principal may see it is another question."""
        if self._models is None:
            # Admins may be registered in urls.py, so the registry is read only once the URLconf is there.
            import_module(settings.ROOT_URLCONF)
            found = {model_mcp.label: model_mcp for model_mcp in self._declared.values()}
            for model in self.model_admins if get_conf().EXPOSE_ADMIN else ():
                bridged = ModelMCP(model, self, bridged=True)
                if model not in self._declared and not is_hidden_model(model):
                    found.setdefault(bridged.label, bridged)
            self._models = found
        return self._models

    @property
    def tools(self) -> dict[str, BaseTool]:
        """Every tool that exists, by name."""
        if self._tools is None:
            tools: list[BaseTool] = [
                *(cls(self) for cls in _QUERY_TOOLS),
                *self._functions.values(),
            ]
            for model_mcp in self.models.values():
                tools.extend(declared_actions(model_mcp))
            found: dict[str, BaseTool] = {}
            for tool in tools:
                # The first keeps the name; a system check tells of the other.
                found.setdefault(tool.name, tool)
            self._tools = found
        return self._tools

    def find_resource(self, uri: str) -> FunctionResource | FunctionTemplate | None:
        """What is declared for a URI: the resource of that very URI, else the template that it is one of."""
        exact = self.resources.get(uri)
        if isinstance(exact, FunctionResource):
            return exact
        return next((template for template in self._resource_templates if template.match(uri) is not None), None)

    @property
    def _resource_templates(self) -> list[FunctionTemplate]:
        return [item for item in self.resources.values() if isinstance(item, FunctionTemplate)]

    def get_queryset(self, model: type[Model], request: HttpRequest) -> QuerySet[Any]:
        """The rows of a model that the request's principal may see: none, if the model is not theirs to see."""
        if not hasattr(request, "mcp"):
            raise TypeError("MCPSite.get_queryset takes the request that a tool or a resource is given.")
        rights = Rights.of(self, cast("MCPRequest", request)).of_model(model)
        return model._default_manager.none() if rights is None else rights.rows()

    def implementation(self) -> dict[str, Any]:
        """The server's name and version, as it introduces itself."""
        conf = get_conf()
        implementation = {"name": conf.SERVER_NAME, "version": conf.SERVER_VERSION or __version__}
        return {**implementation, "title": self.title} if self.title else implementation

    def can_run_task(self, principal: Principal) -> bool:
        """Whether a call of the principal can go on as a task."""
        return framework.can_run(self) and can_own(principal)

    @property
    def is_served(self) -> bool:
        """Whether the project's URLconf asks for the site's URLs: the default site may have to make way for another."""
        import_module(settings.ROOT_URLCONF)
        return self._has_urls

    @property
    def urls(self) -> tuple[list[Any], str, str]:
        """For ``path("", site.urls)``."""
        self._has_urls = True
        return url_patterns(self), "mcp_django", self.name

    def _forget(self) -> None:
        self._models = self._tools = None
        registry_changed.send(type(self), site=self)


site = MCPSite()


def register(*models_: type[Model], site: MCPSite = site) -> Callable[[M], M]:
    """Class decorator: ``@register(Flight)`` above a ModelMCP."""

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
    site: MCPSite = site,
) -> Callable[[F], F]: ...


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
    site: MCPSite = site,
) -> F | Callable[[F], F]:
    """Offer a function ``f(request, …)`` as a tool; its annotations are the schema, its docstring the description.

    ``permission`` is what the user needs, as ``app.codename``. A tool that is not ``read_only`` needs the scope
    ``actions``. With ``input_schema``, a JSON Schema of the dialect 2020-12 that is listed unchanged, the function is
    ``f(request, arguments)``. With ``task`` a call may go on as a task: True, "required" or "later", as ``TaskMode``
    says. The function stays a function. Raises ImproperlyConfigured where it cannot be a tool.
    """

    def decorate(decorated: F) -> F:
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
    complete: Mapping[str, Function] | None = None,
    site: MCPSite = site,
) -> Callable[[F], F]: ...


def prompt(
    function: F | None = None,
    *,
    name: str = "",
    title: str = "",
    permission: str = "",
    complete: Mapping[str, Function] | None = None,
    site: MCPSite = site,
) -> F | Callable[[F], F]:
    """Offer a function ``f(request, …)`` as a prompt: it returns texts and PromptMessages, one of them or a list.

    Its parameters are what a person is asked for; the values come as texts and are read as the annotations say, and its
    docstring is the description. ``permission`` is what the user needs, as ``app.codename``. ``complete`` has, for
    arguments whose values cannot be known from their annotations, functions ``f(request, typed, arguments)`` that
    suggest some. The function stays a function. Raises ImproperlyConfigured where it cannot be a prompt.
    """

    def decorate(decorated: F) -> F:
        site.add_prompt(
            FunctionPrompt(decorated, name=name, title=title, permission=permission, complete=complete or {})
        )
        return decorated

    return decorate if function is None else decorate(function)


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
    complete: Mapping[str, Function] | None = None,
    site: MCPSite = site,
) -> Callable[[F], F]:
    """Offer what a function of the request returns (text, bytes or JSON) as the resource ``uri``.

    A ``uri`` with variables, as ``shop://order/{number}``, is a resource template, and the function is given their
    values as texts: ``f(request, number)``; it returns None where there is nothing of that URI. ``complete`` has
    functions ``f(request, typed, arguments)`` that suggest values of a variable.

    ``annotations`` may hold ``audience`` (a list of "user" and "assistant") and ``priority`` (0 to 1). A resource that
    is no template may have ``last_modified``, a function of the request, and ``size`` in bytes. Raises
    ImproperlyConfigured.
    """

    def decorate(function: F) -> F:
        description = (function.__doc__ or "").strip().partition("\n")[0]
        named = (uri, name or function.__name__, function, title, description, mime_type, permission, annotations or {})
        if "{" not in uri and not complete:
            site.add_resource(FunctionResource(*named, last_modified, size))
            return function
        if last_modified is not None or size is not None:
            raise ImproperlyConfigured(f"{uri}: last_modified= and size= are of one resource, and not of a template.")
        site.add_resource(FunctionTemplate(*named, complete or {}))
        return function

    return decorate
