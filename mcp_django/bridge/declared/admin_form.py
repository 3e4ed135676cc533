"""The fields that a ModelAdmin shows of its objects, and whether they are the same for each of them.

A page of rows has the fields that the admin shows of every object. Hooks of the project may decide by the object, so
that their fields are known for one object at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from django.contrib.admin import ModelAdmin
from django.contrib.admin.options import BaseModelAdmin, InlineModelAdmin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.base import ModelBase
from django.db.models.options import Options
from django.forms import ModelForm

from mcp_django.core.compat.admin import names_in_fieldsets
from mcp_django.core.hooks import hook_of, is_defined_in

if TYPE_CHECKING:
    from django.http import HttpRequest

F = TypeVar("F", bound=Callable[..., Any])

#: Hooks that say whether an object has a form, and with which fields; those of packages among them.
_FORM_HOOKS = (
    "has_view_permission",
    "get_fields",
    "get_fieldsets",
    "get_exclude",
    "get_form",
    "get_formset",
    "formfield_for_dbfield",
    "formfield_for_choice_field",
    "formfield_for_foreignkey",
    "formfield_for_manytomany",
    "get_base_fieldsets",
    "get_subclass_fields",
)

#: Hooks of a ModelAdmin that choose the inlines of an object, or their rows.
CHOOSING_INLINES = ("get_inlines", "get_inline_instances", "get_formsets_with_inlines", "get_formset_kwargs")

#: What a formset of the project may restrict its rows by.
_RESTRICTING = ("__init__", "get_queryset", "queryset", "initial_form_count")

_FORMFIELDS = frozenset({"formfield_for_dbfield", "formfield_for_choice_field", "formfield_for_foreignkey"})

#: Hooks of known packages that leave the fields and permissions of an existing object as Django has them, by module.
_SAME_AS_DJANGO: Mapping[str, frozenset[str]] = {
    "mptt.admin": _FORMFIELDS,
    "parler.admin": frozenset({"get_form"}),
    "simple_history.admin": frozenset({"has_view_permission"}),
    "unfold.admin": frozenset({"get_fieldsets", "get_formset_kwargs"}),
    "unfold.mixins.base_model_admin": _FORMFIELDS | {"formfield_for_manytomany"},
}
#: Hooks of known packages that give other fields than Django, the same for each object.
_SAME_FOR_EACH_OBJECT: Mapping[str, frozenset[str]] = {
    "modeltranslation.admin": frozenset(
        {"formfield_for_dbfield", "get_form", "get_formset", "get_fieldsets", "get_readonly_fields"}
    ),
    "polymorphic.admin.childadmin": frozenset(
        {"get_form", "get_fieldsets", "get_base_fieldsets", "get_subclass_fields"}
    ),
}

#: Their pages show the form of another ModelAdmin, that of the object's own class.
_WITHOUT_FORM = frozenset({"polymorphic.admin.parentadmin"})

_declared: WeakSet[Any] = WeakSet()


def ignores_object(hook: F) -> F:
    """Decorator: the answer of this hook of a ModelAdmin is the same for every object, whatever else it depends on.

    Pages, filters, orders and aggregates then use the fields of the form, as they do where no hook is overridden.
    """
    _declared.add(hook)
    return hook


def is_independent(hook: Any) -> bool:
    """Whether the hook is decorated with ``ignores_object``."""
    return hook in _declared


class _Answer(Enum):
    """How far the answer of a hook depends on the object."""

    SAME_AS_DJANGO = 0
    SAME_FOR_EACH_OBJECT = 1
    MAY_DIFFER = 2


def hooks_by_object(admin: BaseModelAdmin[Any] | None, names: tuple[str, ...] = _FORM_HOOKS) -> Sequence[str]:
    """The functions of the hooks whose answer may depend on the object, each as ``FlightAdmin.get_fieldsets``."""
    if admin is None:
        return ()
    put = [hook for hook in _put_on(admin, names) if not is_independent(hook)]
    of_class = _hooks_of_class_by_object(type(admin), names)
    return (*map(_called, put), *of_class) if put else of_class


@lru_cache(maxsize=1_000)
def _hooks_of_class_by_object(cls: type[BaseModelAdmin[Any]], names: tuple[str, ...]) -> Sequence[str]:
    return tuple(_called(hook) for hook, answer in _answers(cls, names).items() if answer is _Answer.MAY_DIFFER)


@lru_cache(maxsize=1_000)
def _are_as_django(cls: type[BaseModelAdmin[Any]]) -> bool:
    """Whether every hook leaves the fields as Django has them."""
    return all(answer is _Answer.SAME_AS_DJANGO for answer in _answers(cls, _FORM_HOOKS).values())


def _put_on(admin: BaseModelAdmin[Any], names: tuple[str, ...]) -> Sequence[Any]:
    """Functions of the hooks that are attributes of the ModelAdmin itself, and not of its class."""
    if vars(admin).keys().isdisjoint(names):
        return ()
    return [hook for name, hook in list(vars(admin).items()) if name in names]


def _called(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", hook))


def _answers(cls: type[BaseModelAdmin[Any]], names: tuple[str, ...]) -> Mapping[Any, _Answer]:
    """How far each function of the hooks depends on the object: those of all classes, since one may call the next."""
    return {vars(base)[name]: _answer(base, name) for name in names for base in cls.__mro__ if name in vars(base)}


def _answer(cls: type[Any], name: str) -> _Answer:
    function = vars(cls)[name]
    if is_defined_in(cls, function):
        if cls.__module__.startswith("django.contrib.") or name in _SAME_AS_DJANGO.get(cls.__module__, ()):
            return _Answer.SAME_AS_DJANGO
        if name in _SAME_FOR_EACH_OBJECT.get(cls.__module__, ()):
            return _Answer.SAME_FOR_EACH_OBJECT
    return _Answer.SAME_FOR_EACH_OBJECT if is_independent(function) else _Answer.MAY_DIFFER


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


def shown_of_every_object(admin: ModelAdmin[Any], request: HttpRequest, *, trusted: bool) -> list[str]:
    """As ``shown_in_list``, and the fields of the change form, if no hook decides by the object.

    ``trusted``: the project says that its hooks do not.
    """
    names = names_in_form(admin, request, trusted=trusted) if has_form(admin) else []
    return _fields_among(admin, [*_listed(admin, request), *names, *_links_in_inlines(admin)])


def inline_classes(admin: ModelAdmin[Any]) -> list[type[InlineModelAdmin[Any, Any]]]:
    """The inlines of a ModelAdmin, without what Django's own check reports as none."""
    declared: Any = admin.inlines
    classes = [cls for cls in declared if isinstance(cls, type)] if isinstance(declared, list | tuple) else []
    return [cls for cls in classes if issubclass(cls, InlineModelAdmin) and isinstance(cls.model, ModelBase)]


