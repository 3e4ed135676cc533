"""Checks of what a project declares about writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.core.checks import CheckMessage, Error, Warning

from mcp_django.bridge.declared.consent import is_consent
from mcp_django.bridge.declared.options import OPERATIONS
from mcp_django.core.hooks import hook_of

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import ModelMCP

#: The views of a ModelAdmin that lead to its form.
_VIEWS = ("add_view", "change_view", "changeform_view", "_changeform_view")
_PREVIEWS = ("form", "rollback")


def check_model(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    name = type(model_mcp).__name__
    writable: Any = model_mcp.writable
    if isinstance(writable, str) or writable is True or (writable and not set(writable) <= set(OPERATIONS)):
        yield Error(
            f"{name}.writable is {writable!r}, which is neither False nor a set of {', '.join(OPERATIONS)}.",
            hint='Write it as writable = {"create", "update"}. None allows all three.',
            id="mcp_django.E024",
        )
        return
    declared: Any = model_mcp.consent
    if not isinstance(declared, Mapping):
        yield Error(
            f"{name}.consent is {declared!r}, which says nothing about operations.",
            hint='Write it as consent = {"update": "approve"}.',
            id="mcp_django.E025",
        )
        return
    for operation, consent in declared.items():
        if not is_consent(consent):
            yield Error(
                f"{name}.consent has {operation!r}: {consent!r}.",
                hint="An operation needs 'preview', 'ask', 'approve' or an Approval, by at least one person, whom a "
                "permission as app.codename, group:NAME or a function names.",
                id="mcp_django.E025",
            )
    if model_mcp.preview not in _PREVIEWS:
        yield Error(
            f"{name}.preview is {model_mcp.preview!r}.",
            hint=f"Write {' or '.join(map(repr, _PREVIEWS))}.",
            id="mcp_django.E026",
        )
    if writable is False:
        return
    if model_mcp.model_admin is None:
        if writable:
            yield Warning(
                f"{name} says that {model_mcp.label} may be written, but it has no ModelAdmin to write through.",
                hint="Register a ModelAdmin, or leave writable out.",
                id="mcp_django.W024",
            )
        return
    for view in _VIEWS:
        if (hook := _own_view(model_mcp.model_admin, view)) is not None and not _calls_another(hook):
            yield Warning(
                f"{hook.__qualname__} does not call the view of ModelAdmin, so the form of {model_mcp.label} cannot be "
                "used: agents are told that the admin does not show it.",
                hint="Call super() in it, or set writable = False in a ModelMCP of the model.",
                id="mcp_django.W025",
            )


def _own_view(admin: ModelAdmin[Any], name: str) -> Any:
    """The project's view of that name, if it was written as a method. The code of a wrapper does not name the view."""
    holder = next(cls for cls in type(admin).__mro__ if name in vars(cls))
    view = hook_of(admin, name)
    is_method = getattr(view, "__qualname__", "") == f"{holder.__qualname__}.{name}" and hasattr(view, "__code__")
    return view if is_method and holder is not ModelAdmin and not hasattr(view, "__wrapped__") else None


def _calls_another(view: Any) -> bool:
    """Whether its code names super or a view."""
    return bool({"super", *_VIEWS} & {*view.__code__.co_names, *view.__code__.co_freevars})
