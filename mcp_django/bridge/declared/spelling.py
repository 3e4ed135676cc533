"""Refuses misspelt declarations where they are made: an option by another name is ignored, and more is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial, partialmethod, wraps
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

from django.contrib.admin import ModelAdmin
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from mcp_django.bridge.declared.options import OPERATIONS, ModelMCP
from mcp_django.core.compat.admin import existing_admin_sites, model_admins
from mcp_django.protocol.unknown_names import did_you_mean, misspelt, unknown_name

if sys.version_info >= (3, 14):
    import annotationlib

    # Names that only a type checker knows are not looked up.
    _annotations_of = partial(annotationlib.get_annotations, format=annotationlib.Format.FORWARDREF)
else:
    from inspect import get_annotations as _annotations_of

P = ParamSpec("P")
T = TypeVar("T")

#: The options of a ModelMCP, and what a project may override beside them.
OPTIONS = tuple(_annotations_of(ModelMCP))
HOOKS = (
    "get_queryset",
    "has_view_permission",
    *(getter for option in OPTIONS if hasattr(ModelMCP, getter := f"get_{option}")),
)
_KNOWN = (*OPTIONS, *HOOKS)

#: Names of a ModelAdmin → the options and hooks of a ModelMCP that say it to agents.
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("list_display", "fieldsets", "get_list_display", "get_fieldsets"), "fields or get_fields"),
    **dict.fromkeys(("readonly_fields", "get_readonly_fields"), "write_fields or get_write_fields"),
    **dict.fromkeys(("list_filter", "get_list_filter"), "filter_fields or get_filter_fields"),
    **dict.fromkeys((f"has_{what}_permission" for what in ("add", "change", "delete")), "writable or get_writable"),
}
#: How hooks of a ModelAdmin begin that decide what may be done, or how it is done.
_DECIDING = ("has_", "save_", "delete_", "formfield_for_", "lookup_allowed")


def refuse_unknown(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: a keyword that the function does not take raises ImproperlyConfigured, with the one that is meant."""
    taken = signature(function).parameters
    known = [name for name, one in taken.items() if one.kind is Parameter.KEYWORD_ONLY]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in taken:
                raise ImproperlyConfigured(f"@{function.__name__}: {unknown_name('option', name, known)}")
        return function(*args, **kwargs)

    return checked


def check_keywords(model: type[models.Model], cls: type[ModelMCP], options: Mapping[str, Any]) -> None:
    """Raises ImproperlyConfigured for a keyword of ``register`` that is no option, no hook and no column.

    A class that has attributes of its own may be given them.
    """
    own = {
        *_own_names(cls, model),
        *dict(_public(cls, ModelMCP)),
        *_strings(SimpleNamespace(**options), "fields", "extra_fields"),
    }
    for name in options:
        if name not in _KNOWN and name not in own:
            why = _why_of_admin(name) or unknown_name("option", name, _KNOWN)
            raise ImproperlyConfigured(f"{model._meta.label}: {why}")


def check_class(model: type[models.Model], cls: type[ModelMCP]) -> None:
    """Raises ImproperlyConfigured for a name in the class that is nearly an option or a hook, or one of ModelAdmin.

    Names with an annotation, and those of columns, are the project's own.
    """
    own = _own_names(cls, model)
    for name, value in _public(cls, ModelMCP):
        if name in own or hasattr(ModelMCP, name):
            continue
        # A class that is no ModelMCP may be one from which the ModelAdmin inherits too.
        is_for_agents = any(name in vars(one) for one in cls.__mro__ if issubclass(one, ModelMCP))
        if is_for_agents and (why := _why_of_admin(name)):
            raise ImproperlyConfigured(f"{cls.__name__}: {why}")
        if not hasattr(ModelAdmin, name):
            _refuse_misspelt(cls, name, value, OPTIONS, HOOKS)


def check_site_class(cls: type[Any], base: type[Any], options: Collection[str], hooks: Collection[str]) -> None:
    """The same of a subclass of MCPSite."""
    for name, value in _public(cls, base):
        if not hasattr(base, name):
            _refuse_misspelt(cls, name, value, options, hooks)


