"""The fields that a ModelAdmin shows of its objects, and whether they are the same for each of them.

A page of rows has the fields that the admin shows of every object. Hooks of the project may decide by the object, so
that their fields are known for one object at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from django.contrib.admin import ModelAdmin
from django.contrib.admin.options import BaseModelAdmin, InlineModelAdmin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.base import ModelBase
from django.db.models.options import Options
from django.forms import ModelForm

from mcp_django.bridge.declared.every_object import (
    allows_some,
    common_answer,
    found_once,
    hooks_that_looked,
    object_for,
    views_every_object,
)
from mcp_django.bridge.declared.project_hooks import (
    FORMFIELD_HOOKS,
    are_as_django,
    hooks_by_object,
    hooks_of_class_by_object,
)
from mcp_django.bridge.declared.witness import Depends
from mcp_django.core.compat.admin import names_in_fieldsets
from mcp_django.core.hooks import hook_of

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Hooks that name the fields of the form of an object; those of packages among them.
_NAMING = (
    "get_fields", "get_fieldsets", "get_exclude", "get_form", "get_formset", "get_base_fieldsets",
    "get_subclass_fields",
)  # fmt: skip
_FORM_HOOKS = (*_NAMING, *FORMFIELD_HOOKS)
_FORM_HOOKS_AND_READONLY = (*_FORM_HOOKS, "get_readonly_fields")

#: Hooks of a ModelAdmin that choose the inlines of an object, and those that choose their rows.
CHOOSING_INLINES = ("get_inlines", "get_inline_instances")
CHOOSING_ROWS = ("get_formsets_with_inlines", "get_formset_kwargs")

#: What a formset of the project may restrict its rows by.
_RESTRICTING = ("__init__", "get_queryset", "queryset", "initial_form_count")

#: Permissions of an object that Django asks for while it makes its form, and that take no field from the page.
_PERMISSIONS_IN_FORM = ("has_change_permission", "has_add_permission", "has_delete_permission")

#: Their pages show the form of another ModelAdmin, that of the object's own class.
_WITHOUT_FORM = frozenset({"polymorphic.admin.parentadmin"})


def has_list(admin: ModelAdmin[Any]) -> bool:
    """Whether there is a page of all objects: a ``get_urls`` of the project may have left it out."""
    if not hooks_by_object(admin, ("get_urls",)):
        return True
    name = f"{admin.opts.app_label}_{admin.opts.model_name}_changelist"
    return any(getattr(pattern, "name", None) == name for pattern in admin.get_urls())


def has_form(admin: BaseModelAdmin[Any]) -> bool:
    """Whether the page of an object shows the form of this ModelAdmin."""
    return not any(base.__module__ in _WITHOUT_FORM for base in type(admin).__mro__)


def shown_in_list(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    """Names of the model's fields that the page of all objects shows."""
    return _fields_among(admin, _listed(admin, request))


