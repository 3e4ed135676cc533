"""Which hooks of a ModelAdmin are the project's own, so that they may decide by the object.

Django's own do not look at it, nor do those of known packages. A project says the same of its own by a decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

from django.contrib.admin.options import BaseModelAdmin

from mcp_django.core.hooks import is_defined_in

F = TypeVar("F", bound=Callable[..., Any])

#: Hooks that make the fields of a form, which are given no object.
FORMFIELD_HOOKS = (
    "formfield_for_dbfield", "formfield_for_choice_field", "formfield_for_foreignkey", "formfield_for_manytomany",
)  # fmt: skip
_BUT_MANYTOMANY = frozenset(FORMFIELD_HOOKS) - {"formfield_for_manytomany"}

#: Hooks of known packages that leave the fields and permissions of an existing object as Django has them, by module.
_SAME_AS_DJANGO: Mapping[str, frozenset[str]] = {
    "mptt.admin": _BUT_MANYTOMANY,
    "parler.admin": frozenset({"get_form"}),
    "simple_history.admin": frozenset({"has_view_permission"}),
    "unfold.admin": frozenset({"get_fieldsets", "get_formset_kwargs"}),
    "unfold.mixins.base_model_admin": frozenset(FORMFIELD_HOOKS),
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


def hooks_by_object(admin: BaseModelAdmin[Any] | None, names: tuple[str, ...]) -> Sequence[str]:
    """The functions of the hooks whose answer may depend on the object, each as ``FlightAdmin.get_fieldsets``."""
    if admin is None:
        return ()
    put = [hook for hook in _put_on(admin, names) if not is_independent(hook)]
    of_class = hooks_of_class_by_object(type(admin), names)
    return (*map(_called, put), *of_class) if put else of_class


@lru_cache(maxsize=1_000)
def hooks_of_class_by_object(cls: type[BaseModelAdmin[Any]], names: tuple[str, ...]) -> Sequence[str]:
    return tuple(_called(hook) for hook, answer in _answers(cls, names).items() if answer is _Answer.MAY_DIFFER)


def are_as_django(admin: BaseModelAdmin[Any], names: tuple[str, ...]) -> bool:
    """Whether these hooks leave the fields as Django has them."""
    return _are_djangos(type(admin), names) and not _put_on(admin, names)


@lru_cache(maxsize=1_000)
def _are_djangos(cls: type[BaseModelAdmin[Any]], names: tuple[str, ...]) -> bool:
    return all(answer is _Answer.SAME_AS_DJANGO for answer in _answers(cls, names).values())


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
