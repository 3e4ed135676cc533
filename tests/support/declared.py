"""Declarations of one test on the default site and in the admin, which are undone when the test ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from django.contrib import admin
from django.db import models

from mcp_django import ModelMCP, expose, prompt, resource, site, tool


class Declared:
    """Declarations of one test."""

    def __init__(self) -> None:
        self._undo = ExitStack()
        #: Whether the site has to read its declarations anew after the test.
        self._is_used = False

    def admin(self, model: type[models.Model], admin_class: type[admin.ModelAdmin] | None) -> None:
        """The model's ModelAdmin; None takes the model out of the admin."""
        registry = admin.site._registry
        self._afterwards(self._restore, model, registry.get(model))
        if admin_class is None:
            registry.pop(model, None)
        else:
            registry[model] = admin_class(model, admin.site)
        site._forget()

    def model(self, model: type[models.Model], model_mcp: type[ModelMCP] | None = None, **options: Any) -> None:
        """How the model is exposed, in the place of how the test site declares it."""
        before = site._declared.pop(model, None)
        try:
            site.register(model, model_mcp, **options)
        finally:
            self._afterwards(self._declare_again, model, before)

    def unregister(self, model: type[models.Model]) -> None:
        """The model is exposed as without a registration."""
        before = site._declared[model]
        site.unregister(model)
        self._afterwards(self._declare_again, model, before)

    def tool(self, function: Callable[..., Any], **options: Any) -> None:
        tool(**options)(function)
        self._afterwards(site._functions.pop, next(reversed(site._functions)))

    def prompt(self, function: Callable[..., Any], **options: Any) -> None:
        prompt(**options)(function)
        self._afterwards(site.prompts.pop, options.get("name") or function.__name__)

    def resource(self, uri: str, function: Callable[..., Any], **options: Any) -> None:
        """A resource or a resource template."""
        resource(uri, **options)(function)
        self._afterwards(site.resources.pop, uri)

    def expose(self, target: Any, **options: Any) -> None:
        """Offer operations of an API on the default site."""
        before = dict(site.resources)
        expose(target, **options)
        self._afterwards(site.resources.update, before)
        self._afterwards(site._exposures.pop)
        self._afterwards(site.resources.clear)

    def forget(self) -> None:
        """The site reads its declarations anew, now and after the test: for a test that changes a setting."""
        self._is_used = True
        site._forget()

    def close(self) -> None:
        self._undo.close()
        if self._is_used:
            site._forget()

    def _afterwards(self, undo: Callable[..., Any], *args: Any) -> None:
        self._is_used = True
        self._undo.callback(undo, *args)

    def _declare_again(self, model: type[models.Model], before: ModelMCP | None) -> None:
        site._declared.pop(model, None)
        if before is not None:
            site._declared[model] = before
        site._forget()

    def _restore(self, model: type[models.Model], before: Any) -> None:
        admin.site._registry.pop(model, None)
        if before is not None:
            admin.site._registry[model] = before
        site._forget()
