"""What may be written of a model, for people to review: see ``mcp_django.console.review.inventory``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.contrib.admin import ModelAdmin
from django.contrib.auth import get_permission_codename

from mcp_django.access.read_only import is_read_only
from mcp_django.bridge.declared.consent import described
from mcp_django.bridge.declared.options import OPERATIONS
from mcp_django.bridge.writes import access
from mcp_django.bridge.writes.fields import WritableForm, link_of
from mcp_django.core.hooks import hook_of
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import ModelRights


def operations(model: ModelRights) -> dict[str, JSON]:
    """What may be done with rows of the model: ``{"consent", "by"}`` of each operation.

    ``by`` names the permission that a user needs, or the hook of the project that decides.
    """
    if is_read_only():
        return {}
    return {
        one: {"consent": described(access.consent_of(model, one)), "by": _by(model, one)}
        for one in OPERATIONS
        if access.may_write(model, one)
    }


def _by(model: ModelRights, operation: Operation) -> str:
    admin, hook = access.admin_of(model), access.HOOKS[operation]
    found = hook_of(admin, hook)
    if found is not getattr(ModelAdmin, hook):
        return str(getattr(found, "__qualname__", hook))
    return f"{admin.opts.app_label}.{get_permission_codename(access.VERBS[operation], admin.opts)}"


def fields(model: ModelRights) -> dict[str, str]:
    """Names of the fields of the form, and of its inlines as ``lines.amount``, each with the class of its form field.

    They are those of a changed object, or where none may be changed, of a new one. No database is asked, and so no
    page is opened. Raises what the project raises.
    """
    allowed, admin, request = operations(model), access.admin_of(model), model.rights.request
    if not {"create", "update"} & allowed.keys():
        return {}
    obj = model.model() if "update" in allowed else None
    form = admin.get_form(request, obj, change=obj is not None)()
    declared = model.ask_hook("get_write_fields", ())
    found = dict(_names("", WritableForm(form, list(form.fields), model, declared)))
    for inline in admin.get_inline_instances(request, obj):
        if (link := link_of(inline, model)) is not None:
            name, related, links = link
            row = inline.get_formset(request, obj).form()
            names = [one for one in row.fields if one not in links]
            found |= _names(f"{name}.", WritableForm(row, names, related, related.ask_hook("get_write_fields", ())))
    return found


def _names(prefix: str, form: WritableForm) -> Iterator[tuple[str, str]]:
    for name, one in form.fields.items():
        yield f"{prefix}{name}", type(one.bound.field).__name__
