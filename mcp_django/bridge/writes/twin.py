"""A twin of a ModelAdmin, whose own views create, change and delete rows as they do for a browser.

The twin is a copy of the ModelAdmin whose class adds hooks in front of those of the project. Each of them calls the
next one, so every override of the project is called as ever. The hooks remember what a view has made, and end a preview
where the view would begin to write.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.db import router
from django.urls import NoReverseMatch

from mcp_django.bridge.writes.exact_forms import exact
from mcp_django.core.compat.queries import names_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db import models
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from mcp_django.bridge.writes.restoring import LostPrecision
    from mcp_django.bridge.writes.single_pass import Filling
    from mcp_django.bridge.writes.states import State


class Stop(BaseException):
    """Ends a preview where the view would begin to write.

    It is no Exception, since ``except Exception`` of a project must not catch it.
    """


@dataclass(eq=False)
class ViewRun:
    """One run of an admin view: whether it may write, and what it made."""

    #: Whether the view may write. Otherwise it ends with Stop.
    writes: bool
    #: Puts back what widgets have lost; None where nothing is sent.
    lost_precision: LostPrecision | None = None
    #: The state that the form leads to, for whoever sends it.
    planned: State | None = None
    #: Called when the form is found to be valid, before anything is written.
    when_valid: Callable[[], None] | None = None
    #: Fills the forms while the view makes them; None where the view is sent what a page has shown.
    filling: Filling | None = None
    #: Words for the history, which name who acts.
    by: str = ""
    form: Any = None
    formsets: list[Any] = field(default_factory=list)
    #: Of each formset its inline, and what it is made with.
    inlines: list[Any] = field(default_factory=list)
    made_with: list[dict[str, Any]] = field(default_factory=list)
    obj: models.Model | None = None
    #: Whether the view has said that it is done.
    is_done: bool = False

    def prepare_form(self, form: Any) -> None:
        """Called with the form of the page, once the view has made it."""
        if self.lost_precision is not None:
            self.lost_precision.prepare_form(form)

    def begin_to_write(self) -> None:
        """Raises Stop where nothing may be written."""
        if self.lost_precision is not None:
            self.lost_precision.restore_rows(self.formsets)
        if self.when_valid is not None:
            self.when_valid()
        self.stop()

    def stop(self) -> None:
        if not self.writes:
            raise Stop


class _Hooks(ModelAdmin):  # type: ignore[type-arg]
    """What a twin does before and after the hooks of the project, which get the arguments as Django gives them.

    A project may leave out those that Django does not give.
    """

    mcp_run: ViewRun

    def get_queryset(self, request: HttpRequest) -> Any:
        return _to_be_written(super().get_queryset(request))

    def get_formset_kwargs(self, request: HttpRequest, obj: Any, inline: Any, prefix: str) -> Any:
        found = super().get_formset_kwargs(request, obj, inline, prefix)
        if "queryset" in found:
            found = {**found, "queryset": _to_be_written(found["queryset"])}
        self.mcp_run.made_with.append(found)
        return found

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form_class, run = super().get_form(request, *args, **kwargs), self.mcp_run
        if run.filling is None or "fields" not in kwargs:
            return exact(form_class, run.prepare_form)
        fill = partial(run.filling.fill_form, self, request, kwargs["fields"], form_class)
        return exact(form_class, run.prepare_form, fill)

    def get_formsets_with_inlines(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        filling = self.mcp_run.filling
        for formset_class, inline in super().get_formsets_with_inlines(request, *args, **kwargs):
            filled = formset_class
            if filling is not None:
                filled = filling.formset_class(self, request, formset_class, inline)
            yield filled, inline

    def _create_formsets(self, request: HttpRequest, obj: Any, *args: Any, **kwargs: Any) -> Any:
        run = self.mcp_run
        if run.filling is not None and run.filling.leaves_out_formsets(self, request, obj):
            formsets, inlines = [], []
        else:
            formsets, inlines = super()._create_formsets(request, obj, *args, **kwargs)  # type: ignore[misc]
        run.formsets, run.inlines = list(formsets), list(inlines)
        if run.filling is not None:
            run.filling.end(run.formsets)
        if run.lost_precision is not None:
            for formset in formsets:
                run.lost_precision.prepare_formset(formset)
        return formsets, inlines

    def save_form(self, request: HttpRequest, form: Any, *args: Any, **kwargs: Any) -> Any:
        obj = super().save_form(request, form, *args, **kwargs)
        run = self.mcp_run
        run.form, run.obj = form, obj
        if run.lost_precision is not None:
            run.lost_precision.restore(form, obj)
        return obj

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        self.mcp_run.begin_to_write()
        super().save_model(*args, **kwargs)

    def save_related(self, *args: Any, **kwargs: Any) -> None:
        self.mcp_run.stop()
        super().save_related(*args, **kwargs)

    def construct_change_message(self, *args: Any, **kwargs: Any) -> Any:
        said = super().construct_change_message(*args, **kwargs)
        return f"{text_of_history(said)} ({self.mcp_run.by})" if self.mcp_run.by else said

    def delete_model(self, *args: Any, **kwargs: Any) -> None:
        self.mcp_run.stop()
        super().delete_model(*args, **kwargs)

    def delete_queryset(self, *args: Any, **kwargs: Any) -> None:
        self.mcp_run.stop()
        super().delete_queryset(*args, **kwargs)
        self.mcp_run.is_done = True

    def response_delete(self, *args: Any, **kwargs: Any) -> Any:
        return self._respond(partial(super().response_delete, *args, **kwargs), self.mcp_run.obj)

    def response_add(self, request: HttpRequest, obj: Any, *args: Any, **kwargs: Any) -> Any:
        return self._respond(partial(super().response_add, request, obj, *args, **kwargs), obj)

    def response_change(self, request: HttpRequest, obj: Any, *args: Any, **kwargs: Any) -> Any:
        return self._respond(partial(super().response_change, request, obj, *args, **kwargs), obj)

    def _respond(self, respond: Callable[[], HttpResponseBase], obj: Any) -> HttpResponseBase | None:
        self.mcp_run.is_done, self.mcp_run.obj = True, obj
        try:
            return respond()
        except NoReverseMatch:
            # The admin site is in no URLconf, and nobody follows the redirect.
            return None


def _to_be_written(queryset: Any) -> Any:
    """The rows from where they are written: a replica may lag, and what it has would be written back."""
    return queryset if names_database(queryset) else queryset.using(router.db_for_write(queryset.model))


def twin_of(admin: ModelAdmin[Any], run: ViewRun) -> Any:
    """A copy of the ModelAdmin for one pass."""
    twin: Any = copy.copy(admin)
    twin.__class__ = _class_of(type(admin))
    twin.mcp_run = run
    # The context of every page of the admin asks the database, and needs its URLs.
    twin.admin_site = copy.copy(admin.admin_site)
    twin.admin_site.each_context = lambda request: {}
    return twin


def text_of_history(message: Any) -> str:
    """What an entry of the history says, where it is a list of what was changed."""
    from django.contrib.admin.models import LogEntry

    return message if isinstance(message, str) else LogEntry(change_message=json.dumps(message)).get_change_message()


@lru_cache(maxsize=1_000)
def _class_of(cls: Any) -> Any:
    """The class of twins, made once: with our hooks in front of those of the class."""
    return type(cls)(cls.__name__, (_Hooks, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
