"""Models in inlines: the page of a parent shows them, with the fields, rows and permission of the inline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.options import InlineModelAdmin
from django.db import models

from mcp_django.bridge.declared.admin_form import (
    CHOOSING_INLINES,
    CHOOSING_ROWS,
    computed_in_form,
    form_of_every_object,
    has_form,
    inline_classes,
    inlines_of_every_object,
    restricting_formset,
)
from mcp_django.bridge.declared.every_object import viewing_by_object, views_every_object
from mcp_django.bridge.declared.options import ComputedField, ModelMCP
from mcp_django.bridge.declared.project_hooks import hooks_by_object
from mcp_django.bridge.declared.secrets import why_hidden
from mcp_django.core.compat.admin import foreign_key_of_inline
from mcp_django.core.hooks import call_hook, hook_of

if TYPE_CHECKING:
    from django.http import HttpRequest


_BY_PARENT = "decides by the object of the parent"


class InlineMCP(ModelMCP):
    """How a model is shown that stands in an inline of its parent, and not in the admin by itself."""

    def __init__(self, inline: InlineModelAdmin[Any, Any], parent: ModelMCP) -> None:
        super().__init__(inline.model, parent.site, bridged=True)
        self.inline = inline
        self.parent = parent
        #: The foreign key that leads to the parent; None for a generic inline.
        self.owner = None if is_generic(inline) else foreign_key_of_inline(inline)

    @property
    def model_admin(self) -> None:
        return None

    @property
    def declared_by(self) -> object:
        return self.inline

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Whether the pages of all parents that the user sees show the inline."""
        return self.parent.has_view_permission(request) and not self.why_hidden(request)

    def why_hidden(self, request: HttpRequest) -> str:
        """Why the inline is not on the page of every parent, for this request; empty where it is."""
        return _why_for_request(self.parent, self.inline, request)

    def checks_objects(self, request: HttpRequest) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return self.inline.get_queryset(request)

    def get_fields(self, request: HttpRequest) -> Sequence[str]:
        inline: Any = self.inline
        links = [inline.ct_field, inline.ct_fk_field] if self.owner is None else [self.owner.name]
        return [*links, *form_of_every_object(self.inline, request, trusted=False).names]

    def get_computed(self, request: HttpRequest) -> Sequence[ComputedField]:
        names = computed_in_form(self.inline, request, trusted=False)
        return [self._computed(name, self.inline) for name in names]

    def get_ordering(self, request: HttpRequest) -> Sequence[Any]:
        return self.inline.get_ordering(request) or super().get_ordering(request)


def is_generic(inline: InlineModelAdmin[Any, Any]) -> bool:
    return hasattr(inline, "ct_field")


def inlines_by_parent(parents: Iterable[ModelMCP]) -> Mapping[type[models.Model], Sequence[InlineMCP]]:
    """The models in inlines of each of these models, those that agents may see. Their hooks decide for each request."""
    found = {
        parent.model: [InlineMCP(inline, parent) for inline, why in inlines_of(parent) if not why] for parent in parents
    }
    return {model: shown for model, shown in found.items() if shown}


def models_of_their_own(
    found: Mapping[type[models.Model], Sequence[InlineMCP]], admins: Iterable[ModelAdmin[Any]]
) -> Iterator[InlineMCP]:
    """Those whose model is in no other inline of these ModelAdmins, so that it is known which rows and fields it has.

    Rows of a generic inline are about rows of any model, so they are seen from their parents alone.
    """
    times = Counter(cls.model for admin in admins for cls in inline_classes(admin))
    for one in chain.from_iterable(found.values()):
        if times[one.model] == 1 and one.owner is not None:
            yield one


def inlines_of(
    parent: ModelMCP, request: HttpRequest | None = None
) -> Iterator[tuple[InlineModelAdmin[Any, Any], str]]:
    """Each inline of the parent's ModelAdmin, with the reason why agents do not see it, or an empty text.

    Without a request the reasons are those that hold for everybody.
    """
    admin = parent.model_admin
    if admin is None:
        return
    for inline_class in inline_classes(admin):
        inline = call_hook(partial(inline_class, admin.model, admin.admin_site), None, inline_class.__name__)
        if inline is not None:
            why = _why_of_parent(parent) or _why_of_inline(parent, inline)
            yield inline, why or ("" if request is None else _why_for_request(parent, inline, request))


def _why_of_parent(parent: ModelMCP) -> str:
    admin = parent.model_admin
    if parent.fields is not None or hook_of(parent, "get_fields") is not ModelMCP.get_fields:
        return f"{type(parent).__name__} names the fields of its model itself"
    if hooks := hooks_by_object(admin, CHOOSING_ROWS):
        return f"{hooks[0]} {_BY_PARENT}"
    return "" if admin is None or has_form(admin) else "the page of the parent shows another form"


def _why_of_inline(parent: ModelMCP, inline: InlineModelAdmin[Any, Any]) -> str:
    if inline.model in parent.site.model_admins or inline.model in parent.site.undecided_models:
        return "its model has a ModelAdmin, which decides"
    if (why := why_hidden(inline.model)) is not None:
        return str(why)
    if inline.model._meta.auto_created:
        return "its rows are those of a many-to-many field"
    if not is_generic(inline):
        try:
            foreign_key_of_inline(inline)
        except ValueError:
            return "no foreign key leads from its model to the parent"
    formset = restricting_formset(inline)
    return f"{formset} may show only some of the rows" if formset else ""


def _why_for_request(parent: ModelMCP, inline: InlineModelAdmin[Any, Any], request: HttpRequest) -> str:
    admin = parent.model_admin
    if admin is None:
        return "its parent is no longer in the admin"
    chosen = inlines_of_every_object(admin, request)
    choosing = hooks_by_object(admin, CHOOSING_INLINES) if chosen is None else ()
    form = form_of_every_object(inline, request, trusted=False)
    hooks = [*parent.object_hooks(request), *choosing, *viewing_by_object(inline, request), *form.hooks]
    if hooks:
        return f"{hooks[0]} {_BY_PARENT}"
    if type(inline) not in (chosen or ()) or not views_every_object(inline, request):
        return "the pages of its parents do not show it to this user"
    return ""