def check_names(model_mcp: ModelMCP) -> None:
    """Raises ImproperlyConfigured for what would be shown, or done without asking, because its name is misspelt."""
    name = type(model_mcp).__name__
    consent: Any = model_mcp.consent
    for operation in consent if isinstance(consent, Mapping) else ():
        if operation not in OPERATIONS:
            raise ImproperlyConfigured(f"{name}.consent: {unknown_name('operation', str(operation), OPERATIONS)}")
    fields = [field.name for field in model_mcp.opts.get_fields()]
    known = {*fields, *_own_names(type(model_mcp), model_mcp.model)}
    for excluded in _strings(model_mcp, "exclude"):
        is_known = excluded in known or any(hasattr(one, excluded) for one in (model_mcp.model, type(model_mcp)))
        if not is_known and (meant := misspelt(excluded, fields)):
            raise ImproperlyConfigured(
                f"{name}.exclude names {excluded!r}, which {model_mcp.label} does not have.{did_you_mean([meant])}"
            )


def stray_values(model: type[models.Model], cls: type[ModelMCP]) -> list[str]:
    """The public values of the class that are no options, neither of ModelAdmin, and have no annotation."""
    own = {*_own_names(cls, model), *_KNOWN, *dir(ModelAdmin)}
    return [name for name, value in _public(cls, ModelMCP) if name not in own and not _has_code(value)]


def _public(cls: type[Any], base: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public names that the class has beside its base, and from mixins, each with its value."""
    found: dict[str, Any] = {}
    for one in cls.__mro__:
        if one not in base.__mro__:
            for name, value in vars(one).items():
                if not name.startswith("_") and not _is_inner(value, one):
                    found.setdefault(name, value)
    yield from found.items()


def _is_inner(value: Any, owner: type[Any]) -> bool:
    return isinstance(value, type) and value.__qualname__.startswith(f"{owner.__qualname__}.")


def _has_code(value: Any) -> bool:
    """Whether it can be called, or is found by calling something, as a property is."""
    return callable(value) or hasattr(type(value), "__get__")


def _refuse_misspelt(cls: type[Any], name: str, value: Any, options: Collection[str], hooks: Collection[str]) -> None:
    is_function = isinstance(value, (staticmethod, classmethod, partialmethod)) or (
        callable(value) and not isinstance(value, type)
    )
    # No option is a function: ``match`` is a helper's name. In capitals there are constants.
    known = hooks if is_function else (*options, *hooks)
    if not name.isupper() and (meant := misspelt(name, known)):
        raise ImproperlyConfigured(
            f"{cls.__name__}.{name} is no option and no hook.{did_you_mean([meant])} If the name is your own, annotate "
            "it, or take another."
        )


def _why_of_admin(name: str) -> str:
    """Why an option or a deciding hook of ModelAdmin is refused; empty for another name."""
    if not hasattr(ModelAdmin, name) or hasattr(ModelMCP, name):
        return ""
    value = getattr(ModelAdmin, name)
    is_option = isinstance(value, type) or not _has_code(value)
    is_getter = name.startswith("get_") and hasattr(ModelAdmin, name.removeprefix("get_"))
    if not (is_option or is_getter or name.startswith(_DECIDING)):
        return ""
    return (
        f"{name} is a name of ModelAdmin that no ModelMCP reads. Declare {_INSTEAD.get(name, 'it in the ModelAdmin')}."
    )


def _own_names(cls: type[ModelMCP], model: type[models.Model]) -> set[str]:
    """Names that are the project's own: those with an annotation, and those of columns."""
    annotated = (name for one in cls.__mro__ if one not in ModelMCP.__mro__ for name in _annotations_of(one))
    admins = (model_admins(admin_site).get(model) for admin_site in existing_admin_sites())
    listed = (name for admin in admins for name in _strings(admin, "list_display", "readonly_fields"))
    return {*annotated, *listed, *_strings(cls, "fields", "extra_fields")}


def _strings(owner: Any, *options: str) -> Iterator[str]:
    """The names that options hold which are lists. What is no list of names a check reports."""
    for option in options:
        named = getattr(owner, option, ())
        yield from (name for name in named if isinstance(name, str)) if isinstance(named, list | tuple | set) else ()
