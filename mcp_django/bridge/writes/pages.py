"""The pages of a twin: its forms as a GET shows them, and what comes of sending one back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.db import router, transaction
from django.http import Http404
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse

from mcp_django.bridge.writes.access import HOOKS
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.twin import Stop, ViewRun, twin_of
from mcp_django.core.compat.admin import key_for_url, names_in_fieldsets
from mcp_django.core.compat.requests import without_csrf

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase

    from mcp_django.bridge.declared.options import Operation
    from mcp_django.exchange.requests import MCPRequest

#: What may be done with an object that is there.
_OF_OBJECTS: tuple[Operation, ...] = ("update", "delete")


class Refused(Exception):
    """The admin answers neither with its form nor with a row: it refuses, or leads elsewhere."""

    def __init__(self, response: HttpResponseBase | None, request: MCPRequest) -> None:
        super().__init__()
        self.response = response
        self.request = request


@dataclass
class InlineForm:
    """One row of an inline: its form, the names that can be filled in, and the row that it shows."""

    form: Any
    names: list[str]
    row: Any


@dataclass
class Inline:
    """An inline of a page, with the forms of its rows and those for new ones."""

    inline: Any
    formset: Any
    forms: list[InlineForm]
    can_add: bool
    can_delete: bool
    #: The names of the fields of a new row.
    new_names: list[str]
    #: Whether it stands in a row of another inline, as django-nested-admin has them. Then it is sent as it is.
    is_nested: bool = False


@dataclass
class FormPage:
    """The form of an object, or of a new one, as the page shows it."""

    form: Any
    #: The names of the fields that can be filled in.
    names: list[str]
    inlines: list[Inline] = field(default_factory=list)
    #: What the page does not let the user do with its object.
    refused: Collection[Operation] = ()


def open_page(admin: ModelAdmin[Any], request: MCPRequest, key: Any = None) -> FormPage:
    """The page of an object by its key, or the one for a new object. Raises Refused and PermissionDenied."""
    asked = request_for(admin, request, "GET", *page_name(key))
    check_has_page(admin, page_name(key)[0], asked)
    return page_of(view(twin_of(admin, ViewRun(writes=False)), asked, key), asked)


@dataclass
class Sent:
    """What came of sending a form: a page with errors, or a row that is saved, or would be."""

    run: ViewRun
    request: MCPRequest
    #: The page that shows what is wrong.
    page: FormPage | None = None


def send(admin: ModelAdmin[Any], request: MCPRequest, data: FormData, run: ViewRun, key: Any = None) -> Sent:
    """Send a filled form. Unless ``run.writes``, nothing is written. Raises Refused and PermissionDenied."""
    asked = request_for(admin, request, "POST", *page_name(key))
    asked.POST, asked.FILES = data.post(), data.files
    check_has_page(admin, page_name(key)[0], asked)
    # A transaction of our own, since a project may override the view that begins one.
    return sent(twin_of(admin, run), asked, key, transaction.atomic(using=router.db_for_write(admin.model)))


def sent(twin: Any, asked: MCPRequest, key: Any, around: AbstractContextManager[Any] | None = None) -> Sent:
    """What comes of a request that sends a form. ``around``: within what. Raises Refused and PermissionDenied."""
    run: ViewRun = twin.mcp_run
    try:
        with around or nullcontext():
            response = view(twin, asked, key)
            if not run.is_done:
                return Sent(run, asked, page_of(response, asked))
    except Stop:
        pass
    finally:
        if run.lost_precision is not None:
            run.lost_precision.release()
    return Sent(run, asked)


def check_has_page(admin: ModelAdmin[Any], page: str, request: MCPRequest) -> None:
    """Raises Refused where the project has removed the URL of a page, but not its view."""
    if _name_of(admin, page) not in {getattr(one, "name", None) for one in admin.get_urls()}:
        raise Refused(None, request)


def view(twin: Any, request: MCPRequest, key: Any) -> HttpResponseBase:
    """What the view of a row, or of a new one, answers. Raises Refused and PermissionDenied."""
    try:
        response: HttpResponseBase = (
            twin.add_view(request) if key is None else twin.change_view(request, key_for_url(key))
        )
    except Http404:
        raise Refused(None, request) from None
    return response


def model_of(response: Any, admin: ModelAdmin[Any]) -> Any:
    """The model of a page, where it is not that of the ModelAdmin: rows of django-polymorphic are of several models."""
    opts = (getattr(response, "context_data", None) or {}).get("opts")
    if opts is None or opts.concrete_model is admin.model._meta.concrete_model:
        return None
    return opts.model


def page_of(response: Any, request: MCPRequest) -> FormPage:
    """The page that a view answers with. Raises Refused where it is none of ours."""
    context = getattr(response, "context_data", None) or {}
    # A form that another ModelAdmin has made lacks our hooks: a preview would save it instead of ending there.
    if "adminform" not in context or not hasattr(context["adminform"].form, "mcp_stored"):
        raise Refused(response, request)
    admin_form = context["adminform"]
    names = names_of(admin_form.form, names_in_fieldsets(admin_form.fieldsets), admin_form.readonly_fields)
    inlines = [inline_of(one) for one in context.get("inline_admin_formsets") or ()]
    # A page names them as the hooks that its view has asked.
    refused = [one for one in _OF_OBJECTS if not context.get(HOOKS[one], True)]
    return FormPage(admin_form.form, names, [*inlines, *_nested(inlines)], refused)


def names_of(form: Any, shown: Iterable[Any], read_only: Collection[str]) -> list[str]:
    """The names of the fields of a form that can be filled in, of those that a page shows."""
    return [name for name in dict.fromkeys(shown) if name in form.fields and name not in read_only]


def _nested(inlines: Iterable[Inline]) -> Iterator[Inline]:
    """The inlines in the rows of inlines, and those in their rows."""
    for row in chain.from_iterable(inline.forms for inline in inlines):
        found = [replace(inline_of(shown), is_nested=True) for shown in getattr(row.form, "inlines", None) or ()]
        yield from (*found, *_nested(found))


def inline_of(shown: Any) -> Inline:
    """An inline as the page shows it."""
    found, real = list(_inline_forms(shown)), set(map(id, shown.formset.forms))
    # The last one is the template of a new row.
    forms = [one for one in found if id(one.form) in real]
    new_names = found[-1].names if found else []
    can_delete = bool(shown.formset.can_delete and shown.has_delete_permission)
    return Inline(shown.opts, shown.formset, forms, bool(shown.has_add_permission), can_delete, new_names)


def _inline_forms(shown: Any) -> Iterator[InlineForm]:
    for one in shown:
        names = [name for name in names_in_fieldsets(one.fieldsets) if name in one.form.fields]
        keys = [one.pk_field().field.name] if one.needs_explicit_pk_field() else []
        owner: Any = one.fk_field()
        keys += [owner.field.name] if owner else []
        editable = [name for name in names if name not in one.readonly_fields]
        yield InlineForm(one.form, list(dict.fromkeys([*keys, *editable])), one.original)


def page_name(key: Any) -> tuple[str, *tuple[Any, ...]]:
    return ("add",) if key is None else ("change", key)


def _name_of(admin: ModelAdmin[Any], page: str) -> str:
    """The name of the URL of a page."""
    return f"{admin.opts.app_label}_{admin.opts.model_name}_{page}"


def page_path(admin: ModelAdmin[Any], page: str, *keys: Any) -> str | None:
    """The path of a page of a model in the admin: "add", "change" of a key, "changelist". None if it is not served."""
    name = f"admin:{_name_of(admin, page)}"
    try:
        return reverse(name, args=list(map(key_for_url, keys)), current_app=admin.admin_site.name)
    except NoReverseMatch:
        return None


def request_for(admin: ModelAdmin[Any], request: MCPRequest, method: str, page: str, *keys: Any) -> MCPRequest:
    """A request of the same caller as a browser makes it to a page of the admin."""
    return request_at(request, method, page_path(admin, page, *keys))


def request_at(request: MCPRequest, method: str, path: str | None, query: str = "") -> MCPRequest:
    """The same for a path, which is that of the given request where it is None."""
    made = request.copy().for_principal(request.mcp.principal)
    made.mcp, made.method = request.mcp, method
    made.META = {**made.META, "REQUEST_METHOD": method, "QUERY_STRING": query}
    if path is not None:
        made.path = path
        made.path_info = below_prefix(path)
        with suppress(Resolver404):
            made.resolver_match = resolve(made.path_info)
    without_csrf(made)
    return made


def below_prefix(path: str) -> str:
    """The path as URLs are resolved: without the one below which the project is mounted."""
    return f"/{path.removeprefix(get_script_prefix())}"
