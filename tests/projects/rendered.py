"""What the rendered admin shows a user, read from the pages of its changelists and change forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from itertools import islice
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.db import models
from django.test import Client
from django.urls import NoReverseMatch, reverse

from tests.projects.rows import key_of

Model = type[models.Model]

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """A page of the admin: the names and keys that its markup carries."""

    def __init__(self, html: str) -> None:
        super().__init__()
        #: Names of the columns of a changelist.
        self.columns: set[str] = set()
        self.checked: list[str] = []
        self.links: list[str] = []
        #: Names of the fields of a form, outside of its inlines.
        self.fields: set[str] = set()
        #: Names of the fields of each row of an inline, by the prefix of the inline and the position of the row.
        self.inlined: dict[tuple[str, int], set[str]] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._see(tag, found)
        if tag not in _VOID:
            self._open.append((tag, found))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._see(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        for position in reversed(range(len(self._open))):
            if self._open[position][0] == tag:
                del self._open[position:]
                return

    def _see(self, tag: str, attrs: dict[str, str]) -> None:
        classes = attrs.get("class", "").split()
        if tag == "th" and self._is_inside("id", "result_list"):
            self.columns.update(_named("column-", classes))
        if attrs.get("name") == "_selected_action":
            self.checked.append(attrs.get("value", ""))
        if tag == "a" and self._is_inside("id", "result_list"):
            self.links.append(attrs.get("href", ""))
        prefix = self._inline()
        if prefix is None:
            self.fields.update(_named("field-", classes))
        elif (index := self._row_of(prefix)) is not None:
            self.inlined.setdefault((prefix, index), set()).update(_named("field-", classes))

    def _inline(self) -> str | None:
        """The prefix of the inline that an element belongs to."""
        for _, found in self._open:
            if found.get("id", "").endswith("-group") and "inline-group" in found.get("class", "").split():
                return found["id"].removesuffix("-group")
        return None

    def _row_of(self, prefix: str) -> int | None:
        """The position of the row of an inline that an element belongs to."""
        rows = (re.fullmatch(rf"{re.escape(prefix)}-(\d+)", found.get("id", "")) for _, found in reversed(self._open))
        return next((int(row[1]) for row in rows if row is not None), None)

    def _is_inside(self, name: str, value: str) -> bool:
        return any(found.get(name) == value for _, found in self._open)


def name_of(name: str) -> str:
    """Pages number functions without a name by their position."""
    return "<lambda>" if re.fullmatch(r"lambda\d*|<lambda>", name) else name


def _named(prefix: str, classes: Iterable[str]) -> Iterator[str]:
    return (name_of(name.removeprefix(prefix)) for name in classes if name.startswith(prefix))


def _names_in(form: Iterable[Any]) -> set[str]:
    """The names of the fields that a form of the admin was given to show."""
    fields = (one.field for fieldset in form for line in fieldset for one in line)
    return {name_of(field["name"] if isinstance(field, dict) else field.name) for field in fields}


def _names_in_list(changelist: Any) -> set[str]:
    """The names of the columns that a changelist was given to show, for templates that write no names."""
    listed = [item for item in getattr(changelist, "list_display", ()) if item != "action_checkbox"]
    return {name_of(item if isinstance(item, str) else getattr(item, "__name__", "")) for item in listed}


def _in_markup(found: set[str], given: set[str]) -> set[str]:
    """The names that were given and are found; those given, where templates of a package write no names."""
    return found & given or given or found


@dataclass
class Shown:
    """What the admin shows a user of one model."""

    #: Why a page failed, for what the admin itself cannot show.
    failed: list[str] = field(default_factory=list)
    has_list: bool = False
    columns: set[str] = field(default_factory=set)
    #: The keys of the rows on the changelist, as text.
    listed: set[str] = field(default_factory=set)
    #: The fields of the change form of each row that has one.
    forms: dict[str, set[str]] = field(default_factory=dict)
    #: Rows that a change form shows in an inline: the model, with the names of its fields by the key of the row.
    inlines: dict[Model, dict[str, set[str]]] = field(default_factory=dict)

    def names_of(self, key: str) -> set[str]:
        """The names of what the admin shows of a row."""
        columns = self.columns if key in self.listed else set()
        # The title of a form is the text of the row.
        return columns | {*self.forms[key], "__str__"} if key in self.forms else columns


class Browser:
    """A user who looks at the pages of an AdminSite."""

    def __init__(self, admin_site: AdminSite, user: Any) -> None:
        self.admin_site = admin_site
        self.client = Client(raise_request_exception=False)
        self.client.force_login(user)
        #: All that was ever shown to this user, as text.
        self.seen: list[str] = []

    def look_at(self, model: Model, keys: Iterable[str]) -> Shown:
        """What the admin shows of a model, with the change forms of these rows and of those that it lists."""
        shown = Shown()
        page, context = self._get(shown, model, "changelist")
        if page is not None:
            shown.has_list = True
            shown.columns = page.columns or _names_in_list(context.get("cl"))
            # Rows without a box and a link are in the page, but their keys are not. A page may be no list of rows.
            rows = (key_of(row) for row in getattr(context.get("cl"), "result_list", ()))
            shown.listed = set(page.checked) or set(self._linked(model, page)) or set(rows)
        for key in sorted({*keys, *shown.listed}):
            page, context = self._get(shown, model, "change", key)
            if page is None:
                continue
            shown.forms[key] = _in_markup(page.fields, _names_in(context.get("adminform", ())))
            for inline in context.get("inline_admin_formsets", ()):
                self._look_at_inline(shown, page, inline)
        return shown

    def _look_at_inline(self, shown: Shown, page: Page, inline: Any) -> None:
        rows = shown.inlines.setdefault(inline.formset.model, {})
        # Those of rows come first. The empty one at the end may ask who the user of the request is.
        for index, form in enumerate(islice(inline, len(inline.formset.initial_forms))):
            if form.original is not None and form.original.pk is not None:
                names = _in_markup(page.inlined.get((inline.formset.prefix, index), set()), _names_in(form))
                rows.setdefault(key_of(form.original), set()).update(names)

    def url(self, model: Model, view: str, *keys: str) -> str:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{view}"
        return reverse(name, args=[quote(key) for key in keys], current_app=self.admin_site.name)

    def _linked(self, model: Model, page: Page) -> Iterator[str]:
        """The rows that a changelist without checkboxes links to."""
        beginning = self.url(model, "changelist")
        for link in page.links:
            found = re.match(re.escape(beginning) + r"(.+)/change/", link)
            if found is not None:
                yield unquote(found[1])

    def _get(self, shown: Shown, model: Model, view: str, *keys: str) -> tuple[Page | None, dict[str, Any]]:
        try:
            url = self.url(model, view, *keys)
        except NoReverseMatch:
            return None, {}  # The ModelAdmin has no such page.
        response: Any = self.client.get(url)
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            error = response.exc_info[0].__name__ if response.exc_info else response.status_code
            shown.failed.append(f"its {view} page fails with {error}")
        if response.status_code != HTTPStatus.OK:
            return None, {}
        html = response.content.decode()
        self.seen.append(html)
        return Page(html), getattr(response, "context_data", None) or {}
