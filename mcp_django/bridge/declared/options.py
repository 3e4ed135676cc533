"""ModelMCP: what a model shows to agents, and how. It is the counterpart of ModelAdmin, and uses its names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.options import BaseModelAdmin
from django.core.exceptions import FieldDoesNotExist
from django.db import models

from mcp_django.bridge.declared.admin_form import (
    EveryForm,
    computed_in_form,
    form_by_object,
    generic_keys,
    paths_in_list,
    shown_in_list,
    shown_of_every_object,
    shown_of_object,
)
from mcp_django.bridge.declared.consent import Consent
from mcp_django.bridge.declared.every_object import may_view, rows_in_list, viewing_by_object
from mcp_django.bridge.declared.project_hooks import is_independent
from mcp_django.bridge.declared.secrets import is_about_rights, is_secret_field
from mcp_django.core.compat.admin import title_of, title_of_display, value_in
from mcp_django.core.hooks import home_of, hook_of
from mcp_django.core.types import AnyField

if TYPE_CHECKING:
    from django.http import HttpRequest
    from rest_framework.serializers import Serializer

    from mcp_django.bridge.declared.object_actions import ObjectAction
    from mcp_django.exchange.site import Site

Operation = Literal["create", "update", "delete"]
Preview = Literal["form", "rollback"]
OPERATIONS: tuple[Operation, ...] = ("create", "update", "delete")
#: The consent that a model does not declare: a person is asked before something is deleted.
CONSENT: Mapping[Operation, Consent] = MappingProxyType({"create": "preview", "update": "preview", "delete": "ask"})

#: A value of a row that is no field: name, title, function of an instance, and the field that orders it.
ComputedField = tuple[str, str, Callable[[Any], Any], Any]

#: Packages whose ``get_search_results`` looks into the search fields of the ModelAdmin and nowhere else.
SEARCH_PACKAGES = frozenset({"django"})


class ModelMCP:
    """How one model is shown to agents. An option that is not set is that of the model's ModelAdmin, if it has one."""

    #: Names of readable fields, or "__all__" for every field that is not a secret. None: as the ModelAdmin shows.
    fields: Sequence[str] | Literal["__all__"] | None = None
    #: Names of fields that are readable beside those that the ModelAdmin shows. Not together with ``fields``.
    extra_fields: Sequence[str] = ()
    #: Names of fields that are not readable, whatever ``fields`` or the admin say.
    exclude: Sequence[str] = ()
    #: Readable fields that a filter may name. None: all of them.
    filter_fields: Sequence[str] | None = None
    #: Fields that ``search`` looks in, with ModelAdmin's prefixes. None: as the ModelAdmin.
    search_fields: Sequence[str] | None = None
    #: "admin": a search calls the ``get_search_results`` that the ModelAdmin overrides, which may look into hidden
    #: fields. None: it is not called, unless a known package wrote it.
    search: Literal["admin"] | None = None
    #: The order of rows where the agent names none. None: as the ModelAdmin, else as the model.
    ordering: Sequence[str] | None = None
    #: A DRF serializer that writes a record. It shows no field and no row that the other options hide. Pages, filters
    #: and orders still use the fields. None: a record is its fields.
    serializer_class: type[Serializer[Any]] | None = None
    #: The DateTimeField with the time of a row's last change. It should have an index.
    last_modified_field: str | None = None
    #: ``audience`` (a list of "user" and "assistant") and ``priority`` (0 to 1) of the model's resources.
    annotations: Mapping[str, Any] = MappingProxyType({})
    #: A sentence that explains to the agent what a row is.
    description: str = ""
    #: The smallest group of rows that aggregate_records shows. None: MIN_GROUP_ROWS.
    min_group_rows: int | None = None
    #: The fields whose values in filters stand in the audit trail, which has no values otherwise.
    audit_fields: Sequence[str] = ()
    #: False: rows are shown in groups alone, and never one by one. Without ``min_group_rows``, groups have 5 or more.
    rows: bool = True
    #: Whether subscribers are notified of changed rows. Watching turns fast deletes of this model into row deletes.
    watch: bool = True
    #: Whether subscribers of the collection are notified of a delete if it is unknown whether they could see the row.
    notify_unseen_deletes: bool = False
    #: What agents may do through the forms of the ModelAdmin, as far as their users may: of "create", "update" and
    #: "delete". False: nothing. None: all three, but nothing with users, groups and permissions.
    writable: Collection[Operation] | Literal[False] | None = None
    #: Names of form fields that may be written. None: those that may be read, but for rights of users.
    write_fields: Sequence[str] | None = None
    #: How a change is previewed: "form" stops before it is saved, "rollback" saves it and rolls that back.
    preview: Preview = "form"
    #: What each operation needs beside a confirmed preview: "ask" asks the user first, "preview" asks nobody, and with
    #: "approve" or an Approval other people must agree.
    consent: Mapping[Operation, Consent] = MappingProxyType({})
    #: Names of submit buttons on the form of a row, as ``_approve``. Each is a tool, which starts switched off.
    buttons: Sequence[str] = ()
    #: What else people do on the page of a row, beside what known packages add to it. Each is a tool too.
    object_actions: Sequence[ObjectAction] = ()
    #: False: the ModelAdmin is ignored, and permissions are the model's own.
    use_admin: bool = True
    #: False: hooks of the project that are given an object answer the same for every object.
    object_permissions: bool = True

    def __init__(self, model: type[models.Model], site: Site, *, bridged: bool = False) -> None:
        self.model = model
        self.opts = model._meta
        self.site = site
        #: Made from the ModelAdmin alone, without a registration.
        self.bridged = bridged

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label}>"

    @property
    def label(self) -> str:
        """``app_label.model_name``, in lower case: the model's name for agents."""
        return f"{self.opts.app_label.lower()}.{self.opts.model_name}"

    @property
    def declared_by(self) -> object:
        """What says how the model is shown: its ModelAdmin, or this registration."""
        return self.model_admin if self.bridged else self

    @property
    def model_admin(self) -> ModelAdmin[Any] | None:
        """The ModelAdmin whose options hold where this class sets none, or None."""
        if not self.use_admin:
            return None
        return self.site.model_admins.get(self.model)

    # Permissions and rows.

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Whether the request's user may view the model, or ``obj`` of it."""
        if self.model_admin is not None:
            admin = self.model_admin
            return admin.admin_site.has_permission(request) and may_view(admin, request, obj)
        return request.user.has_perm(f"{self.opts.app_label}.view_{self.opts.model_name}")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """The rows that the request's user may see; everything that reads rows starts here."""
        if self.model_admin is not None:
            return rows_in_list(self.model_admin, request)
        return self.model._default_manager.get_queryset()

    # Fields of a row.

    def get_fields(self, request: HttpRequest) -> Sequence[str]:
        """Names of readable fields, before ``exclude`` and secrets are taken away."""
        if self.fields == "__all__":
            fields = (*self.opts.concrete_fields, *self.opts.many_to_many, *generic_keys(self.model))
            return [field.name for field in fields]
        if self.fields is not None:
            return self.fields
        admin = self.model_admin
        shown: Sequence[str] = ()
        if admin is not None and self.object_hooks(request):
            shown = shown_in_list(admin, request)
        elif admin is not None:
            shown = shown_of_every_object(admin, request, trusted=not self.object_permissions)
        return [*shown, *self.get_extra_fields(request)]

    def get_listed_paths(self, request: HttpRequest) -> Sequence[str]:
        """Paths through foreign keys that a page of rows shows beside the fields, as the list of the admin does."""
        admin = self.model_admin
        is_own = self.fields is not None or hook_of(self, "get_fields") is not ModelMCP.get_fields
        return () if admin is None or is_own else paths_in_list(admin, request)

    def get_extra_fields(self, request: HttpRequest) -> Sequence[str]:
        return self.extra_fields

    def get_object_fields(self, request: HttpRequest, obj: models.Model) -> Sequence[str]:
        """As ``get_fields``, of one object, where ``object_hooks`` decide by it."""
        admin = self.model_admin
        shown = () if admin is None else shown_of_object(admin, request, obj)
        return [*shown, *self.get_extra_fields(request)]

    def get_computed(self, request: HttpRequest) -> Sequence[ComputedField]:
        """Values of a row that are no fields: methods and properties that the options or ``list_display`` name."""
        admin = self.model_admin
        declared: Iterable[Any]
        if self.fields is not None or type(self).get_fields is not ModelMCP.get_fields:
            declared = self.get_fields(request)
        else:
            shown: list[Any] = []
            if admin is not None:
                shown += admin.get_list_display(request)
                if not self.object_hooks(request):
                    shown += computed_in_form(admin, request, trusted=not self.object_permissions)
            declared = dict.fromkeys([*shown, *self.get_extra_fields(request)])
        return [self._computed(item, admin) for item in declared if not _is_field(self.model, item)]

    def _computed(self, item: Any, admin: BaseModelAdmin[Any] | None) -> ComputedField:
        name = item if isinstance(item, str) else getattr(item, "__name__", "")
        own = hasattr(type(self), name) and not hasattr(ModelMCP, name)
        owner: Any = self if own else admin
        function = getattr(owner, name, None) or getattr(self.model, name, None) if isinstance(item, str) else item
        title = title_of_display(function, name) or title_of(item, self.model, owner)
        order = getattr(getattr(function, "fget", function), "admin_order_field", None)
        return name, title, lambda obj: value_in(item, obj, owner), order

    def get_exclude(self, request: HttpRequest) -> Sequence[str]:
        return self.exclude

    def names(self, field: AnyField) -> bool:
        """Whether the options name the field itself, which exposes even a field that is hidden by default."""
        return self.declares(field.name)

    def declares(self, name: str) -> bool:
        """Whether ``fields`` or ``extra_fields`` holds the name itself."""
        if self.fields is None:
            return name in self.extra_fields
        return self.fields != "__all__" and name in self.fields

    def hides(self, field: AnyField) -> bool:
        """Whether the field is a secret that the options do not name."""
        return is_secret_field(field) and not self.names(field)

    def get_filter_fields(self, request: HttpRequest) -> Sequence[str] | None:
        return self.filter_fields

    def get_list_filters(self, request: HttpRequest) -> Sequence[type[SimpleListFilter]]:
        """Filters of the admin's list that the project has written, and that a filter of an agent may use too."""
        admin = self.model_admin
        is_own = self.fields is not None or hook_of(self, "get_fields") is not ModelMCP.get_fields
        # They look into the columns that the admin shows.
        if admin is None or (is_own and self.get_filter_fields(request) is None):
            return ()
        found = (item for item in admin.get_list_filter(request) if isinstance(item, type))
        return [cls for cls in found if issubclass(cls, SimpleListFilter) and cls.parameter_name]

    def get_search_fields(self, request: HttpRequest) -> Sequence[str]:
        if self.search_fields is not None:
            return self.search_fields
        admin = self.model_admin
        if admin is None or searched_by(self, request) == "nothing":
            return []
        return admin.get_search_fields(request)

    def get_search(self, request: HttpRequest) -> Literal["admin"] | None:
        return self.search

    def get_ordering(self, request: HttpRequest) -> Sequence[Any]:
        if self.ordering is not None:
            return self.ordering
        if self.model_admin is not None and (ordering := self.model_admin.get_ordering(request)):
            return ordering
        return self.opts.ordering or ()

    def get_serializer_class(self, request: HttpRequest) -> type[Serializer[Any]] | None:
        return self.serializer_class

    def get_last_modified_field(self, request: HttpRequest) -> str | None:
        return self.last_modified_field

    def get_annotations(self, request: HttpRequest) -> Mapping[str, Any]:
        return self.annotations

    def get_description(self, request: HttpRequest) -> str:
        return self.description

    def get_writable(self, request: HttpRequest) -> Collection[Operation]:
        """What agents may do with rows, before the permissions of the user."""
        if self.writable is None:
            return () if is_about_rights(self.model) else OPERATIONS
        return self.writable or ()

    def get_write_fields(self, request: HttpRequest) -> Sequence[str] | None:
        return self.write_fields

    def get_preview(self, request: HttpRequest) -> Preview:
        return self.preview

    def get_consent(self, request: HttpRequest) -> Mapping[Operation, Consent]:
        return {**CONSENT, **self.consent}

    def get_audit_fields(self, request: HttpRequest) -> Sequence[str]:
        return self.audit_fields

    def get_min_group_rows(self, request: HttpRequest) -> int | None:
        return self.min_group_rows

    def checks_objects(self, request: HttpRequest) -> bool:
        """Whether the permission must be checked for each record."""
        return self._decides_by_object or (self.object_permissions and bool(self._viewing(request)))

    def object_hooks(self, request: HttpRequest) -> Sequence[str]:
        """The project's hooks that may hide a field of one object and not of another: pages leave the form out."""
        if not self._may_differ:
            return ()
        own = [self._hook.__qualname__] if self._decides_by_object else []
        return [*own, *self._viewing(request), *self._form(request).hooks]

    def shows_by_object(self, request: HttpRequest) -> bool:
        """Whether a record may have more fields than a page, so that the hooks are asked with its row."""
        if not self._may_differ:
            return False
        return bool(self.object_hooks(request)) or self._form(request).has_more_readonly

    def _form(self, request: HttpRequest) -> EveryForm:
        admin = self.model_admin
        return EveryForm() if admin is None else form_by_object(admin, request)

    def _viewing(self, request: HttpRequest) -> Sequence[str]:
        return () if self.model_admin is None else viewing_by_object(self.model_admin, request)

    @property
    def _may_differ(self) -> bool:
        own = self.fields is not None or hook_of(self, "get_fields") is not ModelMCP.get_fields
        return self.object_permissions and not own

    @property
    def _decides_by_object(self) -> bool:
        """Whether this class itself may permit one object and not another."""
        hook = self._hook
        return self.object_permissions and hook is not ModelMCP.has_view_permission and not is_independent(hook)

    @property
    def _hook(self) -> Any:
        return hook_of(self, "has_view_permission")


