"""What hooks of the project answer whichever the object is, and so which objects the user may see and change.

They are asked with a witness, at most once for a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib.admin import ModelAdmin
from django.contrib.admin.options import BaseModelAdmin, InlineModelAdmin
from django.db import models
from django.utils.translation import get_language

from mcp_django.bridge.declared.project_hooks import hooks_by_object
from mcp_django.bridge.declared.witness import Depends, makes_rows, of_every_object, plain_object
from mcp_django.core.compat.admin import model_admins
from mcp_django.core.compat.queries import is_iterated_by_django
from mcp_django.core.hooks import call_hook, hook_of

if TYPE_CHECKING:
    from django.http import HttpRequest

T = TypeVar("T")

#: Views of a ModelAdmin that know the object. Where a project overrides one, it may leave the object anywhere.
_KEEPING_OBJECT = ("change_view", "changeform_view", "get_object")
#: Packages whose views leave nothing of the object in the ModelAdmin or the request for their hooks of the form.
_KEEPING_NOTHING = (
    "adminsortable2.", "cms.", "django_fsm.", "fsm_admin.", "markupfield.", "modeltranslation.", "nested_admin.",
    "ordered_model.",
)  # fmt: skip

#: Hooks that say which objects may be seen.
_VIEWING = ("has_view_permission", "has_view_or_change_permission")
#: Where a request keeps rows until they are read.
_ROWS = "_mcp_rows"


# Permissions.


def may_view(admin: BaseModelAdmin[Any], request: HttpRequest, obj: models.Model | None = None) -> bool:
    """As the admin, which shows what one may view or change. A ``has_view_permission`` of the project decides alone."""
    view, any_of_both = (hook_of(admin, name).__module__.startswith("django.") for name in _VIEWING)
    if any_of_both and not view:
        return bool(admin.has_view_permission(request, obj))
    return bool(admin.has_view_or_change_permission(request, obj))


def viewing_by_object(admin: BaseModelAdmin[Any], request: HttpRequest) -> Sequence[str]:
    """The hooks that let the user see one object and not another, or none."""
    hooks = _viewing_hooks(admin, request)
    return found_once(admin, request, "view", lambda: _viewing_by_witness(admin, request, hooks)) if hooks else ()


def views_every_object(admin: BaseModelAdmin[Any], request: HttpRequest) -> bool:
    """Whether the user may see whichever object there is. No hook of the project is asked without one."""
    if _viewing_hooks(admin, request):
        return not viewing_by_object(admin, request)
    return may_view(admin, request)


def _viewing_hooks(admin: BaseModelAdmin[Any], request: HttpRequest) -> Sequence[str]:
    """The hooks of the project that say which objects the user may see."""
    hooks = hooks_by_object(admin, _VIEWING)
    # Who may change an object may see it.
    return hooks or (() if admin.has_view_permission(request) else hooks_by_object(admin, ("has_change_permission",)))


def _viewing_by_witness(admin: BaseModelAdmin[Any], request: HttpRequest, hooks: Sequence[str]) -> Sequence[str]:
    try:
        return () if common_answer(admin, request, may_view) else hooks
    except Depends as error:
        return hooks_that_looked(hooks, error)


def hooks_that_looked(hooks: Sequence[str], error: Depends) -> Sequence[str]:
    """Those of the hooks that looked at the object, where that is known."""
    return [hook for hook in hooks if hook in error.functions] or hooks


def allows_some(admin: BaseModelAdmin[Any], request: HttpRequest, permission: str) -> bool:
    """Whether a hook such as ``has_change_permission`` says yes of every object, or may say it of one."""
    if not hooks_by_object(admin, (permission,)):
        return bool(getattr(admin, permission)(request))
    return found_once(admin, request, permission, lambda: _allows_some_by_witness(admin, request, permission))


def _allows_some_by_witness(admin: BaseModelAdmin[Any], request: HttpRequest, permission: str) -> bool:
    try:
        return common_answer(admin, request, lambda admin, *asked: bool(getattr(admin, permission)(*asked)))
    except Depends:
        return True


# Any hooks.


def common_answer(
    admin: BaseModelAdmin[Any], request: HttpRequest, ask: Callable[[Any, HttpRequest, Any], T], *, twice: bool = True
) -> T:
    """What hooks answer whichever the object is. Raises Depends."""
    page = model_admins(admin.admin_site).get(admin.parent_model) if isinstance(admin, InlineModelAdmin) else admin
    if page is None or _keeps_object(type(page)) or not _has_one_class(page, request):
        raise Depends
    return of_every_object(admin, request, _model_of_objects(admin), ask, twice=twice)


def _has_one_class(page: BaseModelAdmin[Any], request: HttpRequest) -> bool:
    """Whether all objects are of the model's own class."""
    if not makes_rows(page.model):
        return False
    manager = page.model._default_manager
    if type(manager) is models.Manager and hook_of(page, "get_queryset") is BaseModelAdmin.get_queryset:
        return True
    return found_once(page, request, "class", lambda: _lists_one_class(page, request))


