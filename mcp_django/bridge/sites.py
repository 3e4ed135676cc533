"""MCPSite: a registry of models, tools, resources and prompts, served at one URL. The counterpart of AdminSite."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import WeakSet

from django.apps import apps
from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.admin.exceptions import AlreadyRegistered, NotRegistered
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import OperationalError
from django.db.models import Model, QuerySet
from django.db.models.base import ModelBase
from django.utils import translation
from django.utils.functional import cached_property
from django.utils.module_loading import import_string
from django.utils.translation import gettext

from mcp_django import __version__
from mcp_django.access import overrides
from mcp_django.bridge.callers import can_own
from mcp_django.bridge.changes.change_rows import URI as CHANGE_URI
from mcp_django.bridge.declared.admin_form import has_list
from mcp_django.bridge.declared.inlines import InlineMCP, inlines_by_parent, models_of_their_own
from mcp_django.bridge.declared.key_alone import KeyMCP
from mcp_django.bridge.declared.options import ModelMCP
from mcp_django.bridge.declared.secrets import ABOUT_RIGHTS, is_ours, why_hidden
from mcp_django.bridge.declared.spelling import check_class, check_keywords, check_names, check_site_class
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.function import FunctionResource
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.site_signals import actions_found, registry_changed
from mcp_django.bridge.tasks import framework
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.actions import AdminActionTool, adds_actions, declared_actions, offered_actions
from mcp_django.bridge.tools.aggregate import AggregateRecords
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.describe import DescribeModels
from mcp_django.bridge.tools.object_actions import object_action_tools
from mcp_django.bridge.tools.query import FindRecords, GetRecord, QueryTool
from mcp_django.bridge.writes.request_rights import RequestRights
from mcp_django.bridge.writes.resource import change_template
from mcp_django.bridge.writes.tools import WRITE_TOOLS, WriteTool
from mcp_django.conf import get_conf
from mcp_django.core.compat import translated_fields
from mcp_django.core.compat.admin import existing_admin_sites, model_admins, served_admin_sites
from mcp_django.core.middleware_policy import unknown_middleware
from mcp_django.exchange.principals import Principal, Source, Superuser
from mcp_django.exchange.requests import from_settings
from mcp_django.exchange.scopes import SCOPES
from mcp_django.protocol.unknown_names import nearest_name

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.http import HttpRequest

    from mcp_django.bridge.api.api import Api
    from mcp_django.bridge.api.exposures import Exposure
    from mcp_django.bridge.prompts.function import FunctionPrompt
    from mcp_django.bridge.tools.function import FunctionTool
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

#: The context of calls where the project has none.
_NO_CONTEXT = nullcontext()

_QUERY_TOOLS: tuple[type[QueryTool], ...] = (DescribeModels, FindRecords, GetRecord, AggregateRecords)
_WRITE_TOOLS: tuple[type[WriteTool], ...] = (*WRITE_TOOLS, RequestRights)

#: With this many tools, no more are made of the actions that requests show.
_MAX_TOOLS = 2_000

#: What a project may override in a site.
_OPTIONS = ("title", "action_permission")
_HOOKS = ("call_context", "acall_context", "remember_key", "persons_of", "get_instructions")

_sites: WeakSet[MCPSite] = WeakSet()


def _registered(admin_sites: Iterable[AdminSite]) -> dict[type[Model], list[ModelAdmin[Any]]]:
    """The ModelAdmins that each model has in these AdminSites."""
    found: dict[type[Model], list[ModelAdmin[Any]]] = {}
    for admin_site in admin_sites:
        for model, model_admin in model_admins(admin_site).items():
            found.setdefault(model, []).append(model_admin)
    return found


def superusers_request() -> MCPRequest:
    """A request of a superuser that is in no database, with every scope. What it may not see, nobody may."""
    return from_settings().for_principal(Principal(Superuser(), frozenset(SCOPES), source=Source.COMMAND))


def names_nothing(scope: str) -> str:
    """Why a scope for one model, resource or tool can grant nothing, for a person who mistyped it; or an empty text."""
    from mcp_django.models import Tool

    kind, _, rest = scope.partition(":")
    name = rest if kind == "tool" else rest.rpartition(":")[0]
    known: set[str] = set()
    for site in all_sites():
        known.update({"model": site.models, "api": site.api_resources}.get(kind, site.tools))
    # Actions that the project offers for some requests alone are known by their rows.
    if not rest or name in known or (kind == "tool" and Tool.objects.filter(name=name).exists()):
        return ""
    named = nearest_name(name, known)
    if kind == "api":
        said = gettext("%(scope)s names no resource of the API of this server.") % {"scope": repr(scope)}
    elif kind == "model":
        said = gettext("%(scope)s names no model of this server.") % {"scope": repr(scope)}
    else:
        said = gettext("%(scope)s names no tool of this server.") % {"scope": repr(scope)}
    meant = gettext("Did you mean %(name)s?") % {"name": named}
    return f"{said} {meant}" if named else said


def all_sites() -> list[MCPSite]:
    """Every site. The URLconf is imported first, because it may create sites."""
    import_module(settings.ROOT_URLCONF)
    return list(_sites)


class MCPSite:
    """The models, tools, resources and prompts of one MCP endpoint.

    A project may subclass it to override ``call_context`` and ``get_instructions``. ``admin_site`` is the AdminSite
    whose models are exposed, where MCP["ADMIN_SITE"] and the URLconf do not mean the right one.
    """

    title = ""
    #: What an action of the admin needs which names no permission: to change the model, or, as in the admin, to see its
    #: list.
    action_permission: Literal["change", "view"] = "change"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises ImproperlyConfigured for a name that is nearly one that a project may override."""
        super().__init_subclass__(**kwargs)
        check_site_class(cls, MCPSite, _OPTIONS, _HOOKS)

    def __init__(self, name: str = "mcp", *, admin_site: AdminSite | None = None) -> None:
        self._admin_site = admin_site
        #: Names the site in its rows of the model Tool, in cursors and in URLs.
        self.name = name
        self._has_urls = False
        self._declared: dict[type[Model], ModelMCP] = {}
        self._functions: dict[str, FunctionTool] = {}
        self._models: dict[str, ModelMCP] | None = None
        self._tools: dict[str, BaseTool] | None = None
        #: The names of the tools whose calls may start on the event loop: set with ``tools``.
        self.tools_on_loop: Sequence[str] = ()
        #: The names of those that start switched on: set with ``tools``.
        self._tools_on: Sequence[str] = ()
        #: All tools, and those that act on rows by their model: found anew where ``tools`` are others.
        self._actions: tuple[Mapping[str, BaseTool], Mapping[type[Model], Sequence[ActingTool]]] = {}, {}
        #: The models whose own ``get_actions`` each request asks: set with ``tools``.
        self._adding_actions: Sequence[ModelMCP] = ()
        #: The models in inlines of a model: set with ``models``.
        self.inlines: Mapping[type[Model], Sequence[InlineMCP]] = {}
        #: The models of which only keys are seen: set with ``models``.
        self.keys_alone: dict[type[Model], KeyMCP] = {}
        #: Declared resources by their URI, and resource templates by the template.
        self.resources: dict[str, FunctionResource | FunctionTemplate] = {CHANGE_URI: change_template(self)}
        #: What is exposed of the project's API, and what that comes to: found when it is first asked for.
        self._exposures: list[Exposure] = []
        self._api: Api | None = None
        #: Declared prompts by name.
        self.prompts: dict[str, FunctionPrompt] = {}
        _sites.add(self)

    @contextmanager
    def in_context(self, request: HttpRequest) -> Iterator[None]:
        """``call_context``, entered in the project's language.

        The language of the thread does not count: a browser chooses it under WSGI, and nobody does elsewhere.
        """
        with translation.override(settings.LANGUAGE_CODE), self.call_context(request):
            yield

    # Properties and methods that a project may override.

    def call_context(self, request: HttpRequest) -> AbstractContextManager[None]:
        """A context around every handler on every transport, and around every check before a push.

        Use it for the work of the project's middleware: to choose a tenant, a database role or a language. It runs in
        the worker's thread, so it may set a variable of the database session. It must undo that at its end.
        """
        return _NO_CONTEXT

    def acall_context(self, request: HttpRequest) -> AbstractAsyncContextManager[None]:
        """A context around the body of each asynchronous function that runs on the event loop.

        There ``call_context`` is not entered, so a project that overrides that one overrides this one too, or such
        bodies run in a worker. It may set context variables, but what it sets in a database session holds only where
        it does so in the thread of the function, by ``sync_to_async``.
        """
        return _NO_CONTEXT

    @cached_property
    def runs_on_loop(self) -> bool:
        """Whether the bodies of asynchronous functions may run on the event loop.

        Not where a subclass overrides ``call_context`` alone: the inherited ``acall_context`` lacks what that does.
        """
        first = next(vars(cls) for cls in type(self).__mro__ if {"call_context", "acall_context"} & vars(cls).keys())
        return "acall_context" in first

    @property
    def has_call_context(self) -> bool:
        """Whether the project overrides ``call_context``."""
        return type(self).call_context is not MCPSite.call_context

    def remember_key(self, request: HttpRequest) -> Hashable | None:
        """What a user's permissions depend on beside the user, such as the tenant; None: they are read each time.

        With it they are remembered for TOKEN_CACHE_SECONDS at most, and never for a call that may write. By itself it
        is None where ``call_context`` is overridden, or where MIDDLEWARE has an entry that may choose a tenant.
        """
        return None if self.has_call_context or unknown_middleware() else ""

    @property
    def has_remember_key(self) -> bool:
        """Whether the project overrides ``remember_key``."""
        return type(self).remember_key is not MCPSite.remember_key

    def persons_of(self, request: HttpRequest) -> frozenset[str]:
        """The keys of all users behind a login: its user, and whoever acts as that user. More than one cannot agree.

        Known are django-hijack, django-impersonate and django-su, and ``real_user`` on the request. A project that has
        another way to act as somebody adds that person's key.
        """
        session: Any = getattr(request, "session", {})
        real = (getattr(request, name, None) for name in ("real_user", "impersonator"))
        found = [request.user.pk, *(getattr(user, "pk", None) for user in real), *session.get("hijack_history", ())]
        found += [key for key, *_ in session.get("exit_users_pk", ())]
        return frozenset(str(key) for key in found if key is not None)

    def get_instructions(self, request: HttpRequest) -> str:
        """The text about this server that a client may give to its model."""
        return get_conf().INSTRUCTIONS

    # Registration.

    def register(
        self,
        model_or_iterable: type[Model] | Iterable[type[Model]],
        model_mcp: type[ModelMCP] | None = None,
        **options: Any,
    ) -> None:
        """Expose models with a ModelMCP, or with ``options`` as its attributes.

        Raises AlreadyRegistered, and ImproperlyConfigured for a model that may not be exposed, or for an option that is
        misspelt. Then none of them is.
        """
        made: dict[type[Model], ModelMCP] = {}
        for model in _listed(model_or_iterable):
            if is_ours(model):
                raise ImproperlyConfigured(
                    "The models of mcp_django are never exposed, because they hold tokens and decide about access."
                )
            if model._meta.abstract or model._meta.swapped:
                raise ImproperlyConfigured(f"{model._meta.label} is abstract or swapped and cannot be registered.")
            if model in self._declared or model in made:
                raise AlreadyRegistered(f"{model._meta.label} is already registered with mcp_django.")
            cls = model_mcp or ModelMCP
            if options:
                check_keywords(model, cls, options)
                cls = type(f"{model.__name__}MCP", (cls,), options)
            check_class(model, cls)
            made[model] = cls(model, self)
            check_names(made[model])
        self._declared.update(made)
        self._forget()

    def unregister(self, model_or_iterable: type[Model] | Iterable[type[Model]]) -> None:
        """Take back ``register``. A model that the admin shows is exposed as the admin shows it.

        Raises NotRegistered, and then leaves all of them registered.
        """
        given = dict.fromkeys(_listed(model_or_iterable))
        for model in given:
            if model not in self._declared:
                raise NotRegistered(f"{model._meta.label} is not registered with mcp_django.")
        for model in given:
            del self._declared[model]
        self._forget()

    def is_registered(self, model: type[Model]) -> bool:
        """Whether ``register`` has exposed the model."""
        return model in self._declared

    def add_tool(self, tool: FunctionTool) -> None:
        if tool.name in self._functions or tool.name in {cls.name for cls in (*_QUERY_TOOLS, *_WRITE_TOOLS)}:
            raise ImproperlyConfigured(f"Two tools are named {tool.name}. Give one of them another name=.")
        self._functions[tool.name] = tool
        self.tools_on_loop = ()
        self._tools = None
        # They were read without a row that says that this tool is off.
        overrides.tools.clear()

    def add_exposure(self, exposure: Exposure) -> None:
        from mcp_django.bridge.api.operations import what_is_no_target
        from mcp_django.bridge.api.resource import api_template

        if said := what_is_no_target(exposure.target):
            raise ImproperlyConfigured(said)
        self._exposures.append(exposure)
        template = api_template(self)
        self.resources.setdefault(template.uri, template)
        self._forget()

    def add_prompt(self, prompt: FunctionPrompt) -> None:
        if prompt.name in self.prompts:
            raise ImproperlyConfigured(f"Two prompts are named {prompt.name}. Give one of them another name=.")
        self.prompts[prompt.name] = prompt

    def add_resource(self, resource: FunctionResource | FunctionTemplate) -> None:
        if resource.uri.startswith("db://"):
            raise ImproperlyConfigured(f"{resource.uri}: the scheme db is reserved for models.")
        if resource.uri in self.resources:
            raise ImproperlyConfigured(f"Two resources have the URI {resource.uri}.")
        for other in self._resource_templates:
            if isinstance(resource, FunctionTemplate) and resource.has_the_uris_of(other):
                raise ImproperlyConfigured(f"{resource.uri} and {other.uri} are templates of the same URIs.")
        self.resources[resource.uri] = resource

    # Lookup.

    @property
    def api(self) -> Api:
        """The operations of the project's API that are exposed. ``mcp.py`` is imported before the URLconf."""
        if self._api is None:
            from mcp_django.bridge.api.api import Api

            import_module(settings.ROOT_URLCONF)
            self._api = Api(self._exposures)
        return self._api

    @property
    def exposes_api(self) -> bool:
        """Whether ``expose`` or ``expose_form`` names anything, whatever the URLconf serves of it."""
        return bool(self._exposures)

    @property
    def api_resources(self) -> Collection[str]:
        """The names of the resources of that API."""
        return self.api.resources if self._exposures else ()

    @property
    def models(self) -> dict[str, ModelMCP]:
        """Every exposed model by ``app_label.model_name``. Whether a principal may see it is decided elsewhere."""
        if self._models is None:
            # A project may register ModelAdmins in urls.py, so the URLconf is imported before the registry is read.
            import_module(settings.ROOT_URLCONF)
            withheld = self.withheld_models
            found = {one.label: one for one in self._declared.values() if one not in withheld}
            self.inlines, self.keys_alone = {}, {}
            if get_conf().EXPOSE_ADMIN:
                for model, model_admin in self.model_admins.items():
                    if model in self._declared or not has_list(model_admin):
                        continue
                    why = why_hidden(model)
                    if why is None:
                        bridged = ModelMCP(model, self, bridged=True)
                        found.setdefault(bridged.label, bridged)
                    elif why is ABOUT_RIGHTS:
                        self.keys_alone[model] = KeyMCP(model, self, bridged=True)
                self.inlines = inlines_by_parent(found.values())
                for one in models_of_their_own(self.inlines, self.model_admins.values()):
                    if one.model not in self._declared:
                        found.setdefault(one.label, one)
            self._models = found
        return self._models

    @property
    def tools(self) -> dict[str, BaseTool]:
        """Every tool that exists, by name."""
        if self._tools is None:
            tools: list[BaseTool] = [
                *(cls(self) for cls in _QUERY_TOOLS),
                *(cls(self) for cls in _WRITE_TOOLS if apps.is_installed("django.contrib.admin")),
                *self._api_tools(),
                *self._functions.values(),
                *self._operation_tools(),
            ]
            self._adding_actions = [model_mcp for model_mcp in self.models.values() if adds_actions(model_mcp)]
            for model_mcp in self.models.values():
                tools.extend(declared_actions(model_mcp))
                tools.extend(object_action_tools(model_mcp))
            try:
                tools.extend(self._offered_actions(superusers_request()))
            except OperationalError:
                # Requests find them once the database is there.
                logger.warning("Actions that get_actions adds are not known yet: the database is away")
            found: dict[str, BaseTool] = {}
            for tool in tools:
                # The first tool keeps the name. A system check reports the other.
                found.setdefault(tool.name, tool)
            self.tools_on_loop = [name for name, one in found.items() if one.starts_on_loop]
            self._tools_on = [name for name, one in found.items() if one.enabled_by_default]
            # Last: another thread that finds it finds the others too.
            self._tools = found
        return self._tools

    def _api_tools(self) -> Iterator[BaseTool]:
        if self._exposures:
            from mcp_django.bridge.api.tools import API_TOOLS

            yield from (cls(self) for cls in API_TOOLS)

    def _operation_tools(self) -> Iterator[BaseTool]:
        if self._exposures:
            from mcp_django.bridge.api.operation_tools import OperationTool

            yield from (OperationTool(self, one) for one in self.api.named_tools())

    def actions_on(self, model: type[Model]) -> Sequence[ActingTool]:
        """The tools that act on rows of the model."""
        tools = self.tools
        if self._actions[0] is not tools:
            found: dict[type[Model], list[ActingTool]] = {}
            for tool in tools.values():
                if isinstance(tool, ActingTool):
                    found.setdefault(tool.model_mcp.model, []).append(tool)
            self._actions = tools, found
        return self._actions[1].get(model, ())

    @property
    def tools_on(self) -> Sequence[str]:
        """The names of the tools that are on where no administrator has decided otherwise. Actions never are."""
        _ = self.tools  # Sets them.
        return self._tools_on

    @cached_property
    def admin_sites(self) -> Sequence[AdminSite]:
        """The AdminSites whose models are exposed: the one that was named, or else those that the URLconf serves."""
        if (named := self._named_admin_site) is not None:
            return [named]
        return served_admin_sites() if apps.is_installed("django.contrib.admin") else []

    @property
    def _named_admin_site(self) -> AdminSite | None:
        path = get_conf().ADMIN_SITE
        return self._admin_site or (import_string(path) if path else None)

    @cached_property
    def model_admins(self) -> Mapping[type[Model], ModelAdmin[Any]]:
        """The ModelAdmins of these AdminSites. A model that is in several of them is left out: they may differ."""
        found = _registered(self.admin_sites)
        return {model: admins[0] for model, admins in found.items() if len(admins) == 1}

    @property
    def undecided_models(self) -> Mapping[type[Model], Sequence[AdminSite]]:
        """The models of which it is not known which ModelAdmin decides, with the AdminSites that have them.

        Nobody sees them: without its ModelAdmin a model would show rows that the ModelAdmin hides.
        """
        if self._named_admin_site is not None:
            return {}
        if self.admin_sites:
            found = {model: admins for model, admins in _registered(self.admin_sites).items() if len(admins) > 1}
        else:
            found = _registered(existing_admin_sites())
        return {model: [one.admin_site for one in admins] for model, admins in found.items() if not is_ours(model)}

    @property
    def withheld_models(self) -> list[ModelMCP]:
        """The registered models that wait for a decision which ModelAdmin their rows come from."""
        undecided = self.undecided_models
        return [one for model, one in self._declared.items() if one.use_admin and model in undecided]

    def find_actions(self, request: MCPRequest) -> None:
        """Make tools of the actions that the project's own ``get_actions`` offers for this request alone.

        Each starts switched off, as every action. Administrators find it from now on.
        """
        tools = self.tools
        new = {tool.name: tool for tool in self._offered_actions(request) if tool.name not in tools}
        # A get_actions that makes up names would fill the memory and the table.
        if new and len(tools) + len(new) <= _MAX_TOOLS:
            self._tools = {**tools, **new}
            actions_found.send(type(self), site=self)

    def _offered_actions(self, request: MCPRequest) -> Iterator[AdminActionTool]:
        # No hook of a model is called for a principal that may not see the model.
        rights = Rights.of(self, request) if self._adding_actions else None
        for model_mcp in self._adding_actions:
            if rights is not None and rights.of_label(model_mcp.label) is not None:
                yield from offered_actions(model_mcp, request)

    def find_resource(self, uri: str) -> FunctionResource | FunctionTemplate | None:
        """The declared resource with exactly this URI, or else the first template that matches it.

        A principal that may not read it does not get the next one, or one template would answer for another.
        """
        exact = self.resources.get(uri) or self._resource_beyond_ascii(uri)
        if isinstance(exact, FunctionResource):
            return exact
        return next((template for template in self._resource_templates if template.match(uri) is not None), None)

    def _resource_beyond_ascii(self, uri: str) -> FunctionResource | FunctionTemplate | None:
        """The declared resource whose URI is written otherwise: with its characters, or percent-encoded."""
        wanted = uris.decoded(uri)
        if wanted.isascii():
            return None
        return next((found for known, found in self.resources.items() if uris.decoded(known) == wanted), None)

    @property
    def _resource_templates(self) -> list[FunctionTemplate]:
        return [item for item in self.resources.values() if isinstance(item, FunctionTemplate)]

    def get_queryset(self, model: type[Model], request: HttpRequest) -> QuerySet[Any]:
        """The rows of a model that the request's principal may see. Empty if the principal may not see the model.

        A permission that is checked for each row, ``has_view_permission(request, obj)``, is left to the caller.
        Raises TypeError for a request that is not that of a tool or a resource.
        """
        if not hasattr(request, "mcp"):
            raise TypeError("MCPSite.get_queryset needs the request that a tool or a resource gets.")
        rights = Rights.of(self, cast("MCPRequest", request)).of_model(model)
        return model._default_manager.none() if rights is None else translated_fields.in_language(rights.rows())

    def implementation(self) -> dict[str, Any]:
        """The protocol's Implementation: the server's name, version and title."""
        conf = get_conf()
        implementation = {"name": conf.SERVER_NAME, "version": conf.SERVER_VERSION or __version__}
        return {**implementation, "title": self._title} if self._title else implementation

    @cached_property
    def _title(self) -> str:
        """The declared title, or else the header of the admin where it is not Django's own."""
        if self.title or not apps.is_installed("django.contrib.admin"):
            return self.title
        headers = {admin_site.site_header for admin_site in self.admin_sites} - {AdminSite.site_header}
        with translation.override(settings.LANGUAGE_CODE):
            return str(headers.pop()) if len(headers) == 1 else ""

    def can_run_task(self, principal: Principal) -> bool:
        """Whether a call of the principal can continue as a task."""
        return framework.can_run(self) and can_own(principal)

    @property
    def is_served(self) -> bool:
        """Whether the project's URLconf includes the site's URLs. A project with its own site may leave others out."""
        import_module(settings.ROOT_URLCONF)
        return self._has_urls

    @property
    def urls(self) -> tuple[list[Any], str, str]:
        """For ``path("", site.urls)``."""
        self._has_urls = True
        if not (apps.models_ready and apps.is_installed("mcp_django")):
            raise ImproperlyConfigured(
                "mcp_django is not in INSTALLED_APPS, or its URLs were imported before the apps were ready."
            )
        # Transports stand above this package.
        config: Any = apps.get_app_config("mcp_django")
        return config.url_patterns(self), "mcp_django", self.name

    def _forget(self) -> None:
        self.tools_on_loop = ()
        self._models = self._tools = self._api = None
        for name in ("admin_sites", "model_admins", "_title"):
            self.__dict__.pop(name, None)
        registry_changed.send(type(self), site=self)


def _listed(model_or_iterable: type[Model] | Iterable[type[Model]]) -> Iterable[type[Model]]:
    return [model_or_iterable] if isinstance(model_or_iterable, ModelBase) else model_or_iterable


def _forget_urls(*, setting: str, **kwargs: Any) -> None:
    """Another URLconf, in a test, may serve other AdminSites."""
    if setting == "ROOT_URLCONF":
        # This may import a URLconf, which may make more sites.
        for one in list(_sites):
            try:
                one._forget()
            except Exception:
                # A test may well name a URLconf that cannot be imported.
                logger.exception("The models of the site %s cannot be found", one.name)


setting_changed.connect(_forget_urls)

site = MCPSite()
