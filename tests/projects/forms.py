"""Compares what is sent of the forms of an AdminSite, in the place of a browser, with what a browser submits of them.

The pages are those of a superuser: that of a new row, and that of a row of each model. What is stored by saving the
latter untouched is compared with what was stored before.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from unittest.mock import patch

from django.apps import apps
from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import quote
from django.db import models, transaction
from django.test import Client, override_settings
from django.urls import NoReverseMatch, reverse
from django.utils import timezone, translation

from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.writes import filling, pages
from mcp_django.bridge.writes.filling import Given, GivenForm
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.pages import FormPage
from mcp_django.bridge.writes.restoring import LostPrecision
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from tests.projects.rows import Factory, key_of
from tests.projects.submitted import Submission, comparable, submitted

#: Values of rows by the name of the model and the key.
Tables = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass
class Forms:
    """The differences on one site."""

    site: MCPSite
    #: A superuser.
    user: Any
    factory: Factory
    #: How many pages were compared, by the labels of the models.
    pages: Counter[str] = field(default_factory=Counter)
    #: How many of them were saved.
    saved: int = 0

    def __post_init__(self) -> None:
        self._client = Client(raise_request_exception=False)
        self._client.force_login(self.user)

    def lines(self) -> list[str]:
        """The differences as text, in order."""
        with one_way_of_writing():
            return sorted(self._lines())

    def _lines(self) -> Iterator[str]:
        for model, admin in self.site.model_admins.items():
            where = f"{self.site.name} {model._meta.label_lower}"
            for row in (None, *self.factory.rows_of(model)[:1]):
                yield from (f"{where}: {what}" for what in self._differences(admin, row))

    def _differences(self, admin: ModelAdmin[Any], row: models.Model | None) -> Iterator[str]:
        view = "add" if row is None else "change"
        try:
            expected = self._of_browser(admin, row)
        except _PageFails as error:
            yield f"its {view} page fails with {error}"
            return
        page = self._open(admin, row)
        if isinstance(page, str) or expected is None:
            if isinstance(page, FormPage):
                yield f"the {view} page has a form that a browser is not shown"
            elif expected is not None:
                yield f"the {view} page is not opened: {page}"
            return
        self.pages[admin.opts.label_lower] += 1
        data = filling.fill(page, {})
        yield from (f"the {view} page, {what}" for what in differing(expected, comparable(data.values)))
        if row is not None:
            yield from self._saved(admin, page, data, row, expected)

    def _of_browser(self, admin: ModelAdmin[Any], row: models.Model | None) -> Submission | None:
        """What a browser submits; None where the admin shows no form. Raises _PageFails."""
        try:
            response: Any = self._client.get(page_url(admin, row))
        except NoReverseMatch:
            return None  # The ModelAdmin has no such page.
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _PageFails(_error_of(response))
        return submitted(response.content.decode()) if response.status_code == HTTPStatus.OK else None

    def _open(self, admin: ModelAdmin[Any], row: models.Model | None) -> FormPage | str:
        try:
            return pages.open_page(admin, self._request(), None if row is None else row.pk)
        except Exception as error:  # noqa: BLE001 - it is reported
            return type(error).__name__

    def _saved(
        self, admin: ModelAdmin[Any], page: FormPage, data: FormData, row: models.Model, expected: Submission
    ) -> Iterator[str]:
        """What is otherwise once the page was saved as it is. Nothing of it stays."""
        lost_precision = LostPrecision(Given(GivenForm(page.form, "values")))
        before = _tables(admin, row)
        with undone():
            why = self._send(admin, data, ViewRun(writes=True, lost_precision=lost_precision), row)
            after = before if why else _tables(admin, row)
        if why:
            with undone():
                why_not = self._post(admin, row, expected)
            if why != why_not:
                yield f"saving it untouched {why}, and in a browser {why_not or 'works'}"
            return
        self.saved += 1
        for key in sorted(before.keys() | after.keys()):
            was, now = before.get(key, {}), after.get(key, {})
            names = [name for name in sorted(was.keys() | now.keys()) if was.get(name) != now.get(name)]
            yield from (f"saving it untouched changes {key[0]}.{name}" for name in names)

    def _send(self, admin: ModelAdmin[Any], data: FormData, run: ViewRun, row: models.Model) -> str:
        """Why the page cannot be saved."""
        try:
            sent = pages.send(admin, self._request(), data, run, row.pk)
        except Exception as error:  # noqa: BLE001 - it is reported
            return f"fails with {type(error).__name__}"
        return "" if sent.page is None else _refusal(sent.page.form, [one.formset for one in sent.page.inlines])

    def _post(self, admin: ModelAdmin[Any], row: models.Model, expected: Submission) -> str:
        """Why a browser cannot save the page."""
        response: Any = self._client.post(page_url(admin, row), expected)
        if response.status_code == HTTPStatus.FOUND:
            return ""
        if response.status_code != HTTPStatus.OK:
            return f"fails with {_error_of(response)}"
        context = response.context_data
        return _refusal(context["adminform"].form, [one.formset for one in context["inline_admin_formsets"]])

    def _request(self) -> MCPRequest:
        meta = {"HTTP_HOST": "testserver", "QUERY_STRING": ""}
        made = MCPRequest(path="/mcp", scheme="http", meta=meta, attributes={})
        return made.for_principal(Principal(self.user, frozenset(("read", "write"))))


class _PageFails(Exception):
    pass


def hold_defaults() -> None:
    """From now on defaults that are another value with each call, as random ones and the time, are the same with each.

    Two requests for the same page would else not show the same.
    """
    for column in {column for model in apps.get_models() for column in model._meta.concrete_fields}:
        if column.has_default() and callable(column.default):
            with suppress(Exception):  # One may ask for rows that are not there.
                column.default = _held(column.default())
                column.__dict__.pop("_get_default", None)


def _held(value: Any) -> Callable[[], Any]:
    return lambda: copy.deepcopy(value)


@contextmanager
def one_way_of_writing() -> Iterator[None]:
    """In German, which writes dates and numbers otherwise than JSON; in UTC, in which we send all moments; and at once,
    since pages may show the time.
    """
    with (
        timezone.override("UTC"),
        translation.override("de"),
        override_settings(USE_THOUSAND_SEPARATOR=True),
        patch.object(timezone, "now", return_value=timezone.now()),
    ):
        yield


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def page_url(admin: ModelAdmin[Any], row: models.Model | None) -> str:
    name = f"admin:{admin.opts.app_label}_{admin.opts.model_name}_{'add' if row is None else 'change'}"
    key = () if row is None else (quote(key_of(row)),)
    return reverse(name, args=key, current_app=admin.admin_site.name)


def _error_of(response: Any) -> str:
    if response.status_code == HTTPStatus.FORBIDDEN:
        return "PermissionDenied"
    return str(response.exc_info[0].__name__ if response.exc_info else response.status_code)


def _refusal(form: Any, formsets: Iterable[Any]) -> str:
    names = [*form.errors]
    for formset in formsets:
        names += [f"{one.prefix}-{name}" for one in formset.forms for name in one.errors]
        names += [formset.prefix] if formset.non_form_errors() else []
    return f"is refused for {', '.join(sorted(names))}"


def differing(expected: Submission, found: Submission) -> Iterator[str]:
    """What a browser submits otherwise than it is sent, by the names of the inputs."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield f"{name}: a browser sends it"
        elif name not in expected:
            yield f"{name}: a browser does not send it"
        elif expected[name] != found[name]:
            yield f"{name}: a browser sends another value"


def _tables(admin: ModelAdmin[Any], row: models.Model) -> Tables:
    """The row, and all rows between it and others and in its inlines."""
    between = [one.remote_field.through for one in admin.opts.many_to_many]
    found: list[models.QuerySet[Any]] = [admin.model._base_manager.filter(pk=row.pk)]
    found += [model._base_manager.all() for model in {*between, *(inline.model for inline in admin.inlines)}]
    return {_name_of(rows.model, each): _stored(rows.model, each) for rows in found for each in rows.values()}


def _name_of(model: type[models.Model], values: Mapping[str, Any]) -> tuple[str, str]:
    return model._meta.label_lower, repr(values[model._meta.pk.attname])


def _stored(model: type[models.Model], values: Mapping[str, Any]) -> Mapping[str, Any]:
    columns = {column.attname: column for column in model._meta.concrete_fields}
    return {name: value for name, value in values.items() if not getattr(columns[name], "auto_now", False)}
