"""Whether the cells of lists are answered as the admin renders them."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from html.parser import HTMLParser
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import display_for_value, label_for_field
from django.core.exceptions import FieldDoesNotExist
from django.db.models import FileField
from django.utils import timezone
from django.utils.dateparse import parse_duration

from mcp_django.bridge.declared.admin_form import has_list
from mcp_django.bridge.resources.fields.field_kinds import partners
from mcp_django.bridge.resources.fields.html_text import text_of
from mcp_django.test import MCPClient
from tests.projects.rendered import Browser
from tests.projects.rows import key_of

#: A cell: the model and its column, what is answered, and what a person reads.
Cell = tuple[str, Any, str]

_EMPTY = "-"
_PAGE = 100


class _Rows(HTMLParser):
    """The markup of the cells of a list, row by row, by the names in their classes."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=False)
        self.rows: list[dict[str, str]] = []
        self._is_inside = False
        self._name = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._is_inside |= found.get("id") == "result_list"
        if not self._is_inside:
            return
        if tag == "tr":
            self.rows.append({})
        elif tag in ("td", "th") and self.rows and not self._name:
            named = re.match(r"field-(\S+)", found.get("class", ""))
            if named is not None:
                self._name = named[1]
                self.rows[-1][self._name] = ""
        elif self._name:
            self._add(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._is_inside = False
        elif tag in ("td", "th"):
            self._name = ""
        else:
            self._add(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._add(data)

    def handle_entityref(self, name: str) -> None:
        self._add(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._add(f"&#{name};")

    def _add(self, markup: str) -> None:
        if self._name:
            self.rows[-1][self._name] += markup


def cells(admin: ModelAdmin[Any], browser: Browser, agent: MCPClient) -> Iterator[tuple[Cell, bool]]:
    """The cells of the list of a model that are answered, and whether each is answered as it is rendered.

    Those of relations, choices, files and money are left out: an agent gets keys, addresses, and amounts beside their
    currencies.
    """
    if not has_list(admin):
        return
    response: Any = browser.client.get(browser.url(admin.model, "changelist"))
    changelist = (getattr(response, "context_data", None) or {}).get("cl")
    if not hasattr(changelist, "result_list"):
        return
    rows = [row for row in _Rows(response.content.decode()).rows if row]
    names = [name for name in changelist.list_display if isinstance(name, str) and _is_compared(admin, name)]
    answered = _answered(agent, admin, names)
    linked = {name for name in changelist.list_display_links or () if isinstance(name, str)}
    for row, shown in zip(changelist.result_list, rows, strict=False):
        for name, value in answered.get(key_of(row), {}).items():
            if (markup := shown.get(name)) is not None:
                read = _inside_link(markup) if name in linked else markup
                text = _as_read(read)
                yield (f"{admin.opts.label_lower}.{name}", value, text), text in _readings(value)


def _is_compared(admin: ModelAdmin[Any], name: str) -> bool:
    if name in admin.list_editable:
        return False
    try:
        field: Any = admin.opts.get_field(name)
    except FieldDoesNotExist:
        label_for_field(name, admin.model, admin)
        return True
    is_other = field.is_relation or field.choices or isinstance(field, FileField)
    return not (is_other or name in partners(admin.model))


def _answered(agent: MCPClient, admin: ModelAdmin[Any], names: list[str]) -> dict[str, dict[str, Any]]:
    """The values of each row by the names of the columns; without a column that is not answered."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        asked = {"model": admin.opts.label_lower, "fields": [name], "limit": _PAGE}
        result = agent.call("find_records", raise_on_error=False, **asked)
        if result.is_error or name not in result.structured["columns"]:
            continue
        place = result.structured["columns"].index(name)
        for row in result.structured["rows"]:
            found.setdefault(str(row[0]), {})[name] = row[place]
    return found


def _inside_link(markup: str) -> str:
    """What a cell shows, without the link to the form that the list puts around it."""
    inside = re.fullmatch(r"\s*<a [^>]*>(.*)</a>\s*", markup, re.DOTALL)
    return markup if inside is None else inside[1]


def _as_read(markup: str) -> str:
    icon = re.fullmatch(r'\s*<img src="[^"]*/icon-(?:yes|no|unknown)\.svg" alt="(\w+)">\s*', markup)
    return icon[1] if icon else text_of(markup)


def _readings(value: Any) -> set[str]:
    """How the admin may render what an agent is given."""
    texts = {" ".join(str(value).split())}
    if value is None or value == "":
        return {_EMPTY, "", "None"}
    if isinstance(value, bool | int | float):
        return texts | {str(display_for_value(value, _EMPTY)), str(value)}
    if not isinstance(value, str):
        return {json.dumps(value, ensure_ascii=False)}
    with suppress(InvalidOperation):
        texts.add(str(display_for_value(Decimal(value), _EMPTY)))
    if (duration := parse_duration(value)) is not None:
        texts.add(str(duration))
    for cls in (datetime.datetime, datetime.date, datetime.time):
        with suppress(ValueError):
            moment: Any = cls.fromisoformat(value)
            is_aware = isinstance(moment, datetime.datetime) and timezone.is_aware(moment)
            texts.add(str(display_for_value(timezone.localtime(moment) if is_aware else moment, _EMPTY)))
    return texts