def _links_in_inlines(admin: ModelAdmin[Any]) -> list[str]:
    """Many-to-many fields whose rows between stand in an inline of each object."""
    if not (classes := inline_classes(admin)) or hooks_by_object(admin, CHOOSING_INLINES):
        return []
    hooks = (*_FORM_HOOKS, "get_queryset")
    shown = [cls for cls in classes if not _hooks_of_class_by_object(cls, hooks) and not restricting_formset(cls)]
    between = [cls.model for cls in shown]
    fields = [field for field in admin.opts.many_to_many if field.remote_field.through in between]
    return [field.name for field in fields if _has_own_table(field)]


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
    if not has_form(admin) or (not trusted and hooks_by_object(admin, ("get_readonly_fields",))):
        return []
    opts = admin.opts
    readonly = {name for name in admin.get_readonly_fields(request, _object_for(admin)) if isinstance(name, str)}
    fields = {field.name for field in opts.get_fields()}
    return [name for name in names_in_form(admin, request, trusted=trusted) if name in readonly - fields]


def _listed(admin: ModelAdmin[Any], request: HttpRequest) -> list[str]:
    return [name for name in admin.get_list_display(request) if isinstance(name, str)]


def names_in_form(admin: BaseModelAdmin[Any], request: HttpRequest, *, trusted: bool) -> list[str]:
    """Names in the form of every object. No hook is asked without an object, which would mean the form for adding."""
    as_django = _are_as_django(type(admin)) and not _put_on(admin, _FORM_HOOKS)
    # Django's own hooks do not look at the object.
    obj: Any = None if as_django and _asks_django_alone(admin) else _object_for(admin)
    excluded = admin.get_exclude(request, obj) or ()
    if as_django and admin.fieldsets:
        names = names_in_fieldsets(admin.fieldsets)
    elif as_django and not admin.fields and admin.form is ModelForm:
        # The fields that get_form would find, without building a form class for every request.
        names = [field.name for field in _editable(admin.opts)]
        if trusted or not hooks_by_object(admin, ("get_readonly_fields",)):
            names += [name for name in admin.get_readonly_fields(request, obj) if isinstance(name, str)]
    else:
        shown = admin.get_fieldsets(request, _object_for(admin) if obj is None else obj)
        names = names_in_fieldsets(shown)
        if not trusted and not admin.fields and hooks_by_object(admin, ("get_readonly_fields",)):
            editable = {field.name for field in _editable(admin.opts)}
            names = [name for name in names if name in editable]
    return [name for name in names if name not in excluded]


def _asks_django_alone(admin: BaseModelAdmin[Any]) -> bool:
    """Whether Django itself names the fields that are left out, and those that nobody may edit."""
    return (
        hook_of(admin, "get_exclude") is BaseModelAdmin.get_exclude
        and hook_of(admin, "get_readonly_fields") is BaseModelAdmin.get_readonly_fields
    )


def _object_for(admin: BaseModelAdmin[Any]) -> models.Model:
    """An object for hooks that do not look at it. Those of an inline take the parent."""
    return empty_object(getattr(admin, "parent_model", None) or admin.model)


def empty_object(model: type[models.Model]) -> models.Model:
    """An object without values, in no database. A default that is a function is not called: it may ask the database."""
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, models.GeneratedField)]
    return model(**{field.attname: None if _has_function(field) else field.get_default() for field in fields})


def _has_function(field: models.Field[Any, Any]) -> bool:
    return field.has_default() and callable(field.default)


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