def _lists_one_class(page: BaseModelAdmin[Any], request: HttpRequest) -> bool:
    nothing: Any = None
    rows = call_hook(partial(page.get_queryset, request), nothing, type(page), "get_queryset")
    if rows is not nothing:
        request.__dict__.get(_ROWS, {})[_key(page, request, "rows")] = page, rows
    return _are_of_one_class(rows)


def _are_of_one_class(rows: Any) -> bool:
    if isinstance(rows, models.Manager):
        rows = rows.all()
    return isinstance(rows, models.QuerySet) and is_iterated_by_django(rows)


@contextmanager
def only_reading(request: HttpRequest) -> Iterator[None]:
    """Nothing is written meanwhile: rows that were made to look at their class are those that are read."""
    vars(request)[_ROWS] = {}
    try:
        yield
    finally:
        vars(request).pop(_ROWS, None)


def rows_in_list(admin: ModelAdmin[Any], request: HttpRequest) -> models.QuerySet[Any]:
    """The ``get_queryset`` of a ModelAdmin, which may ask the database: it is not asked a second time to read rows."""
    _, made = request.__dict__.get(_ROWS, {}).pop(_key(admin, request, "rows"), (admin, None))
    rows = admin.get_queryset(request) if made is None else made
    # Nor to look at their class.
    found_once(admin, request, "class", lambda: _are_of_one_class(rows))
    return rows


@lru_cache(maxsize=1_000)
def _keeps_object(cls: type[BaseModelAdmin[Any]]) -> bool:
    """Whether a view of the project knows the object, and may leave it where a hook finds it."""
    homes = [base.__module__ for base in cls.__mro__ for name in _KEEPING_OBJECT if name in vars(base)]
    return any(not home.startswith(("django.contrib.", *_KEEPING_NOTHING)) for home in homes)


def found_once(owner: Any, request: HttpRequest, what: str, find: Callable[[], T]) -> T:
    """What was found out for this request, once."""
    known: dict[Any, Any] = request.__dict__.setdefault("_mcp_asked", {})
    key = _key(owner, request, what)
    if key not in known:
        # With the owner itself, so that its number is not given to another one.
        known[key] = owner, find()
    found: T = known[key][1]
    return found


def _key(owner: Any, request: HttpRequest, what: str) -> Any:
    used, supposed = getattr(request, "used_tool", ""), getattr(request, "supposed", None) is not None
    return id(owner), what, used, supposed, get_language()


def object_for(admin: BaseModelAdmin[Any]) -> models.Model:
    """An object for hooks that do not look at it."""
    return plain_object(_model_of_objects(admin))


def _model_of_objects(admin: BaseModelAdmin[Any]) -> type[models.Model]:
    """The model of the objects that the hooks are given: those of an inline take the parent."""
    found: type[models.Model] = getattr(admin, "parent_model", None) or admin.model
    return found
