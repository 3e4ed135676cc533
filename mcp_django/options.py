"""ModelMCP: what a model exposes to agents, and how. The counterpart of ModelAdmin, with its names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.forms import ModelForm

from mcp_django.resources.kinds import AnyField
from mcp_django.resources.secrets import is_secret_field

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.sites import MCPSite

#: Hooks of a ModelAdmin that make what it shows depend on the object. Where one is overridden, a page of rows carries
#: the columns of list_display alone, as the admin's own list does.
_OBJECT_HOOKS = (
    "has_view_permission",
    "has_change_permission",
    "get_fields",
    "get_fieldsets",
    "get_exclude",
    "get_form",
    "formfield_for_dbfield",
    "formfield_for_choice_field",
    "formfield_for_foreignkey",
)


class ModelMCP:
    """How one model is shown to agents. What is left unsaid is asked of the model's ModelAdmin, where it has one."""

    #: Names of readable fields, or "__all__" for every field that is not a secret. None: as the ModelAdmin shows.
    fields: Sequence[str] | Literal["__all__"] | None = None
    #: Names of fields that are not readable, whatever ``fields`` or the admin say.
    exclude: Sequence[str] = ()
    #: Readable fields that a filter may name. None: all of them.
    filter_fields: Sequence[str] | None = None
    #: Fields that ``search`` looks in, with ModelAdmin's prefixes. None: as the ModelAdmin.
    search_fields: Sequence[str] | None = None
    #: The order of rows where the agent names none. None: as the ModelAdmin, else as the model.
    ordering: Sequence[str] | None = None
    #: A sentence for the agent on what a row is.
    description: str = ""
    #: Whether changes of rows are told to subscribers. Watching turns fast deletes of this model into row deletes.
    watch: bool = True
    #: Whether subscribers of the collection are told of a delete when nobody can say if they could see the row.
    tell_unseen_deletes: bool = False
    #: False: the ModelAdmin is not asked, and permissions are the model's own.
    use_admin: bool = True

    def __init__(self, model: type[models.Model], site: MCPSite, *, bridged: bool = False) -> None:
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
    def model_admin(self) -> ModelAdmin[Any] | None:
        """The ModelAdmin that is asked, or None."""
        if not self.use_admin:
            return None
        return self.site.admin_site._registry.get(self.model)

    # Who may see what.

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Whether the request's user may view the model, or ``obj`` of it."""
        if self.model_admin is not None:
            return self.site.admin_site.has_permission(request) and self.model_admin.has_view_permission(request, obj)
        return request.user.has_perm(f"{self.opts.app_label}.view_{self.opts.model_name}")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """The rows that the request's user may see; everything that reads rows starts here."""
        if self.model_admin is not None:
            return self.model_admin.get_queryset(request)
        return self.model._default_manager.get_queryset()

    # What a row is.

    def get_fields(self, request: HttpRequest) -> Sequence[str]:
        """Names of readable fields, before exclude and before secrets are taken away."""
        if self.fields == "__all__":
            return [field.name for field in self.opts.concrete_fields]
        if self.fields is not None:
            return self.fields
        if self.model_admin is not None:
            return shown_in_admin(self.model_admin, request)
        return []

    def get_exclude(self, request: HttpRequest) -> Sequence[str]:
        return self.exclude

    def names(self, field: AnyField) -> bool:
        """Whether ``fields`` names the field one by one, which exposes even what is hidden by default."""
        return self.fields is not None and self.fields != "__all__" and field.name in self.fields

    def hides(self, field: AnyField) -> bool:
        """Whether the field is a secret that nobody has named."""
        return is_secret_field(field) and not self.names(field)

    def get_filter_fields(self, request: HttpRequest) -> Sequence[str] | None:
        return self.filter_fields

    def get_search_fields(self, request: HttpRequest) -> Sequence[str]:
        if self.search_fields is not None:
            return self.search_fields
        admin = self.model_admin
        if admin is None or _overrides(admin, "get_search_results"):
            return []
        return admin.get_search_fields(request)

    def get_ordering(self, request: HttpRequest) -> Sequence[Any]:
        if self.ordering is not None:
            return self.ordering
        if self.model_admin is not None and (ordering := self.model_admin.get_ordering(request)):
            return ordering
        return self.opts.ordering or ()

    def get_description(self, request: HttpRequest) -> str:
        return self.description

    @property
    def checks_objects(self) -> bool:
        """Whether the permission of one record must be asked with the record in hand."""
        if type(self).has_view_permission is not ModelMCP.has_view_permission:
            return True
        admin = self.model_admin
        return admin is not None and (
            _overrides(admin, "has_view_permission") or _overrides(admin, "has_change_permission")
        )


def shown_in_admin(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    """Names of model fields that the admin shows: plain columns of list_display and fields of the change form."""
    names = [name for name in admin.get_list_display(request) if isinstance(name, str)]
    if not any(_overrides(admin, hook) for hook in _OBJECT_HOOKS):
        names += _form_fields(admin, request)
    return list(dict.fromkeys(name for name in names if _is_column(admin.model, name)))


def _form_fields(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    if admin.fieldsets or admin.fields or admin.form is not ModelForm:
        # With an object, since UserAdmin and its like give the form for adding without one.
        fieldsets = admin.get_fieldsets(request, admin.model())
        names = [name for name in flatten_fieldsets(fieldsets) if isinstance(name, str)]
        excluded = set(admin.get_exclude(request) or ())
    else:
        # What get_form would find, without building a form class for every request.
        names = [field.name for field in admin.opts.concrete_fields if field.editable and not field.primary_key]
        names += [name for name in admin.get_readonly_fields(request) if isinstance(name, str)]
        excluded = {*(admin.get_exclude(request) or ()), *_declared_exclude(admin)}
    return [name for name in names if name not in excluded]


def _declared_exclude(admin: ModelAdmin[Any]) -> Sequence[str]:
    return getattr(getattr(admin.form, "_meta", None), "exclude", None) or ()


def _is_column(model: type[models.Model], name: str) -> bool:
    try:
        return bool(getattr(model._meta.get_field(name), "concrete", False))
    except FieldDoesNotExist:
        return False


def _overrides(admin: ModelAdmin[Any], hook: str) -> bool:
    return getattr(type(admin), hook) is not getattr(ModelAdmin, hook)