def paths_in_list(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    """Paths through foreign keys that the page of all objects shows, as ``channel__kind``."""
    return [name for name in _listed(admin, request) if "__" in name.strip("_") and not hasattr(admin, name)]


def shown_of_every_object(admin: ModelAdmin[Any], request: HttpRequest, *, trusted: bool) -> list[str]:
    """As ``shown_in_list``, and the fields of the change form, if no hook decides by the object.

    ``trusted``: the project says that its hooks do not.
    """
    names = form_of_every_object(admin, request, trusted=trusted).names if has_form(admin) else ()
    return _fields_among(admin, [*_listed(admin, request), *names, *_links_in_inlines(admin, request)])


def inline_classes(admin: ModelAdmin[Any]) -> list[type[InlineModelAdmin[Any, Any]]]:
    """The inlines of a ModelAdmin, without what Django's own check reports as none."""
    declared: Any = admin.inlines
    classes = [cls for cls in declared if isinstance(cls, type)] if isinstance(declared, list | tuple) else []
    return [cls for cls in classes if issubclass(cls, InlineModelAdmin) and isinstance(cls.model, ModelBase)]


def _links_in_inlines(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    """Many-to-many fields whose rows between stand in an inline of each object."""
    links = [field for field in admin.opts.many_to_many if _has_own_table(field)]
    if not links or not inline_classes(admin) or hooks_by_object(admin, CHOOSING_ROWS):
        return []
    between = {field.remote_field.through for field in links}
    shown = [cls for cls in inlines_of_every_object(admin, request) or () if cls.model in between]
    inlines = [cls(admin.model, admin.admin_site) for cls in shown if _shows_all_rows(cls)]
    seen = [one for one in inlines if views_every_object(one, request) and not form_by_object(one, request).hooks]
    return [field.name for field in links if field.remote_field.through in {one.model for one in seen}]


def _shows_all_rows(inline: type[InlineModelAdmin[Any, Any]]) -> bool:
    return not restricting_formset(inline) and not hooks_of_class_by_object(inline, ("get_queryset",))


def inlines_of_every_object(
    admin: ModelAdmin[Any], request: HttpRequest
) -> Sequence[type[InlineModelAdmin[Any, Any]]] | None:
    """The inlines on the page of every object; None where a hook chooses them by the object."""
    if not hooks_by_object(admin, CHOOSING_INLINES):
        return inline_classes(admin)
    return found_once(admin, request, "inlines", lambda: _inlines_by_witness(admin, request))


def _inlines_by_witness(
    admin: ModelAdmin[Any], request: HttpRequest
) -> Sequence[type[InlineModelAdmin[Any, Any]]] | None:
    def ask(admin: Any, request: HttpRequest, obj: Any) -> list[type[InlineModelAdmin[Any, Any]]]:
        return [type(one) for one in admin.get_inline_instances(request, obj)]

    with suppress(Depends):
        return common_answer(admin, request, ask)
    return None


def restricting_formset(inline: Any) -> str:
    """The class of the project's own that may show only some of the rows of an inline; empty if there is none."""
    for cls in inline.formset.__mro__[:-1]:
        if not cls.__module__.startswith("django.") and any(name in vars(cls) for name in _RESTRICTING):
            return str(cls.__qualname__)
    return ""


def _is_given(opts: Options[Any], field: models.Field[Any, Any]) -> bool:
    """Whether the field is the key of the row, or a key of its part in a parent's table that no form has."""
    is_link = bool(field.remote_field and field.remote_field.parent_link)
    return field.primary_key and (field is opts.pk or is_link or isinstance(field, models.AutoField))


def _has_own_table(field: Any) -> bool:
    """Whether Django itself made the model that a many-to-many field goes through."""
    return bool(field.remote_field.through._meta.auto_created)


def shown_of_object(admin: ModelAdmin[Any], request: HttpRequest, obj: models.Model) -> list[str]:
    """As ``shown_of_every_object``, of one object: every hook is called with it, as the page of its form does."""
    if not has_form(admin):
        return shown_in_list(admin, request)
    in_form = names_in_fieldsets(admin.get_fieldsets(request, obj))
    if admin.has_change_permission(request, obj):
        form = admin.get_form(request, obj, change=True, fields=in_form)
        rendered = {*form.base_fields, *admin.get_readonly_fields(request, obj)}
    else:
        # The page then shows each of them, and none can be edited.
        rendered = set(in_form)
    rendered.difference_update(admin.get_exclude(request, obj) or ())
    return _fields_among(admin, [*_listed(admin, request), *(name for name in in_form if name in rendered)])


def computed_in_form(admin: BaseModelAdmin[Any], request: HttpRequest, *, trusted: bool) -> list[str]:
    """As ``shown_of_every_object``, names of methods and properties among the read-only fields of the form."""
    if not has_form(admin):
        return []
    form = form_of_every_object(admin, request, trusted=trusted)
    fields = {field.name for field in admin.opts.get_fields()}
    return [name for name in form.names if name in form.readonly and name not in fields]


def _listed(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    return [name for name in admin.get_list_display(request) if isinstance(name, str)]


@dataclass(frozen=True)
class EveryForm:
    """What the page of every object of a model shows, for one request."""

    #: Names in the form. Empty where a hook decides by the object.
    names: Sequence[str] = ()
    #: Names that nobody may edit.
    readonly: Sequence[str] = ()
    #: The hooks that decide which names are there, each as ``FlightAdmin.get_fieldsets``.
    hooks: Sequence[str] = ()
    #: Whether ``get_readonly_fields`` decides by the object.
    has_more_readonly: bool = False


def form_of_every_object(admin: BaseModelAdmin[Any], request: HttpRequest, *, trusted: bool) -> EveryForm:
    """What the page of every object shows. ``trusted``: the project says that its hooks answer the same for each.

    A hook that may decide by the object is asked with a witness, at most once for a request.
    """
    if trusted or not hooks_by_object(admin, _FORM_HOOKS_AND_READONLY):
        # Django's own hooks do not look at the object.
        obj: Any = None if _asks_django_alone(admin) else object_for(admin)
        readonly = _readonly_of(admin, request, obj)
        return EveryForm(_names_in_form(admin, request, readonly, obj), readonly)
    return found_once(admin, request, "form", lambda: _form_by_witness(admin, request))


def form_by_object(admin: BaseModelAdmin[Any], request: HttpRequest) -> EveryForm:
    """The same where a hook may decide by the object; else an empty one, at no cost."""
    decides = hooks_by_object(admin, _FORM_HOOKS_AND_READONLY)
    return form_of_every_object(admin, request, trusted=False) if decides else EveryForm()


def _names_in_form(
    admin: BaseModelAdmin[Any],
    request: HttpRequest,
    readonly: Sequence[str] | None,
    obj: models.Model | None,
    hooks: tuple[str, ...] = _FORM_HOOKS,
) -> list[str]:
    """Names in the form, where no hook looks at the object. None is asked without one, as of the form for adding.

    ``readonly``: None where they depend on the object. ``hooks``: those that the names are to come from.
    """
    as_django = are_as_django(admin, hooks)
    excluded = admin.get_exclude(request, obj) or ()
    if as_django and admin.fieldsets:
        names = names_in_fieldsets(admin.fieldsets)
    elif as_django and not admin.fields and admin.form is ModelForm:
        # The fields that get_form would find, without building a form class for every request.
        names = [*(field.name for field in _editable(admin.opts)), *(readonly or ())]
    else:
        names = names_in_fieldsets(admin.get_fieldsets(request, object_for(admin) if obj is None else obj))
        if readonly is None and not admin.fields:
            editable = {field.name for field in _editable(admin.opts)}
            names = [name for name in names if name in editable]
    return [name for name in names if name not in excluded]


def _form_by_witness(admin: BaseModelAdmin[Any], request: HttpRequest) -> EveryForm:
    naming, making = (hooks_by_object(admin, names) for names in (_NAMING, FORMFIELD_HOOKS))
    readonly = None
    with suppress(Depends):
        if hooks_by_object(admin, ("get_readonly_fields",)):
            readonly = common_answer(admin, request, _readonly_of)
        else:
            is_djangos = hook_of(admin, "get_readonly_fields") is BaseModelAdmin.get_readonly_fields
            readonly = _readonly_of(admin, request, None if is_djangos else object_for(admin))
    try:
        is_editable = not (naming or making) or allows_some(admin, request, "has_change_permission")
        if naming:
            ask = partial(_page_names, readonly=readonly, is_editable=is_editable)
            names = common_answer(admin, request, ask)
        else:
            names = _names_in_form(admin, request, readonly, object_for(admin), _NAMING)
        if making and is_editable:
            listed = _listed(admin, request) if isinstance(admin, ModelAdmin) else ()
            ask = partial(_with_field, names=names, but={*listed, *(readonly or ())})
            names = common_answer(admin, request, ask, twice=False)
    except Depends as error:
        return EveryForm(hooks=hooks_that_looked([*naming, *making], error), has_more_readonly=True)
    return EveryForm(names, readonly or (), has_more_readonly=readonly is None)


def _with_field(
    admin: BaseModelAdmin[Any], request: HttpRequest, obj: Any, *, names: Sequence[str], but: Collection[str]
) -> list[str]:
    """The names but for those of fields for which a hook makes no field of the form."""
    fields = {field.name: field for field in _editable(admin.opts)}
    asked = fields.keys() - {*but, *getattr(admin.form, "declared_fields", ())}
    return [name for name in names if name not in asked or _has_form_field(admin, request, fields[name])]


def _has_form_field(admin: BaseModelAdmin[Any], request: HttpRequest, field: Any) -> bool:
    """Whether the hooks of the project make a field of the form; they are asked as Django asks them."""
    of_kind = {"choice_field": bool(field.choices), "foreignkey": field.many_to_one or field.one_to_one,
               "manytomany": field.many_to_many}  # fmt: skip
    if not are_as_django(admin, ("formfield_for_dbfield",)):
        # Modelforms pass the request by its name to this one alone.
        return admin.formfield_for_dbfield(field, request=request) is not None
    for hook in (f"formfield_for_{kind}" for kind, is_one in of_kind.items() if is_one):
        if not are_as_django(admin, (hook,)):
            return getattr(admin, hook)(field, request) is not None
    return True


def _readonly_of(admin: BaseModelAdmin[Any], request: HttpRequest, obj: Any) -> list[str]:
    return [name for name in admin.get_readonly_fields(request, obj) if isinstance(name, str)]


def _page_names(
    admin: BaseModelAdmin[Any], request: HttpRequest, obj: Any, *, readonly: Sequence[str] | None, is_editable: bool
) -> list[str]:
    """Names that the page of an object shows, asked as its view asks."""
    if readonly is None:
        vars(admin)["get_readonly_fields"] = lambda request, obj=None: ()
    _allow_in_form(admin)
    names = names_in_fieldsets(admin.get_fieldsets(request, obj))
    excluded = admin.get_exclude(request, obj) or ()
    if is_editable and not are_as_django(admin, ("get_form", "get_formset")):
        editable = {field.name for field in _editable(admin.opts)}
        asked = names if readonly is not None else [name for name in names if name in editable]
        if isinstance(admin, ModelAdmin):
            form = admin.get_form(request, obj, change=True, fields=asked)
        else:
            form = cast("Any", admin).get_formset(request, obj, fields=asked).form
        kept = {*form.base_fields, *(readonly if readonly is not None else set(names) - editable)}
        names = [name for name in names if name in kept]
    return [name for name in names if name not in excluded]


def _allow_in_form(admin: BaseModelAdmin[Any]) -> None:
    """Let the permissions of objects that a project decides say yes where Django alone asks for them."""
    if not are_as_django(admin, ("get_form", "get_formset", "get_fields", "get_fieldsets")):
        return
    for name in _PERMISSIONS_IN_FORM:
        if hooks_by_object(admin, (name,)):
            vars(admin)[name] = partial(_permitted, getattr(admin, name))


def _permitted(hook: Any, request: HttpRequest, obj: Any = None) -> bool:
    return obj is not None or bool(hook(request))


def _asks_django_alone(admin: BaseModelAdmin[Any]) -> bool:
    """Whether Django itself answers every hook that takes the object: its own do not look at it."""
    return (
        are_as_django(admin, _FORM_HOOKS)
        and hook_of(admin, "get_exclude") is BaseModelAdmin.get_exclude
        and hook_of(admin, "get_readonly_fields") is BaseModelAdmin.get_readonly_fields
    )


@lru_cache(maxsize=1_000)
def _editable(opts: Options[Any]) -> tuple[models.Field[Any, Any], ...]:
    """The fields that a form has where nothing names them."""
    columns = [field for field in opts.concrete_fields if field.editable and not _is_given(opts, field)]
    links = [field for field in opts.many_to_many if field.editable and _has_own_table(field)]
    return (*columns, *links)


def _fields_among(admin: ModelAdmin[Any], names: Sequence[str]) -> list[str]:
    return list(_fields_of(admin.opts, tuple(names)))


@lru_cache(maxsize=1_000)
def _fields_of(opts: Options[Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the names that are fields of the model, each once."""
    return tuple(dict.fromkeys(name for name in names if is_record_field(opts.model, name)))


def is_record_field(model: type[models.Model], name: str) -> bool:
    """Whether the name is that of a field that a record may show: a column, or a relation that stands on the model."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    # Of the relations without a column, those that stand on this model.
    return any(field is key for key in generic_keys(model)) or (
        isinstance(field, models.Field) and bool(field.concrete or field.many_to_many)
    )


def generic_keys(model: type[models.Model]) -> list[Any]:
    """The generic foreign keys of a model, recognised by an attribute, since contenttypes need not be installed."""
    return [field for field in model._meta.private_fields if hasattr(field, "ct_field")]