def _is_field(model: type[models.Model], item: Any) -> bool:
    """Whether the item of ``list_display`` is a field, or a path that begins with one."""
    if not isinstance(item, str):
        return False
    try:
        model._meta.get_field(item.partition("__")[0] or item)
    except FieldDoesNotExist:
        return item == "pk"
    return True


def row_hook(model_mcp: ModelMCP) -> str:
    """The project's ``get_queryset`` behind the rows, as ``FlightAdmin.get_queryset``; empty where every row is shown.

    Whether it really hides a row depends on the request.
    """
    hook = hook_of(model_mcp, "get_queryset")
    if hook is ModelMCP.get_queryset and model_mcp.model_admin is not None:
        hook = hook_of(model_mcp.model_admin, "get_queryset")
    if hook in (ModelMCP.get_queryset, ModelAdmin.get_queryset):
        return ""
    return str(getattr(hook, "__qualname__", "get_queryset"))


def searched_by(model_mcp: ModelMCP, request: HttpRequest) -> Literal["fields", "admin", "nothing"]:
    """What finds the rows of a search: conditions on the search fields, or ``get_search_results`` of the ModelAdmin.

    Nothing does where that might look into hidden fields: asked letter by letter, it would reveal what they hold.
    """
    admin = model_mcp.model_admin
    home = "django" if admin is None else home_of(admin, "get_search_results").partition(".")[0]
    if home == "django":
        return "fields"
    if model_mcp.get_search(request) == "admin":
        return "admin"
    if model_mcp.search_fields is not None or hook_of(model_mcp, "get_search_fields") is not ModelMCP.get_search_fields:
        return "fields"
    return "admin" if home in SEARCH_PACKAGES else "nothing"


def shows_every_row(model_mcp: ModelMCP) -> bool:
    """Whether every row is surely shown: no code of the project, and no model with the same key, can restrict them."""
    key, admin, manager = model_mcp.opts.pk, model_mcp.model_admin, model_mcp.model._default_manager
    return (
        type(manager) is models.Manager
        and hook_of(manager, "get_queryset") is models.Manager.get_queryset
        and not isinstance(key, models.ForeignKey)
        and not row_hook(model_mcp)
        # An order that fails would make the queryset fail.
        and (admin is None or hook_of(admin, "get_ordering") is ModelAdmin.get_ordering)
    )
